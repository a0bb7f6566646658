"""Figs. 5A and 5B of paper 1: cosines and principal components of the token embeddings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from rb_interp.figures.evidence import SMALL, Evidence
from rb_interp.figures.numbers import share_text
from rb_interp.figures.panels import (
    Caption,
    heat_map,
    over_seeds,
    sentence_figure,
    try_panel,
    two_digits,
)  # fmt: skip
from rb_interp.figures.style import GREY, KEY, MEMORY, REASONING, new_figure, styled

GROUPS = {0: ("key", KEY), 1: ("memory anchor", MEMORY), 2: ("reasoning anchor", REASONING)}
STAGES = {"init": "untrained", "half": "half", "final": "final"}
WRITE_UP_TO = 10
"""Cells carry their value in matrices of at most this many tokens."""


def stage_text(evidence: Evidence, gamma: float, seed: int, stage: str) -> str:
    """A stage's name with its step, where a reading tells it."""
    step = 0 if stage == "init" else evidence.step(gamma, seed, stage)
    return STAGES.get(stage, stage) + ("" if step is None else f" (step {step:,})")


@styled
def draw_cosines(evidence: Evidence, stages: Iterable[str] = STAGES) -> Figure:
    """Cosines between anchor embeddings at three stages, small initialisation (after Fig. 5A)."""
    if evidence.lacks(SMALL):
        return sentence_figure(evidence.lacks(SMALL))
    figure = new_figure(5.0)
    panels = figure.subplots(2, 3)
    rows = (("memory", "cos_memory", "mean cosine"), ("reasoning", "order_rho", "order (Spearman)"))
    for line, (kind, quantity, word) in zip(panels, rows, strict=True):
        for axes, stage in zip(line, stages, strict=True):
            try_panel(axes, _cosine_panel, evidence, kind, stage, quantity, word)
        line[0].set_ylabel(f"{kind} anchor (token)")
    images = [axes.images[0] for axes in panels.flat if axes.images]
    if images:
        figure.colorbar(images[0], ax=panels, label="cosine of two token embeddings", shrink=0.5, aspect=30)
    return figure


def _cosine_panel(axes: Axes, evidence: Evidence, kind: str, stage: str, quantity: str, word: str) -> None:
    seed, matrix = evidence.first("geometry", f"cos_{kind}_matrix", SMALL, stage=stage)
    tokens = evidence.task.tokens(f"{kind}_anchor")
    heat_map(axes, matrix, tokens, write=two_digits if len(matrix) <= WRITE_UP_TO else None, text=48.0)
    axes.set_title(f"{stage_text(evidence, SMALL, seed, stage)}\n{word} {_of_member(evidence, quantity, seed, stage)}")
    axes.set_xlabel(f"{kind} anchor (token)")


def _of_member(evidence: Evidence, quantity: str, seed: int, stage: str) -> str:
    return share_text(evidence.value("geometry", quantity, SMALL, seed, stage=stage), np.nan, np.nan)


def caption_cosines(evidence: Evidence) -> Caption:
    """Caption of the cosine matrices."""
    seed = min(evidence.seeds, default=0)
    return Caption(
        "Cosines between the embeddings of memory anchors (top) and of reasoning anchors (bottom) at γ = "
        f"{SMALL:g}, seed {seed} (the lowest): untrained, at half, and at the end. Over all seeds the mean cosine "
        f"of memory anchors is {_over_seeds(evidence, 'cos_memory', 'half')} at half, and the rank correlation of "
        f"distance and cosine among reasoning anchors is {_over_seeds(evidence, 'order_rho', 'final')} at the end. "
        "Crossed cells are undefined.",
        "memory anchors that share no direction at half (mean cosine below .50, E2); reasoning cosines that do not "
        "fall with distance from the diagonal at the end (Spearman above −.80, E1); the same pattern in the "
        "untrained twin.",
    )


def _over_seeds(evidence: Evidence, quantity: str, stage: str, gamma: float = SMALL) -> str:
    return over_seeds(evidence, "geometry", quantity, gamma, stage=stage)


