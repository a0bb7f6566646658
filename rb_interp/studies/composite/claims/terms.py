"""What claims of the composite study speak of, in more than one family."""

from __future__ import annotations

from rb_interp.claims import Term


def phase(quantity: str, gamma: float, label: str = "", sweep: str = "") -> Term:
    """A value of the reading ``phase`` at the last step."""
    return Term("phase", quantity, gamma, "final", label=label or quantity, sweep=sweep)


def accuracy(set: str, gamma: float) -> Term:
    """Accuracy on a set at the last step."""
    return phase(f"acc_{set}", gamma, f"accuracy on {set}")


def share(grouping: str, gamma: float, layer: int, label: str, set: str = "seen_test") -> Term:
    """Share of variance at the last position after a layer's attention that a grouping explains, at the last step."""
    return Term("variance_shares", grouping, gamma, "final", set, layer, label)
