"""Readings in, verdicts out: finds each claim's numbers in the table of readings and applies the
rule.

Where seeds differ in kind, such as in the circuit that they learned, a verdict over all of them
says how the kinds are mixed; a verdict within a group says what one kind does. How groups can
mislead: what names a group may be what a claim reads, and such a claim holds within the group by
its definition. So verdicts within groups describe and do not test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import pandas as pd
from pydantic_core.core_schema import no_info_after_validator_function

from rb_interp.arguments import checked
from rb_interp.claims import rule
from rb_interp.claims.rule import CausalCheck, Claim, Condition, Term
from rb_interp.errors import RunError, StudyError, nearest
from rb_interp.statistics.intervals import (
    Interval,
    median_and_range,
    paired_differences,
    proportion_interval,
)

TABLE = (
    "id criterion outcome n_seeds n_meeting share_low share_high decided_after statistic effect "
    "low high untrained "
    "met_at_initialisation calibrated learned reason"
)
"""Columns of `Verdicts.to_frame`."""


@dataclass(frozen=True)
class Judged:
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
        calibrated: as in `Standing`.
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
    conditions: tuple[Judged, ...]
    context: tuple[Judged, ...] = ()
    learned: bool | None = None
    first_seed: int = 0
    unreached: tuple[int, ...] = ()

    @property
    def n_decisive(self) -> int:
        """How many of the seeds that count the outcome rests on."""
        return (
            sum(seed >= self.first_seed for seed in self.seeds)
            if self.unit == "seed"
            else self.n_seeds
        )

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
        raise StudyError(
            f"no claim '{key}' was judged; {nearest(key, [verdict.id for verdict in self])}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a claim, without its conditions."""
        names = TABLE.split()
        return pd.DataFrame(
            [{name: getattr(verdict, name) for name in names} for verdict in self], columns=names
        )

    def __repr__(self) -> str:
        counts = Counter(verdict.outcome for verdict in self)
        told = ", ".join(
            f"{counts[outcome]} {outcome}" for outcome in rule.OUTCOMES if counts[outcome]
        )
        return f"Verdicts({told or 'of no claim'})"

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


NUMBERS = ("gamma", "layer", "value", "untrained")
COLUMNS = (*NUMBERS, "seed", "stage", "set", "probe", "quantity")
SHOWN = ("statistic", "effect", "low", "high", "untrained")
COPIED = ("id", "statement", "source", "criterion", "unit", "first_seed")
NOTHING = Interval(*[float("nan")] * 3)

Numbers = dict[int, float]
"""A number for each seed, seeds ascending."""
Diverged = Collection[tuple[str, float, int]]
"""Sweep, gamma and seed of members whose training diverged."""


@checked
def judge(
    readings: pd.DataFrame,
    claims: Iterable[Claim],
    *,
    standings: Mapping[str, rule.Standing] = {},
    diverged: Diverged = (),
) -> Verdicts:
    """Judge claims on a table of readings.

    Args:
        readings: one row per sweep, gamma, seed, stage, set, probe, layer, head and quantity.
            Without the column ``sweep`` all rows are of the main sweep; without ``reached`` every
            member came to its stage.
        standings: claim id -> what is known of its probe's error rates; without an entry, it needs
            no calibration.
        diverged: (sweep, gamma, seed) of members whose training diverged. A claim that would read
            one of them counts its seed as not met.
    """
    if missing := [name for name in COLUMNS if name not in readings]:
        told = f"the readings lack the columns {missing}; claims need {list(COLUMNS)}."
        raise RunError(f"{told} Probe the run again to write them.")
    table = _Table(readings)
    return Verdicts(
        _judge_claim(table, claim, standings.get(claim.id, rule.Standing(None)), diverged)
        for claim in claims
    )


