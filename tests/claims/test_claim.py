"""Conditions of a claim at their threshold, and a claim that no interval belongs to."""

from __future__ import annotations

import pytest
from claims.planted import planted

from rb_interp.claims import Claim, Condition, Term, judge
from rb_interp.errors import ArgumentError

BIAS = Term("learning_order", "bias", 0.8, "final", label="B")


@pytest.mark.parametrize(
    ("operator", "at_threshold", "below", "above"),
    [
        (">=", "HOLDS", "FAILS", "HOLDS"),
        (">", "FAILS", "FAILS", "HOLDS"),
        ("<=", "HOLDS", "HOLDS", "FAILS"),
        ("<", "FAILS", "HOLDS", "FAILS"),
    ],
)
def test_strict_and_other_thresholds_differ_only_at_the_threshold(
    operator, at_threshold, below, above
):
    claim = Claim("X", "One.", "here", (Condition(BIAS, operator, 0.5),))
    outcomes = [judge(planted(BIAS, [x] * 8), [claim])[0].outcome for x in (0.5, 0.4, 0.6)]
    assert outcomes == [at_threshold, below, above]


def test_a_difference_has_no_interval_of_its_own():
    term = Term("kind", "other", None, "final")
    with pytest.raises(
        ArgumentError, match="claim K compares terms, which have no common interval"
    ):
        Claim("K", "Tells.", "text", (Condition(term, "<=", 0.1, minus=term),), unit="interval")
