"""What the vectors of a member stand for, and how complex it is (paper 2, Figs. 3b, 4, 5, 10, 12,
13 and 15).

    v(x; a1, a2)    last position after L1's attention, its residual connection and LayerNorm (``resid_mid``)
    u(x; a)         row of L1's value matrix at the position of the first anchor a, all heads as one vector
    g(x; a)         x + s(a), what the first of two steps would give

The *grid* has every trained pair that is no exception, keys 30 to 40, and some draws of noise that
all of them share. Its key stands at position 2, or at the last early one where rows are shorter
than 7, so noise stands before the key and between the anchors and the last position. Cosines are of
two rows with the same noise:

    answer_cosines    of v: (3,3) with (2,2), and (1,2) with (1,3); every key of one with every key of the other. The
                      target is the inferential answer: x - 4 and x + 2, x + 6 and x + 3
    step_cosines      of u: first anchors 1 with 2, 2 with 3, 1 with 3 and 3 with 4. The target is g(x; a). What stands
                      behind the first anchor does not reach u
    variance_shares   share of variance (omega squared) of the last position after a layer's attention that a grouping
                      of rows explains: on early rows of seen_test, and on the grid, there the mean
                      over noises

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

Complexity (Sec. 5.3) is that of neurons, matrices and items' embeddings:

    weight_spectra       participation ratio and stable rank of every matrix of every layer
    condensation         cosines of the neurons of every matrix of every layer
    lattice              the items' embeddings: order, steps, participation ratio

How they can mislead. The numbers of single factors depend on the basis of their weights, see
``probes.weight_spectra``. An eigenvalue that shrinks starts above half of its final value: its step
is 0. Eigenvalues are sorted at each evaluation, so two that cross are told apart by size alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import undefined
from rb_interp.probes.activations import captured
from rb_interp.probes.embeddings import lattice
from rb_interp.probes.labels import UNDEFINED, cosines_by_target, omega_squared, position_vectors
from rb_interp.probes.vectors import spearman
from rb_interp.probes.weights import condensation, layer_matrices, weight_spectra
from rb_interp.runs.results import frame
from rb_interp.statistics.intervals import stratified_auc
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import LOWER, MIDDLE, SMALL, TWO_LAYERS
from rb_interp.studies.composite.flow import inferential_rows
from rb_interp.studies.composite.phase import INFERENTIAL, SYMMETRIC, Placed
from rb_interp.studies.composite.rows import role_positions
from rb_interp.studies.composite.task import CompositeDataset
from rb_interp.tasks.inputs import Inputs, Roles
from rb_interp.training.member_group import Member

Pair = tuple[int, int]

KEYS = np.arange(30, 41)
NOISES = 8
"""Draws of noise of the grid."""
ANSWERS_OF = (((3, 3), (2, 2)), ((1, 2), (1, 3)))
"""Pairs whose v are compared, with one another; Fig. 4 draws the first below the diagonal and the
second above it."""
STEPS_OF = ((1, 2), (2, 3), (1, 3), (3, 4))
"""First anchors whose u are compared."""
RESID, VALUES = "blocks.{}.hook_resid_mid", "blocks.1.attn.hook_v"
LAYERS = (0, 1)
LEADING, HALF = 5, 0.5

Groupings = Mapping[str, Int[np.ndarray, " row"]]
Cells = Int[np.ndarray, "comparison noise key key 2"]


class Grid(NamedTuple):
    """Rows of every pair, noise and key, in this order, with g(x; a1); labels are the inferential
    answers."""

    inputs: Inputs
    pairs: Sequence[Pair]
    steps: Int[np.ndarray, " row"]
    noise: Int[np.ndarray, " row"]
    groupings: Groupings

    def numbers(self, pair: Pair) -> Int[np.ndarray, "noise key"]:
        """Row numbers of a pair."""
        return self.pairs.index(pair) * NOISES * len(KEYS) + np.arange(NOISES * len(KEYS)).reshape(
            NOISES, len(KEYS)
        )

    def cells(self, compared: Sequence[tuple[Pair, Pair]]) -> Cells:
        """Numbers of the two rows of every cell: key of the first pair down, key of the second
        across."""
        numbers = [
            (self.numbers(down)[:, :, None], self.numbers(across)[:, None, :])
            for down, across in compared
        ]
        return np.stack([np.stack(np.broadcast_arrays(*pair), -1) for pair in numbers])


def grid_pairs(data: CompositeDataset) -> list[Pair]:
    """The trained pairs of a dataset that are no exceptions."""
    pairs = data.task.combinations("train")
    return [(int(first), int(second)) for first, second in pairs[~data.is_exception(pairs)]]


def has_grid(data: CompositeDataset) -> bool:
    """Whether a dataset has the keys 30 to 40, and the pairs and first anchors that are
    compared."""
    pairs, firsts = grid_pairs(data), {pair for step in STEPS_OF for pair in step}
    low, high = data.task.items
    there = {*sum(ANSWERS_OF, ())} <= {*pairs} and firsts <= {first for first, _ in pairs}
    return there and bool(low <= KEYS[0] and KEYS[-1] <= high)


def draw_grid(data: CompositeDataset) -> Grid:
    """The grid of a dataset that has one, with the same noise for every dataset of a task."""
    task, pairs, at = data.task, grid_pairs(data), min(2, data.task.length - 5)
    noise = np.random.default_rng([0, 14]).integers(
        task.items[0], task.items[1] + 1, (NOISES, task.length)
    )
    tokens = np.tile(np.repeat(noise, len(KEYS), 0), (len(pairs), 1))
    tokens[:, at] = np.tile(KEYS, len(pairs) * NOISES)
    tokens[:, at + 1 : at + 3] = np.repeat(pairs, NOISES * len(KEYS), 0)
    keys, anchors = tokens[:, at], tokens[:, at + 1 : at + 3]
    roles = Roles(role_positions(task.length, np.full(len(tokens), at)))
    steps, answers = (
        keys + np.array(task.shifts)[anchors[:, 0] - 1],
        task.inferential(keys, anchors),
    )
    number = np.tile(np.repeat(np.arange(NOISES), len(KEYS)), len(pairs))
    return Grid(
        Inputs(tokens, answers, roles), pairs, steps, number, groupings(keys, anchors, answers)
    )


def read_grid(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> list[Reading]:
    """Readings of the grid: ``answer_cosines`` and ``step_cosines`` of L1, ``variance_shares`` of
    both layers.

    Values of the first two: those of ``cosines_by_target``; arrays: the cosines of each comparison
    by key, mean over noises, ``3_3:2_2`` and so on, ``[key, key]``, and behind ``centred_`` the
    cosines of vectors less the mean of their noise. ``variance_shares`` are as in `read_shares`,
    mean over noises.
    """
    grid, at = draw_grid(data), [*map(RESID.format, LAYERS), VALUES]
    now, before = (
        captured(model, grid.inputs.tokens, at),
        untrained and captured(untrained, grid.inputs.tokens, at),
    )
    partners = {
        first: (first, second) for first, second in reversed(grid.pairs)
    }  # the lowest second anchor
    answers, steps = (
        grid.cells(ANSWERS_OF),
        grid.cells([(partners[a], partners[b]) for a, b in STEPS_OF]),
    )
    common = {"untrained": before, "n_null": 0, "within": grid.noise}
    below = np.tri(
        len(KEYS), k=-1, dtype=bool
    )  # Fig. 4 shows these of the first comparison, those above of the second
    shown = [of[:, side].reshape(-1, 2) for of, side in zip(answers, (below, below.T), strict=True)]
    first, drawn = (
        cosines_by_target(now, grid.inputs, hook=RESID.format(1), pairs=pairs, **common)
        for pairs in (answers.reshape(-1, 2), np.concatenate(shown))
    )
    of_steps = {"hook": VALUES, "role": "a1", "targets": grid.steps, "pairs": steps.reshape(-1, 2)}
    second = cosines_by_target(now, grid.inputs, **of_steps, **common)
    values, start = (
        {**all_of, "different_drawn": few["different"]} if few else {}
        for all_of, few in ((first.values, drawn.values), (first.untrained, drawn.untrained))
    )
    first = replace(first, values=values, untrained=start)
    return [
        _as_matrices(
            first, "answer_cosines", [f"{a}_{b}:{c}_{d}" for (a, b), (c, d) in ANSWERS_OF]
        ),
        _as_matrices(second, "step_cosines", [f"{a}:{b}" for a, b in STEPS_OF]),
        *_share_readings(now, before, grid.inputs, grid.groupings, grid.noise),
    ]


def _as_matrices(reading: Reading, probe: str, names: Sequence[str]) -> Reading:
    """The same reading of L1 under another name, with a matrix of mean cosines for each
    comparison."""
    arrays = {}
    for kind, prefix in (("cosines", ""), ("centred_cosines", "centred_")):
        found = (
            reading.arrays[kind]
            .reshape(len(names), NOISES, len(KEYS), len(KEYS))
            .mean(1)
            .astype(np.float32)
        )
        arrays |= {f"{prefix}{name}": matrix for name, matrix in zip(names, found, strict=True)}
    return replace(reading, probe=probe, layer=1, arrays=arrays)


def read_shares(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> list[Reading]:
    """Reading ``variance_shares`` of L0 and of L1, on early rows of seen_test whose pair is no
    exception.

    Values: shares that `groupings` explain, about 0 or up to 1, and ``order``, what ``pair``
    explains beyond ``unordered_pair``. n is the number of rows.
    """
    rows, hooks = inferential_rows(data), [*map(RESID.format, LAYERS)]
    inputs = data.inputs(rows)
    now, before = (
        captured(model, inputs.tokens, hooks),
        untrained and captured(untrained, inputs.tokens, hooks),
    )
    labels = groupings(data.keys[rows], data.pairs[rows], data.labels[rows])
    return _share_readings(now, before, inputs, labels, np.zeros(len(rows), dtype=np.int64))


def groupings(
    keys: Int[np.ndarray, " row"], pairs: Int[np.ndarray, "row 2"], answers: Int[np.ndarray, " row"]
) -> dict[str, Int[np.ndarray, " row"]]:
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
    noise: Int[np.ndarray, " row"],
) -> list[Reading]:
    """Shares of variance in both layers, mean over the noises, each by itself."""

    def shares(source: ActivationSource, layer: int) -> dict[str, float]:
        vectors = position_vectors(source, inputs, RESID.format(layer))
        each = [noise == number for number in np.unique(noise)]
        found = {
            name: float(np.mean([omega_squared(vectors[here], of[here]) for here in each]))
            for name, of in labels.items()
        }
        return {**found, "order": found["pair"] - found["unordered_pair"]}

    found = []
    for layer in LAYERS:
        values, start = shares(now, layer), {} if before is None else shares(before, layer)
        notes = undefined(values, now, UNDEFINED)
        found.append(
            Reading("variance_shares", values, layer, untrained=start, n=len(inputs), notes=notes)
        )
    return found


def read_complexity(
    model: HookedModel, data: CompositeDataset, untrained: HookedModel, n_null: int = 50
) -> list[Reading]:
    """Spectra and condensation of every matrix, layer by layer, and the layout of the items.

    Arrays: those of `lattice`, and the cosines of L0's W_Q neurons with their groups.
    """
    found = []
    for layer in range(model.cfg.n_layers):
        names = tuple(layer_matrices(model, layer))
        found.append(replace(weight_spectra(model, layer=layer, untrained=untrained), arrays={}))
        cosines = condensation(
            model, layer=layer, untrained=untrained, n_null=n_null, matrices=names
        )
        drawn = ("cosines_W_Q", "group_W_Q") if layer == 0 else ()
        found.append(
            replace(cosines, arrays={name: np.float32(cosines.arrays[name]) for name in drawn})
        )
    items = data.task.tokens("key")
    return [*found, lattice(model, untrained=untrained, tokens=items, n_null=n_null)]


def growth(eigenvalues: pd.DataFrame) -> pd.DataFrame:
    """Final value and step of half of it, for each member's five eigenvalues that end largest.

    ``half_step`` is NaN where an evaluation is not known.
    """
    rows = []
    for place, here in eigenvalues.groupby(["gamma", "seed", "rank"], sort=False):
        gamma, seed, rank = cast(tuple, place)
        if rank > LEADING:
            continue
        here = here.sort_values("step")
        values, steps = here["eigenvalue"].to_numpy(), here["step"].to_numpy()
        known = np.isfinite(values).all()
        half = float(steps[np.argmax(values >= HALF * values[-1])]) if known else np.nan
        rows.append(
            {"gamma": gamma, "seed": seed, "rank": rank, "final": values[-1], "half_step": half}
        )
    return frame(rows, "gamma seed rank:int final half_step")


def growth_order(eigenvalues: pd.DataFrame) -> Placed:
    """Readings ``eigenvalue_growth``, one a member of the table ``eigenvalues``.

    ``order``: Spearman(rank, step) over the five eigenvalues of the items' covariance that end
    largest, rank 1 the largest, step the first evaluation at half of the final value or above.
    """
    for member, here in growth(eigenvalues).groupby(["gamma", "seed"], sort=False):
        steps = here["half_step"].to_numpy()
        order = spearman(here["rank"].to_numpy(), steps) if len(here) == LEADING else np.nan
        yield *cast(tuple, member), "", Reading("eigenvalue_growth", {"order": order}, n=len(here))


def complexity_contrast(readings: pd.DataFrame, members: Sequence[Member]) -> Placed:
    """Readings ``complexity_contrast``, one a seed with members at both gammas, diverged ones
    included.

    ``matrices_lower``: of the 12 matrices of two layers, those whose participation ratio at gamma
    .8 is at most .7 times that at .5; 0 where a member of the two diverged.
    """
    own = readings.loc[
        (readings["probe"] == "weight_spectra")
        & readings["quantity"].str.startswith("participation_")
    ]
    for seed in dict.fromkeys(member.seed for member in members):
        small, middle = (
            own.loc[np.isclose(own["gamma"], gamma) & (own["seed"] == seed)].set_index(
                ["layer", "quantity"]
            )
            for gamma in (SMALL, MIDDLE)
        )
        trained = {Member(SMALL, seed), Member(MIDDLE, seed)} <= set(members)
        if trained and {len(small), len(middle)} <= {0, TWO_LAYERS}:
            now, first = (
                float((small[c] / middle[c] <= LOWER).sum()) for c in ("value", "untrained")
            )
            values, before = {"matrices_lower": now}, {"matrices_lower": first}
            yield (
                np.nan,
                seed,
                "",
                Reading("complexity_contrast", values, untrained=before, n=TWO_LAYERS),
            )


def phase_by_complexity(readings: pd.DataFrame, phases: pd.DataFrame) -> Placed:
    """The reading ``phase_by_complexity``, the number of K8; none where no gamma has both phases.

    ``auc``: the chance that an inferential member has a lower participation ratio of L0's W_Q than
    a symmetric one of the same gamma, with the ends ``auc:low`` and ``auc:high`` of its interval,
    see ``statistics.intervals``.
    """
    own = readings.loc[(readings["probe"] == "weight_spectra") & (readings["layer"] == 0)]
    own = own.loc[own["quantity"] == "participation_W_Q", ["gamma", "seed", "value", "untrained"]]
    known = phases[["gamma", "seed", "phase"]].merge(own).dropna()
    now, before = (
        stratified_auc(
            [
                tuple(
                    members.loc[members["phase"] == phase, column].tolist()
                    for phase in (INFERENTIAL, SYMMETRIC)
                )
                for _, members in known.groupby("gamma")
            ]
        )
        for column in ("value", "untrained")
    )
    if now.n_pairs:
        values = {"auc": now.value, "auc:low": now.low, "auc:high": now.high}
        yield (
            np.nan,
            0,
            "",
            Reading("phase_by_complexity", values, untrained={"auc": before.value}, n=now.n_pairs),
        )


def eigenvalue_table(spectra: pd.DataFrame, members: Sequence[Member]) -> pd.DataFrame:
    """The table ``eigenvalues``: those of the items of the given members, from what training
    kept."""
    here = spectra.loc[spectra["group"] == "items"]
    kept = [
        Member(gamma, seed) in set(members)
        for gamma, seed in zip(here["gamma"], here["seed"], strict=True)
    ]
    return frame(here.loc[np.array(kept, dtype=bool)], "gamma seed step rank:int eigenvalue")
