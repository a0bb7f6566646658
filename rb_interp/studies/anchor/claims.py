"""The claims of the anchor study, in their order, and those that are read within circuits."""

from rb_interp.claims import Claim, Grouping
from rb_interp.runs.results import StudyResult
from rb_interp.settings import SMALL
from rb_interp.studies.anchor.claims_paper import (
    CAUSAL,
    EMBEDDING,
    INITIALISATION,
    LEARNING_ORDER,
    MECHANISM,
)
from rb_interp.studies.anchor.claims_second import LEARNED_ORDER, RIVAL, SECOND

CLAIMS: tuple[Claim, ...] = (
    *LEARNING_ORDER,
    *LEARNED_ORDER,
    *EMBEDDING,
    *INITIALISATION,
    *MECHANISM,
    *CAUSAL,
    *SECOND,
    *RIVAL,
)
BY_ID = {claim.id: claim for claim in CLAIMS}
CLAIMS_WITHIN = tuple(
    claim
    for claim in CLAIMS
    if claim.id.startswith("M") and {term.gamma for term in claim.terms} == {SMALL}
)
"""Claims that are read within circuits too. One that compares gammas (M2) speaks of members of
several circuits."""


def groups(measured: StudyResult) -> Grouping:
    """Seeds by the circuit of their member at gamma .8, and the claims that are read within
    circuits."""
    from rb_interp.studies.anchor.circuits import circuit_of_seed  # imports TransformerLens

    return Grouping(
        f"circuit, gamma {SMALL:g}", circuit_of_seed(measured.tables["circuits"]), CLAIMS_WITHIN
    )
