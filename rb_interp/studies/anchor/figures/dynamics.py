"""Order of events: when each mechanism appears, beside the step at which each loss has halved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import SIGNS, seeds_text, two_digits
from rb_interp.figures.panels import offsets
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import INK, SET_COLOURS, SETS, WIDTH, new_figure
from rb_interp.studies.anchor.events import MECHANISMS, OFFSET

STRIP, GAP = 0.28, 0.04
"""Where the strips of "from the start" and "never" end and begin, as shares of the steps' axis beyond its ends."""
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
HALVED = "≤ ½ ln d_vocab"
WORDS = {
    "uniformity/tv": "TV from 1/i",
    "value_alignment/spectrum_ratio": "s1 / s2",
    "value_alignment/cos_reasoning": "mean |cos|",
    "variance_explained/attn_out.0:anchor_sum": "variance explained",
    "variance_explained/attn_out.last:key": "variance explained",
    "attention_to_key/key_from_last_anchor": "last anchor to key",
    "attention_by_role/key": "attention",
    "attention_by_role/anchors": "attention",
    "geometry/order_rho": "Spearman of cos",
    "geometry/pc1_key": "|Spearman|",
}
"""What each mechanism's criterion is about."""
CRITERIA = {
    **dict.fromkeys(SETS, HALVED),
    **{m.event: f"{WORDS[m.quantity]} {SIGNS[m.side]} {two_digits(m.threshold)}" for m in MECHANISMS},
}
"""Rows of the figure from above, and the criterion of each."""
BREAKS = (2, 7, 10)
"""A line is drawn below these rows: losses, L0, last layer, embedding."""
MARKS = {"average-then-key": "o", "gather-at-last-anchor": "^", "key-to-anchors": "D", "mixed": "s", "none": "v"}
"""Marks of the circuits, named by cause."""
OTHER = "P"


