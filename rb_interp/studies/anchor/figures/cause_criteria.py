"""Which interventions the figure of causes shows, what each is read in and when, and where its thresholds lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rb_interp.claims.criterion import Condition
from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import NOTHING, Evidence
from rb_interp.figures.numbers import SIGNS, two_digits
from rb_interp.figures.panels import interval_of, spread_of
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.anchor.checks import AT_HALF, CHECKS
from rb_interp.studies.anchor.claims import CAUSAL, SECOND


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
    Panel("forced_average_matched", "rsn_train", "L0's attention: 1/i,\nbeside its circuit's"),
    Panel("leading_direction_only_matched", "rsn_train", "W$_V$: leading alone,\nbeside the embedding's"),
    Panel("without_reasoning_matched", "rsn_train", "W$_V$: without reasoning\nanchors, beside keys"),
    Panel("without_memory_matched", "rsn_train", "W$_V$: without memory\nanchors, beside keys"),
)
"""The panels of the figure, row by row, four in a row; the last row has the controls that match."""
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
    found = {row["quantity"] for row in evidence.records("effects", intervention=panel.intervention)}
    return next((quantity for quantity in UNITS if quantity in found), NATS)


def conditions(panel: Panel) -> dict[Condition, str]:
    """The conditions that are drawn in a panel, each with the claims whose condition it is.

    >>> list(conditions(PANELS[1]).values())
    ['M3', 'M3']
    """
    checks = [(check.of, check.check) for check in CHECKS] + [(claim.id, claim) for claim in (*CAUSAL, *SECOND)]
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
    if intervention not in AT_HALF:
        return "final"
    return "half" if gamma == SMALL or SMALL not in gammas else "matched"


def by_seed(evidence: Evidence, panel: Panel, gamma: float) -> list[dict[str, Any]]:
    """Rows of ``effects`` of a panel at a rate, seeds ascending, without NaN effects; none where there is none."""
    rows = evidence.records("effects", **_place(evidence, panel, gamma))
    return sorted((row for row in rows if row["effect"] == row["effect"]), key=lambda row: row["seed"])


def over_seeds(evidence: Evidence, panel: Panel, gamma: float, quantity: str) -> Interval:
    """Mean of ``effect``, ``control`` or ``difference`` of a panel at a rate, with its interval; NaN where absent."""
    rows = evidence.records("effects_summary", quantity=quantity, **_place(evidence, panel, gamma))
    return interval_of(rows[0]) if rows else NOTHING


def spread(evidence: Evidence, panel: Panel, gamma: float, quantity: str) -> Interval:
    """Median of ``effect``, ``control`` or ``difference`` of a panel at a rate, with its range; NaN where absent."""
    rows = evidence.records("effects_summary", quantity=quantity, **_place(evidence, panel, gamma))
    return spread_of(rows[0]) if rows else NOTHING


def _place(evidence: Evidence, panel: Panel, gamma: float) -> dict[str, Any]:
    stage = stage_of(panel.intervention, gamma, evidence.gammas)
    return {"intervention": panel.intervention, "set": panel.set, "gamma": gamma, "stage": stage}


def marks_of(condition: Condition) -> str:
    """Whether a condition is about the marks of the ``effect`` or of the ``control``."""
    return "control" if condition.of.quantity == "control" else "effect"


def level(evidence: Evidence, condition: Condition) -> float:
    """Where a threshold lies for the mean over seeds: as it is, or above the control or above what is subtracted.

    Returns NaN where the run lacks what the threshold is measured from.
    """
    base, quantity = condition.minus or condition.of, condition.minus.quantity if condition.minus else "control"
    if condition.minus is None and condition.of.quantity != "difference":
        return condition.threshold
    assert base.gamma is not None
    return condition.threshold + over_seeds(evidence, Panel(base.probe, base.set, ""), base.gamma, quantity).estimate


def condition_text(condition: Condition, ids: str) -> str:
    """A condition in words, measured from what is drawn.

    >>> [condition_text(condition, ids) for condition, ids in conditions(PANELS[0]).items()]
    ['M1, M10: ≤ .10', 'M1, M10: control ≥ .20 + effect', 'M2: ≥ .10 + effect at γ = 0.8']
    """
    subject = "control " if marks_of(condition) == "control" else ""
    base = " + control" if condition.of.quantity == "difference" else ""
    if condition.minus is not None:
        same = condition.minus.gamma == condition.of.gamma
        base = f" + {SHORT.get(condition.minus.probe, 'effect')}{'' if same else f' at γ = {condition.minus.gamma:g}'}"
    return f"{ids}: {subject}{SIGNS[condition.operator]} {two_digits(condition.threshold)}{base}"
