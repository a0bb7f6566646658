"""What a report says, as plain data: the HTML shows it and report.json is it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rb_interp.figures.circuits import circuit_counts
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import over_seeds, seed_interval
from rb_interp.figures.registry import figures_of
from rb_interp.report.causal import ablations, calibration, causes
from rb_interp.report.glossary import glossary_of
from rb_interp.report.label_ranges import label_ranges, label_sentences
from rb_interp.report.language import language
from rb_interp.report.language_answer import language_answer, language_warnings
from rb_interp.report.studies import family_of, question_of, title_of
from rb_interp.report.terminal import calibration_mark
from rb_interp.report.theory import theory
from rb_interp.report.theory_answer import theory_answer
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.toml import to_toml

VERDICTS = ("HOLDS", "FAILS", "UNDECIDED")
MIN_SEEDS = 5
LEARNING = {
    "bias": "bias index B",
    "bias_test": "bias index B_test",
    "half_step": "half (training step)",
    "acc_mem": "final accuracy, memory",
    "acc_rsn_train": "final accuracy, reasoning trained on",
    "acc_rsn_test": "final accuracy, reasoning held out",
    "margin_mem": "memory: label entropy − final loss (nats)",
    "margin_rsn_train": "reasoning: label entropy − final loss (nats)",
}


def report_content(evidence: Evidence) -> dict[str, Any]:
    """Everything that the report shows, JSON-safe: numbers that are not finite become None."""
    meta = evidence.meta
    content = {
        "title": title_of(evidence.study),
        "question": question_of(evidence.study),
        "answer": answer(evidence),
        "claims": [_claim(claim) for claim in evidence.claims],
        **sections(evidence),
        "figures": figures(evidence),
        "glossary": glossary_of(evidence.study),
        "repeat": {
            "command": meta.get("command", ""),
            "toml": meta.get("toml") or to_toml(evidence.config),
            "config": evidence.config,
        },
        "run": {
            "host": _host(meta.get("host")),
            "wall_seconds": meta.get("wall_seconds"),
            "versions": meta.get("versions"),
        },
    }
    return json_safe(content)


def sections(evidence: Evidence) -> dict[str, Any]:
    """The sections between verdicts and figures, which depend on the study; the page shows those that are there."""
    if evidence.study == "emb-mlp":
        order = learning_order(evidence.parts["sweep"]) if "sweep" in evidence.parts else []
        return {"theory": theory(evidence), "learning_order": order}
    if evidence.study == "labels":
        return {"label_ranges": label_ranges(evidence)}
    if evidence.study == "language":
        return {"language": language(evidence)}
    return {
        "circuits": circuits(evidence),
        "causes": causes(evidence),
        "ablations": ablations(evidence),
        "calibration": calibration(evidence),
        "learning_order": learning_order(evidence),
    }


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {**claim, "family": family_of(str(claim["id"])), "calibration_mark": calibration_mark(claim)}


def _host(host: Any) -> str:
    return (
        ", ".join(f"{name} {value}" for name, value in host.items()) if isinstance(host, Mapping) else str(host or "")
    )


def answer(evidence: Evidence) -> dict[str, Any]:
    """The result in short: counts, what B and the circuits say, and what a reader must not overlook."""
    counts = Counter(str(claim["verdict"]) for claim in evidence.claims)
    named = {verdict: [str(c["id"]) for c in evidence.claims if c["verdict"] == verdict] for verdict in VERDICTS}
    return {
        "tier": evidence.tier,
        "gammas": evidence.gammas,
        "n_seeds": len(evidence.seeds),
        "counts": {verdict: counts.get(verdict, 0) for verdict in VERDICTS},
        **({} if evidence.study == "anchor" else {"named": named}),
        "expected_holds_by_chance": evidence.meta.get("expected_holds_by_chance"),
        "sentences": _sentences(evidence),
        "warnings": _warnings(evidence),
    }


def _sentences(evidence: Evidence) -> list[str]:
    found = []
    chance = evidence.meta.get("expected_holds_by_chance")
    if chance is not None:
        found.append(
            "If every statistic sat exactly at its threshold, chance alone would give at most "
            f"{float(chance):.2g} HOLDS."
        )
    if evidence.study == "labels":
        return found + label_sentences(evidence)
    if evidence.study == "language":
        return found + language_answer(evidence)
    ordered = evidence.parts.get("sweep", evidence)
    bias = [f"{over_seeds(ordered, 'learning_order', 'bias', gamma)} at γ = {gamma:g}" for gamma in ordered.gammas]
    if bias:
        found.append(f"Bias index B (positive: the rule is learned before the table): {'; '.join(bias)}.")
    if evidence.study == "emb-mlp":
        return found + theory_answer(evidence)
    row = circuit_counts(evidence).get(SMALL)
    if row:
        named = ", ".join(f"{name} {n}" for name, n in row.items() if n)
        found.append(f"Circuits at γ = {SMALL:g}: {named} (of {seeds_text(sum(row.values()))}).")
    return found + causes(evidence)["agreement"][:1]


def _warnings(evidence: Evidence) -> list[str]:
    found = []
    if evidence.tier == "smoke":
        found.append("This is a smoke run. It shows that every part works and says nothing about the claims.")
    if len(evidence.seeds) < MIN_SEEDS:
        found.append(
            f"This run has {seeds_text(len(evidence.seeds))}. No claim about members can hold or fail with fewer "
            f"than {MIN_SEEDS}."
        )
    if evidence.study == "language":
        found += language_warnings(evidence)
    found += _calibration_warnings(evidence.claims)
    met = [str(c["id"]) for c in evidence.claims if c.get("met_at_initialisation") and c["verdict"] == "HOLDS"]
    if met:
        found.append(f"Already met by untrained models, so that training has shown nothing by it: {', '.join(met)}.")
    return found


def _calibration_warnings(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    found, mechanisms = [], [claim for claim in claims if calibration_mark(claim)]
    missing = [str(claim["id"]) for claim in mechanisms if calibration_mark(claim) == "no"]
    if missing:
        found.append(
            f"Not calibrated: {', '.join(missing)}. The probes' error rates have not been measured for this family of "
            "models, so these verdicts say that the readings meet the criterion or not, not how often such readings "
            "mislead."
        )
    held = [f"{c['id']} (the numbers alone: {c['uncalibrated_verdict']})" for c in mechanisms if c.get("withheld")]
    if held:
        found.append(
            f"Withheld, because the probe misleads too often on models whose mechanism is known: {', '.join(held)}."
        )
    return found


def circuits(evidence: Evidence) -> dict[str, Any]:
    """How often each circuit occurs at each rate, with Clopper-Pearson intervals, and the members by name."""
    rows = []
    for gamma, row in circuit_counts(evidence).items():
        total = sum(row.values())
        shares = {name: proportion_interval(n, total) for name, n in row.items()}
        cells = {
            name: {"n": row[name], "share": share.estimate, "low": share.low, "high": share.high}
            for name, share in shares.items()
        }
        rows.append({"gamma": gamma, "n": total, "circuits": cells})
    return {
        "names": list(rows[0]["circuits"]) if rows else [],
        "rows": rows,
        "thresholds": dict(evidence.meta.get("circuit_thresholds") or {}),
        "members": evidence.circuits.to_dict(orient="records"),
    }


def learning_order(evidence: Evidence) -> list[dict[str, Any]]:
    """One row per quantity of the learning curves, with mean and interval at each rate."""
    rows = []
    for quantity, label in LEARNING.items():
        cells = [_cell(evidence, quantity, gamma) for gamma in evidence.gammas]
        if any(cell["n"] for cell in cells):
            rows.append({"quantity": quantity, "label": label, "cells": cells})
    return rows


def _cell(evidence: Evidence, quantity: str, gamma: float) -> dict[str, Any]:
    try:
        values = evidence.values("learning_order", quantity, gamma)
    except MissingEvidenceError:
        return {"gamma": gamma, "mean": None, "low": None, "high": None, "n": 0}
    mean, low, high = seed_interval(values)
    return {"gamma": gamma, "mean": mean, "low": low, "high": high, "n": len(values)}


def figures(evidence: Evidence) -> list[dict[str, Any]]:
    """Id, title, claims, caption and file of every figure, in the order in which they are shown."""
    found = []
    for spec in figures_of(evidence.study):
        caption = spec.caption(evidence)
        found.append(
            {
                "id": spec.id,
                "title": spec.title,
                "claims": list(spec.claims),
                "seen": caption.seen,
                "would_refute": caption.would_refute,
                "svg": f"figures/{spec.id}.svg",
                "png": f"figures/{spec.id}.png",
            }
        )
    return found


def json_safe(value: Any) -> Any:
    """The same data in what JSON can hold: numpy numbers as numbers, tuples as lists, NaN and infinity as None.

    >>> json_safe({"low": float("-inf"), "seeds": (0, 1)})
    {'low': None, 'seeds': [0, 1]}
    """
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return json_safe(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_safe(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)
