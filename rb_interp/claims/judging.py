"""Readings in, verdicts out: finds each claim's numbers in the table of readings and applies the rule.

Nothing here knows a threshold or a probe; both are in the registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.claims.calibration import Standing
from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.claims.rule import MIN_SEEDS, Finding, decide, decide_share, deciding
from rb_interp.claims.verdict import Judged, Verdict, Verdicts
from rb_interp.errors import RunError
from rb_interp.statistics.intervals import paired_differences, t_interval

COLUMNS = ("gamma", "seed", "stage", "set", "probe", "layer", "quantity", "value", "untrained")
DECIDING = ("statistic", "effect", "low", "high", "n_seeds", "n_meeting", "untrained")
CHANCE = 0.025


def judge(
    readings: pd.DataFrame, claims: Iterable[Claim], *, scale: str = "custom", standings: Mapping[str, Standing] = {}
) -> Verdicts:
    """Judge claims on a table of readings.

    Args:
        readings: one row per sweep, gamma, seed, stage, set, probe, layer, head and quantity. A table without the
            column ``sweep`` is that of a study with a single sweep.
        claims: what to judge.
        scale: how serious the run is: ``smoke``, ``quick``, ``paper`` or ``custom``.
        standings: claim id -> what is known of its probe's error rates. Where they are known and missed, the outcome is
            UNDECIDED. A claim without an entry needs no calibration.

    Raises:
        RunError: the table lacks a column.
    """
    missing = [name for name in COLUMNS if name not in readings]
    if missing:
        raise RunError(
            f"the readings lack the columns {missing}; claims need {list(COLUMNS)}. Probe the run again to write them."
        )
    return Verdicts(_judge_claim(readings, claim, scale, standings.get(claim.id, Standing(None))) for claim in claims)


def expected_by_chance(verdicts: Iterable[Verdict]) -> float:
    """How many of the verdicts of `judge` would be HOLDS if every statistic sat at its threshold: an upper bound.

    Where the mean of n normal seeds equals the threshold, (mean - threshold) sqrt(n) / s follows Student's t, and the
    95 % interval lies wholly on the claimed side with probability .025. Asking for 80 % of the seeds can only lower
    that (with 5 seeds it asks nothing more: at most 3 seeds above gives t <= sqrt(6) < 2.776), and so does a second
    condition. Clopper-Pearson has the same bound. Claims with too few seeds in any condition, and those whose outcome
    is withheld, cannot hold and count nothing.
    Seeds that are symmetric but take few values can exceed it slightly (-1 or 1, 5 seeds: 1/32).
    """
    able = (
        all(condition.n_seeds >= MIN_SEEDS for condition in verdict.conditions)
        for verdict in verdicts
        if not verdict.withheld
    )
    return CHANCE * sum(able)


@dataclass(frozen=True)
class _Sample:
    """One term's values and the untrained models' values by seed, and what is wrong with them."""

    values: dict[int, float]
    untrained: dict[int, float]
    problem: str = ""


def _judge_claim(readings: pd.DataFrame, claim: Claim, scale: str, known: Standing) -> Verdict:
    found = [_judge_condition(readings, claim, condition) for condition in claim.conditions]
    conditions = tuple(record for record, _ in found)
    chosen = conditions[deciding([finding for _, finding in found])]
    outcome: Any = chosen.outcome
    return Verdict(
        id=claim.id,
        statement=claim.statement,
        source=claim.source,
        criterion=claim.criterion,
        gamma=claim.gamma,
        stage=claim.stage,
        outcome="UNDECIDED" if known.reason else outcome,
        **{name: getattr(chosen, name) for name in DECIDING},
        met_at_initialisation=all(condition.met_at_initialisation for condition in conditions),
        scale=scale,
        calibrated=known.calibrated,
        withheld=bool(known.reason),
        uncalibrated_outcome=outcome,
        reason="; ".join(filter(None, (known.reason, chosen.reason))),
        conditions=conditions,
        context=tuple(_shown(readings, term) for term in claim.context),
    )


def _judge_condition(readings: pd.DataFrame, claim: Claim, condition: Condition) -> tuple[Judged, Finding]:
    of = _read(readings, condition.of)
    minus = _read(readings, condition.minus) if condition.minus else None
    values = paired_differences(of.values, minus.values) if minus else of.values
    untrained = paired_differences(of.untrained, minus.untrained) if minus else of.untrained
    gated, left_out = _through_gate(readings, claim.gate, values)
    if claim.unit == "share":
        base = [minus.values[seed] for seed in gated] if minus else None
        finding = decide_share(condition, [of.values[seed] for seed in gated], base)
    else:
        finding = decide(condition, list(gated.values()))
    before = _mean(untrained[seed] for seed in gated if seed in untrained)
    problems = [of.problem, minus.problem if minus else "", left_out, finding.reason]
    record = Judged(
        statistic=condition.statistic,
        criterion=condition.criterion,
        gamma=condition.of.gamma,
        stage=condition.of.stage,
        outcome=finding.outcome,
        **_numbers(finding.interval),
        n_seeds=finding.n_seeds,
        n_meeting=finding.n_meeting,
        untrained=_finite(before),
        met_at_initialisation=condition.met(before),
        reason="; ".join(dict.fromkeys(problem for problem in problems if problem)),
        seeds=tuple(gated),
        values=tuple(gated.values()),
    )
    return record, finding


def _through_gate(
    readings: pd.DataFrame, gate: Condition | None, values: dict[int, float]
) -> tuple[dict[int, float], str]:
    """Keep the seeds that meet the gate; the others have not learned what the statistic is about."""
    if gate is None:
        return values, ""
    tested = _read(readings, gate.of)
    kept = {seed: value for seed, value in values.items() if gate.met(tested.values.get(seed, np.nan))}
    n_out = len(values) - len(kept)
    note = f"{n_out} of {len(values)} seeds left out, not {gate.comparison}" if n_out else ""
    return kept, "; ".join(filter(None, (tested.problem, note)))


def _read(readings: pd.DataFrame, term: Term) -> _Sample:
    """The finite values of one term by seed; a seed with several readings has no value."""
    here = readings.loc[(readings["quantity"] == term.quantity) & (readings["probe"] == term.probe)]
    at = f"gamma {term.gamma:g}"
    if "sweep" in here:
        here = here.loc[here["sweep"] == term.sweep]
        at += f", sweep '{term.sweep}'" if term.sweep else ""
    here = here.loc[np.isclose(here["gamma"].astype(float), term.gamma)]
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
    note = f"{lost} of {len(here)} seeds have no finite {term.quantity}" if lost else ""
    return _Sample(_by_seed(finite, "value"), _by_seed(finite, "untrained"), note)


def _by_seed(rows: pd.DataFrame, column: str) -> dict[int, float]:
    pairs = zip(rows["seed"], rows[column].astype(float), strict=True)
    return dict(sorted((int(seed), float(value)) for seed, value in pairs))


def _shown(readings: pd.DataFrame, term: Term) -> Judged:
    sample = _read(readings, term)
    values = tuple(sample.values.values())
    return Judged(
        statistic=term.label,
        **_numbers(t_interval(values)),
        n_seeds=len(values),
        untrained=_finite(_mean(sample.untrained.values())),
        reason=sample.problem,
        seeds=tuple(sample.values),
        values=values,
    )


def _mean(values: Iterable[float]) -> float:
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def _numbers(interval: Sequence[float]) -> dict[str, Any]:
    return dict(zip(("effect", "low", "high"), map(_finite, interval), strict=True))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
