"""Readings in, verdicts out: finds each claim's numbers in the table of readings and applies the rule.

Nothing here knows a threshold or a probe; both are in the registry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.claims.rule import (
    Decision,
    Finding,
    decide,
    decide_interval,
    decide_share,
    joined,
    outcome_probabilities,
)
from rb_interp.claims.verdict import Judged, Outcome, Standing, Verdict, Verdicts
from rb_interp.errors import RunError
from rb_interp.statistics.intervals import Interval, median_and_range, paired_differences, proportion_interval
from rb_interp.typed import typed

COLUMNS = ("gamma", "seed", "stage", "set", "probe", "layer", "quantity", "value", "untrained")
SHOWN = ("statistic", "effect", "low", "high", "untrained")
CHANCE_OF_SHARE = 0.025
NOTHING = Interval(*[float("nan")] * 3)


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

    Raises:
        RunError: the table lacks a column, or a column of numbers holds something else.
    """
    missing = [name for name in COLUMNS if name not in readings]
    if missing:
        raise RunError(
            f"the readings lack the columns {missing}; claims need {list(COLUMNS)}. Probe the run again to write them."
        )
    check_numbers(readings, ("gamma", "seed", "value", "untrained"), "the readings")
    known = (standings.get(claim.id, Standing(None)) for claim in claims)
    return Verdicts(_judge_claim(readings, *one, scale, diverged) for one in zip(claims, known, strict=True))


