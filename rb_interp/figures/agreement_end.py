"""Where predicted and measured drift part: the step, and the loss left, at which agreement first falls below .9."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import number, seeds_text
from rb_interp.figures.panels import Caption, offsets, sentence_figure, try_panel
from rb_interp.figures.parts import GROUPS, LEVEL, PARTS, gammas_of, never_band, rows_of
from rb_interp.figures.style import new_figure, styled

BASE, BAND = 0.14, 0.86
"""Heights, in the panel's own, below which stand the seeds without agreement from the first kept step on, and above
which those whose agreement never falls."""
COLUMNS = [(part, "each_step", words) for part, words in PARTS.items()]
COLUMNS.append(("one_layer", "positions", "one-layer model, knowing positions too"))
MARKS = {"anchor": "o", "memory_anchor": "s", "reasoning_anchor": "D", "key": "^"}


@styled
def draw_agreement_end(evidence: Evidence) -> Figure:
    """Step and share of the loss left at which R² first falls below .9, by rate, token group and part."""
    try:
        evidence.table("agreement")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(5.4, 9.6)
    widths = [max(_count(evidence, part), 2) for part, _, _ in COLUMNS]
    panels = figure.subplots(2, len(COLUMNS), sharey="row", sharex="col", width_ratios=widths)
    for line, column in zip(panels, ("step", "fraction"), strict=True):
        shared = _scale(evidence, column)
        for axes, (part, prediction, _) in zip(line, COLUMNS, strict=True):
            try_panel(axes, _panel, evidence, part, prediction, column, shared)
    panels[0, 0].set_ylabel("training step at which R² < .90\n(log scale; higher: later)")
    panels[1, 0].set_ylabel("loss left there, f, of a uniform guess's\n(1: nothing learned yet; higher: later)")
    for top, bottom, (_, _, title) in zip(*panels, COLUMNS, strict=True):
        top.set_title(title.replace(", ", ",\n"))
        if bottom.lines:
            bottom.set_xlabel("rate γ")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=6)
    return figure


def _count(evidence: Evidence, part: str) -> int:
    try:
        return len(gammas_of(evidence, "agreement", part=part))
    except MissingEvidenceError:
        return 0


def ends(evidence: Evidence, column: str, metric: str = "r2", prediction: str = "each_step", **where: Any) -> pd.Series:
    """``step`` or ``fraction`` at which agreement first falls below .9, by seed; NaN where it never does.

    Raises MissingEvidenceError where there is none.
    """
    rows = rows_of(evidence, "agreement", metric=metric, prediction=prediction, **where)
    return pd.Series(rows.drop_duplicates("seed").set_index("seed").sort_index()[column].astype(float))


def below_at_first(evidence: Evidence, metric: str = "r2", prediction: str = "each_step", **where: Any) -> pd.Series:
    """Whether agreement is below .9 at the first kept step already, so that no fall was seen, by seed."""
    return pd.Series(first_kept(evidence, metric, prediction, **where)["below"])


def first_kept(evidence: Evidence, metric: str = "r2", prediction: str = "each_step", **where: Any) -> pd.DataFrame:
    """Whether agreement starts below .9, and the steps at which it first is not and is so again, by seed (index).

    Columns ``below``, ``back``, ``again``; NaN where that never happens. No rows where there are no drifts. ``where``
    names part, gamma and group.
    """
    try:
        rows = rows_of(evidence, "drift", prediction=prediction, **where)
    except MissingEvidenceError:
        return pd.DataFrame({"below": [], "back": [], "again": []}).astype({"below": bool})
    rows = rows.loc[(rows["step"] > 0) & rows[metric].notna()].sort_values("step")
    found = {}
    for seed, own in rows.groupby("seed"):
        steps, held = own["step"].to_numpy(dtype=float), own[metric].to_numpy(dtype=float) >= LEVEL
        back = steps[held][0] if held.any() and not held[0] else np.nan
        again = steps[~held & (steps > back)]
        found[seed] = {"below": not held[0], "back": back, "again": again[0] if len(again) else np.nan}
    return pd.DataFrame.from_dict(found, orient="index", columns=["below", "back", "again"]).astype({"below": bool})


def _scale(evidence: Evidence, column: str) -> tuple[float, float]:
    """Ends of the part of an axis on which falls are drawn; the step's in its logarithm."""
    if column == "fraction":
        return 1.04, -0.04
    rows = rows_of(evidence, "agreement", metric="r2")
    rows = rows.loc[rows["prediction"].isin([prediction for _, prediction, _ in COLUMNS])]
    steps = rows["step"].dropna().to_numpy(dtype=float)
    last = np.log10(max(rows["last_step"].to_numpy(dtype=float).max(), 10.0))
    return float(np.log10(np.maximum(steps, 1)).min(initial=last)) - 0.15, float(last) + 0.05


def _height(values: np.ndarray, column: str, scale: tuple[float, float]) -> np.ndarray:
    """Heights in the panel, BASE to BAND, of steps or shares; NaN (never) in the middle of the band above."""
    values = np.log10(np.maximum(values, 1)) if column == "step" else values
    low, high = scale
    return np.where(np.isnan(values), (1 + BAND) / 2 - 0.02, BASE + (BAND - BASE) * (values - low) / (high - low))


