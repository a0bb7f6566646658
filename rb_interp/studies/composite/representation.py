"""What the vectors of a member stand for, and how complex its weights are (paper 2).

The vectors (Figs. 3b, 4 and 15):

    v(x; a1, a2)    last position after L1's attention, its residual connection and LayerNorm
                    (``resid_mid``)
    u(x; a)         row of L1's value matrix at the position of the first anchor a, all heads as one
                    vector
    g(x; a)         x + s(a), what the first of two steps would give

The *grid* has every trained pair that is no exception, keys 30 to 40, and some draws of noise that
all of them share. Its key stands at position 2, or at the last early one where rows are shorter
than 7, so noise stands before the key and between the anchors and the last position. Cosines are of
two rows with the same noise:

    answer_cosines    of v: (3,3) with (2,2), and (1,2) with (1,3); every key of one with every key
                      of the other. The target is the inferential answer: x - 4 and x + 2, x + 6 and
                      x + 3
    step_cosines      of u: first anchors 1 with 2, 2 with 3, 1 with 3 and 3 with 4. The target is
                      g(x; a). What stands behind the first anchor does not reach u
    variance_shares   share of variance (omega squared) of the last position after a layer's
                      attention that a grouping of rows explains: on early rows of seen_test, and on
                      the grid, there the mean over noises

``different_drawn`` is ``different`` of the cells that Fig. 4 shows: those with the key of (3,3)
above that of (2,2) and those with the key of (1,2) below that of (1,3). In a pre-norm model, and in
one without LayerNorm, ``resid_mid`` is the sum before any LayerNorm.

How it can mislead. A vector that stands for the target alone, by unrelated directions, reads equal
1 and different 0; a code of key and pair reads the same for both; and an untrained member of small
initialisation reads 1 for both, since v is nearly the embedding of the last token, which rows with
the same noise share. A number on a line beside large constant directions reads 1 for both too: see
the centred values, each less the mean of its noise. Answers follow keys far more than pairs: with
keys 20 to 99 (variance 533) and shifts of variance 40, a v that holds the key and nothing of the
pair already gives the answer .9. So ``answer`` means something only where it exceeds ``key``. On
rows of seen_test the last token is noise, and its embedding counts as unexplained; on the grid it
does not. An order that adds nothing (``order``) beside a pair that explains nothing says nothing.
Cosines of u depend on the basis in which W_V and W_O are written, which no logit does
(docs/probes.md).

The weights (Sec. 5.3, Figs. 5, 10, 12 and 13):

    weight_spectra       participation ratio and stable rank of every matrix of every layer
    condensation         cosines of the neurons of every matrix of every layer
    lattice              the items' embeddings: order, steps, participation ratio

How they can mislead. The numbers of single factors depend on the basis of their weights, see
``probes.weight_spectra``. An eigenvalue that shrinks starts above half of its final value: its step
is 0. Eigenvalues are sorted at each evaluation, so two that cross are told apart by size alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._core import undefined_notes
from rb_interp.probes._lattice import lattice
from rb_interp.probes.activations import captured
from rb_interp.probes.embeddings import spearman
from rb_interp.probes.labels import RowVectors, cosines_by_target, position_vectors
from rb_interp.probes.variance import UNDEFINED, omega_squared
from rb_interp.probes.weights import condensation, layer_matrices, weight_spectra
from rb_interp.runs.results import frame
from rb_interp.statistics.intervals import Auc, stratified_auc
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import MAX_RATIO, MIDDLE, N_MATRICES, SMALL
from rb_interp.studies.composite.flow import inferential_rows
from rb_interp.studies.composite.phase import INFERENTIAL, SYMMETRIC, MemberReading
from rb_interp.studies.composite.rows import AnchorPairs, PerRow, role_positions
from rb_interp.studies.composite.task import CompositeDataset, Pair
from rb_interp.tasks.inputs import Inputs, Roles
from rb_interp.training.member_group import Member

KEYS = np.arange(30, 41)
NOISES = 8
"""Draws of noise of the grid."""
ANSWERS_OF = (((3, 3), (2, 2)), ((1, 2), (1, 3)))
"""Pairs whose v are compared, with one another; Fig. 4 draws the first below the diagonal and the
second above it."""
STEPS_OF = ((1, 2), (2, 3), (1, 3), (3, 4))
"""First anchors whose u are compared."""
LAYERS = (0, 1)
RESID = [f"blocks.{layer}.hook_resid_mid" for layer in LAYERS]
"""Where the last position is read, by layer."""
VALUES = "blocks.1.attn.hook_v"

Groupings = Mapping[str, PerRow]


class Grid(NamedTuple):
    """Rows of every pair, noise and key, in this order; labels are the inferential answers."""

    inputs: Inputs
    pairs: Sequence[Pair]
    steps: PerRow
    """g(x; a1) of each row."""
    noise: PerRow
    """Number of each row's draw of noise."""
    groupings: Groupings

    def row_numbers(self, pair: Pair) -> Int[np.ndarray, "noise key"]:
        """Row numbers of a pair."""
        n = NOISES * len(KEYS)
        numbers = self.pairs.index(pair) * n + np.arange(n)
        return numbers.reshape(NOISES, len(KEYS))

    def cells(
        self, compared: Sequence[tuple[Pair, Pair]]
    ) -> Int[np.ndarray, "comparison noise key key 2"]:
        """Numbers of the two rows of each cell: key of the first pair down, of the second across."""
        cells = np.empty((len(compared), NOISES, len(KEYS), len(KEYS), 2), dtype=np.int64)
        for number, (down, across) in enumerate(compared):
            cells[number, ..., 0] = self.row_numbers(down)[:, :, None]
            cells[number, ..., 1] = self.row_numbers(across)[:, None, :]
        return cells


