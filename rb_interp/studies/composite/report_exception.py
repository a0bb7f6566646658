"""What the report says of where the exception is stored."""

from __future__ import annotations

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import share_text
from rb_interp.report.section import Block, Cell, Heading, Paragraph, Row, Section, Table
from rb_interp.studies.composite.exception import ELSEWHERE, KEPT, LOOK, TEST, TURNED, UNLEARNED

HOW = (
    "Exploratory; no claim is judged here. Each edge of L0’s attention from role to role is knocked out alone. The "
    "exception, the trained mirror of the held-out pair, is stored in an edge where {turned:.0%} or more of its rows "
    "turn to the inferential answer without it, while accuracy on the other pairs stays at {kept:.0%} or above. Rows "
    "are those of seen_test with noise between the anchors and the last position."
)
USES = {LOOK: "even seeds, to look at", TEST: "odd seeds, kept for the test"}
PLACES = {ELSEWHERE: "in no edge of L0", UNLEARNED: "the exception is not learned"}
NOBODY = "No member of this run is fitted and has two layers, so there is nothing to tell."


def exception_section(evidence: Evidence) -> Section:
    """Phase against flow against place, and how well the seeds looked at predict the others."""
    counts, blocks = evidence.records("exception_counts"), []
    if not counts:
        return _section(Paragraph(NOBODY))
    if all(row["place"] == ELSEWHERE for row in counts):
        n = sum(row["n"] for row in counts)
        return _section(Paragraph(f"In none of the {n} fitted members is the exception stored in a single edge of L0."))
    rows = [
        Row((Cell(str(row["n"])), *(Cell(text, number=False) for text in (row["phase"], row["flow"], _place(row)))),
            group=USES[row["used_for"]])
        for use in (LOOK, TEST)
        for row in counts
        if row["used_for"] == use
    ]  # fmt: skip
    blocks.append(Table(("fitted members", "phase", "flow", "where the exception is"), tuple(rows), dense=True))
    return _section(*blocks, *_test(evidence))


def _section(*blocks: Block) -> Section:
    how = Paragraph(HOW.format(turned=TURNED, kept=KEPT), "soft")
    return Section("exception", "Where the exception is stored (exploratory)", (how, *blocks), short="Exception")


def _place(row: dict) -> str:
    query, _, key = row["place"].partition("_from_")
    return f"L0, from {query} to {key}" if key else PLACES[row["place"]]


def _test(evidence: Evidence) -> list[Block]:
    """Shares of test members whose place was predicted, in a table and a sentence."""
    found = {row["by"]: row for row in evidence.records("exception_test")}
    n = next(iter(found.values()))["n"]
    known = [row for row in found.values() if row["right"] == row["right"]]
    if not n or not known:
        return [Paragraph("Both parts need a fitted member; this run has none in one of them, so nothing is tested.")]
    by = ", ".join(f"by {row['by']} {row['right']:.0%}" for row in known if row["by"] != "nothing")
    rule = (
        "Even seeds suggest a place for each kind of member, the most frequent one among them. Odd seeds test it. This "
        "rule was fixed before any member was read."
    )
    right = f"{found['nothing']['right']:.0%} of {n} members are predicted rightly; {by}."
    text = f"{rule} Without knowing phase or flow {right}"
    rows = [
        Row((Cell(row["by"], head=True), Cell(share_text(row["right"], row["low"], row["high"])), Cell(str(row["n"]))))
        for row in known
    ]
    head = ("predicted by", "share of members rightly [95 % interval]", "members")
    return [Heading("Do phase and flow predict it?"), Paragraph(text), Table(head, tuple(rows))]
