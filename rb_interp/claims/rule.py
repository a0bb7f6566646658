"""The rule that turns seeds into HOLDS, FAILS or OPEN; `judging` says NOT JUDGED where no further seed could decide.

A seed meets a claim or it does not. Of n seeds, taken in ascending order, k meet it, and pi is the share of all seeds
of this configuration that would. The evidence against "at most half of them do" and against "at least half do" is

    E+ = 2 * integral over p in [1/2, 1] of p^k (1 - p)^(n - k) dp / (1/2)^n
    E- = 2 * integral over p in [0, 1/2] of p^k (1 - p)^(n - k) dp / (1/2)^n

Both are likelihood ratios averaged over p, so each is a martingale of mean 1 at pi = 1/2. By Ville's inequality either
ever reaches 40 with probability 1/40 at most, however often one looks and whenever one stops adding seeds.

HOLDS: E+ has reached 40 after some seed. FAILS: E- has. OPEN: neither has. The first to reach it decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from rb_interp.claims.criterion import Condition
from rb_interp.claims.verdict import Outcome, Verdict
from rb_interp.statistics.intervals import Interval, proportion_interval
from rb_interp.typed import typed

__all__ = [
    "Finding",
    "decide",
    "decide_interval",
    "decide_share",
    "evidence",
    "expected_by_chance",
    "outcome_probabilities",
]

ENOUGH = 40.0
"""The evidence that decides."""
FEWEST = 8
"""Seeds that can decide, where they all agree: 8 give 56.9 and 7 give 31.9."""


@dataclass(frozen=True)
class Finding:
    """The outcome and the count it rests on.

    Attributes:
        n_seeds, n_meeting: seeds, and those that meet the claim.
        share: of seeds that meet it, with the Clopper-Pearson interval.
        decided_after: number of seeds after which it was decided; None where it was not.
        reason: why nothing was decided.
    """

    outcome: Outcome
    n_seeds: int
    n_meeting: int
    share: Interval
    decided_after: int | None = None
    reason: str = ""


@cache
def evidence(n_meeting: int, n_seeds: int) -> tuple[float, float]:
    """Evidence for a claim and against it, E+ and E-, after ``n_seeds`` seeds of which ``n_meeting`` meet it.

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
    n, k = len(met), sum(met)
    share = proportion_interval(k, n)
    for seeds in range(1, n + 1):
        for outcome, found in zip(("HOLDS", "FAILS"), evidence(sum(met[:seeds]), seeds), strict=True):
            if found >= ENOUGH:
                return Finding(outcome, n, k, share, seeds)
    if n < FEWEST:
        return Finding("OPEN", n, k, share, reason=f"seeds: {n}, needed: {FEWEST}")
    reason = f"the evidence is {max(evidence(k, n)):.1f} after {n} seeds, needed: {ENOUGH:g}"
    return Finding("OPEN", n, k, share, reason=reason)


@cache
def outcome_probabilities(share: float, n_seeds: int) -> tuple[float, float]:
    """How often a claim that a share of seeds meets is decided within ``n_seeds`` seeds: HOLDS, and FAILS. Exact.

    >>> [round(p, 5) for p in outcome_probabilities(0.5, 8)]
    [0.00391, 0.00391]
    >>> round(outcome_probabilities(0.95, 20)[0], 3)
    0.989
    """
    open_paths, holds, fails = {0: 1.0}, 0.0, 0.0  # number that meet -> probability of being here, undecided
    for n in range(1, n_seeds + 1):
        arriving: dict[int, float] = {}
        for k, p in open_paths.items():
            arriving[k + 1] = arriving.get(k + 1, 0.0) + p * share
            arriving[k] = arriving.get(k, 0.0) + p * (1 - share)
        open_paths = {}
        for k, p in arriving.items():
            for_it, against = evidence(k, n)
            if for_it >= ENOUGH:
                holds += p
            elif against >= ENOUGH:
                fails += p
            else:
                open_paths[k] = p
    return holds, fails


def decide_share(
    condition: Condition, values: Sequence[float] | np.ndarray, minus: Sequence[float] | np.ndarray | None = None
) -> tuple[Outcome, Interval]:
    """Judge the share of units whose value is 1, or its excess over the share in ``minus``.

    For claims about a share of independent units, such as fresh initialisations, with a threshold of its own. A share
    stands against its threshold with its whole Clopper-Pearson interval. Two shares are compared as they are, and FAILS
    only where their intervals are disjoint on the other side; the interval then bounds the difference by those two.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("lemma_1", "within_0.05", 0.8, "init"), ">=", 0.95)
    >>> [decide_share(condition, [1.0] * k + [0.0] * (200 - k))[0] for k in (200, 190, 175)]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    share, *base = (proportion_interval(sum(x == 1 for x in of), len(of)) for of in (values, minus) if of is not None)
    if not base:
        return decide_interval(condition, share), share
    ((mean, low, high),) = base
    interval = Interval(share.estimate - mean, share.low - high, share.high - low)
    beyond = decide_interval(condition, interval) == "FAILS"
    return "HOLDS" if condition.met(interval.estimate) else "FAILS" if beyond else "OPEN", interval


def decide_interval(condition: Condition, interval: Interval) -> Outcome:
    """Judge one number by its own interval, which has to lie on one side of the threshold as a whole.

    OPEN where an end is NaN.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("flow_match", "other_flow", None, "final"), "<=", 0.1)
    >>> [decide_interval(condition, Interval(*x)) for x in ((0.05, 0.0, 0.1), (0.05, 0.0, 0.2), (0.2, 0.11, 0.3))]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    met = {condition.met(end) for end in (interval.low, interval.high)}
    undecided = len(met) > 1 or np.isnan(interval.low) or np.isnan(interval.high)
    return "OPEN" if undecided else "HOLDS" if met == {True} else "FAILS"


def joined(outcomes: Sequence[str]) -> Outcome:
    """The outcome of all of several: FAILS where one fails, HOLDS where all hold."""
    return "FAILS" if "FAILS" in outcomes else "HOLDS" if {*outcomes} <= {"HOLDS"} else "OPEN"


class Chance(NamedTuple):
    """How many verdicts chance alone would give."""

    holds: float
    fails: float


@typed
def expected_by_chance(verdicts: Iterable[Verdict]) -> Chance:
    """How many of the verdicts of `judge` would be HOLDS, and FAILS, if half of all seeds met each claim.

    Exact for the numbers of seeds that the claims have, and 1/40 a claim at most for any number. A claim about a share
    counts .025 for HOLDS and for each condition .025 for FAILS, which Clopper-Pearson's interval guarantees where the
    share equals its threshold; so does one about a number with an interval, whose ends err as rarely. Verdicts that are
    withheld count nothing.
    """
    chances = [
        outcome_probabilities(0.5, verdict.n_decisive)
        if verdict.unit == "seed"
        else (0.025, 0.025 * len(verdict.conditions))
        for verdict in verdicts
        if not verdict.withheld
    ]
    return Chance(*(sum((chance[side] for chance in chances), 0.0) for side in (0, 1)))
