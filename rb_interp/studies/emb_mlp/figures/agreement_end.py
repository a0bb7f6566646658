"""Where predicted and measured drift part: the step, and the loss left, at which agreement first falls below AGREES."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import offsets, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import new_figure
from rb_interp.studies.emb_mlp.agreement import AGREES
from rb_interp.studies.emb_mlp.figures.common import GROUPS, SWEEPS, first_fall, hatched

BASE, BAND = 0.14, 0.86
"""Heights of a panel. Below BASE: seeds below AGREES at the first kept step. Above BAND: seeds that never fall."""
COLUMNS = [
    *((sweep, "each_step", words) for sweep, words in SWEEPS.items()),
    ("one_layer", "positions", "one-layer model, knowing positions too"),
]
MARKS = {"anchor": "o", "memory_anchor": "s", "reasoning_anchor": "D", "key": "^"}


def draw_agreement_end(evidence: Evidence) -> Figure:
    """Step and share of the loss left at which R² first falls below AGREES, by rate, token group and sweep."""
    evidence.table("agreement")
    figure = new_figure(5.4, 9.6)
    widths = [max(len(evidence.sweep(sweep).gammas), 2) for sweep, _, _ in COLUMNS]
    panels = figure.subplots(2, len(COLUMNS), sharey="row", sharex="col", width_ratios=widths)
    for line, column in zip(panels, ("step", "fraction"), strict=True):
        shared = _scale(evidence, column)
        for axes, (sweep, prediction, _) in zip(line, COLUMNS, strict=True):
            try_panel(axes, _panel, evidence.sweep(sweep), prediction, column, shared)
    panels[0, 0].set_ylabel(f"training step at which R² < {two_digits(AGREES)}\n(log scale; higher: later)")
    panels[1, 0].set_ylabel("loss left there, f, of a uniform guess's\n(1: nothing learned yet; higher: later)")
    for top, bottom, (_, _, title) in zip(*panels, COLUMNS, strict=True):
        top.set_title(title.replace(", ", ",\n"))
        if bottom.lines:
            bottom.set_xlabel("rate γ")
    marks = [legend.mark(words, colour, MARKS[group]) for group, (words, colour) in GROUPS.items()]
    legend.above(figure, [*marks, legend.line("median of seeds", "#555555", width=2.0)], columns=6)
    return figure


def _scale(evidence: Evidence, column: str) -> tuple[float, float]:
    """Ends of the part of an axis on which falls are drawn; the step's in its logarithm."""
    if column == "fraction":
        return 1.04, -0.04
    rows = evidence.table("agreement", metric="r2")
    rows = rows.loc[rows["prediction"].isin([prediction for _, prediction, _ in COLUMNS])]
    last = np.log10(max(rows["last_step"].max(), 10))
    first = np.log10(rows["step"].dropna().clip(lower=1)).min() if rows["step"].notna().any() else last
    return float(min(first, last)) - 0.15, float(last) + 0.05


def _height(value: float | int, at_first: bool, column: str, scale: tuple[float, float]) -> float:
    """Height of a step or share in the panel: BASE to BAND; above for NaN (never), below for ``at_first``."""
    if at_first:
        return BASE / 2 - 0.02
    if np.isnan(value):
        return (1 + BAND) / 2 - 0.02
    (low, high), place = scale, np.log10(max(value, 1)) if column == "step" else value
    return BASE + (BAND - BASE) * (place - low) / (high - low)


def _panel(axes: Axes, own: Evidence, prediction: str, column: str, scale: tuple[float, float]) -> None:
    gammas = own.gammas
    for shift, group in zip(np.linspace(-0.3, 0.3, len(GROUPS)), GROUPS, strict=True):
        for place, gamma in enumerate(gammas):
            where = {"gamma": gamma, "group": group, "prediction": prediction, "metric": "r2"}
            _falls(axes, own, place + shift, column, scale, where)
    axes.set_ylim(0, 1)
    axes.set_xlim(-0.55, len(gammas) - 0.45)
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    for place in range(1, len(gammas)):
        axes.axvline(place - 0.5, color="#eeeeee", lw=0.7, zorder=0)
    ticks = [10**power for power in range(8)] if column == "step" else [1, 0.75, 0.5, 0.25, 0]
    heights = {f"{tick:,}": _height(tick, False, column, scale) for tick in ticks}
    heights = {tick: height for tick, height in heights.items() if BASE - 1e-9 <= height <= BAND}
    axes.set_yticks(list(heights.values()), list(heights))
    words = f"below {two_digits(AGREES)} at the first kept step"
    for low, high, text in ((BAND, 1.0, "never in training"), (0.0, BASE, words)):
        hatched(axes, low, high, axes.transAxes, text, (0.01, high - 0.015), ha="left", va="top")


def _falls(axes: Axes, own: Evidence, x: float, column: str, scale: tuple[float, float], where: dict[str, Any]) -> None:
    """Seeds of one group and rate as markers and the middle one as a bar; nothing where R² is undefined."""
    rows, (_, colour) = own.records("agreement", **where), GROUPS[where["group"]]
    for middle in own.records("agreement_summary", **where):
        heights = [_height(row[column], row["at_first"], column, scale) for row in sorted(rows, key=itemgetter("seed"))]
        look = {"ms": 2.8, "mfc": "white", "mec": colour, "mew": 0.8, "zorder": 3}
        axes.plot(x + offsets(len(rows), 0.055), heights, MARKS[where["group"]], **look)
        bar = _height(middle[f"middle_{column}"], middle["middle_at_first"], column, scale)
        axes.plot([x - 0.09, x + 0.09], [bar, bar], color=colour, lw=2, zorder=4)


def caption_agreement_end(evidence: Evidence) -> Caption:
    """Caption of where agreement ends."""
    falls = "; ".join(
        f"{words}: {first_fall(evidence, sweep, SMALL, prediction)}" for sweep, prediction, words in COLUMNS
    )
    return Caption(
        f"The first kept step at which R² of predicted and measured drift (weights of each step) is below {AGREES:.2f}"
        ", and the share f of the loss on reasoning that was left then (loss over ln d_vocab, at most 1). Dots are "
        "seeds, bars their median (of an even number the earlier of the two in the middle); the hatched strip at the "
        f"top holds seeds in which it never happened, that at the bottom seeds below {two_digits(AGREES)} at the first "
        "kept step "
        f"already, of which no fall was seen (R² may rise above {two_digits(AGREES)} later). f can be compared "
        "between optimisers, steps only within one. A small initialisation spends many steps at f = 1: a late step "
        f"with f near 1 says that the theory covers the plateau, not the learning. All anchors at γ = {SMALL:g}: "
        f"{falls}.",
        "bars that do not rise with γ in the left column (Proposition 1 is a statement about small initialisation); "
        "falls at f = 1 or in the strip at the bottom for small initialisation, that is before anything is learned.",
    )
