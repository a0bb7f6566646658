"""What was decided of a claim, of all claims of a run, within groups of seeds, and of causal checks.

Beside the tables stand the cautions that a report and the terminal print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import pandas as pd
from pydantic_core.core_schema import no_info_after_validator_function

from rb_interp.arguments import checked
from rb_interp.claims import rule
from rb_interp.errors import StudyError, nearest
from rb_interp.statistics.intervals import Interval, interval_text, proportion_interval

TABLE = (
    "id criterion outcome n_seeds n_meeting share_low share_high decided_after statistic effect "
    "low high untrained "
    "met_at_initialisation calibrated learned reason"
)
"""Columns of `Verdicts.to_frame`."""


@dataclass(frozen=True)
class ConditionResult:
    """One condition of a claim, or one number that is shown with it, over the seeds of a run.

    Attributes:
        statistic: what was computed for each seed, in words. criterion: the same with its
            threshold.
        outcome: what this condition alone decides. Both are empty where the number is only shown.
        effect, low, high: median over seeds, smallest and largest; of a share or of a number with
            an interval, that interval. untrained: median (or share) of the same models at step 0.
            None where nothing defines them.
        n_seeds, n_meeting: seeds with a value, and those that meet the criterion.
        reason: why nothing was decided, or which numbers were missing.
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


@checked
@dataclass(frozen=True)
class Verdict:
    """What was decided of one claim.

    ``statistic``, ``effect``, ``low``, ``high`` and ``untrained`` are those of the condition that
    fewest seeds meet, the first of them; of a claim about a share, those of the condition that
    decides.

    Attributes:
        id, statement, source, criterion, unit, first_seed: those of the claim.
        outcome: HOLDS, FAILS, OPEN or NOT JUDGED (``reason`` says why).
        n_seeds, n_meeting: seeds that count, and those that meet every condition.
        share_low, share_high: Clopper-Pearson interval of the share of these.
        decided_after: number of seeds after which it was decided; None where it was not.
        met_at_initialisation: whether at least half of the untrained models meet every condition.
        calibrated: as in `CalibrationStatus`.
        withheld: whether error rates, a mapping that was not learned, or a stage that was not
            reached made it NOT JUDGED. uncalibrated_outcome: what the numbers alone give.
        reason: why nothing was decided, and which seeds do not count or diverged.
        seeds, met: the seeds that count, ascending, and which of them meet every condition.
        conditions: every condition. context: numbers that are shown and decide nothing.
        learned: whether at least half of the seeds have learned what the claim asks for; None where
            it is nothing.
        unreached: seeds that are left out, since a member never came to a stage that the claim
            reads.
    """

    id: str
    statement: str
    source: str
    criterion: str
    unit: str
    outcome: rule.Outcome
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
    uncalibrated_outcome: rule.Outcome
    reason: str
    seeds: tuple[int, ...]
    met: tuple[bool, ...]
    conditions: tuple[ConditionResult, ...]
    context: tuple[ConditionResult, ...] = ()
    learned: bool | None = None
    first_seed: int = 0
    unreached: tuple[int, ...] = ()

    @property
    def n_decisive(self) -> int:
        """How many of the seeds that count the outcome rests on."""
        if self.unit != "seed":
            return self.n_seeds
        return sum(seed >= self.first_seed for seed in self.seeds)

    @property
    def met_by(self) -> str:
        """How many meet it of how many, such as 7/8; ``interval`` where one interval decides and
        nothing is counted."""
        return "interval" if self.unit == "interval" else f"{self.n_meeting}/{self.n_seeds}"

    def __repr__(self) -> str:
        return f"Verdict({self.id} {self.outcome}, met by {self.met_by}: {self.criterion})"

    def _repr_html_(self) -> str:
        return Verdicts([self])._repr_html_()


