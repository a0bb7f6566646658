"""A circuit's name, and the numbers that it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Circuit:
    """What a member learned, by name, and how sure that is.

    Attributes:
        name: the circuit.
        named_by: how it was named, such as ``cause``: by interventions.
        rule: the criterion of the name, in words.
        shares: what the name rests on: quantity -> share of the answer's change, in [0, 1]; NaN if no row counts.

    >>> Circuit("average-then-key", "cause", "both shares at least .80", {"key:from_key": 0.98})
    Circuit: average-then-key, by cause (key:from_key 0.98)
    """

    name: str
    named_by: str
    rule: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in self.shares.items() if math.isfinite(share))
        return f"Circuit: {self.name}, by {self.named_by}{f' ({shares})' * bool(shares)}"
