"""The claims of the paper as data, with criteria fixed in advance, and the verdict that a run's readings allow."""

from rb_interp.claims.criterion import Claim, Part, Term
from rb_interp.claims.registry import CLAIMS
from rb_interp.claims.studies import claims_of
from rb_interp.lazy import lazy_names

__all__ = ["CLAIMS", "Claim", "Part", "Term", "claims_of", "expected_by_chance", "judge", "verdict_table"]

_WHERE = {"judge": "judging", "verdict_table": "judging", "expected_by_chance": "judging"}

__getattr__ = lazy_names(__name__, {name: f"rb_interp.claims.{module}" for name, module in _WHERE.items()})
