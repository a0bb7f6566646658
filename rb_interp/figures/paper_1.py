"""Figures of paper 1 that several studies show: learning curves and bias index, embeddings, and
Theorem 1."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from rb_interp.claims.claim import Term, curve
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.intervals import intervals_or_nan, mean_text, two_digits

SetLook = tuple[str, Any, Any]
"""Label, colour and line."""
MAPPINGS: dict[str, SetLook] = {
    name: (kit.SETS[name], kit.SET_COLOURS[name], kit.SET_LINES[name]) for name in kit.SETS
}
HALF = "#6d2a78"
GROUPS = {
    0: ("key", kit.KEY, "o"),
    1: ("memory anchor", kit.MEMORY, "s"),
    2: ("reasoning anchor", kit.REASONING, "D"),
}
TURNS = np.pi / 4 * np.array([0, 1, -1, 2, -2, 3, -3, 4])
"""How far a name may turn from its first direction, in the order in which places are tried."""
NAME_PANEL, NAME_SIZE = 110, 9
"""Points that a panel is wide, about, and that two names must stand apart."""
WRITE_UP_TO = 10
"""Cells carry their value in matrices of at most this many tokens."""


def geometry(quantity: str, stage: str = "final") -> Term:
    """A number or an array of the probe ``geometry`` at the small initialisation."""
    return Term("geometry", quantity, SMALL, stage)


def learning(
    evidence: Evidence, sets: Mapping[str, SetLook], below: float = 0.0
) -> tuple[Figure, GridSpec, list[Axes]]:
    """Loss and accuracy of sets by training step: figure, grid (two columns a rate, a free row),
    panels of losses."""
    rates_shown = evidence.shown_gammas
    figure = kit.new_figure(3.9 + 1.9 * below, max(kit.WIDTH, 2.1 * len(rates_shown)))
    heights = (1, 1, below) if below else (1, 1)
    grid = figure.add_gridspec(len(heights), 2 * len(rates_shown), height_ratios=heights)
    losses: list[Axes] = []
    for row, quantity in enumerate(("loss", "accuracy")):
        first: Axes | None = None
        for column, gamma in enumerate(rates_shown):
            axes = figure.add_subplot(grid[row, 2 * column : 2 * column + 2], sharey=first)
            first = first or axes
            with kit.missing(axes):
                for name, (label, colour, dash) in sets.items():
                    kit.curve(axes, evidence, gamma, name, quantity, colour, dash, label)
            axes.tick_params(labelleft=axes is first)
            if quantity == "loss":
                axes.set(title=kit.title_of(evidence, gamma), xlabel="")
                losses.append(axes)
    # the axis ends at what curves need after a twentieth of the steps, at most twice a guess's loss
    guess = math.log(evidence.task.d_vocab)
    later = evidence.curves.query("step > 0.05 * step.max()")["loss"]
    highest = min(max([guess, *later]), 2 * guess)
    losses[0].set(ylabel="cross entropy (nats)", ylim=(0, 1.1 * highest))
    figure.axes[len(losses)].set(ylabel="accuracy (share correct)", ylim=(-0.02, 1.02))
    return figure, grid, losses


def draw_learning(evidence: Evidence, family: str) -> Figure:
    """Loss and accuracy (after Fig. 3B), and bias indices by rate (Fig. 3A) with the thresholds of
    a claims' family."""
    sets = {name: look for name, look in MAPPINGS.items() if name in evidence.task.sets}
    figure, grid, losses = learning(evidence, sets, below=1.0)
    guess, columns = math.log(evidence.task.d_vocab), len(losses)
    for axes, gamma in zip(losses, evidence.gammas, strict=True):
        for height in (guess, guess / 2):
            axes.axhline(height, color=kit.GREY, lw=0.7, ls=(0, (1, 2)), zorder=1)
        with kit.missing(axes):
            half = evidence.values(curve("half_step", "", gamma))
            learned = evidence.curves.query(
                "set == 'rsn_train' and gamma == @gamma and loss <= @guess / 2"
            )
            half = half[half.index.isin(set(learned["seed"]))]
            axes.plot(
                half,
                np.full(len(half), guess / 2),
                "v",
                ms=5,
                mfc=HALF,
                mec="white",
                mew=0.5,
                zorder=5,
            )
            bias = mean_text(*evidence.spread(curve("bias", "", gamma)))
            axes.set_title(f"{kit.title_of(evidence, gamma)}\nB = {bias}")
    index = [figure.add_subplot(grid[2, :columns]), figure.add_subplot(grid[2, columns:])]
    for axes, quantity, name in zip(
        index, ("bias", "bias_test"), ("rsn_train", "rsn_test"), strict=True
    ):
        with kit.missing(axes):
            series = kit.Series(curve(quantity, ""), colour=kit.SET_COLOURS[name], marker="o")
            kit.rates(axes, evidence, series, joined=True)
            kit.zero(axes)
            axes.margins(y=0.15)
            axes.set_title(
                f"{'B' if name == 'rsn_train' else 'B_test'}: memory against {kit.SETS[name]}"
            )
            kit.threshold(axes, evidence, f"{family}1", int(quantity == "bias_test"), SMALL)
            if quantity == "bias" and LARGE in evidence.gammas:
                x, wide = evidence.gammas.index(LARGE), evidence.threshold(f"{family}2")
                axes.fill_between(
                    [x - 0.36, x + 0.36], -wide, wide, color="#ececec", lw=0, zorder=0
                )
                kit.margin(axes, {f"{family}2\n± {two_digits(wide)}": -wide})
    index[0].set_ylabel("bias index (↑ reasoning first)")
    marks = [
        kit.line("ln d_vocab, and half of it", kit.GREY, (0, (1, 2)), 0.7),
        kit.key("stage “half”", HALF, "v", filled=True),
    ]
    kit.legend(figure, 5, marks)
    return figure


