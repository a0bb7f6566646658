"""What a report says of causes: interventions beside placebos, what each part contributes, how often probes mislead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rb_interp.figures.ablations import METHODS, before, components, in_words, lost
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import interval_text, share_text
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.style import SETS

UNITS = {
    "nats_lost": "nats lost",
    "accuracy_lost": "accuracy lost",
    "moved_as_predicted": "share of answers that become the predicted one (placebo: that change at all)",
}
MAKES = "“rb-interp probe RUN”"


def causes(evidence: Evidence) -> dict[str, Any]:
    """Each mechanism's intervention beside its placebo, with the verdict on the cause and the claim's own."""
    own = {str(claim["id"]): claim for claim in evidence.claims}
    rows = []
    for cause in evidence.causes:
        claim = own.get(str(cause["of"]), {})
        found = {float(cell["gamma"]): cell for cell in cause["by_gamma"]}
        rows.append(
            {
                **cause,
                "unit": UNITS.get(str(cause["quantity"]), str(cause["quantity"])),
                "on": SETS.get(str(cause["rows"]), str(cause["rows"])),
                "by_gamma": [_cause_cell(gamma, found.get(gamma, {})) for gamma in evidence.gammas],
                "own_verdict": claim.get("verdict"),
                "own_withheld": bool(claim.get("withheld")),
            }
        )
    missing = "" if rows else f"No mechanism was tested by an intervention in this run; {MAKES} tests them."
    return {"rows": rows, "agreement": agreement(rows), "missing": missing}


def _cause_cell(gamma: float, cell: Mapping[str, Any]) -> dict[str, Any]:
    ends = {"effect": ("effect", "low", "high"), "placebo": ("placebo", "placebo_low", "placebo_high")}
    found = {name: _mean(*(cell.get(key) for key in keys)) for name, keys in ends.items()}
    return {"gamma": gamma, "stage": cell.get("stage", ""), "n_seeds": cell.get("n_seeds", 0), **found}


def _mean(mean: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    """Mean and interval with their text: two decimals, as fine as any threshold, and whole numbers for large ones."""
    values = [math.nan if value is None else float(value) for value in (mean, low, high)]
    large = any(abs(value) >= 100 for value in values if math.isfinite(value))
    text = interval_text(*values) if large else share_text(*values)
    return {**dict(zip(("mean", "low", "high"), values, strict=True)), "text": text}


def agreement(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences that count where the verdicts on a claim and on its cause differ.

    >>> agreement([{"of": "M1", "verdict": "FAILS", "own_verdict": "HOLDS"}])[0]
    'Of 1 intervention on mechanisms, 0 decide as the claim does and 1 decides the opposite: M1 (the claim HOLDS, ...'
    """
    pairs = [(str(row["of"]), str(row["own_verdict"]), str(row["verdict"])) for row in rows if row["own_verdict"]]
    if not pairs:
        return []

    def named(fits: Callable[[str, str], bool]) -> list[str]:
        return [f"{name} (the claim {own}, the intervention {cause})" for name, own, cause in pairs if fits(own, cause)]

    same = named(lambda own, cause: own == cause != "UNDECIDED")
    opposite = named(lambda own, cause: own != cause and "UNDECIDED" not in (own, cause))
    half = named(lambda own, cause: own != cause and "UNDECIDED" in (own, cause))
    many = f"{len(pairs)} {'intervention' if len(pairs) == 1 else 'interventions'}"
    found = [f"Of {many} on mechanisms, {_decide(same, 'as')} and {_decide(opposite, 'opposite')}."]
    if half:
        found.append(f"One of the two is undecided for {', '.join(half)}.")
    both = sum(own == cause == "UNDECIDED" for _, own, cause in pairs)
    return [*found, f"Both are undecided for {both}."] if both else found


def _decide(named: list[str], how: str) -> str:
    verb = "decides" if len(named) == 1 else "decide"
    words = "as the claim does" if how == "as" else "the opposite"
    return f"{len(named)} {verb} {words}{': ' if named else ''}{', '.join(named)}"


def ablations(evidence: Evidence) -> dict[str, Any]:
    """Accuracy lost without each component, by method, set and rate: mean over seeds, placebo, accuracy before."""
    try:
        names = components(evidence)
    except MissingEvidenceError as missing:
        return {"methods": METHODS, "rows": [], "missing": str(missing)}
    rows = []
    for component in names:
        for name, words in SETS.items():
            cells = [
                _ablation_cell(evidence, component, method, name, gamma)
                for method in METHODS
                for gamma in evidence.gammas
            ]
            row = {"component": component, "label": in_words(component), "set": name, "set_label": words}
            rows.append({**row, "cells": cells})
    return {"methods": METHODS, "rows": rows, "missing": ""}


def _ablation_cell(evidence: Evidence, component: str, method: str, rows: str, gamma: float) -> dict[str, Any]:
    values = {
        "lost": lost(evidence, component, method, rows, gamma),
        "placebo": lost(evidence, component, method, rows, gamma, "placebo_accuracy_lost"),
        "before": before(evidence, component, rows, gamma),
    }
    means = {name: _mean(*seed_interval(found)) for name, found in values.items()}
    return {"method": method, "gamma": gamma, "n": len(values["lost"]), **means}


def calibration(evidence: Evidence) -> dict[str, Any]:
    """How often each probe misleads on models of this family whose mechanism is known."""
    known = evidence.meta.get("calibration") or {}
    rates, family = list(known.get("rates") or []), str(known.get("family") or "")
    named = f" ({family})" if family else ""
    missing = f"This family of models{named} has no table of error rates: it is not calibrated."
    return {"family": family, "rows": [_rates(row) for row in rates], "missing": "" if rates else missing}


def _rates(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table of error rates, with its two rates also as means with interval and text."""
    kinds = ("true_positive", "false_positive")
    return {**row, **{kind: _mean(*(row.get(f"{kind}_{end}") for end in ("rate", "low", "high"))) for kind in kinds}}
