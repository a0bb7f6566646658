"""Detectors on planted readings: the claims' thresholds, every condition, and what nan means."""

from __future__ import annotations

import math

import pytest

from rb_interp.claims.criterion import COMPARE
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.detectors import (
    CAUSES,
    HAS,
    LACKS,
    MECHANISM_CLAIMS,
    NAMES,
    Detection,
    detect,
    margin,
    place,
    truth,
)

BY_ID = {claim.id: claim for claim in CLAIMS}
ACCURACY = ("learning_order", "acc_rsn_train", "", None)
NUMBERS = {
    ("uniformity", "tv", "rsn_train", 0): 0.05,
    ("attention_by_role", "key", "rsn_train", 1): 0.9,
    ("attention_by_role", "anchors", "rsn_train", 1): 0.05,
    ("attention_to_key", "key_from_last_anchor", "rsn_train", 0): 0.2,
    ACCURACY: 1.0,
}
CARRIER = dict(zip(NUMBERS, (0.7, 0.02, 0.95, 0.9, 0.75), strict=True))


def planted(claim: str, distance: float) -> dict:
    """Readings that lie this far on the claimed side of every threshold of a claim."""
    sign = {condition: 1 if condition.operator in (">=", ">") else -1 for condition in BY_ID[claim].conditions}
    return {
        place(condition.of): condition.threshold + sign[condition] * distance for condition in BY_ID[claim].conditions
    }


@pytest.mark.parametrize("claim", MECHANISM_CLAIMS)
def test_a_detector_is_its_claims_criterion(claim):
    assert detect(planted(claim, 0.03))[claim] == (True, pytest.approx(0.03))
    assert detect(planted(claim, -0.03))[claim] == (False, pytest.approx(-0.03))
    assert {
        COMPARE[condition.operator](condition.threshold, condition.threshold) for condition in BY_ID[claim].conditions
    } == {True}
    assert detect(planted(claim, 0.0))[claim] == (True, 0)


@pytest.mark.parametrize("claim", [claim for claim in MECHANISM_CLAIMS if len(BY_ID[claim].conditions) > 1])
def test_one_condition_that_is_missed_or_nan_is_enough(claim):
    for condition in BY_ID[claim].conditions:
        met = planted(claim, 0.05)
        nan = detect({**met, place(condition.of): math.nan})[claim]
        assert nan == Detection(False, -math.inf)
        gone = detect({at: value for at, value in met.items() if at != place(condition.of)})[claim]
        assert gone == Detection(False, -math.inf)
        side = 1 if condition.operator in (">=", ">") else -1
        missed = detect({**met, place(condition.of): condition.threshold - side * 0.02})[claim]
        assert missed == (False, pytest.approx(-0.02))


def test_claims_that_were_not_read_are_left_out():
    assert set(detect(planted("M3", 1.0))) == {"M3"}
    assert set(detect({})) == set()
    assert "M2" not in detect(NUMBERS)


def test_a_gate_about_learning_is_not_applied():
    assert BY_ID["M7b"].gate is not None
    assert detect({**planted("M7b", 0.05), ("learning_order", "acc_mem", "", None): 0.0})["M7b"].present


def test_names_and_their_margins():
    # Averaging: accuracy .5 above, TV .15 below, key .4 above. The other misses the key by .3, anchors by .45.
    averaging = detect(NUMBERS)
    assert averaging["average-then-key"] == (True, pytest.approx(0.15))
    assert averaging["key-to-anchors"] == (False, pytest.approx(-0.45))
    # Accuracy .25 above is the least; average-then-key misses TV by .5 and the key by .48.
    attention_to_key = detect(CARRIER)
    assert attention_to_key["key-to-anchors"] == (True, pytest.approx(0.25))
    assert attention_to_key["average-then-key"] == (False, pytest.approx(-0.5))


def test_a_model_that_does_both_has_neither_name():
    both = NUMBERS | {
        ("attention_by_role", "anchors", "rsn_train", 1): 0.6,
        ("attention_by_role", "key", "rsn_train", 1): 0.6,
        ("attention_to_key", "key_from_last_anchor", "rsn_train", 0): 0.8,
    }
    found = detect(both)
    assert [found[name].present for name in NAMES] == [False, False]
    assert [found[name].margin for name in NAMES] == pytest.approx([-0.1, -0.1])


