"""The anchor task: composite anchor functions of paper 1, section "Data", Eq. (1).

A sequence holds noise keys, one key z immediately followed by q anchors a_1..a_q, and noise keys
again. Its label, read at the last position, depends on (z, a) alone:

- reasoning anchors:  z + a_1 + ... + a_q;
- memory anchors:     one fixed label for each (z, a), drawn from one of three distributions (Fig. 8):

    ``keys``      uniform on the key set (the paper's F_mem, and F_mem,1 of Fig. 8 left)
    ``near_sum``  uniform on z - (a_1 + ... + a_q) to z + (a_1 + ... + a_q) (F_mem,2 of Fig. 8 left)
    ``ranges``    uniform on the given range of the combination's group (Fig. 8 right)

Reasoning combinations listed in ``masked`` never occur in training. There are no mixed
combinations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Int
from pydantic import Field

from rb_interp.arguments import checked
from rb_interp.errors import ConfigError, TaskError, nearest
from rb_interp.settings import Share, Size, Span, Token
from rb_interp.tasks.dataset import (
    HALF,
    Dataset,
    Stage,
    TaskSettings,
    changed_rows,
    combination_numbers,
    label_entropy,
)
from rb_interp.tasks.inputs import Inputs, RowNumbers, other_positions, selected

SETS = ("mem", "rsn_train", "rsn_test")
"""Memory (all of it trained on), reasoning trained on, reasoning held out."""
GROUPS = {"key": "key", "memory": "memory_anchor", "reasoning": "reasoning_anchor"}
"""Group of tokens as readings name it -> its name in Roles."""
MEMORY_ACCURACY = 0.20
"""Memory counts as not learned up to this accuracy."""
MEMORY = SETS.index("mem")
REASONING = SETS.index("rsn_train")


@checked
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnchorDataset(Dataset):
    """The rows that one seed draws of an anchor task, with roles ``key``, ``anchor`` and ``noise``.

    Attributes:
        task: that the rows are of.
        label_table: ``[memory combination, key]``, as in ``task.combinations("mem")`` and
            ``task.tokens("key")``.
    """

    task: AnchorTask
    label_table: Int[np.ndarray, "combination key"]

    @property
    def key_position(self) -> Int[np.ndarray, " row"]:
        """Position of each row's key."""
        return self.positions["key"][:, 0]

    @property
    def anchor_positions(self) -> Int[np.ndarray, "row q"]:
        """Positions of each row's anchors, in order."""
        return self.positions["anchor"]

    def fresh_keys(
        self, rows: Int[np.ndarray, " row"], rng: np.random.Generator
    ) -> Int[np.ndarray, " row"]:
        """A key for each of the given rows, drawn evenly from all keys."""
        return rng.choice(self.task.tokens("key"), len(rows))


