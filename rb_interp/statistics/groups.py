"""Do members of two groups answer differently more often than members of one?

With d_ab the share of rows that members a and b answer differently, G(a) the group of a:

    excess_a   = mean of d_ab over b in other groups - mean of d_ab over b != a in G(a)
    within     = mean of d_ab over pairs of one group
    between    = mean of d_ab over pairs of two groups
    difference = between - within
    p_value    = share of all relabelings of members, group sizes kept, with at least this difference

The relabelings include the one that was seen, and all distinct ones are made where there are at most MOST_EXACT;
else as many as ``n_draws`` are drawn and p_value = (1 + those that reach it) / (1 + n_draws). The unit is the member:
rows of one member share all its faults, so a test over rows would call any two networks different. Source: Mielke and
Berry, "Permutation Methods", 2007 (multi-response permutation procedures).

How it can mislead. Groups of 3 and 2 have 10 relabelings, so p is .1 at least, and no difference can reach .05. A small
difference does not say that two groups do the same: it says that groups explain nothing of what members do. Members who
all fail, each in its own way, disagree within their group as much as with anyone else, so their excess is about 0
although another group never fails: look at the means of each group and at accuracy beside it. A group without a
mechanism in common is compared all the same.

How well a number tells two groups apart: the area under the ROC curve, over several strata, with an interval.

    AUC = sum over strata of (pairs with first < second + ties / 2) / sum over strata of pairs

One of the pair is of the first group, the other of the second, both of the same stratum. The pairs are not independent:
n_1 and n_2 members make n_1 n_2 pairs, of which min(n_1, n_2) can be disjoint. The AUC of a stratum is the mean, over
all ways to match members, of the mean over k = min(n_1, n_2) independent pairs, so Chernoff's bound for k independent
pairs holds for it (Hoeffding 1963, Sec. 5). With weights w_g, the shares of all pairs, it holds for the weighted mean
of strata with K = min_g k_g / w_g. The interval has every t with

    K (a ln(a / t) + (1 - a) ln((1 - a) / (1 - t))) <= ln(2 / (1 - confidence)),    a the AUC

It covers the expected AUC with at least the given confidence, for any distribution and any number of members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq
from scipy.special import rel_entr

from rb_interp.errors import ArgumentError
from rb_interp.statistics.nulls import permutations

__all__ = ["Comparison", "between_less_within", "disagreement", "excess_disagreement", "pair_means", "stratified_auc"]

MOST_EXACT = 1_000_000
"""Every relabeling is made where there are at most this many: groups of 4, 14 and 2 have 581,400."""
AT_ONCE = 50_000
"""Relabelings that are looked at together, for memory."""


def disagreement(answers: Int[np.ndarray, "member row"]) -> Float[np.ndarray, "member member"]:
    """Share of rows that two members answer differently, in [0, 1], symmetric with 0 on the diagonal.

    >>> disagreement(np.array([[1, 2, 3, 4], [1, 2, 0, 0]])).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    return np.array([[float((one != other).mean()) for other in answers] for one in answers])


def excess_disagreement(d: Float[np.ndarray, "member member"], groups: Sequence[str]) -> Float[np.ndarray, " member"]:
    """Each member's mean disagreement with other groups less that with its own group, in [-1, 1].

    Args:
        d: as `disagreement` gives it. groups: one name a member.

    Returns NaN for a member with no partner in its group, or none in another.

    >>> d = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    >>> excess_disagreement(d, ["a", "a", "b"]).round(3).tolist()
    [0.4, 0.6, nan]
    """
    same = np.equal.outer(np.array(groups), np.array(groups))
    own = same & ~np.eye(len(same), dtype=bool)
    return _row_means(d, ~same) - _row_means(d, own)


def pair_means(d: Float[np.ndarray, "member member"], groups: Sequence[str]) -> dict[tuple[str, str], np.ndarray]:
    """Disagreement of every pair of members, by their two groups in alphabetical order; no entry without a pair.

    >>> d = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    >>> {names: pairs.tolist() for names, pairs in pair_means(d, ["a", "a", "b"]).items()}
    {('a', 'a'): [0.1], ('a', 'b'): [0.5, 0.7]}
    """
    names = [tuple(sorted(pair)) for pair in combinations(groups, 2)]
    above = d[np.triu_indices(len(d), 1)]
    every = combinations_with_replacement(sorted({*groups}), 2)
    each = {pair: above[[name == pair for name in names]] for pair in every}
    return {pair: values for pair, values in each.items() if len(values)}


class Comparison(NamedTuple):
    """Within against between groups; NaN throughout where there is no pair of one kind.

    Attributes:
        within, between: mean over pairs of members of one group, and of two. difference: between less within.
        p_value: one-sided, in (0, 1]. n_relabelings: how many p_value rests on. exact: whether these are all.
    """

    within: float
    between: float
    difference: float
    p_value: float
    n_relabelings: int
    exact: bool