def stage_text(evidence: Evidence, seed: int, stage: str) -> str:
    """A seed and a stage's name, with its step where a reading has it."""
    step = 0 if stage == "init" else evidence.step(SMALL, seed, stage)
    return (
        f"seed {seed}, "
        + {"init": "untrained"}.get(stage, stage)
        + ("" if step is None else f" (step {step:,})")
    )


def draw_embedding(evidence: Evidence, stages: Iterable[str] = ("init", "half", "final")) -> Figure:
    """Cosines between anchor embeddings at three stages (after Fig. 5A), and principal components
    (after Fig. 5B)."""
    evidence.require(SMALL)
    figure, axes = kit.panels(3, 3, 8.0)
    rows = (("memory", "cos_memory", "mean cosine"), ("reasoning", "order_rho", "order (Spearman)"))
    for line, (anchors, quantity, word) in zip(axes, rows, strict=False):
        for panel, stage in zip(line, stages, strict=True):
            with kit.missing(panel):
                seed, matrix = evidence.first(geometry(f"cos_{anchors}_matrix", stage))
                anchor_cosines(panel, matrix, evidence.task.tokens(f"{anchors}_anchor"))
                value = evidence.value(geometry(quantity, stage), seed)
                panel.set_title(
                    f"{stage_text(evidence, seed, stage)}\n{word} {mean_text(value, np.nan, np.nan)}"
                )
        line[0].set_ylabel(f"{anchors} anchor (token)")
    images = [panel.images[0] for panel in axes.flat if panel.images]
    if images:
        look: dict[str, Any] = {"location": "bottom", "shrink": 0.4, "ticks": [-1, -0.5, 0, 0.5, 1]}
        figure.colorbar(images[0], ax=axes[:2], label="cosine of two token embeddings", **look)
    for panel, stage in zip(axes[2], ("init", "final"), strict=False):
        with kit.missing(panel):
            seed, points = evidence.first(geometry("pca", stage))
            _, tokens = evidence.first(geometry("tokens", stage))
            _, group = evidence.first(geometry("group", stage))
            _, explained = evidence.first(geometry("explained", stage))
            scatter_tokens(
                panel, points[:, :2], tokens.astype(int), group.astype(int), stage != "init"
            )
            panel.set_xlabel(f"PC 1 ({100 * explained[0]:.0f} % of variance)")
            panel.set_ylabel(f"PC 2 ({100 * explained[1]:.0f} %)")
            panel.set_title(stage_text(evidence, seed, stage))
    with kit.missing(axes[2, 2]):
        kit.rates(axes[2, 2], evidence, kit.Series(geometry("abs_cos")), untrained=True)
        random = evidence.spread(geometry("abs_cos_random")).estimate
        kit.zero(axes[2, 2], random)
        kit.margin(axes[2, 2], {"random\nvectors": random})
        axes[2, 2].set(ylim=(0, None), ylabel="mean |cos| of two tokens", title="all tokens, final")
    entries = [kit.key(name, colour, marker) for name, colour, marker in GROUPS.values()]
    kit.legend(figure, 5, [*entries, kit.line("joins consecutive values", kit.GREY, width=0.8)])
    return figure


def anchor_cosines(axes: Axes, matrix: np.ndarray, tokens: np.ndarray) -> None:
    """Cosines between anchors, written out where there are few."""
    kit.heat_map(axes, matrix, tokens, write=two_digits if len(matrix) <= WRITE_UP_TO else None)
    axes.tick_params(labelsize=6)


