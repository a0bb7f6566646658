"""What the report says of two circuits: how often their members answer the same rows differently."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, two_digits
from rb_interp.report.section import Block, Cell, Details, Figure, Paragraph, Row, Section, Table
from rb_interp.studies.anchor.figures.equivalence import NOT_COMPARED, titled


def equivalence_section(evidence: Evidence) -> Section:
    """Disagreement within and between circuits on every kind of rows, with its test, and each member's accuracy."""
    return Section("equivalence", "Are two circuits two mechanisms?", tuple(equivalence(evidence)), short="Equivalence")


def equivalence(evidence: Evidence) -> Iterator[Block]:
    """The blocks of that section."""
    tests = evidence.records("equivalence")
    if not any(np.isfinite(row["difference"]) for row in tests):
        yield Paragraph(NOT_COMPARED)
        return
    yield Paragraph(
        f"Every member at γ = {SMALL:g} answers the same rows. Two members disagree where their answers differ. If two "
        "circuits were one mechanism, members of two circuits would disagree no more often than members of one, on "
        "every kind of rows."
    )
    yield Figure("equivalence")
    means = evidence.records("disagreement_means")
    pairs = list(dict.fromkeys((row["circuit_a"], row["circuit_b"]) for row in means))
    found = {(row["battery"], row["circuit_a"], row["circuit_b"]): row for row in means}
    columns = ("Rows", *map(_named, pairs), "Between less within", "p")
    lines = []
    for row in tests:
        cells = [_disagreement(found.get((row["battery"], *pair))) for pair in pairs]
        last = (Cell(number(row["difference"])), Cell(number(row["p_value"])))
        lines.append(Row((Cell(titled(row["battery"]), head=True), *cells, *last)))
    yield Table(columns, tuple(lines))
    first = tests[0]
    drawn = "all" if first["exact"] else "random"
    yield Paragraph(
        "Share of rows answered differently: mean over pairs of members, with the smallest and the largest. p: "
        f"permutation test over {first['n_members']} members ({first['groups']}), {drawn} {first['n_relabelings']:,} "
        "ways to give them these circuits; one-sided. Where a circuit's members all fail, each in its own way, they "
        "disagree within it as well.",
        kind="soft",
    )
    yield Details("How often each member is right", (_accuracies(evidence),))


def _named(pair: tuple[str, str]) -> str:
    return f"Within {pair[0]}" if pair[0] == pair[1] else f"{pair[0]} and {pair[1]}"


def _disagreement(row: dict | None) -> Cell:
    if row is None:
        return Cell("n/a", number=False)
    ends = f"{number(row['smallest'])} to {number(row['largest'])}" if row["n"] > 1 else ""
    pairs = f"{row['n']} pair" if row["n"] == 1 else f"{row['n']} pairs"
    return Cell(number(row["mean"]), tuple(filter(None, (ends, pairs))))


def _accuracies(evidence: Evidence) -> Table:
    rows = evidence.records("battery_accuracy")
    members = sorted({(row["circuit"], row["seed"]) for row in rows})
    at = {(row["battery"], row["seed"]): row for row in rows}
    names = list(dict.fromkeys(row["battery"] for row in rows))
    lines = [
        Row((Cell(titled(name), head=True), *(_accuracy(at[name, seed]) for _, seed in members))) for name in names
    ]
    return Table(("Rows", *(f"{circuit}, seed {seed}" for circuit, seed in members)), tuple(lines))


def _accuracy(row: dict) -> Cell:
    second = row["second_accuracy"]
    return Cell(
        two_digits(row["accuracy"]), (f"{two_digits(second)} the later block's",) if np.isfinite(second) else ()
    )


def equivalence_sentence(evidence: Evidence) -> Iterator[str]:
    """Held-out rows and short rows in one sentence; nothing where circuits were not compared."""
    compared = [
        f"on {titled(row['battery'])} {number(row['between'])} and {number(row['within'])}"
        for row in evidence.records("equivalence")
        if row["battery"].startswith(("held_out", "length_")) and np.isfinite(row["difference"])
    ]
    if compared:
        yield f"Members of two circuits, and of one, disagree: {'; '.join(compared)} (share of rows)."
