"""What the report says of addition and commands: shares of right answers in the 2 x 2, and what either factor does."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import share_text, two_digits
from rb_interp.figures.panels import over_seeds, spread_of
from rb_interp.report.section import Block, Cell, Figure, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.studies.addition_and_scan.claims import LEARNED
from rb_interp.studies.addition_and_scan.config import HIGH, LARGE, LOW, SMALL, TASKS
from rb_interp.studies.addition_and_scan.contrasts import CONTRASTS, HELD_OUT
from rb_interp.studies.addition_and_scan.figures import CELLS, cell_text, task_text

MISSING = "This run has no readings of answers; “rb-interp probe RUN” makes them."
WORDS = {
    "both": "γ and weight decay together",
    "gamma_low_decay": f"γ alone, weight decay {LOW:g}",
    "gamma_high_decay": f"γ alone, weight decay {HIGH:g}",
    "decay_large_init": f"weight decay alone, γ = {LARGE:g}",
    "decay_small_init": f"weight decay alone, γ = {SMALL:g}",
}


def narrative(evidence: Evidence) -> Narrative:
    """Answer, warnings, and the section of the 2 x 2."""
    if not evidence.records("contrasts"):
        return Narrative((MISSING,))
    blocks: list[Block] = []
    for task in TASKS:
        blocks += [Heading(task_text(evidence, task).capitalize()), _shares(evidence, task)]
    blocks += [Heading("Either alone"), _contrasts(evidence), Figure("differences")]
    blocks.append(
        Paragraph("The share right is accuracy for addition, and exact match under greedy decoding for "
                  "commands. Each number is median [range] over seeds.", "soft")
    )  # fmt: skip
    section = Section("two-by-two", "Initialisation and weight decay", tuple(blocks), short="2 × 2")
    below = "; ".join(text for task in TASKS for text in _below(evidence, task))
    rows = "the rows that they were trained on, which the claims ask for"
    warnings = (f"Members below {two_digits(LEARNED)} on {rows}: {below}.",) if below else ()
    return Narrative(_answer(evidence), warnings, sections=(section,))


def _answer(evidence: Evidence) -> tuple[str, ...]:
    """One sentence a task: the contrast that is claimed, and what either factor does alone."""
    found = []
    for task in TASKS:
        texts = {name: _difference(evidence, task, name) for name in CONTRASTS}
        name = task_text(evidence, task)
        found.append(
            f"{name[0].upper()}{name[1:]}: on held-out rows γ = {SMALL:g} with weight decay {HIGH:g} is better than γ "
            f"= {LARGE:g} with {LOW:g} by {texts['both']} (median [range]). γ alone makes {texts['gamma_low_decay']} "
            f"at {LOW:g} and {texts['gamma_high_decay']} at {HIGH:g}. Weight decay alone makes "
            f"{texts['decay_large_init']} at γ = {LARGE:g} and {texts['decay_small_init']} at γ = {SMALL:g}."
        )
    return tuple(found)


def _difference(evidence: Evidence, task: str, name: str) -> str:
    rows = evidence.records("contrasts_summary", task=task, contrast=name)
    return share_text(*spread_of(rows[0])) if rows else "n/a"


def _below(evidence: Evidence, task: str) -> Iterator[str]:
    """How many members of each cell have not learned the rows that they were trained on."""
    for decay, gamma in CELLS:
        sweep = evidence.sweep(f"{task}_{decay}")
        values = [sweep.value("answers", "right", gamma, seed, stage="final", set="train") for seed in sweep.seeds]
        known = [value for value in values if math.isfinite(value)]
        low = sum(value < LEARNED for value in known)
        if low:
            yield f"{task_text(evidence, task)}, {cell_text(decay, gamma)}: {low} of {len(known)}"


def _shares(evidence: Evidence, task: str) -> Table:
    sets = (HELD_OUT[task], "seen_test", "train")
    rows = []
    for decay, gamma in CELLS:
        sweep = evidence.sweep(f"{task}_{decay}")
        cells = (Cell(over_seeds(sweep, "answers", "right", gamma, set=set, write=share_text)) for set in sets)
        rows.append(Row((Cell(cell_text(decay, gamma), head=True), *cells)))
    return Table(("share right", *sets), tuple(rows))


def _contrasts(evidence: Evidence) -> Table:
    rows = [
        Row((Cell(words, head=True), *(Cell(_difference(evidence, task, name)) for task in TASKS)))
        for name, words in WORDS.items()
    ]
    names = (task_text(evidence, task) for task in TASKS)
    return Table(("difference on held-out rows", *names), tuple(rows))


GLOSSARY: dict[str, str] = {
    "block": "Sums whose operands both lie in a range of their own, in the middle. None of them is trained.",
    "composites": (
        "Commands with the verb jump and at least one other word. In training jump occurs alone, in no other command."
    ),
    "seen_test": "Rows that are like those trained on and were not trained: other sums outside the block, other "
    "commands without jump.",
    "exact match": (
        "Share of commands whose whole sequence of actions is right, its end "
        "included, each token being the most likely one (greedy decoding)."
    ),
    "small, middle, large": "The three numbers of rows of commands that are trained on.",
    "low, high": f"The two weight decays, {LOW:g} and {HIGH:g}.",
    "contrast": (
        "A difference in the share of right answers on the held-out set between two members of the same seed. The "
        "claims change γ and weight decay together; the other contrasts change one of them."
    ),
}
