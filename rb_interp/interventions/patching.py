"""Activation patching by role: which component, of which layer, at which role carries what the answer depends on.

    recovered = (mean m(patched) - mean m(corrupted)) / (mean m(clean) - mean m(corrupted))

with m the logit of the clean answer less that of the corrupted one at the last position, or the probability of the
clean answer. The corrupted rows run with one cell, a component of one layer at the positions of one role, from the
clean rows: 1 where the cell carries all that differs, 0 where it carries nothing, anything where others undo a part.
The control fills the same cell from rows that differ from the corrupted ones in noise alone, and so have their answer.

Source: causal tracing (Meng et al., 2022, arXiv:2202.05262), as in TransformerLens's ``generic_activation_patch``,
whose numbers these are; pitfalls in Heimersheim and Nanda (2024, arXiv:2404.15255).

How it can mislead. Two cells may recover the same half or one half each, and the matrix looks alike. Roles overlap: the
last position holds a noise token or an anchor, so it also counts in the cells of that role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.batched_patching import PatchGrid
from rb_interp.interventions.path import check_distinct, ratio_interval
from rb_interp.interventions.path import patch as patch
from rb_interp.interventions.path import patched_logits as patched_logits
from rb_interp.interventions.sites import HOOKS, PER_HEAD, Site, components_of, missing_component, site_positions
from rb_interp.kinds import name_among
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.check import check_model, has_attention
from rb_interp.statistics.reading import html_table
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads

COMPONENTS = tuple(HOOKS)
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
"""The cells of a matrix by default."""
METRICS = ("logit_diff", "probability")
"""``logit_diff`` in logits (nats), ``probability`` in [0, 1]."""


@dataclass(frozen=True)
class PatchingMatrix:
    """What each cell recovers; a notebook shows it as its table.

    Arrays are ``[component, layer, role]`` in the order of the three names.

    Attributes:
        components, layers, roles: what was patched, where and at which roles, in the order of the cells.
        metric: ``logit_diff`` or ``probability``. head: the head of the cells, or None for all heads at once.
        clean, corrupted: metric of each row, unpatched. patched: of each row with each cell patched.
        control_patched: the same with the control's activation, or None.
        notes: component -> what its cells are of besides, or why there are none.
    """

    components: tuple[str, ...]
    layers: tuple[int, ...]
    roles: tuple[str, ...]
    metric: str
    head: int | None
    clean: Float[np.ndarray, " row"]
    corrupted: Float[np.ndarray, " row"]
    patched: Float[np.ndarray, "component layer role row"]
    control_patched: Float[np.ndarray, "component layer role row"] | None
    notes: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.clean)

    @property
    def values(self) -> Float[np.ndarray, "component layer role"]:
        """Share recovered: 1 all, 0 none."""
        return self._share(self.patched)

    @property
    def control(self) -> Float[np.ndarray, "component layer role"]:
        """Share that the control recovers, near 0 where a patch as such does nothing; nan without a control."""
        nothing = np.full(self.patched.shape[:3], np.nan)
        return nothing if self.control_patched is None else self._share(self.control_patched)

    @property
    def ends(self) -> tuple[Float[np.ndarray, "component layer role"], Float[np.ndarray, "component layer role"]]:
        """Lower and upper end of the 95 % interval over inputs, see ``ratio_interval``."""
        return ratio_interval(self.patched - self.corrupted, self.clean - self.corrupted)

    def _share(
        self, patched: Float[np.ndarray, "component layer role row"]
    ) -> Float[np.ndarray, "component layer role"]:
        return (patched.mean(-1) - self.corrupted.mean()) / (self.clean.mean() - self.corrupted.mean())

    def table(self) -> pd.DataFrame:
        """One row a cell: component, layer, role, recovered, low, high, control, n."""
        names = pd.Index(["component", "layer", "role"])
        cells = pd.DataFrame(product(self.components, self.layers, self.roles), columns=names)
        low, high = self.ends
        columns = {"recovered": self.values, "low": low, "high": high, "control": self.control}
        return cells.assign(**{name: found.ravel() for name, found in columns.items()}, n=len(self))

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(f'{name}: {why}')}</p>" for name, why in self.notes.items())
        return html_table(self.table(), f"share of the {self.metric} recovered, n = {len(self)}") + notes


@checked
@few_threads
def patching_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    roles: Sequence[str] | None = None,
    head: int | None = None,
    metric: Annotated[str, name_among(*METRICS)] = "logit_diff",
    control: Inputs | None = None,
) -> PatchingMatrix:
    """Share of the clean answer that each cell (component, layer, role) restores in the corrupted rows.

    Args:
        clean, corrupted: pairs of rows with different answers, for instance ``inputs`` and ``counterfactual``. A role
            may stand elsewhere in one of a pair than in the other.
        components: by default those of ``COMPONENTS`` that the model has; with a head, those that have heads. Where a
            role stands elsewhere in one of a pair, there are no cells of ``pattern``.
        layers: by default all. roles: by default those of ``ROLES`` that the rows have.
        head: one head, or all of them at once. Cells of k and v are those that it shares with other heads, where
            queries are grouped.
        metric: ``logit_diff`` (nats) or ``probability`` of the clean answer.
        control: rows that differ from ``corrupted`` in noise alone.

    Raises:
        ModelError: where rows are no pairs, a name is unknown, or the model does not tell clean from corrupted.
        RolesError: for a role that the rows do not have.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = patching_matrix(model, clean, corrupted, roles=("key", "noise"))
    >>> matrix.table().query("component == 'resid_pre' and layer == 0").recovered.round(3).tolist()
    [1.0, 0.0]
    """
    check_model(model, "patching_matrix")
    if metric not in METRICS:
        raise ModelError(f"there is no metric '{metric}'; {nearest(metric, METRICS)}")
    if not has_attention(model):
        Site(next(iter(components or ("resid_pre",))), 0).check(model)
    there = {"last", *clean.roles.positions}
    there |= {"first_anchor", "last_anchor"} if "anchor" in there else set()
    roles = tuple(role for role in ROLES if role in there) if roles is None else tuple(roles)
    if not roles:
        raise ModelError("a matrix needs at least one role; name some, such as 'last', or leave roles= away.")
    numbers = tuple(range(model.cfg.n_layers) if layers is None else layers)
    chosen, notes = tuple(components or ()), {}
    if not chosen:
        names = COMPONENTS if head is None else PER_HEAD
        chosen, notes = _default_components(model, names, _moved(roles, corrupted, clean, control))
    groups = [Site(component, layer, head=head) for component, layer in product(chosen, numbers)]
    cells = PatchGrid(model, clean, corrupted, groups, roles, metric)
    shape = (len(chosen), len(numbers), len(roles), len(clean))
    with cells.ready():
        check_distinct(cells.clean, cells.corrupted, metric)
        patched = cells.run(clean).reshape(shape)
        harmless = None if control is None else cells.run(control).reshape(shape)
    notes |= {site.component: shared for site in groups if (shared := site.shared(model))}
    return PatchingMatrix(chosen, numbers, roles, metric, head, cells.clean, cells.corrupted, patched, harmless, notes)


def _default_components(
    model: HookedModel, names: Sequence[str], moved: str | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Those that there can be cells of, and why there are none of the others."""
    there = components_of(model)
    notes = {name: f"no cells: {missing_component(name, model)}" for name in names if name not in there}
    if moved:
        notes["pattern"] = f"no cells: a pattern is over positions, and '{moved}' stands elsewhere in the other rows."
    return tuple(name for name in names if name not in notes), notes


def _moved(roles: Sequence[str], rows: Inputs, *others: Inputs | None) -> str | None:
    """The first role that does not stand at the same positions in other rows as in some rows, or None."""

    def at(role: str, inputs: Inputs) -> Tensor:
        return site_positions(Site("resid_pre", 0, role), inputs.roles, inputs.tokens.shape[1], len(inputs))

    given = [other for other in others if other is not None]
    return next(
        (role for role in roles if any(not torch.equal(at(role, rows), at(role, some)) for some in given)), None
    )
