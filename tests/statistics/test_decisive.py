"""Times and ratios by hand, what bounds leave open, and how claims count it."""

import math

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import judge
from rb_interp.statistics.decisive import (
    LEVELS,
    NO_BOUND,
    decisive_table,
    decisive_tokens,
    same_sign,
    time_to,
)
from rb_interp.studies.language.config import REASONING_CLAIMS

STEPS = np.array([0, 10, 20, 40, 80])
BASELINES = (2.0, 4.0)
NEVER = [2.0] * 5


def falls(at: int, baseline: float = 2.0) -> list[float]:
    """A curve that is at its baseline before a step of STEPS, and at 0 from there on."""
    return [0.0 if step >= at else baseline for step in STEPS]


def test_times_are_interpolated_in_log_step_and_never_below_the_floor():
    # half of the way from 20 to 40, in logarithms
    assert time_to(np.array([3.0, 2.0, 1.5, 0.5, 0.5]), STEPS, 2.0, 0.5) == (
        pytest.approx(20 * math.sqrt(2)),
        True,
    )
    # above the baseline is nothing learned: half of the way from 0, not from -1
    assert time_to(np.array([4.0, 4.0, 0.0, 0.0, 0.0]), STEPS, 2.0, 0.5)[0] == pytest.approx(
        10 * math.sqrt(2)
    )
    assert time_to(np.array(NEVER), STEPS, 2.0, 0.3) == (80.0, False)
    assert time_to(np.array([0.0] * 5), STEPS, 2.0, 0.3)[0] == 1.0
    # when between step 0 and the first evaluation is not known
    assert time_to(np.array([2.0, 0.0, 0.0, 0.0, 0.0]), STEPS, 2.0, 0.3) == (STEPS[1], True)


def test_ends_of_ratios_say_what_a_bound_leaves_open():
    def ends(rule, fact):
        reading = decisive_tokens(np.array(rule), np.array(fact), STEPS, BASELINES)
        return reading.values["ratio_50_low"], reading.values["ratio_50_high"]

    fact = falls(80, 4.0)
    assert ends(falls(20), fact) == pytest.approx((2.0, 2.0))
    never = [4.0] * 5
    assert ends(falls(20), never) == pytest.approx((math.log2(80 / math.sqrt(200)), NO_BOUND))
    assert ends(NEVER, fact) == pytest.approx((-NO_BOUND, math.log2(math.sqrt(3200) / 80)))
    assert ends(NEVER, never) == (-NO_BOUND, NO_BOUND)


def test_gaps_are_read_where_repeated_rows_are_learned_equally_far():
    falling = np.linspace(2.0, 0.0, 21)  # two windows: the first five whose mean is a level
    rule = np.full(21, 2.5)
    given = rule, rule, np.arange(21), BASELINES
    reading = decisive_tokens(*given, repeated=falling)
    for level in LEVELS:
        assert reading.values[f"gap_{level:g}"] == pytest.approx(2.5 - level)
        assert math.isnan(reading.untrained[f"gap_{level:g}"])
    late = decisive_tokens(*given, repeated=np.maximum(falling, LEVELS[0])).values
    assert late[f"gap_{LEVELS[0]:g}"] > 0
    assert math.isnan(late[f"gap_{LEVELS[1]:g}"])
    assert "gap_" not in "".join(decisive_tokens(*given).values)


def test_a_seed_meets_g5_where_the_gap_is_smaller_at_small_initialisation_at_both_levels():
    rows = []
    gaps = {(0, 0.3): (2, 2), (0, 0.8): (1, 1), (1, 0.3): (1, 2), (1, 0.8): (2, 1)}
    for (seed, gamma), of_member in gaps.items():
        place = {"seed": seed, "gamma": gamma, "probe": "decisive", "untrained": math.nan}
        for level, gap in zip(LEVELS, of_member, strict=True):
            rows.append({**place, "quantity": f"gap_{level:g}", "value": float(gap)})
    for seed in (0, 1):
        best = {"probe": "reasoning", "quantity": "most_chain_2", "value": 1.0}
        rows.append({"seed": seed, "gamma": math.nan, "untrained": 0.0, **best})
    readings = pd.DataFrame(rows).assign(stage="final", set="", layer=math.nan)
    [g5] = judge(readings, [claim for claim in REASONING_CLAIMS if claim.id == "G5"])
    assert (g5.n_meeting, g5.n_seeds) == (1, 2)


def curves(*members: tuple[int, float, list[float], list[float]]) -> pd.DataFrame:
    rows = []
    for seed, gamma, rule, fact in members:
        for step, *losses in zip(STEPS.tolist(), rule, fact, strict=True):
            for kind, loss in zip(("rule", "fact"), losses, strict=True):
                rows.append({"gamma": gamma, "seed": seed, "step": step, "set": kind, "loss": loss})
    return pd.DataFrame(rows).assign(accuracy=0.0)


def test_a_seed_whose_sign_is_open_does_not_meet_and_signs_are_compared_over_tables():
    late, soon, never = falls(80, 4.0), falls(20, 4.0), [4.0] * 5
    members = [
        *(
            (0, 0.3, falls(20), soon),
            (0, 0.5, falls(20), falls(40, 4.0)),
            (0, 0.8, falls(20), late),
        ),
        # facts are never learned at .8: the ratio there is known from below, which is enough
        *(
            (1, 0.3, falls(20), soon),
            (1, 0.5, falls(20), falls(40, 4.0)),
            (1, 0.8, falls(20), never),
        ),
        # facts are never learned at .3: the ratio there may be any above
        *((2, 0.3, falls(80), never), (2, 0.5, falls(20), soon), (2, 0.8, falls(20), late)),
    ]
    baselines = dict.fromkeys(range(3), BASELINES)
    table = decisive_table(curves(*members), baselines)
    best = [
        {**table.iloc[0], "seed": seed, "gamma": np.nan, "probe": "reasoning", "value": 1.0}
        for seed in range(3)
    ]
    chains = pd.DataFrame([{**row, "quantity": "most_chain_2"} for row in best])
    claims = {claim.id: claim for claim in REASONING_CLAIMS}
    verdicts = judge(pd.concat([table, chains]), [claims["G4"], claims["G8"]])
    assert [(v.n_meeting, v.n_seeds) for v in verdicts] == [(2, 3), (2, 3)]
    reverse = [(0, 0.3, falls(20), late), (0, 0.8, falls(20), soon)]
    other = decisive_table(curves(*reverse), baselines)
    assert same_sign([table, table]) == {0: 1.0, 1: 1.0, 2: 0.0}
    assert same_sign([table, other]) == {0: 0.0}
    assert same_sign([other, other, other]) == {0: 1.0}
    lacks = table[(table["gamma"] != 0.8) | (table["seed"] != 0)]
    assert same_sign([table, lacks]) == {1: 1.0, 2: 0.0}
