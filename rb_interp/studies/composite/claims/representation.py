"""Claims D: which vectors are parallel before the answer is read (paper 2, Fig. 4 and Sec. 5.2)."""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.composite.claims.terms import share
from rb_interp.studies.composite.config import MIDDLE, SMALL

_VECTORS = {"answer_cosines": "v", "step_cosines": "u"}
_WORDS = {
    "equal": "equal targets",
    "different": "different targets",
    "different_drawn": "different targets in the cells of Fig. 4",
    "centred_equal": "equal targets, centred",
    "centred_difference": "equal less different targets, centred",
}


def _cosine(probe: str, quantity: str, gamma: float) -> Term:
    label = f"mean cos of {_VECTORS[probe]}, {_WORDS.get(quantity, '')}"
    if quantity == "difference":
        label = f"mean cos of {_VECTORS[probe]}, equal less different targets"
    return Term(probe, quantity, gamma, "final", "grid", 1, label)


def _context(probe: str, *gammas: float) -> tuple[Term, ...]:
    """Both means, raw and centred."""
    shown = [*_WORDS] if probe == "answer_cosines" else [name for name in _WORDS if name != "different_drawn"]
    return tuple(_cosine(probe, name, gamma) for gamma in gammas for name in shown)


def _answer(gamma: float) -> Term:
    return share("answer", gamma, 1, "share of v's variance that the answer explains")


def _answer_context(gamma: float) -> tuple[Term, ...]:
    return (
        share("key", gamma, 1, "share that the key explains"),
        share("pair", gamma, 1, "share that the pair explains"),
        share("answer", gamma, 1, "share that the answer explains where all rows have the same noise", "grid"),
        share("key", gamma, 1, "share that the key explains where all rows have the same noise", "grid"),
    )


REPRESENTATION_CLAIMS = (
    Claim(
        "D1",
        "In an inferential solution the last position is parallel after L1 for pairs and keys with the same answer.",
        "Fig. 4a",
        (
            Condition(_cosine("answer_cosines", "equal", SMALL), ">=", 0.90),
            Condition(_cosine("answer_cosines", "difference", SMALL), ">=", 0.30),
        ),
        context=_context("answer_cosines", SMALL),
    ),
    Claim(
        "D2",
        "In a symmetric solution it is not.",
        "Fig. 4b",
        (Condition(_cosine("answer_cosines", "equal", MIDDLE), "<=", 0.60),),
        context=_context("answer_cosines", MIDDLE),
    ),
    Claim(
        "D3",
        "Equal answers set vectors apart from different ones more in inferential solutions.",
        "Fig. 4, contrast",
        (
            Condition(
                _cosine("answer_cosines", "difference", SMALL),
                ">=",
                0.20,
                _cosine("answer_cosines", "difference", MIDDLE),
            ),
        ),
        context=_context("answer_cosines", SMALL, MIDDLE),
    ),
    Claim(
        "D4",
        "In an inferential solution L1's value rows of first anchors are parallel where the first step gives the same.",
        "Fig. 4c",
        (
            Condition(_cosine("step_cosines", "equal", SMALL), ">=", 0.80),
            Condition(_cosine("step_cosines", "difference", SMALL), ">=", 0.30),
        ),
        context=(*_context("step_cosines", SMALL), _cosine("step_cosines", "difference", MIDDLE)),
    ),
    Claim(
        "D5",
        "In an inferential solution the answer fixes the last position after L1's attention.",
        "Sec. 5.2",
        (
            Condition(_answer(SMALL), ">=", 0.80),
            Condition(_answer(SMALL), ">=", 0.20, _answer(MIDDLE)),
        ),
        context=(*_answer_context(SMALL), *_answer_context(MIDDLE)),
    ),
)
