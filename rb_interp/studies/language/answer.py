"""The short answer of the language study: Delta L, cosines beside the paper's, the control, skills, and what text."""

from __future__ import annotations

import math
from typing import Any

from rb_interp.claims.learning_order import LARGE, SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import interval_of
from rb_interp.studies.language.claims import PAPER_COSINES
from rb_interp.studies.language.words import (
    MATCHED,
    by_hops,
    by_rate,
    corpora,
    cosine_text,
    course_text,
    early_steps,
    left_out,
    mean_text,
    names,
    never_early,
    paper_cosines,
    pooled_text,
    reading_text,
    skill,
    stand_ins,
    with_tokens,
)

BY_CHANCE, BY_NOT = 0.50, 0.53
"""Share of two-way answers that are right by guessing, and by the query's "not" alone."""
MATCHES = (
    ("the stories' tokens matched to PrOntoQA's", "control_mismatch"),
    ("PrOntoQA's matched to the stories'", "counterpart_mismatch"),
)
NO_CHAIN = 0.01
"""Below this share of right chains at every number of hops a model writes none."""


def answer(evidence: Evidence) -> tuple[str, ...]:
    """Sentences in the order of the claims, after what they cannot show; one whose numbers are missing is left out."""
    parts = (_no_reasoning, _losses, _per_entropy, _rise, _cosines, _course, _control, _skills, _text)
    return tuple(text for part in parts if (text := part(evidence)))


def warnings(evidence: Evidence) -> tuple[str, ...]:
    """What a reader must not overlook: templates, stand-ins, an early stage too late or too soon seen."""
    found = [
        "PrOntoQA is made from templates: a model that knows a few phrases by heart loses less on it than on any "
        "stories, with every initialisation. G1 alone therefore says little; what the paper claims of initialisation "
        "is the rise of ΔL with γ (G2)."
    ]
    if stand_ins(evidence):
        found.append(
            f"Not the paper's text: {stand_ins(evidence)} Numbers on stories are not those of TinyStories "
            "and decide nothing about the paper's."
        )
    elif not corpora(evidence):
        found.append("This run does not say which text it has read.")
    late = [never_early(evidence, gamma) for gamma in evidence.gammas]
    return tuple(text for text in (*found, *late, _first_evaluation(evidence)) if text)


def _first_evaluation(evidence: Evidence) -> str:
    """A sentence where ``early`` is the first evaluation after step 0 in most members, else nothing."""
    for row in evidence.records("early")[:1]:
        if 2 * row["all_at_first"] > row["all"]:
            return (
                f"“early” is the first evaluation (step {row['first']:,.0f}) in {row['all_at_first']:g} of "
                f"{row['all']:g} members; evaluations are too far apart to see it better."
            )
    return ""


def _no_reasoning(evidence: Evidence) -> str:
    """A sentence where no rate's answers are better than guessing and none writes a chain, else nothing."""
    skills = [[skill(evidence, gamma, kind) for kind in ("answer_two_way", "chain")] for gamma in evidence.gammas]
    learned = [_reasons(answers, chains) for answers, chains in skills if answers and chains]
    if any(learned) or not learned:
        return ""
    question, chain = (reading_text(evidence, "chain", f"loss_{part}") for part in ("question", "chain"))
    losses = f" (nats per token at γ = {SMALL:g}, held out: {question} on questions, {chain} on chains of thought)"
    return (
        "No model here answers better than guessing or writes a chain of thought: at no γ does the 95 % interval of "
        f"two-way answers lie above {two_digits(BY_NOT)}, which the query's “not” alone gives, and at every γ and "
        f"number of hops fewer than 1 in {1 / NO_CHAIN:g} chains are right. A lower loss on PrOntoQA is that of its "
        "templates"
        f"{'' if 'n/a' in (question, chain) else losses} and says nothing of reasoning."
    )


def _reasons(answers: list[dict], chains: list[dict]) -> bool:
    low = answers[0]["low"] if math.isfinite(answers[0]["low"]) else answers[0]["mean"]
    return low > BY_NOT or any(row["mean"] >= NO_CHAIN for row in chains[1:])


def _losses(evidence: Evidence) -> str:
    delta = by_rate(evidence, "corpus_loss", "delta_loss")
    if delta == "not read":
        return ""
    return (
        f"ΔL, the mean over training of (L_stories − L_PrOntoQA) / L_PrOntoQA, is {delta}; on held-out text "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss_test')}. 0 is no difference, 1 twice the loss."
    )


def _per_entropy(evidence: Evidence) -> str:
    delta = by_rate(evidence, "corpus_loss", "delta_loss_per_entropy")
    if delta == "not read":
        return ""
    untrained = evidence.untrained("corpus_loss", "delta_loss_per_entropy", SMALL)
    before = f" (untrained: {untrained:.2f})".replace("-", "−") if math.isfinite(untrained) else ""
    return f"With each loss divided by its corpus's unigram entropy it is {delta}{before}."


