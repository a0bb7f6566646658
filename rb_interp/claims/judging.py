"""Readings in, verdicts out: finds each claim's numbers in the table of readings and applies the rule.

Nothing here knows a threshold or a probe; both are in the claims of a study.

Where seeds differ in kind, such as in the circuit that they learned, a verdict over all of them says how the kinds are
mixed; a verdict within a group says what one kind does. How groups can mislead: what names a group may be what a claim
reads, and such a claim holds within the group by its definition. So verdicts within groups describe and do not test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.claims.rule import Finding, decide, decide_interval, decide_share, joined
from rb_interp.claims.verdict import Group, Grouping, Judged, Outcome, Standing, Verdict, Verdicts, Within, finite
from rb_interp.errors import RunError
from rb_interp.statistics.intervals import Interval, median_and_range, paired_differences, proportion_interval
from rb_interp.typed import typed

COLUMNS = ("gamma", "seed", "stage", "set", "probe", "layer", "quantity", "value", "untrained")
SHOWN = ("statistic", "effect", "low", "high", "untrained")
NOTHING = Interval(*[float("nan")] * 3)

Numbers = dict[int, float]
"""A number for each seed, seeds ascending."""


@typed
def judge(
    readings: pd.DataFrame,
    claims: Iterable[Claim],
    *,
    scale: str = "custom",
    standings: Mapping[str, Standing] = {},
    diverged: Collection[tuple[str, float, int]] = (),
) -> Verdicts:
    """Judge claims on a table of readings.

    Args:
        readings: one row per sweep, gamma, seed, stage, set, probe, layer, head and quantity. A table without the
            column ``sweep`` is that of the main sweep of a study, or of its only one. Where ``reached`` is False the
            member never came to the stage; in a table without that column all did.
        claims: what to judge.
        scale: how serious the run is: ``smoke``, ``quick``, ``paper`` or ``custom``.
        standings: claim id -> what is known of its probe's error rates. Where they are known and missed, the outcome is
            NOT JUDGED. A claim without an entry needs no calibration.
        diverged: (sweep, gamma, seed) of members whose training diverged. A claim that would read one of them counts
            its seed as not met.

    Raises RunError where the table lacks a column.
    """
    missing = [name for name in COLUMNS if name not in readings]
    if missing:
        raise RunError(
            f"the readings lack the columns {missing}; claims need {list(COLUMNS)}. Probe the run again to write them."
        )
    table = _Table(readings)
    return Verdicts(
        _judge_claim(table, claim, standings.get(claim.id, Standing(None)), scale, diverged) for claim in claims
    )


@typed
def judge_within(
    readings: pd.DataFrame,
    grouping: Grouping,
    *,
    scale: str = "custom",
    standings: Mapping[str, Standing] = {},
    diverged: Collection[tuple[str, float, int]] = (),
) -> Within:
    """Judge the claims of a grouping on the seeds of each of its groups alone; arguments as of `judge`.

    >>> place = {"gamma": 0.8, "stage": "final", "set": "", "probe": "p", "layer": None, "quantity": "q"}
    >>> rows = [{**place, "seed": seed, "value": seed % 2, "untrained": 0.0} for seed in range(16)]
    >>> claim = Claim("X", "It is 1.", "here", (Condition(Term("p", "q", 0.8, "final"), ">=", 1.0),))
    >>> groups = {seed: "odd" if seed % 2 else "even" for seed in range(16)}
    >>> within = judge_within(pd.DataFrame(rows), Grouping("parity", groups, (claim,)))
    >>> [(group.name, len(group.seeds), group.verdicts["X"].outcome) for group in within.groups]
    [('even', 8, 'FAILS'), ('odd', 8, 'HOLDS')]
    """
    sizes, made = Counter(grouping.groups.values()), []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        seeds = tuple(sorted(seed for seed, group in grouping.groups.items() if group == name))
        rows, lost = readings.loc[readings["seed"].isin(seeds)], [one for one in diverged if one[2] in seeds]
        verdicts = judge(rows, grouping.claims, scale=scale, standings=standings, diverged=lost)
        share = proportion_interval(len(seeds), sizes.total())
        made.append(Group(name, seeds, sizes.total(), *share, verdicts))
    return Within(grouping.by, tuple(made))


class _Sample(NamedTuple):
    """One term's finite values and the untrained models' values, what is wrong, and the seeds that came too late."""

    values: Numbers
    untrained: Numbers
    problem: str
    late: frozenset[int] = frozenset()


class _Read(NamedTuple):
    """One condition's statistic in trained and in untrained models, and the two terms that it compares.

    ``ends`` are those of the statistic's own interval, in claims about such.
    """

    condition: Condition
    values: Numbers
    untrained: Numbers
    of: _Sample
    minus: _Sample | None
    ends: tuple[Numbers, ...]

    @property
    def samples(self) -> list[_Sample]:
        return [self.of, *([self.minus] if self.minus else [])]

    @property
    def problem(self) -> str:
        return "; ".join(dict.fromkeys(sample.problem for sample in self.samples if sample.problem))

    def among(self, seeds: Collection[int]) -> _Read:
        """The same of some seeds alone."""
        kept = {seed: value for seed, value in self.values.items() if seed in seeds}
        return self._replace(values=kept, untrained={s: v for s, v in self.untrained.items() if s in kept})


class _Table:
    """A table of readings whose rows are grouped once, by probe and quantity."""

    def __init__(self, readings: pd.DataFrame) -> None:
        numbers = ("gamma", "layer", "value", "untrained")
        names = [*COLUMNS, *(name for name in ("sweep", "reached") if name in readings)]
        self.columns = {
            name: readings[name].to_numpy(dtype=float, na_value=np.nan)
            if name in numbers
            else readings[name].to_numpy()
            for name in names
        }
        self.rows = readings.groupby(["probe", "quantity"], sort=False).indices

    def term(self, term: Term) -> _Sample:
        """The finite values of one term by seed; a seed with several readings has no value."""
        columns, name, at = self.columns, f"{term.probe}/{term.quantity}", term.at_gamma
        rows = self.rows.get((term.probe, term.quantity), np.array([], dtype=int))
        if "sweep" in columns or term.sweep:
            rows = rows[columns["sweep"][rows] == term.sweep] if "sweep" in columns else rows[:0]
            at += f", sweep '{term.sweep}'" if term.sweep else ""
        gammas = columns["gamma"][rows]
        rows = rows[np.isnan(gammas) if term.gamma is None else np.isclose(gammas, term.gamma)]
        if not len(rows):
            return _Sample({}, {}, f"no reading of {name} at {at}")
        rows = rows[(columns["stage"][rows] == term.stage) & (columns["set"][rows] == term.set)]
        rows = rows if term.layer is None else rows[columns["layer"][rows] == term.layer]
        if not len(rows):
            where = f"stage {term.stage}, set '{term.set}'" + ("" if term.layer is None else f", L{term.layer}")
            return _Sample({}, {}, f"no reading of {name} at {at}, {where}")
        if len(set(columns["seed"][rows])) < len(rows):
            return _Sample({}, {}, f"several readings of {name} per seed (heads?), one is needed")
        rows = rows[np.argsort(columns["seed"][rows], kind="stable")]
        finite_rows = rows[np.isfinite(columns["value"][rows])]
        lost = len(rows) - len(finite_rows)
        whose = "" if term.gamma is None and len(rows) == 1 else f"{lost} of {len(rows)} seeds have "
        note = f"{whose}no finite {term.quantity}" if lost else ""
        reached = columns["reached"][rows] if "reached" in columns else [True] * len(rows)
        late = frozenset(int(s) for s, came in zip(columns["seed"][rows], reached, strict=True) if not came)
        seeds = [int(seed) for seed in columns["seed"][finite_rows]]
        values, untrained = (
            dict(zip(seeds, columns[column][finite_rows].tolist(), strict=True)) for column in ("value", "untrained")
        )
        return _Sample(values, untrained, note, late)

    def condition(self, condition: Condition, unit: str) -> _Read:
        """A condition's statistic by seed, and of a claim about numbers with intervals the ends of these."""
        of, minus = self.term(condition.of), self.term(condition.minus) if condition.minus else None
        values = paired_differences(of.values, minus.values) if minus else of.values
        untrained = paired_differences(of.untrained, minus.untrained) if minus else of.untrained
        before = {seed: value for seed, value in untrained.items() if seed in values and np.isfinite(value)}
        ends = [replace(condition.of, quantity=f"{condition.of.quantity}:{end}") for end in ("low", "high")]
        found = tuple(self.term(end).values for end in ends) if unit == "interval" else ()
        return _Read(condition, values, before, of, minus, found)


