"""The rule that turns seeds into HOLDS, FAILS or OPEN, and the claims that it judges; `judging`
adds NOT JUDGED.

A seed meets a claim or it does not. Of n seeds, taken in ascending order, k meet it, and pi is the
share of all seeds of this configuration that would. The evidence against "at most half of them do"
and against "at least half do" is

    E+ = 2 * integral over p in [1/2, 1] of p^k (1 - p)^(n - k) dp / (1/2)^n
    E- = 2 * integral over p in [0, 1/2] of p^k (1 - p)^(n - k) dp / (1/2)^n

Both are likelihood ratios averaged over p, so each is a martingale of mean 1 at pi = 1/2. By
Ville's inequality either ever reaches 40 with probability 1/40 at most, however often one looks and
whenever one stops adding seeds.

HOLDS: E+ has reached 40 after some seed. FAILS: E- has. OPEN: neither has. The first to reach it
decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy import special

from rb_interp.arguments import checked
from rb_interp.claims.claim import Condition
from rb_interp.statistics.intervals import Interval, proportion_interval

__all__ = [
    "Finding",
    "decide",
    "decide_interval",
    "decide_share",
    "evidence",
    "outcome_probabilities",
]

Outcome = Literal["HOLDS", "FAILS", "OPEN", "NOT JUDGED"]
"""OPEN: the seeds disagree, or are too few. NOT JUDGED: something else than seeds is missing; the
reason says what."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ENOUGH = 40.0
"""The evidence that decides."""
MIN_SEEDS = 8
"""Seeds that can decide, where they all agree: 8 give 56.8 and 7 give 31.9."""


class Finding(NamedTuple):
    """The outcome, the number of seeds after which it was decided (None: it was not), and why
    nothing was decided."""

    outcome: Outcome
    decided_after: int | None = None
    reason: str = ""


@cache
def evidence(n_meeting: int, n_seeds: int) -> tuple[float, float]:
    """Evidence for a claim and against it, E+ and E-, after ``n_seeds`` seeds of which
    ``n_meeting`` meet it.

    >>> [round(evidence(n, n)[0], 1) for n in (0, 7, 8)]
    [1.0, 31.9, 56.8]
    >>> evidence(1, 8) == evidence(7, 8)[::-1]
    True
    """
    a, b = n_meeting + 1, n_seeds - n_meeting + 1
    scale = np.exp(special.betaln(a, b) + (n_seeds + 1) * np.log(2))
    return float(scale * special.betainc(b, a, 0.5)), float(scale * special.betainc(a, b, 0.5))


def decide(met: Sequence[bool]) -> Finding:
    """Judge a claim by which seeds meet it, in ascending order of seeds.

    >>> decide([True] * 8).outcome, decide([False] * 8).outcome
    ('HOLDS', 'FAILS')
    >>> decide([True] * 7).reason
    'seeds: 7, needed: 8'
    >>> decide([True] * 7 + [False]).reason
    'the evidence is 7.0 after 8 seeds, needed: 40'
    >>> decide([True] * 8 + [False] * 4).outcome  # once decided, a verdict stands
    'HOLDS'
    """
    n_seeds = len(met)
    for n in range(1, n_seeds + 1):
        in_favour, against = evidence(sum(met[:n]), n)
        if in_favour >= ENOUGH:
            return Finding("HOLDS", n)
        if against >= ENOUGH:
            return Finding("FAILS", n)
    if n_seeds < MIN_SEEDS:
        return Finding("OPEN", reason=f"seeds: {n_seeds}, needed: {MIN_SEEDS}")
    strongest = max(evidence(sum(met), n_seeds))
    reason = f"the evidence is {strongest:.1f} after {n_seeds} seeds, needed: {ENOUGH:g}"
    return Finding("OPEN", reason=reason)


