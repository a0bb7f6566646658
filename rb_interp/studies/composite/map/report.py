"""What the report says of the map: counts of phases, their shares with intervals, and boundaries."""

from __future__ import annotations

from collections import Counter

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text, seeds_text, share_text, two_digits
from rb_interp.report.section import Cell, Figure, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.statistics.intervals import interval_or_nan
from rb_interp.studies.composite.map.config import AXES
from rb_interp.studies.composite.phase import INFERENTIAL, PHASES, SYMMETRIC, UNFIT


def narrative(evidence: Evidence) -> Narrative:
    """Answer, the map, and its tables."""
    counts = Counter(row["phase"] for row in evidence.records("members"))
    answer = f"{counts.total()} members: {', '.join(f'{counts[phase]} {phase}' for phase in PHASES)}."
    note = Paragraph(
        "A boundary at the end of its grid may mean that there is none; “crossing” counts the seeds that have one. The "
        "grids of learning rate and weight decay are coarser in γ than that of depth.",
        "soft",
    )
    blocks = (Figure("map"), Heading("Shares of phases"), _cells(evidence), Heading("Boundaries"), note)
    best = (
        Heading("Best of all learning rates"),
        Paragraph(
            "The paper takes, for each point and each answer, the best of nine learning rates. So its two numbers may "
            "be of different models. The same statistic of this run decides nothing here.",
            "soft",
        ),
        _best_of_lr(evidence),
    )
    section = Section("map", "Phase map", (*blocks, _boundaries(evidence), *_distance(evidence), *best), short="Map")
    return Narrative((answer,), sections=(section,))


def _cells(evidence: Evidence) -> Table:
    def share(row: dict) -> Cell:
        return Cell(f"{share_text(row['share'], row['low'], row['high'])}, {row['n']} of {row['total']}")

    found: dict[tuple, dict[str, dict]] = {}
    for row in evidence.records("cells"):
        found.setdefault((row["axis"], row["label"], row["gamma"]), {})[row["phase"]] = row
    rows = [
        Row(
            (Cell(f"{gamma:g}", head=True), *(share(phases[phase]) for phase in (INFERENTIAL, SYMMETRIC, UNFIT))),
            group=f"{AXES[axis]}: {label}",
        )
        for (axis, label, gamma), phases in found.items()
    ]
    return Table(("γ", "P(inferential)", "P(symmetric)", "P(unfit)"), tuple(rows), dense=True)


def _boundaries(evidence: Evidence) -> Table:
    rows = [
        Row(
            (Cell(f"{AXES[row['axis']]}: {row['label']}", head=True), Cell(two_digits(row["gamma_star"])),
             Cell(f"{two_digits(row['low'])} to {two_digits(row['high'])}"), Cell(f"{row['crossing']} of {row['n']}"))
        )
        for row in evidence.records("boundaries")
    ]  # fmt: skip
    return Table(("where", "γ*, mean over seeds", "95 % interval", "crossing"), tuple(rows), dense=True)


def _distance(evidence: Evidence) -> tuple[Paragraph, ...]:
    """How far the boundaries of depths 2 and 4 lie apart, which stands beside C9; nothing where it was not read."""
    rows = evidence.readings.query("probe == 'map' and quantity == 'distance'")
    found = rows["value"].dropna().tolist()
    if not found:
        return ()
    text = f"{interval_text(*interval_or_nan(found))} (mean and 95 % interval over {seeds_text(len(found))})"
    return (Paragraph(f"γ* of depths 2 and 4 lie {text} apart. C9 claims no direction, and this decides nothing."),)


def _best_of_lr(evidence: Evidence) -> Table:
    found: dict[float, list[dict]] = {}
    for row in evidence.records("best_of_lr"):
        found.setdefault(row["gamma"], []).append(row)
    rows = [
        Row((Cell(f"{gamma:g}", head=True), *(Cell(", ".join(two_digits(row[name]) for row in rows)) for name in "IS")))
        for gamma, rows in found.items()
    ]
    return Table(("γ", "highest I, each seed", "highest S, each seed"), tuple(rows), dense=True)
