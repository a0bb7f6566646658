"""Claims that several studies of paper 1 make: what is learned first, and how embeddings lie."""

from __future__ import annotations

from typing import Any

from rb_interp.claims.claim import Claim, Condition, Term
from rb_interp.settings import LARGE, MIDDLE, SMALL


def curve(quantity: str, label: str, gamma: float = SMALL, **where: Any) -> Term:
    """A statistic of a member's learning curves; ``where`` names the sweep."""
    return Term("learning_order", quantity, gamma, "final", label=label, **where)


def learning_order_claims(
    prefix: str, statements: tuple[str, ...], sources: tuple[str, ...], **where: Any
) -> tuple[Claim, ...]:
    """Five claims on which mapping is learned first, with ids ``prefix`` and 1 to 5.

    The second and third speak of a mapping that is learned at a large initialisation, the fifth at
    a small one. ``where``: ``sweep`` and ``sweep_label`` of the terms.
    """
    large, middle, small = (curve("bias", "B", gamma, **where) for gamma in (LARGE, MIDDLE, SMALL))
    conditions = (
        (
            Condition(small, ">=", 0.10),
            Condition(curve("bias_test", "B_test", **where), ">=", 0.10),
        ),
        (
            Condition(curve("abs_bias", "|B|", LARGE, **where), "<=", 0.10),
            Condition(
                curve("margin_mem", "label entropy - L_mem (nats)", LARGE, **where), ">=", 0.3
            ),
            Condition(
                curve("margin_rsn_train", "label entropy - L_rsn_train (nats)", LARGE, **where),
                ">=",
                0.3,
            ),
        ),
        (
            Condition(curve("acc_rsn_test", "accuracy on rsn_test", LARGE, **where), "<=", 0.20),
            Condition(
                curve("acc_gap", "accuracy on rsn_train - accuracy on rsn_test", LARGE, **where),
                ">=",
                0.20,
            ),
        ),
        (Condition(small, ">", 0.0, middle), Condition(middle, ">", 0.0, large)),
        (Condition(curve("acc_rsn_test", "accuracy on rsn_test", **where), ">=", 0.90),),
    )
    gammas = (None, LARGE, LARGE, None, SMALL)
    learned = (reasoning_learned(gamma, **where) if gamma else None for gamma in gammas)
    parts = zip(statements, sources, conditions, learned, strict=True)
    return tuple(
        Claim(f"{prefix}{i}", *part[:3], learned=part[3]) for i, part in enumerate(parts, start=1)
    )


def reasoning_learned(gamma: float = LARGE, **where: Any) -> Condition:
    """The reasoning mapping is learned at the end, as far as it was trained on."""
    return Condition(curve("acc_rsn_train", "accuracy on rsn_train", gamma, **where), ">=", 0.95)


def geometry(
    quantity: str, label: str, gamma: float = SMALL, stage: str = "final", **where: Any
) -> Term:
    """A reading of the probe ``geometry``; ``where`` names the sweep."""
    return Term("geometry", quantity, gamma, stage, label=label, **where)


def ordered_anchors(stage: str = "final", **where: Any) -> Condition:
    """Reasoning anchors are the more alike, the closer their values."""
    label = "Spearman(|s_i - s_j|, cos) over reasoning anchors"
    return Condition(geometry("order_rho", label, stage=stage, **where), "<=", -0.80)


def alike_anchors(stage: str, **where: Any) -> Condition:
    """Memory anchors share one direction."""
    return Condition(
        geometry("cos_memory", "mean cos between memory anchors", stage=stage, **where), ">=", 0.50
    )