def test_a_model_that_learned_nothing_has_no_name():
    assert detect({**NUMBERS, ACCURACY: 0.3})["average-then-key"] == (False, pytest.approx(-0.2))
    assert detect({**NUMBERS, ACCURACY: math.nan})["average-then-key"] == Detection(False, -math.inf)


def test_a_name_reads_the_lowest_or_the_highest_layer():
    # Attention of the last of three layers counts, whatever the second does.
    higher = {**NUMBERS, ("attention_by_role", "key", "rsn_train", 2): 0.1}
    assert detect(higher)["average-then-key"] == (False, pytest.approx(-0.4))
    assert detect(higher)["M7"].present


def shares(**changed: float) -> dict:
    quantities = {
        "key:from_key": 0.0, "anchors:L0_at_last": 0.0, "key:from_last_anchor": 0.0,
        "first_anchors:from_last_anchor": 0.0, "key:from_anchors": 0.0, "anchors:from_anchors": 0.0,
    }  # fmt: skip
    given = {name.replace("__", ":"): value for name, value in changed.items()}
    return {("routes", name, "rsn_train", None): value for name, value in {**quantities, **given}.items()}


def test_names_by_cause_and_their_margins():
    # Both shares of the paper's circuit, the lesser .05 above .80; of the others nothing is there.
    found = detect({**NUMBERS, **shares(key__from_key=0.9, anchors__L0_at_last=0.85)})
    assert [found[name].margin for name in CAUSES] == pytest.approx([0.05, -0.8, -0.8])
    assert [found[name].present for name in CAUSES] == [True, False, False]
    # A model that gathers carries by the anchors too: the name before is .15 beyond its threshold.
    gathers = shares(
        key__from_last_anchor=0.95,
        first_anchors__from_last_anchor=1.0,
        key__from_anchors=1.0,
        anchors__from_anchors=1.0,
    )
    found = detect({**NUMBERS, **gathers})
    assert [found[name].margin for name in CAUSES] == pytest.approx([-0.8, 0.15, -0.15])
    assert [found[name].present for name in CAUSES] == [False, True, False]
    # Attention has no say, accuracy has.
    assert not detect({**CARRIER, **gathers})["key-to-anchors by cause"].present
    assert detect({**gathers, ACCURACY: 0.4})["gather-at-last-anchor by cause"] == (False, pytest.approx(-0.1))
    assert not set(CAUSES) & set(detect(NUMBERS))


def test_the_margin_of_a_number_that_is_not_there():
    condition = BY_ID["M1"].conditions[0]
    assert margin(condition, math.nan) == -math.inf
    assert margin(condition, math.inf) == -math.inf
    assert margin(BY_ID["M3"].conditions[0], math.inf) == math.inf


def test_truth_follows_from_mechanisms():
    assert set(HAS) | set(LACKS) == set(MECHANISM_CLAIMS)
    assert truth("M1", "none", {"averages"}, "none")
    assert not truth("M1", "average-then-key", set(), "none")
    assert truth("M5", "none", set(), "none")
    assert not truth("M5", "none", {"values_along_memory"}, "none")
    assert truth("M6", "none", {"values_along_reasoning"}, "none")
    assert not truth("M6", "none", {"values_along_reasoning", "values_along_memory"}, "none")
    assert truth("key-to-anchors", "key-to-anchors", set(), "none")
    assert not truth("average-then-key", "key-to-anchors", {"averages", "fetches_key"}, "average-then-key")
    assert truth("average-then-key by cause", "key-to-anchors", set(), "average-then-key")
    assert not truth("average-then-key by cause", "average-then-key", set(), "mixed")


@pytest.mark.parametrize(
    ("claim", "mechanism"),
    [
        ("M3b", "one_direction_passed_on"),
        ("M4b", "needs_reasoning_values"),
        ("M7r", "key_from_its_position"),
        ("M8r", "anchors_by_L0_at_last"),
        ("M9b", "key_plus_sum"),
    ],
)
def test_a_second_criterion_is_true_of_models_with_its_mechanism_alone(claim, mechanism):
    others = {name for needed in HAS.values() for name in needed} - {mechanism}
    assert truth(claim, "none", {mechanism}, "none")
    assert not truth(claim, "average-then-key", others, "average-then-key")
