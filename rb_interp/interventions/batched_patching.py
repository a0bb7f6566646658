"""Many cells of a patching matrix side by side in one batch of the model's own forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from rb_interp.interventions.answers import AnswerAt, answer_positions
from rb_interp.interventions.hooking import logits_at
from rb_interp.interventions.matrix import check_pairs
from rb_interp.interventions.site_patching import aligned
from rb_interp.interventions.sites import EMBEDDINGS, Site
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows, attached, capture, evaluation, passes
from rb_interp.tasks import Inputs

PASS_VALUES = 200_000
"""Values in the widest activation of one pass, at most; larger ones leave the cache."""
SLOW = 5
"""Seconds after which a progress bar is shown."""


class Begin(NamedTuple):
    """How a pass begins and ends: at which block (None: at the tokens), and whether it leaves out what nobody reads.

    ``narrow``: the last block computes the position of the answer alone after its attention.
    """

    layer: int | None
    narrow: bool


class Write(NamedTuple):
    """Values at single positions of runs, at one hook."""

    site: Site
    run: Int[Tensor, " write"]
    pos: Int[Tensor, " write"]
    values: Tensor


class CellRuns:
    """Runs of the base rows with one cell from other rows each.

    A run begins at the block of its cell where the model can begin there (a HookedTransformer, by ``start_at_layer``
    and the mask of the whole pass), and where that gives the logits of the whole pass in every row; else at the tokens.
    After the keys and values of a block are there, its positions work by themselves: for cells of what comes then, one
    pass of the block gives what it leaves at all of them, and their runs begin at the next block. Left out are runs
    whose patch changes no value, and those whose changed positions nothing later reads. A model with
    hooks of the caller's, which may tell rows apart, runs one cell a pass, all rows in their order.
    """

    def __init__(
        self, model: HookedModel, base: Inputs, groups: Sequence[Site], roles: Sequence[str], answer_at: AnswerAt
    ) -> None:
        for site in groups:
            site.check(model)
        self.model, self.inputs, self.groups, self.roles = model, base, groups, roles
        self.tokens, self.device = as_rows(base.tokens), next(model.parameters()).device
        self.last, (self.n_rows, self.length) = model.cfg.n_layers - 1, self.tokens.shape
        at = answer_positions(answer_at, base.roles, self.n_rows, self.length, "patching_matrix")
        self.at = torch.full((self.n_rows,), self.length - 1) if at is None else at
        self.disturbed = any(point.fwd_hooks for point in model.hook_dict.values())
        self.logits = logits_at(model, self.tokens, at)
        later = {site.layer + 1 for site in groups if site.layer < self.last}
        layers = sorted({site.layer for site in groups} | later)
        states = [Site("resid_pre", layer).hook for layer in layers]
        self.own = capture(model, self.tokens, [*dict.fromkeys([*(site.hook for site in groups), *states])])
        self.mask = self._mask()
        ends = [Site(name, self.last).hook for name in ("z", "resid_mid", "resid_post")]
        self.narrow = [hook for hook in ends if hook in model.hook_dict]
        tried: dict[Begin, bool] = {Begin(None, False): True}
        self.begin = {}
        for layer in layers:
            options = (Begin(layer, True), Begin(layer, False), Begin(None, True), Begin(None, False))
            with torch.no_grad(), evaluation(model):
                self.begin[layer] = next(some for some in options if self._gives_the_whole(some, tried))

    def run(self, source: Inputs) -> Iterator[tuple[int, int, Float[Tensor, "row d_vocab"]]]:
        """Group, role and logits of each cell with values from the source; cells that are not given change nothing."""
        check_pairs("the source", as_rows(source.tokens), "the rows that run", self.tokens)
        at = self._positions(source)
        found = capture(self.model, source.tokens, [*dict.fromkeys(site.hook for site in self.groups)])
        parts = [(k * self.n_rows + torch.arange(self.n_rows)[:, None].expand_as(own)) for k, (own, _) in enumerate(at)]
        run, pos, source_pos = (torch.cat([x.flatten() for x in some]) for some in (parts, *zip(*at, strict=True)))
        places = [self._place(site) for site in self.groups]
        order = sorted(range(len(places)), key=lambda group: places[group][1])
        bar = tqdm(total=len(order) * len(self.roles), unit="cell", desc="patching", delay=SLOW, leave=False)
        with bar, torch.no_grad(), evaluation(self.model):
            for (begin, _), some in groupby(order, key=lambda group: places[group]):
                together, writes = list(some), []
                for number, group in enumerate(together):
                    write = self._write(self.groups[group], found, run, pos, source_pos)
                    writes.append(write._replace(run=write.run + number * len(self.roles) * self.n_rows))
                runs = torch.cat([write.run for write in writes]).unique()
                for cells in self._batches(runs, begin):
                    logits = self._passes(begin, cells, writes)
                    for cell in (cells // self.n_rows).unique().tolist():
                        here = cells // self.n_rows == cell
                        patched = self.logits.clone()
                        patched[cells[here] % self.n_rows] = logits[here]
                        yield together[cell // len(self.roles)], cell % len(self.roles), patched
                bar.update(len(together) * len(self.roles))

    def _place(self, site: Site) -> tuple[Begin, int]:
        """How the runs of a component's cells begin, in an order."""
        layer = site.layer + self._is_local(site)
        begin = Begin(None, self.begin[layer].narrow) if site.component in EMBEDDINGS else self.begin[layer]
        return begin, -1 if begin.layer is None else layer

    def _is_local(self, site: Site) -> bool:
        """Whether runs begin after the block of their cell."""
        changes_all = site.component in ("resid_pre", "k", "v", *EMBEDDINGS)
        return (
            not changes_all
            and site.layer < self.last
            and None not in (self.begin[site.layer].layer, self.begin[site.layer + 1].layer)
        )

    def _batches(self, runs: Int[Tensor, " run"], begin: Begin) -> Iterator[Int[Tensor, " run"]]:
        """Whole cells, as many as fit into a pass; at least one, which may take several."""
        counts = (runs // self.n_rows).unique_consecutive(return_counts=True)[1].tolist()
        size, some, first = 0 if self.disturbed else self._pass_rows(begin), 0, 0
        for count in counts:
            if some and some + count > size:
                yield runs[first : first + some]
                first, some = first + some, 0
            some += count
        if some:
            yield runs[first:]

    def _pass_rows(self, begin: Begin) -> int:
        """Rows of a pass."""
        cfg = self.model.cfg
        one_block = begin.narrow and begin.layer == self.last
        widest = (
            self.length * max(cfg.d_model, cfg.n_heads * self.length),
            (cfg.d_mlp or 0) * (1 if one_block else self.length),
        )
        most = PASS_VALUES // max(widest)
        return max(1, most if begin.narrow else min(most, passes(self.model, self.tokens)))

    def _write(self, site: Site, found: dict[str, Tensor], run: Tensor, pos: Tensor, source_pos: Tensor) -> Write:
        """What the cells of one component and layer change."""
        place, rows = site.in_hook(self.model), run % self.n_rows
        values, own = _at(place, found[site.hook], rows, source_pos), _at(place, self.own[site.hook], rows, pos)
        if not self.disturbed:
            kept = (values != own).flatten(1).any(1) if values.ndim > 1 else values != own
            if site.layer == self.last and site.component not in ("resid_pre", "k", "v", *EMBEDDINGS):
                kept &= pos == self.at[rows]
            run, rows, pos, source_pos, values = (x[kept] for x in (run, rows, pos, source_pos, values))
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            stream = Site("resid_pre", site.layer)
            return Write(Site("attn_out", site.layer), run, pos, values - _at(stream, self.own[stream.hook], rows, pos))
        write = Write(place, run, pos, values)
        return (
            self._left_by_block(write, rows if torch.equal(pos, source_pos) else run) if self._is_local(site) else write
        )

    def _left_by_block(self, write: Write, sequence: Int[Tensor, " write"]) -> Write:
        """What a block leaves at the positions of a write, all roles in one sequence of each row."""
        stream = Site("resid_pre", write.site.layer + 1)
        if write.site.component == "resid_post" or not len(sequence):
            return write._replace(site=stream)
        sequences, number = sequence.unique(return_inverse=True)
        begin = Begin(write.site.layer, narrow=False)
        left = self._passes(begin, sequences, [write._replace(run=sequence)], stop_at_layer=stream.layer)
        return Write(stream, write.run, write.pos, left[number, write.pos])

    def _positions(self, source: Inputs) -> list[tuple[Tensor, Tensor]]:
        """Positions of each role in the rows and in the source."""
        site = next((site for site in self.groups if site.component == "pattern"), self.groups[0])
        return [
            aligned(site.at(role), self.inputs.roles, source.roles, self.length, self.n_rows) for role in self.roles
        ]

    def _mask(self) -> dict[str, Any]:
        """What the model's blocks are told of the tokens besides the residual stream, row by row."""
        told: dict[str, Any] = {}
        with suppress(Exception):  # a model that has no such function begins at its tokens
            with torch.no_grad():
                _, _, shortformer, mask = self.model.input_to_embed(self.tokens.to(self.device))  # type: ignore[attr-defined]
            told = {"shortformer_pos_embed": shortformer, "attention_mask": mask}
        return {name: value for name, value in told.items() if value is not None}

    def _gives_the_whole(self, begin: Begin, tried: dict[Begin, bool]) -> bool:
        """Whether passes that begin so have the logits of the whole pass, in every row."""
        if begin not in tried:
            try:
                found = None if self.disturbed else self._passes(begin, torch.arange(self.n_rows), [])
            except Exception:  # whatever the reason, such a model does not begin so
                found = None
            scale = 1e-5 * float(self.logits.abs().max())
            tried[begin] = found is not None and torch.allclose(found, self.logits, rtol=0, atol=scale)
        return tried[begin]

    def _passes(self, begin: Begin, runs: Int[Tensor, " run"], writes: Sequence[Write], **stop: int) -> Tensor:
        """Logits where the answer is read, of some runs with what is written in them, or their stream at a block."""
        found = []
        for part in runs.split(self.n_rows if self.disturbed else self._pass_rows(begin)):
            rows, hooks, told = part % self.n_rows, [], {}
            for write in writes:
                here = ((write.run >= part[0]) & (write.run <= part[-1])).nonzero()[:, 0]
                if len(here):
                    cut = Write(write.site, torch.searchsorted(part, write.run[here]), *(x[here] for x in write[2:]))
                    hooks.append((write.site.hook, lambda value, hook, cut=cut: _written(value, cut)))
            at, each, given = self.at[rows], torch.arange(len(rows)), self.tokens[rows]
            if begin.narrow:
                hooks += [(hook, lambda value, hook, one=(each, at): _narrowed(value, *one)) for hook in self.narrow]
            if begin.layer is not None:
                given = self.own[Site("resid_pre", begin.layer).hook][rows]
                told = {"start_at_layer": begin.layer, **{name: value[rows] for name, value in self.mask.items()}}
            with attached(self.model, hooks):
                out = self.model(given.to(self.device), **told, **stop)
            found.append((out if stop else out[:, 0] if out.shape[1] == 1 else out[each, at]).cpu())
        return torch.cat(found)


def _at(site: Site, activation: Tensor, rows: Tensor, pos: Tensor) -> Tensor:
    """An activation at single positions, in the site's head or neuron."""
    length = activation.shape[site.position_axis]
    found = activation.movedim(site.position_axis, 1).flatten(0, 1).index_select(0, rows * length + pos)
    return found if site.unit is None else found[:, site.unit]


def _narrowed(activation: Tensor, rows: Tensor, pos: Tensor) -> Tensor:
    """An activation ``[run, pos, ...]`` at one position of each run, which stays as an axis of size 1."""
    return activation[rows, pos][:, None] if activation.shape[1] > 1 else activation


def _written(activation: Tensor, write: Write) -> Tensor:
    """A copy of an activation with values in it."""
    changed = activation.clone()
    moved = changed.movedim(write.site.position_axis, 1)
    pos = write.pos if moved.shape[1] > 1 else torch.zeros_like(write.pos)
    moved = moved if write.site.unit is None else moved[:, :, write.site.unit]
    moved[write.run, pos] = write.values.to(moved)
    return changed
