"""What a report says of label distributions: areas of the two memory mappings, and probability inside label ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.label_range import PART, STAGE
from rb_interp.figures.numbers import share_text
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.parts import part_of

SPEED = {
    "area_mem1": "A of mem1, labels anywhere among the keys",
    "area_mem2": "A of mem2, labels near the key",
    "bias": "index (A_mem1 − A_mem2) / (A_mem1 + A_mem2)",
}
INSIDE = {
    "lowest_inside": "the lowest of the groups",
    "pooled": "pooled labels alone",
    "accuracy": "accuracy on memory",
}


def label_ranges(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of label_speed and of label_range before memory is learned: by seed, with mean and interval."""
    speed = [_row(evidence, "label_speed", name, label) for name, label in SPEED.items()]
    groups = {f"inside_{g}": f"inside the range of group {g}" for g in range(1, _n_groups(evidence) + 1)}
    inside = [_row(evidence, "label_range", name, label) for name, label in {**groups, **INSIDE}.items()]
    titles = ("Speed of the two memory mappings, over all of training", "Outputs before memory is learned")
    blocks = ({"title": titles[0], "rows": speed}, {"title": titles[1], "rows": inside})
    return [block for block in blocks if any(row["n"] for row in block["rows"])]


def _n_groups(evidence: Evidence) -> int:
    return len(evidence.parts[PART].task.label_ranges) if PART in evidence.parts else 0


def _values(evidence: Evidence, probe: str, quantity: str) -> dict[int, float]:
    try:
        if probe == "label_speed":
            found = evidence.values(probe, quantity, SMALL)
        else:
            found = part_of(evidence, PART).values(probe, quantity, SMALL, stage=STAGE, rows="mem")
    except MissingEvidenceError:
        return {}
    return {int(seed): float(value) for seed, value in found.items()}  # pyright: ignore[reportArgumentType]


def _row(evidence: Evidence, probe: str, quantity: str, label: str) -> dict[str, Any]:
    values = _values(evidence, probe, quantity)
    mean, low, high = seed_interval(list(values.values())) if values else (np.nan,) * 3
    by_seed = {str(seed): values.get(seed) for seed in evidence.seeds}
    ends = {"mean": mean, "low": low, "high": high, "text": share_text(mean, low, high)}
    return {"quantity": quantity, "label": label, "n": len(values), "by_seed": by_seed, **ends}


def label_sentences(evidence: Evidence) -> list[str]:
    """The two results in a sentence each, where they were read."""
    index, lowest = (_row(evidence, *of, "") for of in (("label_speed", "bias"), ("label_range", "lowest_inside")))
    pooled, accuracy = (_row(evidence, "label_range", name, "") for name in ("pooled", "accuracy"))
    found = []
    if index["n"]:
        found.append(
            f"Index of the two memory mappings (positive: labels near the key are learned sooner): {index['text']}."
        )
    if lowest["n"]:
        found.append(
            f"At a memory accuracy of {accuracy['text']}, outputs keep {lowest['text']} of their probability inside "
            "their group's label range, in the group where it is least; pooled labels alone would give "
            f"{pooled['text']}."
        )
    return found
