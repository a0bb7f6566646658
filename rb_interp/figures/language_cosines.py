"""Fig. 7B of paper 1: cosines among the embeddings of each corpus's tokens, early in training."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.language import PAPER_COSINES
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import EARLY, claims_gamma, names, never_early, stand_in_note, told
from rb_interp.figures.panels import Caption, heat_map, try_panel
from rb_interp.figures.style import new_figure, styled

GROUPS = ("prontoqa", "stories", "control")
NAMED = 20
"""How many tokens the lower panels show, with their texts."""
LONGEST = 9


def group_names(evidence: Evidence) -> dict[str, str]:
    """What each list of tokens is called."""
    called = names(evidence)
    return {**called, "control": f"{called['stories']}, matched in frequency"}


@styled
def draw_token_cosines(evidence: Evidence) -> Figure:
    """Cosine matrices of PrOntoQA's, TinyStories' and frequency-matched tokens, all shown and the most frequent."""
    figure = new_figure(4.9)
    panels = figure.subplots(2, len(GROUPS))
    for column, (group, name) in zip(panels.T, group_names(evidence).items(), strict=True):
        try_panel(column[0], _matrix, evidence, group)
        try_panel(column[1], _named, evidence, group)
        mean = told(evidence, "token_similarity", f"cos_{group}", _gamma(evidence), stage="early")
        title = name.replace(", ", ",\n") if group == "control" else f"{name}\n"
        column[0].set_title(f"{title.rstrip()}\nmean cos {mean}")
    images = [axes.images[0] for axes in panels.ravel() if axes.images]
    if images:
        figure.colorbar(images[0], ax=panels.ravel().tolist(), label="cosine", shrink=0.5, aspect=30)
    return figure


def _gamma(evidence: Evidence) -> float:
    return claims_gamma(evidence, SMALL) if evidence.gammas else SMALL


def matrix_of(evidence: Evidence, group: str) -> tuple[int, np.ndarray, np.ndarray]:
    """Seed, cosines and token ids of a list at the stage ``early``, most frequent first.

    Raises MissingEvidenceError where there is none, or the list is empty (no control can be matched).
    """
    seed, matrix = evidence.first("token_similarity", f"cos_{group}_matrix", _gamma(evidence), stage="early")
    _, tokens = evidence.first("token_similarity", f"tokens_{group}", _gamma(evidence), stage="early")
    if not len(matrix):
        raise MissingEvidenceError(
            "The stories have fewer typical tokens than PrOntoQA, so none can be matched to each in frequency."
            if group == "control"
            else "No token of this corpus is typical of it."
        )
    return seed, matrix, tokens


def _matrix(axes: Axes, evidence: Evidence, group: str) -> None:
    _, matrix, _ = matrix_of(evidence, group)
    heat_map(axes, matrix)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(f"the {len(matrix)} most frequent typical tokens", labelpad=3)


def _named(axes: Axes, evidence: Evidence, group: str) -> None:
    seed, matrix, tokens = matrix_of(evidence, group)
    texts = token_texts(evidence, seed)
    shown = [texts.get(int(token), str(token)) for token in tokens[:NAMED]]
    heat_map(axes, matrix[:NAMED, :NAMED], shown)
    axes.tick_params(axis="x", labelrotation=90, labelsize=5.5, pad=1)
    axes.tick_params(axis="y", labelsize=5.5, pad=1)


def token_texts(evidence: Evidence, seed: int) -> dict[int, str]:
    """Token id -> its text as shown, from the table of tokens; empty where the run has no such table."""
    try:
        table = evidence.table("tokens")
    except MissingEvidenceError:
        return {}
    here = table.loc[table["seed"] == seed]
    return {int(token): as_shown(str(text)) for token, text in zip(here["token"], here["text"], strict=True)}


def as_shown(text: str) -> str:
    """A token's text with its spaces visible, nine characters at most, and no mathematics.

    >>> as_shown(" every"), as_shown("$1"), as_shown(" mathematician"), as_shown(chr(10))
    ('·every', '\\\\$1', '·mathema…', '⏎')
    """
    text = text.replace(" ", "·").replace("\n", "⏎").replace("\t", "→")
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.replace("$", r"\$")


def caption_token_cosines(evidence: Evidence) -> Caption:
    """Caption of the cosine matrices, with the paper's two numbers beside this run's."""
    gamma, called = _gamma(evidence), names(evidence)

    def mean(group: str) -> str:
        return told(evidence, "token_similarity", f"cos_{group}", gamma, stage="early")

    late = never_early(evidence, gamma)
    return Caption(
        f"Cosines of token embeddings at γ = {gamma:g}, early in training, lowest seed; most frequent tokens first, "
        "below the leading ones with their texts (a dot is a space). A token is typical of a corpus with at least 20 "
        "occurrences there and a smoothed frequency at least 10 times that in the other. Mean over all pairs of "
        f"typical tokens and over seeds: {mean('prontoqa')} for {called['prontoqa']} (paper: "
        f"{_three(PAPER_COSINES['prontoqa'])}), {mean('stories')} for {called['stories']} (paper: "
        f"{_three(PAPER_COSINES['stories'])}). Right: typical tokens of the stories, one for each of PrOntoQA's and as "
        f"frequent ({mean('control')}; matched counts differ by a factor of "
        f"e^{told(evidence, 'token_similarity', 'control_mismatch', gamma, stage='early')} on average), because an "
        f"embedding moves the more, the more often its token occurs. {EARLY[0].upper()}{EARLY[1:]}."
        f"{f' {late}' if late else ''}{stand_in_note(evidence)}",
        "a left panel as red as the middle one or redder (G3). A right panel no redder than the left would say that "
        "frequency, not the corpus, makes the difference.",
    )


def _three(value: float) -> str:
    return f"{value:.3f}".lstrip("0")
