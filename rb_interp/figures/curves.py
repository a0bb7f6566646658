"""Curves over training: seeds as thin lines, their mean, the band of its interval, and axes of steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rb_interp.figures.evidence import Evidence, MissingEvidenceError

DRAWN = 400
UNITS = {1_000_000: " (millions)", 1000: " (thousands)", 1: ""}
APART = 0.08
"""Labels of steps keep this share of the axis between them."""


def learning_curve(
    evidence: Evidence, gamma: float, set: str, quantity: str = "loss"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Learning curves of a set: steps (index) by seeds, and mean, low, high, n by step (index), thinned to DRAWN steps.

    Args:
        quantity: ``loss`` (nats) or ``accuracy``.

    Raises MissingEvidenceError where the run has none.
    """
    rows = evidence.curves.loc[np.isclose(evidence.curves["gamma"], gamma) & (evidence.curves["set"] == set)]
    if rows.empty:
        raise MissingEvidenceError(f"This run has no learning curve of {set} at γ = {gamma:g}.")
    seeds = by_seed(rows, quantity)
    means = by_step(evidence.table("curves_summary", gamma=gamma, set=set, quantity=quantity))
    kept = thin(seeds.index.to_numpy())
    return seeds.loc[kept], means.loc[means.index.isin(kept)]


def by_seed(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows of a table as steps (index, ascending) by seeds (columns)."""
    return rows.pivot(index="step", columns="seed", values=column).sort_index()


def by_step(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table over seeds as mean, low, high and n by step (index, ascending)."""
    return rows.set_index("step").sort_index().loc[:, ["mean", "low", "high", "n"]]


def thin(steps: np.ndarray) -> np.ndarray:
    """The evaluations that are drawn: all, or DRAWN evenly spaced ones with the first and the last."""
    return steps if len(steps) <= DRAWN else steps[np.linspace(0, len(steps) - 1, DRAWN).round().astype(int)]


def mean_band(
    axes: Axes,
    seeds: pd.DataFrame,
    means: pd.DataFrame,
    colour: object,
    line: object = "-",
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> None:
    """Seeds (columns) as thin lines over steps (rows), their mean, and from three seeds on its 95 % interval as a band.

    Args:
        means: mean, low, high, n by step; drawn at the steps that most seeds have. limits: where the band is cut.
    """
    for _, values in seeds.items():
        values = values.dropna()
        axes.plot(values.index, values, color=colour, lw=0.5, alpha=0.45, zorder=2)
    shared = means.loc[means["n"] == means["n"].max()]
    if seeds.shape[1] > 2:
        low, high = shared["low"].clip(*limits), shared["high"].clip(*limits)
        axes.fill_between(shared.index, low, high, color=colour, alpha=0.12, lw=0, zorder=1)
    axes.plot(shared.index, shared["mean"], color=colour, lw=1.7, ls=line, zorder=3)


def step_axis(axes: Axes, last: float) -> None:
    """Axis of training steps up to ``last``, in thousands or millions where that reads better."""
    unit, name = next((u, n) for u, n in UNITS.items() if last >= 2 * u or u == 1)
    axes.set_xlabel(f"training step{name}")
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value / unit:,g}")
    axes.xaxis.set_major_locator(MaxNLocator(4))


def kept_steps_axis(axes: Axes, steps: np.ndarray) -> None:
    """Axis of kept steps: logarithmic from the first on, linear before it, with a tick at each."""
    first = float(steps[steps > 0].min()) if (steps > 0).any() else 1.0
    axes.set_xscale("symlog", linthresh=first, linscale=0.5)
    axes.set_xlim(-0.2 * first, max(1.25 * float(steps.max()), first))
    places = axes.get_xaxis_transform().transform([(step, 0) for step in steps])[:, 0]
    places = (places - places.min()) / (np.ptp(places) or 1)
    shown = zip(steps, legible(places), strict=True)
    axes.set_xticks(steps, [f"{int(step):,}" if kept else "" for step, kept in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training step")


def legible(places: np.ndarray) -> list[bool]:
    """Which of ascending places in [0, 1] get a label: the last, and each that keeps APART from its neighbours.

    >>> legible(np.array([0.0, 0.05, 0.3, 0.97, 1.0]))
    [True, False, True, False, True]
    """
    kept: list[int] = []
    for at, place in enumerate(places):
        if not kept or (place - places[kept[-1]] >= APART and (places[-1] - place >= APART or at == len(places) - 1)):
            kept.append(at)
    return [at in kept for at in range(len(places))]
