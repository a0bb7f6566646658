"""Claims as data, with criteria fixed in advance, and the verdicts that a run's readings allow."""

from rb_interp.claims import rule
from rb_interp.claims.judging import (
    CheckedCause,
    Verdict,
    Verdicts,
    Within,
    judge,
    judge_checks,
    judge_within,
)
from rb_interp.claims.rule import (
    Calibration,
    CausalCheck,
    Claim,
    Condition,
    Grouping,
    Standing,
    Term,
    expected_by_chance,
)

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
    "rule",
]