class Verdicts(tuple[Verdict, ...]):
    """The verdicts of a run, in the order of its claims; ``verdicts["A1"]`` finds one by its id."""

    def __getitem__(self, key: SupportsIndex | str) -> Verdict:  # type: ignore[override]
        if not isinstance(key, str):
            return super().__getitem__(key.__index__())
        for verdict in self:
            if verdict.id == key:
                return verdict
        known = [verdict.id for verdict in self]
        raise StudyError(f"no claim '{key}' was judged; {nearest(key, known)}")

    def to_frame(self) -> pd.DataFrame:
        """One row a claim, without its conditions."""
        names = TABLE.split()
        rows = [[getattr(verdict, name) for name in names] for verdict in self]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        counts = Counter(verdict.outcome for verdict in self)
        occurring = [outcome for outcome in rule.OUTCOMES if counts[outcome]]
        text = ", ".join(f"{counts[outcome]} {outcome}" for outcome in occurring)
        return f"Verdicts({text or 'of no claim'})"

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, float_format="{:.3g}".format)

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
        return no_info_after_validator_function(cls, handler(tuple[Verdict, ...]))


@dataclass(frozen=True)
class Group:
    """Seeds of one group, ascending, of ``total`` in all groups, and a verdict a claim by these
    seeds alone."""

    name: str
    seeds: tuple[int, ...]
    total: int
    verdicts: Verdicts

    @property
    def share(self) -> Interval:
        """Of the group among all seeds, with its Clopper-Pearson interval."""
        return proportion_interval(len(self.seeds), self.total)


@checked
@dataclass(frozen=True)
class Within:
    """Verdicts within groups of seeds, the largest group first. ``by``: what tells groups apart, in
    words."""

    by: str
    groups: tuple[Group, ...]


@checked
@dataclass(frozen=True)
class CheckedCause:
    """The outcome of one causal check.

    Attributes:
        of, intervention: as in `CausalCheck`, which has the words.
        quantity: what the effect is measured in; empty where the run has no such effect.
        by_gamma: one dict a gamma: ``gamma``, ``stage``, ``n_seeds``, ``effect``, ``low``,
            ``high``, ``control``, ``control_low``, ``control_high`` (median over seeds, smallest
            and largest; None where undefined).
    """

    of: str
    intervention: str
    quantity: str
    verdict: Verdict
    by_gamma: tuple[dict[str, Any], ...]


CAUTIONS = {
    "not calibrated": "Not calibrated, so nobody knows how often the probe misleads",
    "the probe misleads": "Withheld, because the probe misleads too often on models whose mechanism "
    "is known",
    "not learned": "Not judged, because fewer than half of the seeds have learned the mapping",
    "met untrained": "Already met by untrained models",
}
"""Caution beside a verdict -> the sentence that explains it."""


def effect_text(result: ConditionResult | Verdict) -> str:
    """Median and range of what was judged."""
    numbers = (result.effect, result.low, result.high)
    effect, low, high = [np.nan if number is None else number for number in numbers]
    return interval_text(effect, low, high)


def cautions(verdict: Verdict) -> dict[str, str]:
    """What a reader of a verdict must not overlook: in a few words -> in a sentence."""
    applies = {
        "not calibrated": verdict.calibrated is False and not verdict.withheld,
        "the probe misleads": verdict.withheld and "the probe misleads" in verdict.reason,
        "not learned": verdict.learned is False and verdict.outcome == "NOT JUDGED",
        "met untrained": verdict.met_at_initialisation and verdict.outcome == "HOLDS",
    }
    texts = {caution: CAUTIONS[caution] for caution, is_true in applies.items() if is_true}
    seed = verdict.first_seed
    if seed and (verdict.n_decisive < verdict.n_seeds or not verdict.n_seeds):
        sentence = f"Decided by seeds from {seed} on alone, since earlier seeds had been read"
        texts[f"seeds from {seed} on"] = sentence
    return texts


def notes(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """The cautions of all verdicts, each with the claims that it concerns."""
    claims: dict[str, list[str]] = {sentence: [] for sentence in CAUTIONS.values()}
    for verdict in verdicts:
        for sentence in cautions(verdict).values():
            claims.setdefault(sentence, []).append(verdict.id)
    for sentence, ids in claims.items():
        if ids:
            yield f"{sentence}: {', '.join(ids)}."
