"""Causal checks: for a mechanism the intervention that would refute it, judged as a claim and shown at every gamma."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from rb_interp.claims.criterion import Claim
from rb_interp.claims.judging import judge
from rb_interp.claims.verdict import Verdict, finite
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
        return TypeAdapter(CheckedCause).validate_python(data)


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

    Raises RunError where the readings lack a column.
    """
    checks, siblings = list(checks), {s: (name, gamma) for name, (s, gamma) in (sibling_stages or {}).items()}
    verdicts, judged = judge(readings, [check.check for check in checks], scale=scale, diverged=diverged), []
    for check, verdict in zip(checks, verdicts, strict=True):
        term = check.check.conditions[0].of
        shown = {name: getattr(check, name) for name in ("of", "intervention", "done", "control_done", "refuted_if")}
        stage = next((own for own, (name, _) in siblings.items() if term.stage in (own, name)), term.stage)
        here = effects
        if len(effects):
            here = effects.loc[(effects["intervention"] == check.intervention) & (effects["set"] == term.set)]
        quantity = str(here["quantity"].iloc[0]) if len(here) else ""
        cells = _by_gamma(here, stage, *siblings.get(stage, (stage, term.gamma))) if len(here) else ()
        judged.append(CheckedCause(**shown, set=term.set, quantity=quantity, verdict=verdict, by_gamma=cells))
    return judged


def _by_gamma(here: pd.DataFrame, stage: str, sibling: str, own_gamma: float | None) -> tuple[dict[str, Any], ...]:
    cells = []
    for gamma in sorted(here["gamma"].unique().tolist()):
        member = here.loc[here["gamma"] == gamma]
        at = stage if own_gamma is None or np.isclose(gamma, own_gamma) else sibling
        at = at if at in member["stage"].unique() else stage  # a run without the sibling's gamma has no such step
        member = member.loc[member["stage"] == at]
        cell: dict[str, Any] = {"gamma": float(gamma), "stage": at, "n_seeds": int(member["effect"].notna().sum())}
        for name, prefix in (("effect", ""), ("control", "control_")):
            median, low, high = map(finite, median_and_range(member[name].astype(float).dropna().to_numpy()))
            cell |= {name: median, f"{prefix}low": low, f"{prefix}high": high}
        cells.append(cell)
    return tuple(cells)