def _panel(axes: Axes, evidence: Evidence, part: str, prediction: str, column: str, scale: tuple[float, float]) -> None:
    gammas = gammas_of(evidence, "agreement", part=part, prediction=prediction)
    for shift, (group, (_, colour)) in zip(np.linspace(-0.3, 0.3, len(GROUPS)), GROUPS.items(), strict=True):
        for place, gamma in enumerate(gammas):
            try:
                found = ends(evidence, column, prediction=prediction, part=part, gamma=gamma, group=group)
            except MissingEvidenceError:
                continue
            values = found.to_numpy()
            at_first = below_at_first(evidence, prediction=prediction, part=part, gamma=gamma, group=group)
            heights = np.where(at_first.reindex(found.index, fill_value=False), BASE / 2 - 0.02,
                               _height(values, column, scale))  # fmt: skip
            x = place + shift + offsets(len(values), 0.055)
            axes.plot(x, heights, MARKS[group], ms=2.8, mfc="white", mec=colour, mew=0.8, zorder=3)
            middle = float(np.sort(heights)[(len(heights) - 1) // 2])  # no height between a step and never
            axes.plot([place + shift - 0.09, place + shift + 0.09], [middle] * 2, color=colour, lw=2, zorder=4)
    axes.set_ylim(0, 1)
    axes.set_xlim(-0.55, len(gammas) - 0.45)
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    for place in range(1, len(gammas)):
        axes.axvline(place - 0.5, color="#eeeeee", lw=0.7, zorder=0)
    ticks = [10.0**k for k in range(0, 8)] if column == "step" else [1, 0.75, 0.5, 0.25, 0]
    at = _height(np.array(ticks, dtype=float), column, scale)
    kept = [(y, t) for y, t in zip(at, ticks, strict=True) if BASE - 1e-9 <= y <= BAND]
    axes.set_yticks([y for y, _ in kept], [f"{t:,.0f}" if column == "step" else f"{t:g}" for _, t in kept])
    never_band(axes, BAND, "never in training")
    never_band(axes, 0.0, "below .90 at the first kept step", BASE)


def _legend() -> list[Line2D]:
    found = [Line2D([], [], ls="", marker=MARKS[g], ms=4, mfc="white", mec=c, label=w) for g, (w, c) in GROUPS.items()]
    return [*found, Line2D([], [], color="#555555", lw=2, label="median of seeds")]


def told_end(evidence: Evidence, metric: str = "r2", **where: Any) -> str:
    """Median step and f at which agreement falls below .9, in words, with the seeds in which it never does.

    >>> import pandas as pd
    >>> fall_text(pd.Series([40.0, 60.0, float("nan")]), pd.Series([0.9, 0.7, float("nan")]))
    'step 50 (f = 0.800), never in 1 of 3 seeds'
    """
    try:
        steps, fractions = (ends(evidence, column, metric, **where) for column in ("step", "fraction"))
    except MissingEvidenceError:
        return number(None)
    return fall_text(steps, fractions, first_kept(evidence, metric, **where))


def fall_text(steps: pd.Series, fractions: pd.Series, first: pd.DataFrame | None = None) -> str:
    """Median of the seeds in which agreement falls, and how many they are not; ``first`` is that of ``first_kept``.

    >>> first = pd.DataFrame({"below": [True, True], "back": [120.0, 140.0], "again": [250.0, float("nan")]})
    >>> fall_text(pd.Series([10.0, 10.0]), pd.Series([1.0, 1.0]), first)
    'first kept step, 10 (f = 1.00), .90 or more from step 130, below again from step 250'
    """
    n, never = len(steps), int(steps.isna().to_numpy().sum())
    if never == n:
        return f"never ({seeds_text(n)})"
    at_once, back, again = _without_fall(steps, first)
    at = f"{number(round(float(steps.median())))} (f = {number(float(fractions.median()))})"
    text = f"first kept step, {at}" if at_once == n - never else f"step {at}"
    if 0 < at_once < n - never:
        text += f", at the first kept step in {at_once} of {seeds_text(n)}"
    if back:
        text += f", .90 or more from step {number(round(float(np.median(back))))}"
        text += f" in {len(back)} of {seeds_text(n)}" if len(back) < n else ""
        text += f", below again from step {number(round(float(np.median(again))))}" if again else ""
    return text + (f", never in {never} of {seeds_text(n)}" if never else "")


def _without_fall(steps: pd.Series, first: pd.DataFrame | None) -> tuple[int, list[float], list[float]]:
    """Seeds that are below at the first kept step already, and the steps at which these come back and fall again."""
    if first is None:
        return 0, [], []
    fell = set(steps.dropna().index.tolist())
    rows = [row for seed, row in first.to_dict("index").items() if seed in fell and row["below"]]
    back, again = ([float(row[name]) for row in rows if np.isfinite(row[name])] for name in ("back", "again"))
    return len(rows), back, again


def caption_agreement_end(evidence: Evidence) -> Caption:
    """Caption of where agreement ends."""
    told = "; ".join(
        f"{words}: {told_end(evidence, prediction=prediction, part=part, gamma=SMALL, group='anchor')}"
        for part, prediction, words in COLUMNS
    )
    return Caption(
        f"The first kept step at which R² of predicted and measured drift (weights of each step) is below {LEVEL:.2f}"
        ", and the share f of the loss on reasoning that was left then (loss over ln d_vocab, at most 1). Dots are "
        "seeds, bars their median (of an even number the earlier of the two in the middle); the hatched strip at the "
        "top holds seeds in which it never happened, that at the bottom seeds below .90 at the first kept step "
        "already, of which no fall was seen (R² may rise above .90 later). f can be compared "
        "between optimisers, steps only within one. A small initialisation spends many steps at f = 1: a late step "
        f"with f near 1 says that the theory covers the plateau, not the learning. All anchors at γ = {SMALL:g}: "
        f"{told}.",
        "bars that do not rise with γ in the left column (Proposition 1 is a statement about small initialisation); "
        "falls at f = 1 or in the strip at the bottom for small initialisation, that is before anything is learned.",
    )
