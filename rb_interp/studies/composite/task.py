"""The composite task: two anchors in a row, each of which shifts the key.

After paper 2 (arXiv 2405.05409), Eq. (1). A sequence holds one key x, directly followed by two
anchors a1 and a2, and noise items at all other positions. Its answer is read at the last position:

    x + s(a1) + s(a2)    the inferential answer, with one shift s(a) for each anchor
    x + e(a1, a2)        the answer of an exception, a pair that is trained with another shift e

Held-out pairs are never trained. A model answers them inferentially where it has learned the
anchors' shifts, and symmetrically where it gives what the mirrored pair (a2, a1) was trained to
give.

A key x may stand at position p in training only if x mod m is not p (paper 2, Appendix C). Keys
with x mod m = p are test keys there. The paper's text has m = length - 2, the group's code m =
length. With the code's modulus some items are test keys nowhere: of 20..99 those with x mod 9 of 7
or 8.

``rows`` has the sets of rows, and how a row is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Int
from pydantic import Field

from rb_interp.errors import TaskError, nearest
from rb_interp.settings import Share, Size, Span, Token
from rb_interp.studies.composite.rows import (
    SETS,
    TRAIN_SETS,
    AnchorPairs,
    PerRow,
    RowMask,
    RowRules,
    RowTokens,
    role_positions,
    row_hashes,
    row_kinds,
)
from rb_interp.tasks.dataset import Dataset, Stage, TaskSettings, changed_rows
from rb_interp.tasks.inputs import Inputs, selected

Pair = tuple[Token, Token]
Shift = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]

SEEN_TEST = SETS.index("seen_test")
FITTED = 0.90
"""Accuracy on seen_test from which a member counts as fitted."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompositeDataset(Dataset):
    """The rows of a seed; roles are ``key``, ``a1``, ``a2``, ``anchor``, ``last``, ``noise``."""

    task: CompositeTask
    """Whose rows these are."""
    pair_shifts: Int[np.ndarray, "first second"]
    """The trained shift of each ordered pair, random exceptions included, and the sum for held-out
    pairs; anchor 1 has index 0."""

    @property
    def key_position(self) -> PerRow:
        """Position of each row's key."""
        return self.positions["key"][:, 0]

    @property
    def anchor_positions(self) -> AnchorPairs:
        """Positions of each row's anchors, in order."""
        return self.positions["anchor"]

    @property
    def keys(self) -> PerRow:
        """Each row's key."""
        return np.take_along_axis(self.tokens, self.positions["key"], 1)[:, 0]

    @property
    def pairs(self) -> AnchorPairs:
        """Each row's anchors, in order."""
        return np.take_along_axis(self.tokens, self.anchor_positions, 1)

    def is_exception(self, pairs: AnchorPairs) -> RowMask:
        """Whether each pair has another shift than the sum."""
        shifts = np.array(self.task.shifts)
        differs = self.pair_shifts != np.add.outer(shifts, shifts)
        return differs[pairs[:, 0] - 1, pairs[:, 1] - 1]

    def fresh_keys(self, rows: PerRow, rng: np.random.Generator) -> PerRow:
        """A key for each row, drawn evenly from those of its key's kind at its position."""
        positions = self.key_position[rows]
        test = self.keys[rows] % self.task.modulus == positions
        return self.task.rules.draw_keys(positions, test, rng)


