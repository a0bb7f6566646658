"""Claims that several studies make: which mapping is learned first, and what embeddings of keys and anchors are like.

The former are for any study with the sets mem, rsn_train and rsn_test, the latter for one that reads ``geometry``.
"""

from __future__ import annotations

from typing import Any

from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.settings import LARGE, MIDDLE, SMALL


def curve(quantity: str, label: str, gamma: float = SMALL, **where: Any) -> Term:
    """A statistic of a member's learning curves; ``where`` names the sweep."""
    return Term("learning_order", quantity, gamma, "final", label=label, **where)


def learning_order_claims(
    prefix: str, statements: tuple[str, ...], sources: tuple[str, ...], **where: Any
) -> tuple[Claim, ...]:
    """The five claims, with ids ``prefix`` and 1 to 5.

    Args:
        prefix: of the ids. statements, sources: of the five claims, in order; statistics and thresholds are the same
            for every study. The second, third and fifth speak of a mapping that is learned: the former two at a large
            initialisation, the last at a small one.
        where: ``sweep`` and ``sweep_label`` of the terms.
    """

    def bias(gamma: float) -> Term:
        return curve("bias", "B", gamma, **where)

    conditions = (
        (Condition(bias(SMALL), ">=", 0.10), Condition(curve("bias_test", "B_test", **where), ">=", 0.10)),
        (
            Condition(curve("abs_bias", "|B|", LARGE, **where), "<=", 0.10),
            Condition(curve("margin_mem", "label entropy - L_mem (nats)", LARGE, **where), ">=", 0.3),
            Condition(curve("margin_rsn_train", "label entropy - L_rsn_train (nats)", LARGE, **where), ">=", 0.3),
        ),
        (
            Condition(curve("acc_rsn_test", "accuracy on rsn_test", LARGE, **where), "<=", 0.20),
            Condition(curve("acc_gap", "accuracy on rsn_train - accuracy on rsn_test", LARGE, **where), ">=", 0.20),
        ),
        (
            Condition(bias(SMALL), ">", 0.0, bias(MIDDLE)),
            Condition(bias(MIDDLE), ">", 0.0, bias(LARGE)),
        ),
        (Condition(curve("acc_rsn_test", "accuracy on rsn_test", **where), ">=", 0.90),),
    )
    learned = {number: reasoning_learned(gamma, **where) for number, gamma in ((2, LARGE), (3, LARGE), (5, SMALL))}
    return tuple(
        Claim(f"{prefix}{number}", statement, source, criteria, learned=learned.get(number))
        for number, (statement, source, criteria) in enumerate(
            zip(statements, sources, conditions, strict=True), start=1
        )
    )


def reasoning_learned(gamma: float = LARGE, **where: Any) -> Condition:
    """The reasoning mapping is learned at the end, as far as it was trained on."""
    return Condition(curve("acc_rsn_train", "accuracy on rsn_train", gamma, **where), ">=", 0.95)


def geometry(quantity: str, label: str, gamma: float = SMALL, stage: str = "final", **where: Any) -> Term:
    """A reading of the probe ``geometry``; ``where`` names the sweep."""
    return Term("geometry", quantity, gamma, stage, label=label, **where)


def ordered_anchors(stage: str = "final", **where: Any) -> Condition:
    """Reasoning anchors are the more alike, the closer their values."""
    label = "Spearman(|s_i - s_j|, cos) over reasoning anchors"
    return Condition(geometry("order_rho", label, stage=stage, **where), "<=", -0.80)


def alike_anchors(stage: str, **where: Any) -> Condition:
    """Memory anchors share one direction."""
    return Condition(geometry("cos_memory", "mean cos between memory anchors", stage=stage, **where), ">=", 0.50)


def ordered_component(group: str, tokens: str) -> Condition:
    """The embedding's leading component orders the tokens of a group by value."""
    return Condition(geometry(f"pc1_{group}", f"|Spearman(PC1, value)| of {tokens}"), ">=", 0.90)


def as_in_theory() -> Condition:
    """Theorem 1 predicts which reasoning anchors are alike."""
    label = "Pearson(real cos, theoretical cos) over reasoning anchors"
    return Condition(geometry("theory", label), ">=", 0.90)
