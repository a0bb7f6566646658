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

How it can mislead. Two cells may recover the same half or one half each, and the matrix looks
alike. Roles overlap: the last position holds a noise token or an anchor, so it also counts in the
cells of that role. A role without positions has no cells (NaN). In the last layer a position that
is not the answer's changes nothing by what it reads or writes there: these cells are 0 in any
model, and a note names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.interventions import sites
from rb_interp.interventions.attribution import Cells, Heads, Layers, Names, PatchedCells
from rb_interp.interventions.edits import (
    Edit,
    check_finite,
    edits_of,
    gather,
    reading,
    scatter,
    with_edits,
)
from rb_interp.interventions.effect import Direction
from rb_interp.interventions.matrix import Matrix
from rb_interp.interventions.metrics import METRICS, AnswerAt, MetricLike, answer_positions
from rb_interp.interventions.paired_run import Activations, PairedRun
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel, resid_mid_is_a_copy
from rb_interp.models.structure import (
    attached,
    caller_hooks,
    device_of,
    evaluation,
    hook_points,
    rows_of_a_pass,
)
from rb_interp.probes.activations import as_rows
from rb_interp.tasks.inputs import Inputs

__all__ = ["patching_matrix"]

Runs = Int[Tensor, " run"]
PASS_VALUES = 400_000
"""Values in the widest activation of one pass of cells, at most; larger ones leave the cache."""
PROGRESS_AFTER_SECONDS = 5
"""Seconds after which a progress bar is shown."""


