"""What the report says: the short answer, where theory and measurement agree and for how long, learning order."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rb_interp.claims.learning_order import LARGE, SMALL
from rb_interp.claims.verdict import Judged, Verdict
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, number, share_text, two_digits
from rb_interp.figures.panels import interval_of
from rb_interp.report.glossary import shared
from rb_interp.report.section import Cell, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.report.sections import bias_sentence, learning_order_section
from rb_interp.studies.emb_mlp.config import EARLY, LATE
from rb_interp.studies.emb_mlp.drift import AGREES
from rb_interp.studies.emb_mlp.figures.common import ADAPTIVE, SWEEPS, at_leaving, first_fall
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.anchor import PLATEAU

F = (
    "f is the share of a uniform guess's loss, ln d_vocab, that is left on rsn_train: 1 before anything is learned. "
    f"Learning begins (stage “leaving”) at the first evaluation with f < {two_digits(PLATEAU)}."
)
COLUMNS = {
    "r2": "R², each step",
    "r2_step_0": "R², step 0",
    "r2_population": "R², population",
    "r2_positions": "R², positions",
    "r2_permuted": "R², permuted",
    "cos": "cosine, each step",
}
LOST = two_digits(AGREES)
FALLS = {"r2": f"R² < {LOST} from", "cos": f"cosine < {LOST} from"}
NOTHING = number(None)


def narrative(evidence: Evidence) -> Narrative:
    """Answer and sections of the report."""
    sentences, adamw = theory_sentences(evidence), evidence.sweep("adamw")
    judged = (_permuted(evidence, "T1"), _permuted(evidence, "T4") + _last_position(evidence))
    answer = (*bias_sentence(adamw), F, _rates(evidence), *judged, *sentences[:1])
    sections = (theory_section(evidence, sentences), learning_order_section(adamw))
    return Narrative(answer=tuple(filter(None, answer)), sections=sections)


def _rates(evidence: Evidence) -> str:
    gammas = {words: evidence.sweep(name).gammas for name, words in SWEEPS.items()}
    few = "; ".join(
        f"{words}: {', '.join(f'{gamma:g}' for gamma in own)}"
        for words, own in gammas.items()
        if len(own) < len(evidence.gammas)
    )
    return f"Not every sweep has every γ. {few}." if few else ""


def _permuted(evidence: Evidence, claim: str) -> str:
    """Both conditions of T1 or T4, with their outcomes and how much the second could have been at most."""
    verdict: Verdict = evidence.verdicts[claim]
    r2, excess = verdict.conditions
    if r2.effect is None or excess.effect is None:
        return ""
    least, more = (evidence.threshold(claim, number) for number in (0, 1))
    text = (
        f"{claim} ({verdict.outcome}): R² is {_effect(r2, least)} (≥ {two_digits(least)}: {r2.outcome}), higher by "
        f"{_effect(excess, more)} than that of predictions permuted within kind (≥ {two_digits(more)}: "
        f"{excess.outcome}); medians and ranges over seeds."
    )
    if excess.outcome == "HOLDS":
        return text
    reached = r2.effect - excess.effect
    text += f" Permuted predictions already reach {reached:.3f}, so at most {1 - reached:.3f} can be gained"
    if 1 - reached >= more + 0.03:
        return f"{text}."
    nearly = reached <= 1 - more
    return f"{text}: {'the second condition asks for nearly all there is' if nearly else 'less than it asks for'}."


def _effect(judged: Judged, threshold: float) -> str:
    mean, low, high = (math.nan if end is None else end for end in (judged.effect, judged.low, judged.high))
    return near_text(mean, low, high, threshold)


def last_position(task: AnchorTask) -> tuple[float, float]:
    """Share of an anchor's occurrences at the last position, 1 / (q (L - q)), and what R² can be for a share of 1/L.

    An anchor is last where the key stands as late as it can (1 in L - q) and the anchor is the last of the q after it.

    >>> share, limit = last_position(AnchorTask(length=3))
    >>> round(share, 3), round(limit, 3)
    (0.5, 0.889)
    """
    share = 1 / (task.q * (task.length - task.q))
    return share, 1 - (1 - (1 / task.length) / share) ** 2


def _last_position(evidence: Evidence) -> str:
    """Why T4 does not hold: the share of occurrences at the last position is not that of Eqs. 10 and 11."""
    known = at_leaving(evidence, "one_layer", "r2_positions")
    if known == NOTHING or evidence.verdicts["T4"].outcome == "HOLDS":
        return ""
    task = evidence.sweep("one_layer").task
    share, limit = last_position(task)
    missing = abs(1 - 1 / (task.length * share))
    text = (
        f" Eqs. 10 and 11 take the share 1/L = {1 / task.length:.3f} of a token's occurrences to stand at the last "
        f"position, where the residual connection carries it to the output; for an anchor it is 1/(q(L − q)) = "
        f"{share:.3f} at q = {task.q}, L = {task.length}. Where that connection outweighs attention, the printed form "
        f"can reach 1 − {missing:.3f}² = {limit:.3f}; with the actual share R² is {known}."
    )
    return text.replace(" = ", "\u00a0=\u00a0")


def theory_sentences(evidence: Evidence) -> list[str]:
    """How well the theory predicts as learning begins, and where it stops, at the small initialisation, by sweep."""
    found = (_adaptive(evidence) if sweep == ADAPTIVE else _plain(evidence, sweep) for sweep in SWEEPS)
    return [text for text in found if text]


def _plain(evidence: Evidence, sweep: str) -> str:
    """R² with the weights of each step and with the initial ones: the first alone flatters the theory."""
    small, first, known = (at_leaving(evidence, sweep, name) for name in ("r2", "r2_step_0", "r2_positions"))
    if small == NOTHING:
        return ""
    text = (
        f"{_capital(SWEEPS[sweep])}: as learning begins, the theory's R² for the drift of the anchors is {small} at "
        f"γ = {SMALL:g} given the run's own weights of each step, and {first} with the initial weights throughout"
        f"{_at_large(evidence, sweep, 'r2')}."
    )
    text += _first_below(evidence, sweep, "each_step", "Given the weights of each step, R²")
    text += _first_below(evidence, sweep, "step_0", "With the initial weights R²")
    if known != NOTHING:
        text += f" With each token's position known too, R² as learning begins is {known}."
        text += _first_below(evidence, sweep, "positions", "It")
    return text


def _adaptive(evidence: Evidence) -> str:
    small, r2 = (at_leaving(evidence, ADAPTIVE, name) for name in ("cos", "r2"))
    if small == NOTHING:
        return ""
    return (
        f"{_capital(SWEEPS[ADAPTIVE])}: as learning begins, the cosine of predicted and measured drift of the anchors "
        f"is {small} at γ = {SMALL:g}{_at_large(evidence, ADAPTIVE, 'cos')}. The theory is not about AdamW, and its R² "
        f"({r2} at γ = {SMALL:g}) ignores how Adam scales every coordinate of the gradient, so only the cosine means "
        "something."
    )


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _at_large(evidence: Evidence, sweep: str, quantity: str) -> str:
    large = at_leaving(evidence, sweep, quantity, LARGE)
    return "" if large == NOTHING else f" (each step: {large} at γ = {LARGE:g})"


def _first_below(evidence: Evidence, sweep: str, prediction: str, subject: str) -> str:
    """Where agreement ends; says so where it was below from the first kept step."""
    fall = first_fall(evidence, sweep, SMALL, prediction)
    if fall == NOTHING:
        return ""
    if fall.startswith("never"):
        return f" {subject} is never below {LOST}."
    if fall.startswith("first kept step, "):
        at = fall.removeprefix("first kept step, ")
        from_there = f"at the first kept step, {at}" if f", {LOST}" in at else f"from the first kept step on, {at}"
        return f" {subject} is below {LOST} {from_there}."
    return f" {subject} first falls below {LOST} at {fall}, in the median of the seeds."


def theory_section(evidence: Evidence, sentences: list[str]) -> Section:
    """Agreement at ``leaving`` and where it ends, by sweep and rate; exponents of Eq. 13 by rate."""
    blocks = (
        *map(Paragraph, sentences),
        Table(("γ", *COLUMNS.values(), *FALLS.values()), tuple(_rows(evidence)), dense=True),
        Paragraph(
            "Drift of all anchors, centred over them. R² and cosine at the stage “leaving”: means over seeds with 95 % "
            f"intervals (Student t). Steps and f: medians of the seeds in which agreement is below {LOST}, at the "
            "first "
            "kept step at which it is; “first kept step” where it was so from the start, so that no fall was seen.",
            "soft",
        ),
        Heading("Exponents of Eq. 13"),
        _exponents(evidence),
        Paragraph("Eq. 13 bounds the error of inner products from above: a smaller exponent agrees with it.", "soft"),
    )
    return Section("theory", "Where the theory holds", blocks, "Theory")


def _rows(evidence: Evidence) -> Iterator[Row]:
    for sweep, words in SWEEPS.items():
        for gamma in evidence.sweep(sweep).gammas:
            cells = [_split(at_leaving(evidence, sweep, quantity, gamma), " [") for quantity in COLUMNS]
            falls = [_split(first_fall(evidence, sweep, gamma, metric=m), " (", False) for m in FALLS]
            place = Cell(f"{gamma:g}", head=True)
            yield Row((place, *cells, *falls), _capital(words), note_of(evidence, sweep))


def note_of(evidence: Evidence, sweep: str) -> str:
    """What a reader of a sweep's rows must know: the rates that it lacks, and what AdamW does to R²."""
    n, every = len(evidence.sweep(sweep).gammas), len(evidence.gammas)
    few = [f"trained at {n} of the study's {every} rates"] if n < every else []
    scaled = ["R² ignores how Adam scales every coordinate, so only the cosine means something"]
    return "; ".join(few + (scaled if sweep == ADAPTIVE else []))


