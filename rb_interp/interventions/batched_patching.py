"""Many cells of a patching matrix in one pass. Each cell is run from the block that it changes, not from the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby, product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.interventions.answers import AnswerAt, answer_positions, answers_of
from rb_interp.interventions.hooking import logits_at, with_edits, write_at
from rb_interp.interventions.matrix import check_pairs
from rb_interp.interventions.metrics import Metric, measure
from rb_interp.interventions.site_patching import aligned
from rb_interp.interventions.sites import EMBEDDINGS, Edit, Site, gather_at
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows, capture, check_range, evaluation
from rb_interp.probes.check import check_labels
from rb_interp.tasks import Inputs

BY_POSITION = ("z", "attn_out", "resid_mid", "mlp_post", "mlp_out")
"""Components after which a block works on each position by itself."""
PASS_VALUES = 200_000
"""Values in the widest activation of one pass of cells, at most; larger ones leave the cache."""


class Write(NamedTuple):
    """Values for single positions, each in the run of one cell and row; runs begin at one block."""

    start: int
    site: Site | None  # None: the residual stream that the runs begin with
    run: Int[Tensor, " write"]  # role * rows + row, in one component and layer
    pos: Int[Tensor, " write"]
    values: Tensor

    def same(self, other: Write) -> bool:
        """Whether these runs are those of another component and layer, up to rounding."""
        if self is other or self.site or other.site or self.start != other.start:
            return self is other
        alike = torch.equal(self.run, other.run) and torch.equal(self.pos, other.pos)
        return alike and all(_close(self.values[:n], other.values[:n], 1e-6) for n in (1, len(self.run)))


class PatchGrid:
    """Runs of the base rows with one cell from the source, many cells side by side in one pass.

    A run begins at the block of its cell, with the residual stream that the base rows have there. It ends with the
    position of the answer alone. Cells of resid_pre, k and v can change every position after their block. All other
    cells change the block's output at their own positions only, so all roles run through that block at once, and their
    runs begin at the next block. Cells of the embeddings run from the start.

    Some runs are left out: those whose patch changes no value, and those whose changed positions nothing later reads.
    Equal runs are run once. A model that cannot be run block by block, or that carries hooks of the caller's, runs
    whole, one cell a pass.
    """

    def __init__(
        self,
        model: HookedModel,
        source: Inputs,
        base: Inputs,
        groups: list[Site],
        roles: Sequence[str],
        metric: Metric,
        *,
        answer_at: AnswerAt = None,
        denoise: bool = True,
    ) -> None:
        """``denoise``: whether the source is clean and the base corrupted, and not the other way round."""
        self.model, self.inputs, self.groups, self.roles, self.metric = model, base, groups, roles, metric
        self.tokens, self.device, self.denoise = as_rows(base.tokens), next(model.parameters()).device, denoise
        names = ("clean", "corrupted") if denoise else ("corrupted", "clean")
        check_pairs(names[0], as_rows(source.tokens), names[1], self.tokens)
        for rows in (source, base) if metric.needs == 2 else (source if denoise else base,)[: metric.needs]:
            check_range(model, torch.as_tensor(check_labels(rows, "patching_matrix")).long()[:, None])
        for site in groups:
            site.check(model)
        self.last, (self.n_rows, self.length) = model.cfg.n_layers - 1, self.tokens.shape
        self.at, self.source_at = (
            answer_positions(answer_at, rows.roles, self.n_rows, self.length, "patching_matrix")
            for rows in (base, source)
        )
        self.here: Int[Tensor, " run"] | None = None
        self._positions(source)
        self.hooks = list(dict.fromkeys(site.hook for site in groups))
        states = [Site("resid_pre", layer).hook for layer in range(self.last + 1)]
        self.states = [*states, Site("resid_post", self.last).hook]
        held = [Site("attn_out", site.layer).hook for site in groups if site.component in ("mlp_post", "mlp_out")]
        self.found = capture(model, self.tokens, list({*self.hooks, *self.states, *held}))
        self.source = source, capture(model, source.tokens, list({*self.hooks, self.states[-1]}))
        # What cuts the last block to the answer's position; the scores only where what follows reads them there.
        self.narrow: dict[str, Callable[[Tensor], Tensor]] = {
            Site("z", self.last).hook: self._at_answer,
            Site("resid_mid", self.last).hook: self._at_answer,
        }
        if not resid_mid_is_a_copy(model):
            hook = f"blocks.{self.last}.attn.hook_attn_scores"
            self.narrow[hook] = lambda scores: self._at_answer(scores.movedim(2, 1)).movedim(1, 2)
        self.changes: dict[str, Callable[[Tensor], Tensor]] = {}

    @contextmanager
    def ready(self) -> Iterator[None]:
        """A context in which cells can be run; hooks are attached once, since that costs as much as a pass."""

        def change(activation: Tensor, _: Tensor, hook: str) -> Tensor:
            return self.changes[hook](activation) if hook in self.changes else activation

        logits = logits_at(self.model, self.tokens[:4], None if self.at is None else self.at[:4])
        disturbed = any(point.fwd_hooks for point in self.model.hook_dict.values())
        hooks = {*self.hooks, *self.narrow, *(Site("attn_out", layer).hook for layer in range(self.last + 1))}
        edits = [Edit(hook, partial(change, hook=hook)) for hook in hooks if hook in self.model.hook_dict]
        with torch.no_grad(), evaluation(self.model), with_edits(self.model, edits):
            self.stepwise = not disturbed and (self._can_step(logits, self.narrow) or self._can_step(logits, {}))
            self.changes = {}
            self.logits = self._unpatched(self.inputs, self.found, self.at)
            pair = [(self.inputs, self.logits), (self.source[0], self._unpatched(*self.source, self.source_at))]
            clean, corrupted = (
                answers_of(rows, logits, self.metric, "patching_matrix", needed=number < self.metric.needs)
                for number, (rows, logits) in enumerate(pair[::-1] if self.denoise else pair)
            )
            self.answers = clean, corrupted
            self.base, self.other = (self._measure(logits) for _, logits in pair)
            yield

    def run(self, source: Inputs) -> Float[np.ndarray, "group role row"]:
        """Metric of each row with each cell taken from the source's rows."""
        run_rows = "corrupted" if self.denoise else "clean"
        check_pairs("the source", as_rows(source.tokens), run_rows, self.tokens)
        at, self.changes = self._positions(source), {}
        found = self.source[1] if source is self.source[0] else capture(self.model, source.tokens, self.hooks)
        is_whole = [not self.stepwise or site.component in EMBEDDINGS for site in self.groups]
        whole, stepwise = (
            [site for site, is_one in zip(self.groups, is_whole, strict=True) if is_one is one] for one in (True, False)
        )
        patched = np.empty((len(self.groups), len(self.roles), self.n_rows))
        patched[is_whole] = self._whole(whole, found, [source_at for _, source_at in at])
        patched[np.logical_not(is_whole)] = self._from_blocks(stepwise, found, at)
        return patched

    def _from_blocks(
        self, groups: list[Site], found: dict[str, Tensor], at: list[tuple[Tensor, Tensor]]
    ) -> Float[np.ndarray, "group role row"]:
        """The same, each cell from the block that it changes on."""
        if not groups:
            return np.empty((0, len(self.roles), self.n_rows))
        rows = [self.n_rows * k + torch.arange(self.n_rows)[:, None].expand_as(pair[0]) for k, pair in enumerate(at)]
        run, pos, source_pos = (torch.cat([x.flatten() for x in parts]) for parts in (rows, *zip(*at, strict=True)))
        writes = [self._writes(site, found[site.hook], run, pos, source_pos) for site in groups]
        first_equal = [[other.same(some) for other in writes[: i + 1]].index(True) for i, some in enumerate(writes)]
        patched = np.tile(self.base, (len(groups), len(self.roles), 1))
        results, each = patched.reshape(-1), len(self.roles) * self.n_rows
        cells = _Cells(self, results)
        once = [writes[i]._replace(run=writes[i].run + each * i) for i in set(first_equal) if len(writes[i].run)]
        for start, runs, parts in self._passes(once):
            cells.add(runs, self._step(start, runs % self.n_rows, parts).cpu())
        cells.close()
        return patched[first_equal]

    def _whole(
        self, groups: list[Site], found: dict[str, Tensor], at: list[Tensor]
    ) -> Float[np.ndarray, "group role row"]:
        """The same by one whole run of the model for each cell."""
        runs = []
        for site, (role, source_at) in product(groups, list(zip(self.roles, at, strict=True))):
            values = gather_at(site.in_hook(self.model), found[site.hook], source_at)
            edits = write_at(site.at(role), values, self.inputs.roles, self.length, self.model)
            runs.append(self._measure(logits_at(self.model, self.tokens, self.at, edits)))
        return np.reshape(runs, (len(groups), len(self.roles), self.n_rows))

    def _positions(self, source: Inputs) -> list[tuple[Tensor, Tensor]]:
        """Positions of each role in the rows and in the source."""
        site = next((site for site in self.groups if site.component == "pattern"), self.groups[0])
        return [
            aligned(site.at(role), self.inputs.roles, source.roles, self.length, self.n_rows) for role in self.roles
        ]

    def _unpatched(self, inputs: Inputs, found: dict[str, Tensor], at: Tensor | None) -> Float[Tensor, "row d_vocab"]:
        if not self.stepwise:
            return logits_at(self.model, inputs.tokens, at)
        return self._read_out(_one_position(found[self.states[-1]], at).to(self.device)).cpu()

    def _measure(self, logits: Float[Tensor, "row d_vocab"], rows: Tensor | None = None) -> Float[np.ndarray, " row"]:
        """Metric of some rows, or of all."""
        clean, corrupted = (some if rows is None else some.take(rows) for some in self.answers)
        return measure(self.metric, logits, clean, corrupted, "patching_matrix").numpy()

    def _at_answer(self, activation: Tensor) -> Tensor:
        """An activation ``[run, pos, ...]`` at the position of each run's answer, which stays as an axis of size 1."""
        return _one_position(activation, self.here)

    def _writes(self, site: Site, found: Tensor, run: Tensor, pos: Tensor, source_pos: Tensor) -> Write:
        """What the cells of one component and layer change in their runs."""
        rows, site = run % self.n_rows, site.in_hook(self.model)
        values = _at(site, found, rows, source_pos)
        differs = (values != _at(site, self.found[site.hook], rows, pos)).reshape(len(run), -1).any(1)
        if site.layer == self.last and site.component not in ("resid_pre", "k", "v"):
            differs &= pos == (self.length - 1 if self.at is None else self.at[rows])  # whose logits are read
        kept = differs.nonzero()[:, 0]
        run, rows, pos, source_pos, values = (x.index_select(0, kept) for x in (run, rows, pos, source_pos, values))
        if site.component in ("resid_pre", "k", "v"):
            return Write(site.layer, None if site.component == "resid_pre" else site, run, pos, values)
        if site.component in ("q", "pattern"):
            values = self._attend(site, rows if torch.equal(pos, source_pos) else run, pos, values)
        elif site.component != "resid_post":
            values = self._finish(site, rows, pos, values)
        return Write(site.layer + 1, None, run, pos, values)

    def _attend(self, site: Site, run: Tensor, pos: Tensor, values: Tensor) -> Float[Tensor, "write d_model"]:
        """What a block leaves at single positions whose queries or patterns are given, many in one sequence."""
        sequences, number = run.unique(return_inverse=True)
        state, size = self.found[self.states[site.layer]], self._pass_rows(self.length)
        after = state.new_empty(len(run), state.shape[2])
        for first in range(0, len(sequences), size):
            here = ((number >= first) & (number < first + size)).nonzero()[:, 0]
            part = Write(site.layer, site, number[here] - first, pos[here], values[here])
            self.changes = {site.hook: partial(_write_part, part=part)}
            resid = state[sequences[first : first + size] % self.n_rows].to(self.device)
            after[here] = self._block(site.layer, resid)[part.run, part.pos].to(after)
        return after

    def _finish(self, site: Site, rows: Tensor, pos: Tensor, values: Tensor) -> Float[Tensor, "write d_model"]:
        """What a block leaves at single positions that have given values after attention: sequences of one each."""
        stream, attn_out = Site("resid_pre", site.layer), Site("attn_out", site.layer)
        resid = _at(stream, self.found[stream.hook], rows, pos)
        given = {site.hook: values}
        if site.unit is not None:
            units = _at(replace(site, head=None, neuron=None), self.found[site.hook], rows, pos)
            given[site.hook] = units.index_copy(1, torch.tensor([site.unit]), values[:, None])
        if site.component in ("mlp_post", "mlp_out"):
            given[attn_out.hook] = _at(attn_out, self.found[attn_out.hook], rows, pos)
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            given = {attn_out.hook: values - resid}
        left = [resid[:0]]
        for at in torch.arange(len(rows)).split(self._pass_rows(1)) if len(rows) else ():
            self.changes = {hook: lambda old, new=new[at]: new[:, None].to(old) for hook, new in given.items()}
            left.append(self._block(site.layer, resid[at, None].to(self.device))[:, 0].cpu())
        return torch.cat(left)

    def _passes(self, writes: list[Write]) -> Iterator[tuple[int, Tensor, list[Write]]]:
        """Start and runs of each pass, and what is written in it, with runs numbered within the pass."""
        for start, group in groupby(sorted(writes, key=lambda some: some.start), key=lambda some: some.start):
            positions = self.length if start <= self.last else 1
            size = self._pass_rows(positions, 1 if start == self.last else positions)
            together = list(group)
            every = torch.cat([some.run for some in together]).unique()
            cuts = [
                [*torch.searchsorted(some.run, every[::size].contiguous()).tolist(), len(some.run)] for some in together
            ]
            for i, runs in enumerate(every.split(size)):
                parts = []
                for some, cut in zip(together, cuts, strict=True):
                    if cut[i] < cut[i + 1]:
                        run, pos, values = (x[cut[i] : cut[i + 1]] for x in some[2:])
                        parts.append(Write(start, some.site, torch.searchsorted(runs, run), pos, values))
                yield start, runs, parts

    def _pass_rows(self, positions: int, in_mlp: int | None = None) -> int:
        """Rows of a pass over so many positions of each, of which the MLP sees all, or so many."""
        cfg, in_mlp = self.model.cfg, positions if in_mlp is None else in_mlp
        widest = positions * max(cfg.d_model, cfg.n_heads * positions), in_mlp * (cfg.d_mlp or 0)
        return max(1, PASS_VALUES // max(widest))

    def _step(self, start: int, rows: Tensor, parts: Sequence[Write]) -> Float[Tensor, "row d_vocab"]:
        """Logits where the answer is read, from one block on, of some rows with what is written in them."""
        state = self.found[self.states[start]]
        self.here = None if self.at is None else self.at[rows]
        if start <= self.last:
            resid = state.index_select(0, rows).to(self.device)
        elif self.at is None:
            resid = state[:, -1:].index_select(0, rows).to(self.device)
        else:
            resid = state[rows, self.here][:, None].to(self.device)
        self.changes = dict(self.narrow)
        for part in parts:
            if part.site is None:
                resid[part.run, part.pos if start <= self.last else 0] = part.values.to(resid)
            else:
                self.changes[part.site.hook] = partial(_write_part, part=part)
        for layer in range(start, self.last + 1):
            resid = self._block(layer, resid)
        return self._read_out(resid if resid.shape[1] == 1 else self._at_answer(resid))

    def _block(self, layer: int, resid: Float[Tensor, "run pos d_model"]) -> Float[Tensor, "run left d_model"]:
        out = self.model.blocks[layer](resid)
        return out[0] if isinstance(out, tuple) else out

    def _read_out(self, resid: Float[Tensor, "run 1 d_model"]) -> Float[Tensor, "run d_vocab"]:
        norm = getattr(self.model, "ln_final", None)
        return self.model.unembed(resid if norm is None else norm(resid))[:, 0]

    def _can_step(self, logits: Float[Tensor, "row d_vocab"], narrow: dict[str, Callable[[Tensor], Tensor]]) -> bool:
        """Whether running block by block gives this model's own numbers, tried on the first rows."""
        self.narrow = narrow
        rows, pos = torch.cartesian_prod(torch.arange(len(logits)), torch.arange(self.length)).T
        first = [site for site in self.groups if site.layer == self.groups[0].layer and site.component in BY_POSITION]
        try:
            pairs = [(self._step(0, torch.arange(len(logits)), []).cpu(), logits)]
            for site in first:
                own, after = _at(site, self.found[site.hook], rows, pos), self.found[self.states[site.layer + 1]]
                pairs.append((self._finish(site, rows, pos, own), after[rows, pos]))
        except Exception:  # whatever the reason, such a model is run whole
            return False
        return all(_close(found, expected, 1e-4) for found, expected in pairs)


class _Cells:
    """Where the numbers of each run go, as passes bring its logits; a metric that looks at rows together gets them all.

    Runs come in the order of their cells, and one cell's runs all begin at the same block.
    """

    def __init__(self, grid: PatchGrid, results: Float[np.ndarray, " run"]) -> None:
        self.grid, self.results = grid, results
        self.open: tuple[int, Float[Tensor, "row d_vocab"]] | None = None

    def add(self, runs: Int[Tensor, " run"], logits: Float[Tensor, "run d_vocab"]) -> None:
        """Logits of some runs, numbered cell * rows + row."""
        cells, rows = runs // self.grid.n_rows, runs % self.grid.n_rows
        if self.grid.metric.by_row:
            self.results[runs.numpy()] = self.grid._measure(logits, rows)
            return
        for cell in cells.unique().tolist():
            if self.open is None or self.open[0] != cell:
                self.close()
                self.open = cell, self.grid.logits.clone()  # rows that are not run have the logits of the base
            self.open[1][rows[cells == cell]] = logits[cells == cell]

    def close(self) -> None:
        """Measure the cell whose rows are all there."""
        if self.open is not None:
            cell, n_rows = self.open[0], self.grid.n_rows
            self.results[cell * n_rows : (cell + 1) * n_rows] = self.grid._measure(self.open[1])
        self.open = None


def _one_position(activation: Tensor, at: Int[Tensor, " row"] | None) -> Tensor:
    """An activation ``[row, pos, ...]`` at one position of each row, ``[row, 1, ...]``; at the last for None."""
    return activation[:, -1:] if at is None else activation[torch.arange(len(at)), at][:, None]


def _close(found: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether two tensors agree, to a share of the largest value."""
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return (
        found.shape == expected.shape
        and math.isfinite(scale)
        and torch.allclose(found, expected, rtol=0, atol=tolerance * scale)
    )


def _at(site: Site, activation: Tensor, rows: Tensor, pos: Tensor) -> Tensor:
    """An activation at single positions, in the site's head or neuron."""
    length = activation.shape[site.position_axis]
    found = activation.movedim(site.position_axis, 1).flatten(0, 1).index_select(0, rows * length + pos)
    return found if site.unit is None else found[:, site.unit]


def _write_part(activation: Tensor, part: Write) -> Tensor:
    """A copy of an activation with a part's values in it."""
    assert part.site is not None
    changed = activation.clone()
    moved = changed.movedim(part.site.position_axis, 1)
    moved = moved if part.site.unit is None else moved[:, :, part.site.unit]
    moved[part.run, part.pos] = part.values.to(moved)
    return changed
