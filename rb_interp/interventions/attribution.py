r"""Attribution patching: the whole patching matrix to first order, as a fast first look.

    m(patched) ~ m(run) + sum over the cell's positions of  dm/da . (a_source - a_run)

with a the activation at a cell and the gradient at the rows that run: two forward passes and one
backward pass for all cells. It is exact where the metric is linear in the activation, and misses
what is not: a softmax or a probability that is saturated has no gradient, though patching it
changes the answer.

Source: Nanda (2023, attribution patching, neelnanda.io); Syed et al. (2023, arXiv:2310.10348);
Kramár et al. (2024, arXiv:2403.00745), whose corrections for saturated attention and cancelled
gradients are not applied here.

How it can mislead. Cells of the residual stream hold all that differs, so their change is large and
an attribution far off: read sublayers and heads. An attribution of 0 does not say that a cell does
nothing: confirm with the exact cell. Under ``kl`` the gradient is 0 at the clean rows, and so is an
attribution that noises.

`Cells` says which cells a matrix has, exact or to first order, and why some are missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.edits import gather
from rb_interp.interventions.effect import Direction
from rb_interp.interventions.matrix import Matrix
from rb_interp.interventions.metrics import AnswerAt, MetricLike, answer_positions, measure
from rb_interp.interventions.paired_run import Activations, PairedRun
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel, resid_mid_is_a_copy
from rb_interp.models.structure import attached, device_of, evaluation, hook_points, rows_of_a_pass
from rb_interp.probes.activations import as_rows
from rb_interp.tasks.inputs import Inputs

__all__ = [
    "attribution_matrix",
]

COMPONENTS = tuple(name for name in sites.HOOKS if name not in (*sites.EMBEDDINGS, "mlp_post"))
"""Components that have cells by default."""
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
"""Roles that have cells by default, after those of the caller's own."""
Names = str | Sequence[str] | None
Layers = Sequence[int] | None
Heads = int | Literal["all"] | None
POSITIONS = "positions"
"""What ``roles`` is for a cell at each position."""
PatchedCells = Float[np.ndarray, "source group role row"]
"""The metric of each row with each cell from each source."""


