"""The rule that turns numbers per seed into HOLDS, FAILS or UNDECIDED.

HOLDS: the whole 95 % interval is on the claimed side and at least 80 % of the seeds meet the criterion themselves.
FAILS: the whole interval is on the other side and at most 20 % meet it. Otherwise, or below 5 seeds, UNDECIDED.
Circuits are bimodal over seeds, so the mean alone does not decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rb_interp.claims.criterion import Condition
from rb_interp.statistics.intervals import Interval, proportion_interval, t_interval

Outcome = Literal["HOLDS", "FAILS", "UNDECIDED"]
MIN_SEEDS = 5
MOST, FEW = 0.8, 0.2


@dataclass(frozen=True)
class Finding:
    """The outcome for one condition and the numbers it rests on; ``reason`` says why nothing was decided."""

    outcome: Outcome
    interval: Interval
    n_seeds: int
    n_meeting: int
    reason: str = ""


def decide(condition: Condition, values: Sequence[float] | np.ndarray) -> Finding:
    """Judge one statistic by its mean over seeds; values that are not finite do not count as seeds.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("learning_order", "bias", 0.8, "final"), ">=", 0.1)
    >>> decide(condition, [0.2, 0.3, 0.25, 0.2, 0.3]).outcome
    'HOLDS'
    >>> decide(condition, [0.2, 0.3, 0.25, 0.2]).reason
    'seeds: 4, needed: 5'
    """
    x = [value for value in values if np.isfinite(value)]
    n, meeting, interval = len(x), sum(map(condition.met, x)), t_interval(x)
    low_met, high_met = condition.met(interval.low), condition.met(interval.high)
    if n < MIN_SEEDS:
        return _too_few(interval, n, meeting)
    if low_met != high_met:
        return Finding("UNDECIDED", interval, n, meeting, f"the interval contains {condition.threshold:g}")
    if low_met and meeting / n >= MOST:
        return Finding("HOLDS", interval, n, meeting)
    if not low_met and meeting / n <= FEW:
        return Finding("FAILS", interval, n, meeting)
    side = "claimed" if low_met else "other"
    reason = f"the interval is on the {side} side, but {meeting} of {n} meet the criterion"
    return Finding("UNDECIDED", interval, n, meeting, reason)


def decide_share(
    condition: Condition, values: Sequence[float] | np.ndarray, minus: Sequence[float] | np.ndarray | None = None
) -> Finding:
    """Judge the share of units whose value is 1, or its excess over the share in ``minus``.

    A share stands against its threshold with its whole Clopper-Pearson interval; units are 0 or 1 themselves, so
    there is no second count of those that meet it. Two shares are compared as they are, and FAILS only where
    their intervals are disjoint on the other side; ``low`` and ``high`` then bound the difference by those intervals.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("lemma_1", "within_0.05", 0.8, "init"), ">=", 0.95)
    >>> [decide_share(condition, [1.0] * k + [0.0] * (200 - k)).outcome for k in (200, 190, 175)]
    ['HOLDS', 'UNDECIDED', 'FAILS']
    """
    share = _share(values)
    if minus is None:
        interval, holds, meeting = share, condition.met(share.low), sum(value == 1 for value in values)
    else:
        base = _share(minus)
        interval = Interval(share.estimate - base.estimate, share.low - base.high, share.high - base.low)
        holds = condition.met(interval.estimate)
        meeting = sum(condition.met(a - b) for a, b in zip(values, minus, strict=True))
    if len(values) < MIN_SEEDS:
        return _too_few(interval, len(values), meeting)
    if holds:
        return Finding("HOLDS", interval, len(values), meeting)
    if not condition.met(interval.high):
        return Finding("FAILS", interval, len(values), meeting)
    return Finding("UNDECIDED", interval, len(values), meeting, f"the interval contains {condition.threshold:g}")


def deciding(findings: Sequence[Finding]) -> int:
    """Index of the condition that decides: the first that fails, else the first that is undecided, else the first."""
    outcomes = [finding.outcome for finding in findings]
    return next((outcomes.index(outcome) for outcome in ("FAILS", "UNDECIDED") if outcome in outcomes), 0)


def _share(values: Sequence[float] | np.ndarray) -> Interval:
    return proportion_interval(sum(value == 1 for value in values), len(values))


def _too_few(interval: Interval, n: int, meeting: int) -> Finding:
    return Finding("UNDECIDED", interval, n, meeting, f"seeds: {n}, needed: {MIN_SEEDS}")