@checked
def judge_within(
    readings: pd.DataFrame, grouping: rule.Grouping, *, diverged: Diverged = (), **options: Any
) -> Within:
    """Judge the claims of a grouping on the seeds of each of its groups alone; options are those of
    `judge`.

    >>> place = {"gamma": 0.8, "stage": "final", "set": "", "probe": "p", "layer": None, "quantity": "q"}
    >>> rows = [{**place, "seed": seed, "value": seed % 2, "untrained": 0.0} for seed in range(16)]
    >>> claim = Claim("X", "It is 1.", "here", (Condition(Term("p", "q", 0.8, "final"), ">=", 1.0),))
    >>> groups = {seed: "odd" if seed % 2 else "even" for seed in range(16)}
    >>> from rb_interp.claims import Grouping
    >>> within = judge_within(pd.DataFrame(rows), Grouping("parity", groups, (claim,)))
    >>> [(group.name, len(group.seeds), group.verdicts["X"].outcome) for group in within.groups]
    [('even', 8, 'FAILS'), ('odd', 8, 'HOLDS')]
    """
    sizes, made = Counter(grouping.groups.values()), []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        seeds = tuple(sorted(seed for seed, group in grouping.groups.items() if group == name))
        rows, lost = (
            readings.loc[readings["seed"].isin(seeds)],
            [one for one in diverged if one[2] in seeds],
        )
        verdicts = judge(rows, grouping.claims, diverged=lost, **options)
        made.append(Group(name, seeds, sizes.total(), verdicts))
    return Within(grouping.by, tuple(made))


@checked
def judge_checks(
    readings: pd.DataFrame,
    effects: pd.DataFrame,
    checks: Iterable[CausalCheck],
    *,
    sibling_stages: Mapping[str, tuple[str, float]] = {},
    **options: Any,
) -> list[CheckedCause]:
    """Judge each intervention by the same rule as claims.

    Args:
        readings: with the effects among them. effects: one row per member, stage and intervention.
        sibling_stages: name -> (stage, gamma). Other gammas are shown at the sibling stage that
            stands for the check's own stage, as far as they have it.
        options: those of `judge`.
    """
    checks, siblings = (
        list(checks),
        {stage: (name, gamma) for name, (stage, gamma) in sibling_stages.items()},
    )
    judged = []
    for check, verdict in zip(
        checks, judge(readings, [check.check for check in checks], **options), strict=True
    ):
        term, here, cells = check.check.conditions[0].of, effects, []
        stage = next(
            (own for own, (name, _) in siblings.items() if term.stage in (own, name)), term.stage
        )
        sibling, own_gamma = siblings.get(stage, (stage, term.gamma))
        if len(effects):
            here = effects.loc[
                (effects["intervention"] == check.intervention) & (effects["set"] == term.set)
            ]
        for gamma, member in here.groupby("gamma") if len(here) else ():
            at = stage if own_gamma is None or np.isclose(float(gamma), own_gamma) else sibling  # type: ignore[arg-type]
            if (
                at not in member["stage"].unique()
            ):  # a run without the sibling's gamma has no such step
                at = stage
            member = member.loc[member["stage"] == at]
            cells.append(
                {"gamma": gamma, "stage": at, "n_seeds": int(member["effect"].notna().sum())}
            )
            for name, ends in (
                ("effect", ("low", "high")),
                ("control", ("control_low", "control_high")),
            ):
                found = median_and_range(member[name].astype(float).dropna().to_numpy())
                cells[-1] |= dict(zip((name, *ends), map(_finite, found), strict=True))
        quantity = str(here["quantity"].iloc[0]) if len(here) else ""
        judged.append(CheckedCause(check.of, check.intervention, quantity, verdict, tuple(cells)))
    return judged


class _Sample(NamedTuple):
    """One term's finite values and the untrained models' values, what is wrong, and the seeds that
    came too late."""

    values: Numbers
    untrained: Numbers
    problem: str
    late: frozenset[int] = frozenset()


class _Read(NamedTuple):
    """One condition's statistic in trained and in untrained models, its terms, and the ends of its
    own interval."""

    condition: Condition
    values: Numbers
    untrained: Numbers
    samples: list[_Sample]
    ends: tuple[Numbers, ...]

    @property
    def problem(self) -> str:
        return _told(sample.problem for sample in self.samples)

    def among(self, seeds: Collection[int]) -> _Read:
        """The same of some seeds alone."""
        values, untrained = (
            {s: v for s, v in n.items() if s in seeds} for n in (self.values, self.untrained)
        )
        return self._replace(values=values, untrained=untrained)