class AnchorTask(TaskSettings):
    """Settings of an anchor task; ranges are inclusive, token ids are the integers themselves.

    A subclass with other labels overrides ``answers``; dataset and counterfactuals follow it. While
    the dataset is made, ``answers`` sees the plain labels in ``data.labels``.

    ``rb-interp train --help`` and the page on configuration say what each field means.

    Raises TaskError if settings contradict each other.

    >>> task = AnchorTask()
    >>> data = task.dataset(seed=0)
    >>> row = data.rows("rsn_test")[0]
    >>> key, anchors = data.tokens[row, data.key_position[row]], data.tokens[row, data.anchor_positions[row]]
    >>> bool(data.labels[row] == key + anchors.sum()), sorted(anchors.tolist())
    (True, [11, 13])
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {
            "length": 6,
            "keys": (21, 36),
            "memory_anchors": (1, 4),
            "reasoning_anchors": (11, 14),
            "d_vocab": 80,
            "n_sequences": 3200,
        },
        "quick": {},
        "paper": {
            "keys": (21, 120),
            "memory_anchors": (1, 10),
            "reasoning_anchors": (11, 20),
            "n_sequences": 200_000,
        },
    }
    ERROR = TaskError
    sets = SETS
    train_sets = SETS[:2]
    predicts = "last"

    q: Annotated[int, Field(ge=1, le=4)] = 2
    """Number of anchors; combinations of more are too many to list."""
    length: Annotated[int, Field(ge=2, le=100_000)] = 9
    """Number of positions L, at least q + 1."""
    keys: Span = (21, 60)
    """Range of the key set Z, from which noise is drawn too."""
    memory_anchors: Span = (1, 5)
    """Range of A_mem."""
    reasoning_anchors: Span = (11, 15)
    """Range of A_rsn."""
    masked: tuple[tuple[Token, ...], ...] = ((11, 13), (13, 11))
    """Reasoning combinations (ordered, q anchors each) held out of training."""
    d_vocab: Size = 200
    """Vocabulary size; every token and label is below it."""
    n_sequences: Annotated[int, Field(ge=1, le=1_000_000_000)] = 20_000
    """Number of rows; each anchor combination of a kind gets the same number, so the total is
    rounded down to what divides evenly."""
    memory_labels: Literal["keys", "near_sum", "ranges"] = "keys"
    """Label distribution of the memory mapping, see above."""
    label_ranges: tuple[Span, ...] = ()
    """For ``ranges``, one label range per group; the memory anchors are split into as many equal
    groups, and combinations stay within a group."""
    memory_share: Share = 0.5
    """Share of memory rows among all rows."""
    unordered: bool = False
    """One memory label for all orders of the same anchors; a model that sums embeddings cannot tell
    orders apart."""
    balanced_keys: bool = False
    """Every key equally often with every combination, instead of drawn at random. With length q + 1
    and as few rows as possible these are all inputs there are, each once."""

    def __post_init__(self) -> None:
        _check_spans(self)
        _check_masked(self)
        _check_counts(self)

    @checked
    def tokens(self, group: str) -> Int[np.ndarray, " n"]:
        """Token ids of ``key``, ``memory_anchor`` or ``reasoning_anchor``, ascending.

        Raises TaskError for another group.
        """
        spans = {
            GROUPS["key"]: self.keys,
            GROUPS["memory"]: self.memory_anchors,
            GROUPS["reasoning"]: self.reasoning_anchors,
        }
        if group not in spans:
            raise TaskError(f"the anchor task has no group '{group}'; {nearest(group, spans)}")
        low, high = spans[group]
        return np.arange(low, high + 1)

    def memory_groups(self) -> Int[np.ndarray, "group n"]:
        """Memory anchors in groups whose combinations never mix: one group, or one a label range."""
        return self.tokens("memory_anchor").reshape(len(self.label_ranges) or 1, -1)

    @checked
    def combinations(self, set: str) -> Int[np.ndarray, "combination q"]:
        """All ordered anchor combinations of ``mem``, ``rsn_train`` or ``rsn_test``, sorted."""
        rows = []
        if set == "mem":
            for group in self.memory_groups().tolist():
                rows += product(group, repeat=self.q)
        else:
            is_masked = set == "rsn_test"
            masked = dict.fromkeys(self.masked)
            anchors = self.tokens("reasoning_anchor").tolist()
            for combination in product(anchors, repeat=self.q):
                if (combination in masked) == is_masked:
                    rows.append(combination)
        return np.array(rows, dtype=np.int64).reshape(-1, self.q)

    @checked
    def rows_per_combination(self, set: str) -> int:
        """Rows that each combination of a set gets.

        Reasoning combinations get the same number in training and test.
        """
        n_memory = round(self.n_sequences * self.memory_share)
        combinations = self.n_combinations()
        if set == "mem":
            return n_memory // combinations[0]
        return (self.n_sequences - n_memory) // combinations[1]

    def n_combinations(self) -> tuple[int, int]:
        """Numbers of memory and of reasoning combinations, without listing them."""
        n_groups = len(self.label_ranges) or 1
        in_group = len(self.tokens("memory_anchor")) // n_groups
        return n_groups * in_group**self.q, len(self.tokens("reasoning_anchor")) ** self.q

    @property
    def stages(self) -> Mapping[str, Stage]:
        """Stages of a member, by f = loss on rsn_train / ln d_vocab and by the accuracy on mem.

        ``half``: f <= 1/2, with the same-seed siblings. ``leaving``: f < .99, the member leaves the
        plateau that it starts on. ``informed``: the loss is at most the entropy of key + sum, less .2
        nats, so the member knows more than their frequencies. ``settled``: 1,000 steps after an
        accuracy on rsn_train of .999. ``before_memory``: the last evaluation with an accuracy of at
        most .20.
        """
        top = math.log(self.d_vocab)
        labels = self.combinations("rsn_train").sum(1)[:, None] + self.tokens("key")
        informed_loss = label_entropy(labels.ravel()) - 0.2
        return {
            "half": Stage(lambda now, _: now[:, REASONING, 0] / top <= HALF, with_siblings=True),
            "leaving": Stage(lambda now, _: now[:, REASONING, 0] / top < 0.99),
            "informed": Stage(lambda now, _: now[:, REASONING, 0] <= informed_loss),
            "settled": Stage(lambda now, _: now[:, REASONING, 1] >= 0.999, delay=1000),
            "before_memory": Stage(lambda now, _: now[:, MEMORY, 1] <= MEMORY_ACCURACY, "last"),
        }

    @checked
    def dataset(self, seed: int) -> AnchorDataset:
        """Draw label table and rows; the same seed gives the same rows on every machine."""
        per_set = []
        for set in SETS:
            n_rows = self.rows_per_combination(set)
            per_set.append(np.repeat(self.combinations(set), n_rows, axis=0))
        anchors = np.concatenate(per_set)
        n, q = anchors.shape
        keys = self.tokens("key")
        low, high = label_bounds(self)
        table = np.random.default_rng([seed, 1]).integers(low, high + 1)
        if self.unordered:
            # each combination has the label of the first one that holds the same anchors
            in_order = np.sort(self.combinations("mem"), 1)
            _, first, group = np.unique(in_order, axis=0, return_index=True, return_inverse=True)
            table = table[first[group.reshape(-1)]]
        rng = np.random.default_rng([seed, 2])
        tokens = rng.integers(keys[0], keys[-1] + 1, (n, self.length))
        key_position = rng.integers(0, self.length - q, n)[:, None]
        if self.balanced_keys:
            # rows of one combination stand together, in multiples of the number of keys
            np.put_along_axis(tokens, key_position, np.resize(keys, n)[:, None], 1)
        anchor_positions = key_position + 1 + np.arange(q)
        np.put_along_axis(tokens, anchor_positions, anchors, 1)
        positions = {"key": key_position, "anchor": anchor_positions}
        positions["noise"] = other_positions(positions, self.length)
        unlabelled = AnchorDataset(
            seed=seed,
            tokens=tokens,
            labels=np.zeros(n, dtype=tokens.dtype),
            set=np.repeat(np.arange(len(SETS)), [len(rows) for rows in per_set]),
            sets=SETS,
            train_sets=self.train_sets,
            positions=positions,
            groups={name: self.tokens(name) for name in GROUPS.values()},
            name="the anchor task",
            task=self,
            label_table=table,
        )
        rows = np.arange(n)
        plain = replace(unlabelled, labels=AnchorTask.answers(self, unlabelled, rows, tokens))
        return replace(plain, labels=self.answers(plain, rows, tokens))

    @checked
    def answers(
        self, data: AnchorDataset, rows: Int[np.ndarray, " row"], tokens: Int[np.ndarray, "row pos"]
    ) -> Int[np.ndarray, " row"]:
        """Right answers of tokens that have key and anchors where the given rows of a dataset do.

        Raises TaskError for tokens of another length, and if a memory row holds no key and memory
        anchors.
        """
        rows = selected(rows, len(data))
        if tokens.shape[1:] != data.tokens.shape[1:] or (tokens.size and tokens.min() < 0):
            raise TaskError(
                f"got tokens of shape {list(tokens.shape)}; expected [row, "
                f"{data.tokens.shape[1]}], 0 or more."
            )
        key = np.take_along_axis(tokens, data.positions["key"][rows], 1)[:, 0]
        anchors = np.take_along_axis(tokens, data.anchor_positions[rows], 1)
        memory = data.set[rows] == MEMORY
        labels = key + anchors.sum(1)
        are_keys = np.isin(key[memory], self.tokens("key"))
        are_anchors = np.isin(anchors[memory], self.tokens("memory_anchor"))
        if not (are_keys.all() and are_anchors.all()):
            raise TaskError(
                "a memory row holds other tokens where its key and memory anchors stand; give those."
            )
        combination = combination_numbers(anchors[memory], self.combinations("mem"))
        labels[memory] = data.label_table[combination, key[memory] - self.keys[0]]
        return labels

    @checked
    def counterfactual(
        self, data: AnchorDataset, rows: RowNumbers, change: str, seed: int = 0
    ) -> Inputs:
        """The same rows with one thing changed, and their right answers.

        ``change`` is ``key``, ``anchors``, ``both`` or ``noise``. A changed key or combination is
        drawn evenly from its set, again and again until it has another right answer; with ``both``
        one of the two may stay.
        ``anchor_1`` .. ``anchor_q`` change one anchor alone, to a combination of the same set. Noise
        is drawn anew from all keys. The same seed gives the same rows.

        Raises TaskError for an unknown change, if a row has no counterfactual with another answer,
        and if the rows' labels are not those of ``answers``.

        >>> task = AnchorTask()
        >>> data = task.dataset(seed=0)
        >>> rows = data.sample("rsn_train", 50)
        >>> bool((task.counterfactual(data, rows, "noise").labels == data.labels[rows]).all())
        True
        """
        return changed_rows(data, selected(rows, len(data)), change, seed)


def label_bounds(
    task: AnchorTask,
) -> tuple[Int[np.ndarray, "combination key"], Int[np.ndarray, "combination key"]]:
    """Lowest and highest label, both inclusive, that each memory combination and key may draw.

    >>> low, high = label_bounds(AnchorTask(memory_labels="near_sum"))
    >>> int(low[1, 0]), int(high[1, 0])         # anchors 1 and 2, key 21
    (18, 24)
    """
    combinations = task.combinations("mem")
    keys = task.tokens("key")
    if task.memory_labels == "near_sum":
        total = combinations.sum(1)[:, None]
        return keys[None, :] - total, keys[None, :] + total
    ranges = np.array(task.label_ranges or [task.keys])
    bounds = np.repeat(ranges, len(combinations) // len(ranges), axis=0)
    shape = (len(combinations), len(keys))
    return np.broadcast_to(bounds[:, :1], shape), np.broadcast_to(bounds[:, 1:], shape)


def _check_spans(task: AnchorTask) -> None:
    """Raise TaskError if ranges of tokens overlap or leave the vocabulary."""
    q = task.q
    keys = task.keys
    reasoning = task.reasoning_anchors
    spans = {"keys": keys, "memory_anchors": task.memory_anchors, "reasoning_anchors": reasoning}
    for (first, (a, b)), (second, (c, d)) in combinations(spans.items(), 2):
        if a <= d and c <= b:
            raise TaskError(
                f"{first}=({a}, {b}) and {second}=({c}, {d}) overlap; choose disjoint ranges."
            )
    sums = q * task.memory_anchors[1] if task.memory_labels == "near_sum" else 0
    spans["memory labels"] = (keys[0] - sums, keys[1] + sums)
    if task.memory_share < 1:
        spans["reasoning labels"] = (keys[0] + q * reasoning[0], keys[1] + q * reasoning[1])
    for number, span in enumerate(task.label_ranges):
        spans[f"label_ranges[{number}]"] = span
    for name, (low, high) in spans.items():
        if not 0 <= low <= high < task.d_vocab:
            raise TaskError(
                f"{name} run from {low} to {high}; expected a range of tokens within 0 to "
                f"{task.d_vocab - 1}. Change it, or raise d_vocab above {high}."
            )
    if task.length < q + 1:
        raise TaskError(
            f"length={task.length} cannot hold a key and q={q} anchors; use length >= {q + 1}."
        )


def _check_masked(task: AnchorTask) -> None:
    """Raise TaskError for a masked combination that is none, and for groups that do not fit."""
    low, high = task.reasoning_anchors
    for combination in task.masked:
        is_known = all(low <= anchor <= high for anchor in combination)
        if len(combination) != task.q or not is_known:
            raise TaskError(
                f"masked combination {combination} is not one of q={task.q} reasoning anchors in "
                f"{task.reasoning_anchors}."
            )
    if (task.memory_labels == "ranges") != bool(task.label_ranges):
        raise TaskError(
            f"memory_labels='{task.memory_labels}' with {len(task.label_ranges)} label_ranges; "
            f"give both."
        )
    n_anchors = len(task.tokens("memory_anchor"))
    n_groups = len(task.label_ranges) or 1
    if n_anchors % n_groups:
        raise TaskError(
            f"{n_anchors} memory anchors do not split into {n_groups} equal groups of label_ranges."
        )


def _check_counts(task: AnchorTask) -> None:
    """Raise TaskError if a combination gets no row, or keys not equally many."""
    n_memory, n_reasoning = task.n_combinations()
    memory_rows = task.rows_per_combination("mem")
    reasoning_rows = task.rows_per_combination("rsn_train")
    lacks_memory = task.memory_share > 0 and not memory_rows
    lacks_reasoning = task.memory_share < 1 and not reasoning_rows
    if lacks_memory or lacks_reasoning:
        raise TaskError(
            f"n_sequences={task.n_sequences} leaves some of {n_memory} memory and {n_reasoning} "
            f"reasoning combinations without a row; raise n_sequences."
        )
    n_keys = len(task.tokens("key"))
    if task.balanced_keys and (memory_rows % n_keys or reasoning_rows % n_keys):
        raise TaskError(
            f"balanced_keys with n_sequences={task.n_sequences}: {memory_rows} rows for each memory "
            f"combination and {reasoning_rows} for each reasoning combination are no multiple of "
            f"{n_keys} keys; with memory_share=0.5, "
            f"n_sequences={2 * n_keys * math.lcm(n_memory, n_reasoning)} works."
        )
    if not memory_rows and len({*task.masked}) == n_reasoning:
        raise TaskError(
            "the training set is empty: every reasoning combination is masked; leave some out of "
            "masked."
        )


RATES: dict[str, tuple[tuple[float, float], ...]] = {
    "quick": ((0.3, 8e-3), (0.5, 4e-3), (0.8, 8e-3))
}
"""Preset -> learning rate by gamma on the anchor task, if gammas differ.

Of a fixed grid, those with the lowest training loss (``experiments/learning_rates.py``,
``results/learning_rates.csv``)."""


def check_both_kinds(task: AnchorTask) -> None:
    """Raise ConfigError for a task of memory alone or of reasoning alone; a study compares them."""
    if not 0 < task.memory_share < 1:
        raise ConfigError(
            f"memory_share={task.memory_share}; a study compares memory with reasoning, so give a "
            f"share between 0 and 1. train_members trains on one kind alone too."
        )
