"""The causal checks of a run: each mechanism's intervention judged as a claim, and shown at every gamma."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rb_interp.claims.causes import CAUSES, WORDS, Cause
from rb_interp.claims.judging import judge
from rb_interp.claims.registry import SMALL
from rb_interp.statistics.intervals import t_interval

EARLY = {"half": "matched"}
"""Where other members are read when the gamma .8 member is read at half: the same step."""


def judge_causes(
    readings: pd.DataFrame, effects: pd.DataFrame, tier: str, causes: Iterable[Cause] = CAUSES
) -> list[dict]:
    """One JSON-safe dict a mechanism: what was done, its verdict as in ``judge``, and effect and placebo by gamma.

    ``by_gamma`` has means over seeds with Student t intervals, at the claim's own stage (gamma .8) or the same step.

    Args:
        readings: with the effects among them, as ``study.causal.Causes.readings`` writes them.
        effects: one row per member, stage and intervention.
    """
    return [_judged(readings, effects, tier, cause) for cause in causes]


def _judged(readings: pd.DataFrame, effects: pd.DataFrame, tier: str, cause: Cause) -> dict:
    found = judge(readings, tier, [cause.check])[0]
    term = cause.check.parts[0].of
    done, instead = WORDS[cause.intervention]
    kept = ("statement", "criterion", "verdict", "statistic", "effect", "low", "high", "n_seeds", "n_meeting", "twin")
    return {
        "of": cause.of,
        "intervention": cause.intervention,
        "done": done,
        "placebo_done": instead,
        "refuted_if": cause.refuted_if,
        **{name: found[name] for name in (*kept, "reason", "parts")},
        "rows": term.rows,
        **_by_gamma(effects, cause.intervention, "final" if term.stage == "final" else "half", term.rows),
    }


def _by_gamma(effects: pd.DataFrame, intervention: str, stage: str, rows: str) -> dict:
    here = (
        effects.loc[(effects["intervention"] == intervention) & (effects["rows"] == rows)] if len(effects) else effects
    )
    cells = []
    for gamma in sorted(here["gamma"].unique()) if len(here) else []:
        at = stage if stage == "final" or np.isclose(gamma, SMALL) else EARLY[stage]
        member = here.loc[here["gamma"] == gamma]
        at = at if at in set(member["stage"]) else stage  # a run without gamma .8 has no matched step
        member = member.loc[member["stage"] == at]
        cell = {"gamma": float(gamma), "stage": at}
        for name, prefix in (("effect", ""), ("placebo", "placebo_")):
            values = member[name].astype(float).dropna()
            interval = t_interval(values.to_numpy())
            cell |= {name: _finite(interval.estimate), f"{prefix}low": _finite(interval.low)}
            cell |= {f"{prefix}high": _finite(interval.high)}
            cell |= {"n_seeds": len(values)} if name == "effect" else {}
        cells.append(cell)
    quantity = str(here["quantity"].iloc[0]) if len(here) else ""
    return {"quantity": quantity, "by_gamma": cells}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
