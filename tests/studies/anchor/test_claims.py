"""Claims and causal checks of the anchor study against a run; what they ask is among the golden
fingerprints."""

from __future__ import annotations

import pandas as pd

from rb_interp.runs.results import StudyResult
from rb_interp.studies.anchor.checks import CHECKS, INTERVENTIONS
from rb_interp.studies.anchor.claims import CLAIMS, CLAIMS_WITHIN, groups


def test_every_quantity_is_one_that_a_run_has(run):
    names = ["probe", "quantity", "stage", "set"]
    there = set(run.readings[names].itertuples(index=False, name=None))
    for claim in (*CLAIMS, *(check.check for check in CHECKS)):
        # of runs that keep `leaving` or `informed`, or vary AdamW's eps
        terms = () if claim.id in ("U2", "U2b", "U4") else claim.terms
        for term in (*terms, *claim.context):
            assert (term.probe, term.quantity, term.stage, term.set) in there, (
                claim.id,
                term.label,
            )
    assert {check.intervention for check in CHECKS} <= set(INTERVENTIONS)


def test_a_seed_belongs_to_the_circuit_by_cause_of_its_member_at_small_initialisation():
    columns = {
        "gamma": [0.8, 0.3, 0.8, 0.8],
        "seed": [2, 0, 0, 1],
        "circuit": ["x"] * 4,
        "cause": ["c", "none", "a", "b"],
    }
    grouping = groups(StudyResult(pd.DataFrame(), {"circuits": pd.DataFrame(columns)}))
    assert (grouping.by, grouping.groups) == ("circuit, gamma 0.8", {0: "a", 1: "b", 2: "c"})


def test_read_within_circuits_is_every_mechanism_claim_of_one_gamma():
    mechanism = [claim.id for claim in CLAIMS if claim.id.startswith("M")]
    assert [claim.id for claim in CLAIMS_WITHIN] == [id for id in mechanism if id != "M2"]
