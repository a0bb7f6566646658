"""The rule that turns seeds into HOLDS, FAILS or OPEN, and the claims that it judges; `judging`
adds NOT JUDGED.

A seed meets a claim or it does not. Of n seeds, taken in ascending order, k meet it, and pi is the
share of all seeds of this configuration that would. The evidence against "at most half of them do"
and against "at least half do" is

    E+ = 2 * integral over p in [1/2, 1] of p^k (1 - p)^(n - k) dp / (1/2)^n
    E- = 2 * integral over p in [0, 1/2] of p^k (1 - p)^(n - k) dp / (1/2)^n

Both are likelihood ratios averaged over p, so each is a martingale of mean 1 at pi = 1/2. By
Ville's inequality either ever reaches 40 with probability 1/40 at most, however often one looks and
whenever one stops adding seeds.

HOLDS: E+ has reached 40 after some seed. FAILS: E- has. OPEN: neither has. The first to reach it
decides.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy import special

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError
from rb_interp.settings import LARGE, MIDDLE, SMALL
from rb_interp.statistics.intervals import Interval, proportion_interval

__all__ = [
    "Finding",
    "decide",
    "decide_interval",
    "decide_share",
    "evidence",
    "outcome_probabilities",
]

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


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
        conditions = (*self.conditions, *filter(None, (self.gate, self.learned)))
        return tuple(
            term for condition in conditions for term in (condition.of, condition.minus) if term
        )

    @property
    def criterion(self) -> str:
        """All conditions as printed, with the gate; a place is named once where conditions in a row
        share it."""
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


class Standing(NamedTuple):
    """What is known about a claim's probe in a family of models.

    Attributes:
        calibrated: None where the claim needs no calibration, else whether its rates are known and
            good enough.
        reason: why the verdict is withheld; empty where it is not.
    """

    calibrated: bool | None
    reason: str = ""


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
    standings: Mapping[str, Standing] = field(default_factory=dict)
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


Outcome = Literal["HOLDS", "FAILS", "OPEN", "NOT JUDGED"]
"""OPEN: the seeds disagree, or are too few. NOT JUDGED: something else than seeds is missing; the
reason says what."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ENOUGH = 40.0
"""The evidence that decides."""
FEWEST = 8
"""Seeds that can decide, where they all agree: 8 give 56.9 and 7 give 31.9."""


class Finding(NamedTuple):
    """The outcome, the number of seeds after which it was decided (None: it was not), and why
    nothing was decided."""

    outcome: Outcome
    decided_after: int | None = None
    reason: str = ""


@cache
def evidence(n_meeting: int, n_seeds: int) -> tuple[float, float]:
    """Evidence for a claim and against it, E+ and E-, after ``n_seeds`` seeds of which
    ``n_meeting`` meet it.

    >>> [round(evidence(n, n)[0], 1) for n in (0, 7, 8)]
    [1.0, 31.9, 56.8]
    >>> evidence(1, 8) == evidence(7, 8)[::-1]
    True
    """
    a, b = n_meeting + 1, n_seeds - n_meeting + 1
    scale = np.exp(special.betaln(a, b) + (n_seeds + 1) * np.log(2))
    return float(scale * special.betainc(b, a, 0.5)), float(scale * special.betainc(a, b, 0.5))


def decide(met: Sequence[bool]) -> Finding:
    """Judge a claim by which seeds meet it, in ascending order of seeds.

    >>> decide([True] * 8).outcome, decide([False] * 8).outcome
    ('HOLDS', 'FAILS')
    >>> decide([True] * 7).reason
    'seeds: 7, needed: 8'
    >>> decide([True] * 7 + [False]).reason
    'the evidence is 7.0 after 8 seeds, needed: 40'
    >>> decide([True] * 8 + [False] * 4).outcome  # once decided, a verdict stands
    'HOLDS'
    """
    n = len(met)
    for seeds in range(1, n + 1):
        for outcome, found in zip(
            ("HOLDS", "FAILS"), evidence(sum(met[:seeds]), seeds), strict=True
        ):
            if found >= ENOUGH:
                return Finding(outcome, seeds)
    if n < FEWEST:
        return Finding("OPEN", reason=f"seeds: {n}, needed: {FEWEST}")
    strongest = max(evidence(sum(met), n))
    return Finding(
        "OPEN", reason=f"the evidence is {strongest:.1f} after {n} seeds, needed: {ENOUGH:g}"
    )


@cache
def outcome_probabilities(share: float, n_seeds: int) -> tuple[float, float]:
    """How often a claim that a share of seeds meets is decided within ``n_seeds`` seeds: HOLDS, and
    FAILS. Exact.

    >>> [round(p, 5) for p in outcome_probabilities(0.5, 8)]
    [0.00391, 0.00391]
    >>> round(outcome_probabilities(0.95, 20)[0], 3)
    0.989
    """
    open_paths, holds, fails = (
        {0: 1.0},
        0.0,
        0.0,
    )  # number that meet -> probability of being here, undecided
    for n in range(1, n_seeds + 1):
        arriving: Counter[int] = Counter()
        for k, p in open_paths.items():
            arriving.update({k + 1: p * share, k: p * (1 - share)})  # type: ignore[arg-type]
        found = {k: [one >= ENOUGH for one in evidence(k, n)] for k in arriving}
        holds += sum(p for k, p in arriving.items() if found[k][0])
        fails += sum(p for k, p in arriving.items() if found[k][1])
        open_paths = {k: p for k, p in arriving.items() if not any(found[k])}
    return holds, fails


