"""Do members of two groups answer differently more often than members of one?

With d_ab the share of rows that members a and b answer differently, G(a) the group of a:

    excess_a   = mean of d_ab over b in other groups - mean of d_ab over b != a in G(a)
    within     = mean of d_ab over pairs of one group
    between    = mean of d_ab over pairs of two groups
    difference = between - within
    p_value    = share of all relabelings of members, group sizes kept, with at least this difference

The relabelings include the one that was seen, and all distinct ones are made where there are at
most MOST_EXACT; else as many as ``n_draws`` are drawn and p_value = (1 + those that reach it) / (1
+ n_draws). The unit is the member: rows of one member share all its faults, so a test over rows
would call any two networks different. Source: Mielke and Berry, "Permutation Methods", 2007
(multi-response permutation procedures).

How it can mislead. Groups of 3 and 2 have 10 relabelings, so p is .1 at least, and no difference
can reach .05. A small difference does not say that two groups do the same: it says that groups
explain nothing of what members do. Members who all fail, each in its own way, disagree within their
group as much as with anyone else, so their excess is about 0 although another group never fails:
look at the means of each group and at accuracy beside it. A group without a mechanism in common is
compared all the same.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from rb_interp.statistics.nulls import permutations

__all__ = [
    "Comparison",
    "between_less_within",
    "disagreement",
    "excess_disagreement",
    "pair_means",
]

MOST_EXACT = 1_000_000
"""Every relabeling is made where there are at most this many: groups of 4, 14 and 2 have
581,400."""
RELABELING_CHUNK = 50_000
"""Relabelings that are compared at once, at most, to save memory."""


def disagreement(answers: Int[np.ndarray, "member row"]) -> Float[np.ndarray, "member member"]:
    """Share of rows that two members answer differently, in [0, 1], symmetric with 0 on the
    diagonal.

    >>> disagreement(np.array([[1, 2, 3, 4], [1, 2, 0, 0]])).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    return (answers[:, None] != answers).mean(-1)


def excess_disagreement(
    d: Float[np.ndarray, "member member"], groups: Sequence[str]
) -> Float[np.ndarray, " member"]:
    """Each member's mean disagreement with other groups less that with its own group, in [-1, 1].

    ``groups`` has one name a member. NaN for a member with no partner in its group, or none in
    another.

    >>> d = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    >>> excess_disagreement(d, ["a", "a", "b"]).round(3).tolist()
    [0.4, 0.6, nan]
    """
    names = np.array(groups)
    same = np.equal.outer(names, names)
    partners = same & ~np.eye(len(same), dtype=bool)
    return _row_means(d, ~same) - _row_means(d, partners)


def pair_means(
    d: Float[np.ndarray, "member member"], groups: Sequence[str]
) -> dict[tuple[str, str], np.ndarray]:
    """Disagreement of every pair of members, by their two groups in alphabetical order; no entry
    without a pair.

    >>> d = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    >>> {names: pairs.tolist() for names, pairs in pair_means(d, ["a", "a", "b"]).items()}
    {('a', 'a'): [0.1], ('a', 'b'): [0.5, 0.7]}
    """
    values: dict[tuple[str, str], list[float]] = {}
    for pair in combinations_with_replacement(sorted({*groups}), 2):
        values[pair] = []
    for first, second in combinations(range(len(d)), 2):
        low, high = sorted((groups[first], groups[second]))
        values[low, high].append(d[first, second])
    return {pair: np.array(numbers) for pair, numbers in values.items() if numbers}


class Comparison(NamedTuple):
    """Within against between groups; NaN throughout without a pair of one kind."""

    within: float
    """Mean over pairs of members of one group."""
    between: float
    """Mean over pairs of members of two groups."""
    difference: float
    """Between less within."""
    p_value: float
    """One-sided, in (0, 1]."""
    n_relabelings: int
    """Relabelings that the p-value rests on."""
    exact: bool
    """Whether these are all."""


def between_less_within(
    d: Float[np.ndarray, "member member"], groups: Sequence[str], n_draws: int = 9999, seed: int = 0
) -> Comparison:
    """Mean disagreement between groups less that within, with its permutation test over members.

    ``groups`` has one name a member. Random relabelings are drawn only where there are more than
    MOST_EXACT.

    >>> d = np.ones((4, 4)) - np.eye(4)
    >>> d[0, 1] = d[1, 0] = d[2, 3] = d[3, 2] = 0
    >>> result = between_less_within(d, ["a", "a", "b", "b"])
    >>> result.difference, round(result.p_value, 3)  # one of three ways to make two pairs
    (1.0, 0.333)
    """
    codes = np.unique(np.array(groups, dtype=str), return_inverse=True)[1]
    sizes = tuple(np.bincount(codes).tolist())
    n_pairs = math.comb(len(codes), 2)
    n_within = sum(math.comb(size, 2) for size in sizes)
    if n_within in (0, n_pairs):
        return Comparison(math.nan, math.nan, math.nan, math.nan, 0, exact=False)
    total = float(d.sum()) / 2

    def differences(labels: np.ndarray) -> Float[np.ndarray, " relabeling"]:
        """Between less within, of labels [relabeling, member]."""
        within = np.zeros(len(labels))
        for group in range(len(sizes)):
            mask = (labels == group).astype(float)
            within += ((mask @ d) * mask).sum(1)
        within /= 2
        return (total - within) / (n_pairs - n_within) - within / n_within

    observed = float(differences(codes[None])[0])
    n_distinct = math.factorial(len(codes)) // math.prod(map(math.factorial, sizes))
    exact = n_distinct <= MOST_EXACT
    if exact:
        labels = _distinct_relabelings(sizes)
    else:
        labels = codes[permutations(n_draws, len(codes), np.random.default_rng(seed))]
    reached = 0
    for part in np.array_split(labels, math.ceil(len(labels) / RELABELING_CHUNK)):
        reached += int((differences(part) >= observed - 1e-12).sum())
    p_value = reached / len(labels) if exact else (1 + reached) / (1 + len(labels))
    upper = np.triu_indices(len(d), 1)
    same = np.equal.outer(codes, codes)[upper]
    within = float(d[upper][same].mean())
    between = float(d[upper][~same].mean())
    return Comparison(within, between, between - within, p_value, len(labels), exact)


def _row_means(d: np.ndarray, mask: np.ndarray) -> np.ndarray:
    n = mask.sum(1)
    return np.divide((d * mask).sum(1), n, out=np.full(len(d), np.nan), where=n > 0)


@cache
def _distinct_relabelings(sizes: tuple[int, ...]) -> Int[np.ndarray, "relabeling member"]:
    """All distinct ways to give members the groups 0, 1, ... of these sizes, one a row."""
    last = len(sizes) - 1
    labels = np.full((1, sum(sizes)), last, dtype=np.int8)
    for group, size in enumerate(sizes[:-1]):
        free = np.nonzero(labels == last)[1].reshape(len(labels), -1)
        subsets = np.array(list(combinations(range(free.shape[1]), size)))
        members = free[:, subsets]
        labels = np.repeat(labels, members.shape[1], axis=0)
        np.put_along_axis(labels, members.reshape(-1, size), group, 1)
    return labels