def grid_pairs(data: CompositeDataset) -> list[Pair]:
    """The trained pairs of a dataset that are no exceptions."""
    pairs = data.task.combinations("train")
    return [(int(first), int(second)) for first, second in pairs[~data.is_exception(pairs)]]


def has_grid(data: CompositeDataset) -> bool:
    """Whether a dataset has the keys 30 to 40, and the pairs and first anchors compared."""
    pairs = set(grid_pairs(data))
    first_anchors = {first for first, _ in pairs}
    low, high = data.task.items
    has_keys = bool(low <= KEYS[0] and KEYS[-1] <= high)
    has_pairs = set().union(*ANSWERS_OF) <= pairs
    return has_keys and has_pairs and set().union(*STEPS_OF) <= first_anchors


def draw_grid(data: CompositeDataset) -> Grid:
    """The grid of a dataset that has one, with the same noise for every dataset of a task."""
    task = data.task
    low, high = task.items
    pairs = grid_pairs(data)
    rng = np.random.default_rng([0, 14])
    noise = rng.integers(low, high + 1, (NOISES, task.length))
    tokens = np.tile(np.repeat(noise, len(KEYS), 0), (len(pairs), 1))
    keys = np.tile(KEYS, len(pairs) * NOISES)
    anchors = np.repeat(pairs, NOISES * len(KEYS), 0)
    position = min(2, task.length - 5)
    tokens[:, position] = keys
    tokens[:, position + 1 : position + 3] = anchors
    roles = Roles(role_positions(task.length, np.full(len(tokens), position)))
    answers = task.inferential(keys, anchors)
    steps = keys + np.array(task.shifts)[anchors[:, 0] - 1]
    number = np.tile(np.repeat(np.arange(NOISES), len(KEYS)), len(pairs))
    inputs = Inputs(tokens, answers, roles)
    return Grid(inputs, pairs, steps, number, groupings(keys, anchors, answers))


