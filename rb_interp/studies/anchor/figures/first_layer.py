"""Attention: L0 averages and its W_V reads the reasoning anchors (Fig. 6 of paper 1), and where L1 looks, by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rb_interp.claims.learning_order import LARGE, MIDDLE, SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import by_gamma, heat_map, over_seeds, threshold, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import (
    ATTENTION,
    BLUE,
    DASHED,
    GREY,
    INK,
    KEY,
    NOISE,
    REASONING,
    RED,
    WIDTH,
    gamma_colour,
    gamma_marker,
    new_figure,
)

WRITE_UP_TO = 12
"""Cells carry their value in patterns of at most this many positions."""
TV = ("uniformity", "tv_per_row")
VALUES = "value_alignment"


def draw_first_layer(evidence: Evidence) -> Figure:
    """Mean attention against 1/i, spectrum of W_V, its leading vector's cosines with the anchors (after Fig. 6)."""
    figure = new_figure(4.9)
    patterns, plots = figure.subplots(2, 3)
    try_panel(patterns[0], _pattern, evidence, LARGE, "matched")
    try_panel(patterns[1], _pattern, evidence, SMALL, "half")
    try_panel(patterns[2], _average, evidence)
    images = [axes.images[0] for axes in patterns if axes.images]
    if images and evidence.task.length > WRITE_UP_TO:
        figure.colorbar(images[0], ax=list(patterns), label="attention (%)", shrink=0.8, aspect=20)
    for axes, draw in zip(plots, (_distance, _spectrum, _alignment), strict=True):
        try_panel(axes, draw, evidence)
    return figure


def _attention(axes: Axes, pattern: np.ndarray) -> None:
    length = len(pattern)
    above = np.triu(np.ones((length, length), dtype=bool), 1)
    write = (lambda percent: f"{percent:.0f}") if length <= WRITE_UP_TO else None
    look = {"low": 0.0, "high": 100.0, "colours": ATTENTION, "text": 54.0}
    heat_map(axes, 100 * pattern, np.arange(1, length + 1), hidden=above, write=write, **look)
    axes.set_xlabel("position j (cells: attention in %)")
    axes.set_ylabel("position i")


def _pattern(axes: Axes, evidence: Evidence, gamma: float, stage: str) -> None:
    seed, pattern = evidence.first("uniformity", "mean_pattern", gamma, stage=stage, set="rsn_train")
    _attention(axes, pattern)
    tv = evidence.value("uniformity", "tv", gamma, seed, stage=stage, set="rsn_train")
    axes.set_title(f"γ = {gamma:g}, {stage}, seed {seed}\nmean distance {share_text(tv, np.nan, np.nan)}")


def _average(axes: Axes, evidence: Evidence) -> None:
    length = evidence.task.length
    _attention(axes, np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None])
    axes.set_title("average operator: 1/i\nmean distance 0")


def _distance(axes: Axes, evidence: Evidence) -> None:
    """TV per row: gamma .8 at half, the paper's other rates at matched."""
    untrained = evidence.mean_array(*TV, SMALL, stage="init", set="rsn_train")
    places = np.arange(2, len(untrained) + 2)
    for gamma in (g for g in evidence.gammas if g in (LARGE, MIDDLE, SMALL)):
        stage = "half" if gamma == SMALL else "matched"
        seeds = np.stack(list(evidence.array(*TV, gamma, stage=stage, set="rsn_train").values()))
        mean = evidence.mean_array(*TV, gamma, stage=stage, set="rsn_train")
        colour, marker = gamma_colour(gamma, evidence.gammas), gamma_marker(gamma, evidence.gammas)
        axes.plot(places, seeds.T, color=colour, lw=0.5, alpha=0.5)
        axes.plot(places, mean, color=colour, marker=marker, ms=3.5, lw=1.5, label=f"γ = {gamma:g}, {stage}")
    axes.set_xticks(places if len(places) <= WRITE_UP_TO else places[::4])
    axes.plot(places, untrained, color=GREY, ls="--", lw=1.1, label=f"γ = {SMALL:g}, untrained")
    label = f"{written(evidence, 'M1', word='mean')} at γ = {SMALL:g}"
    axes.axhline(evidence.threshold("M1"), color=INK, lw=0.9, ls=DASHED, label=label)
    axes.set_ylim(0, max(0.3, axes.get_ylim()[1]) * 1.65)
    axes.set(xlabel="position i", ylabel="distance from 1/i (TV, 0 to 1)")
    axes.set_title("distance from the average,\nrow by row")
    legend.panel(axes, "upper left", handlelength=1.6)