class _Table:
    """A table of readings whose rows are grouped once, by probe and quantity."""

    def __init__(self, readings: pd.DataFrame) -> None:
        missing = {
            name: value
            for name, value in (("sweep", ""), ("reached", True))
            if name not in readings
        }
        table = readings.assign(
            **missing, **{name: pd.to_numeric(readings[name]) for name in NUMBERS}
        )
        self.columns = {name: table[name].to_numpy() for name in (*COLUMNS, *("sweep", "reached"))}
        self.rows = table.groupby(["probe", "quantity"], sort=False).indices

    def term(self, term: Term) -> _Sample:
        """The finite values of one term by seed; a seed with several readings has no value."""
        name, place = (
            f"{term.probe}/{term.quantity}",
            {"sweep": term.sweep, "stage": term.stage, "set": term.set},
        )
        rows = self.rows.get((term.probe, term.quantity), np.array([], dtype=int))
        gammas = self.columns["gamma"][rows].astype(float)
        rows = rows[np.isnan(gammas) if term.gamma is None else np.isclose(gammas, term.gamma)]
        for column, wanted in (
            place | ({} if term.layer is None else {"layer": term.layer})
        ).items():
            rows = rows[self.columns[column][rows] == wanted]
        if not len(rows):
            where = "".join(f", {column} '{wanted}'" for column, wanted in place.items() if wanted)
            layer = "" if term.layer is None else f", L{term.layer}"
            return _Sample({}, {}, f"no reading of {name} at {term.at_gamma}{where}{layer}")
        rows = rows[np.argsort(self.columns["seed"][rows], kind="stable")]
        of = {
            column: self.columns[column][rows]
            for column in ("seed", "value", "untrained", "reached")
        }
        if len(set(of["seed"])) < len(rows):
            return _Sample({}, {}, f"several readings of {name} per seed (heads?), one is needed")
        finite = np.isfinite(of["value"].astype(float))
        lost = len(rows) - int(finite.sum())
        whose = (
            "" if term.gamma is None and len(rows) == 1 else f"{lost} of {len(rows)} seeds have "
        )
        values, untrained = (
            {
                int(seed): float(value)
                for seed, value in zip(of["seed"][finite], of[column][finite], strict=True)
            }
            for column in ("value", "untrained")
        )
        late = frozenset(of["seed"][~of["reached"].astype(bool)].tolist())
        return _Sample(values, untrained, f"{whose}no finite {term.quantity}" if lost else "", late)

    def condition(self, condition: Condition, unit: str) -> _Read:
        """A condition's statistic by seed, and of a claim about numbers with intervals the ends of
        these."""
        samples = [self.term(term) for term in (condition.of, condition.minus) if term]
        values, untrained = samples[0].values, samples[0].untrained
        if condition.minus:
            first, second = samples
            values = paired_differences(first.values, second.values)
            untrained = paired_differences(first.untrained, second.untrained)
        before = {
            seed: value
            for seed, value in untrained.items()
            if seed in values and np.isfinite(value)
        }
        ends = [
            replace(condition.of, quantity=f"{condition.of.quantity}:{end}")
            for end in ("low", "high")
        ]
        found = tuple(self.term(end).values for end in ends) if unit == "interval" else ()
        return _Read(condition, values, before, samples, found)


