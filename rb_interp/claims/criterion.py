"""What a claim is made of: terms that are read, parts that are compared with a threshold, claims that join parts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Term:
    """One number per seed, found in the table of readings.

    Attributes:
        probe, quantity: as the probe names them.
        gamma, stage: of the member that is read (stage ``init``, ``half``, ``matched`` or ``final``).
        rows: the inputs behind the number (``rsn_train``, ``mem``); empty for weights and curves.
        layer: counted from 0; None where the reading is not tied to one.
        label: how people call the number.
    """

    probe: str
    quantity: str
    gamma: float
    stage: str
    rows: str = ""
    layer: int | None = None
    label: str = ""

    @property
    def place(self) -> str:
        """Gamma and stage, in words."""
        return f"gamma {self.gamma:g}, {self.stage}"


@dataclass(frozen=True)
class Part:
    """A statistic per seed (a term, or a term less another of the same seed) beside its threshold.

    >>> bias = Term("learning_order", "bias", 0.8, "final", label="B")
    >>> Part(bias, ">=", 0.1).criterion
    'gamma 0.8, final: B >= 0.1'
    >>> Part(bias, ">=", 0.1).met(0.1)
    True
    """

    of: Term
    operator: Literal[">=", "<=", ">", "<"]
    threshold: float
    minus: Term | None = None

    def met(self, value: float) -> bool:
        """Whether one value is on the claimed side; False for NaN."""
        return bool(COMPARE[self.operator](value, self.threshold))

    @property
    def statistic(self) -> str:
        """What is computed for each seed, in words."""
        if self.minus is None:
            return self.of.label
        return f"{self.of.label} ({self.of.place}) - {self.minus.label} ({self.minus.place})"

    @property
    def comparison(self) -> str:
        """The statistic and its threshold."""
        return f"{self.statistic} {self.operator} {self.threshold:g}"

    @property
    def criterion(self) -> str:
        """Where, what and how much, as printed."""
        return self.comparison if self.minus else f"{self.of.place}: {self.comparison}"


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper that can be checked.

    Attributes:
        id: as cited everywhere (``A1``).
        statement: the claim in one sentence.
        source: where the paper says so.
        parts: all must hold.
        gate: a seed counts only where it meets this too.
        unit: what the interval is of: the ``mean`` over seeds, or the ``share`` of units whose value is 1.
        beside: terms that are shown with the verdict and judge nothing.
    """

    id: str
    statement: str
    source: str
    parts: tuple[Part, ...]
    gate: Part | None = None
    unit: Literal["mean", "share"] = "mean"
    beside: tuple[Term, ...] = ()

    @property
    def gamma(self) -> float:
        """Gamma of the first part's first term."""
        return self.parts[0].of.gamma

    @property
    def stage(self) -> str:
        """Stage of the first part's first term."""
        return self.parts[0].of.stage

    @property
    def criterion(self) -> str:
        """All parts as printed, with the gate; the place is said once where the parts share it."""
        one_place = not any(part.minus for part in self.parts) and len({part.of.place for part in self.parts}) == 1
        if one_place:
            text = f"{self.parts[0].of.place}: " + " and ".join(part.comparison for part in self.parts)
        else:
            text = " and ".join(part.criterion for part in self.parts)
        if self.unit == "share":
            text += "; a share meets a threshold with its whole Clopper-Pearson interval"
        return text + (f"; in seeds with {self.gate.comparison}" if self.gate else "")