def _judge_claim(
    table: _Table, claim: Claim, known: Standing, scale: str, diverged: Collection[tuple[str, float, int]]
) -> Verdict:
    lost = _lost_seeds(claim, diverged)
    read = [table.condition(condition, claim.unit) for condition in claim.conditions]
    learners, by_half, not_learned = _learners(table, claim, sorted(set().union(*(one.values for one in read))))
    read = [one.among(learners) for one in read] if claim.gate else read
    late, few, told = _late(read, claim, lost)
    read = [one.among(one.values.keys() - late) for one in read]
    records = tuple(_judge_condition(one, claim, lost) for one in read)
    if claim.unit == "seed":
        met = _met(read, lost)
        finding, shown = _decide(met, claim), min(records, key=lambda record: record.n_meeting)
        outcome = _named(finding.outcome, max(met, default=-1) >= claim.first_seed)
    else:
        finding, met = _of_units(claim, records)
        outcome = _named(finding.outcome, all(record.outcome != "NOT JUDGED" for record in records))
        shown = next((record for record in records if record.outcome == outcome), records[0])
    barred = bool(known.reason) or by_half is False or few
    uncounted = sorted(set().union(*(one.values for one in read), lost) - met.keys())
    reasons = [
        known.reason,
        *(one.problem for one in read),
        not_learned,
        told,
        f"seeds without every number: {str(uncounted)[1:-1]}" if uncounted and claim.unit == "seed" else "",
        f"diverged, so not met: {str(lost)[1:-1]}" if lost else "",
        finding.reason,
    ]
    return Verdict(
        **{name: getattr(claim, name) for name in ("id", "statement", "source", "criterion", "gamma", "stage", "unit")},
        outcome="NOT JUDGED" if barred else outcome,
        n_seeds=finding.n_seeds,
        n_meeting=finding.n_meeting,
        share_low=finding.share.low,
        share_high=finding.share.high,
        decided_after=finding.decided_after,
        **{name: getattr(shown, name) for name in SHOWN},
        met_at_initialisation=_by_half(_met([one._replace(values=one.untrained) for one in read]).values()),
        scale=scale,
        calibrated=known.calibrated,
        withheld=bool(known.reason) or (barred and outcome != "NOT JUDGED"),
        uncalibrated_outcome=outcome,
        reason="; ".join(dict.fromkeys(filter(None, reasons))),
        seeds=tuple(met),
        met=tuple(met.values()),
        conditions=records,
        context=tuple(_shown(table, term) for term in claim.context),
        learned=by_half,
        first_seed=claim.first_seed,
        unreached=tuple(late),
        unreached_met=tuple(late.values()),
    )


