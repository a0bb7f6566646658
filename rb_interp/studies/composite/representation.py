"""What the vectors of a member stand for (paper 2, Figs. 3b and 4, and Sec. 5.2). Layers are counted from 0.

    v(x; a1, a2)    last position after L1's attention, its residual connection and LayerNorm (``resid_mid``)
    u(x; a)         row of L1's value matrix at the position of the first anchor a, all heads as one vector
    g(x; a)         x + s(a), what the first of two steps would give

The *grid* has every trained pair that is no exception, keys 30 to 40, and some draws of noise that all of them share.
Its key stands at position 2, or at the last early one where rows are shorter than 7 (`key_position`), so noise stands
before the key and between the anchors and the last position. Cosines are of two rows with the same noise:

    answer_cosines    of v: (3,3) with (2,2), and (1,2) with (1,3); every key of one with every key of the other. The
                      target is the inferential answer: x - 4 and x + 2, x + 6 and x + 3
    step_cosines      of u: first anchors 1 with 2, 2 with 3, 1 with 3 and 3 with 4. The target is g(x; a). What stands
                      behind the first anchor does not reach u
    variance_shares   share of variance (omega squared) of the last position after a layer's attention that a grouping
                      of rows explains: on early rows of seen_test, and on the grid, there the mean over noises

``different_drawn`` is ``different`` of the cells that Fig. 4 shows: those with the key of (3,3) above that of (2,2) and
those with the key of (1,2) below that of (1,3). In a pre-norm model, and in one without LayerNorm, ``resid_mid`` is the
sum before any LayerNorm.

How it can mislead. A vector that stands for the target alone, by unrelated directions, reads equal 1 and different 0; a
code of key and pair reads the same for both; and an untrained member of small initialisation reads 1 for both, since v
is nearly the embedding of the last token, which rows with the same noise share. A number on a line beside large
constant directions reads 1 for both too: see the centred values, each less the mean of its noise. Answers follow keys
far more than pairs: with keys 20 to 99 (variance 533) and shifts of variance 40, a v that holds the key and nothing of
the pair already gives the answer .9. So ``answer`` means something only where it exceeds ``key``. On rows of seen_test
the last token is noise, and its embedding counts as unexplained; on the grid it does not. An order that adds nothing
(``order``) beside a pair that explains nothing says nothing. Cosines of u depend on the basis in which W_V and W_O are
written, which no logit does (docs/probes.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import undefined
from rb_interp.probes.capturing import Source, captured
from rb_interp.probes.labels import cosines_by_target, position_vectors
from rb_interp.probes.variance import UNDEFINED, omega_squared
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.flow import inferential_rows
from rb_interp.studies.composite.rows import CompositeDataset, role_positions
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads

Pair = tuple[int, int]

KEYS = np.arange(30, 41)
NOISES = 8
"""Draws of noise of the grid."""
ANSWERS_OF = (((3, 3), (2, 2)), ((1, 2), (1, 3)))
"""Pairs whose v are compared, with one another; Fig. 4 draws the first below the diagonal and the second above it."""
STEPS_OF = ((1, 2), (2, 3), (1, 3), (3, 4))
"""First anchors whose u are compared."""
RESID, VALUES = "blocks.{}.hook_resid_mid", "blocks.1.attn.hook_v"
LAYERS = (0, 1)

Groupings = Mapping[str, Int[np.ndarray, " row"]]
Cells = Int[np.ndarray, "comparison noise key key 2"]


class Grid(NamedTuple):
    """Rows of every pair, noise and key, in this order; labels are the inferential answers.

    Attributes:
        inputs: the rows, ``[pair x noise x key]``. pairs: the pairs, in order. steps: g(x; a1) of each row.
        noise: number of each row's noise. groupings: see `groupings`.
    """

    inputs: Inputs
    pairs: Sequence[Pair]
    steps: Int[np.ndarray, " row"]
    noise: Int[np.ndarray, " row"]
    groupings: Groupings

    def numbers(self, pair: Pair) -> Int[np.ndarray, "noise key"]:
        """Row numbers of a pair."""
        return self.pairs.index(pair) * NOISES * len(KEYS) + np.arange(NOISES * len(KEYS)).reshape(NOISES, len(KEYS))

    def cells(self, compared: Sequence[tuple[Pair, Pair]]) -> Cells:
        """Numbers of the two rows of every cell: key of the first pair down, key of the second across."""
        numbers = [(self.numbers(down)[:, :, None], self.numbers(across)[:, None, :]) for down, across in compared]
        return np.stack([np.stack(np.broadcast_arrays(*pair), -1) for pair in numbers])


def grid_pairs(data: CompositeDataset) -> list[Pair]:
    """The trained pairs of a dataset that are no exceptions."""
    pairs = data.task.combinations("train")
    return [(int(first), int(second)) for first, second in pairs[~data.is_exception(pairs)]]


def has_grid(data: CompositeDataset) -> bool:
    """Whether a dataset has the keys 30 to 40, and the pairs and first anchors that are compared."""
    pairs, firsts = grid_pairs(data), {pair for step in STEPS_OF for pair in step}
    low, high = data.task.items
    there = {*sum(ANSWERS_OF, ())} <= {*pairs} and firsts <= {first for first, _ in pairs}
    return there and bool(low <= KEYS[0] and KEYS[-1] <= high)


def key_position(length: int) -> int:
    """Where the grid's key stands: at 2, or at the last early position of shorter rows.

    >>> key_position(9), key_position(6)
    (2, 1)
    """
    return min(2, length - 5)


def draw_grid(data: CompositeDataset, seed: int = 0) -> Grid:
    """The grid of a dataset that has one; the same seed draws the same noise for every dataset of a task."""
    task, pairs, at = data.task, grid_pairs(data), key_position(data.task.length)
    noise = np.random.default_rng([seed, 14]).integers(task.items[0], task.items[1] + 1, (NOISES, task.length))
    tokens = np.tile(np.repeat(noise, len(KEYS), 0), (len(pairs), 1))
    tokens[:, at] = np.tile(KEYS, len(pairs) * NOISES)
    tokens[:, at + 1 : at + 3] = np.repeat(pairs, NOISES * len(KEYS), 0)
    keys, anchors = tokens[:, at], tokens[:, at + 1 : at + 3]
    roles = Roles(role_positions(task, np.full(len(tokens), at)))
    steps, answers = keys + np.array(task.shifts)[anchors[:, 0] - 1], task.inferential(keys, anchors)
    number = np.tile(np.repeat(np.arange(NOISES), len(KEYS)), len(pairs))
    return Grid(Inputs(tokens, answers, roles), pairs, steps, number, groupings(keys, anchors, answers))


@few_threads
def read_grid(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None, seed: int = 0
) -> list[Reading]:
    """Readings of the grid: ``answer_cosines`` and ``step_cosines`` of L1, ``variance_shares`` of both layers.

    Values of the first two: those of ``cosines_by_target``; arrays: the cosines of each comparison by key, mean over
    noises, ``3_3:2_2`` and so on, ``[key, key]``, and behind ``centred_`` the cosines of vectors less
    the mean of their noise. ``variance_shares`` are as in `read_shares`, mean over noises.

    Args:
        model: a model of two layers or more. data: one that `has_grid`. seed: of the noise.
        untrained: the same model at step 0, read beside it; None for no comparison.
    """
    grid = draw_grid(data, seed)
    now, before = _captured(grid.inputs, [*map(RESID.format, LAYERS), VALUES], model, untrained)
    partners = {first: (first, second) for first, second in reversed(grid.pairs)}  # the lowest second anchor
    answers, steps = grid.cells(ANSWERS_OF), grid.cells([(partners[a], partners[b]) for a, b in STEPS_OF])
    common = {"untrained": before, "n_null": 0, "within": grid.noise}

    first, drawn = (
        cosines_by_target(now, grid.inputs, hook=RESID.format(1), pairs=pairs, **common)
        for pairs in (answers.reshape(-1, 2), np.concatenate(_drawn(answers)))
    )
    of_steps = {"hook": VALUES, "role": "a1", "targets": grid.steps, "pairs": steps.reshape(-1, 2)}
    second = cosines_by_target(now, grid.inputs, **of_steps, **common)
    values, start = (
        {**all_of, "different_drawn": shown["different"]} if shown else {}
        for all_of, shown in ((first.values, drawn.values), (first.untrained, drawn.untrained))
    )
    first = replace(first, values=values, untrained=start)
    return [
        _as_matrices(first, "answer_cosines", [f"{a}_{b}:{c}_{d}" for (a, b), (c, d) in ANSWERS_OF]),
        _as_matrices(second, "step_cosines", [f"{a}:{b}" for a, b in STEPS_OF]),
        *_share_readings(now, before, grid.inputs, grid.groupings, grid.noise),
    ]


def _as_matrices(reading: Reading, probe: str, names: Sequence[str]) -> Reading:
    """The same reading of L1 under another name, with a matrix of mean cosines for each comparison."""
    arrays = {}
    for kind, prefix in (("cosines", ""), ("centred_cosines", "centred_")):
        found = reading.arrays[kind].reshape(len(names), NOISES, len(KEYS), len(KEYS)).mean(1).astype(np.float32)
        arrays |= {f"{prefix}{name}": matrix for name, matrix in zip(names, found, strict=True)}
    return replace(reading, probe=probe, layer=1, arrays=arrays)


def _drawn(cells: Cells) -> list[np.ndarray]:
    """The cells that Fig. 4 shows: below the diagonal of the first comparison, and above that of the second."""
    below = np.tri(len(KEYS), k=-1, dtype=bool)
    return [of[:, shown].reshape(-1, 2) for of, shown in zip(cells, (below, below.T), strict=True)]


@few_threads
def read_shares(model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None) -> list[Reading]:
    """Reading ``variance_shares`` of L0 and of L1, on early rows of seen_test whose pair is no exception.

    Values: shares that `groupings` explain, about 0 or up to 1, and ``order``, what ``pair`` explains beyond
    ``unordered_pair``. n is the number of rows.

    Args:
        model: a model of two layers or more. data: whose rows.
        untrained: the same model at step 0, read beside it; None for no comparison.
    """
    rows = inferential_rows(data)
    inputs = data.inputs(rows)
    now, before = _captured(inputs, [*map(RESID.format, LAYERS)], model, untrained)
    labels = groupings(data.keys[rows], data.pairs[rows], data.labels[rows])
    return _share_readings(now, before, inputs, labels, np.zeros(len(rows), dtype=np.int64))


def groupings(
    keys: Int[np.ndarray, " row"], pairs: Int[np.ndarray, "row 2"], answers: Int[np.ndarray, " row"]
) -> dict[str, Int[np.ndarray, " row"]]:
    """The group of each row by ``answer``, ``key``, ``unordered_pair`` and (ordered) ``pair``.

    >>> groupings(np.array([5, 5]), np.array([[1, 2], [2, 1]]), np.array([8, 8]))["unordered_pair"].tolist()
    [5, 5]
    """
    base = np.array([pairs.max() + 1, 1])
    return {"answer": answers, "key": keys, "unordered_pair": np.sort(pairs, 1) @ base, "pair": pairs @ base}


def _captured(
    inputs: Inputs, hooks: Sequence[str], model: HookedModel, untrained: HookedModel | None
) -> tuple[Source, Source | None]:
    return captured(model, inputs.tokens, hooks), untrained and captured(untrained, inputs.tokens, hooks)


def _share_readings(
    now: Source, before: Source | None, inputs: Inputs, labels: Groupings, noise: Int[np.ndarray, " row"]
) -> list[Reading]:
    """Shares of variance in both layers, mean over the noises, each by itself."""

    def shares(source: Source, layer: int) -> dict[str, float]:
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
        found.append(Reading("variance_shares", values, layer, untrained=start, n=len(inputs), notes=notes))
    return found
