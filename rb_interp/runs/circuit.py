"""A circuit's name, and the numbers that it rests on."""

from __future__ import annotations

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
    """

    name: str
    named_by: str
    rule: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)
