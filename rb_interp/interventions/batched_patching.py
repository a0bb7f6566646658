"""Many cells of a patching matrix side by side in one batch of the model's own forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from rb_interp.interventions.sites import EMBEDDINGS, Site, aligned, gather, scatter
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows, attached, capture, evaluation, passes
from rb_interp.tasks import Inputs

PASS_VALUES = 200_000
"""Values in the widest activation of one pass, at most; larger ones leave the cache."""
SLOW = 5
"""Seconds after which a progress bar is shown."""
ACTS_ON_OTHERS = ("resid_pre", "k", "v", *EMBEDDINGS)
"""Components through which a position acts on others in their own block. The others act on their own position there."""


class Write(NamedTuple):
    """Values at single positions of runs, at one hook. Run ``role * n_rows + row`` is a base row with a role's cell."""

    site: Site
    run: Int[Tensor, " write"]
    pos: Int[Tensor, " write"]
    values: Tensor

    def same(self, other: Write) -> bool:
        """Whether another has the same values, to rounding, at the same places."""
        if self.site != other.site or self.values.shape != other.values.shape:
            return False
        scale = float(self.values.abs().max()) if self.values.numel() else 0.0
        close = torch.allclose(self.values, other.values, rtol=0, atol=16 * torch.finfo(self.values.dtype).eps * scale)
        return close and torch.equal(self.run, other.run) and torch.equal(self.pos, other.pos)


