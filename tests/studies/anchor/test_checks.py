"""What rates do to a verdict, and the tables of rates that come with the package."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from rb_interp.claims import CalibrationStatus, Verdict, expected_by_chance, judge
from rb_interp.models import ModelConfig
from rb_interp.studies.anchor import checks
from rb_interp.studies.anchor.checks import MECHANISM_CLAIMS, calibration, calibration_status
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.config import AnchorConfig

BY_ID = {claim.id: claim for claim in CLAIMS}
HERE = "norm none, 2 layers, learned positions"
OTHER = "norm post, 2 layers, learned positions"


def rated(positive: float, negative: float, detector: str = "M1", **row) -> dict:
    """A row of a table of rates, of 40 models with the mechanism and 30 without; nan: there are
    none."""
    found = {
        "family": HERE,
        "detector": detector,
        "true_positive_rate": positive,
        "false_positive_rate": negative,
    }
    found |= {
        "n_positive": 0 if math.isnan(positive) else 40,
        "n_negative": 0 if math.isnan(negative) else 30,
    }
    found |= {"worst_positive": "weak", "worst_positive_rate": 0.0, "worst_negative": "carrier"}
    met = not (positive < 0.95 or negative > 0.05)
    return found | {"worst_negative_rate": 1.0, "calibrated": met} | row


GOOD, LOUD = rated(1.0, 0.0), rated(1.0, 1 / 3)
OTHER_DETECTOR = rated(1.0, math.nan, detector="M3", source="gauge")


@pytest.fixture
def plant(monkeypatch):
    def put(row: dict, *trained: dict) -> None:
        found, on_trained = pd.DataFrame([row]), pd.DataFrame([OTHER_DETECTOR, *trained])
        monkeypatch.setattr(checks, "shipped_rates", lambda: found)
        monkeypatch.setattr(checks, "shipped_trained_rates", lambda: on_trained)

    return put


def m1(value: float, of_family: str = HERE) -> Verdict:
    term = BY_ID["M1"].conditions[0].of
    row = {
        "gamma": term.gamma,
        "stage": term.stage,
        "set": term.set,
        "probe": term.probe,
        "layer": term.layer,
    }
    readings = pd.DataFrame(
        [
            {**row, "quantity": term.quantity, "seed": s, "value": value, "untrained": 0.0}
            for s in range(8)
        ]
    )
    return judge(readings, [BY_ID["M1"]], standings={"M1": calibration_status("M1", of_family)})[0]


def test_rates_that_are_met_leave_the_verdict_and_say_so(plant):
    plant(GOOD)
    claim = m1(0.05)
    assert (claim.outcome, claim.calibrated, claim.withheld) == ("HOLDS", True, False)
    assert claim.reason == ""
    assert m1(0.5).outcome == "FAILS"


@pytest.mark.parametrize(("value", "numbers_say"), [(0.05, "HOLDS"), (0.5, "FAILS")])
def test_rates_that_are_missed_withhold_the_verdict_and_keep_what_the_numbers_say(
    plant, value, numbers_say
):
    plant(LOUD)
    claim = m1(value)
    assert (claim.outcome, claim.uncalibrated_outcome) == ("NOT JUDGED", numbers_say)
    assert (claim.calibrated, claim.withheld) == (False, True)
    assert claim.conditions[0].outcome == numbers_say
    assert claim.reason == (
        "the probe misleads on hand-written models: true-positive rate 1.00, false-positive rate "
        "0.33 "
        "(worst: carrier, 1.00); needs >= 0.95 and <= 0.05"
    )
    assert expected_by_chance([claim]) == (0, 0)
    assert expected_by_chance([m1(value, OTHER)]) == (2**-8, 2**-8)


def test_without_a_table_verdicts_stand_and_are_marked(plant):
    plant(LOUD)
    claim = m1(0.05, OTHER)
    assert (claim.outcome, claim.calibrated, claim.withheld) == ("HOLDS", False, False)
    assert claim.reason == ""


def test_a_detector_that_was_not_rated_has_no_table(plant):
    plant(LOUD)
    assert (
        calibration_status("M4", HERE) == calibration_status("M3", HERE) == CalibrationStatus(False)
    )  # M3: trained models of one kind alone


def test_copies_calibrate_nothing():
    """Their truth is what the detector says of the original; they are all that M4b has been tried on."""
    for norm in ("pre", "post"):
        family = f"norm {norm}, 2 layers, learned positions"
        assert calibration_status("M4b", family) == CalibrationStatus(False)
        assert calibration_status("M9", family) == CalibrationStatus(True)


def test_one_source_of_trained_models_is_enough_to_withhold_a_verdict(plant):
    fooled = rated(
        math.nan, 0.5, source="decorative", worst_negative="carries", worst_negative_rate=0.5
    )
    plant(GOOD, rated(1.0, math.nan, source="interchange"), fooled)
    claim = m1(0.05)
    assert (claim.outcome, claim.uncalibrated_outcome, claim.withheld) == (
        "NOT JUDGED",
        "HOLDS",
        True,
    )
    assert claim.reason == (
        "the probe misleads on trained models (decorative): false-positive rate 0.50 (worst: "
        "carries, 0.50); "
        "needs <= 0.05"
    )
    plant(LOUD, fooled)
    assert "on hand-written models" in m1(0.05).reason
    assert "; the probe misleads on trained models" in m1(0.05).reason


def test_losses_contrasts_and_geometry_need_none(plant):
    plant(LOUD)
    for claim in CLAIMS:
        if claim.id not in MECHANISM_CLAIMS:
            assert (
                calibration_status(claim.id, HERE)
                == calibration_status(claim.id, OTHER)
                == CalibrationStatus(None)
            )


def test_a_configuration_has_the_rates_of_its_family():
    quick = AnchorConfig.from_preset("quick")
    known = calibration(quick)
    assert (known.family, set(known.standings)) == (HERE, set(MECHANISM_CLAIMS))
    assert all(
        {row["detector"] for row in rows} > {*MECHANISM_CLAIMS}
        for rows in (known.trained, known.rates)
    )
    paper = calibration(AnchorConfig.from_preset("quick", model=ModelConfig(norm="post")))
    assert (paper.family, paper.rates) == (OTHER, [])
    unseen = calibration(
        AnchorConfig.from_preset("quick", model=ModelConfig(n_layers=3))
    )  # a family without any table
    assert set(unseen.standings.values()) == {CalibrationStatus(False)}
