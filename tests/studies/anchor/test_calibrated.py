"""Rates worked out by hand, what they do to a verdict, and the tables that come with the package."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import Standing, Verdict, expected_by_chance, judge
from rb_interp.models import ModelConfig
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.studies.anchor import error_rates
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.anchor.detectors import DETECTORS, MECHANISM_CLAIMS, NAMES
from rb_interp.studies.anchor.error_rates import (
    DEVELOPMENT,
    calibration,
    family,
    rates,
    rates_by_model,
    read_table,
    standing,
    trained_rates,
)
from rb_interp.studies.anchor.routes_by_training import ATTENTION_WITHIN, SMALLEST_SHARE

BY_ID = {claim.id: claim for claim in CLAIMS}
FIRST = {*MECHANISM_CLAIMS[:9], *NAMES}
"""Detectors that the shipped tables have at least."""
HERE = "norm none, 2 layers, learned positions"
OTHER = "norm post, 2 layers, learned positions"
MARGIN = {True: 0.1, False: -0.1}


def answers(
    name: str, truth: str, present: list[bool], source: str = "reference", detector: str = "M1"
) -> pd.DataFrame:
    """Copies of one model from the first held-out seed on, a control's from 0 on."""
    first = DEVELOPMENT if source == "reference" else 0
    rows = [(first + i, yes, MARGIN[yes]) for i, yes in enumerate(present)]
    table = pd.DataFrame(rows, columns=["seed", "present", "margin"])
    return table.assign(family=HERE, source=source, name=name, detector=detector, truth=truth)


def rated(*tables: pd.DataFrame) -> pd.Series:
    (_, row), *rest = rates(pd.concat(tables, ignore_index=True)).iterrows()
    assert not rest
    return row


def test_rates_worked_by_hand():
    row = rated(
        answers("good", "yes", [True] * 10),
        answers("fair", "yes", [True] * 9 + [False]),
        answers("quiet", "no", [False] * 10),
        answers("loud", "no", [True] * 3 + [False] * 7),
        answers("0.8", "", [True, False], source="untrained"),
        answers("0.8", "", [False] * 4, source="label_shuffled"),
    )
    assert (row["n_positive"], row["true_positive_rate"]) == (20, 0.95)
    assert (row["n_negative"], row["false_positive_rate"]) == (20, 0.15)
    low, high = proportion_interval(3, 20)[1:]
    assert (row["false_positive_low"], row["false_positive_high"]) == (round(low, 6), round(high, 6))
    assert (row["worst_positive"], row["worst_positive_rate"]) == ("fair", 0.9)
    assert (row["worst_negative"], row["worst_negative_rate"]) == ("loud", 0.3)
    assert (row["n_untrained"], row["untrained_rate"]) == (2, 0.5)
    assert (row["n_label_shuffled"], row["label_shuffled_rate"]) == (4, 0.0)
    # Pairs: 19 x 17 won, 1 x 3 lost, 19 x 3 + 1 x 17 ties.
    assert row["auc"] == (19 * 17 + (19 * 3 + 17) / 2) / 400
    assert not row["calibrated"]


@pytest.mark.parametrize(
    ("true_positives", "false_positives", "calibrated"),
    [(100, 0, True), (95, 5, True), (94, 0, False), (100, 6, False)],
)
def test_calibrated_means_both_rates_at_their_bounds_or_better(true_positives, false_positives, calibrated):
    row = rated(
        answers("a", "yes", [i < true_positives for i in range(100)]),
        answers("b", "no", [i < false_positives for i in range(100)]),
    )
    assert row["calibrated"] == calibrated


def test_rates_rest_on_held_out_copies_and_the_other_threshold_on_the_rest():
    # The criterion is at 0. Margins say that .25 would have been better: chosen on low seeds, judged on the others.
    def copies(name, truth, low, high):
        seeds, margins = range(DEVELOPMENT - 2, DEVELOPMENT + 2), [*low, *high]
        table = pd.DataFrame({"seed": seeds, "margin": margins, "present": [m >= 0 for m in margins]})
        return table.assign(family=HERE, source="reference", name=name, detector="M1", truth=truth)

    row = rated(copies("a", "yes", [0.3, 0.4], [0.35, 0.22]), copies("b", "no", [0.2, -0.5], [0.2, 0.1]))
    assert (row["true_positive_rate"], row["false_positive_rate"]) == (1, 1)
    assert row["youden_threshold"] == pytest.approx(0.25)
    assert (row["youden_tpr"], row["youden_fpr"]) == (0.5, 0)


def test_without_models_of_one_kind_nothing_is_calibrated():
    row = rated(answers("a", "yes", [True] * 100))
    assert math.isnan(row["false_positive_rate"])
    assert math.isnan(row["auc"])
    assert not row["calibrated"]


