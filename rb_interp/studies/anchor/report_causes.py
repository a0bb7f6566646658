"""What the report says of interventions, each beside its control, of components, and of members of two circuits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rb_interp.claims.causal_checks import CheckedCause
from rb_interp.claims.learning_order import SMALL
from rb_interp.claims.verdict import Judged
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text, number, seeds_text, share_text, two_digits
from rb_interp.figures.style import SETS
from rb_interp.report.section import Block, Cell, Choice, Details, Figure, Heading, Paragraph, Row, Section, Table
from rb_interp.studies.anchor.figures.ablations import MAIN, METHODS, forward, in_words
from rb_interp.studies.anchor.figures.circuits import NOT_COMPARED, titled

UNITS = {
    "loss_increase": "nats lost",
    "accuracy_drop": "accuracy lost",
    "moved_as_predicted": "share of answers that become the predicted one (control: that change at all)",
}
Pairs = list[tuple[str, str, str]]
"""Claim, its outcome, and the outcome of its intervention."""


def causes(evidence: Evidence) -> Iterator[Block]:
    """Each mechanism's intervention beside its control, with the verdict on the intervention and the claim's own."""
    if not evidence.checks:
        yield Paragraph("No mechanism was tested by an intervention in this run; “rb-interp probe RUN” tests them.")
        return
    yield Paragraph(
        "A reading is a correlation. Below stands, for each mechanism, what ought to happen to the model if the "
        "mechanism did the work, as a criterion; a claim keeps its own verdict, whatever the intervention says. The "
        "criteria were fixed before any was read, but for M7's second, which was added because nats have no bound at "
        "the end of training. Here ✓ HOLDS means that the mechanism has passed, and ✗ FAILS that the intervention "
        "speaks against it."
    )
    yield from map(Paragraph, agreement(evidence))
    columns = ("Claim", *(f"γ = {gamma:g}" for gamma in evidence.gammas), "The intervention", "The claim")
    yield Table(columns, tuple(row for check in evidence.checks for row in _check_rows(evidence, check)))
    yield Paragraph(
        "Medians over seeds with their range. What is judged is taken for each seed first, so the median of a "
        "difference need not be the difference of two medians. The figure of causes has every seed; the patching "
        "matrices have what each component carries.",
        kind="soft",
    )


def _check_rows(evidence: Evidence, check: CheckedCause) -> Iterator[Row]:
    """Two rows: what is done, spanning all gammas, with both verdicts; and the numbers at each gamma."""
    unit, verdict = UNITS.get(check.quantity, check.quantity), check.verdict
    meeting = f"{verdict.n_meeting} of {verdict.n_seeds} meet it" + (f"; {verdict.reason}" if verdict.reason else "")
    notes = (
        f"Refuted if {check.refuted_if}.",
        *map(_decided, verdict.conditions),
        f"{unit[:1].upper()}{unit[1:]}, on {SETS.get(check.set, check.set)}:",
    )
    own = next((own for own in evidence.verdicts if own.id == check.of), None)
    done = f"{check.done[:1].upper()}{check.done[1:]}. Control: {check.control_done}."
    yield Row(
        (
            Cell(check.of, link=f"claim-{check.of}", head=True, rows=2),
            Cell(done, notes, columns=len(evidence.gammas), number=False),
            Cell(verdict=verdict.outcome, notes=(meeting,), rows=2),
            Cell(verdict=own.outcome, notes=("withheld",) if own.withheld else (), rows=2)
            if own
            else Cell("n/a", rows=2),
        )
    )
    found = {float(cell["gamma"]): cell for cell in check.by_gamma}
    yield Row(tuple(_gamma_cell(found.get(gamma, {})) for gamma in evidence.gammas))


def _decided(condition: Judged) -> str:
    """A condition with the number that it is judged on, which may be a difference of what the cells below show."""
    value = mean_text(condition.effect, condition.low, condition.high)
    met = f"{condition.n_meeting} of {seeds_text(condition.n_seeds)} meet it"
    return f"Judged: {condition.criterion}. It is {value}; {met}."


def _gamma_cell(cell: Mapping[str, Any]) -> Cell:
    if not cell.get("n_seeds"):
        return Cell("n/a", number=False)
    effect = mean_text(cell["effect"], cell["low"], cell["high"])
    control = mean_text(cell["control"], cell["control_low"], cell["control_high"])
    return Cell(effect, (f"control {control}", f"{cell['stage']}, {seeds_text(cell['n_seeds'])}"))


def mean_text(mean: float | None, low: float | None, high: float | None) -> str:
    """A number and its ends: two decimals, as fine as any threshold, and whole numbers for large ones.

    >>> mean_text(0.125, None, None), mean_text(1234.5, 1000.0, 1469.0)
    ('0.12', '1,234 [1,000, 1,469]')
    """
    values = [math.nan if value is None else float(value) for value in (mean, low, high)]
    large = any(abs(value) >= 100 for value in values if math.isfinite(value))
    return interval_text(*values) if large else share_text(*values)


def agreement(evidence: Evidence) -> list[str]:
    """Sentences that count where the verdicts on a claim and on its intervention differ."""
    own = {verdict.id: verdict.outcome for verdict in evidence.verdicts}
    return agreement_of([(c.of, own[c.of], c.verdict.outcome) for c in evidence.checks if c.of in own])


def agreement_of(pairs: Pairs) -> list[str]:
    """The sentences from claims, their outcomes, and those of their interventions.

    >>> agreement_of([("M1", "HOLDS", "FAILS")])[0]
    'Of 1 intervention on mechanisms, 0 decide as the claim does and 1 decides the opposite: M1 (the claim HOLDS, ...'
    """
    same, opposite, half, both = [], [], [], []
    for name, own, cause in pairs:
        undecided = sum(outcome not in ("HOLDS", "FAILS") for outcome in (own, cause))
        if undecided == 2:
            both.append(name)
            continue
        named = half if undecided else same if own == cause else opposite
        named.append(f"{name} (the claim {own}, the intervention {cause})")
    if not pairs:
        return []
    many = f"{len(pairs)} {'intervention' if len(pairs) == 1 else 'interventions'}"
    found = [f"Of {many} on mechanisms, {_decide(same, 'as the claim does')} and {_decide(opposite, 'the opposite')}."]
    found += [f"One of the two is not decided for {', '.join(half)}."] if half else []
    return [*found, f"Both are not decided for {', '.join(both)}."] if both else found


def _decide(named: list[str], how: str) -> str:
    verb = "decides" if len(named) == 1 else "decide"
    return f"{len(named)} {verb} {how}{': ' if named else ''}{', '.join(named)}"


def ablations(evidence: Evidence) -> Iterator[Block]:
    """Accuracy lost without each component, by method, set and gamma: median over seeds, control, accuracy before."""
    yield Heading("What each component contributes", id="ablations")
    place = ("component", "method", "set", "gamma", "quantity")
    means = {tuple(row[name] for name in place): row for row in evidence.records("ablations_summary", stage="final")}
    if not means:
        yield Paragraph("This run has no table “ablations_summary”; “rb-interp probe RUN” makes it.")
        return
    yield Paragraph(
        "Accuracy lost at the end of training without a component, of the accuracy before: median over seeds with the "
        "lowest and the highest. The control gives the component its own output on the same input with other noise."
    )
    components = sorted({str(key[0]) for key in means}, key=forward)
    columns = ("component", *(f"γ = {gamma:g}" for gamma in evidence.gammas))
    options = {}
    for method, words in METHODS.items():
        rows = [
            Row((Cell(label, head=True, colour=name), *(_ablation(means, c, method, name, g) for g in evidence.gammas)),
                group=in_words(c))
            for c in components
            for name, label in SETS.items()
        ]  # fmt: skip
        options[words] = Table(columns, tuple(rows))
    yield Choice("method", options)


def _ablation(means: Mapping[tuple, Mapping], component: str, method: str, set: str, gamma: float) -> Cell:
    lost, control, before = (
        means.get((component, of, set, gamma, quantity), {"median": None, "lowest": None, "highest": None, "n": 0})
        for of, quantity in ((method, "accuracy_drop"), (method, "control_accuracy_drop"), (MAIN, "before"))
    )
    if not lost["n"]:
        return Cell("n/a", number=False)
    texts = [mean_text(row["median"], row["lowest"], row["highest"]) for row in (lost, control, before)]
    return Cell(f"{texts[0]} of {texts[2].split(' ')[0]}", (f"control {texts[1]}",))


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
    columns = ("Rows", *(f"Within {a}" if a == b else f"{a} and {b}" for a, b in pairs), "Between less within", "p")
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
