"""Fig. 7B of paper 1 and claim G3: cosines among the embeddings of each corpus's tokens, early and along training."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import by_seed, by_step, kept_steps_axis, mean_band
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.panels import heat_map, level, note, threshold_at, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import CORPUS_COLOURS, CORPUS_MARKERS, INK, new_figure
from rb_interp.probes.token_typing import MIN_COUNT, MIN_RATIO
from rb_interp.studies.language.claims import PAPER_COSINES
from rb_interp.studies.language.figures.shared import Drawn, StyledReading, at_rates, null_of, zero_line
from rb_interp.studies.language.words import (
    EARLY,
    STAGES,
    by_rate,
    cosine_text,
    course_text,
    early_steps,
    group_names,
    names,
    notes,
    paper_cosines,
    shown_gamma,
    token_interval,
    untrained_text,
    with_tokens,
)

GROUPS = ("prontoqa", "stories", "control")
NAMED = 20
"""How many tokens the lower panels show, with their texts."""
LONGEST = 9


def draw_cosines(evidence: Evidence) -> Figure:
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


def caption_cosines(evidence: Evidence) -> Caption:
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


DIFFERENCES = {
    "difference": ("PrOntoQA − stories", INK, "o"),
    "difference_control": ("the same, stories' matched", "#8a5a00", "D"),
    "difference_counterpart": ("the same, PrOntoQA's matched", "#b8860b", "s"),
    "difference_centred": ("the first, centred", "#6d2a78", "^"),
}
COSINE_SHIFTS = (-0.34, -0.06, 0.22)
SHIFTS = (-0.38, -0.16, 0.06, 0.28)
OVER_TOKENS: dict[str, Any] = {"lw": 4.5, "alpha": 0.28, "zorder": 0.8}
SPREAD = 0.04
NULL = "#d2d2d2"
UNTRAINED = "#6b6b6b"
DOTTED = (0, (1, 1.2))


def draw(evidence: Evidence) -> Figure:
    """Mean cosines by corpus at early and final, differences early beside nulls and untrained models, their course."""
    figure = new_figure(5.8, 7.6)
    early, final, differences, course = figure.subplots(2, 2).ravel()
    for axes, stage in ((early, "early"), (final, "final")):
        try_panel(axes, _cosines, evidence, stage)
        axes.set_title(f"mean cosine, {STAGES[stage]}")
    ends = [end for axes in (early, final) if axes.lines for end in axes.get_ylim()]
    for axes in (early, final):
        if axes.lines:
            axes.set_ylim(min(ends), max(ends))
    try_panel(differences, _differences, evidence)
    differences.set_title("differences, early")
    try_panel(course, _course, evidence)
    course.set_title(f"mean cosine along training, γ = {shown_gamma(evidence):g}")
    entries = [*legend.corpora(group_names(evidence)), *(legend.mark(*look) for look in DIFFERENCES.values())]
    entries.append(legend.untrained(colour=UNTRAINED, width=1.4))
    entries.append(legend.line(f"the paper ({', '.join(paper_cosines().values())})", INK, DOTTED, 1.0))
    entries.append(legend.line("labels permuted, ± 2 sd", NULL, width=5.0))
    entries.append(legend.line("95 % interval over tokens", CORPUS_COLOURS["prontoqa"], width=4.5, alpha=0.28))
    legend.above(figure, entries, columns=3)
    return figure


def _cosines(axes: Axes, evidence: Evidence, stage: str) -> None:
    series = [
        StyledReading(f"cos_{group}", shift, colour, CORPUS_MARKERS[group], stage)
        for (group, colour), shift in zip(CORPUS_COLOURS.items(), COSINE_SHIFTS, strict=True)
    ]
    _with_untrained(axes, evidence, series)
    zero_line(axes)
    if stage == "early" and SMALL in evidence.gammas:
        for group, value in PAPER_COSINES.items():
            place = evidence.gammas.index(SMALL)
            axes.plot([place - 0.45, place + 0.45], [value] * 2, color=CORPUS_COLOURS[group], lw=1, ls=DOTTED)
    axes.set_ylabel("mean cos of two tokens" if stage == "early" else "")


def _with_untrained(axes: Axes, evidence: Evidence, series: list[StyledReading]) -> list[Drawn]:
    drawn = at_rates(axes, evidence, "token_similarity", series, SPREAD)
    for one in drawn:
        untrained = evidence.untrained("token_similarity", one.quantity, one.gamma, stage=one.stage)
        level(axes, one.x + 0.035, untrained, UNTRAINED, half=0.125, width=1.4, zorder=1.0)
        low, high = token_interval(evidence, one.quantity, one.gamma, one.stage)
        colour = next(each.colour for each in series if each.quantity == one.quantity)
        axes.vlines(one.x + 0.035, low, high, color=colour, **OVER_TOKENS)
    return drawn


def _differences(axes: Axes, evidence: Evidence) -> None:
    series = [
        StyledReading(name, shift, colour, marker, "early")
        for (name, (_, colour, marker)), shift in zip(DIFFERENCES.items(), SHIFTS, strict=True)
    ]
    for one in _with_untrained(axes, evidence, series):
        mean, sd = null_of(evidence, "token_similarity", one.quantity, one.gamma, "early")
        axes.fill_between([one.x - 0.08, one.x + 0.14], mean - 2 * sd, mean + 2 * sd, color=NULL, lw=0, zorder=0)
    zero_line(axes)
    threshold_at(axes, evidence, SMALL, evidence.threshold("G3"), written(evidence, "G3"), below=True)
    axes.margins(y=0.12)
    axes.set_ylabel("difference of mean cosines")


def _course(axes: Axes, evidence: Evidence) -> None:
    """Mean cosines of each list of tokens against training step, with the stage ``early`` of every seed."""
    gamma = shown_gamma(evidence)
    table, course = evidence.table("similarity", gamma=gamma), evidence.table("course", gamma=gamma)
    for group, colour in CORPUS_COLOURS.items():
        means = by_step(course.loc[course["quantity"] == f"cos_{group}"]).dropna(subset=["mean"])
        if means.empty:  # no control where the stories have fewer typical tokens than PrOntoQA
            continue
        mean_band(axes, by_seed(table, f"cos_{group}"), means, colour)
        axes.plot(means.index, means["mean"], CORPUS_MARKERS[group], ms=4, mfc="white", mec=colour, zorder=4)
        ends = [token_interval(evidence, f"cos_{group}", gamma, f"step {step:g}") for step in means.index]
        axes.vlines(means.index, *zip(*ends, strict=True), color=colour, **OVER_TOKENS)
    zero_line(axes)
    axes.set_ylabel("mean cos of two tokens")
    kept_steps_axis(axes, np.unique(table["step"].to_numpy(dtype=float)))
    steps = sorted(set(early_steps(evidence, gamma)))
    for step in steps:
        axes.axvline(step, color=INK, lw=0.8, ls=(0, (1, 1.5)), zorder=1.0)
    if steps:
        text = "early (G3)" if gamma == SMALL else "early"
        note(axes, text, (float(steps[0]), 1.0), axes.get_xaxis_transform(), xytext=(3, -1), va="top")


def caption(evidence: Evidence) -> Caption:
    """Caption of the mean cosines, with the numbers that G3 judges and those that only accompany it."""
    course, untrained = course_text(evidence), untrained_text(evidence)
    early = {name: with_tokens(evidence, name) for name in DIFFERENCES}
    return Caption(
        "Mean cosine of the embeddings of two typical tokens of a corpus, and among TinyStories tokens matched to "
        "PrOntoQA's in frequency (dots: seeds, bars: mean with 95 % interval over seeds; pale bars: 95 % interval over "
        "tokens). Dotted: the paper's two numbers, which "
        f"are for γ = {SMALL:g}. PrOntoQA less stories, early: "
        f"{by_rate(evidence, 'token_similarity', 'difference', stage='early')}. At γ = {SMALL:g} it is "
        f"{early['difference_control']} with the stories' tokens matched to PrOntoQA's in frequency, "
        f"{early['difference_counterpart']} with PrOntoQA's matched to the stories', and "
        f"{early['difference_centred']} for embeddings less the mean of both corpora"
        f"{f' {untrained}' if untrained else ''}. The "
        "centred difference is to be compared with its untrained model (dash), not with 0: each token is itself a part "
        "of that mean, a larger one where a corpus has fewer typical tokens. Grey bands: corpus labels permuted among "
        "the tokens (for the stories' matched: each token swapped with its match or not), which asks whether lists as "
        "different arise by chance, not why they differ. Bottom right: the same cosines at every kept step, on a "
        "logarithmic axis (thin lines are seeds, bands 95 % intervals over seeds)"
        f"{f'; the difference, {course}' if course else ''}. G3 is judged at the stage early alone."
        f"{notes(evidence)}",
        f"at γ = {SMALL:g}, early, differences at or above the dashed line (G3). Brown marks near 0 while black dots "
        "are below would say that frequency may make the difference; brown marks on the other side of 0, that tokens "
        "without a match make it. Purple triangles at their untrained dash would lay it to one direction that all "
        "tokens of the stories share.",
    )
