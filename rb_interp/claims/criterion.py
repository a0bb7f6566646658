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

STUDY_PARTS = {
    "sweep": "Emb-MLP",
    "descent": "Emb-MLP under gradient descent",
    "one_layer": "one-layer model under gradient descent",
    "keys": "labels uniform on the keys",
    "near_sum": "labels near the key",
    "ranges": "a label range for each group",
}
"""What the parts of a study of several are called, by name."""
STAGE_WORDS = {"leaving": "leaving the plateau", "before_memory": "before memory is learned"}
"""Stages whose name is not what they are called."""


@dataclass(frozen=True)
class Term:
    """One number per seed, found in the table of readings.

    Attributes:
        probe, quantity: as the probe names them.
        gamma, stage: of the member that is read (stage ``init``, ``half``, ``matched`` or ``final``; studies of several
            parts also have ``leaving``, ``early``, ``late`` and ``before_memory``).
        rows: the inputs behind the number (``rsn_train``, ``mem``), or the tokens; empty for weights and curves.
        layer: counted from 0; None where the reading is not tied to one.
        label: how people call the number.
        part: of a study of several parts, empty for what compares them; a table without such a column ignores it.
    """

    probe: str
    quantity: str
    gamma: float
    stage: str
    rows: str = ""
    layer: int | None = None
    label: str = ""
    part: str = ""

    @property
    def place(self) -> str:
        """Part, gamma and stage, in words.

        >>> Term("drift", "r2", 0.8, "leaving", "anchor", part="one_layer").place
        'one-layer model under gradient descent, gamma 0.8, leaving the plateau'
        """
        where = f"gamma {self.gamma:g}, {STAGE_WORDS.get(self.stage, self.stage)}"
        return f"{STUDY_PARTS.get(self.part, self.part)}, {where}" if self.part else where


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
        """All parts as printed, with the gate; a place is said once where parts in a row share it."""
        printed, said = [], ""
        for part in self.parts:
            place = "" if part.minus else part.of.place
            printed.append(part.comparison if place and place == said else part.criterion)
            said = place
        text = " and ".join(printed)
        if self.unit == "share":
            text += "; a share meets a threshold with its whole Clopper-Pearson interval"
        return text + (f"; in seeds with {self.gate.comparison}" if self.gate else "")
