"""What the report says of crossed seeds: how often each circuit occurs, and the shares of variance."""

from __future__ import annotations

import math
from collections import Counter

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import number, share_text
from rb_interp.interventions.circuit_names import CAUSES
from rb_interp.report.section import Cell, Figure, Narrative, Paragraph, Row, Section, Table

COMPONENTS = {
    "data": "data", "initialisation": "initial weights", "rest": "interaction and noise",
    "difference": "data less initial weights",
}  # fmt: skip
MISSING = "This run has no shares of variance; “rb-interp probe RUN” makes them."
UNKNOWN = (
    "No share of variance is known: all members are alike, or one of them diverged or answers no row rightly, so that "
    "its cell is empty."
)


def narrative(evidence: Evidence) -> Narrative:
    """Answer, and a section with the table of shares and the figure."""
    try:
        unknown, table = math.isnan(component(evidence, "data")[0]), _table(evidence)
        answer = (_circuits(evidence), UNKNOWN if unknown else _decides(evidence))
    except MissingEvidenceError:
        return Narrative((MISSING,))
    note = Paragraph(
        "Shares are estimated by the analysis of variance; a negative one is cut off at 0. Their 95 % intervals hold "
        "for numbers near 0 or 1 too, and are wide: six seeds of a kind say little.", "soft",
    )  # fmt: skip
    section = Section("shares", "Shares of variance", (table, note, Figure("crossing")), short="Shares")
    return Narrative(answer, sections=(section,))


def component_text(evidence: Evidence, name: str) -> str:
    """``share [low, high]`` of a component of the variance."""
    return share_text(*component(evidence, name))


def component(evidence: Evidence, name: str) -> tuple[float, float, float]:
    """A component's share of the variance, and the ends of its interval."""
    row = evidence.table("components", component=name).iloc[0]
    return float(row["share"]), float(row["low"]), float(row["high"])


def _circuits(evidence: Evidence) -> str:
    counts = Counter(evidence.table("crossing")["circuit"])
    named = ", ".join(f"{circuit} {counts[circuit]}" for circuit in CAUSES if counts[circuit])
    return f"Circuits by cause, members: {named}."


def _decides(evidence: Evidence) -> str:
    shares = ", ".join(
        f"{COMPONENTS[name]} {component_text(evidence, name)}" for name in ("data", "initialisation", "rest")
    )
    share, low, high = component(evidence, "difference")
    of = "Variance of the share of the key's effect from its own position"
    text = f"{of}: {shares}. Data less initial weights: {share_text(share, low, high)}"
    if low > 0:
        return f"{text}: the data decide more than the initial weights."
    if high < 0:
        return f"{text}: the initial weights decide more than the data."
    return f"{text}: this crossing does not tell which of the two decides more."


def _table(evidence: Evidence) -> Table:
    rows = []
    for name, words in COMPONENTS.items():
        variance = float(evidence.table("components", component=name)["variance"].iloc[0])
        spread = Cell(number(variance)) if math.isfinite(variance) else Cell()
        rows.append(Row((Cell(words, head=True), Cell(component_text(evidence, name)), spread)))
    return Table(("", "share [95 % interval]", "variance"), tuple(rows))