def scatter_tokens(
    axes: Axes, points: np.ndarray, tokens: np.ndarray, group: np.ndarray, label_ends: bool = True
) -> None:
    """Tokens in a plane: groups by colour and marker, values by shade, consecutive values joined,
    ends ``label_ends``."""
    for number, (_, colour, marker) in GROUPS.items():
        members = np.flatnonzero(group == number)
        members = members[np.argsort(tokens[members])]
        if not len(members):
            continue
        if number != 1:  # memory anchors have no order that a line could show
            axes.plot(*points[members].T, color=colour, lw=0.6, alpha=0.55, zorder=1)
        shades = np.linspace(0.25, 1, len(members)) if number != 1 else np.full(len(members), 0.8)
        base = np.array(to_rgb(colour))
        ends = [(0, tuple(base + 0.75 * (1 - base))), (0.6, colour), (1, tuple(base * 0.5))]
        ramp = LinearSegmentedColormap.from_list("shades", ends)
        look = {
            "c": ramp(shades),
            "s": 24 if number else 14,
            "edgecolors": "white",
            "lw": 0.4,
        }
        axes.scatter(*points[members].T, marker=marker, zorder=2 + number, **look)
    axes.margins(0.18)
    if label_ends:
        _name_ends(axes, points, tokens, group)


def _name_ends(axes: Axes, points: np.ndarray, tokens: np.ndarray, group: np.ndarray) -> None:
    """The lowest and the highest token of each group, away from its middle and from other names."""
    width = np.maximum(np.ptp(points, 0), 1e-12)
    positions: list[np.ndarray] = []
    for number in GROUPS:
        members = np.flatnonzero(group == number)
        if not len(members):
            continue
        for end in (min(members, key=tokens.item), max(members, key=tokens.item)):
            away = (points[end] - points[members].mean(0)) / width
            angle = np.arctan2(away[1], away[0])
            for turn in TURNS:
                direction = np.array([np.cos(angle + turn), np.sin(angle + turn)])
                position = NAME_PANEL * points[end] / width + 8 * direction
                if all(np.abs(position - other).max() > NAME_SIZE for other in positions):
                    break
            positions.append(position)
            look = {
                "fontsize": 6,
                "xytext": (8 * direction[0], 8 * direction[1]),
                "ha": "center",
                "va": "center",
            }
            kit.note(axes, str(tokens[end]), tuple(points[end].tolist()), "data", **look)


def draw_theory(evidence: Evidence) -> Figure:
    """Cosines by Theorem 1, one of its rows with the real one (after Fig. 5C), and its principal
    components (5D)."""
    evidence.require(SMALL)
    figure, [[left, middle, right]] = kit.panels(1, 3, 2.9)
    tokens = evidence.task.tokens("reasoning_anchor")
    anchor = (len(tokens) - 1) // 2
    with kit.missing(left):
        _, theory = evidence.first(geometry("theory_cos_matrix"))
        anchor_cosines(left, theory, tokens)
        left.set(xlabel="reasoning anchor (token)", title="theory (Eq. 14): cosines")
    with kit.missing(middle):
        _, theory = evidence.first(geometry("theory_cos_matrix"))
        real = evidence.array(geometry("cos_reasoning_matrix"))
        middle.plot(
            tokens,
            np.stack([matrix[anchor] for matrix in real.values()]).T,
            color=kit.TRAINED,
            lw=0.6,
            alpha=0.5,
        )
        mean, low, high = intervals_or_nan(
            np.stack([matrix[anchor] for matrix in real.values()], 1)
        ).T
        middle.fill_between(tokens, low, high, color=kit.TRAINED, alpha=0.18, lw=0)
        middle.plot(tokens, mean, "-D", color=kit.TRAINED, ms=3.5, lw=1.6, label="trained")
        middle.plot(tokens, theory[anchor], "--o", color=kit.INK, ms=3, lw=1.2, label="theory")
        middle.set(
            xlabel="reasoning anchor s",
            ylabel=f"cos(w$_{{{tokens[anchor]}}}$, w$_s$)",
            ylim=(None, 1.05),
        )
        middle.set_title(f"anchor {tokens[anchor]} and the others")
    with kit.missing(right):
        _, points = evidence.first(geometry("pca_theory"))
        _, theory_tokens = evidence.first(geometry("pca_theory_tokens"))
        _, group = evidence.first(geometry("pca_theory_group"))
        scatter_tokens(right, points, theory_tokens.astype(int), group.astype(int))
        right.set(
            xlabel="PC 1 (no unit)",
            ylabel="PC 2 (no unit)",
            title="theory: keys, reasoning anchors",
        )
    kit.legend(figure)
    return figure