def _split(text: str, at: str, number: bool = True) -> Cell:
    """A cell with what follows ``at`` below its main line."""
    main, mark, rest = text.partition(at)
    return Cell(main, notes=(f"{mark.strip()}{rest}",) if mark else (), number=number)


def _exponents(evidence: Evidence) -> Table:
    table = evidence.table("exponents_summary").sort_values("gamma")
    measured = [_split(share_text(*interval_of(row)), " [") for row in table.to_dict("records")]
    bounds = [Cell(f"{bound:.2f}") for bound in table["predicted"]]
    rows = (
        Row((Cell("exponent of d_model, measured", head=True), *measured)),
        Row((Cell("at most, by Eq. 13 (1 − γ)", head=True), *bounds)),
    )
    return Table(("γ", *(f"{gamma:g}" for gamma in table["gamma"])), rows)


GLOSSARY: dict[str, str] = {
    **shared("memory, reasoning", "B, B_test"),
    "sweeps": (
        "adamw: Emb-MLP trained with AdamW. descent: Emb-MLP trained with plain gradient descent. one_layer: the "
        "one-layer model trained with plain gradient descent. All have the same seeds."
    ),
    "key, anchors": "An input is a key followed by its anchors, without noise. The label depends on all of them.",
    "Emb-MLP": (
        "The embeddings of all tokens are summed and go through one hidden layer (Definition 1): no attention, no "
        "positions, so the order of tokens cannot be seen."
    ),
    "one-layer model": (
        "One layer of attention and MLP with residual connections, without LayerNorm, positions and unembedding: the "
        "residual stream is as wide as the vocabulary and is the output (Definition 2, Eq. 9)."
    ),
    "plain gradient descent": (
        "Every step uses all training rows and moves each weight by learning rate times gradient: no momentum, no "
        "rescaling as in AdamW, no clipping, no weight decay. The theory is about this."
    ),
    "f": (
        "Share of the loss that is left: the loss on rsn_train over ln d_vocab, the loss of a uniform guess, at most 1."
    ),
    "stages": (
        f"init: step 0, the untrained model. leaving: the first evaluation with f < {two_digits(PLATEAU)}, where "
        "learning "
        f"begins (the last one where that never happens). early, late: {100 * EARLY:g} % and {100 * LATE:g} % of the "
        "steps. half: the first evaluation with f at most one half. final: the last step."
    ),
    "u, P^s, r_s": (
        "u = 1/d_vocab. P^s: how often each label stands beside token s. r_s: how often s occurs per training row; a "
        "token that stands twice in a row counts twice."
    ),
    "drift": (
        "How far a token's embedding has moved since step 0. Predicted: learning rate times the sum over steps of r_s "
        "(P^s − u) W, where W is the product of the transposed weights behind the embedding (Eqs. 5, 10 and 11)."
    ),
    "each step, step 0, population": (
        "Three predictions of the drift. Each step: with the weights W as they are at each step, and P^s counted in "
        "the training rows. Step 0: W stays as it was drawn, so nothing of the training is used. Population: P^s as "
        "Eqs. 7 and 8 have it for infinitely many rows."
    ),
    "positions": (
        "For the one-layer model: as each step, and it also knows how often each token stands at the last position, "
        "where the residual connection carries it."
    ),
    "R², cosine": (
        "Of predicted and measured drift, over all tokens of a group and all coordinates, centred over the group. R² "
        "is 1 where they are equal, 0 where every token is given the group's mean drift, and has no lower bound. The "
        "cosine forgives a wrong length."
    ),
    "permuted": (
        "Mean R² of predictions exchanged among memory anchors and among reasoning anchors: what is known of a kind "
        "as a whole. Only what exceeds it is about single tokens."
    ),
}
