r"""Activation patching by role: which component, of which layer, at which role carries what the answer depends on.

    denoise    recovered = (mean m(patched) - mean m(corrupted)) / (mean m(clean) - mean m(corrupted))
    noise      lost = (mean m(clean) - mean m(patched)) / (mean m(clean) - mean m(corrupted))

with m a metric of the logits where the answer is read: by default the logit of the clean answer less that of the
corrupted one at the last position. Denoising runs the corrupted rows with one cell, a component of one layer at the
positions of one role, from the clean rows: 1 where the cell carries all that differs, 0 where it carries nothing,
anything where others undo a part. It finds what suffices. Noising runs the clean rows with one cell from the corrupted
ones: 1 where all is lost. It finds what is needed. The control fills the same cell from rows that differ in noise alone
from those that run, and so have their answer.

Source: causal tracing (Meng et al., 2022, arXiv:2202.05262), as in TransformerLens's ``generic_activation_patch``,
whose numbers these are; pitfalls in Heimersheim and Nanda (2024, arXiv:2404.15255).

``patch`` is the context of such a pass, at one site or at several together, and ``patching_effect`` what they do to the
answer. Where two components each carry all of it, each alone recovers everything when denoising and loses nothing when
noising.

Attribution patching estimates the whole matrix at once, to first order, as a fast first look:

    m(patched) ~ m(run) + sum over the cell's positions of  dm/da . (a_source - a_run)

with a the activation at a cell and the gradient at the rows that run: two forward passes and one backward pass for all
cells. It is exact where the metric is linear in the activation, and misses what is not: a softmax or a probability that
is saturated has no gradient, though patching it changes the answer. Integrated gradients take the mean gradient at
``steps`` points between both kinds of rows, whose embeddings are mixed:

    mean over k of dm/da  at  embed = embed_run + (k - 1/2) / steps (embed_source - embed_run)

Source: Nanda (2023, attribution patching, neelnanda.io); Syed et al. (2023, arXiv:2310.10348); Kramár et al. (2024,
arXiv:2403.00745), whose corrections for saturated attention and cancelled gradients are not applied here; integrated:
Hanna et al. (2024, arXiv:2403.17806).

How it can mislead. Two cells may recover the same half or one half each, and the matrix looks alike. Roles overlap: the
last position holds a noise token or an anchor, so it also counts in the cells of that role. Cells of the residual
stream hold all that differs, so their change is large and an attribution far off: read sublayers and heads. Integrated
gradients are not always nearer: mixed embeddings are no rows of the task. An attribution of 0 does not say that a cell
does nothing: confirm with the exact cell. Under ``kl`` the gradient is 0 at the clean rows, so noising needs ``steps``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.batched_patching import CellRuns, role_positions
from rb_interp.interventions.effect import SHARES, Direction, Effect, Matrix, effect_of
from rb_interp.interventions.hooking import Edit, interchange_edits, last_logits, with_edits
from rb_interp.interventions.metrics import AnswerAt, Comparison, Measured, answer_positions, measure
from rb_interp.interventions.sites import (
    EMBEDDINGS,
    HOOKS,
    PER_HEAD,
    Site,
    Sites,
    components_of,
    gather,
    intervention,
    parse_sites,
    site_positions,
    told,
)
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows, attached, capture, evaluation, passes
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

__all__ = ["attribution_matrix", "patch", "patching_effect", "patching_matrix"]

COMPONENTS = tuple(name for name in HOOKS if name not in (*EMBEDDINGS, "mlp_post"))
"""Components that have cells by default."""
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
"""Roles that have cells by default, after those of the caller's own."""
Names = Sequence[str] | None
Numbers = Sequence[int] | None
EMBED = "hook_embed"
HELD_VALUES = 2**26
"""Values of the activations whose gradients are held at a time, at most."""


@intervention
def patching_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Names = None,
    layers: Numbers = None,
    roles: Names = None,
    head: int | None = None,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> Matrix:
    """Share of the clean answer that each cell (component, layer, role) restores in the corrupted rows.

    With ``direction="noise"`` the share that is lost in the clean rows when the cell is that of the corrupted ones.

    Args:
        clean, corrupted: pairs of rows with different answers, for instance ``inputs`` and ``counterfactual``. A role
            may stand elsewhere in one of a pair than in the other.
        components: by default those of ``COMPONENTS`` that the model has; with a head, those that have heads. Where a
            role stands elsewhere in one of a pair, there are no cells of ``pattern``.
        layers: by default all. roles: by default all that both kinds of rows have, and the last position.
        head: one head, or all of them at once; it may share its k and v.
        control: rows that differ in noise alone from those that run (denoise: ``corrupted``, noise: ``clean``), such
            as ``corrupted.with_tokens_of(other, "noise")``.

    Raises ModelError where rows are no pairs, a name is unknown, or the model does not tell clean from corrupted,
    RolesError for a role that the rows do not have.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = patching_matrix(model, clean, corrupted, roles=("key", "noise"))
    >>> matrix.to_frame().query("component == 'resid_pre' and layer == 0").recovered.round(3).tolist()
    [1.0, 0.0]
    """
    pair = Comparison(model, metric, answer_at, clean, corrupted, direction, control)
    cells = Cells(model, pair, components, layers, roles, head)
    at = answer_positions(answer_at, pair.base)
    runs = CellRuns(model, pair.base, cells.groups, cells.roles, at, pair.answers[direction == "denoise"].logits)

    def patched(source: Inputs) -> Float[np.ndarray, "group role row"]:
        values = np.tile(pair.start, (len(cells.groups), len(cells.roles), 1))
        for groups, role, logits in runs.run(source):
            values[groups, role] = pair.of(logits)
        return values

    return cells.matrix(pair, [patched(source) for source in pair.sources])


