"""How the anchor study groups its seeds: by the circuit that the member at gamma .8 learned.

Read within circuits is every mechanism claim whose terms are all of gamma .8. A claim that compares gammas (M2) speaks
of members of several circuits and is left out.
"""

from __future__ import annotations

from rb_interp.claims.learning_order import SMALL
from rb_interp.claims.within import Grouping
from rb_interp.runs.measured import Measured
from rb_interp.studies.anchor.circuits import circuit_of_seed
from rb_interp.studies.anchor.claims import CLAIMS

CLAIMS_WITHIN = tuple(
    claim for claim in CLAIMS if claim.id.startswith("M") and {term.gamma for term in claim.terms} == {SMALL}
)


def groups(measured: Measured) -> Grouping:
    """Seeds by the circuit of their member at gamma .8, and the claims that are read within circuits."""
    return Grouping(f"circuit, gamma {SMALL:g}", circuit_of_seed(measured.tables["circuits"]), CLAIMS_WITHIN)
