"""What a report says of theory and measurement: R² as learning begins, where agreement ends, exponents of Eq. 13."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_interp.figures.agreement_end import told_end
from rb_interp.figures.drift import r2_at_leaving
from rb_interp.figures.evidence import LARGE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import near_text, number, share_text
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.parts import ADAPTIVE, LEVEL, PARTS, at_leaving, gammas_of, of_seeds, rates, rows_of

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
    place = {"part": part, "label": words, "note": note_of(evidence, part), "gamma": gamma}
    return {**place, "cells": cells, "falls": falls}


def note_of(evidence: Evidence, part: str) -> str:
    """What a reader of a part's rows must know: the rates that it lacks, and what AdamW does to R²."""
    found, every, own = [], rates(evidence), _gammas(evidence, part)
    if len(own) < len(every):
        found.append(f"trained at {len(own)} of the study's {len(every)} rates")
    if part == ADAPTIVE:
        found.append("R² ignores how Adam scales every coordinate, so only the cosine means something")
    return "; ".join(found)


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
    threshold = LEVEL if name != "permuted" else None
    text = near_text(mean, low, high, threshold)
    text += of_seeds(evidence, part, len(values))
    return {"mean": mean, "low": low, "high": high, "n": len(values), "text": text}


def r2_text(evidence: Evidence, part: str, gamma: float, prediction: str) -> str:
    """R² of a prediction at ``leaving`` with its interval over seeds, or nothing where it was not read."""
    cell = _cell(evidence, part, gamma, prediction)
    return cell["text"] if cell["n"] else ""


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
    """How well the theory predicts as learning begins, and where it stops, at the small initialisation, by part."""
    found = [_adaptive(evidence) if part == ADAPTIVE else _plain(evidence, part) for part in PARTS]
    return [text for text in found if text]


def _plain(evidence: Evidence, part: str) -> str:
    """R² with the weights of each step beside R² with the initial ones, in one sentence: the first alone flatters."""
    small, large = (_cell(evidence, part, gamma, "each_step") for gamma in (SMALL, LARGE))
    if not small["n"]:
        return ""
    first = _cell(evidence, part, SMALL, "step_0")
    text = f"{_capital(PARTS[part])}: as learning begins, the theory's R² for the drift of the anchors is "
    text += f"{small['text']} at γ = {SMALL:g} given the run's own weights of each step, and {first['text']} with the "
    text += f"initial weights throughout{_beside(large)}."
    text += _first_below(evidence, part, "each_step", "Given the weights of each step, R²")
    text += _first_below(evidence, part, "step_0", "With the initial weights R²")
    known = _cell(evidence, part, SMALL, "positions")
    if known["n"]:
        text += f" With each token's position known too, R² as learning begins is {known['text']}."
        text += _first_below(evidence, part, "positions", "It")
    return text


def _adaptive(evidence: Evidence) -> str:
    small, large = (_cell(evidence, ADAPTIVE, gamma, "cos") for gamma in (SMALL, LARGE))
    if not small["n"]:
        return ""
    return (
        f"{_capital(PARTS[ADAPTIVE])}: as learning begins, the cosine of predicted and measured drift of the anchors "
        f"is {small['text']} at γ = {SMALL:g}{_beside(large)}. The theory is not about AdamW, and its R² "
        f"({_cell(evidence, ADAPTIVE, SMALL, 'each_step')['text']} at γ = {SMALL:g}) ignores how Adam scales every "
        "coordinate of the gradient, so only the cosine means something."
    )


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _first_below(evidence: Evidence, part: str, prediction: str, subject: str) -> str:
    """Where agreement ends, in a sentence that does not read as if it had held until then where it had not."""
    fall = told_end(evidence, prediction=prediction, part=part, gamma=SMALL, group="anchor")
    if fall == number(None):
        return ""
    if fall.startswith("never"):
        return f" {subject} is never below .90."
    if fall.startswith("first kept step, "):
        at = fall.removeprefix("first kept step, ")
        from_there = f"at the first kept step, {at}" if ", .90" in at else f"from the first kept step on, {at}"
        return f" {subject} is below .90 {from_there}."
    return f" {subject} first falls below .90 at {fall}, in the median of the seeds."


def _beside(large: Mapping[str, Any]) -> str:
    return f" (each step: {large['text']} at γ = {LARGE:g})" if large["n"] else ""
