"""Claim G3: mean cosines among the embeddings of each corpus's tokens, by initialisation, stage and step."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.claims.language import PAPER_COSINES
from rb_interp.figures.criteria import LANGUAGE
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_cosines import group_names
from rb_interp.figures.language_course import course_text, draw_course, three
from rb_interp.figures.language_evidence import STAGES, by_rate, claims_gamma, stand_in_note, told, zero_line
from rb_interp.figures.panels import Caption, criterion_at, gamma_axis, seeds_at, try_panel
from rb_interp.figures.style import CORPUS_COLOURS, CORPUS_MARKERS, INK, new_figure, styled

DIFFERENCES = {
    "difference": ("PrOntoQA − stories", INK, "o"),
    "difference_control": ("PrOntoQA − matched", "#8a5a00", "D"),
    "difference_centred": ("the first, centred", "#6d2a78", "^"),
}
SHIFTS = (-0.34, -0.06, 0.22)
SPREAD = 0.04
NULL = "#d2d2d2"
TWIN = "#6b6b6b"


@styled
def draw_token_similarity(evidence: Evidence) -> Figure:
    """Mean cosines by corpus at early and final, their differences early beside nulls and twins, and their course."""
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
    try_panel(course, draw_course, evidence)
    if evidence.gammas:
        course.set_title(f"mean cosine along training, γ = {claims_gamma(evidence, SMALL):g}")
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=3)
    return figure


def _cosines(axes: Axes, evidence: Evidence, stage: str) -> None:
    drawn = 0
    for group, shift in zip(CORPUS_COLOURS, SHIFTS, strict=True):
        colour, marker = CORPUS_COLOURS[group], CORPUS_MARKERS[group]
        drawn += _by_gamma(axes, evidence, f"cos_{group}", stage, shift, colour, marker)
    _at_least_one(drawn, stage)
    zero_line(axes)
    if stage == "early" and SMALL in evidence.gammas:
        place = evidence.gammas.index(SMALL)
        for group, value in PAPER_COSINES.items():
            axes.plot([place - 0.45, place + 0.45], [value] * 2, color=CORPUS_COLOURS[group], lw=1, ls=(0, (1, 1.2)))
    axes.set_ylabel("mean cos of two tokens" if stage == "early" else "")
    gamma_axis(axes, evidence)


def _by_gamma(axes: Axes, evidence: Evidence, name: str, stage: str, shift: float, colour: str, marker: str) -> int:
    """Seeds, interval and twins of a quantity at every rate that has it; how many have it."""
    drawn = 0
    for place, gamma in enumerate(evidence.gammas):
        try:
            values = evidence.values("token_similarity", name, gamma, stage=stage)
        except MissingEvidenceError:
            continue
        drawn += 1
        seeds_at(axes, place + shift, values, colour, marker, spread=SPREAD)
        twin = evidence.twin("token_similarity", name, gamma, stage=stage)
        axes.plot([place + shift - 0.09, place + shift + 0.16], [twin] * 2, color=TWIN, lw=1.4, zorder=1)
    return drawn


def _at_least_one(drawn: int, stage: str) -> None:
    if not drawn:
        raise MissingEvidenceError(f"This run has no reading of token_similarity at stage {stage}.")


def _differences(axes: Axes, evidence: Evidence) -> None:
    drawn = 0
    for (name, (_, colour, marker)), shift in zip(DIFFERENCES.items(), SHIFTS, strict=True):
        drawn += _by_gamma(axes, evidence, name, "early", shift, colour, marker)
        _null(axes, evidence, name, shift)
    _at_least_one(drawn, "early")
    zero_line(axes)
    criterion_at(axes, evidence, SMALL, LANGUAGE["G3"], "G3: < 0", below=True)
    gamma_axis(axes, evidence)
    axes.margins(y=0.12)
    axes.set_ylabel("difference of mean cosines")


def _null(axes: Axes, evidence: Evidence, name: str, shift: float) -> None:
    """Where labels drawn at random would put the difference: two standard deviations about their mean."""
    for place, gamma in enumerate(evidence.gammas):
        try:
            mean, sd = (
                float(evidence.values("token_similarity", name, gamma, stage="early", column=column).mean())
                for column in ("null_mean", "null_sd")
            )
        except MissingEvidenceError:
            continue
        axes.fill_between([place + shift - 0.08, place + shift + 0.14], mean - 2 * sd, mean + 2 * sd, color=NULL,
                          lw=0, zorder=0)  # fmt: skip


def _legend(evidence: Evidence) -> list[Line2D]:
    def mark(colour: str, marker: str, label: str) -> Line2D:
        return Line2D([], [], ls="", marker=marker, ms=4, mfc="white", mec=colour, label=label)

    found = [mark(CORPUS_COLOURS[g], CORPUS_MARKERS[g], name) for g, name in group_names(evidence).items()]
    found += [mark(colour, marker, words) for words, colour, marker in DIFFERENCES.values()]
    found.append(Line2D([], [], color=TWIN, lw=1.4, label="untrained twins"))
    found.append(Line2D([], [], color=INK, lw=1, ls=(0, (1, 1.2)), label="the paper (.123, .531)"))
    found.append(Line2D([], [], color=NULL, lw=5, label="labels permuted, ± 2 sd"))
    return found


def caption_token_similarity(evidence: Evidence) -> Caption:
    """Caption of the mean cosines, with the numbers that G3 judges and those beside it."""

    def at_early(name: str) -> str:
        return told(evidence, "token_similarity", name, SMALL, stage="early")

    course = course_text(evidence)
    return Caption(
        "Mean cosine of the embeddings of two typical tokens of a corpus, and among TinyStories tokens matched to "
        "PrOntoQA's in frequency (dots: seeds, bars: mean with 95 % interval). Dotted: the paper's two numbers, which "
        f"are for γ = {SMALL:g}. PrOntoQA less stories, early: "
        f"{by_rate(evidence, 'token_similarity', 'difference', stage='early')}. At γ = {SMALL:g} it is "
        f"{at_early('difference_control')} with the matched tokens in place of all, and "
        f"{at_early('difference_centred')} for embeddings less the mean of both corpora{untrained(evidence)}. The "
        "centred difference is to be compared with its untrained twin (dash), not with 0: each token is itself a part "
        "of that mean, a larger one where a corpus has fewer typical tokens. Grey bands: corpus labels permuted among "
        "the tokens (for the matched: each token swapped with its match or not), which asks whether lists as "
        "different arise by chance, not why they differ. Bottom right: the same cosines at every kept step, on a "
        "logarithmic axis (thin lines are seeds, bands 95 % intervals)"
        f"{f'; the difference, {course}' if course else ''}. G3 is judged at the stage early alone."
        f"{stand_in_note(evidence)}",
        f"at γ = {SMALL:g}, early, differences at or above the dashed line (G3). Brown diamonds near 0 while black "
        "dots are below would lay the difference to frequency: PrOntoQA repeats few words often. Purple triangles at "
        "their untrained dash would lay it to one direction that all tokens of the stories share.",
    )


def untrained(evidence: Evidence, quantity: str = "difference_centred", gamma: float = SMALL) -> str:
    """What an untrained model reads early: `` (untrained: −0.013)``; empty where no twin was read."""
    twin = evidence.twin("token_similarity", quantity, gamma, stage="early")
    return f" (untrained: {three(twin)})" if np.isfinite(twin) else ""
