"""The rule that turns seeds into HOLDS, FAILS or OPEN, and verdicts as values; `judging` adds NOT JUDGED.

A seed meets a claim or it does not. Of n seeds, taken in ascending order, k meet it, and pi is the share of all seeds
of this configuration that would. The evidence against "at most half of them do" and against "at least half do" is

    E+ = 2 * integral over p in [1/2, 1] of p^k (1 - p)^(n - k) dp / (1/2)^n
    E- = 2 * integral over p in [0, 1/2] of p^k (1 - p)^(n - k) dp / (1/2)^n

Both are likelihood ratios averaged over p, so each is a martingale of mean 1 at pi = 1/2. By Ville's inequality either
ever reaches 40 with probability 1/40 at most, however often one looks and whenever one stops adding seeds.

HOLDS: E+ has reached 40 after some seed. FAILS: E- has. OPEN: neither has. The first to reach it decides.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, get_args

import numpy as np
from pydantic import TypeAdapter
from pydantic_core.core_schema import no_info_after_validator_function
from scipy import special
from typing_extensions import Self

from rb_interp.claims.criterion import Claim, Condition
from rb_interp.errors import StudyError, nearest
from rb_interp.statistics.intervals import Interval, proportion_interval
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Finding", "decide", "decide_interval", "decide_share", "evidence", "expected_by_chance", "outcome_probabilities",
]  # fmt: skip

Outcome = Literal["HOLDS", "FAILS", "OPEN", "NOT JUDGED"]
"""OPEN: the seeds disagree, or are too few. NOT JUDGED: something else than seeds is missing; the reason says what."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ENOUGH = 40.0
"""The evidence that decides."""
FEWEST = 8
"""Seeds that can decide, where they all agree: 8 give 56.9 and 7 give 31.9."""


class Finding(NamedTuple):
    """The outcome, the number of seeds after which it was decided (None: it was not), and why nothing was decided."""

    outcome: Outcome
    decided_after: int | None = None
    reason: str = ""


@cache
def evidence(n_meeting: int, n_seeds: int) -> tuple[float, float]:
    """Evidence for a claim and against it, E+ and E-, after ``n_seeds`` seeds of which ``n_meeting`` meet it.

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
        for outcome, found in zip(("HOLDS", "FAILS"), evidence(sum(met[:seeds]), seeds), strict=True):
            if found >= ENOUGH:
                return Finding(outcome, seeds)
    if n < FEWEST:
        return Finding("OPEN", reason=f"seeds: {n}, needed: {FEWEST}")
    strongest = max(evidence(sum(met), n))
    return Finding("OPEN", reason=f"the evidence is {strongest:.1f} after {n} seeds, needed: {ENOUGH:g}")


@cache
def outcome_probabilities(share: float, n_seeds: int) -> tuple[float, float]:
    """How often a claim that a share of seeds meets is decided within ``n_seeds`` seeds: HOLDS, and FAILS. Exact.

    >>> [round(p, 5) for p in outcome_probabilities(0.5, 8)]
    [0.00391, 0.00391]
    >>> round(outcome_probabilities(0.95, 20)[0], 3)
    0.989
    """
    open_paths, holds, fails = {0: 1.0}, 0.0, 0.0  # number that meet -> probability of being here, undecided
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
    condition: Condition, values: Sequence[float] | np.ndarray, minus: Sequence[float] | np.ndarray | None = None
) -> tuple[Outcome, Interval]:
    """Judge the share of units whose value is 1, or its excess over the share in ``minus``.

    For claims about a share of independent units, such as fresh initialisations, with a threshold of its own. A share
    stands against its threshold with its whole Clopper-Pearson interval. Two shares are compared as they are, and FAILS
    only where their intervals are disjoint on the other side; the interval then bounds the difference by those two.

    >>> from rb_interp.claims import Term
    >>> condition = Condition(Term("lemma_1", "within_0.05", 0.8, "init"), ">=", 0.95)
    >>> [decide_share(condition, [1.0] * k + [0.0] * (200 - k))[0] for k in (200, 190, 175)]
    ['HOLDS', 'OPEN', 'FAILS']
    """
    share, *base = (
        proportion_interval(sum(x == 1 for x in of), len(of)) for of in (values, minus) if of is not None
    )
    if not base:
        return decide_interval(condition, share), share
    ((mean, low, high),) = base
    interval = Interval(share.estimate - mean, share.low - high, share.high - low)
    beyond = decide_interval(condition, interval) == "FAILS"
    return "HOLDS" if condition.met(interval.estimate) else "FAILS" if beyond else "OPEN", interval


def decide_interval(condition: Condition, interval: Interval) -> Outcome:
    """Judge one number by its own interval, which has to lie on one side of the threshold as a whole.

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


