"""The claims and their checks against a list that was written by hand: ids, places, operators and thresholds."""

from __future__ import annotations

from rb_interp.studies.anchor.checks import CHECKS, INTERVENTIONS
from rb_interp.studies.anchor.claims import CLAIMS, stopped_early

# id -> (what is read, gamma, stage, operator, threshold[, less the same quantity at gamma, stage])
EXPECTED = {
    "A1": [("learning_order/bias", 0.8, "final", ">=", 0.10), ("learning_order/bias_test", 0.8, "final", ">=", 0.10)],
    "A2": [
        ("learning_order/abs_bias", 0.3, "final", "<=", 0.10),
        ("learning_order/margin_mem", 0.3, "final", ">=", 0.3),
        ("learning_order/margin_rsn_train", 0.3, "final", ">=", 0.3),
    ],
    "A3": [
        ("learning_order/acc_rsn_test", 0.3, "final", "<=", 0.20),
        ("learning_order/acc_gap", 0.3, "final", ">=", 0.20),
    ],
    "A4": [
        ("learning_order/bias", 0.8, "final", ">", 0, 0.5, "final"),
        ("learning_order/bias", 0.5, "final", ">", 0, 0.3, "final"),
    ],
    "A5": [("learning_order/acc_rsn_test", 0.8, "final", ">=", 0.90)],
    "A2b": [],  # that of A2, see below
    "A3b": [],
    "E1": [("geometry/order_rho", 0.8, "final", "<=", -0.80)],
    "E2": [("geometry/cos_memory", 0.8, "half", ">=", 0.50)],
    "E3": [("geometry/pc1_key", 0.8, "final", ">=", 0.90), ("geometry/pc1_reasoning", 0.8, "final", ">=", 0.90)],
    "E4": [("geometry/abs_cos_ratio", 0.3, "final", "<=", 1.5)],
    "E5": [
        ("geometry/participation_ratio", 0.8, "final", "<=", 0.5),
        ("geometry/abs_cos", 0.8, "final", "<", 0.90),
    ],
    "E6": [("geometry/theory", 0.8, "final", ">=", 0.90)],
    "I1": [
        ("lemma_1/within_0.05", 0.8, "init", ">=", 0.95),
        ("lemma_1/within_0.05", 0.8, "init", ">", 0, 0.3, "init"),
        ("lemma_1/within_0.05", 0.5, "init", ">=", 0, 0.3, "init"),
        ("lemma_1/within_0.05", 0.8, "init", ">=", 0, 0.5, "init"),
    ],
    "M1": [("uniformity/tv rsn_train @0", 0.8, "half", "<=", 0.10)],
    "M2": [("uniformity/tv rsn_train @0", 0.3, "matched", ">=", 0.10, 0.8, "half")],
    "M3": [("value_alignment/spectrum_ratio @0", 0.8, "half", ">=", 1.5)],
    "M4": [("value_alignment/cos_reasoning @0", 0.8, "half", ">=", 0.70)],
    "M5": [("value_alignment/cos_memory @0", 0.8, "half", "<=", 0.30)],
    "M6": [("value_alignment/cos_gap @0", 0.8, "half", ">=", 0.30)],
    "M7": [("attention_by_role/key rsn_train @1", 0.8, "final", ">=", 0.90)],
    "M7b": [("attention_by_role/key mem @1", 0.8, "final", ">=", 0.90)],
    "M8": [
        ("variance_explained/attn_out.1:key rsn_train", 0.8, "final", ">=", 0.80),
        ("variance_explained/attn_out.0:anchor_sum rsn_train", 0.8, "final", ">=", 0.80),
    ],
    "M9": [
        ("swap_key/effect rsn_train", 0.8, "final", ">=", 0.90),
        ("swap_sum/effect rsn_train", 0.8, "final", ">=", 0.90),
        ("swap_key/control rsn_train", 0.8, "final", "<=", 0.10),
        ("swap_sum/control rsn_train", 0.8, "final", "<=", 0.10),
    ],
    "M10": [
        ("forced_average/effect rsn_train", 0.8, "half", "<=", 0.10),
        ("forced_average/control rsn_train", 0.8, "half", ">=", 0.20, 0.8, "half"),
    ],
    "M3b": [("value_alignment/ov_spectrum_ratio @0", 0.8, "half", ">=", 2.5)],
    "M4b": [("without_reasoning_matched/difference rsn_train", 0.8, "half", ">=", 0.50)],
    "M7r": [("routes/key:from_key rsn_train", 0.8, "final", ">=", 0.80)],
    "M8r": [("routes/anchors:L0_at_last rsn_train", 0.8, "final", ">=", 0.80)],
    "M9b": [
        ("swap_key_in_place/effect rsn_train", 0.8, "final", ">=", 0.90),
        ("swap_sum_in_place/effect rsn_train", 0.8, "final", ">=", 0.90),
        ("swap_key_in_place/control rsn_train", 0.8, "final", "<=", 0.10),
        ("swap_sum_in_place/control rsn_train", 0.8, "final", "<=", 0.10),
    ],
    "M10b": [("fixed_average: learning_order/acc_rsn_test", 0.8, "final", ">=", 0.90)],
    "Q1": [("equivalence/held_out", 0.8, "final", "<=", 0.02)],
    "Q2": [("equivalence/length_4", 0.8, "final", ">=", 0.20)],
    "U1": [("uniformity/tv rsn_train @0", 0.3, "half", ">=", 0.10, 0.8, "half")],
    "U2": [("uniformity/tv rsn_train @0", 0.3, "leaving", ">=", 0.10, 0.8, "leaving")],
    "U3": [("geometry/cos_memory", 0.8, "half", ">=", 0.20, 0.3, "half")],
    "U4": [
        ("uniformity/tv_change_eps_1e-12 rsn_train @0", 0.8, "half", "<=", 0.05),
        ("uniformity/tv_change_eps_1e-12 rsn_train @0", 0.8, "half", "<=", 0.02, 0.8, "half"),
    ],
}
EXPECTED |= {f"{id}b": EXPECTED[id] for id in ("A2", "A3")}
LEARNED = ("learning_order/acc_rsn_train", 0.3, "final", ">=", 0.95)


