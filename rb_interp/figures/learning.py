"""Fig. 3A of paper 1: which mapping is learned first."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rb_interp.figures.evidence import LARGE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import number, seeds_text, share_text
from rb_interp.figures.panels import (
    Caption,
    say,
    seed_interval,
)  # fmt: skip
from rb_interp.figures.style import GREY, SET_COLOURS, SET_LINES, SETS, WIDTH, new_figure, styled

DRAWN = 400
LIMIT = 2.0
UNITS = {1_000_000: " (millions)", 1000: " (thousands)", 1: ""}
HALF = "#6d2a78"
REFUTED = (
    " A mean on the wrong side does not yet refute: a claim FAILS where the whole 95 % interval over seeds lies there, "
    "and is UNDECIDED where the interval holds the threshold."
)


@styled
def draw_learning(evidence: Evidence) -> Figure:
    """Loss and accuracy of the three sets against training step, one column per rate (after Fig. 3A)."""
    columns = len(evidence.gammas)
    figure = new_figure(3.9, max(WIDTH, 2.1 * columns))
    if not columns:
        say(figure.subplots(), "This run has no learning curves.")
        return figure
    panels = figure.subplots(2, columns, sharex=True, sharey="row", squeeze=False)
    top = loss_limit(evidence)
    for column, gamma in enumerate(evidence.gammas):
        loss, accuracy = panels[:, column]
        _curves(loss, evidence, gamma, "loss")
        _half_marks(loss, evidence, gamma, named=column == columns - 1)
        loss.set_ylim(0, top)
        _curves(accuracy, evidence, gamma, "accuracy")
        accuracy.set_ylim(-0.02, 1.02)
        loss.set_title(_title(evidence, gamma))
        step_axis(accuracy, float(evidence.curves["step"].to_numpy().max()))
    panels[0, 0].set_ylabel("cross entropy (nats)")
    panels[1, 0].set_ylabel("accuracy (share correct)")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=5)
    return figure


def thin(steps: np.ndarray) -> np.ndarray:
    """The evaluations that are drawn: all, or DRAWN evenly spaced ones with the first and the last."""
    return steps if len(steps) <= DRAWN else steps[np.linspace(0, len(steps) - 1, DRAWN).round().astype(int)]


def step_axis(axes: Axes, last: float) -> None:
    """Axis of training steps up to ``last``, in thousands or millions where that reads better."""
    unit, name = next((u, n) for u, n in UNITS.items() if last >= 2 * u or u == 1)
    axes.set_xlabel(f"training step{name}")
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value / unit:,g}")
    axes.xaxis.set_major_locator(MaxNLocator(4))


def loss_limit(evidence: Evidence) -> float:
    """Upper end of the loss axis in nats: what the curves need, at most LIMIT times a uniform guess's loss.

    A large initialisation starts at hundreds of nats and a held-out set may end there; the rest must stay legible.
    """
    guess = math.log(evidence.task.d_vocab)
    later = evidence.curves.loc[evidence.curves["step"] > 0.05 * evidence.curves["step"].max(), "loss"]
    highest = float(later.max()) if len(later) else guess
    return 1.1 * min(max(highest, guess), LIMIT * guess)


def _title(evidence: Evidence, gamma: float) -> str:
    seeds = evidence.curves.loc[evidence.curves["gamma"] == gamma, "seed"].nunique()
    try:
        bias = share_text(*seed_interval(evidence.values("learning_order", "bias", gamma)))
    except MissingEvidenceError:
        bias = "n/a"
    return f"γ = {gamma:g}   ({seeds_text(seeds)})\nB = {bias}"


def _curves(axes: Axes, evidence: Evidence, gamma: float, column: str) -> None:
    rows = evidence.curves.loc[evidence.curves["gamma"] == gamma]
    for name in SETS:
        table = pd.pivot_table(rows.loc[rows["set"] == name], index="step", columns="seed", values=column)
        if table.empty:
            continue
        table = table.loc[thin(table.index.to_numpy())]
        steps, values = table.index.to_numpy(), table.to_numpy()
        colour, line = SET_COLOURS[name], SET_LINES[name]
        axes.plot(steps, values, color=colour, lw=0.5, alpha=0.45, zorder=2)
        mean, low, high = band(table)
        if table.shape[1] > 2:
            axes.fill_between(steps, low, high, color=colour, alpha=0.12, lw=0, zorder=1)
        axes.plot(steps, mean, color=colour, lw=1.7, ls=line, zorder=3)


def band(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over seeds (columns) at each step (rows), and the ends of its 95 % interval."""
    found = [seed_interval(row[~np.isnan(row)]) for row in table.to_numpy()]
    mean, low, high = np.array(found).reshape(-1, 3).T
    return mean, low, high


