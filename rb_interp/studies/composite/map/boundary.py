"""The boundary between symmetric and inferential answers on a grid of gammas, and its interval over seeds.

    gamma*      where I - S first crosses 0, linear between the points of the grid; if it never does, the grid's end on
                that side: the upper one where answers are symmetric throughout, the lower one where inferential
    bracket     the two points of the grid between which it does

One seed's boundary is known no closer than its bracket. So the interval of the mean over seeds reaches from the lower
end of Student's t interval of the brackets' lower ends to the upper end of that of their upper ends. It covers the mean
boundary of all seeds with 95 % or more, where boundaries lie inside the grid. Below two seeds its ends are NaN.

How it can mislead: where hardly anything is learned, I - S is near 0 and crosses it by chance. The counts of ``unfit``
in the cells show that. A boundary at the grid's end may mean that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rb_interp.statistics.intervals import Interval, interval_or_nan


class Boundary(NamedTuple):
    """Where I - S first crosses 0, the points of the grid around it, and whether it does so at all."""

    gamma: float
    low: float
    high: float
    crosses: bool


def boundary(difference: Mapping[float, float]) -> Boundary:
    """The boundary of one seed.

    Args:
        difference: gamma -> I - S. A value of exactly 0 lies on neither side.

    >>> boundary({0.5: -1.0, 0.6: -0.5, 0.7: 0.5}).gamma
    0.65
    >>> boundary({0.5: -1.0, 0.6: -0.5})
    Boundary(gamma=0.6, low=0.6, high=0.6, crosses=False)
    >>> boundary({0.5: 1.0, 0.6: 0.5}).gamma
    0.5
    """
    ends = sorted(difference)
    sided = [(gamma, difference[gamma]) for gamma in ends if difference[gamma]]
    for (low, before), (high, after) in pairwise(sided):
        if (before < 0) != (after < 0):
            found = low + (high - low) * before / (before - after)
            return Boundary(round(found, 12), low, high, True)
    end = ends[0] if sided and sided[0][1] > 0 else ends[-1]
    return Boundary(end, end, end, False)


def boundary_interval(found: Sequence[Boundary], grid: Sequence[float]) -> Interval:
    """Mean boundary over seeds with its 95 % interval, inside the grid; NaN throughout without seeds.

    >>> boundary_interval([Boundary(0.65, 0.6, 0.7, True)] * 8, [0.5, 0.6, 0.7, 0.8])
    Interval(estimate=0.65, low=0.6, high=0.7)
    """
    middle, low, high = (interval_or_nan([getattr(one, name) for one in found]) for name in ("gamma", "low", "high"))
    return Interval(middle.estimate, float(np.maximum(low.low, min(grid))), float(np.minimum(high.high, max(grid))))


def order(values: Mapping[float, float]) -> float:
    """Spearman's correlation of places and values, in [-1, 1]; 0 where all values are equal, NaN below two places."""
    from scipy.stats import rankdata

    if len(values) < 2:
        return float("nan")
    ranks = [rankdata(side) for side in (list(values), list(values.values()))]
    return 0.0 if np.ptp(ranks[1]) == 0 else float(np.corrcoef(*ranks)[0, 1])
