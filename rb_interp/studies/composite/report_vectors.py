"""What the report says of weights and vectors: representations, complexity, and whether it tells the phase."""

from __future__ import annotations

import math

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import share_text, two_digits
from rb_interp.figures.panels import over_seeds
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


ITEMS = {
    "participation": "PR",
    "participation_ratio": "PR / untrained",
    "pc_order": "order by a PC",
    "contrast": "C(3), C(4) − C(2), C(5)",
    "nearest": "nearest is 3 or 4 away",
}
"""Quantity of the probe ``lattice`` -> heading."""
BASIS = (
    "Single matrices depend on the basis in which attention is written: W_Q R and W_K R⁻ᵀ compute the same. Members of "
    "one start are comparable, other models are not. A large start hides directions that a small one shows, and weight "
    "decay removes it."
)


def complexity_section(evidence: Evidence) -> Section:
    """Figures of neurons, matrices and items, a table of the items, and what tells the phase."""
    blocks: list[Block] = [
        Figure("condensation"),
        Figure("singular_values"),
        Figure("participation"),
        Paragraph(BASIS, "soft"),
    ]
    blocks += [Heading("The items' embeddings"), Figure("items"), _items(evidence), Figure("growth")]
    blocks += [Heading("Does complexity tell the phase, within a rate?"), *_phase(evidence)]
    return Section("complexity", "Complexity", tuple(blocks), short="Complexity")


def _items(evidence: Evidence) -> Table:
    """The items' numbers at each rate, median and range over seeds, the untrained models' mean below."""
    rows = []
    for gamma in evidence.gammas:
        found = [Cell(over_seeds(evidence, "lattice", name, gamma, write=share_text)) for name in ITEMS]
        first = [Cell(two_digits(evidence.untrained("lattice", name, gamma))) for name in ITEMS]
        rows.append(Row((Cell("trained", head=True), *found), group=f"γ = {gamma:g}"))
        rows.append(Row((Cell("untrained, mean", head=True), *first), group=f"γ = {gamma:g}"))
    return Table(("median [range] over seeds", *ITEMS.values()), tuple(rows))


def _phase(evidence: Evidence) -> list[Block]:
    records = evidence.records("phase_auc")
    if not records:
        return [Paragraph("No γ of this run has inferential and symmetric members, so K8 is not judged.")]
    rows = [
        Row(
            (Cell(f"L{row['layer']}, {row['matrix']}", head=True),
             Cell(share_text(*(row[name] for name in ("auc", "low", "high")))), Cell(two_digits(row["untrained"])))
        )
        for row in records
    ]  # fmt: skip
    one = records[0]
    text = (
        f"Chance that an inferential member has a lower participation ratio than a symmetric one of the same γ (AUC): "
        f"{one['inferential']} inferential and {one['symmetric']} symmetric members, {int(one['n'])} pairs, at "
        f"{one['gammas']} γ. The interval counts as many pairs as can be disjoint, so it is wide. K8 is about W_Q of "
        f"L0, and is judged by this interval; the other matrices were not asked about beforehand."
    )
    return [Table(("matrix", "AUC [95 % interval]", "untrained"), tuple(rows)), Paragraph(text, "soft")]
