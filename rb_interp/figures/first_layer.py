"""Fig. 6 of paper 1: the first attention layer averages, and W_V reads the reasoning anchors."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rb_interp.figures.criteria import THRESHOLDS, written
from rb_interp.figures.evidence import LARGE, MIDDLE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, share_text
from rb_interp.figures.panels import Caption, heat_map, over_seeds, threshold, try_panel
from rb_interp.figures.style import ATTENTION, BLUE, GREY, INK, RED, gamma_colour, gamma_marker, new_figure, styled

WRITE_UP_TO = 12


@styled
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
    seed, pattern = evidence.first("uniformity", "mean_pattern", gamma, stage=stage, rows="rsn_train")
    _attention(axes, pattern)
    tv = evidence.value("uniformity", "tv", gamma, seed, stage=stage, rows="rsn_train")
    axes.set_title(f"γ = {gamma:g}, {stage}, seed {seed}\nmean distance {share_text(tv, np.nan, np.nan)}")


def _average(axes: Axes, evidence: Evidence) -> None:
    length = evidence.task.length
    _attention(axes, np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None])
    axes.set_title("average operator: 1/i\nmean distance 0")


def _distance(axes: Axes, evidence: Evidence) -> None:
    """TV per row: gamma .8 at half, the paper's other rates at matched."""
    found = False
    for gamma in (g for g in evidence.gammas if g in (LARGE, MIDDLE, SMALL)):
        stage = "half" if gamma == SMALL else "matched"
        try:
            rows = np.stack(
                list(evidence.array("uniformity", "tv_per_row", gamma, stage=stage, rows="rsn_train").values())
            )
        except MissingEvidenceError:
            continue
        found = True
        colour, marker = gamma_colour(gamma, evidence.gammas), gamma_marker(gamma, evidence.gammas)
        places = np.arange(2, rows.shape[1] + 2)
        axes.plot(places, rows.T, color=colour, lw=0.5, alpha=0.5)
        axes.plot(places, rows.mean(0), color=colour, marker=marker, ms=3.5, lw=1.5, label=f"γ = {gamma:g}, {stage}")
        axes.set_xticks(places if len(places) <= WRITE_UP_TO else places[::4])
    if not found:
        raise MissingEvidenceError("This run has no reading of uniformity at the stages half or matched.")
    _untrained_distance(axes, evidence)
    axes.axhline(
        THRESHOLDS["M1"], color=INK, lw=0.9, ls=(0, (3, 1.5)), label=written("M1", "mean ≤") + f" at γ = {SMALL:g}"
    )
    axes.set_ylim(0, max(0.3, axes.get_ylim()[1]) * 1.65)
    axes.set_xlabel("position i")
    axes.set_ylabel("distance from 1/i (TV, 0 to 1)")
    axes.set_title("distance from the average,\nrow by row")
    axes.legend(loc="upper left", handlelength=1.6)


def _untrained_distance(axes: Axes, evidence: Evidence) -> None:
    try:
        twins = evidence.array("uniformity", "tv_per_row", SMALL, stage="init", rows="rsn_train")
    except MissingEvidenceError:
        return
    mean = np.mean(list(twins.values()), axis=0)
    axes.plot(np.arange(2, len(mean) + 2), mean, color=GREY, ls="--", lw=1.1, label=f"γ = {SMALL:g}, untrained")


def _spectrum(axes: Axes, evidence: Evidence) -> None:
    seeds = evidence.array("value_alignment", "singular_values", SMALL, stage="half")
    for values in seeds.values():
        _relative(axes, values, color=gamma_colour(SMALL, evidence.gammas), lw=0.5, alpha=0.5)
    mean = np.mean([values / values[0] for values in seeds.values()], axis=0)
    _relative(
        axes, mean, color=gamma_colour(SMALL, evidence.gammas), marker="D", ms=3, lw=1.4, label=f"γ = {SMALL:g}, half"
    )
    try:
        twins = evidence.array("value_alignment", "singular_values", SMALL, stage="init")
        twin = np.mean([values / values[0] for values in twins.values()], axis=0)
        _relative(axes, twin, color=GREY, ls="--", marker="o", ms=2.5, lw=1.1, label="untrained twin")
    except MissingEvidenceError:
        pass
    axes.set_ylim(0, 1.06)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("singular value k of layer 1's W$_V$")
    axes.set_ylabel("s$_k$ / s$_1$")
    axes.set_title(f"spectrum of W$_V$\ns$_1$/s$_2$ = {_over_seeds(evidence, 'spectrum_ratio')}")
    axes.legend(loc="upper right")


