"""Which seeds belong to which circuit, and which claims are read within circuits."""

import pandas as pd
import pytest

from rb_interp.machine.measured import Measured
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.within import CLAIMS_WITHIN, groups

CIRCUITS = pd.DataFrame(
    {"gamma": [0.3, 0.8, 0.8, 0.8], "seed": [0, 0, 1, 2], "circuit": ["none", "mixed", "key-to-anchors", "mixed"]}
)


@pytest.mark.parametrize(
    ("cause", "by"), [((), "circuit by attention, gamma 0.8"), (("none", "a", "b", "c"), "circuit, gamma 0.8")]
)
def test_a_seed_belongs_to_the_circuit_of_its_member_at_small_initialisation(cause, by):
    table = CIRCUITS.assign(cause=cause) if cause else CIRCUITS
    grouping = groups(Measured(pd.DataFrame(), {"circuits": table}))
    names = cause[1:] or ("mixed", "key-to-anchors", "mixed")
    assert (grouping.by, grouping.groups) == (by, dict(enumerate(names)))


def test_read_within_circuits_is_every_mechanism_claim_of_one_gamma():
    mechanism = [claim.id for claim in CLAIMS if claim.id.startswith("M")]
    assert [claim.id for claim in CLAIMS_WITHIN] == [id for id in mechanism if id != "M2"]
