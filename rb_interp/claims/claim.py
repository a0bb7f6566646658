"""A claim as data: the number that it reads, its conditions, and what is judged beside it.

At the end stand the claims that several studies of paper 1 make: what is learned first, and how
embeddings lie.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError
from rb_interp.settings import LARGE, MIDDLE, SMALL

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
UNIT_NOTES = {
    "share": "; a share meets a threshold with its whole Clopper-Pearson interval",
    "interval": "; a number meets a threshold with its whole interval over members",
}
"""What the criterion of a claim says of its unit."""


@checked
@dataclass(frozen=True)
class Term:
    """One number per seed, found in the table of readings.

    Attributes:
        probe, quantity: as the probe names them.
        gamma, stage: of the member that is read. Gamma None: a number of all gammas together, such
            as one of every member; in the readings its gamma is NaN.
        set: the inputs behind the number (``rsn_train``, ``mem``), or the tokens; empty for weights
            and curves.
        layer, head: as in TransformerLens, L0 first; None where the reading is not tied to one.
            Where readings of several layers or heads fit, no number is taken.
        label: how people call the number; by default its quantity.
        sweep: name of the sweep in a study of several; empty for what compares sweeps.
        every_sweep: whether the number is one of all sweeps together.
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
    head: int | None = None
    every_sweep: bool = False

    @property
    def gamma_text(self) -> str:
        """Gamma in words.

        >>> Term("matches", "kept", None, "final").gamma_text
        'all gammas'
        """
        return "all gammas" if self.gamma is None else f"gamma {self.gamma:g}"

    @property
    def members_text(self) -> str:
        """Sweep, gamma and stage, in words.

        >>> term = Term("drift", "r2", 0.8, "leaving", sweep="descent", stage_label="the plateau")
        >>> term.members_text
        'descent, gamma 0.8, the plateau'
        """
        where = f"{self.gamma_text}, {self.stage_label or self.stage}"
        return f"{self.sweep_label or self.sweep}, {where}" if self.sweep else where


@checked
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

    @checked
    def met(self, value: float) -> bool:
        """Whether one value, to nine decimals, is on the claimed side; False for NaN.

        >>> Condition(Term("p", "gap", 0.8, "final"), ">=", 0.2).met(0.7 - 0.5)
        True
        """
        return bool(COMPARE[self.operator](round(value, 9), self.threshold))

    @property
    def statistic(self) -> str:
        """What is computed for each seed, in words."""
        name = self.of.label or self.of.quantity
        if self.minus is None:
            return name
        subtracted = self.minus.label or self.minus.quantity
        return f"{name} ({self.of.members_text}) - {subtracted} ({self.minus.members_text})"

    @property
    def comparison(self) -> str:
        """The statistic and its threshold."""
        return f"{self.statistic} {self.operator} {self.threshold:g}"

    @property
    def criterion(self) -> str:
        """Where, what and how much, as printed."""
        return self.comparison if self.minus else f"{self.of.members_text}: {self.comparison}"


def at_least(of: Term, threshold: float, minus: Term | None = None) -> Condition:
    """The condition that a term, or its excess over another, reaches a threshold.

    >>> at_least(Term("learning_order", "bias", 0.8, "final"), 0.1).comparison
    'bias >= 0.1'
    """
    return Condition(of, ">=", threshold, minus)


def at_most(of: Term, threshold: float, minus: Term | None = None) -> Condition:
    """The condition that a term, or its excess over another, does not exceed a threshold.

    >>> at_most(Term("learning_order", "bias", 0.8, "final"), 0.1).comparison
    'bias <= 0.1'
    """
    return Condition(of, "<=", threshold, minus)


@checked
@dataclass(frozen=True)
class Claim:
    """One sentence of the paper that can be checked.

    Attributes:
        id: as cited everywhere (``A1``). statement: in one sentence. source: where the paper says
            so.
        conditions: all must hold.
        gate: a part of the criterion: a seed counts only where it meets this too, such as to have
            learned a mapping.
        learned: of a criterion without a gate: all seeds count. Where fewer than half of the seeds
            meet this, or the gate, the verdict is withheld.
        stopped_early: whether what is not learned is said to come from training that stopped early.
        first_seed: the first seed that the outcome rests on. Seeds below it had been read before
            the criterion was written; they are counted and shown, and decide nothing.
        unit: what is counted: each ``seed`` that meets every condition; the ``share`` of units
            whose value is 1, which stands against the threshold itself; or nothing, where one
            number of all members together has an ``interval`` of its own. Its ends are the readings
            ``QUANTITY:low`` and ``QUANTITY:high`` beside it.
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
                f"claim {self.id} compares terms, which have no common interval; read the "
                f"difference."
            )

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term that the outcome rests on."""
        terms = []
        for condition in (*self.conditions, self.gate, self.learned):
            if condition is not None:
                terms += filter(None, (condition.of, condition.minus))
        return tuple(terms)

    @property
    def criterion(self) -> str:
        """All conditions as printed, with the gate; sweep, gamma and stage once where conditions in a
        row share them."""
        parts = []
        last_members = ""
        for condition in self.conditions:
            members = "" if condition.minus else condition.of.members_text
            same_members = members and members == last_members
            parts.append(condition.comparison if same_members else condition.criterion)
            last_members = members
        text = " and ".join(parts) + UNIT_NOTES.get(self.unit, "")
        return f"{text}; in seeds with {self.gate.comparison}" if self.gate else text


