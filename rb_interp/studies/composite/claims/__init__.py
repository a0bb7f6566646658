"""The claims of paper 2 (arXiv 2405.05409), as data.

Criteria were written down before the runs, and gammas are those that the paper names. Layers are counted from 0 here
and from 1 in the paper: its first layer is L0.
"""

from rb_interp.claims import Claim
from rb_interp.studies.composite.claims.complexity import COMPLEXITY_CLAIMS
from rb_interp.studies.composite.claims.flow import FLOW_CLAIMS
from rb_interp.studies.composite.claims.phases import PHASE_CLAIMS
from rb_interp.studies.composite.claims.representation import REPRESENTATION_CLAIMS

CLAIMS: tuple[Claim, ...] = (*PHASE_CLAIMS, *FLOW_CLAIMS, *REPRESENTATION_CLAIMS, *COMPLEXITY_CLAIMS)
