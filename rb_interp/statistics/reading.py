"""What a probe returns: numbers, the untrained model's numbers, and the null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, nearest
from rb_interp.table_repr import UNITS, TableRepr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_QUANTITIES = 5
"""Quantities of a reading in its line, at most."""
ROUNDING = 1e-12
"""Share of a value by which sums of the same numbers in another order may differ from it."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Null(TableRepr):
    """Values that a quantity takes where the mechanism is absent by construction.

    Attributes:
        name: what was destroyed, in words (``random direction``, ``roles permuted``, ...).
        draws: the quantity under the null, shape ``[draw]``.
        side: the side on which the mechanism would lie.
        tolerance: draws this close to the value count as extreme, against rounding of ties; at least
            ROUNDING of the value.
    """

    name: str
    draws: Float[np.ndarray, " draw"]
    side: Literal["greater", "less"] = "greater"
    tolerance: float = 0.0

    @cached_property
    def mean(self) -> float:
        """Mean of the draws; NaN for none."""
        return float(np.mean(self.draws))

    @cached_property
    def sd(self) -> float:
        """Standard deviation of the draws; NaN for none."""
        return float(np.std(self.draws))

    def p_value(self, value: float) -> float:
        """One-sided p-value of an observed value, (1 + draws at least as extreme) / (1 + draws).

        In (0, 1]; NaN where the value or a draw is.

        >>> Null("random direction", np.array([0.1, 0.2, 0.3])).p_value(0.25)
        0.5
        """
        n = len(self.draws)
        ordered = self._ordered
        if math.isnan(value) or (n and math.isnan(ordered[-1])):  # NaN is sorted to the end
            return math.nan
        tolerance = max(self.tolerance, ROUNDING * abs(value)) if math.isfinite(value) else 0.0
        if self.side == "less":
            extreme = ordered.searchsorted(value + tolerance, "right")
        else:
            extreme = n - ordered.searchsorted(value - tolerance)
        return float((1 + extreme) / (1 + n))

    @cached_property
    def _ordered(self) -> np.ndarray:
        """The draws in ascending order: the heads of a scan share a null, so that it is sorted
        once."""
        return np.sort(self.draws)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Reading(TableRepr):
    """One probe on one model. A notebook shows it as its table, and so does ``print``.

    Attributes:
        probe: the probe's name. layer, head: where it looked (None: not tied to one).
        values: quantity -> number; the probe's docstring gives unit and range.
        untrained: the same quantities on the untrained model; empty where none was given.
        nulls: quantity -> its null, for the quantities that have one.
        arrays: what figures draw (patterns, spectra, cosine matrices, coordinates).
        n: rows that the reading rests on (0 for readings of weights alone).
        tables: name -> DataFrame, for what one number does not tell (accuracy by number of hops).
        notes: quantity -> why its value, or the untrained model's, is NaN or infinite, or why its
            null says nothing, in words; no entry for the others.
    """

    probe: str
    values: Mapping[str, float]
    layer: int | None = None
    head: int | None = None
    untrained: Mapping[str, float] = field(default_factory=dict)
    nulls: Mapping[str, Null] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    n: int = 0
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """One row per quantity, with its untrained value, its null, p-value and note.

        The note says why a number is NaN, or what its null cannot say. It is empty where there is
        nothing to say.

        >>> Reading("uniformity", {"tv": 0.1}, n=5).to_frame()[["probe", "quantity", "value", "n"]]
                probe quantity  value  n
        0  uniformity       tv    0.1  5
        """
        return pd.DataFrame(self.noted_rows())

    def noted_rows(self) -> list[dict]:
        """The rows of the table with their quantity's note, and the notes of the whole reading."""
        general = [
            f"{name}: {note}" for name, note in self.notes.items() if name not in self.values
        ]
        rows = self.rows()
        for row in rows:
            notes = [self.notes.get(row["quantity"], ""), *general]
            row["note"] = " ".join(notes).strip()
        return rows

    def rows(self, **columns: Any) -> list[dict]:
        """The rows that a run keeps, one dictionary per quantity: all columns but the note.

        Args:
            columns: those of the member, such as gamma, seed and stage.
        """
        rows = []
        for quantity, value in self.values.items():
            null = self.nulls.get(quantity)
            row = {
                **columns,
                "probe": self.probe,
                "layer": self.layer,
                "head": self.head,
                "quantity": quantity,
                "value": float(value),
                "untrained": float(self.untrained.get(quantity, np.nan)),
                "null": null.name if null else None,
                "null_mean": null.mean if null else np.nan,
                "null_sd": null.sd if null else np.nan,
                "p_value": null.p_value(float(value)) if null else np.nan,
                "n": self.n,
            }
            rows.append(row)
        return rows

    @property
    def probe_text(self) -> str:
        """Probe, layer and head in words, such as ``uniformity, L0, head 2``."""
        parts = [self.probe]
        if self.layer is not None:
            parts.append(f"L{self.layer}")
        if self.head is not None:
            parts.append(f"head {self.head}")
        return ", ".join(parts)

    @property
    def _title(self) -> str:
        """Its place, and the rows that it rests on, of which a reading of weights has none."""
        return f"{self.probe_text}, n = {self.n}" if self.n else f"{self.probe_text}, from weights"

    def plot(self, ax: Axes | None = None, *, quantity: str = "") -> Axes:
        """Each quantity as a dot, beside the untrained model's (an open dot) and 95 % of its null's
        draws (a bar).

        NaN is a cross, infinity an arrow at the edge. Draws on ``ax``, or on a new figure, and
        returns the axes. ``quantity`` draws those alone whose names end in it, such as
        ``probability`` of a lens; ``mean_pattern`` of `uniformity` is a heat map. Raises
        ArgumentError if there is no such quantity.
        """
        from rb_interp.plots import NO_DRAWS, Point, attention, points

        if quantity == "mean_pattern" and quantity in self.arrays:
            return attention(self.arrays[quantity], ax=ax)
        rows = []
        for name, value in self.values.items():
            if name.endswith(quantity):
                untrained = self.untrained.get(name, np.nan)
                draws = self.nulls[name].draws if name in self.nulls else NO_DRAWS
                rows.append(Point(name, value, beside=untrained, null=draws))
        if quantity and not rows:
            known = {name.rpartition(":")[2] for name in self.values}
            raise ArgumentError(f"plot got quantity={quantity!r}; {nearest(quantity, known)}")
        unit = quantity or UNITS.get(self.probe, "value")
        return points(ax, rows, unit, self._title, beside="untrained", mixed=not quantity)

    def __repr__(self) -> str:
        numbers = [f"{name}={value:.4g}" for name, value in self.values.items()]
        if len(numbers) > MAX_QUANTITIES:
            numbers[MAX_QUANTITIES:] = [f"{len(numbers) - MAX_QUANTITIES} more"]
        text = f"{self.probe_text}, n={self.n}: {', '.join(numbers)}"
        return f"Reading({repr(text)[1:-1]})"  # names are the caller's, and may hold anything

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """The columns that tell something, and why a number is none."""
        columns = ["quantity", "value", "untrained", "null", "null_mean", "null_sd", "p_value"]
        notes = [f"{name}: {note}" for name, note in self.notes.items()]
        return self._title, pd.DataFrame(self.to_frame()[columns]).fillna({"null": ""}), notes
