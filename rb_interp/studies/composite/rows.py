"""The rows that a seed draws of a composite task.

    train         trained pairs, training keys; trained on, in equal numbers for each pair
    seen_train    trained pairs, training keys, fresh rows that are not in train
    seen_test     trained pairs, test keys
    unseen        held-out pairs, half with training keys and half with test keys; labels are the inferential answers

The key's position is uniform over 0 to length - 3, the key uniform over the items of its kind
there, and noise over all items. Rows of the last three sets are spread over pairs as evenly as
their number allows.

Roles of a row overlap at its end. ``last`` is always the last position. It is also ``a2`` where the
key stands at length - 3, and one of ``noise`` elsewhere. ``anchor`` is a1 and a2 in order; key,
anchor and noise fill the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int, UInt64

from rb_interp.errors import TaskError
from rb_interp.tasks.dataset import Dataset

if TYPE_CHECKING:
    from rb_interp.studies.composite.task import CompositeTask

SETS = ("train", "seen_train", "seen_test", "unseen")
TRAIN_SETS = SETS[:1]
TRIES = 100
"""Draws of fresh rows before giving up on finding some that are not trained on."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompositeDataset(Dataset):
    """The rows that one seed draws, with roles ``key``, ``a1``, ``a2``, ``anchor``, ``last`` and
    ``noise``.

    Attributes:
        task: whose rows these are.
        pair_shifts: ``[first, second]``, the trained shift of each ordered pair, random exceptions
            included, and the sum for held-out pairs; anchor 1 is at place 0.
    """

    task: CompositeTask
    pair_shifts: Int[np.ndarray, "first second"]

    @property
    def key_position(self) -> Int[np.ndarray, " row"]:
        """Where each row's key stands."""
        return self.positions["key"][:, 0]

    @property
    def anchor_positions(self) -> Int[np.ndarray, "row 2"]:
        """Where each row's anchors stand, in order."""
        return self.positions["anchor"]

    @property
    def keys(self) -> Int[np.ndarray, " row"]:
        """Each row's key."""
        return np.take_along_axis(self.tokens, self.positions["key"], 1)[:, 0]

    @property
    def pairs(self) -> Int[np.ndarray, "row 2"]:
        """Each row's anchors, in order."""
        return np.take_along_axis(self.tokens, self.anchor_positions, 1)

    def is_exception(self, pairs: Int[np.ndarray, "row 2"]) -> Bool[np.ndarray, " row"]:
        """Whether each pair has another shift than the sum."""
        shifts = np.array(self.task.shifts)
        differs = self.pair_shifts != np.add.outer(shifts, shifts)
        return differs[pairs[:, 0] - 1, pairs[:, 1] - 1]

    def fresh_keys(
        self, rows: Int[np.ndarray, " n"], rng: np.random.Generator
    ) -> Int[np.ndarray, " n"]:
        """A key for each of the given rows, drawn evenly from those of its key's kind at its
        position."""
        positions = self.key_position[rows]
        return draw_keys(
            self.task, positions, self.task.is_test_key(self.keys[rows], positions), rng
        )


def draw_dataset(task: CompositeTask, seed: int) -> CompositeDataset:
    """Draw exceptions (stream 1 of the seed) and rows (stream 2, a part for each set); the labels
    are left at 0."""
    drawn: list[tuple[np.ndarray, np.ndarray]] = []
    for number, name in enumerate(SETS):
        pairs, test = _kinds(task, name)
        rng = np.random.default_rng([seed, 2, number])
        tokens, key = draw_rows(task, pairs, test, rng)
        known = numbers(drawn[0][0]) if name == "seen_train" else np.zeros(0, dtype=np.uint64)
        left = np.arange(len(tokens))
        for _ in range(TRIES):  # rows that are trained on are drawn again
            left = left[np.isin(numbers(tokens[left]), known)]
            if not len(left):
                break
            tokens[left], key[left] = draw_rows(task, pairs[left], test[left], rng)
        else:
            raise TaskError(
                f"{len(left)} rows of seen_train are trained on however often they are drawn: "
                f"n_sequences asks for "
                f"nearly all rows that there are; lower n_sequences or raise length."
            )
        drawn.append((tokens, key))
    tokens, key = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    return CompositeDataset(
        seed=seed,
        tokens=tokens,
        labels=np.zeros(len(tokens), dtype=np.int64),
        set=np.repeat(np.arange(len(SETS)), [len(rows) for rows, _ in drawn]),
        sets=SETS,
        train_sets=TRAIN_SETS,
        positions=role_positions(task, key),
        groups={name: task.tokens(name) for name in ("key", "anchor")},
        name="the composite task",
        task=task,
        pair_shifts=_draw_shifts(task, np.random.default_rng([seed, 1])),
    )


