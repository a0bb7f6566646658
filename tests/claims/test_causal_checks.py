"""Causal checks on planted effects: the verdict is the rule's, the cells are medians over seeds at
the right stage."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import judge_checks
from rb_interp.runs.measurement import JUDGED
from rb_interp.studies.anchor.checks import CHECKS
from rb_interp.studies.anchor.config import AnchorConfig

SEEDS = range(8)


def planted(effect=0.5, control=0.1, gammas=(0.3, 0.8)):
    """Effects and readings of ``without_reasoning``: the untrained at 0, seeds .01 apart."""
    effects, readings = [], []
    for gamma in gammas:
        for seed in SEEDS:
            for stage, size in (
                ("init", 0.0),
                ("half" if gamma == 0.8 else "matched", effect + 0.01 * seed),
            ):
                row = {"gamma": gamma, "seed": seed, "stage": stage, "step": 10, "set": "rsn_train"}
                effects.append(
                    {
                        **row,
                        "intervention": "without_reasoning",
                        "quantity": "loss_increase",
                        "effect": size,
                        "control": control,
                        "difference": size - control,
                    }
                )
                for quantity in ("effect", "control", "difference"):
                    readings.append(
                        {
                            **row,
                            "probe": "without_reasoning",
                            "layer": np.nan,
                            "head": np.nan,
                            "quantity": quantity,
                            "value": effects[-1][quantity],
                            "untrained": np.nan,
                            "n": 300,
                        }
                    )
    return pd.DataFrame(readings), pd.DataFrame(effects)


def judge(**sizes):
    return judge_checks(*planted(**sizes), CHECKS, sibling_stages=AnchorConfig.sibling_stages)


def found(of, **sizes):
    return next(cause for cause in judge(**sizes) if cause.of == of)


@pytest.mark.parametrize(("effect", "verdict"), [(0.5, "HOLDS"), (0.2, "FAILS"), (0.28, "OPEN")])
def test_the_rule_is_the_claims_own(effect, verdict):
    m4 = found("M4", effect=effect)  # difference >= .20; seeds are .01 apart
    assert m4.verdict.outcome == verdict
    assert m4.verdict.effect == pytest.approx(effect + 0.035 - 0.1)
    assert (m4.verdict.n_seeds, m4.quantity) == (8, "loss_increase")


def test_cells_are_medians_over_seeds_at_the_stage_of_each_gamma():
    large, small = found("M4").by_gamma
    assert (large["gamma"], large["stage"], small["gamma"], small["stage"]) == (
        0.3,
        "matched",
        0.8,
        "half",
    )
    assert (small["effect"], small["low"], small["high"]) == pytest.approx((0.535, 0.5, 0.57))
    assert (small["control"], small["control_low"], small["n_seeds"]) == (0.1, 0.1, 8)


def test_every_mechanism_is_there_and_what_was_not_measured_says_so():
    causes = judge()
    kept = JUDGED["checks.json"]
    assert (
        kept.validate_json(json.dumps(kept.dump_python(causes, mode="json"), allow_nan=False))
        == causes
    )
    assert [cause.of for cause in causes] == [cause.of for cause in CHECKS]
    missing = next(cause for cause in causes if cause.of == "M7")
    assert (missing.verdict.outcome, missing.by_gamma) == ("NOT JUDGED", ())
    assert "no reading of key_blocked/difference at gamma 0.8" in missing.verdict.reason
