"""Claims C: how the unseen pair is answered (paper 2, Fig. 2)."""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.composite.claims.terms import accuracy, phase
from rb_interp.studies.composite.config import BOTH_UNSEEN, MIDDLE, SMALL, VERY_LARGE


def _others(gamma: float) -> tuple[Term, ...]:
    """What stands beside a claim about answers to unseen: the other answers, and both with early keys alone."""
    return (
        *(phase(name, gamma) for name in "ISO"),
        phase("I_early", gamma, "I, keys at positions 0 to length - 5"),
        phase("S_early", gamma, "S, keys at positions 0 to length - 5"),
        accuracy("seen_test", gamma),
    )


def _memorising(quantity: str, label: str) -> Term:
    return Term("memorising", quantity, VERY_LARGE, "final", "train", label=label)


PHASE_CLAIMS = (
    Claim(
        "C1",
        "With small initialisation the unseen pair is answered inferentially.",
        "Fig. 2b",
        (Condition(phase("I", SMALL), ">=", 0.90),),
        context=_others(SMALL),
    ),
    Claim(
        "C2",
        "With larger initialisation the unseen pair is answered symmetrically.",
        "Fig. 2a",
        (Condition(phase("S", MIDDLE), ">=", 0.90),),
        context=_others(MIDDLE),
    ),
    Claim(
        "C3",
        "With very large initialisation not even seen pairs are answered, and the unseen pair in neither way.",
        "Fig. 2, shaded",
        (
            Condition(accuracy("seen_test", VERY_LARGE), "<", 0.90),
            Condition(phase("I", VERY_LARGE), "<", 0.50),
            Condition(phase("S", VERY_LARGE), "<", 0.50),
        ),
        context=(accuracy("train", VERY_LARGE), accuracy("seen_train", VERY_LARGE)),
    ),
    Claim(
        "C3m",
        "With very large initialisation each data point is learned by itself.",
        "Sec. 5, “each individual data point”",
        (Condition(_memorising("gap", "accuracy on train - on seen_train, of unfit members"), ">=", 0.20),),
        gate=Condition(_memorising("train", "accuracy on train"), ">=", 0.90),
        context=(_memorising("train", "accuracy on train, of unfit members"), _memorising("loss", "loss")),
    ),
    Claim(
        "C4",
        "Seen pairs generalise to keys that were not trained at their position.",
        "generalisation on data",
        tuple(
            condition
            for gamma in (MIDDLE, SMALL)
            for condition in (
                Condition(accuracy("seen_test", gamma), ">=", 0.95),
                Condition(phase("gap", gamma, "accuracy on seen_train - accuracy on seen_test"), "<=", 0.03),
            )
        ),
    ),
    Claim(
        "C5",
        "The initialisation turns symmetric answers into inferential ones.",
        "Fig. 2, contrast",
        (
            Condition(phase("I", SMALL), ">=", 0.50, phase("I", MIDDLE)),
            Condition(phase("S", MIDDLE), ">=", 0.50, phase("S", SMALL)),
        ),
    ),
    Claim(
        "C6",
        "Members that fit seen pairs are in one of two phases.",
        "Sec. 4, “two phases”",
        (
            Condition(
                Term("two_phases", "decided", None, "final",
                     label="share of a seed's fitted members at gammas from .5 on that are inferential or symmetric"),
                ">=",
                0.80,
            ),
        ),
    ),
    Claim(
        "C13",
        "Without the exception hardly anything is answered as the exception would have it.",
        "control",
        tuple(
            Condition(phase("S", gamma, "share answered as the exception is trained", BOTH_UNSEEN), "<=", 0.10)
            for gamma in (MIDDLE, SMALL)
        ),
        context=tuple(
            phase(quantity, gamma, label, BOTH_UNSEEN)
            for gamma in (MIDDLE, SMALL)
            for quantity, label in (("I", "I"), ("O", "O"), ("acc_seen_test", "accuracy on seen_test"))
        ),
    ),
)  # fmt: skip
