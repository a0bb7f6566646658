"""What the report says of label distributions: areas of the two memory mappings, and probability in label ranges."""

from __future__ import annotations

import math

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, seeds_text, share_text, two_digits
from rb_interp.report.glossary import shared
from rb_interp.report.section import Cell, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.studies.labels.answer import answer, by_seed, mean_text, pooled_by_group, times_never_learned
from rb_interp.tasks.anchor import MEMORY_ACCURACY

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
    tables = {
        "Speed of the two memory mappings, over all of training": SPEED,
        "What was learned in the end": FINAL,
        f"Outputs {_when(evidence)}": {("label_range", name): text for name, text in _ranges(evidence).items()},
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


def _when(evidence: Evidence) -> str:
    never, known = times_never_learned(evidence)
    some = f" (never in {never} of {seeds_text(known)}: there at the last step)" if never else ""
    return f"before memory is learned{some}"


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