def _late(read: Sequence[_Read], claim: Claim, lost: Collection[int]) -> tuple[dict[int, bool], bool, str]:
    """Seeds whose member never came to a stage -> whether they meet the claim at their last step.

    Returns whether these are more than half of the seeds, too, and what to say of them.

    Seeds that diverged count as not met all the same.
    """
    every = _met(read, lost) if claim.unit == "seed" else {}
    never = frozenset().union(*(sample.late for one in read for sample in one.samples)) - set(lost)
    late = {seed: met for seed, met in every.items() if seed in never}
    if not late:
        return {}, False, ""
    few = 2 * len(late) > len(every)
    first_form = f"with them at their last step {sum(every.values())}/{len(every)}"
    told = f"{'not reached: ' if few else ''}never at the stage, so left out: {str([*late])[1:-1]} ({first_form})"
    return late, few, told


def _lost_seeds(claim: Claim, diverged: Collection[tuple[str, float, int]]) -> list[int]:
    """Seeds of which a member that the claim reads has diverged."""
    read = {(term.sweep, term.gamma) for term in claim.terms if term.stage != "init" and term.gamma is not None}
    return sorted(
        {seed for sweep, gamma, seed in diverged if any(sweep == s and np.isclose(gamma, g) for s, g in read)}
    )


def _met(read: Sequence[_Read], lost: Collection[int] = ()) -> dict[int, bool]:
    """Seed -> whether it meets every condition, seeds ascending: those with every number, and the lost ones."""
    whole = set.intersection(*(set(one.values) for one in read)) | set(lost)
    return {
        seed: seed not in lost and all(one.condition.met(one.values[seed]) for one in read) for seed in sorted(whole)
    }


def _named(outcome: Outcome, able: bool) -> Outcome:
    """What is OPEN, and no further seed is ``able`` to decide, is NOT JUDGED."""
    return outcome if able or outcome != "OPEN" else "NOT JUDGED"


def _of_units(claim: Claim, records: Sequence[Judged]) -> tuple[Finding, dict[int, bool]]:
    """What is found of a claim about shares, or numbers with intervals; its first condition's units are counted."""
    meets = claim.conditions[0].met if claim.unit == "interval" else (1.0).__eq__
    met = {seed: bool(meets(value)) for seed, value in zip(records[0].seeds, records[0].values, strict=True)}
    share = proportion_interval(sum(met.values()), len(met))
    reasons = dict.fromkeys(one.reason for one in records if one.outcome in ("OPEN", "NOT JUDGED") and one.reason)
    outcome = joined([one.outcome for one in records])
    return Finding(outcome, len(met), sum(met.values()), share, reason="; ".join(reasons)), met


