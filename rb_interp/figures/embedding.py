"""Fig. 5 of paper 1: cosines and principal components of the token embeddings, beside Theorem 1 (Eq. 14)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import heat_map, note, over_seeds, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import GREY, INK, KEY, MEMORY, REASONING, TRAINED, new_figure

GROUPS = {0: ("key", KEY, "o"), 1: ("memory anchor", MEMORY, "s"), 2: ("reasoning anchor", REASONING, "D")}
STAGES = {"init": "untrained", "half": "half", "final": "final"}
WRITE_UP_TO = 10
"""Cells carry their value in matrices of at most this many tokens."""
SIDES = {1: "left", 0: "center", -1: "right"}
HEIGHTS = {1: "bottom", 0: "center", -1: "top"}
LABEL = np.array([0.04, 0.03])
"""How far the middle of a label lies from its mark, as a share of both axes."""
CROWDED = 0.1
"""A group that takes less than this share of both axes gets one label for all its tokens."""


def stage_text(evidence: Evidence, gamma: float, seed: int, stage: str) -> str:
    """A stage's name, with its step where a reading has it."""
    step = 0 if stage == "init" else evidence.step(gamma, seed, stage)
    return STAGES.get(stage, stage) + ("" if step is None else f" (step {step:,})")


def draw_cosines(evidence: Evidence, stages: Iterable[str] = STAGES) -> Figure:
    """Cosines between anchor embeddings at three stages, small initialisation (after Fig. 5A)."""
    evidence.require(SMALL)
    figure = new_figure(5.0)
    panels = figure.subplots(2, 3)
    rows = (("memory", "cos_memory", "mean cosine"), ("reasoning", "order_rho", "order (Spearman)"))
    for line, (anchors, quantity, word) in zip(panels, rows, strict=True):
        for axes, stage in zip(line, stages, strict=True):
            try_panel(axes, _cosine_panel, evidence, anchors, stage, quantity, word)
        line[0].set_ylabel(f"{anchors} anchor (token)")
    images = [axes.images[0] for axes in panels.flat if axes.images]
    if images:
        figure.colorbar(images[0], ax=panels, label="cosine of two token embeddings", shrink=0.5, aspect=30)
    return figure


def _cosine_panel(axes: Axes, evidence: Evidence, anchors: str, stage: str, quantity: str, word: str) -> None:
    seed, matrix = evidence.first("geometry", f"cos_{anchors}_matrix", SMALL, stage=stage)
    anchor_cosines(axes, matrix, evidence.task.tokens(f"{anchors}_anchor"))
    value = share_text(evidence.value("geometry", quantity, SMALL, seed, stage=stage), np.nan, np.nan)
    axes.set_title(f"{stage_text(evidence, SMALL, seed, stage)}\n{word} {value}")
    axes.set_xlabel(f"{anchors} anchor (token)")


def anchor_cosines(axes: Axes, matrix: np.ndarray, tokens: np.ndarray) -> None:
    """Cosines between anchors, written out where there are few."""
    heat_map(axes, matrix, tokens, write=two_digits if len(matrix) <= WRITE_UP_TO else None, text=48.0)


def draw_pca(evidence: Evidence) -> Figure:
    """Principal components of all used token embeddings, untrained and trained (after Fig. 5B)."""
    evidence.require(SMALL)
    figure = new_figure(3.6)
    for axes, stage in zip(figure.subplots(1, 2), ("init", "final"), strict=True):
        try_panel(axes, _pca_panel, evidence, stage)
    entries = [
        legend.mark(name, colour, marker, 5.0, mfc=colour, mec=colour) for name, colour, marker in GROUPS.values()
    ]
    entries.append(legend.line("joins consecutive values (darker: larger)", GREY, width=0.8))
    legend.above(figure, entries, columns=4)
    return figure


def _pca_panel(axes: Axes, evidence: Evidence, stage: str) -> None:
    seed, points = evidence.first("geometry", "pca", SMALL, stage=stage)
    names = ("tokens", "group", "explained")
    tokens, group, explained = (evidence.first("geometry", name, SMALL, stage=stage)[1] for name in names)
    scatter_tokens(axes, points[:, :2], tokens.astype(int), group.astype(int))
    axes.set_xlabel(f"PC 1 ({100 * explained[0]:.0f} % of variance)")
    axes.set_ylabel(f"PC 2 ({100 * explained[1]:.0f} %)")
    axes.set_title(f"γ = {SMALL:g}, {stage_text(evidence, SMALL, seed, stage)}")


