"""Which tokens are as frequent as which? One to one without replacement, or the nearest with replacement.

    matched    min over one-to-one maps m of mean_s |ln c(s) - ln c(m(s))|       (``scipy.optimize``)
    nearest    argmin_t |ln c(s) - ln c(t)| for each s with min c(t) <= c(s) <= max c(t)

How it can mislead. A match is as good as its mean |ln ratio|, which stands beside it. With replacement a few tokens can
serve most others; without it, the last ones get what is left. Tokens outside the other list's range have no match.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Int

NO_TOKEN = np.array([], dtype=np.int64)


def matched(
    totals: Int[np.ndarray, " d_vocab"], wanted: Int[np.ndarray, " wanted"], offered: Int[np.ndarray, " offered"]
) -> tuple[Int[np.ndarray, " control"], float]:
    """An offered token for each wanted one, none twice, with the smallest sum of |ln ratio| of counts, and its mean.

    No token and nan where fewer are offered than wanted, or nothing is wanted.
    """
    from scipy.optimize import linear_sum_assignment

    if not 0 < len(wanted) <= len(offered):
        return NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[wanted])[:, None] - np.log(totals[offered]))
    rows, columns = linear_sum_assignment(cost)
    return offered[columns], float(cost[rows, columns].mean())


def nearest(
    totals: Int[np.ndarray, " d_vocab"], offered: Int[np.ndarray, " offered"], wanted: Int[np.ndarray, " wanted"]
) -> tuple[Int[np.ndarray, " in_range"], Int[np.ndarray, " in_range"], float]:
    """Wanted tokens within the range of the offered ones' counts, the nearest offered one of each, mean |ln ratio|.

    An offered token can be taken several times; of two that are equally near the first one is. No tokens and nan where
    none is in range.

    >>> found = nearest(np.array([100, 40, 90, 50, 400]), np.array([0, 1]), np.array([2, 3, 4]))
    >>> found[0].tolist(), found[1].tolist(), round(found[2], 3)  # (ln 100/90 + ln 50/40) / 2
    ([2, 3], [0, 1], 0.164)
    """
    counts = totals[offered]
    if not len(counts):
        return NO_TOKEN, NO_TOKEN, math.nan
    within = wanted[(totals[wanted] >= counts.min()) & (totals[wanted] <= counts.max())]
    if not len(within):
        return NO_TOKEN, NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[within])[:, None] - np.log(counts))
    return within, offered[cost.argmin(1)], float(cost.min(1).mean())
