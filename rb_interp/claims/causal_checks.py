"""Causal checks: for a mechanism the intervention that would refute it, judged as a claim and shown at every gamma."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.claims.criterion import Claim
from rb_interp.claims.judging import check_numbers, finite, judge
from rb_interp.claims.verdict import Verdict, Verdicts
from rb_interp.errors import RunError
from rb_interp.statistics.intervals import median_and_range
from rb_interp.typed import typed


@typed
@dataclass(frozen=True)
class CausalCheck:
    """What would refute one mechanism claim.

    Attributes:
        of: id of the mechanism's claim.
        intervention: its name in the table of effects.
        done, control_done: what is done to the model, and what the control does instead, in words.
        refuted_if: what would speak against the mechanism, in words; of several conditions, each one's opposite.
        check: the criterion, as a claim.
    """

    of: str
    intervention: str
    done: str
    control_done: str
    refuted_if: str
    check: Claim


EFFECTS = ("gamma", "stage", "set", "intervention", "quantity", "effect", "control")
"""Columns of a table of effects that checks read."""


@typed
@dataclass(frozen=True)
class CheckedCause:
    """The outcome of one causal check.

    Attributes:
        of, intervention, done, control_done, refuted_if: as in `CausalCheck`. set: the inputs.
        quantity: what the effect is measured in; empty where the run has no such effect.
        verdict: on the check.
        by_gamma: one dict a gamma: ``gamma``, ``stage``, ``n_seeds``, ``effect``, ``low``, ``high``, ``control``,
            ``control_low``, ``control_high`` (median over seeds, smallest and largest; None where undefined).
    """

    of: str
    intervention: str
    done: str
    control_done: str
    refuted_if: str
    set: str
    quantity: str
    verdict: Verdict
    by_gamma: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CheckedCause:
        """The outcome that `to_json` wrote."""
        (verdict,) = Verdicts.from_json([data["verdict"]])
        return CheckedCause(**{**data, "verdict": verdict, "by_gamma": tuple(data["by_gamma"])})


@typed
def judge_checks(
    readings: pd.DataFrame,
    effects: pd.DataFrame,
    checks: Iterable[CausalCheck],
    *,
    scale: str = "custom",
    sibling_stages: Mapping[str, tuple[str, float]] | None = None,
    diverged: Collection[tuple[str, float, int]] = (),
) -> list[CheckedCause]:
    """Judge each intervention by the same rule as claims.

    Args:
        readings: with the effects among them. effects: one row per member, stage and intervention.
        sibling_stages: name -> (stage, gamma). Other gammas are shown at the sibling stage that stands for the check's
            own stage, as far as they have it.
        diverged: as in `judge`.

    Raises:
        RunError: a table lacks a column, or a column of numbers holds something else.
    """
    missing = [name for name in EFFECTS if len(effects) and name not in effects]
    if missing:
        raise RunError(f"the effects lack the columns {missing}; checks need {list(EFFECTS)}. Probe the run again.")
    if len(effects):
        check_numbers(effects, ("gamma", "effect", "control"), "the effects")
    siblings = {stage: (name, gamma) for name, (stage, gamma) in (sibling_stages or {}).items()}
    return [_judged(readings, effects, check, scale, siblings, diverged) for check in checks]


def _judged(
    readings: pd.DataFrame,
    effects: pd.DataFrame,
    check: CausalCheck,
    scale: str,
    siblings: Mapping[str, tuple[str, float]],
    diverged: Collection[tuple[str, float, int]],
) -> CheckedCause:
    term = check.check.conditions[0].of
    shown = {name: getattr(check, name) for name in ("of", "intervention", "done", "control_done", "refuted_if")}
    verdict = judge(readings, [check.check], scale=scale, diverged=diverged)[0]
    stage = next((own for own, (name, _) in siblings.items() if term.stage in (own, name)), term.stage)
    sibling, own_gamma = siblings.get(stage, (stage, term.gamma))
    quantity, cells = _by_gamma(effects, check.intervention, stage, sibling, term.set, own_gamma)
    return CheckedCause(**shown, set=term.set, quantity=quantity, verdict=verdict, by_gamma=cells)


def _by_gamma(
    effects: pd.DataFrame, intervention: str, stage: str, sibling: str, inputs: str, own_gamma: float | None
) -> tuple[str, tuple[dict[str, Any], ...]]:
    if not len(effects):
        return "", ()
    here = effects.loc[(effects["intervention"] == intervention) & (effects["set"] == inputs)]
    cells = []
    for gamma in sorted(here["gamma"].unique()):
        member = here.loc[here["gamma"] == gamma]
        at = stage if own_gamma is None or np.isclose(gamma, own_gamma) else sibling
        at = at if at in member["stage"].unique() else stage  # a run without the sibling's gamma has no such step
        member = member.loc[member["stage"] == at]
        cell: dict[str, Any] = {"gamma": float(gamma), "stage": at}
        for name, prefix in (("effect", ""), ("control", "control_")):
            values = member[name].astype(float).dropna().to_numpy()
            found = median_and_range(values)
            cell |= {name: finite(found.estimate), f"{prefix}low": finite(found.low)}
            cell |= {f"{prefix}high": finite(found.high)}
            cell |= {"n_seeds": len(values)} if name == "effect" else {}
        cells.append(cell)
    return (str(here["quantity"].iloc[0]) if len(here) else ""), tuple(cells)
