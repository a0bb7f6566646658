"""Claims D, which vectors are parallel, and K, how complex the weights are (Figs. 4, 5, 12, 13)."""

import math

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.composite.claims_flow import share
from rb_interp.studies.composite.config import (
    MAX_RATIO,
    MIDDLE,
    N_MATRICES,
    SMALL,
)

_ANSWER = {
    g: share("answer", g, 1, "share of v's variance that the answer explains")
    for g in (MIDDLE, SMALL)
}
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
    shown = (
        [*_WORDS]
        if probe == "answer_cosines"
        else [name for name in _WORDS if name != "different_drawn"]
    )
    return tuple(_cosine(probe, name, gamma) for gamma in gammas for name in shown)


def _answer_context(gamma: float) -> tuple[Term, ...]:
    return (
        share("key", gamma, 1, "share that the key explains"),
        share("pair", gamma, 1, "share that the pair explains"),
        share(
            "answer",
            gamma,
            1,
            "share that the answer explains where all rows have the same noise",
            "grid",
        ),
        share(
            "key",
            gamma,
            1,
            "share that the key explains where all rows have the same noise",
            "grid",
        ),
    )


REPRESENTATION_CLAIMS = (
    Claim(
        "D1",
        "In an inferential solution the last position is parallel after L1 for pairs and keys with "
        "the same answer.",
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
        "In an inferential solution L1's value rows of first anchors are parallel where the first "
        "step gives the same.",
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
            Condition(_ANSWER[SMALL], ">=", 0.80),
            Condition(_ANSWER[SMALL], ">=", 0.20, _ANSWER[MIDDLE]),
        ),
        context=(*_answer_context(SMALL), *_answer_context(MIDDLE)),
    ),
)


def _condensed(quantity: str, gamma: float, words: str) -> Term:
    label = f"share of pairs of neurons of L0's W_Q with {words} > 0.7"
    return Term("condensation", f"{quantity}_W_Q", gamma, "final", layer=0, label=label)


def _items(quantity: str, gamma: float, label: str) -> Term:
    return Term("lattice", quantity, gamma, "final", label=label)


_ORDER, _SPREAD = (
    {gamma: _items(name, gamma, label) for gamma in (MIDDLE, SMALL)}
    for name, label in (
        ("pc_order", "best |Spearman| of one of the items' first three PCs with their value"),
        ("log_participation", "ln PR of the items"),
    )
)


COMPLEXITY_CLAIMS = (
    Claim(
        "K1",
        "With small initialisation the neurons of L0's W_Q point in few directions, with larger "
        "initialisation not.",
        "Fig. 5a,b",
        (
            Condition(
                _condensed("share_abs", SMALL, "|cos|"),
                ">=",
                0.20,
                _condensed("share_abs", MIDDLE, "|cos|"),
            ),
        ),
        context=tuple(_condensed("share", gamma, "cos") for gamma in (SMALL, MIDDLE)),
    ),
    Claim(
        "K2",
        "Small initialisation leaves matrices of few directions.",
        "Fig. 13",
        (
            Condition(
                Term(
                    "complexity_contrast",
                    "matrices_lower",
                    None,
                    "final",
                    label=f"number of {N_MATRICES} matrices whose PR at gamma {SMALL:g} is at most {MAX_RATIO:g} times "
                    f"that at gamma {MIDDLE:g}",
                ),
                ">=",
                10,
            ),
        ),
    ),
    Claim(
        "K3",
        "With small initialisation the items' embeddings lie in few directions.",
        "Fig. 12",
        (
            Condition(
                _items(
                    "participation_ratio", SMALL, "PR of the items / that of the untrained model"
                ),
                "<=",
                0.5,
            ),
            Condition(_SPREAD[SMALL], "<=", math.log(MAX_RATIO), _SPREAD[MIDDLE]),
        ),
        context=tuple(
            _items("participation", gamma, "PR of the items") for gamma in (SMALL, MIDDLE)
        ),
    ),
    Claim(
        "K4",
        "The largest eigenvalue of the items' covariance grows first, the others later.",
        "Fig. 12, growth",
        (
            Condition(
                Term(
                    "eigenvalue_growth",
                    "order",
                    SMALL,
                    "final",
                    label="Spearman(rank, step of half the final value) over the five largest eigenvalues",
                ),
                ">=",
                0.70,
            ),
        ),
    ),
    Claim(
        "K5",
        "With small initialisation the items are ordered by value.",
        "Fig. 5c",
        (Condition(_ORDER[SMALL], ">=", 0.90),),
    ),
    Claim(
        "K6",
        "With larger initialisation the items are not ordered by value.",
        "Fig. 5d",
        (Condition(_ORDER[MIDDLE], "<=", 0.60),),
    ),
    Claim(
        "K7",
        "With small initialisation items that differ by 3 or 4 are alike.",
        "Fig. 5c, steps",
        (
            Condition(
                _items("contrast", SMALL, "mean of C(3), C(4) - mean of C(2), C(5)"), ">", 0.0
            ),
            Condition(
                _items("nearest", SMALL, "share of items whose nearest one is 3 or 4 away"),
                ">=",
                0.50,
            ),
        ),
    ),
    Claim(
        "K8",
        "Among members of one gamma, inferential ones have an L0 W_Q of fewer directions than "
        "symmetric ones.",
        "Sec. 5.3, the hypothesis",
        (
            Condition(
                Term(
                    "phase_by_complexity",
                    "auc",
                    None,
                    "final",
                    label="AUC: chance that an inferential member has a lower PR of L0's W_Q than a symmetric one of "
                    "the same gamma",
                ),
                ">=",
                0.80,
            ),
        ),
        unit="interval",
    ),
)
