"""What a report says of language: Delta L, cosines of token embeddings and skills by rate, and which text was read."""

from __future__ import annotations

from collections.abc import Iterator

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, two_digits
from rb_interp.probes.token_typing import MIN_COUNT, MIN_RATIO
from rb_interp.report.glossary import shared
from rb_interp.report.section import Block, Cell, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.studies.language.answer import BY_CHANCE, answer, warnings
from rb_interp.studies.language.claims import PAPER_COSINES
from rb_interp.studies.language.words import (
    EARLY,
    KINDS,
    corpora,
    cosine_text,
    entropies,
    first_row_text,
    hops_text,
    names,
    reading_text,
    skill,
    tokens_text,
    untrained_text,
)

LOSSES = {
    "corpus_loss": {
        "delta_loss": "ΔL, mean over training",
        "delta_loss_test": "ΔL on held-out text, mean over training",
        "delta_loss_per_entropy": "ΔL per unigram entropy, mean over training",
        "delta_loss_per_entropy_test": "ΔL per unigram entropy on held-out text, mean over training",
        "delta_final": "ΔL at the last evaluation",
        "early_step": "step of the stage “early”",
        "loss_prontoqa_train": "final loss on {prontoqa}, trained on (nats per token)",
        "loss_stories_train": "final loss on {stories}, trained on (nats per token)",
        "loss_prontoqa_test": "final loss on {prontoqa}, held out (nats per token)",
        "loss_stories_test": "final loss on {stories}, held out (nats per token)",
    },
    "chain": {
        "loss_question": (
            "final loss on held-out questions of PrOntoQA, whose rules are drawn at random (nats per token)"
        ),
        "loss_chain": "final loss on their chains of thought (nats per token)",
        "loss_answer": "final loss on their answers (nats per token)",
    },
}
COSINES = {
    "cos_prontoqa": "mean cos between PrOntoQA tokens",
    "cos_stories": "mean cos between tokens of the stories",
    "cos_control": "mean cos between tokens of the stories, matched to PrOntoQA's in frequency",
    "cos_in_range": "mean cos between tokens of the stories that are as frequent as PrOntoQA's",
    "cos_counterpart": "mean cos between PrOntoQA tokens, matched to these in frequency",
    "difference": "PrOntoQA − stories",
    "difference_control": "PrOntoQA − stories, the stories' matched to PrOntoQA's",
    "difference_counterpart": "PrOntoQA − stories, PrOntoQA's matched to the stories'",
    "difference_centred": "PrOntoQA − stories, embeddings centred",
    "difference_control_centred": "PrOntoQA − stories, the stories' matched, embeddings centred",
    "difference_counterpart_centred": "PrOntoQA − stories, PrOntoQA's matched, embeddings centred",
    "n_prontoqa": "typical tokens of PrOntoQA",
    "n_stories": "typical tokens of the stories",
    "n_in_range": "of these, as frequent as PrOntoQA's",
    "n_counterpart": "PrOntoQA tokens matched to these, effective number",
    "control_mismatch": "mean |ln ratio| of counts, the stories' matched",
    "counterpart_mismatch": "mean |ln ratio| of counts, PrOntoQA's matched",
}
PREDICTED = {"prontoqa": "PrOntoQA tokens", "stories": "tokens of the stories", "all": "all pairs"}
MISSING = "This study has no readings of losses and embeddings; “rb-interp probe RUN” makes them."


def narrative(evidence: Evidence) -> Narrative:
    """Answer, warnings, and the section with what was read and every number by rate."""
    blocks = (*_corpora(evidence), *_tables(evidence))
    section = Section("language", "Losses, embeddings and skills", blocks, short="Language")
    return Narrative(answer(evidence), warnings(evidence), (section,))


def _corpora(evidence: Evidence) -> Iterator[Block]:
    """What was read: name, source in words, documents, tokens and unigram entropy of each corpus."""
    called, known, rows = names(evidence), entropies(evidence), []
    for corpus, provenance in corpora(evidence).items():
        counts = [Cell(number(provenance[what])) for what in ("documents", "tokens")]
        source, entropy = Cell(provenance["source"], number=False), Cell(f"{known[corpus]:.2f}")
        rows.append(Row((Cell(called[corpus], head=True), source, *counts, entropy)))
    if rows:
        yield Table(("text", "source", "documents", "tokens", "unigram entropy (nats)"), tuple(rows))


def _tables(evidence: Evidence) -> Iterator[Block]:
    """A heading and a table by rate for losses, cosines, rank correlations and skills, as far as they were read."""
    rates = tuple(f"γ = {gamma:g}" for gamma in evidence.gammas)
    read = False
    for title, rows in _rows(evidence).items():
        rows = tuple(row for row in rows if any(cell.text != "n/a" for cell in row.cells[1 : 1 + len(rates)]))
        if rows:
            read = True
            paper = (f"paper, γ = {SMALL:g}",) if "Cosines" in title else ()
            yield Heading(title)
            yield Table(("mean over seeds [95 % interval]", *rates, *paper), rows)
    if not read:
        yield Paragraph(MISSING)