def described(condition) -> tuple:
    term = condition.of
    what = (f"{term.sweep}: " if term.sweep else "") + f"{term.probe}/{term.quantity}"
    what += f" {term.set}" if term.set else ""
    what += "" if term.layer is None else f" @{term.layer}"
    found = what, term.gamma, term.stage, condition.operator, condition.threshold
    if condition.minus is None:
        return found
    other = condition.minus
    assert (other.probe, other.set, other.layer) == (term.probe, term.set, term.layer)
    beside = {"control": "effect", "tv_change_eps_1e-12": "tv_change_eps_1.01e-8"}
    assert other.quantity == beside.get(term.quantity, term.quantity)
    return *found, other.gamma, other.stage


def test_the_claims_are_exactly_these_with_these_criteria():
    assert [claim.id for claim in CLAIMS] == list(EXPECTED)
    for claim in CLAIMS:
        assert [described(condition) for condition in claim.conditions] == EXPECTED[claim.id], claim.id


def test_what_must_be_learned_and_that_only_i1_is_about_a_share():
    assert {claim.id: described(claim.gate) for claim in CLAIMS if claim.gate} == {
        "A2b": LEARNED,
        "A3b": LEARNED,
        "M7b": ("learning_order/acc_mem", 0.8, "final", ">=", 0.50),
    }
    assert {claim.id: described(claim.learned) for claim in CLAIMS if claim.learned} == {
        "A2": LEARNED,
        "A3": LEARNED,
        "A5": ("learning_order/acc_rsn_train", 0.8, "final", ">=", 0.95),
    }
    assert [claim.id for claim in CLAIMS if claim.unit == "share"] == ["I1"]


def test_a_run_that_stops_early_judges_what_it_says_of_the_end_where_the_rule_is_learned():
    changed = {
        c.id: described(early.learned) for c in CLAIMS if (early := stopped_early(c)) != c and early.stopped_early
    }
    small = ["A5", "E1", "E3", "E5", "E6", "M7", "M8", "M9", "M7r", "M8r", "M9b", "M10b", "Q1", "Q2"]
    at_small, at_large = (LEARNED[0], 0.8, *LEARNED[2:]), dict.fromkeys(("A2", "A3", "E4"), LEARNED)
    assert changed == {**dict.fromkeys(small, at_small), **at_large}


def test_second_criteria_are_judged_on_seeds_that_had_not_been_read():
    later = ["A2b", "A3b", "M3b", "M4b", "M7r", "M8r", "M9b", "M10b", "Q1", "Q2"]
    assert {claim.id: claim.first_seed for claim in CLAIMS if claim.first_seed} == dict.fromkeys(later, 10)


CAUSAL = {
    "M1": EXPECTED["M10"],
    "M2": [("forced_average/effect rsn_train", 0.3, "matched", ">=", 0.10, 0.8, "half")],
    "M3": [
        ("leading_direction_only/effect rsn_train", 0.8, "half", "<=", 0.10),
        ("leading_direction_only/control rsn_train", 0.8, "half", ">=", 0.20, 0.8, "half"),
    ],
    "M4": [("without_reasoning/difference rsn_train", 0.8, "half", ">=", 0.20)],
    "M5": [("without_memory/difference rsn_train", 0.8, "half", "<=", 0.10)],
    "M7": [("key_blocked/difference rsn_train", 0.8, "final", ">=", 0.20)],
    "M7 ": [("key_blocked_answers/difference rsn_train", 0.8, "final", ">=", 0.50)],
    "M7b": [("key_blocked/difference mem", 0.8, "final", ">=", 0.20)],
    "M8": EXPECTED["M9"],
}


def test_each_mechanism_has_its_intervention_with_this_criterion():
    assert [check.of for check in CHECKS] == ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M7", "M7b", "M8"]
    for check in CHECKS:
        if check.of != "M6":
            second = " " if check.intervention.endswith("_answers") else ""
            assert [described(condition) for condition in check.check.conditions] == CAUSAL[check.of + second], check.of
    gap = next(check for check in CHECKS if check.of == "M6").check.conditions
    assert [
        (condition.of.probe, condition.minus.probe, condition.operator, condition.threshold) for condition in gap
    ] == [("without_reasoning", "without_memory", ">=", 0.20)]
    assert {check.of for check in CHECKS if check.check.gate} == {"M7b"}


def test_every_quantity_is_one_that_a_run_has(run):
    names = ["probe", "quantity", "stage", "set"]
    there = set(run.readings[names].itertuples(index=False, name=None))
    for claim in (*CLAIMS, *(check.check for check in CHECKS)):
        terms = () if claim.id in ("U2", "U4") else claim.terms  # of runs that keep `leaving`, or vary AdamW's eps
        for term in (*terms, *claim.context):
            assert (term.probe, term.quantity, term.stage, term.set) in there, (claim.id, term.label)
    assert {check.intervention for check in CHECKS} <= set(INTERVENTIONS)
