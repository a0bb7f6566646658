"""What the report says of representations: cosines of equal and different targets, and shares of variance."""

from __future__ import annotations

import math

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import share_text, two_digits
from rb_interp.report.section import Block, Cell, Figure, Heading, Paragraph, Row, Section, Table

SHARES = {
    "last position after L1's attention": ("variance_shares", 1, ("answer", "key", "pair")),
    "last position after L0's attention": ("variance_shares", 0, ("unordered_pair", "order", "key")),
}
"""Where -> the reading, its layer, and what explains variance there."""
SETS = {"seen_test": "rows of seen_test", "grid": "grid, same noise"}


def representation_section(evidence: Evidence) -> Section:
    """Figure after Fig. 4, and shares of variance at the last position."""
    blocks: list[Block] = [Figure("cosines"), Heading("What explains the last position")]
    rows = [row for where in SHARES for row in _rows(evidence, where)]
    if rows:
        blocks.append(Table(("share of variance, median [range]", *SETS.values(), "untrained, seen_test"), tuple(rows)))
    else:
        blocks.append(Paragraph("This run has no readings of vectors; they are made of models with two layers."))
    blocks.append(
        Paragraph(
            "Answers follow keys more than pairs, so a position that holds the key alone gives most of the answer: the "
            "answer counts where it explains more than the key. On rows of seen_test the last token is noise, and its "
            "own embedding is unexplained.", "soft",
        )
    )  # fmt: skip
    return Section("representations", "Representations", tuple(blocks), short="Vectors")


def _rows(evidence: Evidence, where: str) -> list[Row]:
    """A row for each grouping and rate that was read."""
    probe, layer, groupings = SHARES[where]
    found = []
    for name in groupings:
        for gamma in evidence.gammas:
            deepest = layer > 0
            spreads = [evidence.spread(probe, name, gamma, set=set, deepest=deepest) for set in SETS]
            if not any(math.isfinite(spread.estimate) for spread in spreads):
                continue
            label = f"{name.replace('_', ' ')}, γ = {gamma:g}"
            start = evidence.untrained(probe, name, gamma, set="seen_test", deepest=deepest)
            texts = (*(share_text(*spread) for spread in spreads), two_digits(start))
            cells = (Cell(label, head=True), *map(Cell, texts))
            found.append(Row(cells, group=where))
    return found
