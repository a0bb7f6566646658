"""Claims D, which vectors are parallel, and K, how complex the weights are (Figs. 4, 5, 12, 13)."""

import math

from rb_interp.claims import Condition, Term
from rb_interp.claims.claim import at_least, at_most, make_claim
from rb_interp.studies.composite.config import MAX_RATIO, MIDDLE, N_MATRICES, SMALL


def share(grouping: str, gamma: float, layer: int, label: str, set: str = "seen_test") -> Term:
    """Share of variance at the last position after a layer's attention that a grouping explains, at
    the last step."""
    return Term("variance_shares", grouping, gamma, "final", set, layer, label)


def _answer(gamma: float) -> Term:
    return share("answer", gamma, 1, "share of v's variance that the answer explains")


_VECTORS = {"answer_cosines": "v", "step_cosines": "u"}
_QUANTITY_LABELS = {
    "equal": "equal targets",
    "different": "different targets",
    "different_drawn": "different targets in the cells of Fig. 4",
    "centred_equal": "equal targets, centred",
    "centred_difference": "equal less different targets, centred",
}


def _cosine(probe: str, quantity: str, gamma: float) -> Term:
    label = f"mean cos of {_VECTORS[probe]}, {_QUANTITY_LABELS.get(quantity, '')}"
    if quantity == "difference":
        label = f"mean cos of {_VECTORS[probe]}, equal less different targets"
    return Term(probe, quantity, gamma, "final", "grid", 1, label)


def _context(probe: str, *gammas: float) -> tuple[Term, ...]:
    """Both means, raw and centred."""
    means = {**_QUANTITY_LABELS}
    if probe == "step_cosines":
        del means["different_drawn"]
    return tuple(_cosine(probe, name, gamma) for gamma in gammas for name in means)


def _answer_context(gamma: float) -> tuple[Term, ...]:
    noise = "explains where all rows have the same noise"
    return (
        share("key", gamma, 1, "share that the key explains"),
        share("pair", gamma, 1, "share that the pair explains"),
        share("answer", gamma, 1, f"share that the answer {noise}", "grid"),
        share("key", gamma, 1, f"share that the key {noise}", "grid"),
    )


REPRESENTATION_CLAIMS = (
    make_claim(
        "D1",
        "In an inferential solution the last position is parallel after L1 for pairs and keys with "
        "the same answer.",
        "Fig. 4a",
        at_least(_cosine("answer_cosines", "equal", SMALL), 0.90),
        at_least(_cosine("answer_cosines", "difference", SMALL), 0.30),
        context=_context("answer_cosines", SMALL),
    ),
    make_claim(
        "D2",
        "In a symmetric solution it is not.",
        "Fig. 4b",
        at_most(_cosine("answer_cosines", "equal", MIDDLE), 0.60),
        context=_context("answer_cosines", MIDDLE),
    ),
    make_claim(
        "D3",
        "Equal answers set vectors apart from different ones more in inferential solutions.",
        "Fig. 4, contrast",
        at_least(
            _cosine("answer_cosines", "difference", SMALL),
            0.20,
            _cosine("answer_cosines", "difference", MIDDLE),
        ),
        context=_context("answer_cosines", SMALL, MIDDLE),
    ),
    make_claim(
        "D4",
        "In an inferential solution L1's value rows of first anchors are parallel where the first "
        "step gives the same.",
        "Fig. 4c",
        at_least(_cosine("step_cosines", "equal", SMALL), 0.80),
        at_least(_cosine("step_cosines", "difference", SMALL), 0.30),
        context=(*_context("step_cosines", SMALL), _cosine("step_cosines", "difference", MIDDLE)),
    ),
    make_claim(
        "D5",
        "In an inferential solution the answer fixes the last position after L1's attention.",
        "Sec. 5.2",
        at_least(_answer(SMALL), 0.80),
        at_least(_answer(SMALL), 0.20, _answer(MIDDLE)),
        context=(*_answer_context(SMALL), *_answer_context(MIDDLE)),
    ),
)


def _condensed(quantity: str, gamma: float, comparison: str) -> Term:
    label = f"share of pairs of neurons of L0's W_Q with {comparison} > 0.7"
    return Term("condensation", f"{quantity}_W_Q", gamma, "final", layer=0, label=label)


def _items(quantity: str, gamma: float, label: str) -> Term:
    return Term("lattice", quantity, gamma, "final", label=label)


def _ordered(gamma: float) -> Term:
    label = "best |Spearman| of one of the items' first three PCs with their value"
    return _items("pc_order", gamma, label)


def _spread(gamma: float) -> Term:
    return _items("log_participation", gamma, "ln PR of the items")


COMPLEXITY_CLAIMS = (
    make_claim(
        "K1",
        "With small initialisation the neurons of L0's W_Q point in few directions, with larger "
        "initialisation not.",
        "Fig. 5a,b",
        at_least(
            _condensed("share_abs", SMALL, "|cos|"), 0.20, _condensed("share_abs", MIDDLE, "|cos|")
        ),
        context=tuple(_condensed("share", gamma, "cos") for gamma in (SMALL, MIDDLE)),
    ),
    make_claim(
        "K2",
        "Small initialisation leaves matrices of few directions.",
        "Fig. 13",
        at_least(
            Term(
                "complexity_contrast",
                "matrices_lower",
                None,
                "final",
                label=f"number of {N_MATRICES} matrices whose PR at gamma {SMALL:g} is at most {MAX_RATIO:g} times "
                f"that at gamma {MIDDLE:g}",
            ),
            10,
        ),
    ),
    make_claim(
        "K3",
        "With small initialisation the items' embeddings lie in few directions.",
        "Fig. 12",
        at_most(
            _items("participation_ratio", SMALL, "PR of the items / that of the untrained model"),
            0.5,
        ),
        at_most(_spread(SMALL), math.log(MAX_RATIO), _spread(MIDDLE)),
        context=tuple(
            _items("participation", gamma, "PR of the items") for gamma in (SMALL, MIDDLE)
        ),
    ),
    make_claim(
        "K4",
        "The largest eigenvalue of the items' covariance grows first, the others later.",
        "Fig. 12, growth",
        at_least(
            Term(
                "eigenvalue_growth",
                "order",
                SMALL,
                "final",
                label="Spearman(rank, step of half the final value) over the five largest eigenvalues",
            ),
            0.70,
        ),
    ),
    make_claim(
        "K5",
        "With small initialisation the items are ordered by value.",
        "Fig. 5c",
        at_least(_ordered(SMALL), 0.90),
    ),
    make_claim(
        "K6",
        "With larger initialisation the items are not ordered by value.",
        "Fig. 5d",
        at_most(_ordered(MIDDLE), 0.60),
    ),
    make_claim(
        "K7",
        "With small initialisation items that differ by 3 or 4 are alike.",
        "Fig. 5c, steps",
        Condition(_items("contrast", SMALL, "mean of C(3), C(4) - mean of C(2), C(5)"), ">", 0.0),
        at_least(_items("nearest", SMALL, "share of items whose nearest one is 3 or 4 away"), 0.50),
    ),
    make_claim(
        "K8",
        "Among members of one gamma, inferential ones have an L0 W_Q of fewer directions than "
        "symmetric ones.",
        "Sec. 5.3, the hypothesis",
        at_least(
            Term(
                "phase_by_complexity",
                "auc",
                None,
                "final",
                label="AUC: chance that an inferential member has a lower PR of L0's W_Q than a symmetric one of "
                "the same gamma",
            ),
            0.80,
        ),
        unit="interval",
    ),
)