class Cells:
    """The cells of a matrix: each of ``groups``, a component in its layer, at each role.

    Attributes:
        components: those with cells.
        layers: those with cells.
        heads: those with cells; None for all of them at once.
        roles: those with cells, or the positions.
        groups: the site of each component, layer and head, without a role.
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
        layers: Layers,
        roles: Names,
        head: Heads,
    ) -> None:
        rows = [corrupted, clean] if direction == "denoise" else [clean, corrupted]
        if control is not None:
            rows.append(control)
        if isinstance(components, str):
            components = (components,)
        if isinstance(roles, str):
            roles = (roles,)
        n_layers = model.cfg.n_layers
        self.notes: dict[str, str] = {}
        self.layers = tuple(range(n_layers) if layers is None else layers)
        self.by_head = head == "all"
        self.heads: tuple[int | None, ...] = (
            (head,) if head != "all" else (*range(model.cfg.n_heads),)
        )
        self.by_position = roles == (POSITIONS,)
        if self.by_position:
            roles = [*map(str, range(clean.tokens.shape[1]))]
        elif roles is None:
            roles = ("all",) if self.by_head else default_roles(rows)
        self.roles = tuple(roles)
        if components:
            self.components = tuple(components)
        else:
            self.components = ("z",) if self.by_head else self._default_components(model, rows)
        self.groups = self._groups(model)
        if not self.groups or not self.roles:
            raise ModelError(
                "there are no cells: name a role and a component that the model has; embeddings "
                "are in L0."
            )
        self.streams = streams_of(model)
        self.hooks = read_hooks(self.groups, self.streams)

    def _default_components(self, model: HookedModel, rows: Sequence[Inputs]) -> tuple[str, ...]:
        """Components that the model has; no pattern if a role stands elsewhere in some rows."""
        candidates = COMPONENTS if self.heads == (None,) else sites.PER_HEAD
        available = sites.components_of(model)
        for name in candidates:
            if name not in available:
                self.notes[name] = "no cells: this model has none."
        for role in self.roles:
            base, *sources = [sites.positions(inputs, role) for inputs in rows]
            if not all(np.array_equal(base, positions) for positions in sources):
                self.notes["pattern"] = (
                    f"no cells: a pattern is over positions, and '{role}' is elsewhere in the "
                    f"other rows."
                )
                break
        return tuple(name for name in candidates if name not in self.notes)

    def _groups(self, model: HookedModel) -> list[Site]:
        """The site of each component in each layer that has one, and of each head."""
        groups = []
        anywhere = sites.components_of(model)
        for name, layer in product(self.components, self.layers):
            if name in sites.EMBEDDINGS and layer != 0:
                self.notes[name] = "stands before the first layer, and has cells in layer 0 alone."
                continue
            in_range = 0 <= layer < model.cfg.n_layers
            if name in anywhere and in_range and name not in sites.components_of(model, layer):
                self.notes[f"{name} of L{layer}"] = "no cells: this layer has no such hook."
                continue
            for head in self.heads:
                site = Site(name, layer, unit=head)
                site.check(model)
                groups.append(site)
                shared = site.sharing_note(model)
                if shared:
                    of_all = "each k and v is shared by the heads of its group"
                    self.notes[name] = shared if len(self.heads) == 1 else of_all
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
        axes: dict[str, Sequence] = {"component": self.components, "layer": self.layers}
        if self.by_head:
            axes["head"] = self.heads
        axes["position" if self.by_position else "role"] = self.roles
        sizes = (len(self.components), len(self.layers), len(self.heads), *patched.shape[2:])
        cells = np.full((len(patched), *sizes), np.nan)
        for group, site in enumerate(self.groups):
            component = self.components.index(site.component)
            layer = self.layers.index(site.layer)
            cells[:, component, layer, self.heads.index(site.unit)] = patched[:, group]
        positions = {role: sites.positions(pair.base, role) for role in self.roles}
        missing: dict[str, list[str]] = defaultdict(list)
        for number, role in enumerate(self.roles):
            reason = ""
            if not positions[role].size:
                reason = "it has no position in these rows."
            elif not pair.reads(Site("embed", 0), positions[role]):
                reason = "it stands behind the answer, which sees none of it."
            if reason:
                missing[reason].append(role)
                cells[..., number, :] = np.nan
                del positions[role]
        for reason, roles in missing.items():
            self.notes[", ".join(roles)] = f"no cells: {reason}"
        cells = cells.reshape(len(cells), *map(len, axes.values()), -1)
        unread: dict[tuple[int, str], list[str]] = defaultdict(list)
        for site in self.groups:
            out_of_reach = [role for role in positions if not pair.reads(site, positions[role])]
            if out_of_reach:
                unread[site.layer, ", ".join(out_of_reach)].append(site.component)
        for (layer, names), components in unread.items():
            self.notes[f"{', '.join(dict.fromkeys(components))} of L{layer}"] = (
                f"no path leads from {names} to the answer, so these shares are 0 in any model."
            )
        if len(patched) > 1:
            acts, control_acts = (patched != pair.start).any(-1)
            n_unmoved = int((acts & ~control_acts).sum())
            if n_unmoved:
                self.notes["control"] = (
                    f"in {n_unmoved} of the {int(acts.sum())} cells that do something it changes "
                    f"nothing."
                )
        return pair.matrix(axes, cells, self.notes, method)


def streams_of(model: HookedModel) -> list[Site]:
    """The residual stream before each layer, and after the last."""
    after = [Site("resid_post", layer) for layer in range(model.cfg.n_layers)]
    return [Site("resid_pre", 0), *after]


def read_hooks(groups: Sequence[Site], streams: Sequence[Site]) -> list[str]:
    """Hooks of sites, and of what a run that begins at the block of one of them needs."""
    read_sites = list(groups)
    for site in groups:
        read_sites += streams[site.layer : site.layer + 2]
        read_sites.append(Site("resid_pre", site.layer))
    return list(dict.fromkeys(site.hook for site in read_sites))


def default_roles(rows: Sequence[Inputs]) -> tuple[str, ...]:
    """The roles that all rows have, the caller's own first, and those of every row such as last."""
    first, *sources = [inputs.roles.positions for inputs in rows]
    in_all = set(first).intersection(*sources)
    shared = [role for role in first if role in in_all]
    known = {"last", *shared}
    if "anchor" in shared:
        known |= {"first_anchor", "last_anchor"}
    of_caller = [role for role in shared if role not in ROLES]
    return (*of_caller, *(role for role in ROLES if role in known))


EMBED = "hook_embed"
CAPTURE_VALUES = 2**26
"""Values of the activations whose gradients are held at a time, at most."""


@checked
@single_threaded
def attribution_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Names = None,
    layers: Layers = None,
    roles: Names = None,
    head: Heads = None,
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> Matrix:
    """The patching matrix to first order: each cell's share if the metric were linear in it.

    The model keeps its weights, gradients, modes and hooks.

    Args:
        model: any model with TransformerLens's hooks.
        clean: rows with labels if the metric asks for them, for instance ``inputs``.
        corrupted: as many rows with different answers, for instance ``counterfactual``.
        components, layers, roles, head: as in `patching_matrix`.
        metric: a name or a function of torch tensors with a gradient; ``accuracy`` and ``rank``
            have none.
        answer_at: where the answer is read, by default at the last position.
        direction: ``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones
            into clean rows.
        control: rows that differ in noise alone from those that run, or None for no control.

    Raises:
        ModelError: the metric has no gradient, and whatever `patching_matrix` refuses.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = attribution_matrix(model, clean, corrupted, components=["embed"], layers=[0])
    >>> matrix.to_frame().query("role == 'noise'")["recovered"].tolist()
    [0.0]
    """
    with torch.inference_mode(False):
        rows = (clean, corrupted, direction, control)
        cells = Cells(model, *rows, components, layers, roles, head)
        pair = PairedRun(model, metric, answer_at, *rows, cells.hooks)
        return cells.matrix(pair, attributed_cells(pair, cells), "attribution")


