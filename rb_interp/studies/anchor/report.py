"""What the anchor study's report says: circuits, causes, how often probes mislead, what is learned first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text, number, seeds_text, share_text, two_digits
from rb_interp.interventions.circuit_names import CAUSE_RULES, SHARE_MIN
from rb_interp.report.glossary import shared
from rb_interp.report.section import Block, Cell, Details, Heading, Narrative, Paragraph, Row, Section, Table, Terms
from rb_interp.report.sections import bias_sentence, learning_order_section
from rb_interp.studies.anchor.circuits import RULES
from rb_interp.studies.anchor.error_rates import LEAST_TRUE_POSITIVE, MOST_FALSE_POSITIVE
from rb_interp.studies.anchor.report_causes import (
    ablations,
    agreement,
    causes,
    equivalence_section,
    equivalence_sentence,
)


def narrative(evidence: Evidence) -> Narrative:
    """The answer in short and the sections between verdicts and figures."""
    answer = (*bias_sentence(evidence), *_circuit_sentence(evidence), *equivalence_sentence(evidence))
    answer = (*answer, *agreement(evidence)[:1])
    blocks = (*causes(evidence), *ablations(evidence), *calibration(evidence))
    sections = (
        Section("circuits", "Which circuit, how often", tuple(circuits(evidence)), short="Circuits"),
        equivalence_section(evidence),
        Section("causes", "Causes", blocks),
        learning_order_section(evidence),
    )
    return Narrative(answer=answer, sections=sections)


def _circuit_sentence(evidence: Evidence) -> Iterator[str]:
    found = evidence.records("circuit_counts", gamma=SMALL, named_by="cause")
    if found:
        named = ", ".join(f"{row['circuit']} {row['n']}" for row in found if row["n"])
        yield f"Circuits at γ = {SMALL:g}, named by cause: {named} (of {seeds_text(found[0]['total'])})."


def circuits(evidence: Evidence) -> Iterator[Block]:
    """How often each circuit occurs at each gamma, how a circuit is named, and the numbers of each member."""
    if not evidence.records("circuit_counts"):
        yield Paragraph("No circuit was named in this run.")
    else:
        yield _counts(evidence, "cause")
        yield Paragraph(
            "Circuits named by cause: number of seeds, with the share of seeds and its 95 % interval "
            "(Clopper-Pearson). All that is grouped by circuit is grouped by this name.",
            kind="soft",
        )
        yield Heading("The names by attention")
        yield _counts(evidence, "attention")
        yield from _disagreement(evidence)
    yield Heading("How a circuit is named by cause")
    yield Terms(CAUSE_RULES)
    yield Heading("How a circuit is named by attention")
    yield Terms(RULES)
    members = evidence.records("circuits")
    if members:
        lines = [Row(tuple(Cell(_plain(name, value)) for name, value in row.items())) for row in members]
        yield Details("The numbers of each member", (Table(tuple(members[0]), tuple(lines)),))


def _counts(evidence: Evidence, named_by: str) -> Table:
    """Seeds of each circuit, one row a rate."""
    by_gamma: dict[float, list[Mapping[str, Any]]] = {}
    for row in evidence.records("circuit_counts", named_by=named_by):
        by_gamma.setdefault(row["gamma"], []).append(row)
    names = dict.fromkeys(row["circuit"] for rows in by_gamma.values() for row in rows)

    def cells(rows: list[Mapping[str, Any]]) -> Iterator[Cell]:
        return (Cell(str(row["n"]), notes=(interval_text(row["share"], row["low"], row["high"]),)) for row in rows)

    lines = [
        Row((Cell(f"{gamma:g}", head=True), *cells(rows), Cell(number(rows[0]["total"]))))
        for gamma, rows in by_gamma.items()
    ]
    return Table(("γ", *names, "seeds"), tuple(lines))


def _disagreement(evidence: Evidence) -> Iterator[Block]:
    rows = evidence.records("circuit_disagreement")
    if rows:
        texts = [
            f"{row['n']} of {row['total']} at γ = {row['gamma']:g} "
            f"({share_text(row['share'], row['low'], row['high'])})"
            for row in rows
        ]
        yield Paragraph(f"Seeds whose name by attention is not their name by cause: {'; '.join(texts)}.")


def _plain(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:g}" if name == "gamma" else number(value)


def calibration(evidence: Evidence) -> Iterator[Block]:
    """How often each probe misleads on models of this family whose mechanism is known."""
    known = evidence.meta.get("calibration")
    family, rates = (known.family, known.rates) if known else ("", ())
    yield Heading("How often the probes mislead", id="calibration")
    if not rates:
        named = f" ({family})" if family else ""
        yield Paragraph(f"This family of models{named} has no table of error rates: it is not calibrated.")
        yield from _on_trained_models(known.trained if known else ())
        return
    yield Paragraph(
        f"What each probe says of models of this family ({family}) whose mechanism is known: perturbed copies of "
        "hand-written models. Of untrained models, and of models trained on shuffled labels, the truth is not known; "
        "the table has the share for which the probe says yes."
    )
    columns = (
        *("Probe", "True-positive rate", "False-positive rate", "Area under ROC", "Worst with it", "Worst without it"),
        *("Untrained", "Shuffled labels", "Calibrated"),
    )
    yield Table(columns, tuple(_rates(row) for row in rates))
    yield Paragraph(
        "Rates with 95 % intervals (Clopper-Pearson). Worst: the hand-written model that has the mechanism (or has it "
        "not) and is misjudged most often, with the share of its copies of which the probe says yes.",
        kind="soft",
    )
    yield from _on_trained_models(known.trained if known else ())


def _on_trained_models(rates: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """The same on trained models, a table for itself: each row is one source of them."""
    if not rates:
        return
    yield Paragraph(
        "Trained models of this family, by source. interchange: training gave them a known route. decorative: the "
        "same, with the attention of another circuit. uniform: trained with L0's attention at exactly 1/i. gauge, "
        "silent head, split head: other weights of the same function, of which a probe should say what it says of the "
        "original."
    )
    columns = (
        *("Source", "Probe", "True-positive rate", "False-positive rate", "Worst with it", "Worst without it"),
        "Calibrated",
    )
    lines = [
        Row(
            (
                Cell(str(row["source"]), head=True),
                Cell(str(row["detector"])),
                _rate(row, "true_positive", row["n_positive"]),
                _rate(row, "false_positive", row["n_negative"]),
                _worst(row, "worst_positive", right=1),
                _worst(row, "worst_negative", right=0),
                Cell(badge="yes" if row["calibrated"] else "no", good=bool(row["calibrated"])),
            )
        )
        for row in rates
    ]
    yield Table(columns, tuple(lines))


def _rates(row: Mapping[str, Any]) -> Row:
    shares = (f"{row[name]:.2f}".replace("nan", "n/a") for name in ("auc", "untrained_rate", "label_shuffled_rate"))
    auc, untrained, shuffled = map(Cell, shares)
    return Row(
        (
            Cell(str(row["detector"]), head=True),
            _rate(row, "true_positive", row["n_positive"]),
            _rate(row, "false_positive", row["n_negative"]),
            auc,
            _worst(row, "worst_positive", right=1),
            _worst(row, "worst_negative", right=0),
            untrained,
            shuffled,
            Cell(badge="yes" if row["calibrated"] else "no", good=bool(row["calibrated"])),
        )
    )


def _rate(row: Mapping[str, Any], rate: str, n: int) -> Cell:
    if not n:
        return Cell("no such model", number=False)
    return Cell(share_text(*(row[f"{rate}_{end}"] for end in ("rate", "low", "high"))), notes=(f"of {n} models",))


def _worst(row: Mapping[str, Any], which: str, right: int) -> Cell:
    rate = row[f"{which}_rate"]
    if not row[which] or rate == right:
        return Cell("none misjudged" if row[which] else "n/a", number=False)
    return Cell(str(row[which]).replace("_", " "), notes=(f"{rate:.2f}",), number=False)


GLOSSARY: dict[str, str] = {
    "key, anchors, noise": (
        "A key stands immediately before its anchors, anywhere in the sequence; the other tokens are noise. The "
        "label depends on key and anchors alone."
    ),
    **shared("memory, reasoning"),
    "stages": (
        "init: step 0, the untrained model. half: the first evaluation at which the loss on rsn_train is at most "
        f"half of ln d_vocab (the last one where that never happens). matched: the step at which the γ = {SMALL:g} "
        "member of the same seed reaches half. final: the last step."
    ),
    **shared("B, B_test", "TV"),
    "u1, s1, s2": (
        "Leading left singular vector of L0's W_V (in the residual stream, x W_V) and its two largest singular values."
    ),
    "W_V W_O": (
        "What L0's head passes on of what it reads: its OV matrix. Other bases of the head's values give W_V another "
        "spectrum and another leading direction with the same logits, and leave W_V W_O as it is."
    ),
    "centred": (
        "Less the mean over all anchors and keys in use, so that a direction shared by all tokens does not count."
    ),
    "share of variance": (
        "How much of a component's output at the last position a grouping of inputs explains: omega squared, 1 at "
        "most, about 0 where it explains nothing."
    ),
    "effect, control": (
        "Effect: what an intervention on a model changes, mean over inputs. Control: an intervention of the same form "
        "and size that leaves the mechanism alone (a random direction, a noise token, the same input with other "
        "noise), and what that changes. An effect no larger than its control shows nothing."
    ),
    "nats lost, accuracy lost": (
        "Cross entropy of the right answer after an intervention less that before, in nats; accuracy before less that "
        "after. Negative: the model got better."
    ),
    "interchange": (
        "A component's output is taken from another input. If it carries the key (or the sum), the answer must become "
        "the one with the other input's key (or sum): the predicted answer."
    ),
    "ablation": (
        "A component's output is set to zero, to its mean over inputs, or to its value on another input (resample). "
        "What is lost shows what the component was needed for. It does not say what the component computes."
    ),
    "recovered": (
        "Share of the logit difference between two inputs that comes back when one component, at one role's positions, "
        "is taken from the other input: 0 none, 1 all. Below 0 or above 1 where other components undo or exceed it."
    ),
    "route, circuit by cause": (
        "Changing the key alone, or one anchor alone, changes the answer. A route is the positions at which the last "
        "layer has this change from; its share is what the answer's logit difference follows when the last layer sees "
        "the change there alone. A circuit's name by cause is the route that carries at least "
        f"{two_digits(SHARE_MIN)}; the name by attention, beside it, says where the model looks."
    ),
    "calibrated": (
        "Whether the error rates of the probe behind a claim have been measured on models whose mechanism is known and "
        f"are good enough: a true-positive rate of at least {two_digits(LEAST_TRUE_POSITIVE)} and a false-positive "
        f"rate of at most {two_digits(MOST_FALSE_POSITIVE)}. Where they are known and missed, the verdict is withheld "
        "(NOT JUDGED). Losses, contrasts and geometry need none."
    ),
    "true- and false-positive rate": (
        "Of perturbed copies of hand-written models: the share of those with the mechanism of which the probe says so, "
        "and of those without it of which it says so all the same. With Clopper-Pearson intervals."
    ),
}