def decide_share(
    condition: Condition,
    values: Sequence[float] | np.ndarray,
    minus: Sequence[float] | np.ndarray | None = None,
) -> tuple[Outcome, Interval]:
    """Judge the share of units whose value is 1, or its excess over the share in ``minus``.

    A share stands against its threshold with its whole Clopper-Pearson interval. Two shares are
    compared as they are, and FAILS only where their intervals are disjoint on the other side.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("lemma_1", "within_0.05", 0.8, "init"), ">=", 0.95)
    >>> [decide_share(condition, [1.0] * k + [0.0] * (200 - k))[0] for k in (200, 190, 175)]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    share, *base = (
        proportion_interval(sum(x == 1 for x in of), len(of))
        for of in (values, minus)
        if of is not None
    )
    if not base:
        return decide_interval(condition, share), share
    ((mean, low, high),) = base
    interval = Interval(share.estimate - mean, share.low - high, share.high - low)
    beyond = decide_interval(condition, interval) == "FAILS"
    return "HOLDS" if condition.met(interval.estimate) else "FAILS" if beyond else "OPEN", interval


def decide_interval(condition: Condition, interval: Interval) -> Outcome:
    """Judge one number by its own interval, which has to lie on one side of the threshold as a
    whole.

    OPEN where an end is NaN.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("flow_match", "other_flow", None, "final"), "<=", 0.1)
    >>> [decide_interval(condition, Interval(*x)) for x in ((0.05, 0.0, 0.1), (0.05, 0.0, 0.2), (0.2, 0.11, 0.3))]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    met = {condition.met(end) for end in (interval.low, interval.high)}
    undecided = len(met) > 1 or np.isnan(interval.low) or np.isnan(interval.high)
    return "OPEN" if undecided else "HOLDS" if met == {True} else "FAILS"


def joined(outcomes: Sequence[str]) -> Outcome:
    """The outcome of all of several: FAILS where one fails, HOLDS where all hold."""
    return "FAILS" if "FAILS" in outcomes else "HOLDS" if {*outcomes} <= {"HOLDS"} else "OPEN"


@checked
def expected_by_chance(verdicts: Iterable[Any]) -> tuple[float, float]:
    """How many of the verdicts of `judge` would be HOLDS, and FAILS, if half of all seeds met each
    claim.

    Exact for the seeds that the claims have. A claim about a share or a number with an interval
    counts .025 for HOLDS and for each condition .025 for FAILS, as its ends guarantee. Verdicts
    that are withheld count nothing.
    """
    chances = [
        outcome_probabilities(0.5, verdict.n_decisive)
        if verdict.unit == "seed"
        else (0.025, 0.025 * len(verdict.conditions))
        for verdict in verdicts
        if not verdict.withheld
    ]
    holds, fails = (sum((chance[side] for chance in chances), 0.0) for side in (0, 1))
    return holds, fails


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
        (
            Condition(small, ">=", 0.10),
            Condition(curve("bias_test", "B_test", **where), ">=", 0.10),
        ),
        (
            Condition(curve("abs_bias", "|B|", LARGE, **where), "<=", 0.10),
            Condition(
                curve("margin_mem", "label entropy - L_mem (nats)", LARGE, **where), ">=", 0.3
            ),
            Condition(
                curve("margin_rsn_train", "label entropy - L_rsn_train (nats)", LARGE, **where),
                ">=",
                0.3,
            ),
        ),
        (
            Condition(curve("acc_rsn_test", "accuracy on rsn_test", LARGE, **where), "<=", 0.20),
            Condition(
                curve("acc_gap", "accuracy on rsn_train - accuracy on rsn_test", LARGE, **where),
                ">=",
                0.20,
            ),
        ),
        (Condition(small, ">", 0.0, middle), Condition(middle, ">", 0.0, large)),
        (Condition(curve("acc_rsn_test", "accuracy on rsn_test", **where), ">=", 0.90),),
    )
    gammas = (None, LARGE, LARGE, None, SMALL)
    learned = (reasoning_learned(gamma, **where) if gamma else None for gamma in gammas)
    parts = zip(statements, sources, conditions, learned, strict=True)
    return tuple(
        Claim(f"{prefix}{i}", *part[:3], learned=part[3]) for i, part in enumerate(parts, start=1)
    )


def reasoning_learned(gamma: float = LARGE, **where: Any) -> Condition:
    """The reasoning mapping is learned at the end, as far as it was trained on."""
    return Condition(curve("acc_rsn_train", "accuracy on rsn_train", gamma, **where), ">=", 0.95)


def geometry(
    quantity: str, label: str, gamma: float = SMALL, stage: str = "final", **where: Any
) -> Term:
    """A reading of the probe ``geometry``; ``where`` names the sweep."""
    return Term("geometry", quantity, gamma, stage, label=label, **where)


def ordered_anchors(stage: str = "final", **where: Any) -> Condition:
    """Reasoning anchors are the more alike, the closer their values."""
    label = "Spearman(|s_i - s_j|, cos) over reasoning anchors"
    return Condition(geometry("order_rho", label, stage=stage, **where), "<=", -0.80)


def alike_anchors(stage: str, **where: Any) -> Condition:
    """Memory anchors share one direction."""
    return Condition(
        geometry("cos_memory", "mean cos between memory anchors", stage=stage, **where), ">=", 0.50
    )
