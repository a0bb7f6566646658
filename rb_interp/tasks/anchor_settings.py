"""Settings of the anchor task, and the tokens, combinations and labels that they allow."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Int
from pydantic import Field

from rb_interp.arguments import checked
from rb_interp.errors import TaskError, nearest
from rb_interp.settings import Share, Size, Span, Token
from rb_interp.tasks.dataset import TaskSettings

SETS = ("mem", "rsn_train", "rsn_test")
"""Memory (all of it trained on), reasoning trained on, reasoning held out."""
GROUPS = {"key": "key", "memory": "memory_anchor", "reasoning": "reasoning_anchor"}
"""Group of tokens as readings name it -> its name in Roles."""


class AnchorSettings(TaskSettings):
    """The fields of `AnchorTask`.

    Raises TaskError if settings contradict each other.
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
    """Label distribution of the memory mapping, see ``tasks.anchor``."""
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
            raise TaskError(
                f"the anchor task has no token group '{group}'; {nearest(group, spans)}"
            )
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
        n_memory_combinations, n_reasoning_combinations = self.n_combinations()
        if set == "mem":
            return n_memory // n_memory_combinations
        return (self.n_sequences - n_memory) // n_reasoning_combinations

    def n_combinations(self) -> tuple[int, int]:
        """Numbers of memory and of reasoning combinations, without listing them."""
        n_groups = len(self.label_ranges) or 1
        n_memory_anchors = self.memory_anchors[1] - self.memory_anchors[0] + 1
        n_reasoning_anchors = self.reasoning_anchors[1] - self.reasoning_anchors[0] + 1
        return n_groups * (n_memory_anchors // n_groups) ** self.q, n_reasoning_anchors**self.q


def label_bounds(
    task: AnchorSettings,
) -> tuple[Int[np.ndarray, "combination key"], Int[np.ndarray, "combination key"]]:
    """Lowest and highest label, both inclusive, that each memory combination and key may draw.

    >>> low, high = label_bounds(AnchorSettings(memory_labels="near_sum"))
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


def _check_spans(task: AnchorSettings) -> None:
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


def _check_masked(task: AnchorSettings) -> None:
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
    n_anchors = task.memory_anchors[1] - task.memory_anchors[0] + 1
    n_groups = len(task.label_ranges) or 1
    if n_anchors % n_groups:
        raise TaskError(
            f"{n_anchors} memory anchors cannot be split into {n_groups} equal groups of "
            f"label_ranges."
        )


def _check_counts(task: AnchorSettings) -> None:
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
    n_keys = task.keys[1] - task.keys[0] + 1
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