def _judge_claim(table: _Table, claim: Claim, known: rule.Standing, diverged: Diverged) -> Verdict:
    lost = _lost_seeds(claim, diverged)
    read = [table.condition(condition, claim.unit) for condition in claim.conditions]
    learners, by_half, not_learned = _learners(
        table, claim, sorted(set().union(*(one.values for one in read)))
    )
    read = [one.among(learners) for one in read] if claim.gate else read
    late, few, told = _late(read, claim, lost)
    read = [one.among(one.values.keys() - set(late)) for one in read]
    records = tuple(_judge_condition(one, claim, lost) for one in read)
    if claim.unit == "seed":
        met = _met(read, lost)
        finding, shown = _decide(met, claim), min(records, key=lambda record: record.n_meeting)
        outcome = _named(finding.outcome, max(met, default=-1) >= claim.first_seed)
    else:  # the units of the first condition are counted
        meets = claim.conditions[0].met if claim.unit == "interval" else (1.0).__eq__
        met = {seed: bool(meets(value)) for seed, value in read[0].values.items()}
        reason = _told(one.reason for one in records if one.outcome in ("OPEN", "NOT JUDGED"))
        finding = rule.Finding(rule.joined([one.outcome for one in records]), reason=reason)
        outcome = _named(finding.outcome, all(record.outcome != "NOT JUDGED" for record in records))
        shown = next((record for record in records if record.outcome == outcome), records[0])
    share = proportion_interval(sum(met.values()), len(met))
    before = _met([one._replace(values=one.untrained) for one in read])
    barred = bool(known.reason) or by_half is False or few
    uncounted = sorted(set().union(*(one.values for one in read), lost) - met.keys())
    reasons = (
        known.reason,
        *(one.problem for one in read),
        not_learned,
        told,
        f"seeds without every number: {str(uncounted)[1:-1]}"
        if uncounted and claim.unit == "seed"
        else "",
        f"diverged, so not met: {str(lost)[1:-1]}" if lost else "",
        finding.reason,
    )
    return Verdict(
        **{name: getattr(claim, name) for name in COPIED},
        outcome="NOT JUDGED" if barred else outcome,
        n_seeds=len(met),
        n_meeting=sum(met.values()),
        share_low=share.low,
        share_high=share.high,
        decided_after=finding.decided_after,
        **{name: getattr(shown, name) for name in SHOWN},
        met_at_initialisation=bool(before) and 2 * sum(before.values()) >= len(before),
        calibrated=known.calibrated,
        withheld=bool(known.reason) or (barred and outcome != "NOT JUDGED"),
        uncalibrated_outcome=outcome,
        reason=_told(reasons),
        seeds=tuple(met),
        met=tuple(met.values()),
        conditions=records,
        context=tuple(_shown(table, term) for term in claim.context),
        learned=by_half,
        unreached=tuple(late),
    )


def _late(
    read: Sequence[_Read], claim: Claim, lost: Collection[int]
) -> tuple[list[int], bool, str]:
    """Seeds whose member never came to a stage, whether these are more than half, and what to say
    of them."""
    every = _met(read, lost) if claim.unit == "seed" else {}
    never = set().union(*(sample.late for one in read for sample in one.samples)) - set(lost)
    late = [seed for seed in every if seed in never]
    if not late:
        return [], False, ""
    few = 2 * len(late) > len(every)
    told = f"never at the stage, so left out: {str(late)[1:-1]} (with them at their last step"
    return late, few, f"{'not reached: ' if few else ''}{told} {sum(every.values())}/{len(every)})"


def _lost_seeds(claim: Claim, diverged: Diverged) -> list[int]:
    """Seeds of which a member that the claim reads has diverged."""
    read = {
        (term.sweep, term.gamma)
        for term in claim.terms
        if term.stage != "init" and term.gamma is not None
    }
    lost = {
        seed
        for sweep, gamma, seed in diverged
        if any(sweep == s and np.isclose(gamma, g) for s, g in read)
    }
    return sorted(lost)


def _met(read: Sequence[_Read], lost: Collection[int] = ()) -> dict[int, bool]:
    """Seed -> whether it meets every condition, seeds ascending: those with every number, and the
    lost ones."""
    whole = sorted(set.intersection(*(set(one.values) for one in read)) | set(lost))
    return {
        seed: seed not in lost and all(one.condition.met(one.values[seed]) for one in read)
        for seed in whole
    }


def _named(outcome: rule.Outcome, able: bool) -> rule.Outcome:
    """What is OPEN, and no further seed is ``able`` to decide, is NOT JUDGED."""
    return outcome if able or outcome != "OPEN" else "NOT JUDGED"


