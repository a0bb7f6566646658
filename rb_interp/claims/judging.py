"""Readings in, verdicts out: finds each claim's numbers in the table of readings and applies the rule.

Nothing here knows a threshold or a probe; both are in the registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rb_interp.claims.calibration import Standing, standing
from rb_interp.claims.criterion import Claim, Part, Term
from rb_interp.claims.registry import CLAIMS
from rb_interp.claims.verdict import MIN_SEEDS, Finding, decide, decide_share, deciding
from rb_interp.errors import RunError
from rb_interp.statistics.intervals import paired_differences, t_interval

COLUMNS = ("gamma", "seed", "stage", "rows", "probe", "layer", "quantity", "value", "twin")
TABLE = (
    *("id", "criterion", "verdict", "statistic", "effect", "low", "high", "n_seeds", "n_meeting"),
    *("twin", "met_at_initialisation", "tier", "calibrated", "reason"),
)
CHANCE = 0.025


def judge(readings: pd.DataFrame, tier: str, claims: Iterable[Claim] = CLAIMS, family: str | None = None) -> list[dict]:
    """Judge every claim on a run's readings; one JSON-safe dict a claim (numbers that are not finite become None).

    ``statistic``, ``effect``, ``low``, ``high``, ``n_seeds``, ``n_meeting``, ``twin`` and ``reason`` are those of the
    part that decides: the first that fails, else the first that is undecided, else the first. ``parts`` has the same
    for each part, with the values by seed; ``beside`` has what is shown and not judged. ``met_at_initialisation`` is
    true where the untrained twins' mean meets every part. ``gamma`` and ``stage`` are those of the first part.

    ``calibrated`` is None for claims that need no calibration, True where the family's error rates are known and good
    enough, else False. Where they are known and missed, the verdict is UNDECIDED, ``withheld`` is true and ``reason``
    says which rates; ``uncalibrated_verdict`` is what the numbers alone give, and ``parts`` stay as they are.

    Args:
        readings: one row per gamma, seed, stage, rows, probe, layer, head and quantity. Where a study has several
            parts, a column ``part`` says of which, empty for what compares them.
        tier: how serious the run is: ``smoke``, ``quick`` or ``paper``.
        claims: which claims to judge.
        family: of the run's models, from `claims.calibration.family`; None or an unknown one has no calibration.

    Raises:
        RunError: the table lacks a column.
    """
    missing = [name for name in COLUMNS if name not in readings]
    if missing:
        raise RunError(
            f"the readings lack the columns {missing}; claims need {list(COLUMNS)}. Probe the run again to write them."
        )
    return [_judge_claim(readings, claim, tier, standing(claim.id, family)) for claim in claims]


def verdict_table(claims: Sequence[Mapping]) -> pd.DataFrame:
    """The verdicts of `judge` as a table to print, one row a claim, without the parts."""
    return pd.DataFrame([{name: claim[name] for name in TABLE} for claim in claims], columns=list(TABLE))


def expected_by_chance(claims: Sequence[Mapping]) -> float:
    """How many of the verdicts of `judge` would be HOLDS if every statistic sat at its threshold: an upper bound.

    Where the mean of n normal seeds equals the threshold, (mean - threshold) sqrt(n) / s follows Student's t, and the
    95 % interval lies wholly on the claimed side with probability .025. Asking for 80 % of the seeds can only lower
    that (with 5 seeds it asks nothing more: at most 3 seeds above gives t <= sqrt(6) < 2.776), and so does a second
    part. Clopper-Pearson has the same bound. Claims with too few seeds in any part, and those whose verdict is
    withheld, cannot hold and count nothing.
    Seeds that are symmetric but take few values can exceed it slightly (-1 or 1, 5 seeds: 1/32).
    """
    able = (
        all(part["n_seeds"] >= MIN_SEEDS for part in claim["parts"]) for claim in claims if not claim.get("withheld")
    )
    return CHANCE * sum(able)


@dataclass(frozen=True)
class _Sample:
    """One term's values and twins by seed, and what is wrong with them."""

    values: dict[int, float]
    twins: dict[int, float]
    problem: str = ""


