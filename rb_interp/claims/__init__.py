"""Claims as data, with criteria fixed in advance, and the verdicts that a run's readings allow."""

from rb_interp.claims.calibration import Calibration, Standing
from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.lazy import lazy_names

__all__ = [
    "Calibration",
    "CausalCheck",
    "CheckedCause",
    "Claim",
    "Condition",
    "Grouping",
    "Standing",
    "Term",
    "Verdict",
    "Verdicts",
    "Within",
    "expected_by_chance",
    "judge",
    "judge_checks",
    "judge_within",
]

_WHERE = {
    **{"CausalCheck": "causal_checks", "CheckedCause": "causal_checks", "judge_checks": "causal_checks"},
    **{"Verdict": "verdict", "Verdicts": "verdict", "expected_by_chance": "judging", "judge": "judging"},
    **dict.fromkeys(("Grouping", "Within", "judge_within"), "within"),
}

__getattr__ = lazy_names(__name__, {name: f"rb_interp.claims.{module}" for name, module in _WHERE.items()})