TABLE = (
    *(
        "id",
        "criterion",
        "outcome",
        "n_seeds",
        "n_meeting",
        "share_low",
        "share_high",
        "decided_after",
        "statistic",
    ),
    *("effect", "low", "high", "untrained", "met_at_initialisation", "calibrated", "learned", "reason"),
)


class _Plain:
    """Values that are plain data too."""

    def to_json(self) -> Any:
        """Plain data that `from_json` reads."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """What `to_json` wrote; raises pydantic's ValidationError for other data."""
        return TypeAdapter(cls).validate_python(data)


class Standing(NamedTuple):
    """What is known about a claim's probe in a family of models.

    Attributes:
        calibrated: None where the claim needs no calibration, else whether its rates are known and good enough.
        reason: why the verdict is withheld; empty where it is not.
    """

    calibrated: bool | None
    reason: str = ""


@typed
@dataclass(frozen=True)
class Calibration:
    """The error rates of a study's probes on one family of models.

    Attributes:
        family: of the models, in words.
        standings: claim id -> what is known of its probe; claims without an entry need no calibration.
        rates: rows of the table of error rates, as a report shows them; empty where the family has none.
        trained: rows of the table of error rates on trained models, each with its ``source``.
    """

    family: str
    standings: Mapping[str, Standing] = field(default_factory=dict)
    rates: Sequence[Mapping[str, Any]] = ()
    trained: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Judged:
    """One condition of a claim, or one number that is shown with it, over the seeds of a run.

    Attributes:
        statistic: what was computed for each seed, in words. criterion: the same with its threshold; empty where the
            number is only shown.
        outcome: what this condition alone decides; empty where the number is only shown.
        effect, low, high: median over seeds, smallest and largest; of a share, the share with its Clopper-Pearson
            interval; of a number that was read with an interval, these. None where nothing defines them.
        n_seeds, n_meeting: seeds with a value, and those that meet the criterion.
        untrained: median of the same models at step 0 (or their share); None where nothing defines it.
        reason: why nothing was decided, or which numbers were missing.
        seeds, values: the seeds with a value, and their values.
    """

    statistic: str
    effect: float | None
    low: float | None
    high: float | None
    n_seeds: int
    untrained: float | None
    reason: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    criterion: str = ""
    outcome: str = ""
    n_meeting: int = 0


@typed
@dataclass(frozen=True)
class Verdict:
    """What was decided of one claim.

    ``statistic``, ``effect``, ``low``, ``high`` and ``untrained`` are those of the condition that fewest seeds meet,
    the first of them; of a claim about a share, those of the condition that decides.

    Attributes:
        id, statement, source, criterion, first_seed: those of the claim.
        unit: what is counted: ``seed``s, or the ``share`` of units such as fresh initialisations; ``interval`` where
            one number of all members is judged by its own interval.
        outcome: HOLDS, FAILS, OPEN (the seeds disagree, or are too few) or NOT JUDGED (``reason`` says why).
        n_seeds, n_meeting: seeds that count, and those that meet every condition.
        share_low, share_high: Clopper-Pearson interval of the share of seeds that meet every condition.
        decided_after: number of seeds after which it was decided; None where it was not.
        met_at_initialisation: whether at least half of the untrained models meet every condition.
        calibrated: None where the claim needs no calibration; else whether its probe's error rates are known for these
            models and good enough.
        withheld: whether error rates, a mapping that was not learned, or a stage that was not reached made it NOT
            JUDGED. uncalibrated_outcome: what the numbers alone give.
        reason: why nothing was decided, and which seeds do not count or diverged.
        seeds, met: the seeds that count, ascending, and which of them meet every condition.
        conditions: every condition. context: numbers that are shown and decide nothing.
        learned: None where the claim asks for nothing that was learned; else whether at least half of the seeds have
            learned it.
        unreached: seeds that are left out, since a member never came to a stage that the claim reads.
    """

    id: str
    statement: str
    source: str
    criterion: str
    unit: str
    outcome: Outcome
    n_seeds: int
    n_meeting: int
    share_low: float
    share_high: float
    decided_after: int | None
    statistic: str
    effect: float | None
    low: float | None
    high: float | None
    untrained: float | None
    met_at_initialisation: bool
    calibrated: bool | None
    withheld: bool
    uncalibrated_outcome: Outcome
    reason: str
    seeds: tuple[int, ...]
    met: tuple[bool, ...]
    conditions: tuple[Judged, ...]
    context: tuple[Judged, ...] = ()
    learned: bool | None = None
    first_seed: int = 0
    unreached: tuple[int, ...] = ()

    @property
    def n_decisive(self) -> int:
        """How many of the seeds that count the outcome rests on."""
        return sum(seed >= self.first_seed for seed in self.seeds) if self.unit == "seed" else self.n_seeds

    @property
    def met_by(self) -> str:
        """How many meet it of how many, such as 7/8; ``interval`` where one interval decides and nothing is counted."""
        return "interval" if self.unit == "interval" else f"{self.n_meeting}/{self.n_seeds}"

    def __repr__(self) -> str:
        return f"Verdict({self.id} {self.outcome}, met by {self.met_by}: {self.criterion})"

    def _repr_html_(self) -> str:
        return Verdicts([self])._repr_html_()