def check_numbers(table: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Raise RunError where columns that hold numbers hold something else."""
    for name in columns:
        found: Any = table[name]
        numbers: Any = pd.to_numeric(found, errors="coerce")
        if bool((numbers.isna() & found.notna()).any()):
            raise RunError(f"{what} hold no numbers in the column '{name}'; probe the run again to write them.")
        if name == "seed" and bool(found.isna().any()):
            raise RunError(f"{what} lack the seed of a row; probe the run again to write them.")


class Chance(NamedTuple):
    """How many verdicts chance alone would give."""

    holds: float
    fails: float


@typed
def expected_by_chance(verdicts: Iterable[Verdict]) -> Chance:
    """How many of the verdicts of `judge` would be HOLDS, and FAILS, if half of all seeds met each claim.

    Exact for the numbers of seeds that the claims have, and 1/40 a claim at most for any number. A claim about a share
    counts .025 for HOLDS and for each condition .025 for FAILS, which Clopper-Pearson's interval guarantees where the
    share equals its threshold; so does one about a number with an interval, whose ends err as rarely. Verdicts that are
    withheld count nothing.
    """
    found = [Chance(0.0, 0.0)]
    for verdict in verdicts:
        if verdict.unit != "seed" and not verdict.withheld:
            found.append(Chance(CHANCE_OF_SHARE, CHANCE_OF_SHARE * len(verdict.conditions)))
        elif not verdict.withheld:
            found.append(Chance(*outcome_probabilities(0.5, verdict.n_decisive)))
    return Chance(*map(sum, zip(*found, strict=True)))


@dataclass(frozen=True)
class _Sample:
    """One term's values and the untrained models' values by seed, what is wrong with them, seeds that came too late."""

    values: dict[int, float]
    untrained: dict[int, float]
    problem: str = ""
    late: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Read:
    """One condition's statistic by seed, in trained and in untrained models, and the numbers that it compares.

    ``ends`` are those of the statistic's own interval, in claims about such; ``late`` the seeds that never came to a
    stage.
    """

    condition: Condition
    values: dict[int, float]
    untrained: dict[int, float]
    of: dict[int, float]
    minus: dict[int, float] | None
    problem: str
    ends: tuple[dict[int, float], ...] = ()
    late: frozenset[int] = frozenset()

    def among(self, seeds: Collection[int]) -> _Read:
        """The same of some seeds alone."""
        kept = {seed: value for seed, value in self.values.items() if seed in seeds}
        return replace(self, values=kept, untrained={s: v for s, v in self.untrained.items() if s in kept})


class _Learners(NamedTuple):
    """Seeds that have learned what a claim speaks of, whether these are at least half, and what to say of it."""

    seeds: Collection[int]
    by_half: bool | None
    reason: str


def _judge_claim(
    readings: pd.DataFrame, claim: Claim, known: Standing, scale: str, diverged: Collection[tuple[str, float, int]]
) -> Verdict:
    lost = _lost_seeds(claim, diverged)
    read = [_read_condition(readings, condition, claim.unit) for condition in claim.conditions]
    learners = _learners(readings, claim.gate or claim.learned, sorted(set().union(*(one.values for one in read))))
    read = [one.among(learners.seeds) for one in read] if claim.gate else read
    late, few, told = _late(read, claim, lost)
    read = [one.among(one.values.keys() - late) for one in read]
    records = tuple(_judge_condition(one, claim, lost) for one in read)
    if claim.unit != "seed":
        finding, met = _of_units(claim, records)
        outcome = _named(finding.outcome, all(record.outcome != "NOT JUDGED" for record in records))
        shown = next((record for record in records if record.outcome == outcome), records[0])
    else:
        met = _met_by_seed([(one.condition, one.values) for one in read], lost)
        finding, shown = _decide(met, claim), min(records, key=lambda record: record.n_meeting)
        outcome = _named(finding.outcome, _eligible(met, claim))
    barred = bool(known.reason) or learners.by_half is False or few
    before = _met_by_seed([(one.condition, one.untrained) for one in read], ())
    everyone = set().union(*(one.values for one in read)) | set(lost)
    uncounted = [seed for seed in sorted(everyone) if seed not in met]
    reasons = [
        known.reason,
        *dict.fromkeys(one.problem for one in read),
        learners.reason,
        told,
        f"seeds without every number: {_in_words(uncounted)}" if uncounted and claim.unit == "seed" else "",
        f"diverged, so not met: {_in_words(lost)}" if lost else "",
        finding.reason,
    ]
    return Verdict(
        id=claim.id,
        statement=claim.statement,
        source=claim.source,
        criterion=claim.criterion,
        gamma=claim.gamma,
        stage=claim.stage,
        unit=claim.unit,
        outcome="NOT JUDGED" if barred else outcome,
        n_seeds=finding.n_seeds,
        n_meeting=finding.n_meeting,
        share_low=finding.share.low,
        share_high=finding.share.high,
        decided_after=finding.decided_after,
        **{name: getattr(shown, name) for name in SHOWN},
        met_at_initialisation=_by_half(before.values()),
        scale=scale,
        calibrated=known.calibrated,
        withheld=bool(known.reason) or (barred and outcome != "NOT JUDGED"),
        uncalibrated_outcome=outcome,
        reason="; ".join(dict.fromkeys(filter(None, reasons))),
        seeds=tuple(met),
        met=tuple(met.values()),
        conditions=records,
        context=tuple(_shown(readings, term) for term in claim.context),
        learned=learners.by_half,
        first_seed=claim.first_seed,
        unreached=tuple(late),
        unreached_met=tuple(late.values()),
    )


def _late(read: Sequence[_Read], claim: Claim, lost: Collection[int]) -> tuple[dict[int, bool], bool, str]:
    """Seeds whose member never came to a stage -> whether they meet the claim at their last step.

    Returns whether these are more than half of the seeds, too, and what to say of them.

    Seeds that diverged count as not met all the same.
    """
    every = _met_by_seed([(one.condition, one.values) for one in read], lost) if claim.unit == "seed" else {}
    late = {seed: met for seed, met in every.items() if seed not in lost and any(seed in one.late for one in read)}
    if not late:
        return {}, False, ""
    few = 2 * len(late) > len(every)
    first_form = f"with them at their last step {sum(every.values())}/{len(every)}"
    told = f"{'not reached: ' if few else ''}never at the stage, so left out: {_in_words(late)} ({first_form})"
    return late, few, told


def _lost_seeds(claim: Claim, diverged: Collection[tuple[str, float, int]]) -> list[int]:
    """Seeds of which a member that the claim reads has diverged."""
    read = {(term.sweep, term.gamma) for term in claim.terms if term.stage != "init" and term.gamma is not None}
    return sorted(
        {seed for sweep, gamma, seed in diverged if any(sweep == s and np.isclose(gamma, g) for s, g in read)}
    )


def _met_by_seed(conditions: Sequence[tuple[Condition, Mapping[int, float]]], lost: Collection[int]) -> dict[int, bool]:
    """Seed -> whether it meets every condition, seeds ascending: those with every number, and the lost ones."""
    first, *others = (set(values) for _, values in conditions)
    whole = first.intersection(*others) | set(lost)
    return {
        seed: seed not in lost and all(condition.met(values[seed]) for condition, values in conditions)
        for seed in sorted(whole)
    }


def _named(decision: Decision, able: bool) -> Outcome:
    """A decision by its name in a verdict: without one, OPEN where more seeds are ``able`` to bring it."""
    return decision if decision != "UNDECIDED" else "OPEN" if able else "NOT JUDGED"


def _eligible(seeds: Iterable[int], claim: Claim) -> bool:
    """Whether some seeds count towards the outcome of a claim."""
    return any(seed >= claim.first_seed for seed in seeds)


def _of_units(claim: Claim, records: Sequence[Judged]) -> tuple[Finding, dict[int, bool]]:
    """What is found of a claim about shares, or numbers with intervals; its first condition's units are counted."""
    decided: list[Any] = [one.outcome if one.outcome in ("HOLDS", "FAILS") else "UNDECIDED" for one in records]
    meets = claim.conditions[0].met if claim.unit == "interval" else (1.0).__eq__
    met = {seed: bool(meets(value)) for seed, value in zip(records[0].seeds, records[0].values, strict=True)}
    share = proportion_interval(sum(met.values()), len(met))
    reasons = dict.fromkeys(
        one.reason for one, decision in zip(records, decided, strict=True) if decision == "UNDECIDED"
    )
    return Finding(joined(decided), len(met), sum(met.values()), share, reason="; ".join(filter(None, reasons))), met


def _read_condition(readings: pd.DataFrame, condition: Condition, unit: str) -> _Read:
    of = _read(readings, condition.of)
    minus = _read(readings, condition.minus) if condition.minus else None
    values = paired_differences(of.values, minus.values) if minus else of.values
    untrained = paired_differences(of.untrained, minus.untrained) if minus else of.untrained
    problems = dict.fromkeys(filter(None, (of.problem, minus.problem if minus else "")))
    before = {seed: value for seed, value in untrained.items() if seed in values and np.isfinite(value)}
    compared = minus.values if minus else None
    ends = [replace(condition.of, quantity=f"{condition.of.quantity}:{end}") for end in ("low", "high")]
    found = tuple(_read(readings, end).values for end in ends) if unit == "interval" else ()
    late = of.late | (minus.late if minus else frozenset())
    return _Read(condition, values, before, of.values, compared, "; ".join(problems), found, late)


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
    condition, values, unit = read.condition, read.values, claim.unit
    met = _met_by_seed([(condition, values)], lost)
    before = list(read.untrained.values())
    if unit == "share":
        shares = [[numbers[seed] for seed in values] for numbers in (read.of, read.minus) if numbers is not None]
        decision, interval = decide_share(condition, *shares) if values else ("UNDECIDED", NOTHING)
        reason = _contains(condition) if decision == "UNDECIDED" and values else ""
        untrained = float(np.mean(before)) if before else float("nan")
        started = condition.met(untrained)
    elif unit == "interval":
        interval, reason = _own_interval(read)
        decision = decide_interval(condition, interval)
        reason = reason or (_contains(condition) if decision == "UNDECIDED" and values else "")
        untrained = before[0] if len(before) == 1 else float("nan")
        started = condition.met(untrained)
    else:
        finding, interval = _decide(met, claim), median_and_range(list(values.values()))
        decision, reason, untrained = finding.outcome, "", median_and_range(before).estimate
        started = _by_half(map(condition.met, before))
    return Judged(
        statistic=condition.statistic,
        criterion=condition.criterion,
        gamma=condition.of.gamma,
        stage=condition.of.stage,
        outcome=_named(decision, _eligible(met, claim) if unit == "seed" else bool(np.isfinite(interval).all())),
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


def _contains(condition: Condition) -> str:
    return f"the interval contains {condition.threshold:g}"


def _by_half(met: Iterable[bool]) -> bool:
    """Whether at least half of some models meet a criterion; False without models."""
    counted = list(met)
    return bool(counted) and 2 * sum(counted) >= len(counted)


def _in_words(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))


def _learners(readings: pd.DataFrame, test: Condition | None, seeds: Collection[int]) -> _Learners:
    """Test which seeds have learned what a claim speaks of; a seed without that number has not."""
    if test is None or not seeds:
        return _Learners(seeds, None, "")
    tested = _read(readings, test.of)
    kept = [seed for seed in seeds if test.met(tested.values.get(seed, np.nan))]
    enough = 2 * len(kept) >= len(seeds)
    note = f"{'' if enough else 'not learned: '}{test.comparison} in {len(kept)} of {len(seeds)} seeds"
    note = note if tested.values and len(kept) < len(seeds) else ""
    return _Learners(kept, enough, "; ".join(filter(None, (tested.problem, note))))


def _read(readings: pd.DataFrame, term: Term) -> _Sample:
    """The finite values of one term by seed; a seed with several readings has no value."""
    here = readings.loc[(readings["quantity"] == term.quantity) & (readings["probe"] == term.probe)]
    at = term.at_gamma
    if "sweep" in here or term.sweep:
        here = here.loc[here.get("sweep", pd.Series("", here.index)) == term.sweep]
        at += f", sweep '{term.sweep}'" if term.sweep else ""
    gammas = here["gamma"].astype(float)
    here = here.loc[gammas.isna() if term.gamma is None else np.isclose(gammas, term.gamma)]
    if here.empty:
        return _Sample({}, {}, f"no reading of {term.probe}/{term.quantity} at {at}")
    here = here.loc[(here["stage"] == term.stage) & (here["set"] == term.set)]
    if term.layer is not None:
        here = here.loc[here["layer"] == term.layer]
    if here.empty:
        where = f"stage {term.stage}, set '{term.set}'" + ("" if term.layer is None else f", L{term.layer}")
        return _Sample({}, {}, f"no reading of {term.probe}/{term.quantity} at {at}, {where}")
    if here["seed"].duplicated().any():
        return _Sample({}, {}, f"several readings of {term.probe}/{term.quantity} per seed (heads?), one is needed")
    finite = here.loc[np.isfinite(here["value"].astype(float))]
    lost = len(here) - len(finite)
    whose = "" if term.gamma is None and len(here) == 1 else f"{lost} of {len(here)} seeds have "
    note = f"{whose}no finite {term.quantity}" if lost else ""
    late = frozenset(here.loc[~here["reached"].astype(bool), "seed"].astype(int)) if "reached" in here else frozenset()
    return _Sample(_by_seed(finite, "value"), _by_seed(finite, "untrained"), note, late)


def _by_seed(rows: pd.DataFrame, column: str) -> dict[int, float]:
    pairs = zip(rows["seed"], rows[column].astype(float), strict=True)
    return dict(sorted((int(seed), float(value)) for seed, value in pairs))


def _shown(readings: pd.DataFrame, term: Term) -> Judged:
    sample = _read(readings, term)
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


def finite(value: float) -> float | None:
    """The number, or None where it is NaN or infinite, which JSON cannot hold."""
    return float(value) if np.isfinite(value) else None
