"""The short answer of the language study: Delta L, cosines beside the paper's, the control, skills, and what text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rb_interp.claims.language import PAPER_COSINES
from rb_interp.figures.evidence import LARGE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_course import changes_sign, course_text, first_evaluation
from rb_interp.figures.language_evidence import (
    about,
    by_rate,
    early_steps,
    names,
    never_early,
    reading_text,
    stand_ins,
    told,
)
from rb_interp.figures.language_skills import BY_NOT, by_hops, left_out, pooled, pooled_text, skill_table
from rb_interp.figures.panels import seed_interval

NO_CHAIN = 0.01
"""Below this share of right chains at every number of hops a model writes none."""
NEITHER = "G3's difference is not shown to be below 0, matched or not."
MATCHED_ONLY = "below 0 with the matched tokens alone; G3's own difference is not below 0."


def language_answer(evidence: Evidence) -> list[str]:
    """Sentences in the order of the claims, after what they cannot show; one whose numbers are missing is left out."""
    found = [
        _no_reasoning(evidence),
        _losses(evidence),
        _per_entropy(evidence),
        _rise(evidence),
        _cosines(evidence),
        _course(evidence),
    ]
    found += [_control(evidence), _skills(evidence), _text(evidence)]
    return [text for text in found if text]


def language_warnings(evidence: Evidence) -> list[str]:
    """What a reader must not overlook: templates, stand-ins, an early stage too late or too soon seen."""
    found = [
        "PrOntoQA is made from templates: a model that knows a few phrases by heart loses less on it than on any "
        "stories, with every initialisation. G1 alone therefore says little; what the paper claims of initialisation "
        "is the rise of ΔL with γ (G2)."
    ]
    if stand_ins(evidence):
        found.append(
            f"Not the paper's text: {' '.join(stand_ins(evidence))} Numbers on stories are not those of TinyStories "
            "and decide nothing about the paper's."
        )
    elif not about(evidence):
        found.append("This run does not say which text it has read.")
    late = [never_early(evidence, gamma) for gamma in evidence.gammas]
    return found + [text for text in (*late, first_evaluation(evidence)) if text]


def _no_reasoning(evidence: Evidence) -> str:
    """A sentence where no rate's answers are better than guessing and none writes a chain, else nothing."""
    read = False
    for gamma in evidence.gammas:
        try:
            answers, chains = pooled(evidence, gamma, "answer_two_way"), skill_table(evidence, gamma, "chain")
        except MissingEvidenceError:
            continue
        mean, low, _ = seed_interval(answers)
        if (low if np.isfinite(low) else mean) > BY_NOT or chains.mean(axis=1).max() >= NO_CHAIN:
            return ""
        read = True
    if not read:
        return ""
    question, chain = (told(evidence, "chain", f"loss_{part}", SMALL) for part in ("question", "chain"))
    losses = f" (nats per token at γ = {SMALL:g}, held out: {question} on questions, {chain} on chains of thought)"
    return (
        "No model here answers better than guessing or writes a chain of thought: at no γ does the 95 % interval of "
        "two-way answers lie above .53, which the query's “not” alone gives, and at every γ and number of hops fewer "
        "than 1 in 100 chains are right. A lower loss on PrOntoQA is that of its templates"
        f"{'' if 'n/a' in (question, chain) else losses} and says nothing of reasoning."
    )


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
    twin = evidence.twin("corpus_loss", "delta_loss_per_entropy", SMALL)
    untrained = f" (untrained: {twin:.2f})".replace("-", "−") if np.isfinite(twin) else ""
    return f"With each loss divided by its corpus's unigram entropy it is {delta}{untrained}."


def _rise(evidence: Evidence) -> str:
    """How much higher Delta L is at the small initialisation than at the large one, paired by seed."""
    try:
        small, large = (evidence.values("corpus_loss", "delta_loss", gamma) for gamma in (SMALL, LARGE))
    except MissingEvidenceError:
        return ""
    rise = (small - large).dropna()
    if not len(rise):
        return ""
    _, low, high = seed_interval(rise)
    text = f"From γ = {LARGE:g} to γ = {SMALL:g} ΔL changes by {reading_text(rise)}, paired by seed"
    if np.isfinite(low) and low > 0:
        return f"{text}: it rises, as the paper has it."
    if np.isfinite(high) and high < 0:
        return f"{text}: it falls, against the paper."
    return f"{text}, up in {int((rise > 0).sum())} of {len(rise)}."


