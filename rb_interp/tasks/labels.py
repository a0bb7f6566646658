"""Label tables of the memory mapping (paper 1, section "Data" and Fig. 8).

A table holds one label for each anchor combination and key, drawn once and kept:
``table[combination, key]``. Three label distributions:

- ``keys``: uniform on the key set (the paper's F_mem, and F_mem,1 of Fig. 8 left);
- ``near_sum``: uniform on ``{z - sum(a), ..., z + sum(a)}`` (F_mem,2 of Fig. 8 left);
- ``ranges``: uniform on the given range of the combination's group (Fig. 8 right).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

LABEL_KINDS = ("keys", "near_sum", "ranges")


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


def draw_label_table(
    low: Int[np.ndarray, "combination key"], high: Int[np.ndarray, "combination key"], rng: np.random.Generator
) -> Int[np.ndarray, "combination key"]:
    """Draw one label per combination and key, uniform on its bounds (inclusive)."""
    return rng.integers(low, high + 1)
