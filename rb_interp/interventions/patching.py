r"""Activation patching by role: which component, of which layer, at which role carries what the
answer depends on.

Denoising runs the corrupted rows with one cell, a component of one layer at the positions of one
role, from the clean rows; ``recovered`` is the cell's share (see `effect`): 1 where the cell
carries all that differs, 0 where it carries nothing, anything where others undo a part. It finds
what suffices. Noising runs the clean rows with one cell from the corrupted ones; ``lost`` is 1
where all is lost. It finds what is needed. The control fills the same cell from rows that differ in
noise alone from those that run, and so have their answer.

Source: causal tracing (Meng et al., 2022, arXiv:2202.05262), as in TransformerLens's
``generic_activation_patch``, whose numbers these are; pitfalls in Heimersheim and Nanda (2024,
arXiv:2404.15255).

Where two components each carry all of it, each alone recovers everything when denoising and loses
nothing when noising: ``patch`` and ``patching_effect`` take several sites together.

Attribution patching estimates the whole matrix at once, to first order, as a fast first look:

    m(patched) ~ m(run) + sum over the cell's positions of  dm/da . (a_source - a_run)

with a the activation at a cell and the gradient at the rows that run: two forward passes and one
backward pass for all cells. It is exact where the metric is linear in the activation, and misses
what is not: a softmax or a probability that is saturated has no gradient, though patching it
changes the answer. Source: Nanda (2023, attribution patching, neelnanda.io); Syed et al. (2023,
arXiv:2310.10348); Kramár et al. (2024, arXiv:2403.00745), whose corrections for saturated attention
and cancelled gradients are not applied here.

How it can mislead. Two cells may recover the same half or one half each, and the matrix looks
alike. Roles overlap: the last position holds a noise token or an anchor, so it also counts in the
cells of that role. Cells of the residual stream hold all that differs, so their change is large and
an attribution far off: read sublayers and heads. An attribution of 0 does not say that a cell does
nothing: confirm with the exact cell. Under ``kl`` the gradient is 0 at the clean rows, and so is an
attribution that noises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call
from tqdm import tqdm

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.effect import Direction, Matrix
from rb_interp.interventions.metrics import (
    METRICS,
    AnswerAt,
    Comparison,
    Measured,
    answer_positions,
    measure,
)
from rb_interp.models.hooking import attached, caller_hooks, evaluation
from rb_interp.models.protocol import HookedModel, resid_mid_is_a_copy
from rb_interp.models.structure import device_of, rows_of_a_pass
from rb_interp.probes.activations import as_rows
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


@checked
@single_threaded
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
    """Share of the clean answer that each cell restores in the corrupted rows.

    A cell is a component of one layer at the positions of one role. With ``direction="noise"`` it
    is the share that is lost in the clean rows if the cell is that of the corrupted ones.

    Args:
        model: any model with TransformerLens's hooks.
        clean: rows with labels if the metric asks for them, for instance ``inputs``.
        corrupted: as many rows with different answers, for instance ``counterfactual``. A role may
            stand at other positions than in the clean rows.
        components: by default those of ``COMPONENTS`` that the model has; with a head, those that
            have heads. There are no cells of ``pattern`` if a role stands elsewhere in one of a
            pair.
        layers: by default all.
        roles: by default all that both kinds of rows have, and the last position.
        head: one head, which may share its k and v; by default all of them at once.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        direction: ``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones
            into clean rows.
        control: rows that differ in noise alone from those that run (denoise: ``corrupted``, noise:
            ``clean``), such as ``corrupted.with_tokens_of(other, "noise")``.

    Raises:
        ModelError: the model has no such component, layer or head, the rows are no pairs, the
            metric does not differ between them, or the control is like the rows or their source.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = patching_matrix(model, clean, corrupted, roles=("key", "noise"))
    >>> matrix.to_frame().query("component == 'resid_pre' and layer == 0").recovered.round(3).tolist()
    [1.0, 0.0]
    """
    with torch.inference_mode(False):
        pair, cells = pair_and_cells(
            model,
            clean,
            corrupted,
            components=components,
            layers=layers,
            roles=roles,
            head=head,
            metric=metric,
            answer_at=answer_at,
            direction=direction,
            control=control,
        )
        return cells.matrix(pair, exact_cells(pair, cells), "patching")


@checked
@single_threaded
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
) -> Matrix:
    """The patching matrix to first order: each cell's share if the metric were linear in it.

    The model keeps its weights, gradients, modes and hooks.

    Args:
        model: any model with TransformerLens's hooks.
        clean: rows with labels if the metric asks for them, for instance ``inputs``.
        corrupted: as many rows with different answers, for instance ``counterfactual``.
        components: as in `patching_matrix`.
        layers: by default all.
        roles: by default all that both kinds of rows have, and the last position.
        head: one head, which may share its k and v; by default all of them at once.
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
        pair, cells = pair_and_cells(
            model,
            clean,
            corrupted,
            components=components,
            layers=layers,
            roles=roles,
            head=head,
            metric=metric,
            answer_at=answer_at,
            direction=direction,
            control=control,
        )
        return cells.matrix(pair, attributed_cells(pair, cells), "attribution")


