"""What claims of the composite study speak of, in more than one family."""

from __future__ import annotations

from rb_interp.claims import Term


def phase(quantity: str, gamma: float, label: str = "") -> Term:
    """A value of the reading ``phase`` at the last step."""
    return Term("phase", quantity, gamma, "final", label=label or quantity)


def accuracy(set: str, gamma: float) -> Term:
    """Accuracy on a set at the last step."""
    return phase(f"acc_{set}", gamma, f"accuracy on {set}")
