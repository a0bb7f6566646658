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

Where two components each carry all of it, each alone recovers everything when denoising and loses nothing when noising:
``patch`` and ``patching_effect`` take several sites together.

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
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call
from tqdm import tqdm

from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.effect import Direction, Matrix
from rb_interp.interventions.metrics import AnswerAt, Comparison, Measured, answer_positions, measure
from rb_interp.models.protocol import HookedModel, resid_mid_is_a_copy
from rb_interp.probes.capturing import NOWHERE, as_rows, attached, caller_hooks, capture, evaluation, passes
from rb_interp.tasks.inputs import Inputs

__all__ = ["attribution_matrix", "patching_matrix"]

COMPONENTS = tuple(name for name in sites.HOOKS if name not in (*sites.EMBEDDINGS, "mlp_post"))
"""Components that have cells by default."""
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
"""Roles that have cells by default, after those of the caller's own."""
Names = Sequence[str] | None
Numbers = Sequence[int] | None
EMBED = "hook_embed"
HELD_VALUES = 2**26
"""Values of the activations whose gradients are held at a time, at most."""
PASS_VALUES = 400_000
"""Values in the widest activation of one pass of cells, at most; larger ones leave the cache."""
SLOW = 5
"""Seconds after which a progress bar is shown."""


@sites.intervention
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

    patched = np.tile(pair.start, (len(pair.sources), len(cells.groups), len(cells.roles), 1))
    for number, source in enumerate(pair.sources):
        for group, role, logits in runs.run(source):
            patched[number, group, role] = pair.of(logits)
    return cells.matrix(pair, patched)


@sites.intervention
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
    return cells.matrix(pair, pair.start + _changes(model, pair, cells, steps), method)


