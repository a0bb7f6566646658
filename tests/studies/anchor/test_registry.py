"""Gates, second criteria and causal checks against lists that were written by hand.

The claims' own places, operators and thresholds are among the golden verdicts.
"""

from __future__ import annotations

import pandas as pd

from rb_interp.runs.measured import Measured
from rb_interp.studies.anchor.checks import CHECKS, INTERVENTIONS
from rb_interp.studies.anchor.claims import BY_ID, CLAIMS, CLAIMS_WITHIN, groups, stopped_early

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
    assert other.quantity == {"control": "effect"}.get(term.quantity, term.quantity)
    return *found, other.gamma, other.stage


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
    assert changed | dict.fromkeys(small, at_small) | at_large == changed
    assert not changed.keys() & {"A1", "A4", "E2", "I1", "M1", "M2", "M3", "M4"}  # of other stages, areas, the bias


def test_second_criteria_are_judged_on_seeds_that_had_not_been_read():
    later = ["A2b", "A3b", "M3b", "M4b", "M7r", "M8r", "M9b", "M10b", "Q1", "Q2"]
    assert {claim.id: claim.first_seed for claim in CLAIMS if claim.first_seed} == dict.fromkeys(later, 10)


CAUSAL = {
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
}


def test_each_mechanism_has_its_intervention_with_this_criterion():
    assert [check.of for check in CHECKS] == ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M7", "M7b", "M8"]
    for check in CHECKS:
        if check.of in ("M1", "M8"):
            assert check.check.conditions == BY_ID[{"M1": "M10", "M8": "M9"}[check.of]].conditions
        elif check.of != "M6":
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


def test_a_seed_belongs_to_the_circuit_by_cause_of_its_member_at_small_initialisation():
    columns = {
        "gamma": [0.8, 0.3, 0.8, 0.8],
        "seed": [2, 0, 0, 1],
        "circuit": ["x"] * 4,
        "cause": ["c", "none", "a", "b"],
    }
    grouping = groups(Measured(pd.DataFrame(), {"circuits": pd.DataFrame(columns)}))
    assert (grouping.by, grouping.groups) == ("circuit, gamma 0.8", {0: "a", 1: "b", 2: "c"})


def test_read_within_circuits_is_every_mechanism_claim_of_one_gamma():
    mechanism = [claim.id for claim in CLAIMS if claim.id.startswith("M")]
    assert [claim.id for claim in CLAIMS_WITHIN] == [id for id in mechanism if id != "M2"]