class Verdicts(tuple[Verdict, ...], _Plain):
    """The verdicts of a run, in the order of its claims; ``verdicts["A1"]`` finds one by its id."""

    def __getitem__(self, key: SupportsIndex | str) -> Verdict:  # type: ignore[override]
        if not isinstance(key, str):
            return super().__getitem__(operator.index(key))
        for verdict in self:
            if verdict.id == key:
                return verdict
        raise StudyError(f"no claim '{key}' was judged; {nearest(key, [verdict.id for verdict in self])}")

    def to_frame(self) -> pd.DataFrame:
        """One row a claim, without its conditions."""
        import pandas as pd

        return pd.DataFrame(
            [{name: getattr(verdict, name) for name in TABLE} for verdict in self], columns=[*TABLE]
        )

    def __repr__(self) -> str:
        counts = Counter(verdict.outcome for verdict in self)
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
        return f"Verdicts({told or 'of no claim'})"

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, float_format="{:.3g}".format)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data that `from_json` reads."""
        return [asdict(verdict) for verdict in self]

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
        return no_info_after_validator_function(cls, handler(tuple[Verdict, ...]))


@typed
@dataclass(frozen=True)
class Grouping:
    """How a study groups its seeds, and what is read within the groups.

    Attributes:
        by: what tells groups apart, in words. groups: seed -> name of its group; a seed may be in none.
        claims: those that are judged within each group.
    """

    by: str
    groups: Mapping[int, str]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Group:
    """Seeds of one group, ascending, of ``total`` in all groups, and a verdict a claim by these seeds alone."""

    name: str
    seeds: tuple[int, ...]
    total: int
    verdicts: Verdicts

    @property
    def share(self) -> Interval:
        """Of the group among all seeds, with its Clopper-Pearson interval."""
        return proportion_interval(len(self.seeds), self.total)


@typed
@dataclass(frozen=True)
class Within(_Plain):
    """Verdicts within groups of seeds, the largest group first. ``by``: what tells groups apart, in words."""

    by: str
    groups: tuple[Group, ...]


@typed
@dataclass(frozen=True)
class CheckedCause(_Plain):
    """The outcome of one causal check.

    Attributes:
        of, intervention: as in `CausalCheck`, which has the words.
        quantity: what the effect is measured in; empty where the run has no such effect.
        verdict: on the check.
        by_gamma: one dict a gamma: ``gamma``, ``stage``, ``n_seeds``, ``effect``, ``low``, ``high``, ``control``,
            ``control_low``, ``control_high`` (median over seeds, smallest and largest; None where undefined).
    """

    of: str
    intervention: str
    quantity: str
    verdict: Verdict
    by_gamma: tuple[dict[str, Any], ...]


@typed
def expected_by_chance(verdicts: Iterable[Verdict]) -> tuple[float, float]:
    """How many of the verdicts of `judge` would be HOLDS, and FAILS, if half of all seeds met each claim.

    Exact for the numbers of seeds that the claims have, and 1/40 a claim at most for any number. A claim about a share
    counts .025 for HOLDS and for each condition .025 for FAILS, which Clopper-Pearson's interval guarantees where the
    share equals its threshold; so does one about a number with an interval, whose ends err as rarely. Verdicts that are
    withheld count nothing.
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