def mean_band(axes: Axes, table: pd.DataFrame, colour: object, limits: tuple[float, float] = (-np.inf, np.inf)) -> None:
    """Seeds (columns) as thin lines over steps (rows); their mean, and from three seeds on its 95 % interval as a band.

    Mean and band stand at the steps that all seeds have; the band's ends are cut at ``limits``.
    """
    for _, values in table.items():
        values = values.dropna()
        axes.plot(values.index, values, color=colour, lw=0.5, alpha=0.4, zorder=2)
    shared = table.dropna()
    mean, low, high = band(shared)
    if table.shape[1] > 2:
        axes.fill_between(shared.index, np.clip(low, *limits), np.clip(high, *limits), color=colour, alpha=0.12, lw=0)
    axes.plot(shared.index, mean, color=colour, lw=1.6, zorder=3)


def _half_marks(axes: Axes, evidence: Evidence, gamma: float, named: bool) -> None:
    """Where each seed's loss on reasoning (trained on) first falls to half of ln d_vocab: the stage ``half``."""
    half = math.log(evidence.task.d_vocab) / 2
    for level, text in ((2 * half, "ln d_vocab"), (half, "½ ln d_vocab")):
        axes.axhline(level, color=GREY, lw=0.7, ls=(0, (1, 2)), zorder=1)
        if not named:
            continue
        axes.annotate(text, (1, level), xycoords=axes.get_yaxis_transform(), xytext=(3, 0), ha="left", va="center",
                      fontsize=6.5, textcoords="offset points", color="#555555", annotation_clip=False)  # fmt: skip
    try:
        steps = evidence.values("learning_order", "half_step", gamma).to_numpy()
    except MissingEvidenceError:
        return
    axes.plot(steps, np.full(len(steps), half), "v", ms=5, mfc=HALF, mec="white", mew=0.5, zorder=5)


def _legend() -> list[Line2D]:
    lines = [Line2D([], [], color=SET_COLOURS[n], ls=SET_LINES[n], lw=1.7, label=SETS[n]) for n in SETS]
    thin = Line2D([], [], color=GREY, lw=0.6, label="one seed")
    mark = Line2D([], [], color=HALF, marker="v", ls="", ms=5, label="stage “half”")
    return [*lines, thin, mark]


def _cut_off(evidence: Evidence) -> str:
    limit = loss_limit(evidence)
    higher = float(evidence.curves["loss"].to_numpy().max()) > limit
    return f" Losses above {number(limit)} nats lie outside the panels." if higher else ""


def caption_learning(evidence: Evidence, family: str = "A") -> Caption:
    """Caption of the learning curves; ``family`` is the letter of the claims."""
    unsure = "" if family == "A" else REFUTED
    return Caption(
        "Cross entropy (top) and accuracy (bottom) on memory (blue), reasoning trained on (purple) and reasoning "
        f"held out (orange, dashed), for {seeds_text(len(evidence.seeds))}: thin lines are seeds, thick lines their "
        "mean, bands its 95 % interval (wide where seeds fall into two groups). Triangles: the evaluation at which "
        "a seed's purple loss first reaches half of ln d_vocab (the last one where it never does). ln d_vocab is the "
        f"loss of a uniform guess, above which B counts no loss.{_cut_off(evidence)} B above each column is positive "
        "where reasoning is learned first.",
        f"at γ = {SMALL:g}, a blue curve that falls together with the purple one or before it ({family}1), or an "
        f"orange accuracy that ends below .90 ({family}5); at γ = {LARGE:g}, curves that fall at clearly different "
        f"times ({family}2), or an orange accuracy that ends above .20 ({family}3).{unsure}",
    )