@cache
def outcome_probabilities(share: float, n_seeds: int) -> tuple[float, float]:
    """How often a claim that a share of seeds meets is decided within ``n_seeds`` seeds: HOLDS, and
    FAILS. Exact.

    >>> [round(p, 5) for p in outcome_probabilities(0.5, 8)]
    [0.00391, 0.00391]
    >>> round(outcome_probabilities(0.95, 20)[0], 3)
    0.989
    """
    open_paths = {0: 1.0}  # number that meet it -> probability of being there undecided
    holds = 0.0
    fails = 0.0
    for n in range(1, n_seeds + 1):
        arriving: dict[int, float] = defaultdict(float)
        for k, probability in open_paths.items():
            arriving[k + 1] += probability * share
            arriving[k] += probability * (1 - share)
        open_paths = {}
        for k, probability in arriving.items():
            in_favour, against = evidence(k, n)
            if in_favour >= ENOUGH:
                holds += probability
            elif against >= ENOUGH:
                fails += probability
            else:
                open_paths[k] = probability
    return holds, fails


def decide_share(
    condition: Condition,
    values: Sequence[float] | np.ndarray,
    minus: Sequence[float] | np.ndarray | None = None,
) -> tuple[Outcome, Interval]:
    """Judge the share of units whose value is 1, or its excess over the share in ``minus``.

    A share stands against its threshold with its whole Clopper-Pearson interval. Two shares are
    compared as they are, and FAILS only where their intervals are disjoint on the other side.

    >>> from rb_interp.claims.claim import Term
    >>> condition = Condition(Term("lemma_1", "within_0.05", 0.8, "init"), ">=", 0.95)
    >>> [decide_share(condition, [1.0] * k + [0.0] * (200 - k))[0] for k in (200, 190, 175)]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    share = _share_of_ones(values)
    if minus is None:
        return decide_interval(condition, share), share
    base = _share_of_ones(minus)
    estimate = share.estimate - base.estimate
    interval = Interval(estimate, share.low - base.high, share.high - base.low)
    if condition.met(estimate):
        return "HOLDS", interval
    disjoint = decide_interval(condition, interval) == "FAILS"
    return "FAILS" if disjoint else "OPEN", interval


def _share_of_ones(values: Sequence[float] | np.ndarray) -> Interval:
    return proportion_interval(sum(value == 1 for value in values), len(values))


def decide_interval(condition: Condition, interval: Interval) -> Outcome:
    """Judge one number by its own interval, which has to lie on one side of the threshold as a
    whole.

    OPEN where an end is NaN.

    >>> from rb_interp.claims.claim import Term
    >>> condition = Condition(Term("flow_match", "other_flow", None, "final"), "<=", 0.1)
    >>> [decide_interval(condition, Interval(*x)) for x in ((0.05, 0.0, 0.1), (0.05, 0.0, 0.2), (0.2, 0.11, 0.3))]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    low_met = condition.met(interval.low)
    if low_met != condition.met(interval.high) or np.isnan([interval.low, interval.high]).any():
        return "OPEN"
    return "HOLDS" if low_met else "FAILS"


@checked
def expected_by_chance(verdicts: Iterable[Any]) -> tuple[float, float]:
    """How many of the verdicts of `judge` would be HOLDS, and FAILS, if half of all seeds met each
    claim.

    Exact for the seeds that the claims have. A claim about a share or a number with an interval
    counts .025 for HOLDS and for each condition .025 for FAILS, as the ends of one share guarantee; a
    condition without a reading cannot fail, and its claim not hold. Verdicts that are withheld count nothing.
    """
    holds = 0.0
    fails = 0.0
    for verdict in verdicts:
        if verdict.withheld:
            continue
        if verdict.unit == "seed":
            verdict_holds, verdict_fails = outcome_probabilities(0.5, verdict.n_decisive)
        else:
            are_read = [condition.n_seeds > 0 for condition in verdict.conditions]
            verdict_holds, verdict_fails = 0.025 * all(are_read), 0.025 * sum(are_read)
        holds += verdict_holds
        fails += verdict_fails
    return holds, fails
