"""Verdicts within groups of seeds are those of a run that has the seeds of the group alone."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import Claim, Condition, Grouping, Term, Within, judge, judge_within
from rb_interp.runs.measurement import VERDICT_FILES
from rb_interp.statistics.intervals import proportion_interval

KEY, MEMORY = (Term("p", name, 0.8, "final", label=name) for name in ("key", "memory"))
CLAIM = Claim("X", "It looks at the key.", "here", (Condition(KEY, ">=", 0.9),))
GATED = Claim("Y", "Where it knows.", "here", CLAIM.conditions, gate=Condition(MEMORY, ">=", 0.5))
NAMES = (
    dict.fromkeys(range(0, 18, 2), "average")
    | dict.fromkeys(range(1, 15, 2), "carried")
    | {17: "mixed"}
)
"""9, 7 and 1 seeds; seed 15 is in no group."""


@pytest.fixture(scope="module")
def readings() -> pd.DataFrame:
    rng, rows = np.random.default_rng(0), []
    for seed in range(18):
        level = {"average": 0.95, "carried": 0.05}.get(NAMES.get(seed, ""), 0.5)
        for term, value in (
            (KEY, level + rng.uniform(-0.04, 0.04)),
            (MEMORY, float(seed % 4 == 0)),
        ):
            place = {
                "gamma": 0.8,
                "seed": seed,
                "stage": "final",
                "set": "",
                "probe": "p",
                "layer": np.nan,
            }
            rows.append({**place, "quantity": term.quantity, "value": value, "untrained": 0.2})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def within(readings) -> Within:
    return judge_within(
        readings, Grouping("circuit", NAMES, (CLAIM, GATED)), diverged=[("", 0.8, 15)]
    )


def test_each_group_is_judged_as_a_run_of_its_seeds_alone(readings, within):
    assert [(group.name, len(group.seeds)) for group in within.groups] == [
        ("average", 9),
        ("carried", 7),
        ("mixed", 1),
    ]
    for group in within.groups:
        assert group.seeds == tuple(
            sorted(seed for seed, name in NAMES.items() if name == group.name)
        )
        assert group.verdicts == judge(readings[readings["seed"].isin(group.seeds)], (CLAIM, GATED))
        assert group.share == proportion_interval(len(group.seeds), group.total)
        assert group.total == 17
    found = [
        (v.outcome, v.n_meeting, v.n_seeds)
        for v in (group.verdicts["X"] for group in within.groups)
    ]
    assert found == [("HOLDS", 9, 9), ("OPEN", 0, 7), ("OPEN", 0, 1)]  # seven never decide
    assert judge(readings, [CLAIM])["X"].outcome == "OPEN"  # a mixture says nothing
    assert [group.verdicts["Y"].n_seeds for group in within.groups] == [5, 0, 0]
    assert (
        within.groups[1].verdicts["Y"].reason
        == "not learned: memory >= 0.5 in 0 of 7 seeds; seeds: 0, needed: 8"
    )


def test_a_member_that_diverged_counts_in_its_own_group(readings):
    lost = judge_within(readings, Grouping("circuit", NAMES, (CLAIM,)), diverged=[("", 0.8, 3)])
    assert [group.verdicts["X"].met.count(False) for group in lost.groups] == [0, 7, 1]
    assert ["diverged" in group.verdicts["X"].reason for group in lost.groups] == [
        False,
        True,
        False,
    ]


def test_they_are_plain_data_and_come_back(within):
    kept = VERDICT_FILES["verdicts_within.json"]
    assert (
        kept.validate_json(json.dumps(kept.dump_python(within, mode="json"), allow_nan=False))
        == within
    )
    assert judge_within(pd.DataFrame({"seed": []}), Grouping("circuit", {}, (CLAIM,))).groups == ()
