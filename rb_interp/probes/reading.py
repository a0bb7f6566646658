"""What a probe returns: numbers, the untrained twin's numbers, and the null beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Null:
    """Values that a quantity takes where the mechanism is absent by construction.

    Attributes:
        name: what was destroyed, in words (``random direction``, ``roles permuted``, ...).
        draws: the quantity under the null, shape ``[draw]``.
        side: the side on which the mechanism would lie.
    """

    name: str
    draws: Float[np.ndarray, " draw"]
    side: Literal["greater", "less"] = "greater"

    def p_value(self, value: float) -> float:
        """One-sided p-value of an observed value, (1 + draws at least as extreme) / (1 + draws).

        In (0, 1]; NaN where the value or a draw is.

        >>> Null("random direction", np.array([0.1, 0.2, 0.3])).p_value(0.25)
        0.5
        """
        if np.isnan(value) or np.isnan(self.draws).any():
            return float("nan")
        extreme = self.draws >= value if self.side == "greater" else self.draws <= value
        return float((1 + extreme.sum()) / (1 + len(self.draws)))


@dataclass(frozen=True)
class Reading:
    """One probe on one model.

    Attributes:
        probe: the probe's name. layer, head: where it looked (None: not tied to one).
        values: quantity -> number; the probe's docstring gives unit and range.
        twin: the same quantities on the untrained twin; empty where none was given.
        nulls: quantity -> its null, for the quantities that have one.
        arrays: what figures draw (patterns, spectra, cosine matrices, coordinates).
        n: rows that the reading rests on (0 for readings of weights alone).
    """

    probe: str
    values: Mapping[str, float]
    layer: int | None = None
    head: int | None = None
    twin: Mapping[str, float] = field(default_factory=dict)
    nulls: Mapping[str, Null] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    n: int = 0

    def table(self) -> list[dict]:
        """One row per quantity: probe, layer, head, quantity, value, twin, null, null_mean, null_sd, p_value, n."""
        return [self._row(quantity) for quantity in self.values]

    def _row(self, quantity: str) -> dict:
        null = self.nulls.get(quantity)
        value = float(self.values[quantity])
        return {
            "probe": self.probe,
            "layer": self.layer,
            "head": self.head,
            "quantity": quantity,
            "value": value,
            "twin": float(self.twin.get(quantity, np.nan)),
            "null": None if null is None else null.name,
            "null_mean": np.nan if null is None else float(np.mean(null.draws)),
            "null_sd": np.nan if null is None else float(np.std(null.draws)),
            "p_value": np.nan if null is None else null.p_value(value),
            "n": self.n,
        }
