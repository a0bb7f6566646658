"""Figs. 4B and 4C of paper 1: which labels a token sees, by Eqs. 7 and 8 and in the rows that were drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import number
from rb_interp.figures.panels import Caption, heat_map, sentence_figure, try_panel, two_digits
from rb_interp.figures.parts import rows_of
from rb_interp.figures.style import ATTENTION, INK, KEY, MEMORY, REASONING, new_figure, styled

PANELS = {
    "reasoning_anchor": ("reasoning anchors", REASONING),
    "memory_anchor": ("a memory anchor", MEMORY),
    "key": ("a key", KEY),
}
MATRICES = (("reasoning_anchor", "population"), ("reasoning_anchor", "empirical"), ("memory_anchor", "empirical"))
WRITE_UP_TO = 10
LOWEST = 0.8
"""Lower end of the colours of cosines, which are all close to 1; lower ones look like it."""


@styled
def draw_distributions(evidence: Evidence) -> Figure:
    """P^s less the uniform distribution for three kinds of token, and cosines between tokens (after Figs. 4B, 4C)."""
    try:
        evidence.table("label_distributions")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(5.2)
    lines, matrices = figure.subplots(2, 3, height_ratios=(1, 1.15))
    for axes, group in zip(lines, PANELS, strict=True):
        try_panel(axes, _lines, evidence, group)
    ends = [end for axes in lines if axes.lines for end in axes.get_ylim()]
    for axes in lines:
        if axes.lines:
            axes.set_ylim(min(ends), max(ends))
    lines[0].set_ylabel("P$^s$(label) − u  (probability)")
    for axes, (group, kind) in zip(matrices, MATRICES, strict=True):
        try_panel(axes, _matrix, evidence, group, kind)
    images = [axes.images[0] for axes in matrices if axes.images]
    if images:
        figure.colorbar(
            images[0], ax=list(matrices), label=f"cosine of P$^s$ − u (from {LOWEST:g})", shrink=0.8, aspect=20
        )
    handles = [
        Line2D([], [], color=INK, lw=1.5, label="population (Eqs. 7 and 8)"),
        Line2D([], [], color=INK, marker="o", ms=3, ls="", mfc="none", label="in the training rows"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def less_uniform(evidence: Evidence, group: str, kind: str) -> pd.DataFrame:
    """P^s - u of a group's tokens: tokens (index, ascending) by labels; ``kind`` is population or empirical."""
    rows = rows_of(evidence, "label_distributions", group=group)
    table = rows.pivot_table(index="token", columns="label", values=kind)
    return table - 1 / table.shape[1]


def cosines(vectors: np.ndarray) -> np.ndarray:
    """Cosines between rows; NaN for a row of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.full_like(vectors, np.nan), where=norms > 0)
    return unit @ unit.T


def shown_tokens(tokens: list[int], group: str) -> list[int]:
    """First and last reasoning anchor; the middle one of the other groups."""
    return [tokens[0], tokens[-1]] if group == "reasoning_anchor" else [tokens[(len(tokens) - 1) // 2]]


def _lines(axes: Axes, evidence: Evidence, group: str) -> None:
    population, empirical = (less_uniform(evidence, group, kind) for kind in ("population", "empirical"))
    words, colour = PANELS[group]
    tokens = shown_tokens(population.index.astype(int).tolist(), group)
    for token, shade, fill in zip(tokens, (colour, INK), (colour, "white"), strict=False):
        axes.plot(population.columns, population.loc[token], color=shade, lw=1.5, label=f"{token}", zorder=3)
        axes.plot(empirical.columns, empirical.loc[token], "o", ms=2.2, mfc=fill, mec=shade, mew=0.6, zorder=2)
    axes.axhline(0, color="#bbbbbb", lw=0.7, zorder=0)
    names = f"{words} {' and '.join(map(str, tokens))}" if len(tokens) > 1 else f"{words} ({tokens[0]})"
    axes.set_title(names)
    axes.set_xlabel("label (token)")
    if len(tokens) > 1:
        axes.legend(title="s", loc="upper right")


def _matrix(axes: Axes, evidence: Evidence, group: str, kind: str) -> None:
    table = less_uniform(evidence, group, kind)
    found, tokens = cosines(table.to_numpy()), table.index.astype(int)
    write = two_digits if len(found) <= WRITE_UP_TO else None
    heat_map(axes, found, tokens, low=LOWEST, colours=ATTENTION, write=write, text=48.0)
    words = {"population": "Eq. 8", "empirical": "training rows"}[kind]
    axes.set_title(f"{group.split('_')[0]}, {words}\nmean off the diagonal {_off(found):.2f}")
    axes.set_xlabel(f"{group.replace('_', ' ')} (token)")


def _off(matrix: np.ndarray) -> float:
    off = ~np.eye(len(matrix), dtype=bool)
    return float(matrix[off].mean()) if off.any() else float("nan")


def _told(evidence: Evidence, group: str, kind: str) -> str:
    try:
        return number(_off(cosines(less_uniform(evidence, group, kind).to_numpy())))
    except MissingEvidenceError:
        return number(None)


def caption_distributions(evidence: Evidence) -> Caption:
    """Caption of the label distributions, with the warning about empirical cosines."""
    return Caption(
        "Top: how often each label stands beside a token, less u = 1/d_vocab: lines as Eqs. 7 and 8 have it for "
        "infinitely many rows, dots as counted in the training rows of the lowest seed. All memory anchors have the "
        "same line; a reasoning anchor's line moves with its value s. Bottom: cosines between tokens. Reasoning "
        f"anchors: {_told(evidence, 'reasoning_anchor', 'population')} on average by Eq. 8 and "
        f"{_told(evidence, 'reasoning_anchor', 'empirical')} in the rows; memory anchors: "
        f"{_told(evidence, 'memory_anchor', 'population')} by Eq. 7 and only "
        f"{_told(evidence, 'memory_anchor', 'empirical')} in the rows, because each memory input has one label. So the "
        "raw cosines of counted distributions must not be compared between the kinds: what tells them apart is that "
        "reasoning anchors differ along one ordered direction and memory anchors by noise.",
        "cosines of reasoning anchors, by Eq. 8, that do not fall with distance from the diagonal; dots of a reasoning "
        "anchor that do not follow its line. This is arithmetic on the task, and no model is involved.",
    )
