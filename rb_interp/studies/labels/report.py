"""What the report says of label distributions: areas of the two memory mappings, and probability in label ranges."""

from __future__ import annotations

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.report.section import Cell, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.studies.labels.answer import BESIDE, answer, pooled_by_group, times_never_learned, told
from rb_interp.studies.labels.config import BEFORE_MEMORY, SMALL

SPEED = {
    "area_mem1": "A of mem1, labels anywhere among the keys",
    "area_mem2": "A of mem2, labels near the key",
    "bias": "index (A_mem1 − A_mem2) / (A_mem1 + A_mem2)",
    "bias_per_entropy": "the index, each loss divided by the entropy of its labels",
}
INSIDE = {"lowest_inside": "the lowest of the groups", "accuracy": "accuracy on memory"}
MISSING = "This study has no readings of areas and label ranges; “rb-interp probe RUN” makes them."


def narrative(evidence: Evidence) -> Narrative:
    """Answer and the section of areas and label ranges, of the readings that the run has."""
    speed = [("label_speed", name, label) for name, label in SPEED.items()]
    final = [(sweep, "acc_mem", f"final accuracy on memory, {words}") for sweep, words in BESIDE.items()]
    final += [
        (sweep, "acc_rsn_train", f"final accuracy on reasoning (rsn_train), beside {words}")
        for sweep, words in BESIDE.items()
    ]
    tables = {
        "Speed of the two memory mappings, over all of training": speed,
        "What was learned in the end": final,
        f"Outputs {_when(evidence)}": _ranges(evidence),
    }
    blocks = []
    for title, rows in tables.items():
        shown = [(_row(evidence, *row), _by_seed(evidence, *row[:2])) for row in rows]
        if any(values for _, values in shown):
            blocks += [Heading(title), Table(_columns(evidence), tuple(row for row, _ in shown))]
    section = Section("label-ranges", "Areas and label ranges", tuple(blocks) or (Paragraph(MISSING),), short="Labels")
    return Narrative(answer(evidence), sections=(section,))


def _columns(evidence: Evidence) -> tuple[str, ...]:
    return ("", "mean over seeds [95 % interval]", *(f"seed {seed}" for seed in evidence.seeds))


def _ranges(evidence: Evidence) -> list[tuple[str, str, str]]:
    groups = len(evidence.sweep("ranges").task.label_ranges)
    inside = {f"inside_{group}": f"inside the range of group {group}" for group in range(1, groups + 1)}
    lowest, accuracy = INSIDE.items()
    names = dict([*inside.items(), lowest, ("pooled", _pooled(evidence)), accuracy])
    return [("label_range", name, label) for name, label in names.items()]


def _by_seed(evidence: Evidence, probe: str, quantity: str) -> dict[int, float]:
    try:
        if probe == "label_speed":
            found = evidence.values(probe, quantity, SMALL)
        elif probe in BESIDE:
            found = evidence.sweep(probe).values("learning_order", quantity, SMALL)
        else:
            found = evidence.sweep("ranges").values(probe, quantity, SMALL, stage=BEFORE_MEMORY, set="mem")
    except MissingEvidenceError:
        return {}
    return {int(seed): float(value) for seed, value in found.items()}  # pyright: ignore[reportArgumentType]


def _row(evidence: Evidence, probe: str, quantity: str, label: str) -> Row:
    values, digits = _by_seed(evidence, probe, quantity), 3 if quantity == "bias_per_entropy" else 2
    some = f" ({len(values)} of {len(evidence.seeds)} seeds)" if len(values) < len(evidence.seeds) else ""
    cells = [Cell(_share(values.get(seed), digits)) for seed in evidence.seeds]
    return Row((Cell(label, head=True), Cell(told(evidence, probe, quantity) + some), *cells))


def _share(value: float | None, digits: int) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}".replace("-", "−")


def _when(evidence: Evidence) -> str:
    never, known = times_never_learned(evidence)
    if not never:
        return "before memory is learned"
    return f"before memory is learned (never in {never} of {seeds_text(known)}: there at the last step)"


def _pooled(evidence: Evidence) -> str:
    """The label of the row ``pooled``, with its group where the table tells which has the least."""
    try:
        pooled = pooled_by_group(evidence)
    except MissingEvidenceError:
        return "pooled labels alone, the lowest of the groups"
    return f"pooled labels alone, in group {min(pooled, key=lambda group: pooled[group])}, the least"