def test_the_rates_of_single_models():
    table = rates_by_model(
        pd.concat([answers("a", "yes", [True, False]), answers("0.8", "", [True] * 3, source="untrained")])
    ).set_index("name")
    assert table.loc["a", ["n", "rate", "truth"]].tolist() == [2, 0.5, "yes"]
    assert table.loc["0.8", ["n", "rate", "truth"]].tolist() == [3, 1.0, ""]


GOOD = (answers("a", "yes", [True] * 20), answers("b", "no", [False] * 20))
LOUD = (answers("a", "yes", [True] * 20), answers("b", "no", [False] * 20), answers("carrier", "no", [True] * 10))
DEAF = (answers("a", "yes", [True] * 20), answers("weak", "yes", [False] * 20), answers("b", "no", [False] * 20))
OTHER_DETECTOR = answers("a", "yes", [True], source="gauge", detector="M3")


@pytest.fixture
def plant(monkeypatch):
    def put(*tables: pd.DataFrame, trained: pd.DataFrame = OTHER_DETECTOR) -> None:
        found, on_trained = rates(pd.concat(tables, ignore_index=True)), trained_rates(trained)
        monkeypatch.setattr(error_rates, "shipped_rates", lambda: found)
        monkeypatch.setattr(error_rates, "shipped_trained_rates", lambda: on_trained)

    return put


def m1(value: float, of_family: str = HERE) -> Verdict:
    term = BY_ID["M1"].conditions[0].of
    row = {"gamma": term.gamma, "stage": term.stage, "set": term.set, "probe": term.probe, "layer": term.layer}
    readings = pd.DataFrame(
        [{**row, "quantity": term.quantity, "seed": s, "value": value, "untrained": 0.0} for s in range(8)]
    )
    return judge(readings, [BY_ID["M1"]], scale="quick", standings={"M1": standing("M1", of_family)})[0]


def test_rates_that_are_met_leave_the_verdict_and_say_so(plant):
    plant(*GOOD)
    claim = m1(0.05)
    assert (claim.outcome, claim.calibrated, claim.withheld) == ("HOLDS", True, False)
    assert claim.reason == ""
    assert m1(0.5).outcome == "FAILS"


@pytest.mark.parametrize(("value", "numbers_say"), [(0.05, "HOLDS"), (0.5, "FAILS")])
def test_rates_that_are_missed_withhold_the_verdict_and_keep_what_the_numbers_say(plant, value, numbers_say):
    plant(*LOUD)
    claim = m1(value)
    assert (claim.outcome, claim.uncalibrated_outcome) == ("NOT JUDGED", numbers_say)
    assert (claim.calibrated, claim.withheld) == (False, True)
    assert claim.conditions[0].outcome == numbers_say
    assert claim.reason == (
        "the probe misleads on hand-written models: true-positive rate 1.00, false-positive rate 0.33 "
        "(worst: carrier, 1.00); needs >= 0.95 and <= 0.05"
    )
    assert expected_by_chance([claim]) == (0, 0)
    assert expected_by_chance([m1(value, OTHER)]) == (2**-8, 2**-8)


def test_a_probe_that_sees_too_little_names_the_model_it_misses(plant):
    plant(*DEAF)
    assert "true-positive rate 0.50, false-positive rate 0.00 (worst: weak, 0.00)" in m1(0.05).reason


def test_without_a_table_verdicts_stand_and_are_marked(plant):
    plant(*LOUD)
    claim = m1(0.05, OTHER)
    assert (claim.outcome, claim.calibrated, claim.withheld) == ("HOLDS", False, False)
    assert claim.reason == ""


def test_a_detector_that_was_not_rated_has_no_table(plant):
    plant(*LOUD)
    assert standing("M4", HERE) == standing("M3", HERE) == Standing(False)  # M3: trained models of one kind alone


def test_rates_on_trained_models_are_by_source_and_leave_out_what_is_not_known():
    found = trained_rates(
        pd.concat([
            answers("a", "yes", [True] * 3 + [False], source="interchange"),
            answers("b", "no", [True] + [False] * 3, source="decorative"),
            answers("c", "", [True] * 9, source="decorative"),
        ])
    ).set_index("source")  # fmt: skip
    one, other = found.loc["interchange"], found.loc["decorative"]
    assert (one["n_positive"], one["true_positive_rate"], one["n_negative"]) == (4, 0.75, 0)
    assert (other["n_negative"], other["false_positive_rate"], other["worst_negative"]) == (4, 0.25, "b")
    low, high = proportion_interval(1, 4)[1:]
    assert (other["false_positive_low"], other["false_positive_high"]) == (round(low, 6), round(high, 6))
    assert math.isnan(one["false_positive_rate"])
    assert found["calibrated"].tolist() == [False, False]