def read_grid(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> list[Reading]:
    """Readings of the grid: ``answer_cosines`` and ``step_cosines`` of L1, ``variance_shares``.

    Values of the first two: those of ``cosines_by_target``; arrays: the cosines of each comparison
    by key, mean over noises, ``3_3:2_2`` and so on, ``[key, key]``, and behind ``centred_`` the
    cosines of vectors less the mean of their noise. ``variance_shares``, of both layers, are as in
    `read_shares`, mean over noises.
    """
    grid = draw_grid(data)
    hooks = [*RESID, VALUES]
    now = captured(model, grid.inputs.tokens, hooks)
    before = untrained and captured(untrained, grid.inputs.tokens, hooks)
    return [
        _answer_cosines(now, before, grid),
        _step_cosines(now, before, grid),
        *_share_readings(now, before, grid.inputs, grid.groupings, grid.noise),
    ]


def _answer_cosines(now: ActivationSource, before: ActivationSource | None, grid: Grid) -> Reading:
    """Cosines of v, with ``different_drawn``."""
    read = partial(
        cosines_by_target,
        now,
        grid.inputs,
        hook=RESID[1],
        untrained=before,
        n_null=0,
        within=grid.noise,
    )
    cells = grid.cells(ANSWERS_OF)
    reading = read(pairs=cells.reshape(-1, 2))
    below = np.tri(len(KEYS), k=-1, dtype=bool)
    figure_cells = [cells[0][:, below], cells[1][:, below.T]]
    figure_reading = read(pairs=np.concatenate(figure_cells).reshape(-1, 2))
    values = {**reading.values, "different_drawn": figure_reading.values["different"]}
    start = dict(reading.untrained)
    if start:
        start["different_drawn"] = figure_reading.untrained["different"]
    names = [f"{a}_{b}:{c}_{d}" for (a, b), (c, d) in ANSWERS_OF]
    return _as_matrices(replace(reading, values=values, untrained=start), "answer_cosines", names)


def _step_cosines(now: ActivationSource, before: ActivationSource | None, grid: Grid) -> Reading:
    """Cosines of u, each first anchor with its lowest second one."""
    pairs: dict[int, Pair] = {}
    for first, second in grid.pairs:
        pairs.setdefault(first, (first, second))
    cells = grid.cells([(pairs[a], pairs[b]) for a, b in STEPS_OF])
    reading = cosines_by_target(
        now,
        grid.inputs,
        hook=VALUES,
        role="a1",
        targets=grid.steps,
        pairs=cells.reshape(-1, 2),
        untrained=before,
        n_null=0,
        within=grid.noise,
    )
    return _as_matrices(reading, "step_cosines", [f"{a}:{b}" for a, b in STEPS_OF])


def _as_matrices(reading: Reading, probe: str, names: Sequence[str]) -> Reading:
    """The reading of L1 under another name, with a matrix of mean cosines for each comparison."""
    shape = (len(names), NOISES, len(KEYS), len(KEYS))
    arrays = {}
    for prefix in ("", "centred_"):
        cosines = reading.arrays[f"{prefix}cosines"].reshape(shape)
        means = cosines.mean(1).astype(np.float32)
        for name, matrix in zip(names, means, strict=True):
            arrays[f"{prefix}{name}"] = matrix
    return replace(reading, probe=probe, layer=1, arrays=arrays)


def read_shares(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> list[Reading]:
    """Reading ``variance_shares`` of L0 and of L1.

    It is on early rows of seen_test whose pair is no exception. Values: shares that `groupings`
    explain, about 0 or up to 1, and ``order``, what ``pair`` explains beyond ``unordered_pair``. n
    is the number of rows.
    """
    rows = inferential_rows(data)
    inputs = data.inputs(rows)
    now = captured(model, inputs.tokens, RESID)
    before = untrained and captured(untrained, inputs.tokens, RESID)
    labels = groupings(data.keys[rows], data.pairs[rows], data.labels[rows])
    return _share_readings(now, before, inputs, labels, np.zeros(len(rows), dtype=np.int64))


def groupings(keys: PerRow, pairs: AnchorPairs, answers: PerRow) -> dict[str, PerRow]:
    """The group of each row by ``answer``, ``key``, ``unordered_pair`` and (ordered) ``pair``."""
    base = np.array([pairs.max() + 1, 1])
    return {
        "answer": answers,
        "key": keys,
        "unordered_pair": np.sort(pairs, 1) @ base,
        "pair": pairs @ base,
    }


def _share_readings(
    now: ActivationSource,
    before: ActivationSource | None,
    inputs: Inputs,
    labels: Groupings,
    noise: PerRow,
) -> list[Reading]:
    """Shares of variance in both layers, mean over the noises."""
    readings = []
    for layer in LAYERS:
        values = _shares(position_vectors(now, inputs, RESID[layer]), labels, noise)
        start = {}
        if before is not None:
            start = _shares(position_vectors(before, inputs, RESID[layer]), labels, noise)
        notes = undefined_notes(values, now, UNDEFINED)
        n = len(inputs)
        readings.append(
            Reading("variance_shares", values, layer, untrained=start, n=n, notes=notes)
        )
    return readings


def _shares(vectors: RowVectors, labels: Groupings, noise: PerRow) -> dict[str, float]:
    """Share of variance that each grouping explains, mean over the noises."""
    shares = {}
    for name, groups in labels.items():
        by_noise = []
        for number in np.unique(noise):
            rows = noise == number
            by_noise.append(omega_squared(vectors[rows], groups[rows]))
        shares[name] = float(np.mean(by_noise))
    shares["order"] = shares["pair"] - shares["unordered_pair"]
    return shares


LEADING = 5
"""Eigenvalues of the items' covariance that are followed, the ones that end largest."""
HALF = 0.5


def read_complexity(
    model: HookedModel, data: CompositeDataset, untrained: HookedModel, n_null: int = 50
) -> list[Reading]:
    """Spectra and condensation of every matrix, layer by layer, and the layout of the items.

    Arrays: those of `lattice`, and the cosines of L0's W_Q neurons with their groups.
    """
    readings = []
    for layer in range(model.cfg.n_layers):
        spectra = weight_spectra(model, layer=layer, untrained=untrained)
        readings.append(replace(spectra, arrays={}))
        matrices = tuple(layer_matrices(model, layer))
        cosines = condensation(
            model, layer=layer, untrained=untrained, n_null=n_null, matrices=matrices
        )
        arrays = {}
        if layer == 0:
            for name in ("cosines_W_Q", "group_W_Q"):
                arrays[name] = np.float32(cosines.arrays[name])
        readings.append(replace(cosines, arrays=arrays))
    items = data.task.tokens("key")
    readings.append(lattice(model, untrained=untrained, tokens=items, n_null=n_null))
    return readings


def growth(eigenvalues: pd.DataFrame) -> pd.DataFrame:
    """Final value and step of half of it, for each member's five eigenvalues that end largest.

    ``half_step`` is NaN if an evaluation is not known.
    """
    rows = []
    leading = eigenvalues.query("rank <= @LEADING").sort_values("step", kind="stable")
    for keys, curve in leading.groupby(["gamma", "seed", "rank"], sort=False):
        values = curve["eigenvalue"].to_numpy()
        half_step = np.nan
        if np.isfinite(values).all():
            half_step = curve["step"].iloc[np.argmax(values >= HALF * values[-1])]
        rows.append((*cast(tuple, keys), values[-1], half_step))
    return frame(rows, "gamma seed rank:int final half_step")


def growth_order(eigenvalues: pd.DataFrame) -> Iterator[MemberReading]:
    """Readings ``eigenvalue_growth``, one a member of the table ``eigenvalues``.

    ``order``: Spearman(rank, step) over the five eigenvalues of the items' covariance that end
    largest, rank 1 the largest, step the first evaluation at half of the final value or above.
    """
    for keys, member in growth(eigenvalues).groupby(["gamma", "seed"], sort=False):
        order = np.nan
        if len(member) == LEADING:
            order = spearman(member["rank"].to_numpy(), member["half_step"].to_numpy())
        reading = Reading("eigenvalue_growth", {"order": order}, n=len(member))
        yield *cast(tuple, keys), "", reading


def complexity_contrast(
    readings: pd.DataFrame, members: Sequence[Member]
) -> Iterator[MemberReading]:
    """Readings ``complexity_contrast``, one a seed with members at both gammas.

    ``matrices_lower``: of the 12 matrices of two layers, those whose participation ratio at gamma
    .8 is at most .7 times that at .5; 0 if a member of the two diverged.
    """
    spectra = readings.query("probe == 'weight_spectra'")
    ratios = spectra.loc[spectra["quantity"].str.startswith("participation_")]
    for seed in dict.fromkeys(member.seed for member in members):
        if not {Member(SMALL, seed), Member(MIDDLE, seed)} <= set(members):
            continue
        small = _by_matrix(ratios, SMALL, seed)
        middle = _by_matrix(ratios, MIDDLE, seed)
        if {len(small), len(middle)} <= {0, N_MATRICES}:
            lower = (small / middle <= MAX_RATIO).sum().to_dict()
            values = {"matrices_lower": float(lower["value"])}
            before = {"matrices_lower": float(lower["untrained"])}
            reading = Reading("complexity_contrast", values, untrained=before, n=N_MATRICES)
            yield np.nan, seed, "", reading


def _by_matrix(ratios: pd.DataFrame, gamma: float, seed: int) -> pd.DataFrame:
    """Participation ratios of a member, trained and untrained, by layer and matrix."""
    member = ratios.query("abs(gamma - @gamma) < 1e-9 and seed == @seed")
    return pd.DataFrame(member.set_index(["layer", "quantity"])[["value", "untrained"]])


def phase_by_complexity(readings: pd.DataFrame, phases: pd.DataFrame) -> Iterator[MemberReading]:
    """The reading ``phase_by_complexity``, the number of K8; none if no gamma has both phases.

    ``auc``: the chance that an inferential member has a lower participation ratio of L0's W_Q than
    a symmetric one of the same gamma, with the ends ``auc:low`` and ``auc:high`` of its interval,
    see ``statistics.intervals``.
    """
    spectra = readings.query("probe == 'weight_spectra' and layer == 0")
    ratios = spectra.query("quantity == 'participation_W_Q'")
    ratios = ratios[["gamma", "seed", "value", "untrained"]]
    members = phases[["gamma", "seed", "phase"]].merge(ratios).dropna()
    now = _auc(members, "value")
    if now.n_pairs:
        values = {"auc": now.value, "auc:low": now.low, "auc:high": now.high}
        before = {"auc": _auc(members, "untrained").value}
        reading = Reading("phase_by_complexity", values, untrained=before, n=now.n_pairs)
        yield np.nan, 0, "", reading


def _auc(members: pd.DataFrame, column: str) -> Auc:
    """How well a number tells inferential from symmetric members of the same gamma."""
    groups = []
    for _, same_gamma in members.groupby("gamma"):
        values = same_gamma.set_index("phase")[column]
        inferential = values[values.index == INFERENTIAL].tolist()
        groups.append((inferential, values[values.index == SYMMETRIC].tolist()))
    return stratified_auc(groups)


def eigenvalue_table(spectra: pd.DataFrame, members: Sequence[Member]) -> pd.DataFrame:
    """The table ``eigenvalues``: those of the items of the given members, stored in training."""
    items = spectra.query("group == 'items'")
    known = set(members)
    places = zip(items["gamma"], items["seed"], strict=True)
    selected = [Member(gamma, seed) in known for gamma, seed in places]
    items = items.loc[np.array(selected, dtype=bool)]
    return frame(items, "gamma seed step rank:int eigenvalue")
