"""L1's attention (the second attention module of paper 1): where the last position looks, seed by seed."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import share_text, two_digits
from rb_interp.figures.panels import by_gamma, over_seeds, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import DASHED, INK, KEY, NOISE, REASONING, WIDTH, new_figure

PROBE = "attention_by_role"
PARTS = {
    "key": ("key", KEY),
    "anchors": ("anchors", REASONING),
    "self": ("itself (noise)", "#7d7d7d"),
    "noise": ("other noise", NOISE),
}
INPUTS = {"rsn_train": "reasoning inputs", "mem": "memory inputs"}


def draw_attention_by_role(evidence: Evidence) -> Figure:
    """L1's attention from the last position to key, anchors, itself and noise, one bar per seed and rate."""
    figure = new_figure(3.7, max(WIDTH, 2.1 * len(evidence.gammas)))
    panels = figure.subplots(2, 1, sharex=True)
    for axes, set in zip(panels, INPUTS, strict=True):
        try_panel(axes, _bars, evidence, set)
        axes.set_title(INPUTS[set])
    panels[1].set_xlabel("seed")
    entries: list[legend.Entry] = [legend.area(name, colour) for name, colour in PARTS.values()]
    entries += [legend.untrained("key, untrained", INK, 1.6), legend.threshold("key, threshold of M7 and M7b")]
    legend.above(figure, entries, columns=6, columnspacing=1.2)
    return figure


def _bars(axes: Axes, evidence: Evidence, set: str) -> None:
    start, ticks, names = 0.0, [], []
    for gamma in by_gamma(evidence, PROBE, "key", set=set):
        seeds = _bars_at(axes, evidence, set, gamma, start)
        ticks += [start + place for place in range(len(seeds))]
        names += [str(seed) for seed in seeds]
        start += len(seeds) + 1.2
    axes.set_xticks(ticks, names)
    axes.tick_params(axis="x", length=0, labelbottom=True)
    axes.set_yticks([0, 0.5, 1])
    axes.set(ylim=(0, 1.16), ylabel="attention (share)", xlim=(-0.8, start - 1.4))


def _bars_at(axes: Axes, evidence: Evidence, set: str, gamma: float, start: float) -> list[int]:
    """The bars of a rate from a place on; returns their seeds."""
    parts = [evidence.values(PROBE, part, gamma, set=set, deepest=True) for part in PARTS]
    seeds = [seed for seed in parts[0].index if all(seed in part.index for part in parts)]
    x, bottom = start + np.arange(len(seeds)), np.zeros(len(seeds))
    for part, (_, colour) in zip(parts, PARTS.values(), strict=True):
        heights = part.loc[seeds].to_numpy()
        axes.bar(x, heights, 0.86, bottom=bottom, color=colour, zorder=2)
        bottom = bottom + heights
    untrained = evidence.values(PROBE, "key", gamma, set=set, column="untrained", deepest=True).reindex(seeds)
    for left, level in zip(x - 0.43, untrained, strict=True):
        axes.plot([left, left + 0.86], [level, level], color=INK, lw=1.6, zorder=3)
    if gamma == SMALL:
        least = evidence.threshold("M7" if set == "rsn_train" else "M7b")
        axes.plot([x[0] - 0.43, x[-1] + 0.43], [least] * 2, color=INK, lw=0.9, ls=DASHED, zorder=4)
    key = over_seeds(evidence, PROBE, "key", gamma, set=set, deepest=True, write=share_text)
    middle = (x[0] + x[-1]) / 2
    axes.text(middle, 1.03, f"γ = {gamma:g}: key {key}", ha="center", va="bottom", fontsize=7)
    return seeds


def caption_attention_by_role(evidence: Evidence) -> Caption:
    """Caption of where the last position looks."""
    keys = [f"{over_seeds(evidence, PROBE, 'key', SMALL, set=s, deepest=True)} on {INPUTS[s]}" for s in INPUTS]
    return Caption(
        "L1's attention of the last position at the end of training, one bar per seed: to the key, to the "
        "anchors together, to itself and to other noise (the four add up to 1; positions that are key or anchor "
        f"count as such). Black ticks: the key's share in the untrained model. At γ = {SMALL:g} the key receives "
        f"{' and '.join(keys)}. Seeds may fall into two groups, so the bars say more than the mean.",
        f"yellow bars below {two_digits(evidence.threshold('M7'))} at γ = {SMALL:g} (M7 on reasoning, M7b on memory "
        "inputs; M7b says nothing where memory is not learned), or bars no higher than the black ticks.",
    )
