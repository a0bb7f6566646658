"""A term is one number per seed. A condition compares terms with a threshold. A claim joins conditions.

Below are the claims that several studies make: which mapping is learned first (for any study with the sets mem,
rsn_train and rsn_test), and what embeddings of anchors are like (for one that reads ``geometry``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rb_interp.errors import ArgumentError
from rb_interp.settings import LARGE, MIDDLE, SMALL
from rb_interp.typed import typed

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


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
        label: how people call the number; by default its quantity.
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
        name = self.of.label or self.of.quantity
        if self.minus is None:
            return name
        return f"{name} ({self.of.place}) - {self.minus.label or self.minus.quantity} ({self.minus.place})"

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
        stopped_early: whether what is not learned is said to come from training that stopped early.
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
    stopped_early: bool = False
    first_seed: int = 0

    def __post_init__(self) -> None:
        if self.unit == "interval" and any(condition.minus for condition in self.conditions):
            raise ArgumentError(
                f"claim {self.id} compares terms, which have no common interval; read the difference."
            )

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term that the outcome rests on."""
        conditions = (*self.conditions, *filter(None, (self.gate, self.learned)))
        return tuple(term for condition in conditions for term in (condition.of, condition.minus) if term)

    @property
    def criterion(self) -> str:
        """All conditions as printed, with the gate; a place is named once where conditions in a row share it."""
        printed, last = [], ""
        for condition in self.conditions:
            place = "" if condition.minus else condition.of.place
            printed.append(condition.comparison if place and place == last else condition.criterion)
            last = place
        whole = {
            "share": "; a share meets a threshold with its whole Clopper-Pearson interval",
            "interval": "; a number meets a threshold with its whole interval over members",
        }
        gate = f"; in seeds with {self.gate.comparison}" if self.gate else ""
        return " and ".join(printed) + whole.get(self.unit, "") + gate


@typed
@dataclass(frozen=True)
class CausalCheck:
    """An intervention that would refute one mechanism claim, judged as a claim.

    Attributes:
        of: id of the mechanism's claim.
        intervention: its name in the table of effects.
        done, control_done: what is done to the model, and what the control does instead, in words.
        refuted_if: what would speak against the mechanism, in words; of several conditions, each one's opposite.
        check: the criterion, as a claim.
    """

    of: str
    intervention: str
    done: str
    control_done: str
    refuted_if: str
    check: Claim


def curve(quantity: str, label: str, gamma: float = SMALL, **where: Any) -> Term:
    """A statistic of a member's learning curves; ``where`` names the sweep."""
    return Term("learning_order", quantity, gamma, "final", label=label, **where)


def learning_order_claims(
    prefix: str, statements: tuple[str, ...], sources: tuple[str, ...], **where: Any
) -> tuple[Claim, ...]:
    """The five claims, with ids ``prefix`` and 1 to 5.

    Args:
        prefix: of the ids. statements, sources: of the five claims, in order; statistics and thresholds are the same
            for every study. The second, third and fifth speak of a mapping that is learned: the former two at a large
            initialisation, the last at a small one.
        where: ``sweep`` and ``sweep_label`` of the terms.
    """
    large, middle, small = (curve("bias", "B", gamma, **where) for gamma in (LARGE, MIDDLE, SMALL))
    conditions = (
        (Condition(small, ">=", 0.10), Condition(curve("bias_test", "B_test", **where), ">=", 0.10)),
        (
            Condition(curve("abs_bias", "|B|", LARGE, **where), "<=", 0.10),
            Condition(curve("margin_mem", "label entropy - L_mem (nats)", LARGE, **where), ">=", 0.3),
            Condition(curve("margin_rsn_train", "label entropy - L_rsn_train (nats)", LARGE, **where), ">=", 0.3),
        ),
        (
            Condition(curve("acc_rsn_test", "accuracy on rsn_test", LARGE, **where), "<=", 0.20),
            Condition(curve("acc_gap", "accuracy on rsn_train - accuracy on rsn_test", LARGE, **where), ">=", 0.20),
        ),
        (Condition(small, ">", 0.0, middle), Condition(middle, ">", 0.0, large)),
        (Condition(curve("acc_rsn_test", "accuracy on rsn_test", **where), ">=", 0.90),),
    )
    gammas = (None, LARGE, LARGE, None, SMALL)
    learned = (reasoning_learned(gamma, **where) if gamma else None for gamma in gammas)
    parts = zip(statements, sources, conditions, learned, strict=True)
    return tuple(Claim(f"{prefix}{i}", *part[:3], learned=part[3]) for i, part in enumerate(parts, start=1))


def reasoning_learned(gamma: float = LARGE, **where: Any) -> Condition:
    """The reasoning mapping is learned at the end, as far as it was trained on."""
    return Condition(curve("acc_rsn_train", "accuracy on rsn_train", gamma, **where), ">=", 0.95)


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
