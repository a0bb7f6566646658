"""What the report says of label distributions: areas of the two memory mappings, and probability in label ranges."""

from __future__ import annotations

import math
from typing import Any

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, seeds_text, share_text, two_digits
from rb_interp.figures.panels import interval_of
from rb_interp.report.glossary import shared
from rb_interp.report.section import Cell, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.labels.config import BEFORE_MEMORY
from rb_interp.tasks.anchor import MEMORY_ACCURACY

MEMORIES = {"keys": "mem1", "near_sum": "mem2"}
"""The two sweeps that are compared, and what their memory mappings are called."""


def answer(evidence: Evidence) -> tuple[str, ...]:
    """The two results, with what a reader must know of them: memory is not learned, and what else differs."""
    found = (_learned(evidence), _speed(evidence), _slowed(evidence), never_learned(evidence), _inside(evidence))
    return tuple(text for text in found if text)


def _place(evidence: Evidence, source: str) -> tuple[Evidence, str, dict[str, Any]]:
    """Sweep, probe and place of a reading; ``source`` is a sweep of MEMORIES (its final accuracies), or a probe."""
    if source in MEMORIES:
        return evidence.sweep(source), "learning_order", {"stage": "final"}
    if source == "label_range":
        return evidence.sweep("ranges"), source, {"stage": BEFORE_MEMORY, "set": "mem"}
    return evidence, source, {"stage": "final"}


def interval(evidence: Evidence, source: str, quantity: str) -> Interval:
    """Mean and interval over seeds of a reading, see `_place`; NaN where it was not read."""
    own, probe, place = _place(evidence, source)
    return own.interval(probe, quantity, SMALL, **place)


def by_seed(evidence: Evidence, source: str, quantity: str) -> list[float]:
    """One number per seed of the run, NaN where it was not read."""
    own, probe, place = _place(evidence, source)
    return [own.value(probe, quantity, SMALL, seed, **place) for seed in evidence.seeds]


def mean_text(evidence: Evidence, source: str, quantity: str) -> str:
    """``mean [low, high]`` of `interval`; with more digits for the index that lies near R1's threshold."""
    found = interval(evidence, source, quantity)
    near = quantity == "bias_per_entropy"
    return near_text(*found, evidence.threshold("R1")) if near else share_text(*found)


def pooled_by_group(evidence: Evidence) -> dict[int, float]:
    """Share inside each group's range of a model that knows only the pooled labels (0 to 1); empty if not measured."""
    rows = evidence.records("label_facts", gamma=SMALL, quantity="pooled")
    return {int(row["group"]): float(row["mean"]) for row in rows}


def pooled_text(evidence: Evidence) -> str:
    """`pooled_by_group` in words, or nothing."""
    return ", ".join(f"{share:.2f} in group {group}" for group, share in pooled_by_group(evidence).items())


def times_never_learned(evidence: Evidence) -> tuple[int, int]:
    """Seeds read at their last evaluation, because memory was never learned, and seeds of which the step is known."""
    return _count(_fact(evidence, "never_learned"))


def never_learned(evidence: Evidence) -> str:
    """A sentence where the stage ``before_memory`` is the last step of some seeds, else nothing."""
    never, known = times_never_learned(evidence)
    if not never:
        return ""
    these = "these runs" if never == known else "some of these runs"
    return f"Memory was not learned in {these}: R2 is read at the last step in {never} of {seeds_text(known)}."


def _count(found: dict[str, Any]) -> tuple[int, int]:
    """A fact that counts seeds, and of how many; (0, 0) where it is not measured."""
    return (round(found["mean"]), int(found["n"])) if found and math.isfinite(found["mean"]) else (0, 0)


def _fact(evidence: Evidence, quantity: str) -> dict[str, Any]:
    rows = evidence.records("label_facts", gamma=SMALL, quantity=quantity)
    return rows[0] if rows else {}


def _learned(evidence: Evidence) -> str:
    highest = _fact(evidence, "highest_acc_mem")
    if not highest:
        return ""
    first, second = (mean_text(evidence, sweep, "acc_mem") for sweep in MEMORIES)
    text = f"Final accuracy on memory is {first} for mem1 and {second} for mem2"
    return text + (
        ": memory is learned in neither, only its loss falls." if highest["mean"] <= MEMORY_ACCURACY else "."
    )


def _speed(evidence: Evidence) -> str:
    index, fair = (mean_text(evidence, "label_speed", name) for name in ("bias", "bias_per_entropy"))
    if math.isnan(interval(evidence, "label_speed", "bias").estimate):
        return ""
    text = (
        "R1: the index of the two memory mappings (positive: the loss on labels near the key falls sooner) is "
        f"{index}. Labels near the key are also fewer: with each loss divided by the entropy of its labels the index "
        f"is {fair}"
    )
    small = interval(evidence, "label_speed", "bias_per_entropy").high < evidence.threshold("R1")
    return text + (". So the smaller number of labels can explain what R1 found." if small else ".")


