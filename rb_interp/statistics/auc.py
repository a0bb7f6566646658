"""How well a number tells two groups apart: the area under the ROC curve, over several strata, with an interval.

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
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from rb_interp.errors import ArgumentError

Numbers = Sequence[float] | np.ndarray


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

    Raises ArgumentError for NaN among the numbers, and for a confidence that is not between 0 and 1.

    >>> found = stratified_auc([([1.0, 2.0], [3.0, 4.0]), ([5.0], [5.0]), ([1.0], [])])
    >>> found.value, found.n_pairs
    (0.9, 5)
    >>> [round(end, 2) for end in stratified_auc([(range(17), range(20, 37))])[:3]]
    [1.0, 0.8, 1.0]
    """
    if not 0 < confidence < 1:
        raise ArgumentError(f"stratified_auc got confidence={confidence:g}; expected a share between 0 and 1.")
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
