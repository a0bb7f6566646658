"""Rows of an anchor task: tokens, labels, roles, and the three sets they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TaskError, nearest
from rb_interp.tasks.labels import draw_label_table, first_of_its_anchors, label_bounds
from rb_interp.tasks.roles import Roles

if TYPE_CHECKING:
    from rb_interp.tasks.anchor import AnchorTask

SETS = ("mem", "rsn_train", "rsn_test")
"""Memory (all of it trained on), reasoning trained on, reasoning held out."""


@dataclass(frozen=True)
class AnchorDataset:
    """The rows that one seed draws.

    Attributes:
        tokens: ``[row, pos]``. labels: ``[row]``, read at the last position.
        kind: ``[row]``, index into SETS. key_position: ``[row]``. anchor_positions: ``[row, q]``, in order.
        label_table: ``[memory combination, key]``, as in ``task.combinations("mem")`` and ``task.tokens("key")``.
    """

    task: AnchorTask
    seed: int
    tokens: Int[np.ndarray, "row pos"]
    labels: Int[np.ndarray, " row"]
    kind: Int[np.ndarray, " row"]
    key_position: Int[np.ndarray, " row"]
    anchor_positions: Int[np.ndarray, "row q"]
    label_table: Int[np.ndarray, "combination key"]

    def __len__(self) -> int:
        return len(self.tokens)

    def rows(self, kind: str) -> Int[np.ndarray, " n"]:
        """Row numbers of a set (``mem``, ``rsn_train``, ``rsn_test``) or of ``train`` (the first two together)."""
        if kind == "train":
            return np.flatnonzero(self.kind != SETS.index("rsn_test"))
        if kind not in SETS:
            raise TaskError(f"there is no set '{kind}'; {nearest(kind, (*SETS, 'train'))}")
        return np.flatnonzero(self.kind == SETS.index(kind))

    def sample(self, kind: str, n: int) -> Int[np.ndarray, " n"]:
        """Up to n fixed rows of a set, the same at every call; all of them where the set is smaller."""
        rows = self.rows(kind)
        number = (*SETS, "train").index(kind)
        rng = np.random.default_rng([self.seed, number, n, 3])
        return np.sort(rng.permutation(rows)[:n])

    def roles(self, rows: Int[np.ndarray, " n"] | None = None) -> Roles:
        """Roles of the given rows (default: all): ``key``, ``anchor``, ``noise``; groups; kind."""
        rows = np.arange(len(self)) if rows is None else rows
        key, anchors = self.key_position[rows], self.anchor_positions[rows]
        noise = np.ones((len(rows), self.task.length), dtype=bool)
        np.put_along_axis(noise, np.concatenate([key[:, None], anchors], 1), False, 1)
        positions = {
            "key": key[:, None],
            "anchor": anchors,
            "noise": np.nonzero(noise)[1].reshape(len(rows), self.task.length - self.task.q - 1),
        }
        groups = {name: self.task.tokens(name) for name in ("key", "memory_anchor", "reasoning_anchor")}
        return Roles(positions, groups, np.array(SETS)[self.kind[rows]], "the anchor task")


def draw_dataset(task: AnchorTask, seed: int) -> AnchorDataset:
    """Draw the label table (stream 1 of the seed) and the rows (stream 2)."""
    keys, memory = task.tokens("key"), task.combinations("mem")
    groups = np.repeat(np.arange(len(task.memory_groups())), len(memory) // len(task.memory_groups()))
    low, high = label_bounds(task.memory_labels, memory, keys, groups, task.label_ranges)
    table = draw_label_table(low, high, np.random.default_rng([seed, 1]))
    if task.unordered:
        table = table[first_of_its_anchors(memory)]
    per_set = [np.repeat(task.combinations(kind), task.rows_per_combination(kind), axis=0) for kind in SETS]
    anchors = np.concatenate(per_set)
    kind = np.repeat(np.arange(len(SETS)), [len(rows) for rows in per_set])
    n, q = anchors.shape
    rng = np.random.default_rng([seed, 2])
    tokens = rng.integers(keys[0], keys[-1] + 1, (n, task.length))
    key_position = rng.integers(0, task.length - q, n)
    if task.balanced_keys:  # rows of one combination stand together, in multiples of the number of keys
        np.put_along_axis(tokens, key_position[:, None], np.resize(keys, n)[:, None], 1)
    anchor_positions = key_position[:, None] + 1 + np.arange(q)
    np.put_along_axis(tokens, anchor_positions, anchors, 1)
    key = np.take_along_axis(tokens, key_position[:, None], 1)[:, 0]
    labels = key + anchors.sum(1)
    is_memory = kind == SETS.index("mem")
    combination = np.repeat(np.arange(len(memory)), task.rows_per_combination("mem"))
    labels[is_memory] = table[combination, key[is_memory] - keys[0]]
    return AnchorDataset(task, seed, tokens, labels, kind, key_position, anchor_positions, table)
