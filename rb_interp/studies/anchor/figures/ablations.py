"""What each component contributes: accuracy lost when it is ablated, on the three sets, against the rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.figures import legend
from rb_interp.figures.evidence import NOTHING, Evidence
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import gamma_axis, interval_of, level, offsets
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import GREY, SET_COLOURS, SET_LINES, WIDTH, new_figure
from rb_interp.statistics.intervals import Interval

METHODS = {"resample": "taken from another input", "mean": "set to its mean", "zero": "set to zero"}
"""Methods of ablation in words, the main one first."""
MAIN = "resample"
PARTS = {
    "resid_pre": "stream, start", "q": "queries", "k": "keys", "v": "values", "pattern": "pattern",
    "z": "heads' output", "attn_out": "attention", "resid_mid": "stream, middle", "mlp_out": "MLP",
    "resid_post": "stream, end",
}  # fmt: skip
"""Components in forward order within a layer, in words."""
PLACES = {"mem": -0.24, "rsn_train": 0.0, "rsn_test": 0.24}
DOTTED, BAND, DARK = (0, (1, 0.8)), "#e9e9e9", "#555555"


def forward(component: str) -> tuple[int, int, str]:
    """Key that sorts components in forward order.

    >>> sorted(["mlp_out.0", "attn_out.1", "attn_out.0"], key=forward)
    ['attn_out.0', 'mlp_out.0', 'attn_out.1']
    """
    part, _, layer = component.partition(".")
    order = list(PARTS)
    return int(layer.split(".")[0]) if layer else 0, order.index(part) if part in order else len(order), component


def in_words(component: str) -> str:
    """A component as figures and report call it.

    >>> in_words("mlp_out.1")
    'L1: MLP'
    """
    part, _, layer = component.partition(".")
    return f"L{layer}: {PARTS[part]}" if part in PARTS and layer.isdigit() else component


def components(evidence: Evidence) -> list[str]:
    """Ablated components in forward order; MissingEvidenceError where there is no table."""
    return sorted(evidence.table("ablations")["component"].astype(str).unique(), key=forward)


def draw_ablations(evidence: Evidence) -> Figure:
    """Accuracy lost without each component: resampled above, set to its mean and to zero below."""
    names = components(evidence)
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
    entries = [
        *legend.sets(1.5, marker="o", ms=4),
        legend.seed_dot(colour=DARK, ms=2.5, mfc="none"),
        legend.line("accuracy before, the most to lose", DARK, DOTTED, 0.9),
        legend.untrained("control: own output with other noise", width=2),
        legend.area("its 95 % interval", BAND),
    ]
    legend.above(figure, entries, columns=4, columnspacing=1.2)
    return figure


def _panel(axes: Axes, evidence: Evidence, component: str, method: str) -> None:
    where = {"stage": "final", "component": component, "method": method}
    seeds, over = evidence.table("ablations", **where), evidence.table("ablations_summary", **where)
    axes.axhline(0, color="#bdbdbd", lw=0.6, zorder=0)
    for name, shift in PLACES.items():
        means = []
        for place, gamma in enumerate(evidence.gammas):
            here = over.loc[(over["set"] == name) & np.isclose(over["gamma"], gamma)].to_dict("records")
            values = seeds.loc[(seeds["set"] == name) & np.isclose(seeds["gamma"], gamma)].sort_values("seed")
            intervals = {row["quantity"]: interval_of(row) for row in here}
            _lost(axes, place + shift, values["accuracy_drop"], intervals, SET_COLOURS[name], method == MAIN)
            means.append(intervals.get("accuracy_drop", NOTHING).estimate)
        look = {"color": SET_COLOURS[name], "lw": 1.5 if method == MAIN else 1.0, "ls": SET_LINES[name]}
        axes.plot(np.arange(len(means)) + shift, means, zorder=3, **look)


def _lost(
    axes: Axes, x: float, values: pd.Series, intervals: dict[str, Interval], colour: str, with_seeds: bool
) -> None:
    """Seeds (in the large panels), mean and interval, control, and the most that can be lost."""
    names = ("accuracy_drop", "control_accuracy_drop", "before")
    lost, control, before = (intervals.get(name, NOTHING) for name in names)
    if with_seeds:
        axes.plot(x + offsets(len(values), 0.07), values, "o", ms=2.0, mfc="none", mec=colour, mew=0.5, zorder=2)
    if np.isfinite(lost.low):
        axes.plot([x, x], [lost.low, lost.high], color=colour, lw=1.0, zorder=3)
    axes.plot([x], [lost.estimate], "o", ms=4 if with_seeds else 2.6, mfc=colour, mec="white", mew=0.4, zorder=4)
    if np.isfinite(control.low):
        box = Rectangle((x - 0.1, control.low), 0.2, control.high - control.low, fc=BAND, ec="none", zorder=0.5)
        axes.add_patch(box)
    level(axes, x, control.estimate, GREY, half=0.1, width=2.0, zorder=1)
    axes.plot([x - 0.1, x + 0.1], [before.estimate] * 2, color=colour, lw=0.9, ls=DOTTED, zorder=2)


def caption_ablations(evidence: Evidence) -> Caption:
    """Caption of the ablations."""
    return Caption(
        "Accuracy lost at the end of training when a component's output at every position is taken from another "
        "input (top), set to its mean over inputs (middle) or to zero (bottom): mean over seeds with its 95 % "
        "interval, small dots are seeds. Dotted: the accuracy of the whole model, which is the most that can be lost; "
        "a set that is not learned has nothing to lose. Grey: the same component's output on the same key, anchors "
        "and position with other noise, which should cost nothing. "
        f"{seeds_text(len(evidence.seeds))}, {len(components(evidence))} components.",
        "a component that a mechanism needs and that costs no more than its grey bar, such as L1's attention on "
        "reasoning inputs. The converse proves little: what is lost without a component says that it is needed, not "
        "what it computes, and what is not lost may be made up for by another.",
    )
