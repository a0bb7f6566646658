"""Claims of the composite study hold for known members and fail where these are exchanged."""

import pandas as pd
import pytest
from known_members import of_seeds, phases_of

from rb_interp.claims import judge
from rb_interp.runs.results import readings_table
from rb_interp.studies.composite.claims import CLAIMS
from rb_interp.studies.composite.measure import of_members
from rb_interp.studies.composite.phase import final_rows

pytestmark = pytest.mark.wide

OPEN = {"C3m": "NOT JUDGED", "C13": "NOT JUDGED", "F7": "OPEN", "F9": "OPEN"}
"""Not decided by 8 seeds of the main sweep: too few members, training rows that are not fitted,
another sweep."""
JUDGED = [claim for claim in CLAIMS if claim.id[0] != "K"]
"""Those of complexity have tests of their own."""
NO_CURVES = pd.DataFrame(columns=["gamma", "seed", "step", "set", "loss"])


def outcomes(readings: pd.DataFrame, claims=JUDGED) -> dict[str, str]:
    of_all = final_rows(list(of_members(readings, phases_of(readings), NO_CURVES)), 9)
    return {
        verdict.id: verdict.outcome for verdict in judge(readings_table(readings, of_all), claims)
    }


def test_known_models_meet_the_claims_at_their_gammas_and_fail_them_at_each_others(read):
    assert outcomes(of_seeds(read)) == dict.fromkeys([claim.id for claim in JUDGED], "HOLDS") | OPEN
    swapped = outcomes(of_seeds(read, {0.5: 0.8, 0.8: 0.5, 0.1: 0.5}))
    assert (
        swapped
        == dict.fromkeys([claim.id for claim in JUDGED], "FAILS")
        | {"C4": "HOLDS", "C6": "HOLDS"}
        | OPEN
    )


def test_f9_asks_whether_attention_stays_the_same_on_the_unseen_pair(read):
    claims, readings = (
        [claim for claim in CLAIMS if claim.id == "F9"],
        of_seeds(read, n=24),
    )  # 48 units
    assert outcomes(readings, claims) == {"F9": "HOLDS"}
    unseen = (readings["probe"] == "attention_between_roles") & (readings["set"] == "unseen")
    assert outcomes(readings.assign(value=readings["value"].mask(unseen, 0.1)), claims) == {
        "F9": "FAILS"
    }
