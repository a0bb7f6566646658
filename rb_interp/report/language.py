"""What a report says of language: Delta L, cosines of token embeddings and skills by rate, and which text was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.claims.language import PAPER_COSINES
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import about, entropies, names, reading_text
from rb_interp.figures.language_next_token import QUANTITY
from rb_interp.figures.language_similarity import untrained
from rb_interp.figures.language_skills import KINDS, pooled, skill_table
from rb_interp.figures.numbers import number
from rb_interp.figures.panels import seed_interval

LOSSES = {
    "delta_loss": "ΔL, mean over training",
    "delta_loss_test": "ΔL on held-out text, mean over training",
    "delta_loss_per_entropy": "ΔL per unigram entropy, mean over training",
    "delta_loss_per_entropy_test": "ΔL per unigram entropy on held-out text, mean over training",
    "delta_final": "ΔL at the last evaluation",
    "early_step": "step of the stage “early”",
}
SETS = {
    f"loss_{corpus}_{end}": (corpus, words)
    for end, words in (("train", "trained on"), ("test", "held out"))
    for corpus in PAPER_COSINES
}
PARTS = {
    "loss_question": "final loss on held-out questions of PrOntoQA, whose rules are drawn at random (nats per token)",
    "loss_chain": "final loss on their chains of thought (nats per token)",
    "loss_answer": "final loss on their answers (nats per token)",
}
COSINES = {
    "cos_prontoqa": "mean cos between PrOntoQA tokens",
    "cos_stories": "mean cos between tokens of the stories",
    "cos_control": "mean cos between tokens of the stories, matched to PrOntoQA's in frequency",
    "difference": "PrOntoQA − stories",
    "difference_control": "PrOntoQA − matched",
    "difference_centred": "PrOntoQA − stories, embeddings centred",
    "difference_control_centred": "PrOntoQA − matched, embeddings centred",
    "n_prontoqa": "typical tokens of PrOntoQA",
    "n_stories": "typical tokens of the stories",
    "control_mismatch": "mean |ln ratio| of matched counts",
}
PREDICTED = {"prontoqa": "PrOntoQA tokens", "stories": "tokens of the stories", "all": "all pairs"}


def language(evidence: Evidence) -> dict[str, Any]:
    """Tables by rate (title, rows of cells with mean, interval and text), and a row about each corpus."""
    cosines = [
        _row(evidence, "token_similarity", name, label, "early", PAPER_COSINES.get(name.removeprefix("cos_")))
        for name, label in COSINES.items()
    ]
    called = names(evidence)
    losses = [_row(evidence, "corpus_loss", name, label) for name, label in LOSSES.items()]
    losses += [
        _row(evidence, "corpus_loss", name, f"final loss on {called[corpus]}, {words} (nats per token)")
        for name, (corpus, words) in SETS.items()
    ]
    predicted = [
        _row(evidence, "next_token", f"{QUANTITY}_{group}", f"{label}, {stage}", stage)
        for group, label in PREDICTED.items()
        for stage in ("early", "final")
    ]
    losses += [_row(evidence, "chain", name, label) for name, label in PARTS.items()]
    blocks = [
        {"title": "Losses", "rows": losses},
        {"title": "Cosines of token embeddings, early in training", "rows": cosines},
        {"title": "Rank correlation of cos(P^s − u, P^s' − u) with the cosine of embeddings", "rows": predicted},
        {"title": "Held-out PrOntoQA at the last step, share right", "rows": skills(evidence)},
    ]
    kept = [{**block, "rows": [row for row in block["rows"] if row["n"]]} for block in blocks]
    found = [{**block, "paper": any(row["paper"] for row in block["rows"])} for block in kept if block["rows"]]
    missing = "" if found else "This study has no readings of losses and embeddings; “rb-interp probe RUN” makes them."
    return {"gammas": evidence.gammas, "blocks": found, "corpora": corpora(evidence), "missing": missing}


def _row(
    evidence: Evidence, probe: str, quantity: str, label: str, stage: str = "final", paper: float | None = None
) -> dict[str, Any]:
    cells = []
    for gamma in evidence.gammas:
        try:
            values = evidence.values(probe, quantity, gamma, stage=stage)
        except MissingEvidenceError:
            values = pd.Series(dtype=float)
        cell = _cell(gamma, values)
        if quantity.endswith("_centred") and cell["n"]:  # an untrained model does not read 0 there
            cell["text"] += untrained(evidence, quantity, gamma)
        cells.append(cell)
    n = max((cell["n"] for cell in cells), default=0)
    return {"quantity": quantity, "label": label, "paper": paper, "n": n, "cells": cells}


def _cell(gamma: float, values: pd.Series) -> dict[str, Any]:
    mean, low, high = seed_interval(values) if len(values) else (np.nan,) * 3
    text = reading_text(values)
    return {"gamma": gamma, "n": len(values), "mean": mean, "low": low, "high": high, "text": text}


def skills(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows by kind: over all hops, and for answers and chains by number of hops."""
    rows = []
    for kind, (words, *_) in KINDS.items():
        rows.append(_skill(evidence, kind, f"{words}, all hops", None))
        if kind in ("answer_two_way", "chain"):
            rows += [_skill(evidence, kind, f"{words}, {_hops(hop)}", hop) for hop in hops_of(evidence, kind)]
    return rows


def hops_of(evidence: Evidence, kind: str) -> list[int]:
    """Numbers of hops that were asked, ascending."""
    found: set[int] = set()
    for gamma in evidence.gammas:
        try:
            found |= {int(hop) for hop in skill_table(evidence, gamma, kind).index}
        except MissingEvidenceError:
            continue
    return sorted(found)


def _skill(evidence: Evidence, kind: str, label: str, hop: int | None) -> dict[str, Any]:
    cells = [_cell(gamma, _accuracies(evidence, kind, gamma, hop)) for gamma in evidence.gammas]
    n = max((cell["n"] for cell in cells), default=0)
    return {"quantity": kind, "hops": hop, "label": label, "paper": None, "n": n, "cells": cells}


def _accuracies(evidence: Evidence, kind: str, gamma: float, hop: int | None) -> pd.Series:
    try:
        if hop is None:
            return pooled(evidence, gamma, kind)
        return skill_table(evidence, gamma, kind).loc[hop].dropna()
    except (MissingEvidenceError, KeyError):
        return pd.Series(dtype=float)


def _hops(hop: int) -> str:
    return "1 hop" if hop == 1 else f"{hop} hops"


def corpora(evidence: Evidence) -> list[dict[str, Any]]:
    """What was read: name, source in words, documents, tokens and unigram entropy of each corpus."""
    called, known, told = names(evidence), entropies(evidence), about(evidence)
    rows = []
    for corpus, name in called.items():
        of = told.get(corpus)
        if not isinstance(of, Mapping):
            continue
        counts = {what: number(of.get(what)) for what in ("documents", "tokens")}
        entropy = f"{known[corpus]:.2f}" if corpus in known else number(None)
        rows.append({"corpus": corpus, "name": name, "source": str(of.get("source", "")), "entropy": entropy, **counts})
    return rows
