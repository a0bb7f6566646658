"""Claims as data, with criteria fixed in advance, and the verdicts that a run's readings allow."""

from typing import TYPE_CHECKING

from rb_interp.lazy import lazy_package

if TYPE_CHECKING:
    from rb_interp.claims import rule as rule
    from rb_interp.claims.calibration import Calibration as Calibration
    from rb_interp.claims.calibration import Standing as Standing
    from rb_interp.claims.causal_checks import CausalCheck as CausalCheck
    from rb_interp.claims.causal_checks import CheckedCause as CheckedCause
    from rb_interp.claims.causal_checks import judge_checks as judge_checks
    from rb_interp.claims.criterion import Claim as Claim
    from rb_interp.claims.criterion import Condition as Condition
    from rb_interp.claims.criterion import Term as Term
    from rb_interp.claims.judging import expected_by_chance as expected_by_chance
    from rb_interp.claims.judging import judge as judge
    from rb_interp.claims.verdict import Verdict as Verdict
    from rb_interp.claims.verdict import Verdicts as Verdicts
    from rb_interp.claims.within import Grouping as Grouping
    from rb_interp.claims.within import Within as Within
    from rb_interp.claims.within import judge_within as judge_within
else:
    __getattr__, __dir__, __all__ = lazy_package(
        __name__,
        {
            "calibration": ("Calibration", "Standing"),
            "causal_checks": ("CausalCheck", "CheckedCause", "judge_checks"),
            "criterion": ("Claim", "Condition", "Term"),
            "judging": ("expected_by_chance", "judge"),
            "verdict": ("Verdict", "Verdicts"),
            "within": ("Grouping", "Within", "judge_within"),
        },
        modules=("rule",),
    )