class CompositeTask(TaskSettings):
    """Settings of a composite task; ranges are inclusive, token ids are the integers themselves.

    Raises TaskError where settings contradict each other.

    >>> task = CompositeTask(n_sequences=1600)
    >>> data = task.dataset(seed=0)
    >>> row = data.rows("train")[0]
    >>> data.pairs[row].tolist(), int(data.labels[row] - data.keys[row])
    ([1, 1], 10)
    """

    sets = SETS
    train_sets = TRAIN_SETS
    predicts = "last"
    q = 2
    PRESETS: ClassVar[dict] = {
        "smoke": {
            "items": (20, 49),
            "length": 6,
            "d_vocab": 64,
            "n_sequences": 3200,
            "evaluation_rows": 200,
        },
        "quick": {},
        "paper": {"n_sequences": 900_000},
    }
    ERROR = TaskError

    shifts: Annotated[tuple[Shift, ...], Field(min_length=2, max_length=100)] = (5, 1, -2, -8)
    """Shift of anchor 1, 2, ...; the anchors are the tokens 1 to their number."""
    items: Span = (20, 99)
    """Range of keys and noise."""
    length: Annotated[int, Field(ge=4, le=100_000)] = 9
    """Number of positions; fewer leave a key before two anchors no second place."""
    d_vocab: Size = 201
    """Vocabulary size; every token and answer is below it."""
    n_sequences: Annotated[int, Field(ge=1, le=1_000_000_000)] = 60_000
    """Rows of all ordered pairs together, as the group's code counts them: held-out pairs and rows
    with test keys included. Each trained pair is trained on ``rows_per_pair`` of them."""
    test_share: Share = 0.1
    """Share of a pair's rows that the code gives to test keys, which are not trained on."""
    evaluation_rows: Annotated[int, Field(ge=2, le=2**31 - 1, multiple_of=2)] = 1000
    """Fixed rows of each set that is not trained on; half of them have test keys in unseen."""
    exceptions: tuple[tuple[Pair, Shift], ...] = (((3, 4), -6),)
    """Pairs that are trained with another shift than the sum, with that shift."""
    held_out: Annotated[tuple[Pair, ...], Field(min_length=1)] = ((4, 3),)
    """Ordered pairs that are never trained."""
    random_exceptions: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """So many further trained pairs are exceptions. A seed draws them evenly from the trained pairs
    that are no exceptions yet and whose mirrored pair is trained too, so a held-out pair's
    symmetric answer stays what it was. It draws their shifts evenly from twice the lowest to twice
    the highest shift, without the pair's own sum."""
    split: Literal["code", "text"] = "code"
    """``code`` (m = length) or ``text`` (m = length - 2): the modulus that tells test keys."""

    def __post_init__(self) -> None:
        _check_sizes(self)
        _check_pairs("exceptions", [pair for pair, _ in self.exceptions], len(self.shifts))
        _check_pairs("held_out", list(self.held_out), len(self.shifts))
        _check_exceptions(self)

    def both_unseen(self) -> CompositeTask:
        """The same task with the mirrors of held-out pairs held out too, exceptions or not.

        >>> task = CompositeTask().both_unseen()
        >>> task.held_out, task.exceptions
        (((4, 3), (3, 4)), ())
        """
        mirrored = [(second, first) for first, second in self.held_out]
        held_out = tuple(dict.fromkeys((*self.held_out, *mirrored)))
        exceptions = tuple((pair, shift) for pair, shift in self.exceptions if pair not in held_out)
        return replace(self, held_out=held_out, exceptions=exceptions)

    @property
    def modulus(self) -> int:
        """A key x is a test key at position p if x modulo this is p."""
        return self.length if self.split == "code" else self.length - 2

    @property
    def rules(self) -> RowRules:
        """What rows may hold."""
        return RowRules(self.items, self.length, self.modulus)

    @property
    def rows_per_pair(self) -> int:
        """Rows of each trained pair that are trained on.

        >>> CompositeTask.preset("paper").rows_per_pair
        50625
        """
        return round(self.n_sequences // len(self.shifts) ** 2 * (1 - self.test_share))

    @property
    def trained(self) -> tuple[Pair, ...]:
        """Ordered pairs that are trained, in lexicographic order."""
        anchors = range(1, len(self.shifts) + 1)
        held_out = set(self.held_out)
        return tuple(pair for pair in product(anchors, anchors) if pair not in held_out)

    @property
    def exception_candidates(self) -> list[Pair]:
        """Trained pairs with a trained mirror that are no exceptions yet."""
        reserved_pairs = {pair for pair, _ in self.exceptions}
        reserved_pairs.update(self.held_out)
        reserved_pairs.update((second, first) for first, second in self.held_out)
        return [pair for pair in self.trained if pair not in reserved_pairs]

    @property
    def stages(self) -> Mapping[str, Stage]:
        """``fit``: the first evaluation with an accuracy of at least .90 on seen_test."""
        return {"fit": Stage(lambda now, start: now[:, SEEN_TEST, 1] >= FITTED)}

    @property
    def spectra(self) -> Mapping[str, Int[np.ndarray, " n"]]:
        """``items``: tokens whose spectrum ``training.tracking`` stores along training."""
        return {"items": self.tokens("key")}

    def dataset(self, seed: int) -> CompositeDataset:
        """Draw exceptions and rows; the same seed gives the same rows on every machine.

        Raises TaskError if no row is left for seen_train.
        """
        tokens: list[np.ndarray] = []
        keys: list[np.ndarray] = []
        for number, name in enumerate(SETS):
            pairs = self.combinations(name)
            pairs, test = row_kinds(name, pairs, self.rows_per_pair, self.evaluation_rows)
            rng = np.random.default_rng([seed, 2, number])
            if name == "seen_train":
                set_rows = self.rules.draw_untrained(pairs, test, rng, row_hashes(tokens[0]))
            else:
                set_rows = self.rules.draw(pairs, test, rng)
            tokens.append(set_rows[0])
            keys.append(set_rows[1])
        sizes = [len(rows) for rows in tokens]
        table = self.shift_table()
        candidates = self.exception_candidates
        rng = np.random.default_rng([seed, 1])
        for number in rng.permutation(len(candidates))[: self.random_exceptions]:
            first, second = candidates[number]
            shifts = list(range(2 * min(self.shifts), 2 * max(self.shifts) + 1))
            shifts.remove(self.shifts[first - 1] + self.shifts[second - 1])
            table[first - 1, second - 1] = rng.choice(shifts)
        data = CompositeDataset(
            seed=seed,
            tokens=np.concatenate(tokens),
            labels=np.zeros(sum(sizes), dtype=np.int64),
            set=np.repeat(np.arange(len(SETS)), sizes),
            sets=SETS,
            train_sets=TRAIN_SETS,
            positions=role_positions(self.length, np.concatenate(keys)),
            groups={name: self.tokens(name) for name in ("key", "anchor")},
            name="the composite task",
            task=self,
            pair_shifts=table,
        )
        return replace(data, labels=self.answers(data, np.arange(len(data)), data.tokens))

    def answers(self, data: CompositeDataset, rows: PerRow, tokens: RowTokens) -> PerRow:
        """Right answers of tokens; inferential for held-out pairs.

        Their keys and anchors have the positions of the given rows.

        Args:
            data: the dataset that the rows are of. rows: their numbers in it. tokens: the tokens to
                answer.

        Raises TaskError where no key and no anchors stand.
        """
        rows = selected(rows, len(data))
        keys = np.take_along_axis(tokens, data.positions["key"][rows], 1)[:, 0]
        pairs = np.take_along_axis(tokens, data.anchor_positions[rows], 1)
        known_keys = np.isin(keys, self.tokens("key")).all()
        if not known_keys or not np.isin(pairs, self.tokens("anchor")).all():
            raise TaskError(
                "some rows hold other tokens where their key and their anchors stand; give those."
            )
        return keys + data.pair_shifts[pairs[:, 0] - 1, pairs[:, 1] - 1]

    def counterfactual(
        self, data: CompositeDataset, rows: PerRow, change: str, seed: int = 0
    ) -> Inputs:
        """The same rows with another key, other anchors, both, or other noise, and their answers.

        ``change`` is ``key``, ``anchors``, ``both`` or ``noise``.

        A changed key is drawn evenly from the keys of the same kind (test or training) at the row's
        position. A changed pair is drawn evenly from the pairs of the row's set, again and again
        until it has another right answer; exceptions count among the trained pairs. ``anchor_1``
        and ``anchor_2`` change one anchor alone. Noise is drawn anew from all items. The same seed
        gives the same rows.

        Raises TaskError for an unknown change, and where a row has no counterfactual with another
        answer: a changed pair in ``unseen`` where one pair is held out.

        >>> task = CompositeTask(n_sequences=1600)
        >>> data = task.dataset(seed=0)
        >>> rows = data.sample("seen_test", 50)
        >>> other = task.counterfactual(data, rows, "noise")
        >>> bool((other.labels == data.labels[rows]).all())
        True
        """
        return changed_rows(data, rows, change, seed)

    def tokens(self, group: str) -> Int[np.ndarray, " n"]:
        """Token ids of ``key`` (all items) or ``anchor``, ascending."""
        low, high = {"key": self.items, "anchor": (1, len(self.shifts))}[group]
        return np.arange(low, high + 1)

    def combinations(self, set: str) -> Int[np.ndarray, "pair 2"]:
        """Ordered pairs of a set: of ``unseen`` the held-out ones, else the trained ones.

        Raises TaskError for an unknown set.
        """
        if set not in SETS:
            raise TaskError(f"there is no set '{set}'; {nearest(set, SETS)}")
        return np.array(self.held_out if set == "unseen" else self.trained, dtype=np.int64)

    def inferential(self, keys: PerRow, pairs: AnchorPairs) -> PerRow:
        """Keys plus the shifts of both anchors, whatever a pair was trained with.

        Raises TaskError for unknown anchors.

        >>> CompositeTask().inferential(np.array([50]), np.array([[4, 3]])).tolist()
        [40]
        """
        first, second = self._indices(pairs)
        shifts = np.array(self.shifts)
        return keys + shifts[first] + shifts[second]

    def symmetric(self, keys: PerRow, pairs: AnchorPairs) -> PerRow:
        """What the mirrored pairs of held-out ones were trained to give.

        Raises TaskError for a pair that is not held out, and for one whose mirrored pair is not
        trained.

        >>> CompositeTask().symmetric(np.array([50]), np.array([[4, 3]])).tolist()
        [44]
        """
        first, second = self._indices(pairs)
        for pair in map(tuple, np.unique(pairs, axis=0).tolist()):
            if pair not in self.held_out or pair[::-1] in self.held_out:
                raise TaskError(
                    f"the pair {pair} has no symmetric answer: it must be held out and its "
                    f"mirrored pair trained; this task holds out "
                    f"{', '.join(map(str, self.held_out))}."
                )
        return keys + self.shift_table()[second, first]

    def shift_table(self) -> Int[np.ndarray, "first second"]:
        """Trained shift of each ordered pair without random exceptions; else the sum."""
        table = np.add.outer(self.shifts, self.shifts)
        for (first, second), shift in self.exceptions:
            table[first - 1, second - 1] = shift
        return table

    def _indices(self, pairs: AnchorPairs) -> tuple[np.ndarray, np.ndarray]:
        """Index of the first and of the second anchor of each pair; TaskError for unknown ones."""
        if not np.isin(pairs, self.tokens("anchor")).all():
            raise TaskError(
                f"got anchors {np.unique(pairs).tolist()}; expected 1 to {len(self.shifts)}."
            )
        return pairs[:, 0] - 1, pairs[:, 1] - 1


def _check_sizes(task: CompositeTask) -> None:
    """Raise TaskError if the numbers of a task contradict each other."""
    n = len(task.shifts)
    low, high = task.items
    if low <= n:
        raise TaskError(
            f"items=({low}, {high}) overlap the anchors 1 to {n}; start items at {n + 1} or above."
        )
    if high - low + 1 < task.modulus:
        raise TaskError(
            f"items=({low}, {high}) with split='{task.split}' leave some position without a test "
            f"key; use at least {task.modulus} items."
        )
    shifts = [2 * min(task.shifts), 2 * max(task.shifts)]
    shifts += [shift for _, shift in task.exceptions]
    lowest = low + min(shifts)
    highest = high + max(shifts)
    if lowest < 0 or max(high, highest) >= task.d_vocab:
        raise TaskError(
            f"answers run from {lowest} to {highest}, outside 0..{task.d_vocab - 1}; change items, "
            f"shifts or d_vocab."
        )
    free = len(task.exception_candidates)
    if task.random_exceptions > free:
        raise TaskError(
            f"random_exceptions={task.random_exceptions}, but {free} trained pairs can become one: "
            f"those with a trained mirror that are no exceptions yet; ask for at most {free}."
        )
    if task.rows_per_pair < 1:
        raise TaskError(
            f"n_sequences={task.n_sequences} with test_share={task.test_share:g} leaves {n**2} "
            f"pairs without a row to train on; raise n_sequences or lower test_share."
        )


def _check_pairs(name: str, pairs: list[Pair], n_anchors: int) -> None:
    """Raise TaskError if a setting has a pair of unknown anchors, or a pair twice."""
    for pair in pairs:
        if not 1 <= min(pair) <= max(pair) <= n_anchors:
            raise TaskError(
                f"{name} has the pair {pair}, which is none of the anchors 1 to {n_anchors}; use "
                f"those."
            )
        if pairs.count(pair) > 1:
            raise TaskError(f"{name} has the pair {pair} twice; give it once.")


def _check_exceptions(task: CompositeTask) -> None:
    """Raise TaskError if an exception is held out, or is none."""
    for (first, second), shift in task.exceptions:
        pair = (first, second)
        if pair in task.held_out:
            raise TaskError(
                f"the pair {pair} is an exception and held out; exceptions are trained, so choose "
                f"one."
            )
        if shift == task.shifts[first - 1] + task.shifts[second - 1]:
            raise TaskError(
                f"the exception {pair} has the shift {shift}, its anchors' sum; give another or "
                f"leave it out."
            )
