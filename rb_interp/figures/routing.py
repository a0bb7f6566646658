"""The second attention module of paper 1: where the last position looks, seed by seed."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from rb_interp.figures.criteria import THRESHOLDS
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import interval_text, number, share_text
from rb_interp.figures.panels import Caption, seed_interval, try_panel
from rb_interp.figures.style import INK, KEY, NOISE, REASONING, WIDTH, new_figure, styled

PARTS = {
    "key": ("key", KEY),
    "anchors": ("anchors", REASONING),
    "self": ("itself (noise)", "#7d7d7d"),
    "noise": ("other noise", NOISE),
}
INPUTS = {"rsn_train": "reasoning inputs", "mem": "memory inputs"}


@styled
def draw_routing(evidence: Evidence) -> Figure:
    """Layer 2's attention from the last position to key, anchors, itself and noise, one bar per seed and rate."""
    figure = new_figure(3.7, max(WIDTH, 2.1 * len(evidence.gammas)))
    panels = figure.subplots(2, 1, sharex=True)
    for axes, rows in zip(panels, INPUTS, strict=True):
        try_panel(axes, _bars, evidence, rows)
        axes.set_title(INPUTS[rows])
    handles: list = [Patch(fc=colour, label=name) for name, colour in PARTS.values()]
    handles.append(Line2D([], [], color=INK, lw=1.6, label="key, untrained"))
    handles.append(Line2D([], [], color=INK, lw=0.9, ls=(0, (3, 1.5)), label="key, criterion M7 and M7b"))
    panels[1].set_xlabel("seed")
    figure.legend(handles=handles, loc="outside upper center", ncols=6, columnspacing=1.2)
    return figure


def _bars(axes: Axes, evidence: Evidence, rows: str) -> None:
    start, ticks, names, drawn = 0.0, [], [], False
    for gamma in evidence.gammas:
        try:
            parts = [evidence.values("routing", part, gamma, rows=rows, deepest=True) for part in PARTS]
        except MissingEvidenceError:
            continue
        seeds = [seed for seed in parts[0].index if all(seed in part.index for part in parts)]
        bottom = np.zeros(len(seeds))
        x = start + np.arange(len(seeds))
        for part, (_, colour) in zip(parts, PARTS.values(), strict=True):
            heights = part.loc[seeds].to_numpy()
            axes.bar(x, heights, 0.86, bottom=bottom, color=colour, zorder=2)
            bottom = bottom + heights
        _twin_ticks(axes, evidence, gamma, rows, dict(zip(seeds, x, strict=True)))
        key = share_text(*seed_interval(parts[0].loc[seeds]))
        if gamma == SMALL:
            limits = [x[0] - 0.43, x[-1] + 0.43]
            axes.plot(limits, [THRESHOLDS["M7"]] * 2, color=INK, lw=0.9, ls=(0, (3, 1.5)), zorder=4)
        axes.text(x.mean(), 1.03, f"γ = {gamma:g}: key {key}", ha="center", va="bottom", fontsize=7)
        ticks += list(x)
        names += [str(seed) for seed in seeds]
        start, drawn = start + len(seeds) + 1.2, True
    if not drawn:
        raise MissingEvidenceError(f"This run has no reading of routing on {INPUTS[rows]} at the end of training.")
    axes.set_xticks(ticks, names)
    axes.tick_params(axis="x", length=0, labelbottom=True)
    axes.set_ylim(0, 1.16)
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel("attention (share)")
    axes.set_xlim(-0.8, start - 1.4)


def _twin_ticks(axes: Axes, evidence: Evidence, gamma: float, rows: str, places: dict[int, float]) -> None:
    try:
        twin = evidence.values("routing", "key", gamma, rows=rows, column="twin", deepest=True)
    except MissingEvidenceError:
        return
    for seed, x in places.items():
        if seed in twin.index:
            axes.plot([x - 0.43, x + 0.43], [twin[seed]] * 2, color=INK, lw=1.6, zorder=3)


def caption_routing(evidence: Evidence) -> Caption:
    """Caption of the routing figure."""
    texts = {}
    for rows, name in INPUTS.items():
        try:
            values = evidence.values("routing", "key", SMALL, rows=rows, deepest=True)
            texts[name] = interval_text(*seed_interval(values))
        except MissingEvidenceError:
            texts[name] = number(None)
    told = " and ".join(f"{text} on {name}" for name, text in texts.items())
    return Caption(
        "Layer 2's attention of the last position at the end of training, one bar per seed: to the key, to the "
        "anchors together, to itself and to other noise (the four add up to 1; positions that are key or anchor "
        f"count as such). Black ticks: the key's share in the untrained twin. At γ = {SMALL:g} the key receives "
        f"{told}. Seeds may fall into two groups, so the bars say more than the mean.",
        f"orange bars below .90 at γ = {SMALL:g} (M7 on reasoning, M7b on memory inputs; M7b says nothing where "
        "memory is not learned), or bars no higher than the black ticks.",
    )