def draw_dynamics(evidence: Evidence) -> Figure:
    """Step of every event in every seed, one column per rate: losses above, mechanisms below."""
    kept, over = evidence.table("dynamics"), evidence.table("events_summary")
    named = evidence.table("circuits")
    circuits = named.assign(circuit=named["cause"])[["gamma", "seed", "circuit"]]
    events = evidence.table("events").merge(circuits, on=["gamma", "seed"], how="left").fillna({"circuit": ""})
    gammas, last = sorted(events["gamma"].unique().tolist()), float(kept["step"].to_numpy().max())
    figure = new_figure(0.95 + 0.33 * len(CRITERIA), max(WIDTH, 2.1 + 1.7 * len(gammas)))
    for axes, gamma in zip(figure.subplots(1, len(gammas), sharey=True, squeeze=False)[0], gammas, strict=True):
        here = events.loc[events["gamma"] == gamma]
        _panel(axes, here, over.loc[over["gamma"] == gamma].set_index("event").to_dict("index"), last)
        for step in evidence.table("checkpoints", gamma=gamma, every_seed=True)["step"]:
            axes.axvline(step + OFFSET, color="#e6e6e6", lw=0.6, zorder=0)
        axes.set_title(f"γ = {gamma:g}   ({seeds_text(here['seed'].nunique())})", pad=19)
    _names(figure.axes[0])
    figure.supxlabel(f"training step, 0 to {last:,.0f} (scaled as the logarithm of step + {OFFSET})", fontsize=7.5)
    entries = _entries({*events["circuit"]})
    legend.above(figure, entries, columns=5 - len(entries) // 6, columnspacing=1.4, handletextpad=0.4)
    return figure


def _names(axes: Axes) -> None:
    names = [f"loss: {SETS[event]}" if event in SETS else event for event in CRITERIA]
    labels = [f"{name}\n{criterion}" for name, criterion in zip(names, CRITERIA.values(), strict=True)]
    axes.set_yticks(range(len(CRITERIA)), labels)
    for text, event in zip(axes.get_yticklabels(), CRITERIA, strict=True):
        text.set(color=SET_COLOURS.get(event, INK), fontsize=6.5, linespacing=1.05)


def _panel(axes: Axes, events: pd.DataFrame, over: dict[Any, dict], last: float) -> None:
    _axis(axes, last)
    learned = over.get("rsn_train", {}).get("mean_reached", np.nan) + OFFSET
    if np.isfinite(learned):
        look = {"color": SET_COLOURS["rsn_train"], "lw": 0.8, "alpha": 0.7, "zorder": 1}
        axes.plot([learned, learned], [1.5, len(CRITERIA)], **look)
    for row, event in enumerate(CRITERIA):
        members = events.loc[events["event"] == event].sort_values("seed")
        colour, heights = SET_COLOURS.get(event, INK), row - 0.1 + offsets(len(members), 0.2)
        for step, circuit, y in zip(members["step"], members["circuit"], heights, strict=True):
            if np.isfinite(step) and step > 0:
                look = {"ms": 3.2, "mfc": "white", "mec": colour, "mew": 0.8, "zorder": 3}
                axes.plot(step + OFFSET, y, MARKS.get(circuit, OTHER), **look)
        if event in over:
            _over_seeds(axes, row, over[event], colour, last)
    for row in BREAKS:
        axes.axhline(row + 0.5, color="#b5b5b5", lw=0.6, zorder=1)


def _across(share: float, last: float) -> float:
    """Place on the steps' axis: 0 is step 0, 1 the last step, beyond them lie the strips."""
    return OFFSET * ((last + OFFSET) / OFFSET) ** share


def _axis(axes: Axes, last: float) -> None:
    """Log axis from step 0 to the last, with a strip on either side and its heading above."""
    axes.set_xscale("log")
    axes.set(xlim=(_across(-STRIP, last), _across(1 + STRIP, last)), ylim=(len(CRITERIA) - 0.4, -0.6))
    ticks = [0, *(10**power for power in range(2, 1 + int(np.log10(max(last, 100)))))]
    ticks = ticks[:: 1 + len(ticks) // 5]
    texts = [f"{step:,}" if step < 100_000 else f"10{str(len(str(step)) - 1).translate(SUPERSCRIPT)}" for step in ticks]
    axes.set_xticks([step + OFFSET for step in ticks], texts)
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="y", length=0)
    above = blended_transform_factory(axes.transData, axes.transAxes)
    for near, far, words in ((-GAP, -STRIP, "from the\nstart"), (1 + GAP, 1 + STRIP, "never")):
        axes.axvspan(_across(near, last), _across(far, last), color="#f1f1ee", lw=0, zorder=0)
        middle = _across((near + far) / 2, last)
        axes.text(middle, 1.0, words, transform=above, ha="center", va="bottom", fontsize=6, color="#555555")


def _over_seeds(axes: Axes, row: int, over: dict, colour: str, last: float) -> None:
    """Mean and interval of an event below its marks, and how many seeds lie in each strip."""
    mean, low, high = (float(over[name]) + OFFSET for name in ("mean", "low", "high"))
    if np.isfinite(mean):
        axes.plot([mean, mean], [row + 0.2, row + 0.42], color=colour, lw=1.8, zorder=4, solid_capstyle="butt")
        axes.plot([low, high], [row + 0.31] * 2, color=colour, lw=1.0, zorder=2)
    for name, share in (("n_start", -1), ("n_never", 1)):
        if over[name]:
            middle = _across(0.5 + share * (0.5 + (STRIP + GAP) / 2), last)
            axes.text(middle, row, f"{over[name]}/{over['n']}", ha="center", va="center", fontsize=6)


def _entries(circuits: set[str]) -> list[legend.Entry]:
    names = {MARKS[name]: name for name in MARKS if name in circuits}
    if circuits - set(MARKS):
        names[OTHER] = "not named"
    return [
        *(legend.mark(name, INK, marker) for marker, name in names.items()),
        legend.mean_interval(upright=False),
        legend.line("mean of loss: reasoning, trained on", SET_COLOURS["rsn_train"], width=0.8),
        legend.line("checkpoint", "#d0d0d0", width=1),
    ]


def caption_dynamics(evidence: Evidence) -> Caption:
    """Caption of the order of events."""
    order = _order_text(evidence.table("event_order"), evidence.records("own_signs"))
    return Caption(
        "When each loss is first at most half of ln d_vocab, a uniform guess's loss (coloured), and when each "
        "mechanism first meets its threshold and keeps it at the next checkpoint (black), one mark a seed; below them "
        f"the mean in log(step + {OFFSET}) and its 95 % interval. Strips count the seeds that met it at step 0 already "
        "and those that never did; the mean leaves both out. All seeds of a rate are pooled whatever their circuit "
        "(the mark's shape, named by cause), and signs of one circuit need not appear in a member of another. A "
        "mechanism's step is interpolated between checkpoints (grey lines; each seed has one more where its loss on "
        "reasoning, trained on, is halved): they are about a factor 2 apart and the same for all seeds, so smaller "
        "differences are not "
        f"resolved, however narrow the interval. {order}",
        "that a mechanism brings the rule: its sign appearing only after the loss on reasoning (trained on) is halved, "
        "in most members of its circuit (attention of the last layer to the key, or L0 carrying the key). The "
        "converse proves nothing: what comes first need not be a cause, and what meets a threshold late may have begun "
        "early.",
    )


def _order_text(order: pd.DataFrame, own: list[dict[str, Any]]) -> str:
    """What came before and after the reasoning loss halved, in all members of each circuit; how often its own sign."""
    order = order.loc[order["loss"] == "rsn_train"]
    sentences = []
    for circuit in (name for name in MARKS if name != "none"):
        here = order.loc[(order["gamma"] == SMALL) & (order["circuit"] == circuit) & (order["n_loss_never"] == 0)]
        if len(here):
            in_all = here.loc[here["n_both"] == here["n"]]
            before, after = (in_all.loc[in_all[n] == in_all["n"], "mechanism"] for n in ("n_first", "n_after"))
            sentences.append(
                f"At γ = {SMALL:g}, in each member of {circuit} ({seeds_text(int(here['n'].iloc[0]))}), before its "
                f"loss on reasoning (trained on) is halved: {'; '.join(before) or 'nothing'}; after it: "
                f"{'; '.join(after) or 'nothing'}."
            )
    if own:
        texts = [f"{row['n_first']} of {row['n']} at γ = {row['gamma']:g}" for row in own]
        sentences.append(
            f"The sign of its circuit (the last layer looks at the key, or L0 carries it) came first in "
            f"{', '.join(texts)}."
        )
    return " ".join(sentences)