def _cosines(evidence: Evidence) -> str:
    cos = {group: _early(evidence, f"cos_{group}") for group in PAPER_COSINES}
    if "n/a" in cos.values():
        return ""
    called, said = names(evidence), {group: f"{value:.3f}".lstrip("0") for group, value in PAPER_COSINES.items()}
    return (
        f"Early in training at γ = {SMALL:g} the mean cosine of embeddings is {cos['prontoqa']} between PrOntoQA "
        f"tokens (paper: {said['prontoqa']}) and {cos['stories']} between tokens of {called['stories']} (paper, "
        f"TinyStories: {said['stories']}), a difference of {_early(evidence, 'difference')} (G3){_beyond(evidence)}."
    )


def _beyond(evidence: Evidence) -> str:
    """In how many seeds the difference lies beyond two standard deviations of lists with permuted labels."""
    try:
        value, mean, sd = (
            evidence.values("token_similarity", "difference", SMALL, stage="early", column=column)
            for column in ("value", "null_mean", "null_sd")
        )
    except MissingEvidenceError:
        return ""
    beyond = ((value - mean).abs() > 2 * sd).sum()
    return (
        f"; in {beyond} of {len(value)} seeds it lies beyond two standard deviations of what tokens give whose corpora "
        "are permuted (intervals are over seeds, which share their tokens)"
    )


def _early(evidence: Evidence, quantity: str) -> str:
    return told(evidence, "token_similarity", quantity, SMALL, stage="early")


def _course(evidence: Evidence) -> str:
    """G3's difference at every kept step, and at which of them it is judged."""
    course, steps = course_text(evidence), sorted(set(early_steps(evidence, SMALL).values()))
    if not course:
        return ""
    first = "Its sign depends on the step. " if changes_sign(evidence) else ""
    at = f" (step {' or '.join(f'{step:,}' for step in steps)})" if steps else ""
    return (
        f"{first}Along training at γ = {SMALL:g} that difference is, {course}; the verdict on G3 is that of the stage "
        f"early{at}."
    )


def _control(evidence: Evidence) -> str:
    """Whether tokens of the stories that are as frequent as PrOntoQA's are as much alike as all of them."""
    try:
        raw = evidence.values("token_similarity", "difference", SMALL, stage="early")
    except MissingEvidenceError:
        return ""
    below = _is_below(raw)
    try:
        matched = evidence.values("token_similarity", "difference_control", SMALL, stage="early")
    except MissingEvidenceError:
        return "No frequency-matched control could be made" + (
            ", so how often tokens occur may account for the difference." if below else "."
        )
    text = (
        "With the stories' tokens matched to PrOntoQA's in frequency (mean |ln ratio| of matched counts "
        f"{_early(evidence, 'control_mismatch')}) the difference is {reading_text(matched)}"
    )
    if not below:
        return f"{text}: {NEITHER if not _is_below(matched) else MATCHED_ONLY}"
    _, low, high = seed_interval(matched)
    if np.isfinite(high) and high < 0:
        return f"{text}: frequency alone does not account for it."
    if np.isfinite(low) and low > 0:
        return f"{text}: it turns round, so frequency accounts for what G3 reads."
    return f"{text}: frequency may account for what G3 reads."


def _is_below(values: pd.Series) -> bool:
    """Whether the 95 % interval over seeds lies below 0."""
    high = seed_interval(values).high
    return bool(np.isfinite(high) and high < 0)


def _skills(evidence: Evidence) -> str:
    """Answers and chains by hops at the small initialisation, and over all hops at every rate."""
    answers, chains = (by_hops(evidence, SMALL, kind) for kind in ("answer_two_way", "chain"))
    if "not read" in (answers, chains):
        return ""
    every = "; ".join(
        f"{pooled_text(evidence, gamma, 'answer_two_way')} and {pooled_text(evidence, gamma, 'chain')} at γ = {gamma:g}"
        for gamma in evidence.gammas
    )
    return (
        f"On held-out PrOntoQA at γ = {SMALL:g} the model answers right, True against False after the right chain "
        f"(guessing: .50, by the “not” of the query: .53), with a share of {answers}; all steps of the chain are right "
        f"with a share of {chains}. "
        f"Answers and chains over all hops: {every}.{left_out(evidence)}"
    )


def _text(evidence: Evidence) -> str:
    """Where the stories come from, whether or not they stand in."""
    stories = about(evidence).get("stories")
    if not isinstance(stories, dict) or "stand_in" not in stories:
        return ""
    if stories["stand_in"]:
        return "The stories are not TinyStories here: a small story grammar stands in for them."
    return f"The stories are those of {str(stories.get('source') or 'TinyStories').removeprefix('stories from ')}."
