"""Attention of the first layers on text: how far from an average over all preceding tokens (paper 1, Lemma 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import CORPORA, STAGES, names, reading_text, stand_in_note
from rb_interp.figures.panels import Caption, gamma_axis, offsets, seed_interval, try_panel
from rb_interp.figures.style import CORPUS_COLOURS, CORPUS_MARKERS, new_figure, styled

LAYERS = (0, 1)
SHIFTS = {"prontoqa": -0.2, "stories": 0.14}


@styled
def draw_text_attention(evidence: Evidence) -> Figure:
    """TV of attention from 1/i by rate: a row per layer, a column per stage, both corpora, every head."""
    figure = new_figure(4.2)
    panels = figure.subplots(len(LAYERS), len(STAGES), sharey=True, squeeze=False)
    for row, layer in zip(panels, LAYERS, strict=True):
        for axes, (stage, words) in zip(row, STAGES.items(), strict=True):
            try_panel(axes, _panel, evidence, layer, stage)
            axes.set_title(f"layer {layer + 1}, {words}")
            axes.set_ylim(0, 1)
        row[0].set_ylabel("TV from 1/i" if row[0].lines else "")
    for axes in panels[0]:
        axes.set_xlabel("")
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=2)
    return figure


def head_values(evidence: Evidence, layer: int, stage: str, corpus: str, gamma: float) -> pd.DataFrame:
    """TV from 1/i in [0, 1]: seeds (index) by heads; MissingEvidenceError where not read."""
    table = evidence.readings
    here = table.loc[(table["probe"] == "uniformity") & (table["quantity"] == "tv") & (table["stage"] == stage)]
    here = here.loc[(here["rows"] == corpus) & (here["layer"] == layer)]
    here = here.loc[np.isclose(here["gamma"].astype(float), gamma)]
    if here.empty:
        raise MissingEvidenceError(f"No reading of uniformity in layer {layer + 1}, stage {stage}.")
    return here.pivot_table(index="seed", columns="head", values="value")


def _panel(axes: Axes, evidence: Evidence, layer: int, stage: str) -> None:
    drawn = 0
    for corpus, shift in SHIFTS.items():
        colour, marker = CORPUS_COLOURS[corpus], CORPUS_MARKERS[corpus]
        for place, gamma in enumerate(evidence.gammas):
            try:
                table = head_values(evidence, layer, stage, corpus, gamma)
            except MissingEvidenceError:
                continue
            drawn += 1
            heads = table.mean().to_numpy()
            axes.plot(place + shift + offsets(len(heads), 0.1), heads, marker, ms=3.2, mfc="white", mec=colour,
                      mew=0.8, zorder=3)  # fmt: skip
            mean, low, high = seed_interval(table.mean(axis=1))
            at = place + shift + 0.16
            axes.plot([at - 0.03, at + 0.03], [mean, mean], color=colour, lw=2.6, solid_capstyle="butt", zorder=4)
            axes.plot([at, at], [low, high], color=colour, lw=1.2, zorder=2)
    if not drawn:
        raise MissingEvidenceError(f"No reading of uniformity in layer {layer + 1}, stage {stage}.")
    gamma_axis(axes, evidence)


def _legend(evidence: Evidence) -> list[Line2D]:
    found = []
    for corpus, name in names(evidence).items():
        mark = {"marker": CORPUS_MARKERS[corpus], "mec": CORPUS_COLOURS[corpus], "mfc": "white", "ms": 4, "ls": ""}
        found.append(Line2D([], [], **mark, label=f"{name}: a head, mean over seeds"))
    for corpus, name in names(evidence).items():
        found.append(Line2D([], [], color=CORPUS_COLOURS[corpus], lw=1.6, label=f"{name}: all heads, 95 %"))
    return [found[0], found[2], found[1], found[3]]


def attention_text(evidence: Evidence, layer: int, stage: str, corpus: str, gamma: float) -> str:
    """Mean over heads, ``mean [low, high]`` over seeds; ``n/a`` where not read."""
    try:
        return reading_text(head_values(evidence, layer, stage, corpus, gamma).mean(axis=1))
    except MissingEvidenceError:
        return "n/a"


def caption_text_attention(evidence: Evidence) -> Caption:
    """Caption of attention's distance from an average, first layer."""
    called = names(evidence)
    stages = "; ".join(
        f"{words} " + ", ".join(f"{attention_text(evidence, 0, stage, c, SMALL)} on {called[c]}" for c in CORPORA)
        for stage, words in STAGES.items()
    )
    return Caption(
        "Total variation distance of a row of attention from an average over all preceding tokens, mean over rows and "
        "inputs: 0 is an exact average. Small marks are heads (mean over seeds), bars the mean over "
        f"heads with its 95 % interval over seeds. First layer at γ = {SMALL:g}: {stages}.{stand_in_note(evidence)}",
        f"an untrained distance at γ = {SMALL:g} well above 0, or no smaller than at larger initialisations, would "
        "refute Lemma 1 on text. Nothing here is claimed of trained models: the paper speaks of early training.",
    )
