"""Which seeds belong to which circuit, and which claims are read within circuits."""

import pandas as pd

from rb_interp.runs.measured import Measured
from rb_interp.studies.anchor.claims import CLAIMS, CLAIMS_WITHIN, groups


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