def _rows(evidence: Evidence) -> dict[str, list[Row]]:
    called = names(evidence)
    return {
        "Losses": [
            _row(evidence, probe, quantity, label.format(**called))
            for probe, labels in LOSSES.items()
            for quantity, label in labels.items()
        ],
        "Cosines of token embeddings, early in training": [
            _cosine(evidence, quantity, label) for quantity, label in COSINES.items()
        ],
        "Rank correlation of cos(P^s − u, P^s' − u) with the cosine of embeddings": [
            _row(evidence, "next_token", f"spearman_{group}", f"{label}, {stage}", stage)
            for group, label in PREDICTED.items()
            for stage in ("early", "final")
        ],
        "Held-out PrOntoQA at the last step, share right": list(_skills(evidence)),
    }


def _row(evidence: Evidence, probe: str, quantity: str, label: str, stage: str = "final") -> Row:
    cells = (Cell(reading_text(evidence, probe, quantity, gamma, stage=stage)) for gamma in evidence.gammas)
    return Row((Cell(label, head=True), *cells))


def _cosine(evidence: Evidence, quantity: str, label: str) -> Row:
    """A row of cosines: over seeds, over tokens, the paper's number, and the untrained model's where centred."""
    cells = []
    for gamma in evidence.gammas:
        text = cosine_text(evidence, quantity, gamma)
        untrained = untrained_text(evidence, quantity, gamma) if quantity.endswith("_centred") else ""
        notes = (tokens_text(evidence, quantity, gamma), untrained) if text != "n/a" else ()
        cells.append(Cell(text, notes=tuple(filter(None, notes))))
    paper = PAPER_COSINES.get(quantity.removeprefix("cos_"))
    return Row((Cell(label, head=True), *cells, Cell(f"{paper:.3f}" if paper else "")))


def _skills(evidence: Evidence) -> Iterator[Row]:
    """Rows by kind: over all hops, and for answers and chains by number of hops."""
    for kind, words in KINDS.items():
        rates = [skill(evidence, gamma, kind) for gamma in evidence.gammas]
        for hops in sorted({row["hops"] for rows in rates for row in rows}):
            if hops and kind not in ("answer_two_way", "chain"):
                continue
            texts = (first_row_text([row for row in rows if row["hops"] == hops]) for rows in rates)
            label = f"{words}, {hops_text(hops) if hops else 'all hops'}"
            yield Row((Cell(label, head=True), *map(Cell, texts)))


GLOSSARY: dict[str, str] = {
    "PrOntoQA, TinyStories": (
        "PrOntoQA: questions about made-up kinds of things, each answered by a written chain of deductions and then by "
        "True or False; n hops are n deductions. TinyStories: short stories in a child's words. One model learns "
        "both, mixed 1:1, by predicting each next token."
    ),
    "seed, member": (
        "A seed fixes the text, order of batches and the standard normal draws, for all γ alike. A member is one "
        "model: one γ and one seed."
    ),
    "ΔL": (
        "(L_stories − L_PrOntoQA) / L_PrOntoQA, where L is the loss in nats per token: 0 where both are equal, 1 where "
        "stories cost twice as much. The claims are about its mean over all evaluations, on text trained on."
    ),
    "unigram entropy": (
        "What a model that knows only how often each token occurs would lose on a corpus, in nats per token. With each "
        "loss divided by it, how varied the words are no longer counts; that phrases repeat still does."
    ),
    "stages": (f"init: step 0, the untrained model. {EARLY}. final: the last step."),
    "typical, matched": (
        f"A token is typical of a corpus with at least {MIN_COUNT} occurrences there and a smoothed frequency at least "
        f"{MIN_RATIO:g} times "
        "that in the other. Matched, in two directions, since an embedding moves the more, the more often its token "
        "occurs: for each typical token of PrOntoQA another one of the stories, alike in frequency, each used once; "
        "and for each typical token of the stories that is as frequent as PrOntoQA's the nearest of PrOntoQA's, which "
        "may serve several times. Most of the stories' are rarer than all of PrOntoQA's and have no match."
    ),
    "interval over tokens": (
        "Tokens of one model are drawn anew, with replacement, and the number is taken again: 95 % of the draws lie "
        "between its ends, which are means over seeds. It says how far other tokens of the same kind would move the "
        "number. The interval over seeds holds the tokens fixed, which seeds share for the most part."
    ),
    "centred": "Less the mean of both corpora's typical tokens, so that a direction shared by all does not count.",
    "P^s, u": "P^s: how often each token follows token s in the training text. u: the uniform distribution.",
    **shared("TV"),
    "answer, step, chain": (
        "Each is asked with the right text before it. A step of a chain is right where each of its tokens is the "
        "model's likeliest; a chain where all its steps are. An answer counts among all tokens, or True against False "
        f"alone, where guessing gives {two_digits(BY_CHANCE)}."
    ),
}
