"""The cells of a patching matrix: which there are, where they stand, and why some are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.effect import Direction, Matrix
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.tasks.inputs import Inputs

COMPONENTS = tuple(name for name in sites.HOOKS if name not in (*sites.EMBEDDINGS, "mlp_post"))
"""Components that have cells by default."""
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
"""Roles that have cells by default, after those of the caller's own."""
Names = Sequence[str] | None
Numbers = Sequence[int] | None
PatchedCells = Float[np.ndarray, "source group role row"]
"""The metric of each row with each cell from each source."""


class Cells:
    """The cells of a matrix: each of ``groups``, a component in its layer, at each role.

    Attributes:
        components: those with cells.
        layers: those with cells.
        roles: those with cells.
        groups: the site of each component and layer, without a role.
        notes: why cells are missing, and what some of them share.
        streams: the residual stream before each layer, and after the last.
        hooks: what a run must read to fill the cells.
    """

    def __init__(
        self,
        model: HookedModel,
        clean: Inputs,
        corrupted: Inputs,
        direction: Direction,
        control: Inputs | None,
        components: Names,
        layers: Numbers,
        roles: Names,
        head: int | None,
    ) -> None:
        rows = [corrupted, clean] if direction == "denoise" else [clean, corrupted]
        if control is not None:
            rows.append(control)
        n_layers = model.cfg.n_layers
        self.notes: dict[str, str] = {}
        self.layers = tuple(range(n_layers) if layers is None else layers)
        self.roles = default_roles(rows) if roles is None else tuple(roles)
        if components:
            self.components = tuple(components)
        else:
            self.components = self._default_components(model, rows, head)
        self.groups = self._groups(model, head)
        if not self.groups or not self.roles:
            raise ModelError(
                "there are no cells: name a role and a component that the model has; embeddings "
                "are in L0."
            )
        after = [Site("resid_post", layer) for layer in range(n_layers)]
        self.streams = [Site("resid_pre", 0), *after]
        read = list(self.groups)
        for site in self.groups:
            read += self.streams[site.layer : site.layer + 2]
            read.append(Site("resid_pre", site.layer))
        self.hooks = list(dict.fromkeys(site.hook for site in read))

    def _default_components(
        self, model: HookedModel, rows: Sequence[Inputs], head: int | None
    ) -> tuple[str, ...]:
        """Components that the model has; no pattern if a role stands elsewhere in some rows."""
        candidates = COMPONENTS if head is None else sites.PER_HEAD
        available = sites.components_of(model)
        for name in candidates:
            if name not in available:
                self.notes[name] = "no cells: this model has none."
        for role in self.roles:
            base, *others = [sites.positions(inputs, role) for inputs in rows]
            if not all(np.array_equal(base, positions) for positions in others):
                self.notes["pattern"] = (
                    f"no cells: a pattern is over positions, and '{role}' is elsewhere in the "
                    f"other rows."
                )
                break
        return tuple(name for name in candidates if name not in self.notes)

    def _groups(self, model: HookedModel, head: int | None) -> list[Site]:
        """The site of each component in each layer that has one."""
        groups = []
        anywhere = sites.components_of(model)
        for name in self.components:
            for layer in self.layers:
                if name in sites.EMBEDDINGS and layer != 0:
                    self.notes[name] = (
                        "stands before the first layer, and has cells in layer 0 alone."
                    )
                    continue
                in_range = 0 <= layer < model.cfg.n_layers
                if name in anywhere and in_range and name not in sites.components_of(model, layer):
                    self.notes[f"{name} of L{layer}"] = "no cells: this layer has none."
                    continue
                site = Site(name, layer, unit=head)
                site.check(model)
                groups.append(site)
                shared = site.sharing_note(model)
                if shared:
                    self.notes[name] = shared
        return groups

    def positions(
        self, base: Inputs, source: Inputs
    ) -> list[tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]]:
        """Positions of each role in the base rows and in their source, pair by pair."""
        patterns = [site for site in self.groups if site.component == "pattern"]
        strictest = [*patterns, *self.groups][0]  # a pattern must stand at the same positions
        return [sites.aligned(replace(strictest, role=role), base, source) for role in self.roles]

    def matrix(self, pair: PairedRun, patched: PatchedCells, method: str) -> Matrix:
        """The metric of each cell from the source and from the control, as a matrix with notes."""
        axes = {"component": self.components, "layer": self.layers, "role": self.roles}
        sizes = [len(axis) for axis in axes.values()]
        cells = np.full((len(patched), *sizes, patched.shape[-1]), np.nan)
        for group, site in enumerate(self.groups):
            component = self.components.index(site.component)
            layer = self.layers.index(site.layer)
            cells[:, component, layer] = patched[:, group]
        positions = {role: sites.positions(pair.base, role) for role in self.roles}
        for number, role in enumerate(self.roles):
            reason = ""
            if not positions[role].size:
                reason = "it has no position in these rows."
            elif not pair.reads(Site("embed", 0), positions[role]):
                reason = "it stands behind the answer, which sees none of it."
            if reason:
                self.notes[role] = f"no cells: {reason}"
                cells[..., number, :] = np.nan
                del positions[role]
        self._note_unread(pair, positions)
        self._note_control(pair, patched)
        return pair.matrix(axes, cells, self.notes, method)

    def _note_unread(self, pair: PairedRun, positions: dict[str, Int[np.ndarray, "row n"]]) -> None:
        """Note the cells that no path leads from to the answer, whose share is 0 whatever it is."""
        unread: dict[tuple[int, str], list[str]] = defaultdict(list)
        for site in self.groups:
            roles = [role for role in positions if not pair.reads(site, positions[role])]
            if roles:
                unread[site.layer, ", ".join(roles)].append(site.component)
        for (layer, roles), components in unread.items():
            self.notes[f"{', '.join(components)} of L{layer}"] = (
                f"no path leads from {roles} to the answer, so these shares are 0 in any model."
            )

    def _note_control(self, pair: PairedRun, patched: PatchedCells) -> None:
        """Note in how many of the cells that do something the control does nothing."""
        if len(patched) < 2:
            return
        acts, control_acts = (patched != pair.start).any(-1)
        n_unmoved = int((acts & ~control_acts).sum())
        if n_unmoved:
            self.notes["control"] = (
                f"in {n_unmoved} of the {int(acts.sum())} cells that do something it changes "
                f"nothing."
            )


def default_roles(rows: Sequence[Inputs]) -> tuple[str, ...]:
    """The roles that all rows have, the caller's own first, and those of every row such as last."""
    first, *others = [inputs.roles.positions for inputs in rows]
    shared = [role for role in first if all(role in other for other in others)]
    known = {"last", *shared}
    if "anchor" in shared:
        known |= {"first_anchor", "last_anchor"}
    own = [role for role in shared if role not in ROLES]
    return (*own, *(role for role in ROLES if role in known))