@checked
@single_threaded
def patching_matrix(
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
        roles: by default all that both kinds of rows have, and the last position; ``"positions"``
            for a cell at each position, by itself.
        head: one head, which may share its k and v; by default all of them at once. ``"all"`` for
            a cell for each head, by default of ``z`` at all positions.
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
    >>> cells = matrix.to_frame().query("component == 'resid_pre' and layer == 0")
    >>> cells.recovered.round(3).tolist()
    [1.0, 0.0]
    """
    with torch.inference_mode(False):
        rows = (clean, corrupted, direction, control)
        cells = Cells(model, *rows, components, layers, roles, head)
        pair = PairedRun(model, metric, answer_at, *rows, cells.hooks)
        return cells.matrix(pair, run_cells(pair, cells), "patching")


def run_cells(pair: PairedRun, cells: Cells) -> PatchedCells:
    """The metric of each row with each cell from each source."""
    n_rows = len(pair.base)
    runs = CellRuns(pair, cells.groups, cells.streams)
    shape = (len(pair.sources), len(cells.groups), len(cells.roles), 1)
    patched = np.tile(pair.start, shape)
    row_by_row = pair.metric in METRICS.values()
    for number, source in enumerate(pair.sources):
        positions = cells.positions(pair.base, source)
        for group, changed, logits in runs.run(positions, pair.activations[number + 1]):
            rows = changed % n_rows
            if row_by_row:
                patched[number, group].reshape(-1)[changed.numpy()] = pair.of(logits, rows)
                continue
            roles = changed // n_rows
            for role in roles.unique().tolist():
                of_role = roles == role
                all_logits = pair.base_logits.clone()
                all_logits[rows[of_role]] = logits[of_role]
                patched[number, group, role] = pair.of(all_logits)
    return patched


class Write(NamedTuple):
    """Values at single positions of runs, at one hook.

    Run ``role * n_rows + row`` is a base row with a role's cell.
    """

    site: Site
    run: Int[Tensor, " write"]
    position: Int[Tensor, " write"]
    values: Tensor

    def within(self, runs: Runs) -> Write:
        """The writes of some runs, which are sorted, numbered by their place among these."""
        entries = ((self.run >= runs[0]) & (self.run <= runs[-1])).nonzero()[:, 0]
        number = torch.searchsorted(runs, self.run[entries])
        return Write(self.site, number, self.position[entries], self.values[entries])

    def put(self, activation: Tensor) -> Tensor:
        """The activation of all runs with the values; of one position, whatever the position."""
        length = activation.shape[self.site.position_axis]
        position = self.position * (length > 1)
        return scatter(self.site, activation, position, self.values, self.run)


class CellRuns:
    """Runs of the base rows with one cell from other rows each.

    ``late``: a run begins at the block of its cell (in a HookedTransformer itself). A cell that
    acts on its own position alone begins a block later, with what one pass of its block leaves
    there. ``narrow``: the last block computes the position of the answer alone after its attention.
    Both are done if they give the logits of the whole pass. Left out are runs that change nothing
    or that nothing later reads. Under the caller's hooks, which may tell rows apart, a pass has one
    cell.
    """

    def __init__(self, pair: PairedRun, groups: Sequence[Site], streams: Sequence[Site]) -> None:
        model = pair.model
        self.pair = pair
        self.model = model
        self.n_layers = model.cfg.n_layers
        self.streams = streams
        self.groups = list(groups)
        self.untouched = pair.activations[0]
        self.tokens = as_rows(pair.base.tokens)
        self.n_rows, self.length = self.tokens.shape
        self.answers = answer_positions(pair.answer_at, pair.base)
        self.device = device_of(model)
        self.disturbed = bool(caller_hooks(model))
        self.mask: dict[str, Tensor] = {}
        last = [Site(name, self.n_layers - 1).hook for name in ("z", "resid_mid", "resid_post")]
        self.narrow_hooks = [*hook_points(model, last)]
        self.late = False
        self.narrow = False
        if not self.disturbed:
            self._choose_passes()

    def run(
        self,
        cell_positions: Sequence[tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]],
        activations: Activations,
    ) -> Iterator[tuple[int, Runs, Float[Tensor, "run d_vocab"]]]:
        """Each group's runs that differ, with values from a source, and their logits.

        Positions are those of each role in the base rows and in the source.
        """
        runs, positions, source_positions = [], [], []
        for role, (base, other) in enumerate(cell_positions):
            run = role * self.n_rows + torch.arange(self.n_rows)[:, None]
            runs.append(run.expand_as(base).flatten())
            positions.append(base.flatten())
            source_positions.append(other.flatten())
        run, source_position = torch.cat(runs), torch.cat(source_positions)
        cells = (run, torch.cat(positions), source_position)
        results: dict[Site, tuple[Tensor, Tensor]] = {}
        bar = tqdm(
            self.groups, "patching", delay=PROGRESS_AFTER_SECONDS, leave=False, unit="row of cells"
        )
        with bar, torch.no_grad(), evaluation(self.model):
            for group, asked in enumerate(bar):
                site = self._one_of_equals(asked)
                if site not in results:
                    hooked = site.in_hook(self.model)
                    values = gather(
                        hooked, activations[site.hook], source_position, run % self.n_rows
                    )
                    results[site] = self._changed(site, values, *cells)
                yield group, *results[site]

    def logits(
        self, site: Site, positions: Int[Tensor, "row n"], values: Float[Tensor, "row n ..."]
    ) -> Float[Tensor, "row d_vocab"]:
        """Logits of the base rows with other values at a site's positions."""
        run = torch.arange(self.n_rows)[:, None].expand_as(positions).flatten()
        position = positions.flatten()
        logits = self.pair.base_logits.clone()
        with torch.no_grad(), evaluation(self.model):
            site = self._one_of_equals(replace(site, role=None))
            changed, new = self._changed(site, values.flatten(0, 1), run, position, position)
        logits[changed] = new
        return logits

    def edited(
        self,
        values: Mapping[Site, Tensor],
        hooks: Sequence[str] = (),
        stop_at_layer: int | None = None,
    ) -> tuple[Tensor, Activations]:
        """Logits of the base rows with values at several sites, and their activations: new ones at
        ``hooks``, each before values are written there. Blocks from ``stop_at_layer`` on need not run.
        """
        reads, activations = reading(hooks)
        edits = [*reads, *edits_of(self.model, self.pair.base, values)]
        block = min(site.layer for site in values)
        if not self.late or any(site.component in sites.EMBEDDINGS for site in values):
            block = -1
        last = self.n_layers - 1
        before_z = ("q", *sites.ACTS_ON_OTHERS)
        narrow = all(site.layer < last or site.component in before_z for site in values)
        narrow &= not hooks
        end = stop_at_layer if self.late else None
        logits = self._passes(block, torch.arange(self.n_rows), None, end, edits, narrow)
        new = {hook: torch.cat(parts) for hook, parts in activations.items() if parts}
        return check_finite(logits), self.untouched | new

    def _one_of_equals(self, site: Site) -> Site:
        """The stream between two layers is one site where runs begin late."""
        stands_before = self.late and site.component == "resid_pre"
        return self.streams[site.layer] if stands_before else site

    def _changed(self, site: Site, *cells: Tensor) -> tuple[Runs, Float[Tensor, "run d_vocab"]]:
        """The runs that differ with values at a site, and their logits."""
        write = self._write(site, *cells)
        changed = write.run.unique()
        logits = self.pair.base_logits[:0]
        if len(changed):
            logits = self._passes(self._first_block(site), changed, write)
        return changed, check_finite(logits)

    def _choose_passes(self) -> None:
        """Begin late and end narrow if this gives the values of the whole pass."""
        of_lens = type(self.model).__module__ == "transformer_lens.HookedTransformer"
        is_plain = of_lens and "forward" not in vars(self.model)
        with torch.no_grad(), evaluation(self.model):
            for late in (True, False) if is_plain else (False,):
                for narrow in (True, False):
                    self.late = late
                    self.narrow = narrow
                    if not (late or narrow) or self._equals_whole_pass():
                        return

    def _first_block(self, site: Site) -> int:
        """The block at which runs begin: -1 at the tokens, n_layers after all blocks."""
        if not self.late or site.component in sites.EMBEDDINGS:
            return -1
        is_local = site.component not in sites.ACTS_ON_OTHERS
        return site.layer + is_local

    def _equals_whole_pass(self) -> bool:
        """Whether the chosen passes have the values of the whole pass, in every row."""
        rows = torch.arange(self.n_rows)
        blocks = {self._first_block(site) for site in self.groups}
        first = min(blocks - {-1}, default=0)
        blocks &= {-1, first, self.n_layers}  # those between are a part of the first
        comparisons = []
        try:
            if self.late:
                # what a pass that begins at a block needs of the whole pass
                tokens = self.tokens.to(self.device)
                _, _, shortformer, mask = self.model.input_to_embed(tokens)  # type: ignore[attr-defined]
                candidates = {"shortformer_pos_embed": shortformer, "attention_mask": mask}
                self.mask = {name: value for name, value in candidates.items() if value is not None}
                for layer in sorted({site.layer for site in self.groups}):
                    stream = self._passes(layer, rows, stop_at_layer=layer + 1)
                    comparisons.append((stream, self.untouched[self.streams[layer + 1].hook]))
            for block in blocks:
                comparisons.append((self._passes(block, rows), self.pair.base_logits))
        except Exception:  # whatever the reason, such a model does not run so
            return False
        for actual, expected in comparisons:
            tolerance = 1e-5 * float(expected.abs().max())
            if not torch.allclose(actual, expected, rtol=0, atol=tolerance):
                return False
        return True

    def _write(
        self, site: Site, values: Tensor, run: Tensor, position: Tensor, source_position: Tensor
    ) -> Write:
        """What the cells of one component and layer change at the begin of their runs, or later."""
        hooked = site.in_hook(self.model)
        is_local = site.component not in sites.ACTS_ON_OTHERS
        rows = run % self.n_rows
        if not self.disturbed:
            untouched = gather(hooked, self.untouched[site.hook], position, rows)
            changes = values != untouched
            if changes.ndim > 1:
                changes = changes.flatten(1).any(1)
            if is_local and site.layer == self.n_layers - 1:
                changes &= position == self.answers[rows]
            run = run[changes]
            rows = rows[changes]
            position = position[changes]
            source_position = source_position[changes]
            values = values[changes]
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            before = self.untouched[Site("resid_pre", site.layer).hook]
            hooked = Site("attn_out", site.layer)
            values = values - before[rows, position]
        if not (self.late and is_local and len(run)):
            return Write(hooked, run, position, values)
        if site.component != "resid_post":
            # all roles in one sequence of a row, if they cannot meet
            sequence = rows if torch.equal(position, source_position) else run
            sequences, number = sequence.unique(return_inverse=True)
            write = Write(hooked, sequence, position, values)
            stream = self._passes(site.layer, sequences, write, stop_at_layer=site.layer + 1)
            values = stream[number, position]
        return Write(self.streams[site.layer + 1], run, position, values)

    def _passes(
        self,
        first_block: int,
        runs: Runs,
        write: Write | None = None,
        stop_at_layer: int | None = None,
        edits: Sequence[Edit] = (),
        narrow: bool = True,
    ) -> Tensor:
        """Logits of some runs where the answer is read, or the stream before a block."""
        narrow = narrow and self.narrow and stop_at_layer is None
        parts = []
        for part in runs.split(self._runs_in_a_pass(first_block, narrow)):
            with with_edits(self.model, edits, part):
                parts.append(self._pass(first_block, part, write, narrow, stop_at_layer))
        return torch.cat(parts)

    def _runs_in_a_pass(self, first_block: int, narrow: bool) -> int:
        """How many runs share a pass."""
        if self.disturbed:
            return self.n_rows
        cfg = self.model.cfg
        length = 1 if first_block == self.n_layers else self.length
        in_mlp = 1 if narrow and first_block == self.n_layers - 1 else length
        in_stream = length * max(cfg.d_model, cfg.n_heads * length)
        widest = max(in_stream, in_mlp * (cfg.d_mlp or 0))
        in_memory = rows_of_a_pass(self.model, self.tokens[:, : 1 if narrow else length])
        return max(1, min(PASS_VALUES // widest, in_memory))

    def _pass(
        self,
        first_block: int,
        runs: Runs,
        write: Write | None,
        narrow: bool,
        stop_at_layer: int | None,
    ) -> Tensor:
        """What `_passes` gives, of runs that fit into one pass."""
        rows = runs % self.n_rows
        answers = (torch.arange(len(runs)), self.answers[rows])
        stream = self.streams[max(first_block, 0)]
        options: dict[str, Any] = {}
        if first_block < 0:
            activation = self.tokens[rows]
        else:
            activation = self.untouched[stream.hook][rows]
            options["start_at_layer"] = first_block
            options |= {name: value[rows] for name, value in self.mask.items()}
        if first_block == self.n_layers:
            activation = activation[answers][:, None]

        # functions, since TransformerLens names a hook by its repr, and one with tensors is slow
        def select_answers(activation: Tensor, hook: Any) -> Tensor:
            return activation[answers][:, None] if activation.shape[1] > 1 else activation

        hooks = []
        if write is not None:
            part = write.within(runs)
            if first_block >= 0 and write.site == stream:
                activation = part.put(activation)
            else:
                hooks.append((write.site.hook, lambda activation, hook: part.put(activation)))
        if narrow:
            hooks += [(hook, select_answers) for hook in self.narrow_hooks]
        if stop_at_layer is not None:
            options["stop_at_layer"] = stop_at_layer
        with attached(self.model, hooks):
            output = self.model(activation.to(self.device), **options)
        if stop_at_layer is None:
            output = output[:, 0] if output.shape[1] == 1 else output[answers]
        return output.cpu()
