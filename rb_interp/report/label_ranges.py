"""What a report says of label distributions: areas of the two memory mappings, and probability inside label ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from rb_interp.figures.criteria import LABELS
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.label_range import PART, STAGE, last_steps, never_learned, pooled_by_group
from rb_interp.figures.numbers import near_text, seeds_text, share_text
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.parts import part_of

SPEED = {
    "area_mem1": "A of mem1, labels anywhere among the keys",
    "area_mem2": "A of mem2, labels near the key",
    "bias": "index (A_mem1 − A_mem2) / (A_mem1 + A_mem2)",
    "bias_per_entropy": "the index, each loss divided by the entropy of its labels",
}
ACCURACY = {
    "acc_mem": "final accuracy on memory",
    "acc_rsn_train": "final accuracy on reasoning (rsn_train)",
}
BESIDE = {"keys": "mem1", "near_sum": "mem2"}
LEARNED = 0.20
"""Accuracy up to which memory counts as not learned: that of the stage ``before_memory``."""
INSIDE = {
    "lowest_inside": "the lowest of the groups",
    "pooled": "pooled labels alone, the lowest of the groups",
    "accuracy": "accuracy on memory",
}


def label_ranges(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of label_speed and of label_range before memory is learned: by seed, with mean and interval."""
    speed = [_row(evidence, "label_speed", name, label) for name, label in SPEED.items()]
    final = [
        _row(evidence, part, name, f"{label}, beside {words}" if name != "acc_mem" else f"{label}, {words}")
        for name, label in ACCURACY.items()
        for part, words in BESIDE.items()
    ]
    groups = {f"inside_{g}": f"inside the range of group {g}" for g in range(1, _n_groups(evidence) + 1)}
    inside = [
        _row(evidence, "label_range", name, label) for name, label in {**groups, **INSIDE, **_pooled(evidence)}.items()
    ]
    titles = ("Speed of the two memory mappings, over all of training", "What was learned in the end")
    blocks = [{"title": title, "rows": rows} for title, rows in zip(titles, (speed, final), strict=True)]
    blocks.append({"title": f"Outputs {_when(evidence)}", "rows": inside})
    return [block for block in blocks if any(row["n"] for row in block["rows"])]


def _n_groups(evidence: Evidence) -> int:
    return len(evidence.parts[PART].task.label_ranges) if PART in evidence.parts else 0


def _values(evidence: Evidence, probe: str, quantity: str) -> dict[int, float]:
    try:
        if probe == "label_speed":
            found = evidence.values(probe, quantity, SMALL)
        elif probe in BESIDE:
            found = part_of(evidence, probe).values("learning_order", quantity, SMALL)
        else:
            found = part_of(evidence, PART).values(probe, quantity, SMALL, stage=STAGE, rows="mem")
    except MissingEvidenceError:
        return {}
    return {int(seed): float(value) for seed, value in found.items()}  # pyright: ignore[reportArgumentType]


def _row(evidence: Evidence, probe: str, quantity: str, label: str) -> dict[str, Any]:
    values = _values(evidence, probe, quantity)
    mean, low, high = seed_interval(list(values.values())) if values else (np.nan,) * 3
    by_seed = {str(seed): values.get(seed) for seed in evidence.seeds}
    text = share_text(mean, low, high) if quantity != "bias_per_entropy" else near_text(mean, low, high, LABELS["R1"])
    ends = {"mean": mean, "low": low, "high": high, "text": text}
    return {"quantity": quantity, "label": label, "n": len(values), "by_seed": by_seed, **ends}


def label_sentences(evidence: Evidence) -> list[str]:
    """The two results, with what a reader must know of them: memory is not learned, and what else differs."""
    found = [_learned(evidence), _speed(evidence), _slowed(evidence), never_learned(evidence), _inside(evidence)]
    return [text for text in found if text]


def _learned(evidence: Evidence) -> str:
    rows = [_row(evidence, part, "acc_mem", "") for part in BESIDE]
    if not all(row["n"] for row in rows):
        return ""
    text = f"Final accuracy on memory is {rows[0]['text']} for mem1 and {rows[1]['text']} for mem2"
    highest = max(value for row in rows for value in row["by_seed"].values() if value is not None)
    return text + (": memory is learned in neither, only its loss falls." if highest <= LEARNED else ".")


def _speed(evidence: Evidence) -> str:
    index, fair = (_row(evidence, "label_speed", name, "") for name in ("bias", "bias_per_entropy"))
    if not index["n"]:
        return ""
    text = "R1: the index of the two memory mappings (positive: the loss on labels near the key falls sooner) is "
    text += f"{index['text']}."
    if not fair["n"]:
        return text
    text += " Labels near the key are also fewer: with each loss divided by the entropy of its labels the index is "
    text += fair["text"]
    small = fair["high"] < LABELS["R1"]
    return text + (": that there are fewer can account for what R1 found." if small else ".")


def _slowed(evidence: Evidence) -> str:
    """What the memory labels do to the rule beside them: paired by seed."""
    first, second = (_row(evidence, part, "acc_rsn_train", "") for part in BESIDE)
    one, other = (_values(evidence, part, "acc_rsn_train") for part in BESIDE)
    differences = [one[seed] - other[seed] for seed in one.keys() & other.keys()]
    if not differences:
        return ""
    mean, low, high = seed_interval(differences)
    text = f"Final accuracy on reasoning (rsn_train) is {first['text']} beside mem1 and {second['text']} beside mem2, "
    text += f"a difference of {share_text(mean, low, high)}"
    if mean > 0 and len(differences) > 1 and low > 0:
        return text + ": memory labels near the key slow the rule in these runs."
    lower = sum(value > 0 for value in differences)
    return text + f"; it is lower beside mem2 in {lower} of {seeds_text(len(differences))}."


def _inside(evidence: Evidence) -> str:
    lowest, accuracy = (_row(evidence, "label_range", name, "") for name in ("lowest_inside", "accuracy"))
    if not lowest["n"]:
        return ""
    return (
        f"R2: at a memory accuracy of {accuracy['text']}, outputs keep {lowest['text']} of their probability inside "
        f"their group's label range, in the group where it is least{_beside(evidence)}."
    )


def _beside(evidence: Evidence) -> str:
    try:
        pooled = pooled_by_group(evidence)
    except MissingEvidenceError:
        return ""
    told = ", ".join(f"{share:.2f} in group {group}" for group, share in pooled.items())
    return f"; pooled labels alone would give {told}"


def _when(evidence: Evidence) -> str:
    never, known = last_steps(evidence)
    if not never:
        return "before memory is learned"
    return f"before memory is learned (never in {never} of {seeds_text(known)}: there at the last step)"


def _pooled(evidence: Evidence) -> dict[str, str]:
    """The label of the row ``pooled`` with its group, where the table tells which has the least."""
    try:
        pooled = pooled_by_group(evidence)
    except MissingEvidenceError:
        return {}
    return {"pooled": f"pooled labels alone, in group {min(pooled, key=lambda group: pooled[group])}, the least"}
