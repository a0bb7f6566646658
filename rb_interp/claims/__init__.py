"""Claims as data, with criteria fixed in advance, and the verdicts that a run's readings allow."""

from rb_interp.claims import rule
from rb_interp.claims.claim import (
    Calibration,
    CalibrationStatus,
    CausalCheck,
    Claim,
    Condition,
    Grouping,
    Term,
)
from rb_interp.claims.judging import judge, judge_checks, judge_within
from rb_interp.claims.rule import expected_by_chance
from rb_interp.claims.verdict import CheckedCause, Verdict, Verdicts, Within

__all__ = [
    "Calibration",
    "CalibrationStatus",
    "CausalCheck",
    "CheckedCause",
    "Claim",
    "Condition",
    "Grouping",
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