def pair_and_cells(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Names,
    layers: Numbers,
    roles: Names,
    head: int | None,
    metric: Measured,
    answer_at: AnswerAt,
    direction: Direction,
    control: Inputs | None,
) -> tuple[Comparison, Cells]:
    """The untouched runs of a pair of rows, and the cells of its matrix."""
    rows = [corrupted, clean] if direction == "denoise" else [clean, corrupted]
    if control is not None:
        rows.append(control)
    cells = Cells(model, rows, components, layers, roles, head)
    pair = Comparison(model, metric, answer_at, clean, corrupted, direction, control, cells.hooks)
    return pair, cells


def exact_cells(pair: Comparison, cells: Cells) -> Float[np.ndarray, "source group role row"]:
    """The metric of each row with each cell from each source."""
    (own, *values), n_rows = pair.held, len(pair.base)
    runs = CellRuns(pair, cells, own)
    patched = np.tile(pair.start, (len(pair.sources), len(cells.groups), len(cells.roles), 1))
    for number, source in enumerate(pair.sources):
        for group, changed, logits in runs.run(source, values[number]):
            if pair.metric in METRICS.values():  # they act row by row
                patched[number, group].reshape(-1)[changed] = pair.of(logits, changed % n_rows)
                continue
            for role in (changed // n_rows).unique().tolist():
                here, whole = changed // n_rows == role, pair.own.clone()
                whole[changed[here] % n_rows] = logits[here]
                patched[number, group, role] = pair.of(whole)
    return patched


def attributed_cells(pair: Comparison, cells: Cells) -> Float[np.ndarray, "source group role row"]:
    """The metric of each row with each cell from each source, to first order."""
    model, tokens, is_copy = pair.model, as_rows(pair.base.tokens), resid_mid_is_a_copy(pair.model)
    # a copy of resid_mid reaches the MLP alone, attn_out all that resid_mid does
    reached = [
        sites.Site("attn_out", site.layer).hook
        if site.component == "resid_mid" and is_copy
        else site.hook
        for site in cells.groups
    ]
    own, *values = pair.held
    at = answer_positions(pair.answer_at, pair.base)
    at = torch.full((len(tokens),), tokens.shape[1] - 1) if at is None else at
    positions = [role_positions(cells, pair.base, source) for source in pair.sources]
    patched = np.tile(pair.start, (len(values), len(cells.groups), len(cells.roles), 1))
    with torch.enable_grad():
        value = measure(
            pair.metric, logits := pair.own.clone().requires_grad_(), *pair.answers
        ).sum()
    if not value.requires_grad:
        raise ModelError(
            f"the metric '{pair.metric.name}' has no gradient; use one that has, such as "
            f"logit_diff."
        )
    (slope,) = torch.autograd.grad(value, logits)
    n_values = sum(activation[0].numel() for activation in own.values())
    for rows in torch.arange(len(tokens)).split(
        min(rows_of_a_pass(model, tokens), max(1, HELD_VALUES // n_values))
    ):
        logits, held = _held(model, tokens[rows], reached)
        with torch.enable_grad():
            logits = logits[torch.arange(len(rows)), at[rows]]
        found = torch.autograd.grad(
            logits, [*held.values()], slope[rows].to(logits), allow_unused=True
        )
        gradients = dict(zip(held, found, strict=True))
        for number, (group, site) in product(range(len(values)), enumerate(cells.groups)):
            gradient, place = gradients[reached[group]], site.in_hook(model)
            for role, (here, source_at) in enumerate(
                positions[number] if gradient is not None else ()
            ):
                step = sites.gather(place, values[number][site.hook][rows], source_at[rows])
                step = step - sites.gather(place, own[site.hook][rows], here[rows])
                change = sites.gather(place, gradient.cpu(), here[rows]).double() * step.double()
                patched[number, group, role, rows.numpy()] += change.flatten(1).sum(1).numpy()
    return patched


class Cells:
    """The cells of a matrix: each of ``groups``, a component in its layer, at each role; why some
    are not there."""

    def __init__(
        self,
        model: HookedModel,
        rows: list[Inputs],
        components: Names,
        layers: Numbers,
        roles: Names,
        head: int | None,
    ) -> None:
        n_layers, there = (
            model.cfg.n_layers,
            set.intersection(*({*some.roles.positions} for some in rows)),
        )
        known = {"last", *there, *(("first_anchor", "last_anchor") if "anchor" in there else ())}
        own = [role for role in rows[0].roles.positions if role in there and role not in ROLES]
        self.roles = tuple(
            [*own, *(role for role in ROLES if role in known)] if roles is None else roles
        )
        self.layers = tuple(range(n_layers) if layers is None else layers)
        self.components, self.notes, self.groups = tuple(components or ()), {}, []
        has = sites.components_of(model)
        if not components:
            wanted = COMPONENTS if head is None else sites.PER_HEAD
            self.notes = {
                name: "no cells: this model has none." for name in wanted if name not in has
            }
            for role in self.roles[::-1]:
                own, *others = (sites.positions(some, role) for some in rows)
                if not all(np.array_equal(own, other) for other in others):
                    why = f"no cells: a pattern is over positions, and '{role}' is elsewhere in the other rows."
                    self.notes["pattern"] = why
            self.components = tuple(name for name in wanted if name not in self.notes)
        for name, layer in product(self.components, self.layers):
            site = sites.Site(name, layer, unit=head)
            if name in sites.EMBEDDINGS and layer != 0:
                self.notes[name] = "stands before the first layer, and has cells in layer 0 alone."
            elif (
                name in has
                and 0 <= layer < n_layers
                and name not in sites.components_of(model, layer)
            ):
                self.notes[f"{name} of L{layer}"] = "no cells: this layer has none."
            else:
                site.check(model)
                self.groups.append(site)
                self.notes |= {name: shared} if (shared := site.shared(model)) else {}
        if not self.groups or not self.roles:
            raise ModelError(
                "there are no cells: name a role and a component that the model has; embeddings "
                "are in L0."
            )
        self.streams = [sites.Site("resid_pre", 0)]  # before each layer, and after the last
        self.streams += [sites.Site("resid_post", layer) for layer in range(n_layers)]
        around = [
            self.streams[layer] for site in self.groups for layer in (site.layer, site.layer + 1)
        ]
        before = [sites.Site("resid_pre", site.layer) for site in self.groups]
        self.hooks = [*{site.hook: None for site in (*self.groups, *around, *before)}]

    def matrix(
        self,
        pair: Comparison,
        patched: Float[np.ndarray, "n group role row"],
        method: str = "patching",
    ) -> Matrix:
        """The metric of each group, role and row, with cells from the source and from the control,
        as a matrix."""
        axes = {"component": self.components, "layer": self.layers, "role": self.roles}
        cells = np.full(
            (len(patched), len(self.components), len(self.layers), *patched.shape[2:]), np.nan
        )
        for group, site in enumerate(self.groups):
            cells[:, self.components.index(site.component), self.layers.index(site.layer)] = (
                patched[:, group]
            )
        unseen = [role for role in self.roles if not pair.reads(sites.Site("embed", 0, role))]
        self.notes |= dict.fromkeys(
            unseen, "no cells: it stands behind the answer, which sees none of it."
        )
        cells[..., [role in unseen for role in self.roles], :] = np.nan
        acts = (patched != pair.start).any(-1)
        if len(acts) > 1 and (still := int((acts[0] & ~acts[1]).sum())):
            self.notes["control"] = (
                f"in {still} of the {int(acts[0].sum())} cells that do something it changes "
                f"nothing."
            )
        return pair.matrix(axes, cells, self.notes, method)


def _held(
    model: HookedModel, tokens: Tensor, names: Sequence[str]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and some activations of a pass whose graph begins at the embedding, or where an
    encoder's blocks do.

    Weights that are frozen, or made in inference mode and copied for this pass, give the numbers of
    others.
    """
    begins = EMBED if EMBED in model.hook_dict else sites.Site("resid_pre", 0).hook
    held: dict[str, Tensor] = {}

    def keep(value: Tensor, name: str) -> Tensor:
        held[name] = value.detach().clone() if name == begins else value.clone()
        held[name] = held[name] if held[name].requires_grad else held[name].requires_grad_()
        return held[name]

    hooks = [
        (name, lambda value, hook, name=name: keep(value, name))
        for name in dict.fromkeys([begins, *names])
    ]
    module, copies = cast(Any, model), {}
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        copies |= {name: value.clone()} if value.is_inference() else {}
    with torch.enable_grad(), evaluation(model), attached(model, hooks):
        given = tokens.to(device_of(model))
        logits = functional_call(module, copies, given) if copies else model(given)
    return logits, {name: held[name] for name in names}


class Write(NamedTuple):
    """Values at single positions of runs, at one hook. Run ``role * n_rows + row`` is a base row
    with a role's cell."""

    site: sites.Site
    run: Int[Tensor, " write"]
    pos: Int[Tensor, " write"]
    values: Tensor


class CellRuns:
    """Runs of the base rows with one cell from other rows each.

    ``late``: a run begins at the block of its cell (in a HookedTransformer itself). A cell that
    acts on its own position alone begins a block later, with what one pass of its block leaves
    there. ``narrow``: the last block computes the position of the answer alone after its attention.
    Both are done where they give the logits of the whole pass. Left out are runs that change
    nothing or that nothing later reads. Under the caller's hooks, which may tell rows apart, a pass
    has one cell.
    """

    def __init__(self, pair: Comparison, cells: Cells, own: Mapping[str, Tensor]) -> None:
        self.pair, self.cells, self.own, self.streams, model = (
            pair,
            cells,
            own,
            cells.streams,
            pair.model,
        )
        self.model, self.groups, self.n_layers = model, cells.groups, model.cfg.n_layers
        self.tokens, self.device = (
            as_rows(pair.base.tokens),
            device_of(model),
        )
        self.n_rows, self.length = self.tokens.shape
        at = answer_positions(pair.answer_at, pair.base)
        self.at = torch.full((self.n_rows,), self.length - 1) if at is None else at
        self.disturbed, last = bool(caller_hooks(model)), self.n_layers - 1
        self.layers = sorted({site.layer for site in self.groups})
        self.mask: dict[str, Any] = {}
        ends = (sites.Site(name, last).hook for name in ("z", "resid_mid", "resid_post"))
        self.ends = [hook for hook in ends if hook in model.hook_dict]
        can = (True, False) if not self.disturbed else (False,)
        is_plain = type(
            model
        ).__module__ == "transformer_lens.HookedTransformer" and "forward" not in vars(model)
        with torch.no_grad(), evaluation(model):
            for self.late, self.narrow in product(can if is_plain else (False,), can):
                if not (self.late or self.narrow) or self._gives_the_whole():
                    break
        if self.late:  # the stream between two layers is one place
            streams = [self.streams[site.layer] for site in self.groups]
            pairs = zip(self.groups, streams, strict=True)
            self.groups = [
                stream if site.component == "resid_pre" else site for site, stream in pairs
            ]

    def run(
        self, source: Inputs, found: Mapping[str, Tensor]
    ) -> Iterator[tuple[int, Int[Tensor, " run"], Float[Tensor, "run d_vocab"]]]:
        """Each group's runs that differ, with values from the source, and their logits where the
        answer is read."""
        at = role_positions(self.cells, self.pair.base, source)
        runs = [
            (k * self.n_rows + torch.arange(self.n_rows)[:, None]).expand_as(own)
            for k, (own, _) in enumerate(at)
        ]
        run, pos, source_pos = (
            torch.cat([x.flatten() for x in some]) for some in (runs, *zip(*at, strict=True))
        )
        bar = tqdm(self.groups, unit="row of cells", desc="patching", delay=SLOW, leave=False)
        done: dict[sites.Site, tuple[Tensor, Tensor]] = {}
        with bar, torch.no_grad(), evaluation(self.model):
            for group, site in enumerate(bar):
                if site not in done:
                    write = self._write(site, found[site.hook], run, pos, source_pos)
                    changed = write.run.unique()
                    logits = (
                        self._passes(self._begin(site), changed, write)
                        if len(changed)
                        else self.pair.own[:0]
                    )
                    done[site] = changed, sites.check_finite(logits)
                yield group, *done[site]

    def _begin(self, site: sites.Site) -> int:
        """The block at which the runs of a site's cells begin; -1 at the tokens, n_layers after all
        blocks."""
        if not self.late or site.component in sites.EMBEDDINGS:
            return -1
        return site.layer + (site.component not in sites.ACTS_ON_OTHERS)

    def _gives_the_whole(self) -> bool:
        """Whether passes that begin and end as they are to do have the values of the whole pass, in
        every row."""
        every, pairs = torch.arange(self.n_rows), []
        begins = {*map(self._begin, self.groups)}
        begins &= {
            -1,
            min({*begins} - {-1}, default=0),
            self.n_layers,
        }  # those between are a part of the first
        try:
            if self.late:
                _, _, shortformer, mask = self.model.input_to_embed(self.tokens.to(self.device))  # type: ignore[attr-defined]
                told = {"shortformer_pos_embed": shortformer, "attention_mask": mask}
                self.mask = {name: value for name, value in told.items() if value is not None}
                for layer in self.layers:
                    after = self.own[self.streams[layer + 1].hook]
                    pairs.append((self._passes(layer, every, stop_at_layer=layer + 1), after))
            pairs += [(self._passes(begin, every), self.pair.own) for begin in begins]
        except Exception:  # whatever the reason, such a model does not run so
            return False
        return all(
            torch.allclose(one, other, rtol=0, atol=1e-5 * float(other.abs().max()))
            for one, other in pairs
        )

    def _write(
        self, site: sites.Site, found: Tensor, run: Tensor, pos: Tensor, source_pos: Tensor
    ) -> Write:
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
            run, rows, pos, source_pos, values = (
                x[kept] for x in (run, rows, pos, source_pos, values)
            )
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            before = self.own[sites.Site("resid_pre", site.layer).hook]
            place, values = sites.Site("attn_out", site.layer), values - before[rows, pos]
        if not (self.late and is_local and len(run)):
            return Write(place, run, pos, values)
        if (
            site.component != "resid_post"
        ):  # all roles in one sequence of a row, where they cannot meet
            sequence = rows if torch.equal(pos, source_pos) else run
            sequences, number = sequence.unique(return_inverse=True)
            write = Write(place, sequence, pos, values)
            values = self._passes(site.layer, sequences, write, stop_at_layer=site.layer + 1)[
                number, pos
            ]
        return Write(self.streams[site.layer + 1], run, pos, values)

    def _passes(
        self, begin: int, runs: Int[Tensor, " run"], write: Write | None = None, **stop: int
    ) -> Tensor:
        """Logits where the answer is read, of some runs with a write in them, or the stream before
        a block."""
        after_all, narrow, stream = (
            begin == self.n_layers,
            self.narrow and not stop,
            self.streams[max(begin, 0)],
        )
        cfg, length, found = self.model.cfg, 1 if after_all else self.length, []
        in_mlp = 1 if narrow and begin == self.n_layers - 1 else length
        widest = max(length * max(cfg.d_model, cfg.n_heads * length), in_mlp * (cfg.d_mlp or 0))
        most = min(
            PASS_VALUES // widest,
            rows_of_a_pass(self.model, self.tokens[:, : 1 if narrow else length]),
        )
        for part in runs.split(self.n_rows if self.disturbed else max(1, most)):
            rows, hooks, told, each = part % self.n_rows, [], {}, torch.arange(len(part))
            given = self.tokens[rows] if begin < 0 else self.own[stream.hook][rows]
            if after_all:
                given = given[each, self.at[rows]][:, None]
            if write is not None:
                here = ((write.run >= part[0]) & (write.run <= part[-1])).nonzero()[:, 0]
                cut = Write(
                    write.site,
                    torch.searchsorted(part, write.run[here]),
                    *(x[here] for x in write[2:]),
                )

                def put(value: Tensor, hook: Any = None, cut: Write = cut) -> Tensor:
                    pos = cut.pos * (value.shape[cut.site.position_axis] > 1)
                    return sites.scatter(cut.site, value, pos, cut.values, cut.run)

                if begin >= 0 and write.site == stream:
                    given = put(given)
                else:
                    hooks.append((write.site.hook, put))
            if narrow:
                one = each, self.at[rows]
                hooks += [
                    (hook, lambda x, hook, one=one: x[one][:, None] if x.shape[1] > 1 else x)
                    for hook in self.ends
                ]
            if begin >= 0:
                told = {
                    "start_at_layer": begin,
                    **{name: value[rows] for name, value in self.mask.items()},
                }
            with attached(self.model, hooks):
                out = self.model(given.to(self.device), **told, **stop)
            found.append(
                (
                    out if stop else out[:, 0] if out.shape[1] == 1 else out[each, self.at[rows]]
                ).cpu()
            )
        return torch.cat(found)


def role_positions(
    cells: Cells, base: Inputs, source: Inputs
) -> list[tuple[Int[Tensor, "row n"], ...]]:
    """Positions of each role in the rows and in their source, pair by pair as ``aligned`` has
    them."""
    site = next((site for site in cells.groups if site.component == "pattern"), cells.groups[0])
    return [sites.aligned(replace(site, role=role), base, source) for role in cells.roles]