def test_one_source_of_trained_models_is_enough_to_withhold_a_verdict(plant):
    fooled = answers("carries", "no", [True, False], source="decorative")
    plant(*GOOD, trained=pd.concat([answers("x", "yes", [True] * 4, source="interchange"), fooled]))
    claim = m1(0.05)
    assert (claim.outcome, claim.uncalibrated_outcome, claim.withheld) == ("NOT JUDGED", "HOLDS", True)
    assert claim.reason == (
        "the probe misleads on trained models (decorative): false-positive rate 0.50 (worst: carries, 0.50); "
        "needs <= 0.05"
    )
    plant(*LOUD, trained=fooled)
    assert "on hand-written models" in m1(0.05).reason
    assert "; the probe misleads on trained models" in m1(0.05).reason


def test_trained_models_that_are_met_leave_the_verdict(plant):
    met = pd.concat([answers("x", "yes", [True] * 4, source="uniform"), answers("y", "no", [False], source="gauge")])
    plant(*GOOD, trained=met)
    assert standing("M1", HERE) == Standing(True)


def test_losses_contrasts_and_geometry_need_none(plant):
    plant(*LOUD)
    for claim in CLAIMS:
        if claim.id not in MECHANISM_CLAIMS:
            assert standing(claim.id, HERE) == standing(claim.id, OTHER) == Standing(None)


def test_a_family_is_norm_layers_and_positions():
    assert family(ModelConfig.preset("quick")) == family(ModelConfig.preset("smoke")) == HERE
    assert len({HERE, family(ModelConfig(norm="pre")), family(ModelConfig(n_layers=3))}) == 3


def test_a_configuration_has_the_rates_of_its_family():
    quick = AnchorConfig.from_preset("quick")
    known = calibration(quick)
    assert (known.family, set(known.standings)) == (HERE, set(MECHANISM_CLAIMS))
    for rows in (known.trained, known.rates):
        assert FIRST <= {row["detector"] for row in rows} <= {*DETECTORS}
    paper = calibration(AnchorConfig.from_preset("quick", model=ModelConfig(norm="post")))
    assert (paper.family, paper.rates) == (OTHER, [])
    unseen = calibration(AnchorConfig.from_preset("quick", model=ModelConfig(n_layers=3)))  # a family without any table
    assert set(unseen.standings.values()) == {Standing(False)}


def test_the_shipped_rates_follow_from_the_shipped_copies():
    shipped = read_table(error_rates.FOLDER / error_rates.RATES)
    pd.testing.assert_frame_equal(rates(error_rates.copies()), shipped, check_exact=True, check_dtype=False)


def test_the_shipped_rates_on_trained_models_follow_from_the_shipped_answers():
    shipped = read_table(error_rates.FOLDER / error_rates.TRAINED_RATES)
    found = trained_rates(error_rates.trained_copies())
    pd.testing.assert_frame_equal(found, shipped, check_exact=True, check_dtype=False)


def test_trained_models_count_where_training_reached_its_aim():
    models, copies = error_rates.trained_models(), error_rates.trained_copies()
    attention = models["exchange"].str.startswith("attends like")
    models["beyond"] = models["share"] - np.where(attention, 1 - ATTENTION_WITHIN, SMALLEST_SHARE)
    reached = models.groupby(["family", "name", "gamma", "seed"])[["beyond", "counts"]].agg(["min", "max"])
    assert ((reached["beyond", "min"] >= 0) == reached["counts", "max"]).all()
    assert (reached["counts", "min"] == reached["counts", "max"]).all()
    direct = copies.loc[copies["source"].isin(["interchange", "decorative", "uniform"]) & (copies["detector"] == "M9")]
    assert len(direct) == reached["counts", "max"].sum()
    assert copies.loc[copies["source"] == "decorative", "truth"].isin(["yes", "no", ""]).all()


def test_the_shipped_tables_are_whole():
    copies = error_rates.copies()
    known = copies.loc[copies["source"] == "reference"]
    assert set(copies["family"]) == {HERE}
    assert FIRST <= set(copies["detector"]) <= {*DETECTORS}
    counts = known.groupby(["name", "detector"])["seed"].agg(["count", "nunique"])
    assert (counts >= 100 + DEVELOPMENT).all(axis=None)
    assert not copies.duplicated(["source", "name", "seed", "detector"]).any()
    assert (known.loc[known["truth"] != ""].groupby("detector")["truth"].nunique() == 2).all()
    assert (known.groupby(["name", "detector"])["truth"].nunique() == 1).all()
    meets = copies["margin"] >= 0
    assert (copies["present"] == meets)[copies["margin"].abs() > 1e-9].all()
    assert (error_rates.FOLDER / error_rates.COPIES).stat().st_size < 2_000_000
