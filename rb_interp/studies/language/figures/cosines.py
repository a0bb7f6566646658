"""Fig. 7B of paper 1: cosines among the embeddings of each corpus's tokens, early in training."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.panels import heat_map, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import new_figure
from rb_interp.probes.token_typing import MIN_COUNT, MIN_RATIO
from rb_interp.studies.language.words import EARLY, cosine_text, group_names, names, notes, paper_cosines, shown_gamma

GROUPS = ("prontoqa", "stories", "control")
NAMED = 20
"""How many tokens the lower panels show, with their texts."""
LONGEST = 9


def draw(evidence: Evidence) -> Figure:
    """Cosine matrices of PrOntoQA's, TinyStories' and frequency-matched tokens, all shown and the most frequent."""
    figure = new_figure(4.9)
    panels = figure.subplots(2, len(GROUPS))
    for column, (group, name) in zip(panels.T, group_names(evidence).items(), strict=True):
        try_panel(column[0], _matrix, evidence, group)
        try_panel(column[1], _named, evidence, group)
        mean = cosine_text(evidence, f"cos_{group}", shown_gamma(evidence))
        title = name.replace(", ", ",\n") if group == "control" else f"{name}\n"
        column[0].set_title(f"{title.rstrip()}\nmean cos {mean}")
    images = [axes.images[0] for axes in panels.ravel() if axes.images]
    if images:
        figure.colorbar(images[0], ax=panels.ravel().tolist(), label="cosine", shrink=0.5, aspect=30)
    return figure


def matrix_of(evidence: Evidence, group: str) -> tuple[int, np.ndarray, np.ndarray]:
    """Seed, cosines and token ids of a list at the stage ``early``, most frequent first.

    Raises MissingEvidenceError where there is none, or the list is empty (no control can be matched).
    """
    gamma = shown_gamma(evidence)
    seed, matrix = evidence.first("token_similarity", f"cos_{group}_matrix", gamma, stage="early")
    _, tokens = evidence.first("token_similarity", f"tokens_{group}", gamma, stage="early")
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
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(f"the {len(matrix)} most frequent typical tokens", labelpad=3)


def _named(axes: Axes, evidence: Evidence, group: str) -> None:
    seed, matrix, tokens = matrix_of(evidence, group)
    table = evidence.table("tokens", seed=seed)
    texts = dict(zip(table["token"], table["text"], strict=True))
    shown = [as_shown(texts.get(token, str(token))) for token in tokens[:NAMED].tolist()]
    heat_map(axes, matrix[:NAMED, :NAMED], shown)
    axes.tick_params(axis="x", labelrotation=90, labelsize=5.5, pad=1)
    axes.tick_params(axis="y", labelsize=5.5, pad=1)


def as_shown(text: str) -> str:
    """A token's text with its spaces visible, nine characters at most, and no mathematics.

    >>> as_shown(" every"), as_shown("$1"), as_shown(" mathematician"), as_shown(chr(10))
    ('·every', '\\\\$1', '·mathema…', '⏎')
    """
    text = text.replace(" ", "·").replace("\n", "⏎").replace("\t", "→")
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.replace("$", r"\$")


def caption(evidence: Evidence) -> Caption:
    """Caption of the cosine matrices, with the paper's two numbers beside this run's."""
    gamma, called = shown_gamma(evidence), names(evidence)
    paper = paper_cosines()
    quantities = ("cos_prontoqa", "cos_stories", "cos_control", "control_mismatch")
    prontoqa, stories, control, mismatch = (cosine_text(evidence, name, gamma) for name in quantities)
    return Caption(
        f"Cosines of token embeddings at γ = {gamma:g}, early in training, lowest seed; most frequent tokens first, "
        "below the leading ones with their texts (a dot is a space). A token is typical of a corpus with at least "
        f"{MIN_COUNT} occurrences there and a smoothed frequency at least {MIN_RATIO:g} times that in the other. "
        f"Mean over all pairs of typical tokens and over seeds: {prontoqa} for {called['prontoqa']} "
        f"(paper: {paper['prontoqa']}), {stories} for {called['stories']} (paper: {paper['stories']}). Right: "
        f"typical tokens of the stories, one for each of PrOntoQA's and as frequent ({control}; matched counts "
        f"differ by a factor of e^{mismatch} on average), because an embedding moves the more, the more often its "
        f"token occurs. {EARLY[0].upper()}{EARLY[1:]}.{notes(evidence, gamma)}",
        "a left panel as red as the middle one or redder (G3). A right panel no redder than the left would say that "
        "tokens of equal frequency do not show the difference.",
    )
