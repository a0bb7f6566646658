"""What each component contributes: accuracy lost when it is ablated, on the three sets, against the rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import Caption, gamma_axis, offsets, seed_interval, sentence_figure
from rb_interp.figures.style import GREY, SET_COLOURS, SET_LINES, SETS, WIDTH, new_figure, styled
from rb_interp.statistics.intervals import Interval

METHODS = {"resample": "taken from another input", "mean": "set to its mean", "zero": "set to zero"}
MAIN = "resample"
PLACES = {"mem": -0.24, "rsn_train": 0.0, "rsn_test": 0.24}
PARTS = {
    "resid_pre": "stream, start", "q": "queries", "k": "keys", "v": "values", "pattern": "pattern",
    "z": "heads' output", "attn_out": "attention", "resid_mid": "stream, middle", "mlp_out": "MLP",
    "resid_post": "stream, end",
}  # fmt: skip
"""Components in forward order within a layer, in words."""


def forward(component: str) -> tuple[int, int, str]:
    """Key that sorts components in forward order.

    >>> sorted(["mlp_out.0", "attn_out.1", "attn_out.0"], key=forward)
    ['attn_out.0', 'mlp_out.0', 'attn_out.1']
    """
    part, _, layer = component.partition(".")
    order = list(PARTS)
    return int(layer.split(".")[0]) if layer else 0, order.index(part) if part in order else len(order), component


def in_words(component: str) -> str:
    """A component as it is called in figures and report, layers counted from 1.

    >>> in_words("mlp_out.1")
    'layer 2: MLP'
    """
    part, _, layer = component.partition(".")
    return f"layer {int(layer) + 1}: {PARTS[part]}" if part in PARTS and layer.isdigit() else component


def components(evidence: Evidence) -> list[str]:
    """Ablated components in forward order; MissingEvidenceError where there is no table."""
    return sorted(evidence.table("ablations")["component"].astype(str).unique(), key=forward)


def lost(
    evidence: Evidence, component: str, method: str, rows: str, gamma: float, column: str = "accuracy_lost"
) -> pd.Series:
    """One number per seed (index: seed, ascending) at the end of training; empty where there is none."""
    table = evidence.table("ablations")
    here = table.loc[np.isclose(table["gamma"].astype(float), gamma) & (table["stage"] == "final")]
    for name, value in {"component": component, "method": method, "rows": rows}.items():
        here = here.loc[here[name] == value]
    return here.drop_duplicates("seed").set_index("seed").sort_index()[column].astype(float).dropna()


def before(evidence: Evidence, component: str, rows: str, gamma: float) -> pd.Series:
    """Accuracy of the whole model by seed: the most that can be lost."""
    left = lost(evidence, component, MAIN, rows, gamma, "accuracy")
    return (left + lost(evidence, component, MAIN, rows, gamma)).dropna()


@styled
def draw_ablations(evidence: Evidence) -> Figure:
    """Accuracy lost without each component: resampled above, set to its mean and to zero below."""
    try:
        names = components(evidence)
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(5.3, max(WIDTH, len(names) * (0.5 + 0.43 * len(evidence.gammas))))
    panels = figure.subplots(len(METHODS), len(names), sharex=True, sharey=True, squeeze=False, height_ratios=(2, 1, 1))
    for row, method in zip(panels, METHODS, strict=True):
        for axes, component in zip(row, names, strict=True):
            _panel(axes, evidence, component, method)
        row[0].set_ylabel("accuracy lost (share)" if method == MAIN else "accuracy lost")
        row[0].annotate(METHODS[method], (0, 1), xycoords="axes fraction", xytext=(2, 2), textcoords="offset points",
                        va="bottom", fontsize=7, style="italic", color="#444444")  # fmt: skip
    for axes, component in zip(panels[0], names, strict=True):
        axes.set_title(in_words(component), pad=14)
    for axes in panels[-1]:
        gamma_axis(axes, evidence)
        axes.set_xlabel("rate γ")
    figure.legend(handles=_handles(), loc="outside upper center", ncols=4, columnspacing=1.2)
    return figure


def _panel(axes: Axes, evidence: Evidence, component: str, method: str) -> None:
    axes.axhline(0, color="#bdbdbd", lw=0.6, zorder=0)
    places = np.arange(len(evidence.gammas))
    small = method != MAIN
    for rows, shift in PLACES.items():
        means = []
        for place, gamma in zip(places, evidence.gammas, strict=True):
            values = lost(evidence, component, method, rows, gamma)
            means.append(_set_at(axes, place + shift, values, SET_COLOURS[rows], small))
            _placebo(axes, place + shift, lost(evidence, component, method, rows, gamma, "placebo_accuracy_lost"))
            most = seed_interval(before(evidence, component, rows, gamma)).estimate
            axes.plot([place + shift - 0.1, place + shift + 0.1], [most] * 2, color=SET_COLOURS[rows], lw=0.9,
                      ls=(0, (1, 0.8)), zorder=2)  # fmt: skip
        line = SET_LINES[rows]
        axes.plot(places + shift, means, color=SET_COLOURS[rows], lw=1.0 if small else 1.5, ls=line, zorder=3)


def _set_at(axes: Axes, x: float, values: pd.Series, colour: str, small: bool) -> float:
    """Seeds as small dots, their mean as a large one with its interval; returns the mean."""
    if values.empty:
        return float("nan")
    found: Interval = seed_interval(values)
    if not small:
        axes.plot(x + offsets(len(values), 0.07), values, "o", ms=2.0, mfc="none", mec=colour, mew=0.5, zorder=2)
    if np.isfinite(found.low):
        axes.plot([x, x], [found.low, found.high], color=colour, lw=1.0, zorder=3)
    axes.plot([x], [found.estimate], "o", ms=2.6 if small else 4, mfc=colour, mec="white", mew=0.4, zorder=4)
    return found.estimate


def _placebo(axes: Axes, x: float, values: pd.Series) -> None:
    """The placebo's mean as a grey bar, its interval as a grey box behind the marks."""
    if values.empty:
        return
    mean, low, high = seed_interval(values)
    if np.isfinite(low):
        box = Rectangle((x - 0.1, low), 0.2, high - low, fc="#e9e9e9", ec="none", zorder=0.5)
        axes.add_patch(box)
    axes.plot([x - 0.1, x + 0.1], [mean, mean], color=GREY, lw=2.0, zorder=1, solid_capstyle="butt")


