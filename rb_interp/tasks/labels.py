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
    from rb_interp.tasks.anchor import AnchorDataset, AnchorTask


def label_bounds(task: AnchorTask) -> tuple[Int[np.ndarray, "combination key"], Int[np.ndarray, "combination key"]]:
    """Lowest and highest label (both inclusive) that each memory combination and key of a task may draw.

    >>> from rb_interp.tasks import AnchorTask
    >>> low, high = label_bounds(AnchorTask(memory_labels="near_sum"))
    >>> int(low[1, 0]), int(high[1, 0])         # anchors 1 and 2, key 21
    (18, 24)
    """
    combinations, keys = task.combinations("mem"), task.tokens("key")
    if task.memory_labels == "near_sum":
        total = combinations.sum(1)[:, None]
        return keys[None, :] - total, keys[None, :] + total
    ranges = np.array(task.label_ranges or [task.keys])
    bounds = np.repeat(ranges, len(combinations) // len(ranges), axis=0)
    low, high = (np.broadcast_to(bound[:, None], (len(combinations), len(keys))) for bound in bounds.T)
    return low, high


def range_entropy(data: AnchorDataset) -> float:
    """Mean entropy (nats) of a memory label that is known to lie in its range, over the memory rows; nan without any.

    The loss of a model that knows the range of each row's label (`label_bounds`) and nothing else.

    >>> from rb_interp.tasks import AnchorTask
    >>> bool(np.isclose(range_entropy(AnchorTask().dataset(seed=0)), np.log(40)))         # 40 keys
    True
    """
    task, rows = data.task, data.rows("mem")
    low, high = label_bounds(task)
    anchors = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1)
    which = place(anchors, task.combinations("mem"))
    key = data.tokens[rows, data.key_position[rows]] - task.keys[0]
    return float(np.log((high - low + 1)[which, key]).mean()) if len(rows) else math.nan


def place(
    anchors: Int[np.ndarray, "row q"], combinations: Int[np.ndarray, "combination q"]
) -> Int[np.ndarray, " row"]:
    """Number of each row's combination among different combinations that hold it.

    >>> place(np.array([[2, 1], [1, 1]]), np.array([[1, 1], [1, 2], [2, 1]])).tolist()
    [2, 0]
    """
    lowest = combinations.min(initial=combinations.max(initial=0))
    weights = (combinations.max(initial=0) - lowest + 1) ** np.arange(combinations.shape[1])[::-1]
    numbers = (combinations - lowest) @ weights
    order = np.argsort(numbers)
    return order[np.searchsorted(numbers[order], (anchors - lowest) @ weights)]