class CellRuns:
    """Runs of the base rows with one cell from other rows each.

    ``late``: a run begins at the block of its cell (a HookedTransformer, by ``start_at_layer`` and the mask of the
    whole pass). A cell that acts on its own position alone begins a block later, with what one pass of its block leaves
    there. ``narrow``: the last block computes the position of the answer alone after its attention. Both are done where
    they give the logits of the whole pass in every row. Left out are runs that change nothing or that nothing later
    reads, and cells that write what another writes. Under hooks of the caller's, which may tell rows apart, a pass has
    one cell, all rows in their order.
    """

    def __init__(
        self, model: HookedModel, base: Inputs, groups: Sequence[Site], roles: Sequence[str], at: Any, logits: Tensor
    ) -> None:
        """``at``: where answers are read, by default at the last position. ``logits``: there, of the base rows."""
        self.model, self.inputs, self.groups, self.roles, self.logits = model, base, groups, roles, logits
        self.tokens, self.device = as_rows(base.tokens), next(model.parameters()).device
        self.n_layers, (self.n_rows, self.length) = model.cfg.n_layers, self.tokens.shape
        self.at = torch.full((self.n_rows,), self.length - 1) if at is None else at
        self.disturbed = any(point.fwd_hooks for point in model.hook_dict.values())
        self.layers = sorted({site.layer for site in groups})
        streams = [self._stream(layer) for layer in {*self.layers, *(layer + 1 for layer in self.layers)}]
        self.own = capture(model, self.tokens, [*{site.hook: None for site in (*groups, *streams)}])
        self.mask: dict[str, Any] = {}
        ends = [Site(name, self.n_layers - 1).hook for name in ("z", "resid_mid", "resid_post")]
        self.ends = [hook for hook in ends if hook in model.hook_dict]
        can = (True, False) if not self.disturbed else (False,)
        with torch.no_grad(), evaluation(model):
            for self.late, self.narrow in product(can if not resid_mid_is_a_copy(model) else (False,), can):
                if not (self.late or self.narrow) or self._gives_the_whole():
                    break

    def run(self, source: Inputs) -> Iterator[tuple[list[int], int, Float[Tensor, "row d_vocab"]]]:
        """Groups, role and logits of cells with values from the source; cells that are not given change nothing."""
        at = role_positions(self.groups, self.roles, self.inputs, source)
        runs = [(k * self.n_rows + torch.arange(self.n_rows)[:, None]).expand_as(own) for k, (own, _) in enumerate(at)]
        run, pos, source_pos = (torch.cat([x.flatten() for x in some]) for some in (runs, *zip(*at, strict=True)))
        found = capture(self.model, source.tokens, [*{site.hook: None for site in self.groups}])
        bar = tqdm(total=len(self.groups), unit="row of cells", desc="patching", delay=SLOW, leave=False)
        with bar, torch.no_grad(), evaluation(self.model):
            for begin in sorted({self._begin(site) for site in self.groups}):
                cells: list[tuple[Write, list[int]]] = []
                for group, site in enumerate(self.groups):
                    if self._begin(site) == begin:
                        write = self._write(site, found[site.hook], run, pos, source_pos)
                        twins = next((groups for other, groups in cells if write.same(other)), None)
                        _ = cells.append((write, [group])) if twins is None else twins.append(group)
                for write, groups in cells:
                    changed = write.run.unique()
                    logits = self._passes(begin, changed, write) if len(changed) else self.logits[:0]
                    for role in (changed // self.n_rows).unique().tolist():
                        here, patched = changed // self.n_rows == role, self.logits.clone()
                        patched[changed[here] % self.n_rows] = logits[here]
                        yield groups, role, patched
                    bar.update(len(groups))

    def _stream(self, layer: int) -> Site:
        """The residual stream before a layer, or after the last one."""
        return Site("resid_pre", layer) if layer < self.n_layers else Site("resid_post", layer - 1)

    def _begin(self, site: Site) -> int:
        """The block at which the runs of a site's cells begin; -1 at the tokens, n_layers after all blocks."""
        if not self.late or site.component in EMBEDDINGS:
            return -1
        return site.layer + (site.component not in ACTS_ON_OTHERS)

    def _gives_the_whole(self) -> bool:
        """Whether passes that begin and end as they are to do have the values of the whole pass, in every row."""
        every, pairs = torch.arange(self.n_rows), []
        try:
            if self.late:
                _, _, shortformer, mask = self.model.input_to_embed(self.tokens.to(self.device))  # type: ignore[attr-defined]
                told = {"shortformer_pos_embed": shortformer, "attention_mask": mask}
                self.mask = {name: value for name, value in told.items() if value is not None}
                for layer in self.layers:
                    after = self.own[self._stream(layer + 1).hook]
                    pairs.append((self._passes(layer, every, stop_at_layer=layer + 1), after))
            begins = {self._begin(site) for site in self.groups}
            pairs += [(self._passes(begin, every), self.logits) for begin in begins]
        except Exception:  # whatever the reason, such a model does not run so
            return False
        return all(torch.allclose(one, other, rtol=0, atol=1e-5 * float(other.abs().max())) for one, other in pairs)

    def _write(self, site: Site, found: Tensor, run: Tensor, pos: Tensor, source_pos: Tensor) -> Write:
        """What the cells of one component and layer change where their runs begin, or later."""
        place, rows, is_local = site.in_hook(self.model), run % self.n_rows, site.component not in ACTS_ON_OTHERS
        values, own = gather(place, found, source_pos, rows), gather(place, self.own[site.hook], pos, rows)
        if not self.disturbed:
            kept = (values != own).reshape(len(run), -1).any(1)
            if is_local and site.layer == self.n_layers - 1:
                kept &= pos == self.at[rows]
            run, rows, pos, source_pos, values = (x[kept] for x in (run, rows, pos, source_pos, values))
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            before = self.own[self._stream(site.layer).hook]
            place, values = Site("attn_out", site.layer), values - before[rows, pos]
        if not (self.late and is_local and len(run)):
            return Write(place, run, pos, values)
        if site.component != "resid_post":  # all roles in one sequence of a row, where they cannot meet
            sequence = rows if torch.equal(pos, source_pos) else run
            sequences, number = sequence.unique(return_inverse=True)
            write = Write(place, sequence, pos, values)
            values = self._passes(site.layer, sequences, write, stop_at_layer=site.layer + 1)[number, pos]
        return Write(self._stream(site.layer + 1), run, pos, values)

    def _passes(self, begin: int, runs: Int[Tensor, " run"], write: Write | None = None, **stop: int) -> Tensor:
        """Logits where the answer is read, of some runs with a write in them, or the stream before a block."""
        after_all, narrow, stream = begin == self.n_layers, self.narrow and not stop, self._stream(max(begin, 0))
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
                hooks += [(hook, lambda value, hook, one=one: _narrowed(value, *one)) for hook in self.ends]
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
    groups: Sequence[Site], roles: Sequence[str], base: Inputs, source: Inputs
) -> list[tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]]:
    """Positions of each role in the rows and in their source, pair by pair as ``aligned`` has them."""
    site = next((site for site in groups if site.component == "pattern"), groups[0])
    return [aligned(replace(site, role=role), base, source) for role in roles]


def _narrowed(activation: Tensor, rows: Tensor, pos: Tensor) -> Tensor:
    """An activation ``[run, pos, ...]`` at one position of each run, which stays as an axis of size 1."""
    return activation[rows, pos][:, None] if activation.shape[1] > 1 else activation


def _written(activation: Tensor, write: Write) -> Tensor:
    """A copy of an activation with values in it."""
    narrow = activation.shape[write.site.position_axis] == 1
    pos = torch.zeros_like(write.pos) if narrow else write.pos
    return scatter(write.site, activation, pos, write.values, write.run)
