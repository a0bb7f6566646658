"""Figs. 4B and 4C of paper 1: which labels a token sees, by Eqs. 7 and 8 and in the rows that were drawn."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, two_digits
from rb_interp.figures.panels import heat_map, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, INK, KEY, MEMORY, REASONING, new_figure

PANELS = {
    "reasoning_anchor": ("reasoning anchors", REASONING),
    "memory_anchor": ("a memory anchor", MEMORY),
    "key": ("a key", KEY),
}
MATRICES = (("reasoning_anchor", "population"), ("reasoning_anchor", "empirical"), ("memory_anchor", "empirical"))
WRITE_UP_TO = 10
LOWEST = 0.8
"""Lower end of the colours of cosines, which are all close to 1; lower ones look like it."""


def draw_distributions(evidence: Evidence) -> Figure:
    """P^s less the uniform distribution for three kinds of token, and cosines between tokens (after Figs. 4B, 4C)."""
    evidence.table("label_distributions")
    figure = new_figure(5.2)
    lines, matrices = figure.subplots(2, 3, height_ratios=(1, 1.15))
    for axes, group in zip(lines, PANELS, strict=True):
        try_panel(axes, _lines, evidence, group)
    drawn = [axes for axes in lines if axes.lines]
    ends = [end for axes in drawn for end in axes.get_ylim()]
    for axes in drawn:
        axes.set_ylim(min(ends), max(ends))
    lines[0].set_ylabel("P$^s$(label) − u  (probability)")
    for axes, (group, labels) in zip(matrices, MATRICES, strict=True):
        try_panel(axes, _matrix, evidence, group, labels)
    images = [axes.images[0] for axes in matrices if axes.images]
    if images:
        label = f"cosine of P$^s$ − u (from {LOWEST:g})"
        figure.colorbar(images[0], ax=list(matrices), label=label, shrink=0.8, aspect=20)
    population = legend.line("population (Eqs. 7 and 8)", INK, width=1.5)
    counted = legend.mark("in the training rows", INK, size=3.0, mfc="none")
    legend.above(figure, [population, counted], columns=2)
    return figure


def _lines(axes: Axes, evidence: Evidence, group: str) -> None:
    table = evidence.table("label_distributions", group=group)
    population, empirical = (
        table.pivot(index="token", columns="label", values=f"{labels}_excess") for labels in ("population", "empirical")
    )
    (words, colour), tokens = PANELS[group], population.index.astype(int).tolist()
    ends, middle = [tokens[0], tokens[-1]], [tokens[(len(tokens) - 1) // 2]]
    shown = ends if group == "reasoning_anchor" else middle
    for token, shade, fill in zip(shown, (colour, INK), (colour, "white"), strict=False):
        axes.plot(population.columns, population.loc[token], color=shade, lw=1.5, label=f"{token}", zorder=3)
        axes.plot(empirical.columns, empirical.loc[token], "o", ms=2.2, mfc=fill, mec=shade, mew=0.6, zorder=2)
    axes.axhline(0, color="#bbbbbb", lw=0.7, zorder=0)
    axes.set_title(f"{words} {' and '.join(map(str, shown))}" if len(shown) > 1 else f"{words} ({shown[0]})")
    axes.set_xlabel("label (token)")
    if len(shown) > 1:
        legend.panel(axes, "upper right", title="s")


def _matrix(axes: Axes, evidence: Evidence, group: str, labels: str) -> None:
    pairs = evidence.table("label_cosines", group=group, labels=labels)
    table = pairs.pivot(index="token", columns="other", values="cos")
    write = two_digits if len(table) <= WRITE_UP_TO else None
    heat_map(axes, table.to_numpy(), table.index, low=LOWEST, colours=ATTENTION, write=write, text=48.0)
    words = {"population": "Eq. 8", "empirical": "training rows"}[labels]
    axes.set_title(f"{group.split('_')[0]}, {words}\nmean off the diagonal {_mean(evidence, group, labels):.2f}")
    axes.set_xlabel(f"{group.replace('_', ' ')} (token)")


def _mean(evidence: Evidence, group: str, labels: str) -> float:
    """Mean cosine of distinct tokens."""
    return float(evidence.table("label_cosines_summary", group=group, labels=labels)["mean"].iloc[0])


def caption_distributions(evidence: Evidence) -> Caption:
    """Caption of the label distributions, with the warning about empirical cosines."""
    reasoning, memory = (
        [number(_mean(evidence, group, labels)) for labels in ("population", "empirical")]
        for group in ("reasoning_anchor", "memory_anchor")
    )
    return Caption(
        "Top: how often each label stands beside a token, less u = 1/d_vocab: lines as Eqs. 7 and 8 have it for "
        "infinitely many rows, dots as counted in the training rows of the lowest seed. All memory anchors have the "
        "same line; a reasoning anchor's line moves with its value s. Bottom: cosines between tokens. Reasoning "
        f"anchors: {reasoning[0]} on average by Eq. 8 and {reasoning[1]} in the rows; memory anchors: {memory[0]} by "
        f"Eq. 7 and only {memory[1]} in the rows, because each memory input has one label. So the raw cosines of "
        "counted distributions must not be compared between the kinds: what tells them apart is that reasoning anchors "
        "differ along one ordered direction and memory anchors by noise.",
        "cosines of reasoning anchors, by Eq. 8, that do not fall with distance from the diagonal; dots of a reasoning "
        "anchor that do not follow its line. This is arithmetic on the task, and no model is involved.",
    )