def between_less_within(
    d: Float[np.ndarray, "member member"], groups: Sequence[str], n_draws: int = 9999, seed: int = 0
) -> Comparison:
    """Mean disagreement between groups less that within, with its permutation test over members.

    Args:
        d: as `disagreement` gives it. groups: one name a member.
        n_draws, seed: random relabelings, drawn only where there are more than MOST_EXACT.

    >>> d = np.ones((4, 4)) - np.eye(4)
    >>> d[0, 1] = d[1, 0] = d[2, 3] = d[3, 2] = 0
    >>> found = between_less_within(d, ["a", "a", "b", "b"])
    >>> found.difference, round(found.p_value, 3)  # one of three ways to make two pairs
    (1.0, 0.333)
    """
    codes = np.unique(np.array(groups, dtype=str), return_inverse=True)[1]
    sizes, pairs = tuple(np.bincount(codes).tolist()), math.comb(len(codes), 2)
    n_within = sum(math.comb(size, 2) for size in sizes)
    if n_within in (0, pairs):
        return Comparison(math.nan, math.nan, math.nan, math.nan, 0, exact=False)
    total = float(d.sum()) / 2

    def difference(labels: Int[np.ndarray, "relabeling member"]) -> Float[np.ndarray, " relabeling"]:
        each = [(labels == group).astype(float) for group in range(len(sizes))]
        inside = np.sum([((of @ d) * of).sum(1) for of in each], axis=0) / 2
        return (total - inside) / (pairs - n_within) - inside / n_within

    seen = float(difference(codes[None])[0])
    exact = _n_relabelings(sizes) <= MOST_EXACT
    labels = (
        _every_relabeling(sizes) if exact else codes[permutations(n_draws, len(codes), np.random.default_rng(seed))]
    )
    parts = np.array_split(labels, math.ceil(len(labels) / AT_ONCE))
    reached = sum(int((difference(part) >= seen - 1e-12).sum()) for part in parts)
    p_value = reached / len(labels) if exact else (1 + reached) / (1 + len(labels))
    pair = np.triu_indices(len(d), 1)
    same = np.equal.outer(codes, codes)[pair]
    within, between = (float(d[pair][chosen].mean()) for chosen in (same, ~same))
    return Comparison(within, between, between - within, p_value, len(labels), exact)


def _row_means(d: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    n = chosen.sum(1)
    return np.divide((d * chosen).sum(1), n, out=np.full(len(d), np.nan), where=n > 0)


def _n_relabelings(sizes: tuple[int, ...]) -> int:
    return math.factorial(sum(sizes)) // math.prod(math.factorial(size) for size in sizes)


@cache
def _every_relabeling(sizes: tuple[int, ...]) -> Int[np.ndarray, "relabeling member"]:
    """Every distinct way to give members the groups 0, 1, ... of these sizes, one a row."""
    last = len(sizes) - 1
    labels = np.full((1, sum(sizes)), last, dtype=np.int8)
    for group, size in enumerate(sizes[:-1]):
        free = np.nonzero(labels == last)[1].reshape(len(labels), -1)
        places = free[:, np.array(list(combinations(range(free.shape[1]), size)))]
        labels = np.repeat(labels, places.shape[1], axis=0)
        np.put_along_axis(labels, places.reshape(-1, size), group, 1)
    return labels


Numbers = Sequence[float | int] | np.ndarray


class Auc(NamedTuple):
    """An AUC, the ends of its interval, the pairs that it counts, and how many independent ones these are worth."""

    value: float
    low: float
    high: float
    n_pairs: int
    n_independent: float


def stratified_auc(strata: Sequence[tuple[Numbers, Numbers]], confidence: float = 0.95) -> Auc:
    """Chance that a number of the first group is the lower one, within strata; NaN in [0, 1] without pairs.

    Args:
        strata: the numbers of the first and of the second group in each. A stratum without one of them has no pairs.
        confidence: of the interval.

    Raises ArgumentError for NaN among the numbers.

    >>> found = stratified_auc([([1.0, 2.0], [3.0, 4.0]), ([5.0], [5.0]), ([1.0], [])])
    >>> found.value, found.n_pairs
    (0.9, 5)
    >>> [round(end, 2) for end in stratified_auc([(range(17), range(20, 37))])[:3]]
    [1.0, 0.8, 1.0]
    """
    counted = [(np.asarray(one, dtype=float), np.asarray(other, dtype=float)) for one, other in strata]
    if any(np.isnan(numbers).any() for pair in counted for numbers in pair):
        raise ArgumentError("stratified_auc got NaN among the numbers; leave out members without a number.")
    counted = [(one, other) for one, other in counted if len(one) and len(other)]
    n_pairs = sum(len(one) * len(other) for one, other in counted)
    if not n_pairs:
        return Auc(math.nan, 0.0, 1.0, 0, 0.0)
    below = sum(float((one[:, None] < other).sum() + (one[:, None] == other).sum() / 2) for one, other in counted)
    independent = min(n_pairs / max(len(one), len(other)) for one, other in counted)  # min(n_1, n_2) / (n_1 n_2 / n)
    value = below / n_pairs

    def excess(t: float) -> float:
        return independent * float(rel_entr([value, 1 - value], [t, 1 - t]).sum()) - math.log(2 / (1 - confidence))

    tiny = 1e-12
    low: Any = brentq(excess, tiny, value) if value > tiny and excess(tiny) > 0 else 0.0
    high: Any = brentq(excess, value, 1 - tiny) if value < 1 - tiny and excess(1 - tiny) > 0 else 1.0
    return Auc(value, float(low), float(high), n_pairs, independent)