def _decide(met: Mapping[int, bool], claim: Claim) -> rule.Finding:
    """Judge which seeds meet something: those from the claim's first seed on decide."""
    decisive = [is_met for seed, is_met in met.items() if seed >= claim.first_seed]
    finding = rule.decide(decisive)
    if len(decisive) == len(met):
        return finding
    told = f"judged on seeds from {claim.first_seed} on: {sum(decisive)}/{len(decisive)}"
    return finding._replace(reason=_told([told, finding.reason]))


def _judge_condition(read: _Read, claim: Claim, lost: Collection[int]) -> Judged:
    condition, values, reason = read.condition, read.values, ""
    met, interval = _met([read], lost), median_and_range([*values.values()])
    untrained = median_and_range([*read.untrained.values()]).estimate
    able = max(met, default=-1) >= claim.first_seed
    if claim.unit == "seed":
        outcome = _decide(met, claim).outcome
    else:
        if claim.unit == "share":
            shares = [[sample.values[seed] for seed in values] for sample in read.samples]
            outcome, interval = (
                rule.decide_share(condition, *shares) if values else ("OPEN", NOTHING)
            )
            untrained = float(np.mean([*read.untrained.values()])) if read.untrained else untrained
        else:
            interval, reason = _own_interval(read)
            outcome = rule.decide_interval(condition, interval)
        able = bool(np.isfinite(interval).all())
        if outcome == "OPEN" and values:
            reason = reason or f"the interval contains {condition.threshold:g}"
    return Judged(
        statistic=condition.statistic,
        criterion=condition.criterion,
        outcome=_named(outcome, able),
        **_numbers(values, interval),
        n_seeds=len(met),
        n_meeting=sum(met.values()),
        untrained=_finite(untrained),
        reason=_told([read.problem, reason]),
    )


def _own_interval(read: _Read) -> tuple[Interval, str]:
    """The interval that was read with a number of all members, or why there is none."""
    if len(read.values) > 1:
        return NOTHING, f"{len(read.values)} numbers at {read.condition.of.at_gamma}, one is needed"
    for seed, value in read.values.items():
        low, high = (end.get(seed, np.nan) for end in read.ends)
        return Interval(value, low, high), "" if np.isfinite(
            [low, high]
        ).all() else "no interval was read with it"
    return NOTHING, ""


def _learners(
    table: _Table, claim: Claim, seeds: Collection[int]
) -> tuple[Collection[int], bool | None, str]:
    """Seeds that have learned what a claim speaks of, whether these are at least half, and what to
    say of it."""
    test = claim.gate or claim.learned
    if test is None or not seeds:
        return seeds, None, ""
    tested = table.term(test.of)
    kept = [seed for seed in seeds if test.met(tested.values.get(seed, np.nan))]
    enough = 2 * len(kept) >= len(seeds)
    why = "" if enough else "stopped early: " if claim.stopped_early else "not learned: "
    note = f"{why}{test.comparison} in {len(kept)} of {len(seeds)} seeds"
    return (
        kept,
        enough,
        _told([tested.problem, note if tested.values and len(kept) < len(seeds) else ""]),
    )


def _shown(table: _Table, term: Term) -> Judged:
    sample = table.term(term)
    before = [value for value in sample.untrained.values() if np.isfinite(value)]
    return Judged(
        statistic=f"{term.place}: {term.label or term.quantity}",
        **_numbers(sample.values, median_and_range([*sample.values.values()])),
        n_seeds=len(sample.values),
        untrained=_finite(median_and_range(before).estimate),
        reason=sample.problem,
    )


def _told(parts: Iterable[str]) -> str:
    """What there is to say, each sentence once."""
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _numbers(values: Numbers, interval: Interval) -> dict[str, Any]:
    effect, low, high = map(_finite, interval)
    return {
        "effect": effect,
        "low": low,
        "high": high,
        "seeds": (*values,),
        "values": (*values.values(),),
    }


def _finite(value: float) -> float | None:
    """The number, or None where it is NaN or infinite, which JSON cannot hold."""
    return float(value) if np.isfinite(value) else None
