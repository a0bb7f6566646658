"""Decisive tokens: is the object that is read learned before the object that is remembered?

From learning curves of single tokens. L is the mean cross entropy in nats on held-out rows:

    rule    objects of rule sentences in chains of two steps or more, which stand in a rule of the
            prompt and not in the query; baseline ln(different rules of the prompt), the loss of
            copying any object of the prompt
    fact    objects of facts, whose rule stands in no prompt; baseline ln(number of classes)

    p(t)     = max(0, 1 - L(t) / baseline)                        share of what there is to learn, [0, 1]
    t_p      = first evaluation with p(t) >= p, interpolated in log step; the
               first after step 0 as it is
    ratio_P  = log2(t_p of facts / t_p of rules), p = P %; positive: the rule is learned first

A member that never gets to p has its last step as a lower bound of t_p. So a ratio has two ends,
``ratio_P_low`` and ``ratio_P_high``, which are equal where both tokens are learned; an end that
nothing bounds is -64 or 64. t_rule_P and t_fact_P are the steps, or the bound.

    same_sign  1 if ratio_50 at gamma .8 less that at .3 has one sign at every number of facts, else 0

Where some rows are trained again and again (``repeated``, the loss of rules on these rows):

    gap_LEVEL   rule - repeated in nats, mean over the first five evaluations in a row whose mean of
                repeated is at most the level (``statistics.equal_loss``); nan if there are none

How it can mislead. How soon a table is learned depends on how many facts it has, and on how often
each is seen: one ratio says little, differences of ratios between members on the same rows more. A
plateau at p = 0 is a copy of any object, no reasoning. Steps are compared, so the learning rate
plays a part in each t_p, less in their ratio. A member that reads rules has a gap near 0, and a
member that remembers rows a large one. A member that does neither has none, and its seed does not
count.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.equal_loss import first_window
from rb_interp.statistics.learning_order import (
    Curve,
    by_set,
    losses_and_accuracies,
    readings_of_curves,
)
from rb_interp.statistics.reading import Reading

__all__ = [
    "LEVELS",
    "NO_BOUND",
    "SHARES",
    "decisive_table",
    "decisive_tokens",
    "same_sign",
    "time_to",
]

SHARES = (0.3, 0.5, 0.7)
LEVELS = (1.0, 0.6)
"""Losses of rules on repeated rows at which gaps are read, in nats; from seed 200."""
NO_BOUND = 64.0
"""An end of a ratio that nothing bounds; no training has 2^64 steps."""


def time_to(
    losses: Curve, steps: Int[np.ndarray, " evaluation"], baseline: float, share: float
) -> tuple[float, bool]:
    """The step at which p reaches a share, and True; the last step and False if it never does.

    >>> losses, steps = np.array([2.0, 2.0, 1.5, 0.5]), np.array([0, 10, 20, 40])
    >>> round(time_to(losses, steps, 2.0, 0.5)[0], 6), time_to(losses, steps, 2.0, 0.9)
    (28.284271, (40.0, False))
    """
    learned = np.maximum(0.0, 1 - np.asarray(losses, dtype=np.float64) / baseline)
    reached = learned >= share
    if not reached.any():
        return float(steps[-1]), False
    last = int(reached.argmax())
    first = max(0, last - 1)
    if steps[first] == 0:
        return float(max(1, steps[last])), True
    log_steps = np.log2(steps[[first, last]])
    log_step = np.interp(share, learned[[first, last]], log_steps)
    return float(2**log_step), True


def decisive_tokens(
    rule: Curve,
    fact: Curve,
    steps: Int[np.ndarray, " evaluation"],
    baselines: tuple[float, float],
    repeated: Curve | None = None,
) -> Reading:
    """Read one member's ratios from its curves of rules and facts, and their baselines in nats; and
    its gaps, from the curve of rules on rows that are trained again and again.

    The untrained model never learns either. ``n`` is the number of evaluations.
    """
    values = _values(rule, fact, steps, baselines)
    untrained = _values(rule[:1], fact[:1], steps[-1:], baselines)
    if repeated is not None:
        for level in LEVELS:
            window = first_window(repeated, level)
            gap = float((rule - repeated)[window].mean()) if window else math.nan
            values[f"gap_{level:g}"] = gap
            untrained[f"gap_{level:g}"] = math.nan
    return Reading("decisive", values, untrained=untrained, n=len(steps))


def _values(
    rule: Curve, fact: Curve, steps: Int[np.ndarray, " evaluation"], baselines: tuple[float, float]
) -> dict[str, float]:
    values = {}
    for share in SHARES:
        name = f"{100 * share:.0f}"
        t_rule, rule_learned = time_to(rule, steps, baselines[0], share)
        t_fact, fact_learned = time_to(fact, steps, baselines[1], share)
        ratio = math.log2(t_fact / t_rule)
        values[f"ratio_{name}_low"] = ratio if rule_learned else -NO_BOUND
        values[f"ratio_{name}_high"] = ratio if fact_learned else NO_BOUND
        values[f"t_rule_{name}"] = t_rule
        values[f"t_fact_{name}"] = t_fact
    return values


def decisive_table(
    curves: pd.DataFrame, baselines: Mapping[int, tuple[float, float]]
) -> pd.DataFrame:
    """Readings table of every member in a curves table, see `readings_of_curves`; baselines by
    seed."""

    def read(member: pd.DataFrame, seed: int) -> Reading:
        sets = by_set(member)
        losses, _ = losses_and_accuracies(sets)
        steps = sets["rule"]["step"].to_numpy()
        repeated = losses.get("repeated")
        return decisive_tokens(losses["rule"], losses["fact"], steps, baselines[seed], repeated)

    return readings_of_curves(curves, read)


def same_sign(tables: Sequence[pd.DataFrame]) -> dict[int, float]:
    """Seed -> ``same_sign``, of one `decisive_table` a number of facts; seeds that all have."""
    signs = []
    for table in tables:
        ends = table.pivot_table("value", ["seed"], ["gamma", "quantity"])
        low = (ends[SMALL, "ratio_50_low"] - ends[LARGE, "ratio_50_high"]).dropna()
        high = (ends[SMALL, "ratio_50_high"] - ends[LARGE, "ratio_50_low"]).dropna()
        signs.append((low > 0).astype(int) - (high < 0).astype(int))
    by_seed = pd.concat(signs, axis=1, join="inner")
    return {
        int(seed): float(abs(sum(row)) == len(row))
        for seed, row in zip(by_seed.index, by_seed.to_numpy(), strict=True)
    }