def _judge_claim(readings: pd.DataFrame, claim: Claim, tier: str, known: Standing) -> dict:
    judged = [_judge_part(readings, claim, part) for part in claim.parts]
    parts = [record for record, _ in judged]
    chosen = parts[deciding([finding for _, finding in judged])]
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "statistic": chosen["statistic"],
        "criterion": claim.criterion,
        "gamma": claim.gamma,
        "stage": claim.stage,
        "verdict": "UNDECIDED" if known.reason else chosen["verdict"],
        "uncalibrated_verdict": chosen["verdict"],
        **{name: chosen[name] for name in ("effect", "low", "high", "n_seeds", "n_meeting", "twin")},
        "met_at_initialisation": all(part["met_at_initialisation"] for part in parts),
        "tier": tier,
        "calibrated": known.calibrated,
        "withheld": bool(known.reason),
        "reason": "; ".join(filter(None, (known.reason, chosen["reason"]))),
        "parts": parts,
        "beside": [_beside(readings, term) for term in claim.beside],
    }


def _judge_part(readings: pd.DataFrame, claim: Claim, part: Part) -> tuple[dict, Finding]:
    of = _read(readings, part.of)
    minus = _read(readings, part.minus) if part.minus else None
    values = paired_differences(of.values, minus.values) if minus else of.values
    twins = paired_differences(of.twins, minus.twins) if minus else of.twins
    gated, left_out = _through_gate(readings, claim.gate, values)
    if claim.unit == "share":
        base = [minus.values[seed] for seed in gated] if minus else None
        finding = decide_share(part, [of.values[seed] for seed in gated], base)
    else:
        finding = decide(part, list(gated.values()))
    twin = _mean(twins[seed] for seed in gated if seed in twins)
    problems = [of.problem, minus.problem if minus else "", left_out, finding.reason]
    record = {
        "statistic": part.statistic,
        "criterion": part.criterion,
        "gamma": part.of.gamma,
        "stage": part.of.stage,
        "verdict": finding.verdict,
        **_numbers(finding.interval),
        "n_seeds": finding.n_seeds,
        "n_meeting": finding.n_meeting,
        "twin": _finite(twin),
        "met_at_initialisation": part.met(twin),
        "reason": "; ".join(dict.fromkeys(problem for problem in problems if problem)),
        "seeds": list(gated),
        "values": list(gated.values()),
    }
    return record, finding


def _through_gate(readings: pd.DataFrame, gate: Part | None, values: dict[int, float]) -> tuple[dict[int, float], str]:
    """Keep the seeds that meet the gate: elsewhere the statistic is about something that was not learned."""
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
    if "part" in here:
        here = here.loc[here["part"].fillna("") == term.part]
        at += f", part '{term.part}'" if term.part else ""
    here = here.loc[np.isclose(here["gamma"].astype(float), term.gamma)]
    if here.empty:
        return _Sample({}, {}, f"no reading of {term.probe}/{term.quantity} at {at}")
    here = here.loc[(here["stage"] == term.stage) & (here["rows"] == term.rows)]
    if term.layer is not None:
        here = here.loc[here["layer"] == term.layer]
    if here.empty:
        where = f"stage {term.stage}, rows '{term.rows}'" + ("" if term.layer is None else f", layer {term.layer + 1}")
        return _Sample({}, {}, f"no reading of {term.probe}/{term.quantity} at {at}, {where}")
    if here["seed"].duplicated().any():
        return _Sample({}, {}, f"several readings of {term.probe}/{term.quantity} per seed (heads?), one is needed")
    finite = here.loc[np.isfinite(here["value"].astype(float))]
    lost = len(here) - len(finite)
    note = f"{lost} of {len(here)} seeds have no finite {term.quantity}" if lost else ""
    return _Sample(_by_seed(finite, "value"), _by_seed(finite, "twin"), note)


def _by_seed(rows: pd.DataFrame, column: str) -> dict[int, float]:
    pairs = zip(rows["seed"], rows[column].astype(float), strict=True)
    return dict(sorted((int(seed), float(value)) for seed, value in pairs))


def _beside(readings: pd.DataFrame, term: Term) -> dict:
    sample = _read(readings, term)
    values = list(sample.values.values())
    return {
        "statistic": term.label,
        **_numbers(t_interval(values)),
        "n_seeds": len(values),
        "twin": _finite(_mean(sample.twins.values())),
        "reason": sample.problem,
        "seeds": list(sample.values),
        "values": values,
    }


def _mean(values: Iterable[float]) -> float:
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def _numbers(interval: Sequence[float]) -> dict[str, float | None]:
    return dict(zip(("effect", "low", "high"), map(_finite, interval), strict=True))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