def make_claim(
    id: str, statement: str, source: str, *conditions: Condition, **options: Any
) -> Claim:
    """A claim whose conditions stand one after the other; ``options`` are other fields of `Claim`.

    >>> make_claim("X", "B is high.", "here", at_least(Term("order", "B", 0.8, "final"), 0.1)).criterion
    'gamma 0.8, final: B >= 0.1'
    """
    return Claim(id, statement, source, conditions, **options)


@checked
@dataclass(frozen=True)
class CausalCheck:
    """An intervention that would refute one mechanism claim, judged as a claim.

    Attributes:
        of: id of the mechanism's claim. intervention: its name in the table of effects.
        done, control_done: what is done to the model, and what the control does instead, in words.
        refuted_if: what would speak against the mechanism, in words; of several conditions, each
            one's opposite.
        check: the criterion, as a claim.
    """

    of: str
    intervention: str
    done: str
    control_done: str
    refuted_if: str
    check: Claim


class CalibrationStatus(NamedTuple):
    """What is known about a claim's probe in a family of models.

    Attributes:
        calibrated: None where the claim needs no calibration, else whether its rates are known and
            good enough.
        reason: why the verdict is withheld; empty where it is not.
    """

    calibrated: bool | None
    reason: str = ""


COPIES = ("gauge", "silent head", "split head")
"""Sources whose truth is what the detector says of the original: they refute, and calibrate nothing."""


@checked
@dataclass(frozen=True)
class Calibration:
    """The error rates of a study's probes on one family of models.

    Attributes:
        family: of the models, in words.
        standings: claim id -> what is known of its probe; claims without an entry need no
            calibration.
        rates: rows of the table of error rates, as a report shows them; empty where the family has
            none.
        trained: rows of the table of error rates on trained models, each with its ``source``.
    """

    family: str
    standings: Mapping[str, CalibrationStatus] = field(default_factory=dict)
    rates: Sequence[Mapping[str, Any]] = ()
    trained: Sequence[Mapping[str, Any]] = ()


@checked
@dataclass(frozen=True)
class Grouping:
    """How a study groups its seeds, and what is read within the groups.

    Attributes:
        by: what tells groups apart, in words. groups: seed -> name of its group; a seed may be in
            none.
        claims: those that are judged within each group.
    """

    by: str
    groups: Mapping[int, str]
    claims: tuple[Claim, ...]


def curve(quantity: str, label: str, gamma: float = SMALL, **where: Any) -> Term:
    """A statistic of a member's learning curves; ``where`` names the sweep."""
    return Term("learning_order", quantity, gamma, "final", label=label, **where)


def learning_order_claims(
    prefix: str, statements: tuple[str, ...], sources: tuple[str, ...], **where: Any
) -> tuple[Claim, ...]:
    """Five claims on which mapping is learned first, with ids ``prefix`` and 1 to 5.

    The second and third speak of a mapping that is learned at a large initialisation, the fifth at
    a small one. ``where``: ``sweep`` and ``sweep_label`` of the terms.
    """
    large, middle, small = (curve("bias", "B", gamma, **where) for gamma in (LARGE, MIDDLE, SMALL))
    conditions = (
        (at_least(small, 0.10), at_least(curve("bias_test", "B_test", **where), 0.10)),
        (
            at_most(curve("abs_bias", "|B|", LARGE, **where), 0.10),
            at_least(curve("margin_mem", "label entropy - L_mem (nats)", LARGE, **where), 0.3),
            at_least(
                curve("margin_rsn_train", "label entropy - L_rsn_train (nats)", LARGE, **where), 0.3
            ),
        ),
        (
            at_most(curve("acc_rsn_test", "accuracy on rsn_test", LARGE, **where), 0.20),
            at_least(
                curve("acc_gap", "accuracy on rsn_train - accuracy on rsn_test", LARGE, **where),
                0.20,
            ),
        ),
        (Condition(small, ">", 0.0, middle), Condition(middle, ">", 0.0, large)),
        (at_least(curve("acc_rsn_test", "accuracy on rsn_test", **where), 0.90),),
    )
    gammas = (None, LARGE, LARGE, None, SMALL)
    learned = (reasoning_learned(gamma, **where) if gamma else None for gamma in gammas)
    parts = zip(statements, sources, conditions, learned, strict=True)
    return tuple(
        Claim(f"{prefix}{i}", *part[:3], learned=part[3]) for i, part in enumerate(parts, start=1)
    )


def reasoning_learned(gamma: float = LARGE, **where: Any) -> Condition:
    """The reasoning mapping is learned at the end, as far as it was trained on."""
    return at_least(curve("acc_rsn_train", "accuracy on rsn_train", gamma, **where), 0.95)


def geometry(
    quantity: str, label: str, gamma: float = SMALL, stage: str = "final", **where: Any
) -> Term:
    """A reading of the probe ``geometry``; ``where`` names the sweep."""
    return Term("geometry", quantity, gamma, stage, label=label, **where)


def ordered_anchors(stage: str = "final", **where: Any) -> Condition:
    """Reasoning anchors are the more alike, the closer their values."""
    label = "Spearman(|s_i - s_j|, cos) over reasoning anchors"
    return at_most(geometry("order_rho", label, stage=stage, **where), -0.80)


def alike_anchors(stage: str, **where: Any) -> Condition:
    """Memory anchors share one direction."""
    return at_least(
        geometry("cos_memory", "mean cos between memory anchors", stage=stage, **where), 0.50
    )
