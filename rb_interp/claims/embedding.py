"""What claims ask of the embeddings of keys and anchors, for any study that reads their geometry."""

from __future__ import annotations

from typing import Any

from rb_interp.claims.criterion import Condition, Term
from rb_interp.claims.learning_order import SMALL


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
