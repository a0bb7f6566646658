"""A term is one number per seed. A condition compares terms with a threshold. A claim joins conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rb_interp.errors import ArgumentError
from rb_interp.typed import typed

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@typed
@dataclass(frozen=True)
class Term:
    """One number per seed, found in the table of readings.

    Attributes:
        probe, quantity: as the probe names them.
        gamma, stage: of the member that is read. Gamma None: a number of all gammas together, such as one of every
            member; in the readings its gamma is NaN.
        set: the inputs behind the number (``rsn_train``, ``mem``), or the tokens; empty for weights and curves.
        layer: as in TransformerLens, L0 first; None where the reading is not tied to one.
        label: how people call the number.
        sweep: name of the sweep in a study of several; empty for what compares sweeps.
        sweep_label, stage_label: how people call sweep and stage, where that is not their name.
    """

    probe: str
    quantity: str
    gamma: float | None
    stage: str
    set: str = ""
    layer: int | None = None
    label: str = ""
    sweep: str = ""
    sweep_label: str = ""
    stage_label: str = ""

    @property
    def at_gamma(self) -> str:
        """Gamma in words.

        >>> Term("matches", "kept", None, "final").at_gamma
        'all gammas'
        """
        return "all gammas" if self.gamma is None else f"gamma {self.gamma:g}"

    @property
    def place(self) -> str:
        """Sweep, gamma and stage, in words.

        >>> Term("drift", "r2", 0.8, "leaving", "anchor", sweep="descent", stage_label="leaving the plateau").place
        'descent, gamma 0.8, leaving the plateau'
        """
        where = f"{self.at_gamma}, {self.stage_label or self.stage}"
        return f"{self.sweep_label or self.sweep}, {where}" if self.sweep else where


@typed
@dataclass(frozen=True)
class Condition:
    """A statistic per seed (a term, or a term less another of the same seed) and its threshold.

    Attributes:
        of: the term. minus: the term that is taken from it, or None.
        operator: how the statistic is compared with ``threshold``.

    >>> bias = Term("learning_order", "bias", 0.8, "final", label="B")
    >>> Condition(bias, ">=", 0.1).criterion
    'gamma 0.8, final: B >= 0.1'
    >>> Condition(bias, ">=", 0.1).met(0.1)
    True
    """

    of: Term
    operator: Literal[">=", "<=", ">", "<"]
    threshold: float
    minus: Term | None = None

    @typed
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


@typed
@dataclass(frozen=True)
class Claim:
    """One sentence of the paper that can be checked.

    Attributes:
        id: as cited everywhere (``A1``).
        statement: the claim in one sentence.
        source: where the paper says so.
        conditions: all must hold.
        gate: a part of the criterion: a seed counts only where it meets this too, such as to have learned a mapping.
        learned: of a criterion without a gate: all seeds count. Where fewer than half of the seeds meet this, or the
            gate, the verdict is withheld.
        first_seed: the first seed that the outcome rests on. Seeds below it had been read before the criterion was
            written; they are counted and shown, and decide nothing.
        unit: what is counted: each ``seed`` that meets every condition; the ``share`` of units whose value is 1,
            which stands against the threshold itself; or nothing, where one number of all members together has an
            ``interval`` of its own. Its ends are the readings ``QUANTITY:low`` and ``QUANTITY:high`` beside it.
        context: terms that are shown with the verdict and judge nothing.
    """

    id: str
    statement: str
    source: str
    conditions: tuple[Condition, ...]
    gate: Condition | None = None
    unit: Literal["seed", "share", "interval"] = "seed"
    context: tuple[Term, ...] = ()
    learned: Condition | None = None
    first_seed: int = 0

    def __post_init__(self) -> None:
        if self.unit == "interval" and any(condition.minus for condition in self.conditions):
            raise ArgumentError(f"claim {self.id} compares terms, which have no common interval; read the difference.")

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term that the outcome rests on."""
        conditions = (*self.conditions, *filter(None, (self.gate, self.learned)))
        return tuple(term for condition in conditions for term in (condition.of, condition.minus) if term)

    @property
    def gamma(self) -> float | None:
        """Gamma of the first condition's first term, None where that is of all gammas together."""
        return self.conditions[0].of.gamma

    @property
    def stage(self) -> str:
        """Stage of the first condition's first term."""
        return self.conditions[0].of.stage

    @property
    def criterion(self) -> str:
        """All conditions as printed, with the gate; a place is named once where conditions in a row share it."""
        printed, last = [], ""
        for condition in self.conditions:
            place = "" if condition.minus else condition.of.place
            printed.append(condition.comparison if place and place == last else condition.criterion)
            last = place
        text = " and ".join(printed)
        if self.unit == "share":
            text += "; a share meets a threshold with its whole Clopper-Pearson interval"
        if self.unit == "interval":
            text += "; a number meets a threshold with its whole interval over members"
        return text + (f"; in seeds with {self.gate.comparison}" if self.gate else "")