@styled
def draw_pca(evidence: Evidence) -> Figure:
    """Principal components of all used token embeddings, untrained and trained (after Fig. 5B)."""
    if evidence.lacks(SMALL):
        return sentence_figure(evidence.lacks(SMALL))
    figure = new_figure(3.6)
    panels = figure.subplots(1, 2)
    for axes, stage in zip(panels, ("init", "final"), strict=True):
        try_panel(axes, _pca_panel, evidence, stage)
    marks = {0: "o", 1: "s", 2: "D"}
    handles = [
        Line2D([], [], marker=marks[g], color=colour, ls="", ms=5, label=name) for g, (name, colour) in GROUPS.items()
    ]
    handles.append(Line2D([], [], color=GREY, lw=0.8, label="joins consecutive values (darker: larger)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _pca_panel(axes: Axes, evidence: Evidence, stage: str) -> None:
    seed, points = evidence.first("geometry", "pca", SMALL, stage=stage)
    _, tokens = evidence.first("geometry", "tokens", SMALL, stage=stage)
    _, group = evidence.first("geometry", "group", SMALL, stage=stage)
    _, explained = evidence.first("geometry", "explained", SMALL, stage=stage)
    scatter_tokens(axes, points[:, :2], tokens.astype(int), group.astype(int))
    axes.set_xlabel(f"PC 1 ({100 * explained[0]:.0f} % of variance)")
    axes.set_ylabel(f"PC 2 ({100 * explained[1]:.0f} %)")
    axes.set_title(f"γ = {SMALL:g}, {stage_text(evidence, SMALL, seed, stage)}")


CROWDED = 0.1
"""A group that takes less than this share of both axes gets one label for all its tokens."""


def scatter_tokens(axes: Axes, points: np.ndarray, tokens: np.ndarray, group: np.ndarray) -> None:
    """Tokens in a plane: groups by colour and marker, values by shade, consecutive values joined, some written out."""
    marks = {0: ("o", 14, 10), 1: ("s", 24, 1), 2: ("D", 24, 1)}
    for which, (marker, size, every) in marks.items():
        of = np.flatnonzero(group == which)
        of = of[np.argsort(tokens[of])]
        if not len(of):
            continue
        x, y = points[of].T
        if which != 1:  # memory anchors have no order that a line could show
            axes.plot(x, y, color=GROUPS[which][1], lw=0.6, alpha=0.55, zorder=1)
        shades = np.linspace(0.25, 1, len(of)) if which != 1 else np.full(len(of), 0.8)
        axes.scatter(
            x, y, s=size, marker=marker, c=_ramp(GROUPS[which][1])(shades), edgecolors="white", lw=0.4, zorder=2 + which
        )
        every = 2 if which and len(of) > 12 else every
        halo = [withStroke(linewidth=1.4, foreground="white")]
        labels = [(str(tokens[at]), points[at]) for at in of[::every]]
        if len(of) > 1 and (np.ptp(points[of], axis=0) < CROWDED * np.ptp(points, axis=0)).all():
            labels = [(f"{tokens[of[0]]}–{tokens[of[-1]]}", points[of].mean(0))]
        for text, place in labels:
            axes.annotate(
                text, tuple(place), xytext=(3, 3), textcoords="offset points", fontsize=6, zorder=9, path_effects=halo
            )
    axes.margins(0.08)


def _ramp(colour: str) -> LinearSegmentedColormap:
    """From a light to a dark shade of a colour, which itself lies at .6."""
    from matplotlib.colors import to_rgb

    base = np.array(to_rgb(colour))
    light, dark = base + 0.75 * (1 - base), base * 0.5
    return LinearSegmentedColormap.from_list("shades", [(0, tuple(light)), (0.6, colour), (1, tuple(dark))])


def caption_pca(evidence: Evidence) -> Caption:
    """Caption of the embedding's principal components."""
    seed = min(evidence.seeds, default=0)
    return Caption(
        f"First two principal components of the embeddings of all tokens in use (centred) at γ = {SMALL:g}, seed "
        f"{seed} (the lowest), untrained (left) and trained (right). Over all seeds the rank correlation of the "
        f"leading component with token value is {_over_seeds(evidence, 'pc1_key', 'final')} for keys and "
        f"{_over_seeds(evidence, 'pc1_reasoning', 'final')} for reasoning anchors (in absolute value).",
        "joined tokens that wander instead of running along the first axis, that is a rank correlation below .90 "
        "for keys or for reasoning anchors (E3). The sign of a component is arbitrary.",
    )
