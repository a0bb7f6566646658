"""Label tables of the memory mapping (paper 1, section "Data" and Fig. 8).

A table holds one label for each anchor combination and key, drawn once and kept:
``table[combination, key]``. Three label distributions:

- ``keys``: uniform on the key set (the paper's F_mem, and F_mem,1 of Fig. 8 left);
- ``near_sum``: uniform on ``{z - sum(a), ..., z + sum(a)}`` (F_mem,2 of Fig. 8 left);
- ``ranges``: uniform on the given range of the combination's group (Fig. 8 right).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    from rb_interp.tasks.anchor import AnchorTask
    from rb_interp.tasks.dataset import AnchorDataset


def label_bounds(
    kind: str,
    combinations: Int[np.ndarray, "combination q"],
    keys: Int[np.ndarray, " key"],
    groups: Int[np.ndarray, " combination"],
    ranges: tuple[tuple[int, int], ...],
) -> tuple[Int[np.ndarray, "combination key"], Int[np.ndarray, "combination key"]]:
    """Lowest and highest label (both inclusive) that each combination and key may draw.

    >>> low, high = label_bounds("near_sum", np.array([[1, 2]]), np.array([20, 30]), np.array([0]), ())
    >>> low.tolist(), high.tolist()
    ([[17, 27]], [[23, 33]])
    """
    shape = (len(combinations), len(keys))
    if kind == "near_sum":
        total = combinations.sum(1)[:, None]
        return keys[None, :] - total, keys[None, :] + total
    if kind == "ranges":
        bounds = np.array(ranges)[groups]
        return np.broadcast_to(bounds[:, :1], shape), np.broadcast_to(bounds[:, 1:], shape)
    return np.full(shape, keys.min()), np.full(shape, keys.max())


def bounds_of(
    task: AnchorTask,
) -> tuple[Int[np.ndarray, "combination key"], Int[np.ndarray, "combination key"]]:
    """`label_bounds` of a task's memory combinations and keys."""
    combinations, n_groups = task.combinations("mem"), len(task.memory_groups())
    groups = np.repeat(np.arange(n_groups), len(combinations) // n_groups)
    return label_bounds(task.memory_labels, combinations, task.tokens("key"), groups, task.label_ranges)


def range_entropy(data: AnchorDataset) -> float:
    """Mean entropy (nats) of a memory label that is known to lie in its range, over the memory rows; nan without any.

    The loss of a model that knows the range of each row's label (``label_bounds``) and nothing else.

    >>> from rb_interp.tasks import AnchorTask
    >>> bool(np.isclose(range_entropy(AnchorTask().dataset(seed=0)), np.log(40)))         # 40 keys
    True
    """
    task, rows = data.task, data.rows("mem")
    low, high = bounds_of(task)
    anchors = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1)
    which = place(anchors, task.combinations("mem"))
    key = data.tokens[rows, data.key_position[rows]] - task.keys[0]
    return float(np.log((high - low + 1)[which, key]).mean()) if len(rows) else math.nan


def place(anchors: Int[np.ndarray, "row q"], combinations: Int[np.ndarray, "combination q"]) -> Int[np.ndarray, " row"]:
    """Number of each row's combination among different combinations that hold it.

    >>> place(np.array([[2, 1], [1, 1]]), np.array([[1, 1], [1, 2], [2, 1]])).tolist()
    [2, 0]
    """
    weights = (combinations.max(initial=0) + 1) ** np.arange(combinations.shape[1])[::-1]
    numbers = combinations @ weights
    order = np.argsort(numbers)
    return order[np.searchsorted(numbers[order], anchors @ weights)]


def first_of_its_anchors(combinations: Int[np.ndarray, "combination q"]) -> Int[np.ndarray, " combination"]:
    """For each combination the number of the first one that holds the same anchors in any order.

    >>> first_of_its_anchors(np.array([[1, 1], [1, 2], [2, 1], [2, 2]])).tolist()
    [0, 1, 1, 3]
    """
    _, first, group = np.unique(np.sort(combinations, 1), axis=0, return_index=True, return_inverse=True)
    return first[group.reshape(-1)]


def irreducible_loss(data: AnchorDataset, set: str) -> float:
    """Mean loss (nats) on a set that is left to any model that sees which tokens a row holds and not their order.

    The entropy of the label given the multiset of tokens, in the rows of the set: 0 where the multiset decides. A model
    that sums embeddings (paper 1, Definition 1) cannot go below it.

    >>> from rb_interp.tasks import AnchorTask
    >>> task = AnchorTask(length=3, balanced_keys=True, unordered=True, n_sequences=2000)
    >>> irreducible_loss(task.dataset(seed=0), "mem")
    0.0
    """
    rows = data.rows(set)
    seen, counts = np.unique(
        np.column_stack([np.sort(data.tokens[rows], 1), data.labels[rows]]), axis=0, return_counts=True
    )
    _, group = np.unique(seen[:, :-1], axis=0, return_inverse=True)
    total = np.bincount(group.reshape(-1), counts)[group.reshape(-1)]
    return float((counts * np.log(total / counts)).sum() / max(len(rows), 1))
