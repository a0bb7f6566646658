"""Which interventions the figure of causes shows, what each is read in and when, and where its thresholds lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rb_interp.claims.criterion import Condition, Term
from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import SIGNS, two_digits
from rb_interp.figures.panels import interval_of
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.anchor.checks import CHECKS
from rb_interp.studies.anchor.claims import CAUSAL


class Panel(NamedTuple):
    """One intervention on one set of inputs, and its name in the figure (W$_V$ is that of L0)."""

    intervention: str
    set: str
    title: str


PANELS = (
    Panel("forced_average", "rsn_train", "L0's attention:\nexactly 1/i"),
    Panel("leading_direction_only", "rsn_train", "W$_V$: leading direction\nalone"),
    Panel("without_reasoning", "rsn_train", "W$_V$: without reasoning\nanchors"),
    Panel("without_memory", "rsn_train", "W$_V$: without memory\nanchors"),
    Panel("key_blocked", "rsn_train", "L1 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked", "mem", "L1 cannot see the\nkey (memory inputs)"),
    Panel("key_blocked_answers", "rsn_train", "L1 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked_answers", "mem", "L1 cannot see the\nkey (memory inputs)"),
    Panel("swap_key", "rsn_train", "L1's attention\nswapped, by key"),
    Panel("swap_sum", "rsn_train", "L0's attention\nswapped, by sum"),
    Panel("swap_key_in_place", "rsn_train", "L1's attention,\nsame position, by key"),
    Panel("swap_sum_in_place", "rsn_train", "L0's attention,\nsame position, by sum"),
    Panel("swap_key_carried", "rsn_train", "L0's attention at\nthe anchors, by key"),
    Panel("swap_sum_carried", "rsn_train", "embeddings at the\nanchors, by sum"),
    Panel("number_line", "rsn_train", "number line reversed\n(W$_V$'s direction)"),
    Panel("number_line_component", "rsn_train", "number line reversed\n(own component)"),
)
"""The panels of the figure, row by row, four in a row."""
NATS = "loss_increase"
UNITS = {
    NATS: "nats lost (cross entropy)",
    "moved_as_predicted": "share of answers moved",
    "accuracy_drop": "accuracy lost (share)",
}
"""What an intervention is read in, as the axes say it."""
SHORT = {"without_memory": "effect without memory"}


def quantity_of(evidence: Evidence, panel: Panel) -> str:
    """The quantity that an intervention is read in, one of UNITS; nats lost where it was not made."""
    table = evidence.table("effects")
    found = set(table.loc[table["intervention"] == panel.intervention, "quantity"])
    return next((quantity for quantity in UNITS if quantity in found), NATS)


def conditions(panel: Panel) -> dict[Condition, str]:
    """The conditions that are drawn in a panel, each with the claims whose condition it is.

    >>> list(conditions(PANELS[1]).values())
    ['M3', 'M3']
    """
    checks = [(check.of, check.check) for check in CHECKS] + [(claim.id, claim) for claim in CAUSAL]
    named: dict[Condition, list[str]] = {}
    for claim_id, claim in checks:
        for condition in claim.conditions:
            if (condition.of.probe, condition.of.set) == (panel.intervention, panel.set):
                named.setdefault(condition, []).append(claim_id)
    return {condition: ", ".join(ids) for condition, ids in named.items()}


def stage_of(intervention: str, gamma: float, gammas: Sequence[float]) -> str:
    """When an intervention is read: final, or half; at other rates than the small one at the same step, matched.

    >>> [stage_of("forced_average", gamma, [0.3, 0.8]) for gamma in (0.8, 0.3)], stage_of("swap_key", 0.3, [0.3])
    (['half', 'matched'], 'final')
    """
    terms = [condition.of for check in CHECKS for condition in check.check.conditions]
    early = any(term.probe == intervention and term.stage == "half" for term in terms)
    if not early:
        return "final"
    return "half" if gamma == SMALL or SMALL not in gammas else "matched"


def by_seed(evidence: Evidence, panel: Panel, gamma: float) -> pd.DataFrame:
    """Effect, control and difference of a panel at a rate by seed; MissingEvidenceError where there is none."""
    found = evidence.table("effects", **_where(evidence, panel, gamma)).set_index("seed").sort_index()
    found = found.loc[:, ["effect", "control", "difference"]].astype(float)
    found = found.loc[found["effect"].notna()]
    if found.empty:
        raise MissingEvidenceError(f"No effect of {panel.intervention} at γ = {gamma:g}.")
    return found


def over_seeds(evidence: Evidence, panel: Panel, gamma: float, quantity: str) -> Interval:
    """Mean of ``effect``, ``control`` or ``difference`` of a panel at a rate, with its interval.

    Raises MissingEvidenceError where there is none.
    """
    table = evidence.table("effects_summary", **_where(evidence, panel, gamma), quantity=quantity)
    found = interval_of(table.to_dict("records")[0])
    if not np.isfinite(found.estimate):
        raise MissingEvidenceError(f"No {quantity} of {panel.intervention} at γ = {gamma:g}.")
    return found


def _where(evidence: Evidence, panel: Panel, gamma: float) -> dict[str, object]:
    stage = stage_of(panel.intervention, gamma, evidence.gammas)
    return {"intervention": panel.intervention, "set": panel.set, "gamma": gamma, "stage": stage}


def slot(condition: Condition) -> tuple[float, str]:
    """Rate and marks that a condition is about."""
    return condition.of.gamma, "control" if condition.of.quantity == "control" else "effect"


def level(evidence: Evidence, condition: Condition) -> float:
    """Where a threshold lies for the mean over seeds: as it is, or on top of the control or of what it is less.

    Raises MissingEvidenceError where the run lacks what the threshold is measured from.
    """
    evidence.require(condition.of.gamma)
    if condition.minus is not None:
        return condition.threshold + _mean(evidence, condition.minus, condition.minus.quantity)
    if condition.of.quantity == "difference":
        return condition.threshold + _mean(evidence, condition.of, "control")
    return condition.threshold


def _mean(evidence: Evidence, term: Term, quantity: str) -> float:
    return over_seeds(evidence, Panel(term.probe, term.set, ""), term.gamma, quantity).estimate


def told(condition: Condition, ids: str) -> str:
    """A condition in words, measured from what is drawn.

    >>> [told(condition, ids) for condition, ids in conditions(PANELS[0]).items()]
    ['M1, M10: ≤ .10', 'M1, M10: control ≥ .20 + effect', 'M2: ≥ .10 + effect at γ = 0.8']
    """
    subject = "control " if condition.of.quantity == "control" else ""
    base = ""
    if condition.of.quantity == "difference":
        base = " + control"
    elif condition.minus is not None and condition.minus.gamma != condition.of.gamma:
        base = f" + effect at γ = {condition.minus.gamma:g}"
    elif condition.minus is not None:
        base = f" + {SHORT.get(condition.minus.probe, 'effect')}"
    return f"{ids}: {subject}{SIGNS[condition.operator]} {two_digits(condition.threshold)}{base}"