def _draw_shifts(task: CompositeTask, rng: np.random.Generator) -> Int[np.ndarray, "first second"]:
    """The task's own shifts of pairs, with its random exceptions."""
    table, candidates = task.shift_table(), random_candidates(task)
    for number in rng.permutation(len(candidates))[: task.random_exceptions]:
        first, second = candidates[number]
        own = task.shifts[first - 1] + task.shifts[second - 1]
        others = [
            shift for shift in range(2 * min(task.shifts), 2 * max(task.shifts) + 1) if shift != own
        ]
        table[first - 1, second - 1] = rng.choice(others)
    return table


def _kinds(
    task: CompositeTask, set: str
) -> tuple[Int[np.ndarray, "row 2"], Bool[np.ndarray, " row"]]:
    """Pair of each row of a set, and whether its key is a test key."""
    pairs, n = task.combinations(set), task.evaluation_rows
    if set == "train":
        pairs = np.repeat(pairs, task.rows_per_pair, axis=0)
        return pairs, np.zeros(len(pairs), dtype=bool)
    test = np.array([False, True] if set == "unseen" else [set == "seen_test"])
    kinds = np.resize(np.arange(len(pairs) * len(test)), n)
    return pairs[kinds // len(test)], test[kinds % len(test)]


def draw_rows(
    task: CompositeTask,
    pairs: Int[np.ndarray, "row 2"],
    test: Bool[np.ndarray, " row"],
    rng: np.random.Generator,
) -> tuple[Int[np.ndarray, "row pos"], Int[np.ndarray, " row"]]:
    """A row for each pair and kind of key, and where its key stands."""
    tokens = rng.integers(task.items[0], task.items[1] + 1, (len(pairs), task.length))
    at = rng.integers(0, task.length - 2, len(pairs))
    block = np.concatenate([draw_keys(task, at, test, rng)[:, None], pairs], 1)
    np.put_along_axis(tokens, at[:, None] + np.arange(3), block, 1)
    return tokens, at


def draw_keys(
    task: CompositeTask,
    positions: Int[np.ndarray, " row"],
    test: Bool[np.ndarray, " row"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " row"]:
    """A key for each position, drawn evenly from the test keys or from the training keys there.

    Test keys are first, first + m, first + 2m, ...; training keys are counted over the gaps between
    them.
    """
    (low, high), m = task.items, task.modulus
    first = low + (positions - low) % m
    n_test = (high - first) // m + 1
    number = rng.integers(0, np.where(test, n_test, high - low + 1 - n_test))
    gap, place = np.divmod(number - (first - low), m - 1)  # gap -1: before the first test key
    training = np.where(number < first - low, low + number, first + gap * m + 1 + place)
    return np.where(test, first + number * m, training)


def numbers(tokens: Int[np.ndarray, "row pos"]) -> UInt64[np.ndarray, " row"]:
    """A number for each row, the same for equal rows; different rows share one with a chance of
    about 2^-64."""
    odd = 2 * np.random.default_rng(0).integers(
        0, 2**63, tokens.shape[1], dtype=np.uint64
    ) + np.uint64(1)
    return (tokens.astype(np.uint64) * odd).sum(1, dtype=np.uint64)


def role_positions(task: CompositeTask, key: Int[np.ndarray, " row"]) -> dict[str, np.ndarray]:
    """Positions of every role; noise is whatever is neither key nor anchor, in order."""
    key, others = key[:, None], np.arange(task.length - 3)
    return {
        "key": key,
        "a1": key + 1,
        "a2": key + 2,
        "anchor": key + np.array([1, 2]),
        "last": np.full_like(key, task.length - 1),
        "noise": others + 3 * (others >= key),
    }


def random_candidates(task: CompositeTask) -> list[tuple[int, int]]:
    """Pairs that random exceptions are drawn from: trained ones with a trained mirror, which are no
    exceptions yet."""
    taken = {
        *task.held_out,
        *(pair[::-1] for pair in task.held_out),
        *(pair for pair, _ in task.exceptions),
    }
    return [pair for pair in task.trained if pair not in taken]
