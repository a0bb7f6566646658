"""What the report says of complexity: matrices, items, and whether any of it tells the phase within a rate."""

from __future__ import annotations

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import share_text, two_digits
from rb_interp.figures.panels import over_seeds
from rb_interp.report.section import Block, Cell, Figure, Heading, Paragraph, Row, Section, Table

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