@intervention
@torch.inference_mode(False)
def attribution_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Names = None,
    layers: Numbers = None,
    roles: Names = None,
    head: int | None = None,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
    steps: int = 0,
) -> Matrix:
    """The patching matrix to first order: what each cell would recover if the metric were linear in it.

    The model keeps its weights, gradients, modes and hooks.

    Args:
        steps: 0 takes the gradient at the rows that run; more take the mean of so many on the way to the others.
        metric: a name or a function of torch tensors with a gradient; ``accuracy`` and ``rank`` have none. All others
            are those of ``patching_matrix``.

    Raises ModelError as ``patching_matrix`` does, and where the metric has no gradient.

    >>> from rb_interp import AnchorTask, build_model
    >>> from rb_interp.interventions.effect import rank_correlation
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> rank_correlation(attribution_matrix(model, *pair), patching_matrix(model, *pair)) > 0.9   # nearly linear
    True
    """
    pair = Comparison(model, metric, answer_at, clean, corrupted, direction, control)
    cells = Cells(model, pair, components, layers, roles, head)
    method = f"integrated attribution, {steps} steps" if steps else "attribution"
    return cells.matrix(pair, [pair.start + change for change in _changes(model, pair, cells, steps)], method)


class Cells:
    """The cells of a matrix: each of ``groups``, a component in its layer, at each role; why some are not there."""

    def __init__(
        self, model: HookedModel, pair: Comparison, components: Names, layers: Numbers, roles: Names, head: int | None
    ) -> None:
        self.roles = default_roles(pair.base, *pair.sources) if roles is None else tuple(roles)
        self.layers = tuple(range(model.cfg.n_layers) if layers is None else layers)
        self.components, self.notes = tuple(components or ()), {}
        if not self.components:
            wanted = COMPONENTS if head is None else PER_HEAD
            self.notes = {name: "no cells: this model has none." for name in wanted if name not in components_of(model)}
            for role, source in product(self.roles[::-1], pair.sources):
                if not torch.equal(*(site_positions(Site("q", 0, role), rows) for rows in (pair.base, source))):
                    why = f"no cells: a pattern is over positions, and '{role}' is elsewhere in the other rows."
                    self.notes["pattern"] = why
            self.components = tuple(name for name in wanted if name not in self.notes)
        self.groups = [
            Site(name, layer, unit=head)
            for name, layer in product(self.components, self.layers)
            if name not in EMBEDDINGS or layer == 0
        ]
        if not self.groups or not self.roles:
            raise ModelError(
                "there are no cells: name a role and a component that the model has; embeddings are in L0."
            )
        for site in self.groups:
            site.check(model)
        early = (name for name in self.components if name in EMBEDDINGS and self.layers != (0,))
        self.notes |= dict.fromkeys(early, "stands before the first layer, and has cells in layer 0 alone.")
        self.notes |= {site.component: shared for site in self.groups if (shared := site.shared(model))}

    def matrix(self, pair: Comparison, patched: Sequence[np.ndarray], method: str = "patching") -> Matrix:
        """The metric of each group, role and row, with cells from the source and from the control, as a matrix."""
        axes = {"component": self.components, "layer": self.layers, "role": self.roles}
        cells = np.full((len(patched), len(self.components), len(self.layers), *patched[0].shape[1:]), np.nan)
        for number, site in enumerate(self.groups):
            layer = self.layers.index(site.layer)
            cells[:, self.components.index(site.component), layer] = [values[number] for values in patched]
        return pair.matrix(axes, cells, self.notes, method)


def default_roles(rows: Inputs, *others: Inputs) -> tuple[str, ...]:
    """The caller's own roles in their order, then those of ``ROLES``, as far as all rows have them.

    >>> from rb_interp.tasks import Roles
    >>> default_roles(Inputs([[3, 1, 4, 1, 5]], None, Roles({"subject": [[0]], "verb": [[2]]})))
    ('subject', 'verb', 'last')
    """
    there = set.intersection(*({*some.roles.positions} for some in (rows, *others)))
    known = {"last", *there, *(("first_anchor", "last_anchor") if "anchor" in there else ())}
    own = (role for role in rows.roles.positions if role in there and role not in ROLES)
    return (*own, *(role for role in ROLES if role in known))