class Cells:
    """The cells of a matrix: each of ``groups``, a component in its layer, at each role; why some are not there."""

    def __init__(
        self,
        model: HookedModel,
        pair: Comparison,
        components: Names,
        layers: Numbers,
        roles: Names,
        head: int | None,
    ) -> None:
        self.roles = default_roles(pair.base, *pair.sources) if roles is None else tuple(roles)
        self.layers = tuple(range(model.cfg.n_layers) if layers is None else layers)
        self.components, self.notes = tuple(components or ()), {}
        if not self.components:
            wanted = COMPONENTS if head is None else sites.PER_HEAD
            self.notes = {
                name: "no cells: this model has none." for name in wanted if name not in sites.components_of(model)
            }
            for role, source in product(self.roles[::-1], pair.sources):
                if not torch.equal(
                    *(sites.site_positions(sites.Site("q", 0, role), rows) for rows in (pair.base, source))
                ):
                    why = f"no cells: a pattern is over positions, and '{role}' is elsewhere in the other rows."
                    self.notes["pattern"] = why
            self.components = tuple(name for name in wanted if name not in self.notes)
        every = (sites.Site(name, layer, unit=head) for name, layer in product(self.components, self.layers))
        every = [site for site in every if site.component not in sites.EMBEDDINGS or site.layer == 0]
        self.groups = []
        for site in every:
            is_missing = site.component in sites.components_of(model) and 0 <= site.layer < model.cfg.n_layers
            if is_missing and site.component not in sites.components_of(model, site.layer):
                self.notes[f"{site.component} of L{site.layer}"] = "no cells: this layer has none."
            else:
                self.groups.append(site)
        if not self.groups or not self.roles:
            raise ModelError(
                "there are no cells: name a role and a component that the model has; embeddings are in L0."
            )
        for site in self.groups:
            site.check(model)
            self.notes |= {site.component: shared} if (shared := site.shared(model)) else {}
        if self.layers != (0,):
            early = (name for name in self.components if name in sites.EMBEDDINGS)
            self.notes |= dict.fromkeys(early, "stands before the first layer, and has cells in layer 0 alone.")
        self.unseen = [role for role in self.roles if not pair.reads(sites.Site("embed", 0, role))]
        self.notes |= dict.fromkeys(self.unseen, "no cells: it stands behind the answer, which sees none of it.")

    def matrix(
        self, pair: Comparison, patched: Float[np.ndarray, "n group role row"], method: str = "patching"
    ) -> Matrix:
        """The metric of each group, role and row, with cells from the source and from the control, as a matrix."""
        axes = {"component": self.components, "layer": self.layers, "role": self.roles}
        cells = np.full((len(patched), len(self.components), len(self.layers), *patched.shape[2:]), np.nan)
        for group, site in enumerate(self.groups):
            cells[:, self.components.index(site.component), self.layers.index(site.layer)] = patched[:, group]
        cells[..., [role in self.unseen for role in self.roles], :] = np.nan
        acts = (patched != pair.start).any(-1)
        if len(acts) > 1 and (still := int((acts[0] & ~acts[1]).sum())):
            self.notes["control"] = (
                f"in {still} of the {int(acts[0].sum())} cells that do something it changes nothing."
            )
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
) -> Float[np.ndarray, "n group role row"]:
    """The estimated change of each cell with values from each source, by the gradients on the way to the first."""
    tokens, is_copy = as_rows(pair.base.tokens), resid_mid_is_a_copy(model)
    # a copy of resid_mid reaches the MLP alone, attn_out all that resid_mid does
    reached = [
        sites.Site("attn_out", site.layer).hook if site.component == "resid_mid" and is_copy else site.hook
        for site in cells.groups
    ]
    begins = (
        EMBED if EMBED in model.hook_dict else sites.Site("resid_pre", 0).hook
    )  # an encoder embeds under other names
    hooks = [*dict.fromkeys([begins, *(site.hook for site in cells.groups)])]
    own, *values = (capture(model, rows.tokens, hooks) for rows in (pair.base, *pair.sources))
    at = answer_positions(pair.answer_at, pair.base)
    positions = [role_positions(cells.groups, cells.roles, pair.base, source) for source in pair.sources]
    n_values, n_rows = sum(activation[0].numel() for activation in own.values()), len(tokens)
    changes = np.zeros((len(values), len(cells.groups), len(cells.roles), n_rows))
    for share in [(step + 0.5) / steps for step in range(steps)] or [0.0]:
        moved = share * (values[0][begins] - own[begins])
        begin = sites.Edit(begins, lambda value, rows, moved=moved: value + moved[rows].to(value))
        logits = sites.last_logits(model, tokens, [begin], at=at)
        with torch.enable_grad():
            value = measure(pair.metric, logits.requires_grad_(), *pair.answers).sum()
            if not value.requires_grad:
                raise ModelError(
                    f"the metric '{pair.metric.name}' has no gradient; use one that has, such as logit_diff."
                )
            (slope,) = torch.autograd.grad(value, logits)
        for rows in torch.arange(n_rows).split(min(passes(model, tokens), max(1, HELD_VALUES // n_values))):
            logits, held = _held(model, tokens[rows], moved[rows], (begins, *reached))
            with torch.enable_grad():
                logits = logits[:, -1] if at is None else logits[torch.arange(len(rows)), at[rows]]
            found = torch.autograd.grad(logits, [*held.values()], slope[rows].to(logits), allow_unused=True)
            gradients = dict(zip(held, found, strict=True))
            for number, (group, site) in product(range(len(values)), enumerate(cells.groups)):
                gradient, place = gradients[reached[group]], site.in_hook(model)
                for role, (here, source_at) in enumerate(positions[number] if gradient is not None else ()):
                    step = sites.gather(place, values[number][site.hook][rows], source_at[rows])
                    step = step - sites.gather(place, own[site.hook][rows], here[rows])
                    change = (
                        sites.gather(place, gradient.cpu(), here[rows]).double() * step.double() / max(1, steps)
                    )
                    changes[number, group, role, rows.numpy()] += change.flatten(1).sum(1).numpy()
    return changes


def _held(
    model: HookedModel, tokens: Tensor, moved: Tensor, names: Sequence[str]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and some activations of a pass with a graph that begins at the first of them, which is moved.

    Weights that are frozen, or made in inference mode and copied for this pass, give the numbers of others.
    """
    held: dict[str, Tensor] = {}

    def keep(value: Tensor, name: str) -> Tensor:
        begins = name == names[0]
        held[name] = (value.detach() + moved.to(value)) if begins else value.clone()
        held[name] = held[name] if held[name].requires_grad else held[name].requires_grad_()
        return held[name]

    hooks = [(name, lambda value, hook, name=name: keep(value, name)) for name in dict.fromkeys(names)]
    module, copies = cast(Any, model), {}
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        copies |= {name: value.clone()} if value.is_inference() else {}
    with torch.enable_grad(), evaluation(model), attached(model, hooks):
        given = tokens.to(next(model.parameters(), NOWHERE).device)
        logits = functional_call(module, copies, given) if copies else model(given)
    return logits, {name: held[name] for name in names[1:]}


class Write(NamedTuple):
    """Values at single positions of runs, at one hook. Run ``role * n_rows + row`` is a base row with a role's cell."""

    site: sites.Site
    run: Int[Tensor, " write"]
    pos: Int[Tensor, " write"]
    values: Tensor


class CellRuns:
    """Runs of the base rows with one cell from other rows each.

    ``late``: a run begins at the block of its cell (a HookedTransformer itself, by ``start_at_layer`` and the mask of
    the whole pass; somebody's own forward may change its input). A cell that acts on its own position alone begins a
    block later, with what one pass of its block leaves there. ``narrow``: the last block computes the position of the
    answer alone after its attention. Both are done where they give the logits of the whole pass in every row. Left out
    are runs that change nothing or that nothing later reads. Under hooks of the caller's, which may tell rows apart, a
    pass has one cell, all rows in their order.
    """

    def __init__(
        self,
        model: HookedModel,
        base: Inputs,
        groups: Sequence[sites.Site],
        roles: Sequence[str],
        at: Any,
        logits: Tensor,
    ) -> None:
        """``at``: where answers are read, by default at the last position. ``logits``: there, of the base rows."""
        self.model, self.inputs, self.groups, self.roles, self.logits = model, base, groups, roles, logits
        self.tokens, self.device = as_rows(base.tokens), next(model.parameters(), NOWHERE).device
        self.n_layers, (self.n_rows, self.length) = model.cfg.n_layers, self.tokens.shape
        self.at = torch.full((self.n_rows,), self.length - 1) if at is None else at
        self.disturbed = bool(caller_hooks(model))
        self.layers = sorted({site.layer for site in groups})
        self.streams = [sites.Site("resid_pre", layer) for layer in range(self.n_layers)]  # before each layer
        self.streams.append(sites.Site("resid_post", self.n_layers - 1))
        streams = [self.streams[layer] for layer in {*self.layers, *(layer + 1 for layer in self.layers)}]
        self.own = capture(model, self.tokens, [*{site.hook: None for site in (*groups, *streams)}])
        self.mask: dict[str, Any] = {}
        ends = (sites.Site(name, self.n_layers - 1).hook for name in ("z", "resid_mid", "resid_post"))
        self.ends = [hook for hook in ends if hook in model.hook_dict]
        can = (True, False) if not self.disturbed else (False,)
        is_plain = type(model).__module__ == "transformer_lens.HookedTransformer" and "forward" not in vars(model)
        with torch.no_grad(), evaluation(model):
            for self.late, self.narrow in product(can if is_plain else (False,), can):
                if not (self.late or self.narrow) or self._gives_the_whole():
                    break

    def run(self, source: Inputs) -> Iterator[tuple[int, int, Float[Tensor, "row d_vocab"]]]:
        """Group, role and logits of cells with values from the source; cells that are not given change nothing."""
        at = role_positions(self.groups, self.roles, self.inputs, source)
        runs = [
            (k * self.n_rows + torch.arange(self.n_rows)[:, None]).expand_as(own) for k, (own, _) in enumerate(at)
        ]
        run, pos, source_pos = (torch.cat([x.flatten() for x in some]) for some in (runs, *zip(*at, strict=True)))
        found = capture(self.model, source.tokens, [*{site.hook: None for site in self.groups}])
        bar = tqdm(self.groups, unit="row of cells", desc="patching", delay=SLOW, leave=False)
        with bar, torch.no_grad(), evaluation(self.model):
            for group, site in enumerate(bar):
                write = self._write(site, found[site.hook], run, pos, source_pos)
                changed = write.run.unique()
                logits = self._passes(self._begin(site), changed, write) if len(changed) else self.logits
                for role in (changed // self.n_rows).unique().tolist():
                    here, patched = changed // self.n_rows == role, self.logits.clone()
                    patched[changed[here] % self.n_rows] = logits[here]
                    yield group, role, patched

    def _begin(self, site: sites.Site) -> int:
        """The block at which the runs of a site's cells begin; -1 at the tokens, n_layers after all blocks."""
        if not self.late or site.component in sites.EMBEDDINGS:
            return -1
        return site.layer + (site.component not in sites.ACTS_ON_OTHERS)

    def _gives_the_whole(self) -> bool:
        """Whether passes that begin and end as they are to do have the values of the whole pass, in every row."""
        every, pairs = torch.arange(self.n_rows), []
        try:
            if self.late:
                _, _, shortformer, mask = self.model.input_to_embed(self.tokens.to(self.device))  # type: ignore[attr-defined]
                told = {"shortformer_pos_embed": shortformer, "attention_mask": mask}
                self.mask = {name: value for name, value in told.items() if value is not None}
                for layer in self.layers:
                    after = self.own[self.streams[layer + 1].hook]
                    pairs.append((self._passes(layer, every, stop_at_layer=layer + 1), after))
            pairs += [(self._passes(begin, every), self.logits) for begin in {*map(self._begin, self.groups)}]
        except Exception:  # whatever the reason, such a model does not run so
            return False
        return all(torch.allclose(one, other, rtol=0, atol=1e-5 * float(other.abs().max())) for one, other in pairs)

    def _write(self, site: sites.Site, found: Tensor, run: Tensor, pos: Tensor, source_pos: Tensor) -> Write:
        """What the cells of one component and layer change where their runs begin, or later."""
        place, rows, is_local = (
            site.in_hook(self.model),
            run % self.n_rows,
            site.component not in sites.ACTS_ON_OTHERS,
        )
        values, own = (
            sites.gather(place, found, source_pos, rows),
            sites.gather(place, self.own[site.hook], pos, rows),
        )
        if not self.disturbed:
            kept = (values != own).reshape(len(run), -1).any(1)
            if is_local and site.layer == self.n_layers - 1:
                kept &= pos == self.at[rows]
            run, rows, pos, source_pos, values = (x[kept] for x in (run, rows, pos, source_pos, values))
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            before = self.own[self.streams[site.layer].hook]
            place, values = sites.Site("attn_out", site.layer), values - before[rows, pos]
        if not (self.late and is_local and len(run)):
            return Write(place, run, pos, values)
        if site.component != "resid_post":  # all roles in one sequence of a row, where they cannot meet
            sequence = rows if torch.equal(pos, source_pos) else run
            sequences, number = sequence.unique(return_inverse=True)
            write = Write(place, sequence, pos, values)
            values = self._passes(site.layer, sequences, write, stop_at_layer=site.layer + 1)[number, pos]
        return Write(self.streams[site.layer + 1], run, pos, values)

    def _passes(self, begin: int, runs: Int[Tensor, " run"], write: Write | None = None, **stop: int) -> Tensor:
        """Logits where the answer is read, of some runs with a write in them, or the stream before a block."""
        after_all, narrow, stream = begin == self.n_layers, self.narrow and not stop, self.streams[max(begin, 0)]
        found = []
        for part in runs.split(self.n_rows if self.disturbed else self._pass_rows(begin, narrow)):
            rows, hooks, told, each = part % self.n_rows, [], {}, torch.arange(len(part))
            given = self.tokens[rows] if begin < 0 else self.own[stream.hook][rows]
            if after_all:
                given = given[each, self.at[rows]][:, None]
            if write is not None:
                here = ((write.run >= part[0]) & (write.run <= part[-1])).nonzero()[:, 0]
                cut = Write(write.site, torch.searchsorted(part, write.run[here]), *(x[here] for x in write[2:]))
                if begin >= 0 and write.site == stream:
                    given = _written(given, cut)
                else:
                    hooks.append((write.site.hook, lambda value, hook, cut=cut: _written(value, cut)))
            if narrow:
                one = each, self.at[rows]
                hooks += [
                    (hook, lambda x, hook, one=one: x[one][:, None] if x.shape[1] > 1 else x) for hook in self.ends
                ]
            if begin >= 0:
                told = {"start_at_layer": begin, **{name: value[rows] for name, value in self.mask.items()}}
            with attached(self.model, hooks):
                out = self.model(given.to(self.device), **told, **stop)
            found.append((out if stop else out[:, 0] if out.shape[1] == 1 else out[each, self.at[rows]]).cpu())
        return torch.cat(found)

    def _pass_rows(self, begin: int, narrow: bool) -> int:
        """Rows of a pass."""
        cfg, length = self.model.cfg, 1 if begin == self.n_layers else self.length
        in_mlp = 1 if narrow and begin == self.n_layers - 1 else length
        widest = max(length * max(cfg.d_model, cfg.n_heads * length), in_mlp * (cfg.d_mlp or 0))
        return max(1, min(PASS_VALUES // widest, passes(self.model, self.tokens[:, : 1 if narrow else length])))


def role_positions(
    groups: Sequence[sites.Site], roles: Sequence[str], base: Inputs, source: Inputs
) -> list[tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]]:
    """Positions of each role in the rows and in their source, pair by pair as ``aligned`` has them."""
    site = next((site for site in groups if site.component == "pattern"), groups[0])
    return [sites.aligned(replace(site, role=role), base, source) for role in roles]


def _written(activation: Tensor, write: Write) -> Tensor:
    """A copy of an activation with values in it."""
    narrow = activation.shape[write.site.position_axis] == 1
    pos = torch.zeros_like(write.pos) if narrow else write.pos
    return sites.scatter(write.site, activation, pos, write.values, write.run)