def _decide(met: Mapping[int, bool], claim: Claim) -> Finding:
    """Judge which seeds meet something: all are counted, and those from the claim's first seed on decide."""
    decisive = [is_met for seed, is_met in met.items() if seed >= claim.first_seed]
    finding, n, k = decide(decisive), len(met), sum(met.values())
    if len(decisive) == n:
        return finding
    reason = f"judged on seeds from {claim.first_seed} on: {sum(decisive)}/{len(decisive)}"
    reason = "; ".join(filter(None, (reason, finding.reason)))
    return replace(finding, n_seeds=n, n_meeting=k, share=proportion_interval(k, n), reason=reason)


def _judge_condition(read: _Read, claim: Claim, lost: Collection[int]) -> Judged:
    condition, values, unit, reason = read.condition, read.values, claim.unit, ""
    met, before = _met([read], lost), list(read.untrained.values())
    if unit == "seed":
        outcome, interval = _decide(met, claim).outcome, median_and_range(list(values.values()))
        untrained, started = median_and_range(before).estimate, _by_half(map(condition.met, before))
    else:
        if unit == "share":
            shares = [[sample.values[seed] for seed in values] for sample in read.samples]
            outcome, interval = decide_share(condition, *shares) if values else ("OPEN", NOTHING)
            untrained = float(np.mean(before)) if before else float("nan")
        else:
            interval, reason = _own_interval(read)
            outcome = decide_interval(condition, interval)
            untrained = before[0] if len(before) == 1 else float("nan")
        started = condition.met(untrained)
        reason = reason or (f"the interval contains {condition.threshold:g}" if outcome == "OPEN" and values else "")
    able = max(met, default=-1) >= claim.first_seed if unit == "seed" else bool(np.isfinite(interval).all())
    return Judged(
        statistic=condition.statistic,
        criterion=condition.criterion,
        gamma=condition.of.gamma,
        stage=condition.of.stage,
        outcome=_named(outcome, able),
        **_numbers(interval),
        n_seeds=len(met),
        n_meeting=sum(met.values()),
        untrained=finite(untrained),
        met_at_initialisation=started,
        reason="; ".join(filter(None, (read.problem, reason))),
        seeds=tuple(values),
        values=tuple(values.values()),
    )


def _own_interval(read: _Read) -> tuple[Interval, str]:
    """The interval that was read with a number of all members, or why there is none."""
    if len(read.values) > 1:
        return NOTHING, f"{len(read.values)} numbers at {read.condition.of.at_gamma}, one is needed"
    for seed, value in read.values.items():
        low, high = (end.get(seed, np.nan) for end in read.ends)
        return Interval(value, low, high), "" if np.isfinite([low, high]).all() else "no interval was read with it"
    return NOTHING, ""


def _by_half(met: Iterable[bool]) -> bool:
    """Whether at least half of some models meet a criterion; False without models."""
    counted = list(met)
    return bool(counted) and 2 * sum(counted) >= len(counted)


def _learners(table: _Table, claim: Claim, seeds: Collection[int]) -> tuple[Collection[int], bool | None, str]:
    """Seeds that have learned what a claim speaks of, whether these are at least half, and what to say of it.

    A seed without the number has not learned it.
    """
    test = claim.gate or claim.learned
    if test is None or not seeds:
        return seeds, None, ""
    tested = table.term(test.of)
    kept = [seed for seed in seeds if test.met(tested.values.get(seed, np.nan))]
    enough = 2 * len(kept) >= len(seeds)
    why = "" if enough else "stopped early: " if claim.stopped_early else "not learned: "
    note = f"{why}{test.comparison} in {len(kept)} of {len(seeds)} seeds"
    note = note if tested.values and len(kept) < len(seeds) else ""
    return kept, enough, "; ".join(filter(None, (tested.problem, note)))


def _shown(table: _Table, term: Term) -> Judged:
    sample = table.term(term)
    values = tuple(sample.values.values())
    return Judged(
        statistic=f"{term.place}: {term.label}",
        **_numbers(median_and_range(values)),
        n_seeds=len(values),
        untrained=finite(median_and_range([x for x in sample.untrained.values() if np.isfinite(x)]).estimate),
        reason=sample.problem,
        seeds=tuple(sample.values),
        values=values,
    )


def _numbers(interval: Sequence[float]) -> dict[str, Any]:
    return dict(zip(("effect", "low", "high"), map(finite, interval), strict=True))