def _handles() -> list:
    lines: list = [
        Line2D([], [], color=SET_COLOURS[name], ls=SET_LINES[name], marker="o", ms=4, lw=1.5, label=SETS[name])
        for name in SETS
    ]
    lines.append(Line2D([], [], color="#555555", marker="o", ms=2.5, mfc="none", ls="", label="one seed"))
    lines.append(Line2D([], [], color="#555555", lw=0.9, ls=(0, (1, 0.8)), label="accuracy before, the most to lose"))
    lines.append(Line2D([], [], color=GREY, lw=2, label="placebo: own output with other noise"))
    lines.append(Patch(fc="#e9e9e9", label="its 95 % interval"))
    return lines


def caption_ablations(evidence: Evidence) -> Caption:
    """Caption of the ablations."""
    try:
        names = components(evidence)
        shown = f"{seeds_text(len(evidence.seeds))}, {len(names)} components."
    except MissingEvidenceError as missing:
        shown = str(missing)
    return Caption(
        "Accuracy lost at the end of training when a component's output at every position is taken from another "
        "input (top), set to its mean over inputs (middle) or to zero (bottom): mean over seeds with its 95 % "
        "interval, small dots are seeds. Dotted: the accuracy of the whole model, which is the most that can be lost; "
        "a set that is not learned has nothing to lose. Grey: the same component's output on the same key, anchors "
        f"and position with other noise, which should cost nothing. {shown}",
        "a component that a mechanism needs and that costs no more than its grey bar, such as the second attention on "
        "reasoning inputs. The converse proves little: what is lost without a component says that it is needed, not "
        "what it computes, and what is not lost may be made up for by another.",
    )
