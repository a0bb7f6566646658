"""Verdicts on the claims of a run: each claim's numbers in the readings, judged by the rule.

Where seeds differ in kind, such as in the circuit that they learned, a verdict over all of them
says how the kinds are mixed; a verdict within a group says what one kind does. How groups can
mislead: what names a group may be what a claim reads, and such a claim holds within the group by
its definition. So verdicts within groups describe and do not test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.arguments import checked
from rb_interp.claims import rule
from rb_interp.claims.claim import CalibrationStatus, CausalCheck, Claim, Grouping, Term
from rb_interp.claims.samples import (
    COLUMNS,
    ConditionSample,
    ReadingsTable,
    SeedValues,
    joined_text,
)
from rb_interp.claims.verdict import CheckedCause, ConditionResult, Group, Verdict, Verdicts, Within
from rb_interp.errors import RunError
from rb_interp.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    median_and_range,
    proportion_interval,
)

CLAIM_FIELDS = ("id", "statement", "source", "criterion", "unit", "first_seed")
"""What a verdict has from its claim."""
STATISTIC_FIELDS = ("statistic", "effect", "low", "high", "untrained")
"""What a verdict has from the condition that it shows first."""
EFFECT_COLUMNS = (("effect", "low", "high"), ("control", "control_low", "control_high"))
"""Number and the ends of its range in a `CheckedCause`."""

Diverged = Collection[tuple[str, float, int]]
"""Sweep, gamma and seed of members whose training diverged."""


@checked
def judge(
    readings: pd.DataFrame,
    claims: Iterable[Claim],
    *,
    standings: Mapping[str, CalibrationStatus] = {},
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
        message = f"the readings lack the columns {missing}; claims need {list(COLUMNS)}."
        raise RunError(f"{message} Probe the run again to write them.")
    table = ReadingsTable(readings)
    unknown = CalibrationStatus(None)
    return Verdicts(
        _judge_claim(table, claim, standings.get(claim.id, unknown), diverged) for claim in claims
    )


@checked
def judge_within(
    readings: pd.DataFrame, grouping: Grouping, *, diverged: Diverged = (), **options: Any
) -> Within:
    """Judge the claims of a grouping on the seeds of each of its groups alone; options are those of
    `judge`.

    >>> from rb_interp.claims import Condition, Grouping
    >>> place = {"gamma": 0.8, "stage": "final", "set": "", "probe": "p", "layer": None, "quantity": "q"}
    >>> rows = [{**place, "seed": seed, "value": seed % 2, "untrained": 0.0} for seed in range(16)]
    >>> claim = Claim("X", "It is 1.", "here", (Condition(Term("p", "q", 0.8, "final"), ">=", 1.0),))
    >>> groups = {seed: "odd" if seed % 2 else "even" for seed in range(16)}
    >>> within = judge_within(pd.DataFrame(rows), Grouping("parity", groups, (claim,)))
    >>> [(group.name, len(group.seeds), group.verdicts["X"].outcome) for group in within.groups]
    [('even', 8, 'FAILS'), ('odd', 8, 'HOLDS')]
    """
    sizes = Counter(grouping.groups.values())
    groups = []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        seeds = tuple(sorted(seed for seed, group in grouping.groups.items() if group == name))
        rows = readings.loc[readings["seed"].isin(seeds)]
        diverged_seeds = [member for member in diverged if member[2] in seeds]
        verdicts = judge(rows, grouping.claims, diverged=diverged_seeds, **options)
        groups.append(Group(name, seeds, sizes.total(), verdicts))
    return Within(grouping.by, tuple(groups))


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
    checks = list(checks)
    verdicts = judge(readings, [check.check for check in checks], **options)
    results = []
    for check, verdict in zip(checks, verdicts, strict=True):
        term = check.check.conditions[0].of
        rows = effects
        if len(effects):
            rows = effects.query("intervention == @check.intervention and set == @term.set")
        cells = _effects_by_gamma(rows, term, sibling_stages) if len(rows) else ()
        quantity = str(rows["quantity"].iloc[0]) if len(rows) else ""
        results.append(CheckedCause(check.of, check.intervention, quantity, verdict, tuple(cells)))
    return results


def _effects_by_gamma(
    effects: pd.DataFrame, term: Term, sibling_stages: Mapping[str, tuple[str, float]]
) -> Iterator[dict[str, Any]]:
    """Median and range of an intervention's effect and of its control, at each gamma."""
    stage = sibling = term.stage
    stage_gamma = term.gamma
    for name, (named_stage, gamma) in sibling_stages.items():
        if term.stage in (name, named_stage):
            stage, sibling, stage_gamma = named_stage, name, gamma
    for gamma, rows in effects.groupby("gamma"):
        same_gamma = stage_gamma is None or np.isclose(float(gamma), stage_gamma)  # type: ignore[arg-type]
        present = rows["stage"].unique()  # a run without the stage's gamma has no sibling stage
        shown_stage = sibling if not same_gamma and sibling in present else stage
        rows = rows.query("stage == @shown_stage")
        rows = rows.loc[rows["reached"].astype(bool)] if "reached" in rows else rows
        n_seeds = int(rows["effect"].notna().to_numpy().sum())
        cell: dict[str, Any] = {"gamma": gamma, "stage": shown_stage, "n_seeds": n_seeds}
        for column, low, high in EFFECT_COLUMNS:
            values = rows[column].astype(float).dropna().to_numpy()
            numbers = map(_finite, median_and_range(values))
            cell |= dict(zip((column, low, high), numbers, strict=True))
        yield cell


