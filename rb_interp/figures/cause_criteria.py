"""Which interventions the figure of causes shows, what each is read in and when, and where its criteria lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rb_interp.claims.causes import CAUSES
from rb_interp.claims.criterion import Part, Term
from rb_interp.claims.registry import CAUSAL
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.panels import two_digits


class Panel(NamedTuple):
    """One intervention on one set of inputs, and its name in the figure (W$_V$ is that of layer 1)."""

    intervention: str
    rows: str
    title: str


PANELS = (
    Panel("forced_average", "rsn_train", "layer 1's attention:\nexactly 1/i"),
    Panel("leading_direction_only", "rsn_train", "W$_V$: leading direction\nalone"),
    Panel("without_reasoning", "rsn_train", "W$_V$: without reasoning\nanchors"),
    Panel("without_memory", "rsn_train", "W$_V$: without memory\nanchors"),
    Panel("key_blocked", "rsn_train", "layer 2 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked", "mem", "layer 2 cannot see the\nkey (memory inputs)"),
    Panel("key_blocked_answers", "rsn_train", "layer 2 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked_answers", "mem", "layer 2 cannot see the\nkey (memory inputs)"),
    Panel("swap_key", "rsn_train", "layer 2's attention\nswapped, by key"),
    Panel("swap_sum", "rsn_train", "layer 1's attention\nswapped, by sum"),
    Panel("swap_key_in_place", "rsn_train", "layer 2's attention,\nsame position, by key"),
    Panel("swap_sum_in_place", "rsn_train", "layer 1's attention,\nsame position, by sum"),
    Panel("swap_key_carried", "rsn_train", "layer 1's attention at\nthe anchors, by key"),
    Panel("swap_sum_carried", "rsn_train", "embeddings at the\nanchors, by sum"),
    Panel("number_line", "rsn_train", "number line reversed\n(W$_V$'s direction)"),
    Panel("number_line_component", "rsn_train", "number line reversed\n(own component)"),
)
"""The panels of the figure, row by row, four in a row."""
NATS = "nats_lost"
UNITS = {
    NATS: "nats lost (cross entropy)",
    "moved_as_predicted": "share of answers moved",
    "accuracy_lost": "accuracy lost (share)",
}
"""What an intervention is read in, as the axes say it."""
SHORT = {"without_memory": "effect without memory"}
SIGNS = {">=": "≥", "<=": "≤", ">": ">", "<": "<"}


def quantity_of(evidence: Evidence, panel: Panel) -> str:
    """The quantity that an intervention is read in, one of UNITS; nats lost where it was not made."""
    table = evidence.table("effects")
    found = set(table.loc[table["intervention"] == panel.intervention, "quantity"])
    return next((quantity for quantity in UNITS if quantity in found), NATS)


def criteria(panel: Panel) -> dict[Part, str]:
    """The criteria that are drawn in a panel, each with the claims whose criterion it is.

    >>> list(criteria(PANELS[1]).values())
    ['M3', 'M3']
    """
    checks = [(cause.of, cause.check) for cause in CAUSES] + [(claim.id, claim) for claim in CAUSAL]
    named: dict[Part, list[str]] = {}
    for claim_id, claim in checks:
        for part in claim.parts:
            if (part.of.probe, part.of.rows) == (panel.intervention, panel.rows):
                named.setdefault(part, []).append(claim_id)
    return {part: ", ".join(ids) for part, ids in named.items()}


def stage_of(intervention: str, gamma: float, gammas: Sequence[float]) -> str:
    """When an intervention is read: final, or half; at other rates than the small one at the same step, matched.

    >>> [stage_of("forced_average", gamma, [0.3, 0.8]) for gamma in (0.8, 0.3)], stage_of("swap_key", 0.3, [0.3])
    (['half', 'matched'], 'final')
    """
    terms = [part.of for cause in CAUSES for part in cause.check.parts]
    early = any(term.probe == intervention and term.stage == "half" for term in terms)
    if not early:
        return "final"
    return "half" if gamma == SMALL or SMALL not in gammas else "matched"


def by_seed(evidence: Evidence, panel: Panel, gamma: float) -> pd.DataFrame:
    """Effect, placebo and difference of a panel at a rate by seed; MissingEvidenceError where there is none."""
    stage = stage_of(panel.intervention, gamma, evidence.gammas)
    return evidence.effects(panel.intervention, quantity_of(evidence, panel), gamma, stage=stage, rows=panel.rows)


def slot(part: Part) -> tuple[float, str]:
    """Rate and marks that a criterion is about."""
    return part.of.gamma, "placebo" if part.of.quantity == "placebo" else "effect"


def level(evidence: Evidence, part: Part) -> float:
    """Where a criterion lies for the mean over seeds: its threshold, on top of the placebo or of what it is less.

    Raises MissingEvidenceError where the run lacks what the threshold is measured from.
    """
    evidence.require(part.of.gamma)
    if part.minus is not None:
        return part.threshold + _mean(evidence, part.minus, part.minus.quantity)
    if part.of.quantity == "difference":
        return part.threshold + _mean(evidence, part.of, "placebo")
    return part.threshold


def _mean(evidence: Evidence, term: Term, column: str) -> float:
    table = by_seed(evidence, Panel(term.probe, term.rows, ""), term.gamma)
    values = table[column].to_numpy(dtype=float)
    if not np.isfinite(values).any():
        raise MissingEvidenceError(f"No {column} of {term.probe} at γ = {term.gamma:g}.")
    return float(np.nanmean(values))


def told(part: Part, ids: str) -> str:
    """A criterion in words, measured from what is drawn.

    >>> [told(part, ids) for part, ids in criteria(PANELS[0]).items()]
    ['M1, M10: ≤ .10', 'M1, M10: placebo ≥ .20 + effect', 'M2: ≥ .10 + effect at γ = 0.8']
    """
    subject = "placebo " if part.of.quantity == "placebo" else ""
    base = ""
    if part.of.quantity == "difference":
        base = " + placebo"
    elif part.minus is not None and part.minus.gamma != part.of.gamma:
        base = f" + effect at γ = {part.minus.gamma:g}"
    elif part.minus is not None:
        base = f" + {SHORT.get(part.minus.probe, 'effect')}"
    return f"{ids}: {subject}{SIGNS[part.operator]} {two_digits(part.threshold)}{base}"