def _slowed(evidence: Evidence) -> str:
    """What the memory labels do to the rule in the same sweep: paired by seed."""
    difference, (lower, known) = _fact(evidence, "rsn_train_difference"), _count(_fact(evidence, "rsn_train_lower"))
    if not difference or not known:
        return ""
    first, second = (mean_text(evidence, sweep, "acc_rsn_train") for sweep in MEMORIES)
    return (
        f"Final accuracy on reasoning (rsn_train) is {first} beside mem1 and {second} beside mem2, a difference of "
        f"{share_text(*interval_of(difference))}; it is lower beside mem2 in {lower} of {seeds_text(known)}."
    )


def _inside(evidence: Evidence) -> str:
    if math.isnan(interval(evidence, "label_range", "lowest_inside").estimate):
        return ""
    lowest, accuracy = (mean_text(evidence, "label_range", name) for name in ("lowest_inside", "accuracy"))
    pooled = pooled_text(evidence)
    return (
        f"R2: at a memory accuracy of {accuracy}, outputs keep {lowest} of their probability inside their group's "
        f"label range, in the group where it is least{pooled and f'; pooled labels alone would give {pooled}'}."
    )


SPEED = {
    ("label_speed", "area_mem1"): "A of mem1, labels anywhere among the keys",
    ("label_speed", "area_mem2"): "A of mem2, labels near the key",
    ("label_speed", "bias"): "index (A_mem1 − A_mem2) / (A_mem1 + A_mem2)",
    ("label_speed", "bias_per_entropy"): "the index, each loss divided by the entropy of its labels",
}
FINAL = {
    ("keys", "acc_mem"): "final accuracy on memory, mem1",
    ("near_sum", "acc_mem"): "final accuracy on memory, mem2",
    ("keys", "acc_rsn_train"): "final accuracy on reasoning (rsn_train), beside mem1",
    ("near_sum", "acc_rsn_train"): "final accuracy on reasoning (rsn_train), beside mem2",
}
MISSING = "This study has no readings of areas and label ranges; “rb-interp probe RUN” makes them."


def narrative(evidence: Evidence) -> Narrative:
    """Answer and the section of areas and label ranges, of the readings that the run has."""
    never, known = times_never_learned(evidence)
    some = f" (never in {never} of {seeds_text(known)}: there at the last step)" if never else ""
    tables = {
        "Speed of the two memory mappings, over all of training": SPEED,
        "What was learned in the end": FINAL,
        f"Outputs before memory is learned{some}": {
            ("label_range", name): text for name, text in _ranges(evidence).items()
        },
    }
    columns = ("", "mean over seeds [95 % interval]", *(f"seed {seed}" for seed in evidence.seeds))
    blocks = []
    for title, labels in tables.items():
        values = {key: by_seed(evidence, *key) for key in labels}
        if any(math.isfinite(value) for seeds in values.values() for value in seeds):
            rows = tuple(_row(evidence, *key, label, values[key]) for key, label in labels.items())
            blocks += [Heading(title), Table(columns, rows)]
    section = Section("label-ranges", "Areas and label ranges", tuple(blocks) or (Paragraph(MISSING),), short="Labels")
    return Narrative(answer(evidence), sections=(section,))


def _ranges(evidence: Evidence) -> dict[str, str]:
    groups = range(1, len(evidence.sweep("ranges").task.label_ranges) + 1)
    pooled = pooled_by_group(evidence)
    least = f"in group {min(pooled, key=pooled.__getitem__)}, the least" if pooled else "the lowest of the groups"
    return {
        **{f"inside_{group}": f"inside the range of group {group}" for group in groups},
        "lowest_inside": "the lowest of the groups",
        "pooled": f"pooled labels alone, {least}",
        "accuracy": "accuracy on memory",
    }


def _row(evidence: Evidence, source: str, quantity: str, label: str, seeds: list[float]) -> Row:
    write = near_text if quantity == "bias_per_entropy" else share_text
    n = sum(map(math.isfinite, seeds))
    some = f" ({n} of {len(seeds)} seeds)" if n < len(seeds) else ""
    cells = [Cell(write(value, math.nan, math.nan)) for value in seeds]
    return Row((Cell(label, head=True), Cell(mean_text(evidence, source, quantity) + some), *cells))


GLOSSARY: dict[str, str] = {
    **shared("memory, reasoning"),
    "sweeps": (
        "keys: memory labels drawn from all keys. near_sum: drawn from the integers within the sum of the anchors "
        "around the key. ranges: groups of memory anchors, each with a label range of its own. All have the same "
        "seeds, and keys and near_sum the same reasoning rows."
    ),
    "mem1, mem2": (
        "Names of the two memory mappings that R1 compares: mem1 is memory in the sweep keys, mem2 memory in the sweep "
        "near_sum."
    ),
    "A": "Area under a loss curve: the mean over training of the loss divided by ln d_vocab (at most 1).",
    "before_memory": (
        f"The stage at the last evaluation with memory accuracy at most {two_digits(MEMORY_ACCURACY)}: no table has "
        "been learned yet."
    ),
    "inside": (
        "Probability that the output gives to the labels of the input's own group, mean over the group's inputs."
    ),
    "pooled": ("What a model would reach that knows how often each label occurs in memory as a whole, and no group."),
}