def _judge_claim(
    table: ReadingsTable, claim: Claim, status: CalibrationStatus, diverged: Diverged
) -> Verdict:
    diverged_seeds = _diverged_seeds(claim, diverged)
    samples = [table.condition_sample(condition, claim.unit) for condition in claim.conditions]
    seeds = sorted(set().union(*(sample.values for sample in samples), diverged_seeds))
    parts = [part.values for sample in samples for part in sample.samples]
    unpaired = set().union(*parts).difference(seeds)
    counted, learned, learned_note = _learners(table, claim, seeds)
    diverged_seeds = [seed for seed in diverged_seeds if seed in counted]
    samples = [sample.among(counted) for sample in samples]
    unreached_seeds, few_on_time, late_note = _unreached_seeds(samples, claim, diverged_seeds)
    samples = [sample.among(sample.values.keys() - set(unreached_seeds)) for sample in samples]
    results = tuple(_judge_condition(sample, claim, diverged_seeds) for sample in samples)
    if claim.unit == "seed":
        met = _met(samples, diverged_seeds)
        finding = _decide(met, claim)
        main_result = min(results, key=lambda result: result.n_meeting)
        outcome = _not_open(finding.outcome, max(met, default=-1) >= claim.first_seed)
    else:
        # units count that meet the first condition, or are 1
        is_interval = claim.unit == "interval"
        met = {}
        for unit, value in samples[0].values.items():
            met[unit] = claim.conditions[0].met(value) if is_interval else value == 1
        outcomes = [result.outcome for result in results]
        undecided = [result for result in results if result.outcome in ("OPEN", "NOT JUDGED")]
        reason = joined_text(result.reason for result in undecided)
        joint = "HOLDS" if {*outcomes} <= {"HOLDS"} else "OPEN"
        if "FAILS" in outcomes:
            joint = "FAILS"
        finding = rule.Finding(joint, reason=reason)
        outcome = _not_open(finding.outcome, "NOT JUDGED" not in outcomes)
        deciding = (result for result in results if result.outcome == outcome)
        main_result = next(deciding, results[0])
    share = proportion_interval(sum(met.values()), len(met))
    untrained = _met([sample._replace(values=sample.untrained) for sample in samples])
    barred = bool(status.reason) or learned is False or few_on_time
    notes = [status.reason, *(sample.problem for sample in samples), learned_note, late_note]
    uncounted = sorted(
        unpaired.union(*(sample.values for sample in samples), diverged_seeds) - met.keys()
    )
    if uncounted and claim.unit == "seed":
        notes.append(f"seeds without every number: {_seed_list(uncounted)}")
    if diverged_seeds:
        notes.append(f"diverged, so not met: {_seed_list(diverged_seeds)}")
    return Verdict(
        **{name: getattr(claim, name) for name in CLAIM_FIELDS},
        outcome="NOT JUDGED" if barred else outcome,
        n_seeds=len(met),
        n_meeting=sum(met.values()),
        share_low=share.low,
        share_high=share.high,
        decided_after=finding.decided_after,
        **{name: getattr(main_result, name) for name in STATISTIC_FIELDS},
        met_at_initialisation=bool(untrained) and 2 * sum(untrained.values()) >= len(untrained),
        calibrated=status.calibrated,
        withheld=bool(status.reason) or (barred and outcome != "NOT JUDGED"),
        uncalibrated_outcome=outcome,
        reason=joined_text([*notes, finding.reason]),
        seeds=tuple(met),
        met=tuple(met.values()),
        conditions=results,
        context=tuple(_context_result(table, term) for term in claim.context),
        learned=learned,
        unreached=tuple(unreached_seeds),
    )


