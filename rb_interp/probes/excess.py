"""The positional null of attention: what positions of a role get where attention is drawn at random.

A draw is one pattern for all rows, each of its queries uniform on the simplex of what that query sees, as a head with
any preference for places has it. Drawing anew for every row would average the chance away and call any preference
significant.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

TOGETHER = 2**22
"""Numbers that some draws of a null hold at once, about."""
Mask = Bool[np.ndarray, "row pos"]


class Queries(NamedTuple):
    """The queries that have a choice: each sees n > 0 positions of the role and at least n others.

    Attributes:
        row, at: which row a query is of, and at which position it stands.
        role: the positions with the role that it sees. n, n_others: how many have the role, and how many have not.
    """

    row: Int[np.ndarray, " query"]
    at: Int[np.ndarray, " query"]
    role: Bool[np.ndarray, "query pos"]
    n: Int[np.ndarray, " query"]
    n_others: Int[np.ndarray, " query"]


def queries_with_a_choice(looking: Mask, seen: Mask) -> Queries:
    """The queries among the positions ``looking`` for those ``seen``; each sees itself and what stands before it.

    >>> last, first = np.array([[False, False, True]]), np.array([[True, False, False]])
    >>> found = queries_with_a_choice(last, first)
    >>> found.at.tolist(), found.n.tolist(), found.n_others.tolist()
    ([2], [1], [2])
    """
    row, at = np.nonzero(looking)
    role = seen[row] & (np.arange(looking.shape[1]) <= at[:, None])
    n = role.sum(1)
    found = Queries(row, at, role, n, at + 1 - n)
    return Queries(*(part[(n > 0) & (found.n_others >= n)] for part in found))


def excess(pattern: Float[np.ndarray, "row pos pos"], looking: Mask, seen: Mask) -> float:
    """Mean attention to the role beyond that to as many other positions, in [-1, 1]; NaN for no query with a choice.

    >>> pattern = np.array([[[1, 0, 0], [0.5, 0.5, 0], [0.7, 0.1, 0.2]]])
    >>> last, first = np.array([[False, False, True]]), np.array([[True, False, False]])
    >>> round(excess(pattern, last, first), 6)   # .7 - (.1 + .2) / 2
    0.55
    """
    queries = _queries(looking.tobytes(), seen.tobytes(), looking.shape)
    given = pattern[queries.row, queries.at]
    return float(_beyond((given * queries.role).sum(1), queries).mean()) if len(given) else float("nan")


def random_excess(looking: Mask, seen: Mask, n_null: int, seed: int) -> Float[np.ndarray, " draw"]:
    """`excess` of patterns drawn at random; it depends on no model, so that all heads share it."""
    return _random_excess(looking.tobytes(), seen.tobytes(), looking.shape, n_null, seed)


def _beyond(given: Float[np.ndarray, "*draw query"], queries: Queries) -> Float[np.ndarray, "*draw query"]:
    return given - queries.n * (1 - given) / queries.n_others


@lru_cache(maxsize=64)
def _queries(looking: bytes, seen: bytes, shape: tuple[int, int]) -> Queries:
    return queries_with_a_choice(*(np.frombuffer(mask, dtype=bool).reshape(shape) for mask in (looking, seen)))


@lru_cache(maxsize=64)
def _random_excess(
    looking: bytes, seen: bytes, shape: tuple[int, int], n_null: int, seed: int
) -> Float[np.ndarray, " draw"]:
    queries, length, rng = _queries(looking, seen, shape), shape[1], np.random.default_rng(seed)
    if not len(queries.row):
        return np.full(n_null, np.nan)
    found, together = [], max(1, TOGETHER // (queries.role.size + length**2))
    for start in range(0, n_null, together):
        pattern = np.tril(rng.standard_exponential((min(together, n_null - start), length, length)))
        pattern /= pattern.sum(2, keepdims=True)
        found.append(_beyond((pattern[:, queries.at] * queries.role).sum(2), queries).mean(1))
    draws = np.concatenate(found)
    draws.setflags(write=False)
    return draws
