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

from rb_interp.interventions.hooking import last_logits, with_edits, write_at
from rb_interp.interventions.path import aligned, check_pairs
from rb_interp.interventions.sites import Edit, Site, gather_at
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capture import as_rows, capture, check_range, evaluation
from rb_interp.probes.check import check_labels
from rb_interp.tasks import Inputs

BY_POSITION = ("z", "attn_out", "resid_mid", "mlp_out")
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
    """Runs of the corrupted rows with one cell patched, many cells side by side in one pass.

    A run begins at the block of its cell, with the residual stream that the corrupted rows have there. It ends with the
    last position alone. Cells of resid_pre, k and v can change every position after their block. All other cells change
    the block's output at their own positions only, so all roles run through that block at once, and their runs begin at
    the next block.

    Some runs are left out: those whose patch changes no value, and those whose changed positions nothing later reads.
    Equal runs are run once. A model that cannot be run block by block, or that carries hooks of the caller's, runs
    whole, one cell a pass.
    """

    def __init__(
        self,
        model: HookedModel,
        clean: Inputs,
        corrupted: Inputs,
        groups: list[Site],
        roles: Sequence[str],
        metric: str,
    ) -> None:
        self.model, self.inputs, self.groups, self.roles, self.metric = model, corrupted, groups, roles, metric
        self.tokens, self.device = as_rows(corrupted.tokens), next(model.parameters()).device
        check_pairs("clean", as_rows(clean.tokens), "corrupted", self.tokens)
        self.labels = [torch.as_tensor(check_labels(rows, "patching_matrix")).long() for rows in (clean, corrupted)]
        check_range(model, torch.stack(self.labels, 1))
        for site in groups:
            site.check(model)
        self.last, (self.n_rows, self.length) = model.cfg.n_layers - 1, self.tokens.shape
        self._positions(clean)
        self.hooks = list(dict.fromkeys(site.hook for site in groups))
        states = [Site("resid_pre", layer).hook for layer in range(self.last + 1)]
        self.states = [*states, Site("resid_post", self.last).hook]
        held = [Site("attn_out", site.layer).hook for site in groups if site.component == "mlp_out"]
        self.found = capture(model, self.tokens, list({*self.hooks, *self.states, *held}))
        self.source = clean, capture(model, clean.tokens, list({*self.hooks, self.states[-1]}))
        # What cuts the last block to the last position; the scores only where what follows reads them from the hook.
        self.narrow: dict[str, Callable[[Tensor], Tensor]] = {
            Site("z", self.last).hook: lambda z: z[:, -1:],
            Site("resid_mid", self.last).hook: lambda resid: resid[:, -1:],
        }
        if not resid_mid_is_a_copy(model):
            self.narrow[f"blocks.{self.last}.attn.hook_attn_scores"] = lambda scores: scores[:, :, -1:]
        self.changes: dict[str, Callable[[Tensor], Tensor]] = {}

    @contextmanager
    def ready(self) -> Iterator[None]:
        """A context in which cells can be run; hooks are attached once, since that costs as much as a pass."""

        def change(activation: Tensor, _: Tensor, hook: str) -> Tensor:
            return self.changes[hook](activation) if hook in self.changes else activation

        logits = last_logits(self.model, self.tokens[:4])
        disturbed = any(point.fwd_hooks for point in self.model.hook_dict.values())
        hooks = {*self.hooks, *self.narrow, *(Site("attn_out", layer).hook for layer in range(self.last + 1))}
        edits = [Edit(hook, partial(change, hook=hook)) for hook in hooks if hook in self.model.hook_dict]
        with torch.no_grad(), evaluation(self.model), with_edits(self.model, edits):
            self.stepwise = not disturbed and (self._can_step(logits, self.narrow) or self._can_step(logits, {}))
            self.changes = {}
            self.corrupted, self.clean = self._unpatched(self.inputs, self.found), self._unpatched(*self.source)
            yield

    def run(self, source: Inputs) -> Float[np.ndarray, "group role row"]:
        """Metric of each row with each cell taken from the source's rows."""
        check_pairs("the source", as_rows(source.tokens), "corrupted", self.tokens)
        at, self.changes = self._positions(source), {}
        found = self.source[1] if source is self.source[0] else capture(self.model, source.tokens, self.hooks)
        if not self.stepwise:
            return self._whole(found, [source_at for _, source_at in at])
        rows = [self.n_rows * k + torch.arange(self.n_rows)[:, None].expand_as(pair[0]) for k, pair in enumerate(at)]
        run, pos, source_pos = (torch.cat([x.flatten() for x in parts]) for parts in (rows, *zip(*at, strict=True)))
        writes = [self._writes(site, found[site.hook], run, pos, source_pos) for site in self.groups]
        first_equal = [[other.same(some) for other in writes[: i + 1]].index(True) for i, some in enumerate(writes)]
        patched = np.tile(self.corrupted, (len(self.groups), len(self.roles), 1))
        results, each = patched.reshape(-1), len(self.roles) * self.n_rows
        once = [writes[i]._replace(run=writes[i].run + each * i) for i in set(first_equal) if len(writes[i].run)]
        for start, runs, parts in self._passes(once):
            here = runs % self.n_rows
            results[runs.numpy()] = self._measure(self._step(start, here, parts).cpu(), here)
        return patched[first_equal]

    def _whole(self, found: dict[str, Tensor], at: list[Tensor]) -> Float[np.ndarray, "group role row"]:
        """The same by one whole run of the model for each cell."""
        runs = []
        for site, (role, source_at) in product(self.groups, list(zip(self.roles, at, strict=True))):
            values = gather_at(site.in_hook(self.model), found[site.hook], source_at)
            edits = write_at(site.at(role), values, self.inputs.roles, self.length, self.model)
            runs.append(self._measure(last_logits(self.model, self.tokens, edits)))
        return np.stack(runs).reshape(len(self.groups), len(self.roles), self.n_rows)

    def _positions(self, source: Inputs) -> list[tuple[Tensor, Tensor]]:
        """Positions of each role in the rows and in the source."""
        site = next((site for site in self.groups if site.component == "pattern"), self.groups[0])
        return [
            aligned(site.at(role), self.inputs.roles, source.roles, self.length, self.n_rows) for role in self.roles
        ]

    def _unpatched(self, inputs: Inputs, found: dict[str, Tensor]) -> Float[np.ndarray, " row"]:
        if not self.stepwise:
            return self._measure(last_logits(self.model, inputs.tokens))
        return self._measure(self._read_out(found[self.states[-1]][:, -1:].to(self.device)).cpu())

    def _measure(self, logits: Float[Tensor, "row d_vocab"], rows: Tensor | None = None) -> Float[np.ndarray, " row"]:
        """Metric of some rows, or of all."""
        clean, corrupted = (labels if rows is None else labels[rows] for labels in self.labels)
        if self.metric == "probability":
            return logits.double().softmax(-1).gather(1, clean[:, None])[:, 0].numpy()
        answers = logits.gather(1, torch.stack([clean, corrupted], 1)).double()
        return (answers[:, 0] - answers[:, 1]).numpy()

    def _writes(self, site: Site, found: Tensor, run: Tensor, pos: Tensor, source_pos: Tensor) -> Write:
        """What the cells of one component and layer change in their runs."""
        rows, site = run % self.n_rows, site.in_hook(self.model)
        values = _at(site, found, rows, source_pos)
        differs = (values != _at(site, self.found[site.hook], rows, pos)).flatten(1).any(1)
        if site.layer == self.last and site.component not in ("resid_pre", "k", "v"):
            differs &= pos == self.length - 1  # the one position whose logits are read
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
        if site.head is not None:
            heads = _at(replace(site, head=None), self.found[site.hook], rows, pos)
            given[site.hook] = heads.index_copy(1, torch.tensor([site.head]), values[:, None])
        if site.component == "mlp_out":
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
        """Logits at the last position, from one block on, of some rows with what is written in them."""
        state = self.found[self.states[start]]
        resid = (state if start <= self.last else state[:, -1:]).index_select(0, rows).to(self.device)
        self.changes = dict(self.narrow)
        for part in parts:
            if part.site is None:
                resid[part.run, part.pos - (self.length - resid.shape[1])] = part.values.to(resid)
            else:
                self.changes[part.site.hook] = partial(_write_part, part=part)
        for layer in range(start, self.last + 1):
            resid = self._block(layer, resid)
        return self._read_out(resid[:, -1:])

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


def _close(found: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether two tensors agree, to a share of the largest value."""
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return (
        found.shape == expected.shape
        and math.isfinite(scale)
        and torch.allclose(found, expected, rtol=0, atol=tolerance * scale)
    )


def _at(site: Site, activation: Tensor, rows: Tensor, pos: Tensor) -> Tensor:
    """An activation at single positions, in the site's head."""
    length = activation.shape[site.position_axis]
    found = activation.movedim(site.position_axis, 1).flatten(0, 1).index_select(0, rows * length + pos)
    return found if site.head is None else found[:, site.head]


def _write_part(activation: Tensor, part: Write) -> Tensor:
    """A copy of an activation with a part's values in it."""
    assert part.site is not None
    changed = activation.clone()
    moved = changed.movedim(part.site.position_axis, 1)
    moved = moved if part.site.head is None else moved[:, :, part.site.head]
    moved[part.run, part.pos] = part.values.to(moved)
    return changed