def _unreached_seeds(
    samples: Sequence[ConditionSample], claim: Claim, diverged_seeds: Collection[int]
) -> tuple[list[int], bool, str]:
    """Seeds whose member never came to a stage, whether these are more than half, and a note."""
    met = _met(samples, diverged_seeds) if claim.unit == "seed" else {}
    terms = [term_sample for sample in samples for term_sample in sample.samples]
    unreached = set().union(*(term_sample.unreached for term_sample in terms)) - set(diverged_seeds)
    unreached_seeds = [seed for seed in met if seed in unreached]
    if not unreached_seeds:
        return [], False, ""
    deciding = {seed for seed in met if seed >= claim.first_seed} or {*met}
    few_on_time = 2 * len(deciding & unreached) > len(deciding)
    note = f"never at the stage, so left out: {_seed_list(unreached_seeds)} (with them at their last step"
    prefix = "not reached: " if few_on_time else ""
    return unreached_seeds, few_on_time, f"{prefix}{note} {sum(met.values())}/{len(met)})"


def _diverged_seeds(claim: Claim, diverged: Diverged) -> list[int]:
    """Seeds of which a member that the claim reads has diverged."""
    diverged_seeds: set[int] = set()
    for term in claim.terms:
        if term.stage == "init" or claim.unit != "seed":
            continue
        for sweep, gamma, seed in diverged:
            is_read = term.gamma is None or np.isclose(gamma, term.gamma)
            if is_read and (term.every_sweep or sweep == term.sweep):
                diverged_seeds.add(seed)
    return sorted(diverged_seeds)


def _met(
    samples: Sequence[ConditionSample], diverged_seeds: Collection[int] = ()
) -> dict[int, bool]:
    """Seed -> whether it meets every condition: seeds with every number, and the lost ones."""
    whole = set.intersection(*(set(sample.values) for sample in samples)) | set(diverged_seeds)
    return {
        seed: seed not in diverged_seeds
        and all(sample.condition.met(sample.values[seed]) for sample in samples)
        for seed in sorted(whole)
    }


def _not_open(outcome: rule.Outcome, decidable: bool) -> rule.Outcome:
    """NOT JUDGED in place of OPEN where no further seed can decide."""
    return "NOT JUDGED" if outcome == "OPEN" and not decidable else outcome


def _decide(met: Mapping[int, bool], claim: Claim) -> rule.Finding:
    """Judge by the seeds from the claim's first seed on."""
    decisive = [is_met for seed, is_met in met.items() if seed >= claim.first_seed]
    finding = rule.decide(decisive)
    if len(decisive) == len(met):
        return finding
    note = f"judged on seeds from {claim.first_seed} on: {sum(decisive)}/{len(decisive)}"
    return finding._replace(reason=joined_text([note, finding.reason]))