def scatter_tokens(axes: Axes, points: np.ndarray, tokens: np.ndarray, group: np.ndarray) -> None:
    """Tokens in a plane: groups by colour and marker, values by shade, consecutive values joined, some written out."""
    for which, (_, colour, marker) in GROUPS.items():
        of = np.flatnonzero(group == which)
        of = of[np.argsort(tokens[of])]
        if not len(of):
            continue
        x, y = points[of].T
        if which != 1:  # memory anchors have no order that a line could show
            axes.plot(x, y, color=colour, lw=0.6, alpha=0.55, zorder=1)
        shades = np.linspace(0.25, 1, len(of)) if which != 1 else np.full(len(of), 0.8)
        look = {"c": _ramp(colour)(shades), "s": 24 if which else 14, "edgecolors": "white", "lw": 0.4}
        axes.scatter(x, y, marker=marker, zorder=2 + which, **look)
        every = 10 if not which else 2 if len(of) > 12 else 1
        _write_tokens(axes, points, points[of], tokens[of], every)
    axes.margins(0.08)


def _write_tokens(axes: Axes, every_point: np.ndarray, points: np.ndarray, tokens: np.ndarray, every: int) -> None:
    """Labels of some tokens of a group at their points, or one label in the middle of a crowded group."""
    labels = [(str(token), place) for token, place in zip(tokens[::every], points[::every], strict=True)]
    if len(tokens) > 1 and (np.ptp(points, axis=0) < CROWDED * np.ptp(every_point, axis=0)).all():
        labels = [(f"{tokens[0]}–{tokens[-1]}", (points.min(axis=0) + points.max(axis=0)) / 2)]
    for text, place in labels:
        across, up = _free_side(every_point, place)
        aligned = {"ha": SIDES[across], "va": HEIGHTS[up]}
        note(axes, text, tuple(place), "data", halo=1.4, fontsize=6, xytext=(4 * across, 4 * up), **aligned)


def _free_side(points: np.ndarray, place: np.ndarray) -> tuple[int, int]:
    """The side of a place, of eight, that lies furthest from the nearest of the points."""
    size = np.maximum(np.ptp(points, axis=0), 1e-12)
    sides = [(across, up) for across in (1, 0, -1) for up in (1, 0, -1) if across or up]
    places = place / size + LABEL * np.array(sides)
    return sides[int(np.linalg.norm(places[:, None] - points / size, axis=2).min(1).argmax())]


def _ramp(colour: str) -> LinearSegmentedColormap:
    """From a light to a dark shade of a colour, which itself lies at .6."""
    base = np.array(to_rgb(colour))
    light, dark = base + 0.75 * (1 - base), base * 0.5
    return LinearSegmentedColormap.from_list("shades", [(0, tuple(light)), (0.6, colour), (1, tuple(dark))])


def caption_pca(evidence: Evidence, judged: str, least: float | None = None) -> Caption:
    """Caption of the embedding's principal components.

    Args:
        judged: the claim, as it is called in brackets. least: its threshold, in a study that does not judge it.
    """
    key, reasoning = (over_seeds(evidence, "geometry", f"pc1_{group}", SMALL) for group in ("key", "reasoning"))
    least = evidence.threshold(judged) if least is None else least
    return Caption(
        f"First two principal components of the embeddings of all tokens in use (centred) at γ = {SMALL:g}, seed "
        f"{min(evidence.seeds, default=0)} (the lowest), untrained (left) and trained (right). Over all seeds the rank "
        f"correlation of the leading component with token value is {key} for keys and {reasoning} for "
        "reasoning anchors (in absolute value). Tokens that lie in the order of their values along one direction form "
        "a number line; the line that joins them then runs one way.",
        "joined tokens that wander instead of running along the first axis, that is a rank correlation below "
        f"{two_digits(least)} for keys or for reasoning anchors ({judged}). The sign of a component is arbitrary.",
    )