def _changes(
    model: HookedModel, pair: Comparison, cells: Cells, steps: int
) -> list[Float[np.ndarray, "group role row"]]:
    """The estimated change of each cell with values from each source, by the gradients on the way to the first."""
    tokens, is_copy = as_rows(pair.base.tokens), resid_mid_is_a_copy(model)
    # a copy of resid_mid reaches the MLP alone, attn_out all that resid_mid does
    reached = [
        Site("attn_out", site.layer).hook if site.component == "resid_mid" and is_copy else site.hook
        for site in cells.groups
    ]
    hooks = [*dict.fromkeys([EMBED, *(site.hook for site in cells.groups)])]
    own, *values = (capture(model, rows.tokens, hooks) for rows in (pair.base, *pair.sources))
    at = answer_positions(pair.answer_at, pair.base)
    positions = [role_positions(cells.groups, cells.roles, pair.base, source) for source in pair.sources]
    n_values, n_rows = sum(activation[0].numel() for activation in own.values()), len(tokens)
    changes = [np.zeros((len(cells.groups), len(cells.roles), n_rows)) for _ in pair.sources]
    for share in [(step + 0.5) / steps for step in range(steps)] or [0.0]:
        moved = share * (values[0][EMBED] - own[EMBED])
        begin = Edit(EMBED, lambda value, rows, moved=moved: value + moved[rows].to(value))
        logits = last_logits(model, tokens, [begin], at=at)
        with torch.enable_grad():
            value = measure(pair.metric, logits.requires_grad_(), *pair.answers).sum()
            if not value.requires_grad:
                raise ModelError(
                    f"the metric '{pair.metric.name}' has no gradient; use one that has, such as logit_diff."
                )
            (slope,) = torch.autograd.grad(value, logits)
        for rows in torch.arange(n_rows).split(min(passes(model, tokens), max(1, HELD_VALUES // n_values))):
            logits, held = _held(model, tokens[rows], moved[rows], [*dict.fromkeys(reached)])
            with torch.enable_grad():
                logits = logits[:, -1] if at is None else logits[torch.arange(len(rows)), at[rows]]
            found = torch.autograd.grad(logits, [*held.values()], slope[rows].to(logits), allow_unused=True)
            gradients = dict(zip(held, found, strict=True))
            for (number, site), (change, there, roles) in product(
                enumerate(cells.groups), zip(changes, values, positions, strict=True)
            ):
                gradient, place = gradients[reached[number]], site.in_hook(model)
                if gradient is None:
                    continue
                for role, (here, source_at) in enumerate(roles):
                    step = gather(place, there[site.hook][rows], source_at[rows])
                    step = step - gather(place, own[site.hook][rows], here[rows])
                    product_ = gather(place, gradient.cpu(), here[rows]).double() * step.double() / max(1, steps)
                    change[number, role, rows.numpy()] += product_.flatten(1).sum(1).numpy()
    return changes


def _held(model: HookedModel, tokens: Tensor, moved: Tensor, names: Sequence[str]) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and some activations of a pass with a graph that begins at the embedding, which is moved."""
    held: dict[str, Tensor] = {}

    def keep(value: Tensor, name: str) -> Tensor:
        begins = name == EMBED
        held[name] = (value.detach() + moved.to(value)).requires_grad_() if begins else value.clone()
        return held[name]

    hooks = [(name, lambda value, hook, name=name: keep(value, name)) for name in dict.fromkeys((EMBED, *names))]
    with torch.enable_grad(), evaluation(model), attached(model, hooks):
        logits = model(tokens.to(next(model.parameters()).device))
    return logits, {name: held[name] for name in names}


@typed
@contextmanager
def patch(model: HookedModel, rows: Inputs, source: Inputs, sites: Sites) -> Iterator[HookedModel]:
    """A context in which every pass of the rows, all in their order, has sites from their source, role to role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, other = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> with patch(model, clean, other, "resid_pre.0@key"):
    ...     patched = model(torch.from_numpy(clean.tokens).long())
    >>> torch.allclose(patched, model(torch.from_numpy(other.tokens).long()), atol=1e-5)
    True
    """
    with with_edits(model, interchange_edits(model, rows, source, sites)):
        yield model


@intervention
def patching_effect(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    sites: Sites,
    *,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> Effect:
    """What one site, or several together, recover in the corrupted rows, or lose in the clean ones, row by row.

    Values are divided by the mean over all rows of the whole difference, taken as known, so that their mean is a cell
    of ``patching_matrix``. Raises what ``patching_matrix`` raises.

    Args:
        sites: any, with or without a role. All others are those of ``patching_matrix``.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "both")
    >>> both = patching_effect(model, *pair, ["resid_pre.0@key", "resid_pre.0@anchor"])
    >>> float(both.values.mean().round(3))
    1.0
    """
    parsed = parse_sites(sites)
    pair = Comparison(model, metric, answer_at, clean, corrupted, direction, control)
    shares = (pair.share(pair.run(interchange_edits(model, pair.base, some, parsed))) for some in pair.sources)
    return effect_of(f"patching ({direction})", told(parsed, model), SHARES[direction], shares)
