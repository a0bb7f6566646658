"""What a report says of theory and measurement: R² as learning begins, where agreement ends, exponents of Eq. 13."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_interp.figures.agreement_end import told_end
from rb_interp.figures.drift import r2_at_leaving
from rb_interp.figures.evidence import LARGE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import interval_text, number, share_text
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.parts import PARTS, at_leaving, gammas_of, rows_of

COLUMNS = {
    "each_step": "R², each step",
    "step_0": "R², step 0",
    "population": "R², population",
    "positions": "R², positions",
    "permuted": "R², permuted",
    "cos": "cosine, each step",
}
FALLS = {"r2": "R² < .90 from", "cos": "cosine < .90 from"}


def theory(evidence: Evidence) -> dict[str, Any]:
    """Rows by part and rate for all anchors, exponents by rate, and sentences that say where the theory holds."""
    rows = [_row(evidence, part, words, gamma) for part, words in PARTS.items() for gamma in _gammas(evidence, part)]
    missing = (
        "" if rows else "This study has no table of predicted and measured drifts; “rb-interp probe RUN” makes it."
    )
    return {
        "columns": dict(COLUMNS),
        "falls": dict(FALLS),
        "rows": rows,
        "exponents": exponents(evidence),
        "sentences": theory_sentences(evidence),
        "missing": missing,
    }


def _gammas(evidence: Evidence, part: str) -> list[float]:
    try:
        return gammas_of(evidence, "drift", part=part, group="anchor")
    except MissingEvidenceError:
        return []


def _row(evidence: Evidence, part: str, words: str, gamma: float) -> dict[str, Any]:
    cells = {name: _cell(evidence, part, gamma, name) for name in COLUMNS}
    falls = {m: told_end(evidence, m, part=part, gamma=gamma, group="anchor") for m in FALLS}
    return {"part": part, "label": words, "gamma": gamma, "cells": cells, "falls": falls}


def _cell(evidence: Evidence, part: str, gamma: float, name: str) -> dict[str, Any]:
    """Mean and interval over seeds at ``leaving``; ``each_step`` and ``permuted`` are the readings that T1 judges."""
    try:
        if name in ("each_step", "permuted"):
            values = r2_at_leaving(evidence, part, gamma, "r2" if name == "each_step" else name)
        else:
            column, prediction = ("cos", "each_step") if name == "cos" else ("r2", name)
            where = {"part": part, "gamma": gamma, "group": "anchor", "prediction": prediction}
            values = at_leaving(evidence, column, **where).to_numpy()
    except MissingEvidenceError:
        return {"mean": None, "low": None, "high": None, "n": 0, "text": number(None)}
    mean, low, high = seed_interval(values)
    text = share_text(mean, low, high) if abs(mean) < 100 else interval_text(mean, low, high)
    return {"mean": mean, "low": low, "high": high, "n": len(values), "text": text}


def exponents(evidence: Evidence) -> list[dict[str, Any]]:
    """Fitted exponent of Eq. 13's error over seeds beside the bound 1 - gamma, by rate."""
    try:
        gammas = gammas_of(evidence, "exponents")
    except MissingEvidenceError:
        return []
    found = []
    for gamma in gammas:
        rows = rows_of(evidence, "exponents", gamma=gamma)
        mean, low, high = seed_interval(rows["exponent"].astype(float).dropna())
        predicted = float(rows["predicted"].iloc[0])
        ends = {"mean": mean, "low": low, "high": high, "text": share_text(mean, low, high)}
        found.append({"gamma": gamma, "predicted": predicted, "within": bool(high <= predicted), **ends})
    return found


def theory_sentences(evidence: Evidence) -> list[str]:
    """How well the theory predicts as learning begins, and where it stops, at the small initialisation."""
    found = []
    for part, words in PARTS.items():
        small, large = (_cell(evidence, part, gamma, "each_step") for gamma in (SMALL, LARGE))
        if not small["n"]:
            continue
        text = f"{words[0].upper()}{words[1:]}: as learning begins, the theory's R² for the drift of the anchors is "
        text += f"{small['text']} at γ = {SMALL:g}{_beside(large)}."
        text += _first_below(evidence, part, "each_step")
        known = _cell(evidence, part, SMALL, "positions")
        if known["n"]:
            text += f" With each token's position known too, R² there is {known['text']}."
            text += _first_below(evidence, part, "positions")
        found.append(text)
    return found


def _first_below(evidence: Evidence, part: str, prediction: str) -> str:
    fall = told_end(evidence, prediction=prediction, part=part, gamma=SMALL, group="anchor")
    if fall == number(None):
        return ""
    never = fall.startswith("never")
    return f" It is {'never' if never else 'first'} below .90 at γ = {SMALL:g}" + ("." if never else f" at {fall}.")


def _beside(large: Mapping[str, Any]) -> str:
    return f", and {large['text']} at γ = {LARGE:g}" if large["n"] else ""