def _rise(evidence: Evidence) -> str:
    """How much higher Delta L is at the small initialisation than at the large one, paired by seed."""
    row = _paired(evidence, "rise")
    if row is None:
        return ""
    return (
        f"From γ = {LARGE:g} to γ = {SMALL:g} ΔL changes by {mean_text(*interval_of(row))}, paired by seed, up in "
        f"{row['count']:g} of {row['n']:g}."
    )


def _paired(evidence: Evidence, what: str) -> dict[str, Any] | None:
    """A comparison within each seed, a row of the table ``paired``; None where no seed has it."""
    return next((row for row in evidence.records("paired", what=what) if row["n"]), None)


def _cosines(evidence: Evidence) -> str:
    cos = {group: cosine_text(evidence, f"cos_{group}") for group in PAPER_COSINES}
    if "n/a" in cos.values():
        return ""
    difference = with_tokens(evidence, "difference")
    called, paper = names(evidence), paper_cosines()
    return (
        f"Early in training at γ = {SMALL:g} the mean cosine of embeddings is {cos['prontoqa']} between PrOntoQA "
        f"tokens (paper: {paper['prontoqa']}) and {cos['stories']} between tokens of {called['stories']} "
        f"(paper, TinyStories: {paper['stories']}), a difference of {difference} (G3){_beyond(evidence)}."
    )


def _beyond(evidence: Evidence) -> str:
    """In how many seeds the difference lies beyond two standard deviations of lists with permuted labels."""
    row = _paired(evidence, "beyond")
    if row is None:
        return ""
    return (
        f"; in {row['count']:g} of {row['n']:g} seeds it lies beyond two standard deviations of what tokens give whose "
        "corpora are permuted"
    )


def _course(evidence: Evidence) -> str:
    """G3's difference at every kept step, and at which of them it is judged."""
    course, steps = course_text(evidence), sorted(set(early_steps(evidence, SMALL)))
    if not course:
        return ""
    at = f" (step {' or '.join(f'{step:,}' for step in steps)})" if steps else ""
    return (
        f"Along training at γ = {SMALL:g} that difference is, {course}; the verdict on G3 is that of the stage "
        f"early{at}."
    )


def _control(evidence: Evidence) -> str:
    """The difference among tokens alike in frequency, in both directions, and what it does not speak of."""
    raw = evidence.interval("token_similarity", "difference", SMALL, stage="early")
    matched = {name: evidence.interval("token_similarity", name, SMALL, stage="early") for name in MATCHED}
    if not math.isfinite(raw.estimate):
        return ""
    if not any(math.isfinite(each.estimate) for each in matched.values()):
        return "No tokens of equal frequency could be compared."
    texts = [
        f"{with_tokens(evidence, name)} with {what} (mean |ln ratio| of counts {cosine_text(evidence, mismatch)})"
        for (name, each), (what, mismatch) in zip(matched.items(), MATCHES, strict=True)
        if math.isfinite(each.estimate)
    ]
    within, every = (cosine_text(evidence, name) for name in ("n_in_range", "n_stories"))
    unmatched = (
        ""
        if "n/a" in (within, every)
        else (
            f" Only {within} of the {every} typical tokens of the stories are as frequent as PrOntoQA's; on the others "
            "neither direction says anything."
        )
    )
    return f"Among tokens of equal frequency the difference is {' and '.join(texts)}.{unmatched}"


def _skills(evidence: Evidence) -> str:
    """Answers and chains by hops at the small initialisation, and over all hops at every rate."""
    answers, chains = (by_hops(evidence, kind) for kind in ("answer_two_way", "chain"))
    if "not read" in (answers, chains):
        return ""
    every = "; ".join(
        f"{pooled_text(evidence, gamma, 'answer_two_way')} and {pooled_text(evidence, gamma, 'chain')} at γ = {gamma:g}"
        for gamma in evidence.gammas
    )
    return (
        f"On held-out PrOntoQA at γ = {SMALL:g} the model answers right, True against False after the right chain "
        f"(guessing: {two_digits(BY_CHANCE)}, by the “not” of the query: {two_digits(BY_NOT)}), with a share of "
        f"{answers}; all steps of the chain are right with a share of {chains}. "
        f"Answers and chains over all hops: {every}.{left_out(evidence)}"
    )


def _text(evidence: Evidence) -> str:
    """Where the stories come from, whether or not they stand in."""
    stories = corpora(evidence).get("stories")
    if stories is None:
        return ""
    if stories["stand_in"]:
        return "The stories are not TinyStories here: a small story grammar stands in for them."
    return f"The stories are those of {(stories['source'] or 'TinyStories').removeprefix('stories from ')}."