def _relative(axes: Axes, values: np.ndarray, **look: object) -> None:
    axes.plot(np.arange(1, len(values) + 1), values / values[0], **look)  # pyright: ignore[reportArgumentType]


def _alignment(axes: Axes, evidence: Evidence) -> None:
    seeds = evidence.array("value_alignment", "cosines", SMALL, stage="half")
    _, tokens = evidence.first("value_alignment", "tokens", SMALL, stage="half")
    _, group = evidence.first("value_alignment", "group", SMALL, stage="half")
    leading = np.abs(np.stack([cosines[0] for cosines in seeds.values()]))
    for which, colour, marker, name in ((1, BLUE, "s", "memory"), (2, RED, "D", "reasoning")):
        of = np.flatnonzero(group.astype(int) == which)
        axes.plot(
            tokens[of], leading[:, of].T, marker, ms=2.6, mfc="none", mec=colour, mew=0.5, alpha=0.7, clip_on=False
        )
        axes.plot(tokens[of], leading[:, of].mean(0), "_", ms=8, mew=2, color=colour, label=f"{name} anchors")
    _untrained_alignment(axes, evidence)
    threshold(axes, THRESHOLDS["M4"], written("M4", "≥"), RED, x=0.62)
    threshold(axes, THRESHOLDS["M5"], written("M5", "≤"), BLUE, x=0.99)
    axes.set_ylim(0, 1.42)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("anchor (token)")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylabel("|cos(u$_1$, embedding)|")
    axes.set_title(f"leading vector of W$_V$,\nγ = {SMALL:g}, half")
    axes.legend(loc="upper left", handletextpad=0.3)


def _untrained_alignment(axes: Axes, evidence: Evidence) -> None:
    try:
        twins = evidence.array("value_alignment", "cosines", SMALL, stage="init")
        _, tokens = evidence.first("value_alignment", "tokens", SMALL, stage="half")
        _, group = evidence.first("value_alignment", "group", SMALL, stage="half")
    except MissingEvidenceError:
        return
    mean = np.mean([np.abs(cosines[0]) for cosines in twins.values()], axis=0)
    of = np.flatnonzero(group.astype(int) > 0)
    axes.plot(tokens[of], mean[of], "x", ms=3.5, mew=1, color=GREY, label="untrained (mean)")


def _over_seeds(evidence: Evidence, quantity: str, probe: str = "value_alignment", rows: str = "") -> str:
    return over_seeds(evidence, probe, quantity, SMALL, stage="half", rows=rows)


def caption_first_layer(evidence: Evidence) -> Caption:
    """Caption of the first attention layer."""
    seed = min(evidence.seeds, default=0)
    return Caption(
        f"Top: mean attention of layer 1 on reasoning inputs at γ = {LARGE:g} (matched) and γ = {SMALL:g} (half, "
        f"the same step), seed {seed} (the lowest), beside the exact average. Bottom left: total variation distance "
        f"of each row from 1/i; over {seeds_text(len(evidence.seeds))} its mean at γ = {SMALL:g} is "
        f"{_over_seeds(evidence, 'tv', 'uniformity', 'rsn_train')}. Bottom middle: singular values of layer 1's W_V "
        "relative to the largest. Bottom right: absolute cosine of its leading left singular vector u1 with "
        f"centred anchor embeddings (dots are seeds, bars means): {_over_seeds(evidence, 'cos_reasoning')} for "
        f"reasoning, {_over_seeds(evidence, 'cos_memory')} for memory anchors.",
        f"a distance above .10 at γ = {SMALL:g} (M1) or as small at γ = {LARGE:g} (M2); s1/s2 below 1.5 (M3) or no "
        "larger than in the untrained twin; red bars below .70 (M4), blue bars above .30 (M5), or red and blue "
        "alike (M6).",
    )