def draw_theory(evidence: Evidence) -> Figure:
    """Theoretical cosine matrix, one of its rows with the real one, and the theory's principal components."""
    evidence.require(SMALL)
    figure = new_figure(2.75)
    for axes, draw in zip(figure.subplots(1, 3), (_matrix, _middle_row, _theory_pca), strict=True):
        try_panel(axes, draw, evidence)
    return figure


def _matrix(axes: Axes, evidence: Evidence) -> None:
    _, matrix = evidence.first("geometry", "theory_cos_matrix", SMALL, stage="final")
    anchor_cosines(axes, matrix, evidence.task.tokens("reasoning_anchor"))
    if len(matrix) > WRITE_UP_TO:
        axes.figure.colorbar(axes.images[0], ax=axes, label="cosine", location="bottom", shrink=0.8, aspect=25)
    axes.set_xlabel("reasoning anchor (token)")
    axes.set_title("theory (Eq. 14): cosines")


def middle_anchor(evidence: Evidence) -> tuple[int, int]:
    """Place and token of the middle reasoning anchor, 15 in the paper's range 11 to 20."""
    tokens = evidence.task.tokens("reasoning_anchor")
    place = (len(tokens) - 1) // 2
    return place, int(tokens[place])


def _middle_row(axes: Axes, evidence: Evidence) -> None:
    tokens, (place, token) = evidence.task.tokens("reasoning_anchor"), middle_anchor(evidence)
    _, theory = evidence.first("geometry", "theory_cos_matrix", SMALL, stage="final")
    real = evidence.array("geometry", "cos_reasoning_matrix", SMALL, stage="final")
    rows = np.stack([matrix[place] for matrix in real.values()])
    mean, low, high = (
        evidence.mean_array("geometry", "cos_reasoning_matrix", SMALL, stage="final", end=end)[place]
        for end in ("mean", "low", "high")
    )
    axes.plot(tokens, rows.T, color=TRAINED, lw=0.6, alpha=0.5)
    axes.fill_between(tokens, low, high, color=TRAINED, alpha=0.18, lw=0)
    axes.plot(tokens, mean, "-D", color=TRAINED, ms=3.5, lw=1.6, label=f"trained, {seeds_text(len(rows))}")
    axes.plot(tokens, theory[place], "--o", color=INK, ms=3, lw=1.2, label="theory")
    axes.set_ylim(min(0.0, float(min(rows.min(), theory[place].min(), *low[np.isfinite(low)])) - 0.05), 1.05)
    axes.set_xticks(tokens if len(tokens) <= WRITE_UP_TO else tokens[::2])
    axes.set(xlabel="reasoning anchor s", ylabel=f"cos(w$_{{{token}}}$, w$_s$)")
    axes.set_title(f"anchor {token} and the others")
    legend.panel(axes, "lower center")


def _theory_pca(axes: Axes, evidence: Evidence) -> None:
    names = ("pca_theory", "pca_theory_tokens", "pca_theory_group")
    points, tokens, group = (evidence.first("geometry", name, SMALL, stage="final")[1] for name in names)
    scatter_tokens(axes, points, tokens.astype(int), group.astype(int))
    axes.set(xlabel="PC 1 (no unit)", ylabel="PC 2 (no unit)")
    axes.set_title("theory: keys, reasoning anchors")


def caption_theory(evidence: Evidence, judged: str, least: float | None = None) -> Caption:
    """Caption of the comparison with Theorem 1.

    Args:
        judged: the claim, as it is called in brackets. least: its threshold, in a study that does not judge it.
    """
    least = evidence.threshold(judged) if least is None else least
    return Caption(
        "Left: cosines of the embeddings that Eq. 14 predicts, without noise. Middle: cosines of anchor "
        f"{middle_anchor(evidence)[1]} with every reasoning anchor at γ = {SMALL:g}, end of training; thin lines are "
        "seeds, the band is the 95 % interval of their mean. Right: principal components of the predicted embeddings, "
        "keys yellow, reasoning anchors brown. Over all pairs of reasoning anchors, real and predicted cosines "
        f"correlate with {over_seeds(evidence, 'geometry', 'theory', SMALL)} (Pearson, all seeds).",
        "a trained curve without the peak of the dashed one, that is a correlation below "
        f"{two_digits(least)} ({judged}). The level of the curves is free in the theory "
        "(its constants depend on the training), so a difference in "
        "height refutes nothing.",
    )