def _spectrum(axes: Axes, evidence: Evidence) -> None:
    seeds = evidence.array(VALUES, "relative_singular_values", SMALL, stage="half").values()
    colour = gamma_colour(SMALL, evidence.gammas)
    for values in seeds:
        _ranked(axes, values, color=colour, lw=0.5, alpha=0.5)
    mean = evidence.mean_array(VALUES, "relative_singular_values", SMALL, stage="half")
    _ranked(axes, mean, color=colour, marker="D", ms=3, lw=1.4, label=f"γ = {SMALL:g}, half")
    untrained = evidence.mean_array(VALUES, "relative_singular_values", SMALL, stage="init")
    _ranked(axes, untrained, color=GREY, ls="--", marker="o", ms=2.5, lw=1.1, label="untrained model")
    axes.set(ylim=(0, 1.06), xlabel="singular value k of L0's W$_V$", ylabel="s$_k$ / s$_1$")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ratio = over_seeds(evidence, VALUES, "spectrum_ratio", SMALL, stage="half")
    axes.set_title(f"spectrum of W$_V$\ns$_1$/s$_2$ = {ratio}")
    legend.panel(axes, "upper right")


def _ranked(axes: Axes, values: np.ndarray, **look: Any) -> None:
    axes.plot(np.arange(1, len(values) + 1), values, **look)


def _alignment(axes: Axes, evidence: Evidence) -> None:
    tokens, group = (evidence.first(VALUES, name, SMALL, stage="half")[1] for name in ("tokens", "group"))
    leading = np.stack(list(evidence.array(VALUES, "abs_leading_cosines", SMALL, stage="half").values()))
    mean, untrained = (
        evidence.mean_array(VALUES, "abs_leading_cosines", SMALL, stage=stage) for stage in ("half", "init")
    )
    for which, colour, marker, name in ((1, BLUE, "s", "memory"), (2, RED, "D", "reasoning")):
        of = np.flatnonzero(group.astype(int) == which)
        look = {"ms": 2.6, "mfc": "none", "mec": colour, "mew": 0.5, "alpha": 0.7, "clip_on": False}
        axes.plot(tokens[of], leading[:, of].T, marker, **look)
        axes.plot(tokens[of], mean[of], "_", ms=8, mew=2, color=colour, label=f"{name} anchors")
    of = np.flatnonzero(group.astype(int) > 0)
    axes.plot(tokens[of], untrained[of], "x", ms=3.5, mew=1, color=GREY, label="untrained (mean)")
    threshold(axes, evidence.threshold("M4"), written(evidence, "M4"), RED, x=0.62)
    threshold(axes, evidence.threshold("M5"), written(evidence, "M5"), BLUE, x=0.99)
    axes.set(ylim=(0, 1.42), yticks=[0, 0.25, 0.5, 0.75, 1])
    axes.set(xlabel="anchor (token)", ylabel="|cos(u$_1$, embedding)|")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_title(f"leading vector of W$_V$,\nγ = {SMALL:g}, half")
    legend.panel(axes, "upper left", handletextpad=0.3)


def caption_first_layer(evidence: Evidence) -> Caption:
    """Caption of L0's attention."""
    distance = over_seeds(evidence, "uniformity", "tv", SMALL, stage="half", set="rsn_train")
    reasoning, memory = (
        over_seeds(evidence, VALUES, f"cos_{anchors}", SMALL, stage="half") for anchors in ("reasoning", "memory")
    )
    least = {claim: two_digits(evidence.threshold(claim)) for claim in ("M1", "M4", "M5")}
    return Caption(
        f"Top: mean attention of L0 on reasoning inputs at γ = {LARGE:g} (matched) and γ = {SMALL:g} (half, "
        f"the same step), seed {min(evidence.seeds, default=0)} (the lowest), beside the exact average. Bottom left: "
        f"total variation distance of each row from 1/i; the median over {seeds_text(len(evidence.seeds))} at γ = "
        f"{SMALL:g} is {distance}. Bottom middle: singular values of L0's W_V relative to the largest. Bottom right: "
        "absolute cosine of its leading left singular vector u1 with centred anchor embeddings (dots are seeds, bars "
        f"means); over seeds {reasoning} for reasoning, {memory} for memory anchors.",
        f"a distance above {least['M1']} at γ = {SMALL:g} (M1) or as small at γ = {LARGE:g} (M2); s1/s2 below "
        f"{evidence.threshold('M3'):g} (M3) or no larger than in the untrained model; red bars below {least['M4']} "
        f"(M4), blue bars above {least['M5']} (M5), or red and blue alike (M6).",
    )


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
