"""Claims K: how complex the weights of a member are, and whether that tells its phase (paper 2, Figs. 5, 12 and 13)."""

from __future__ import annotations

import math

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.composite.complexity import LOWER, TWO_LAYERS
from rb_interp.studies.composite.config import MIDDLE, SMALL


def _condensed(quantity: str, gamma: float, words: str) -> Term:
    label = f"share of pairs of neurons of L0's W_Q with {words} > 0.7"
    return Term("condensation", f"{quantity}_W_Q", gamma, "final", layer=0, label=label)


def _items(quantity: str, gamma: float, label: str) -> Term:
    return Term("lattice", quantity, gamma, "final", label=label)


def _order(gamma: float) -> Term:
    return _items("pc_order", gamma, "best |Spearman| of one of the items' first three PCs with their value")


def _spread(gamma: float) -> Term:
    return _items("log_participation", gamma, "ln PR of the items")


def _over_members(probe: str, quantity: str, label: str) -> Term:
    return Term(probe, quantity, None, "final", label=label)


COMPLEXITY_CLAIMS = (
    Claim(
        "K1",
        "With small initialisation the neurons of L0's W_Q point in few directions, with larger initialisation not.",
        "Fig. 5a,b",
        (Condition(_condensed("share_abs", SMALL, "|cos|"), ">=", 0.20, _condensed("share_abs", MIDDLE, "|cos|")),),
        context=tuple(_condensed("share", gamma, "cos") for gamma in (SMALL, MIDDLE)),
    ),
    Claim(
        "K2",
        "Small initialisation leaves matrices of few directions.",
        "Fig. 13",
        (
            Condition(
                _over_members(
                    "complexity_contrast", "matrices_lower",
                    f"number of {TWO_LAYERS} matrices whose PR at gamma {SMALL:g} is at most {LOWER:g} times that "
                    f"at gamma {MIDDLE:g}",
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
            Condition(_items("participation_ratio", SMALL, "PR of the items / that of the untrained model"), "<=", 0.5),
            Condition(_spread(SMALL), "<=", math.log(LOWER), _spread(MIDDLE)),
        ),
        context=tuple(_items("participation", gamma, "PR of the items") for gamma in (SMALL, MIDDLE)),
    ),
    Claim(
        "K4",
        "The largest eigenvalue of the items' covariance grows first, the others later.",
        "Fig. 12, growth",
        (
            Condition(
                Term(
                    "eigenvalue_growth", "order", SMALL, "final",
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
        (Condition(_order(SMALL), ">=", 0.90),),
    ),
    Claim(
        "K6",
        "With larger initialisation the items are not ordered by value.",
        "Fig. 5d",
        (Condition(_order(MIDDLE), "<=", 0.60),),
    ),
    Claim(
        "K7",
        "With small initialisation items that differ by 3 or 4 are alike.",
        "Fig. 5c, steps",
        (
            Condition(_items("contrast", SMALL, "mean of C(3), C(4) - mean of C(2), C(5)"), ">", 0.0),
            Condition(_items("nearest", SMALL, "share of items whose nearest one is 3 or 4 away"), ">=", 0.50),
        ),
    ),
    Claim(
        "K8",
        "Among members of one gamma, inferential ones have an L0 W_Q of fewer directions than symmetric ones.",
        "Sec. 5.3, the hypothesis",
        (
            Condition(
                _over_members(
                    "phase_by_complexity", "auc",
                    "AUC: chance that an inferential member has a lower PR of L0's W_Q than a symmetric one of the "
                    "same gamma",
                ),
                ">=",
                0.80,
            ),
        ),
        unit="interval",
    ),
)  # fmt: skip
