"""Verdicts as values: what was decided of each claim, and every number and error rate that it rests on."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, get_args

from pydantic import TypeAdapter

from rb_interp.claims.criterion import Claim
from rb_interp.errors import ArgumentError, StudyError, first_line, nearest
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd

Outcome = Literal["HOLDS", "FAILS", "OPEN", "NOT JUDGED"]
"""OPEN: the seeds disagree, or are too few. NOT JUDGED: something else than seeds is missing; the reason says what."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
TABLE = (
    *("id", "criterion", "outcome", "n_seeds", "n_meeting", "share_low", "share_high", "decided_after", "statistic"),
    *("effect", "low", "high", "untrained", "met_at_initialisation", "scale", "calibrated", "learned", "reason"),
)


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
        gamma, stage: of the member that was read.
        outcome: what this condition alone decides; empty where the number is only shown.
        effect, low, high: median over seeds, smallest and largest; of a share, the share with its Clopper-Pearson
            interval; of a number that was read with an interval, these. None where nothing defines them.
        n_seeds, n_meeting: seeds with a value, and those that meet the criterion.
        untrained: median of the same models at step 0 (or their share); None where nothing defines it.
        met_at_initialisation: whether at least half of the untrained models meet the criterion.
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
    gamma: float | None = None
    stage: str = ""
    outcome: str = ""
    n_meeting: int = 0
    met_at_initialisation: bool = False


@typed
@dataclass(frozen=True)
class Verdict:
    """What was decided of one claim.

    ``statistic``, ``effect``, ``low``, ``high`` and ``untrained`` are those of the condition that fewest seeds meet,
    the first of them; of a claim about a share, those of the condition that decides.

    Attributes:
        id, statement, source, criterion: the claim. gamma, stage: of its first condition; gamma is None where that is
            of all gammas together.
        unit: what is counted: ``seed``s, or the ``share`` of units such as fresh initialisations; ``interval`` where
            one number of all members is judged by its own interval.
        outcome: HOLDS, FAILS, OPEN (the seeds disagree, or are too few) or NOT JUDGED (``reason`` says why).
        n_seeds, n_meeting: seeds that count, and those that meet every condition.
        share_low, share_high: Clopper-Pearson interval of the share of seeds that meet every condition.
        decided_after: number of seeds after which it was decided; None where it was not.
        first_seed: the first seed that the outcome rests on; those below are counted and decide nothing.
        met_at_initialisation: whether at least half of the untrained models meet every condition.
        seeds, met: the seeds that count, ascending, and which of them meet every condition.
        scale: how serious the run is: ``smoke``, ``quick``, ``paper`` or ``custom``.
        calibrated: None where the claim needs no calibration; else whether its probe's error rates are known for these
            models and good enough.
        learned: None where the claim asks for nothing that was learned; else whether at least half of the seeds have
            learned it.
        unreached, unreached_met: seeds that are left out since a member never came to a stage that the claim reads, and
            which of them meet every condition at their last step; `first_form` counts them with the others.
        withheld: whether error rates, a mapping that was not learned, or a stage that was not reached made it NOT
            JUDGED.
        uncalibrated_outcome: what the numbers alone give.
        reason: why nothing was decided, and which seeds do not count or diverged.
        conditions: every condition. context: numbers that are shown and decide nothing.
    """

    id: str
    statement: str
    source: str
    criterion: str
    gamma: float | None
    stage: str
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
    scale: str
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
    unreached_met: tuple[bool, ...] = ()

    @property
    def first_form(self) -> str:
        """How many meet it of how many, with the members that never came to a stage at their last step."""
        return f"{self.n_meeting + sum(self.unreached_met)}/{self.n_seeds + len(self.unreached)}"

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


class Verdicts(tuple[Verdict, ...]):
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

        return pd.DataFrame([{name: getattr(v, name) for name in TABLE} for v in self], columns=list(TABLE))

    def __repr__(self) -> str:
        counts = Counter(verdict.outcome for verdict in self)
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
        return f"Verdicts({told or 'of no claim'})"

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, float_format="{:.3g}".format)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data that `from_json` reads."""
        return [asdict(verdict) for verdict in self]

    @staticmethod
    def from_json(data: Iterable[Mapping[str, Any]]) -> Verdicts:
        """The verdicts that `to_json` wrote; raises ArgumentError for other data."""
        try:
            return Verdicts(TypeAdapter(list[Verdict]).validate_python(data))
        except ValueError as error:
            raise ArgumentError(f"these are no verdicts ({first_line(error)}); give what to_json wrote.") from None


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
    """One group of seeds and its verdicts.

    Attributes:
        name: of the group. seeds: in it, ascending. total: seeds in all groups together.
        share, low, high: of the group among these, with its Clopper-Pearson interval.
        verdicts: one a claim, by the seeds of this group alone.
    """

    name: str
    seeds: tuple[int, ...]
    total: int
    share: float
    low: float
    high: float
    verdicts: Verdicts


@typed
@dataclass(frozen=True)
class Within:
    """Verdicts within groups of seeds, the largest group first. ``by``: what tells groups apart, in words."""

    by: str
    groups: tuple[Group, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads."""
        return {
            "by": self.by,
            "groups": [{**vars(group), "verdicts": group.verdicts.to_json()} for group in self.groups],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Within:
        """The verdicts that `to_json` wrote."""
        made = [
            Group(**{**row, "seeds": tuple(row["seeds"]), "verdicts": Verdicts.from_json(row["verdicts"])})
            for row in data["groups"]
        ]
        return Within(data["by"], tuple(made))


def finite(value: float) -> float | None:
    """The number, or None where it is NaN or infinite, which JSON cannot hold."""
    return float(value) if math.isfinite(value) else None