def _judge_condition(
    sample: ConditionSample, claim: Claim, diverged_seeds: Collection[int]
) -> ConditionResult:
    condition = sample.condition
    met = _met([sample], diverged_seeds)
    interval = median_and_range([*sample.values.values()])
    untrained = median_and_range([*sample.untrained.values()]).estimate
    reason = ""
    if claim.unit == "seed":
        outcome = _decide(met, claim).outcome
        decidable = max(met, default=-1) >= claim.first_seed
    elif claim.unit == "share":
        outcome, interval = "OPEN", NO_INTERVAL
        if sample.values:
            shares = [[part.values[seed] for seed in sample.values] for part in sample.samples]
            outcome, interval = rule.decide_share(condition, *shares)
        decidable = bool(np.isfinite(interval).all())
        if sample.untrained:
            untrained = float(np.mean([*sample.untrained.values()]))
    else:
        interval, reason = _number_interval(sample)
        outcome = rule.decide_interval(condition, interval)
        decidable = bool(np.isfinite(interval).all())
    if claim.unit != "seed" and outcome == "OPEN" and sample.values:
        reason = reason or f"the interval contains {condition.threshold:g}"
    return ConditionResult(
        statistic=condition.statistic,
        criterion=condition.criterion,
        outcome=_not_open(outcome, decidable),
        **_numbers(sample.values, interval),
        n_seeds=len(met),
        n_meeting=sum(met.values()),
        untrained=_finite(untrained),
        reason=joined_text([sample.problem, reason]),
    )


def _number_interval(sample: ConditionSample) -> tuple[Interval, str]:
    """The interval that was read with a number of all members, or why there is none."""
    if len(sample.values) > 1:
        gamma = sample.condition.of.gamma_text
        return NO_INTERVAL, f"{len(sample.values)} numbers at {gamma}, one is needed"
    for seed, value in sample.values.items():
        low, high = (ends.get(seed, np.nan) for ends in sample.ends)
        complete = bool(np.isfinite([low, high]).all())
        return Interval(value, low, high), "" if complete else "no interval was read with it"
    return NO_INTERVAL, ""


def _learners(
    table: ReadingsTable, claim: Claim, seeds: Collection[int]
) -> tuple[Collection[int], bool | None, str]:
    """Seeds that pass the gate, whether at least half of those that decide have learned what a
    claim speaks of, a note."""
    counted = seeds
    deciding = [seed for seed in seeds if seed >= claim.first_seed] or seeds
    learned = None
    notes = []
    for test in filter(None, (claim.gate, claim.learned)) if seeds else ():
        tested = table.sample(test.of)
        learners = [seed for seed in seeds if test.met(tested.values.get(seed, np.nan))]
        enough = 2 * len({*learners} & {*deciding}) >= len(deciding)
        learned = learned is not False and enough
        notes.append(tested.problem)
        if tested.values and len(learners) < len(seeds):
            note = f"{test.comparison} in {len(learners)} of {len(seeds)} seeds"
            if not enough:
                note = f"{'stopped early' if claim.stopped_early else 'not learned'}: {note}"
            notes.append(note)
        if test is claim.gate:
            counted = learners
    return counted, learned, joined_text(notes)


def _context_result(table: ReadingsTable, term: Term) -> ConditionResult:
    """A number that is shown with a claim and judges nothing."""
    sample = table.sample(term)
    untrained = [value for value in sample.untrained.values() if np.isfinite(value)]
    return ConditionResult(
        statistic=f"{term.members_text}: {term.label or term.quantity}",
        **_numbers(sample.values, median_and_range([*sample.values.values()])),
        n_seeds=len(sample.values),
        untrained=_finite(median_and_range(untrained).estimate),
        reason=sample.problem,
    )


def _seed_list(seeds: Collection[int]) -> str:
    return ", ".join(map(str, seeds))


def _numbers(values: SeedValues, interval: Interval) -> dict[str, Any]:
    effect, low, high = map(_finite, interval)
    return {
        "effect": effect,
        "low": low,
        "high": high,
        "seeds": tuple(values),
        "values": (*values.values(),),
    }


def _finite(value: float) -> float | None:
    """The number, or None where it is NaN or infinite, which JSON cannot hold."""
    return float(value) if np.isfinite(value) else None