def attributed_cells(pair: PairedRun, cells: Cells) -> PatchedCells:
    """The metric of each row with each cell from each source, to first order."""
    model = pair.model
    tokens = as_rows(pair.base.tokens)
    is_copy = resid_mid_is_a_copy(model)
    hooks = []
    for site in cells.groups:
        # the copy reaches the MLP alone, attn_out all that resid_mid does
        by_attention = is_copy and site.component == "resid_mid"
        hooks.append(Site("attn_out", site.layer).hook if by_attention else site.hook)
    untouched, *of_sources = pair.activations
    positions = [cells.positions(pair.base, source) for source in pair.sources]
    patched = np.tile(pair.start, (len(of_sources), len(cells.groups), len(cells.roles), 1))
    slope = metric_gradient(pair)
    values_in_a_row = sum(activation[0].numel() for activation in untouched.values())
    rows_in_a_pass = min(rows_of_a_pass(model, tokens), max(1, CAPTURE_VALUES // values_in_a_row))
    for rows in torch.arange(len(tokens)).split(rows_in_a_pass):
        gradients = activation_gradients(pair, rows, hooks, slope[rows])
        for number, activations in enumerate(of_sources):
            for group, site in enumerate(cells.groups):
                gradient = gradients[hooks[group]]
                hooked = site.in_hook(model)
                before = untouched[site.hook][rows]
                after = activations[site.hook][rows]
                for role, (base, source) in enumerate(positions[number]):
                    step = gather(hooked, after, source[rows])
                    step = step - gather(hooked, before, base[rows])
                    slopes = gather(hooked, gradient, base[rows])
                    change = (slopes.double() * step.double()).flatten(1).sum(1)
                    patched[number, group, role, rows.numpy()] += change.numpy()
    return patched


def metric_gradient(pair: PairedRun) -> Float[Tensor, "row d_vocab"]:
    """Gradient of the summed metric at the base rows' logits.

    Raises:
        ModelError: the metric has none.
    """
    logits = pair.base_logits.clone().requires_grad_()
    with torch.enable_grad():
        total = measure(pair.metric, logits, *pair.answers).sum()
    if not total.requires_grad:
        raise ModelError(
            f"the metric '{pair.metric.name}' has no gradient; use one that has, such as "
            f"logit_diff."
        )
    return torch.autograd.grad(total, logits)[0]


def activation_gradients(
    pair: PairedRun,
    rows: Tensor,
    hooks: list[str],
    slope: Float[Tensor, "row d_vocab"],
) -> dict[str, Tensor]:
    """Gradient of the metric at each hook in some base rows, on CPU; zeros if it acts on nothing."""
    answers = answer_positions(pair.answer_at, pair.base)[rows]
    logits, activations = forward_with_graph(pair.model, as_rows(pair.base.tokens)[rows], hooks)
    with torch.enable_grad():
        logits = logits[torch.arange(len(rows)), answers]
    gradients = torch.autograd.grad(
        logits, [*activations.values()], slope.to(logits), materialize_grads=True
    )
    return {name: part.cpu() for name, part in zip(activations, gradients, strict=True)}


def forward_with_graph(
    model: HookedModel, tokens: Tensor, hooks: list[str]
) -> tuple[Tensor, Activations]:
    """Logits and activations of a pass whose graph begins at the embedding.

    In an encoder it begins at the first block. Weights that are frozen, or made in inference mode
    and copied for this pass, give the numbers of others.
    """
    first = EMBED if hook_points(model, [EMBED]) else Site("resid_pre", 0).hook
    activations: Activations = {}

    def store(value: Tensor, hook: Any, name: str) -> Tensor:
        value = value.detach().clone() if name == first else value.clone()
        if not value.requires_grad:
            value.requires_grad_()
        activations[name] = value
        return value

    module = cast(Any, model)
    copies = {}
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_inference():
            copies[name] = value.clone()
    stores = [(name, partial(store, name=name)) for name in dict.fromkeys([first, *hooks])]
    with torch.enable_grad(), evaluation(model), attached(model, stores):
        device_tokens = tokens.to(device_of(model))
        logits = functional_call(module, copies, device_tokens) if copies else model(device_tokens)
    return logits, {name: activations[name] for name in hooks}
