"""How well a score tells two groups apart: ROC curve, area under it, and the best threshold.

A detector says yes to a score of at least its threshold. With P scores where yes is right and N where no is right,

    true-positive rate(t)  = share of P with score >= t        false-positive rate(t) = share of N with score >= t
    area under the curve   = P(score of P > score of N) + 1/2 P(equal)      over all pairs (Mann and Whitney, 1947)
    J(t)                   = true-positive rate(t) - false-positive rate(t)                       (Youden, 1950)

Scores may be infinite and must not be nan: the caller decides what a missing reading means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

Positive = Float[np.ndarray, " positive"]
Negative = Float[np.ndarray, " negative"]


class Roc(NamedTuple):
    """Rates at every threshold that matters, from the strictest (nothing passes) to the laxest (all pass).

    Attributes:
        false_positive, true_positive: ``[point]``, in [0, 1], not falling.
        threshold: ``[point]``, falling; the first is ``inf`` and stands for a threshold above every score.
    """

    false_positive: Float[np.ndarray, " point"]
    true_positive: Float[np.ndarray, " point"]
    threshold: Float[np.ndarray, " point"]


def roc(positive: Positive, negative: Negative) -> Roc:
    """The ROC curve of two groups of scores; a rate is nan where its group is empty.

    >>> curve = roc(np.array([3.0, 2.0]), np.array([2.0, 1.0]))
    >>> curve.false_positive.tolist(), curve.true_positive.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    thresholds = np.unique(np.concatenate([positive, negative]))[::-1]
    false, true = (np.concatenate([[0.0], _share_at_least(scores, thresholds)]) for scores in (negative, positive))
    return Roc(false, true, np.concatenate([[np.inf], thresholds]))


def area_under_curve(positive: Positive, negative: Negative) -> float:
    """Chance that a positive scores above a negative, ties counting half: 1 apart, .5 no information; nan if empty.

    >>> area_under_curve(np.array([3.0, 2.0]), np.array([2.0, 1.0]))
    0.875
    """
    n, m = len(positive), len(negative)
    if not n or not m:
        return float("nan")
    ranks = rankdata(np.concatenate([positive, negative]))[:n]
    return float((ranks.sum() - n * (n + 1) / 2) / (n * m))


def best_threshold(positive: Positive, negative: Negative) -> float:
    """The threshold with the largest J, halfway between the lowest score that passes and the next one below.

    Of several with the same J it is the strictest. Where a neighbour is infinite the threshold is the other one;
    nan where a group is empty.

    >>> best_threshold(np.array([3.0, 2.0]), np.array([0.0, 1.0]))
    1.5
    """
    if not len(positive) or not len(negative):
        return float("nan")
    curve = roc(positive, negative)
    best = int(np.argmax(curve.true_positive - curve.false_positive))
    lowest = curve.threshold[best]
    below = curve.threshold[best + 1] if best + 1 < len(curve.threshold) else lowest
    ends = [float(end) for end in (lowest, below) if np.isfinite(end)]
    return sum(ends) / len(ends) if ends else float(lowest)


def _share_at_least(
    scores: Float[np.ndarray, " score"], thresholds: Float[np.ndarray, " point"]
) -> Float[np.ndarray, " point"]:
    if not len(scores):
        return np.full(len(thresholds), np.nan)
    return 1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
