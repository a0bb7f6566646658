"""Order of events: when each mechanism appears, beside the step at which each loss has halved."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import Caption, offsets, seed_interval, sentence_figure
from rb_interp.figures.style import INK, SET_COLOURS, SETS, WIDTH, new_figure, styled

OFFSET = 25
"""The steps' axis is that of log(step + 25), in which events are interpolated."""
STRIP, GAP = 0.28, 0.04
"""Where the strips of "from the start" and "never" end and begin, as shares of the steps' axis beyond its ends."""
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

CRITERIA = {
    "mem": "≤ ½ ln d_vocab",
    "rsn_train": "≤ ½ ln d_vocab",
    "rsn_test": "≤ ½ ln d_vocab",
    "layer 1 stops averaging": "TV from 1/i > .10",
    "one direction dominates layer 1's values": "s1 / s2 ≥ 1.50",
    "that direction aligns with reasoning anchors": "mean |cos| ≥ .70",
    "layer 1 writes the anchor sum": "variance explained ≥ .80",
    "layer 1 carries the key": "last anchor to key ≥ .50",
    "the last layer looks at the key": "attention ≥ .50",
    "the last layer looks at the anchors": "attention ≥ .50",
    "the last layer writes the key": "variance explained ≥ .80",
    "reasoning anchors are ordered": "Spearman of cos ≤ −.80",
    "the leading component orders the keys": "|Spearman| ≥ .90",
}
"""Rows of the figure from above, and the criterion of each (a test compares them with the study's own)."""
BREAKS = (2, 7, 10)
"""A line is drawn below these rows: losses, layer 1, last layer, embedding."""
MARKS = {"average-then-key": "o", "key-to-anchors": "D", "mixed": "s", "none": "v"}
OTHER = "P"
SIGNS = {"average-then-key": "the last layer looks at the key", "key-to-anchors": "layer 1 carries the key"}
"""The event that the caption's refutation is about, by circuit."""


@styled
def draw_dynamics(evidence: Evidence) -> Figure:
    """Step of every event in every seed, one column per rate: losses above, mechanisms below."""
    try:
        values, events = evidence.table("dynamics"), evidence.table("events")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    gammas = sorted(events["gamma"].unique().tolist())
    figure = new_figure(0.95 + 0.33 * len(CRITERIA), max(WIDTH, 2.1 + 1.7 * len(gammas)))
    last = float(values["step"].to_numpy().max())
    circuits = circuit_names(evidence)
    for axes, gamma in zip(figure.subplots(1, len(gammas), sharey=True, squeeze=False)[0], gammas, strict=True):
        here = events.loc[events["gamma"] == gamma]
        _panel(axes, values.loc[values["gamma"] == gamma], here, circuits, last)
        axes.set_title(f"γ = {gamma:g}   ({seeds_text(here['seed'].nunique())})", pad=19)
    axes = figure.axes[0]
    axes.set_yticks(range(len(CRITERIA)), [_label(event) for event in CRITERIA])
    for text, event in zip(axes.get_yticklabels(), CRITERIA, strict=True):
        text.set(color=SET_COLOURS.get(event, INK), fontsize=6.5, linespacing=1.05)
    figure.supxlabel(f"training step, 0 to {last:,.0f} (scaled as the logarithm of step + {OFFSET})", fontsize=7.5)
    members = zip(events["gamma"], events["seed"], strict=True)
    handles = _legend({circuits.get((float(gamma), int(seed)), "") for gamma, seed in members})
    figure.legend(
        handles=handles, loc="outside upper center", ncols=5 - len(handles) // 6, columnspacing=1.4, handletextpad=0.4
    )
    return figure


def circuit_names(evidence: Evidence) -> dict[tuple[float, int], str]:
    """(gamma, seed) -> the circuit's name, for the members that have one."""
    table = evidence.circuits
    columns = table["gamma"].astype(float), table["seed"].astype(int), table["circuit"].astype(str)
    return {(gamma, seed): circuit for gamma, seed, circuit in zip(*columns, strict=True)}


def _label(event: str) -> str:
    name = f"loss: {SETS[event]}" if event in SETS else event
    return f"{name}\n{CRITERIA[event]}"


def _panel(
    axes: Axes, values: pd.DataFrame, events: pd.DataFrame, circuits: dict[tuple[float, int], str], last: float
) -> None:
    _axis(axes, last)
    for step in _kept_by_all(values):
        axes.axvline(step + OFFSET, color="#e6e6e6", lw=0.6, zorder=0)
    learned = events.loc[events["event"] == "rsn_train", "step"].dropna().to_numpy(dtype=float)
    if len(learned):
        mean = np.exp(np.log(learned + OFFSET).mean())
        axes.plot([mean, mean], [1.5, len(CRITERIA)], color=SET_COLOURS["rsn_train"], lw=0.8, alpha=0.7, zorder=1)
    for row, event in enumerate(CRITERIA):
        found = events.loc[events["event"] == event].sort_values("seed")
        members = zip(found["gamma"], found["seed"], strict=True)
        marks = [MARKS.get(circuits.get((float(gamma), int(seed)), ""), OTHER) for gamma, seed in members]
        _row(axes, row, found["step"].to_numpy(dtype=float), marks, SET_COLOURS.get(event, INK), last)
    for row in BREAKS:
        axes.axhline(row + 0.5, color="#b5b5b5", lw=0.6, zorder=1)


def _across(share: float, last: float) -> float:
    """Place on the steps' axis: 0 is step 0, 1 the last step, beyond them lie the strips."""
    return OFFSET * ((last + OFFSET) / OFFSET) ** share


def _axis(axes: Axes, last: float) -> None:
    """Log axis from step 0 to the last, with a strip on either side and its heading above."""
    axes.set_xscale("log")
    axes.set_xlim(_across(-STRIP, last), _across(1 + STRIP, last))
    axes.set_ylim(len(CRITERIA) - 0.4, -0.6)
    ticks = [0, *(10**power for power in range(2, 1 + int(np.log10(max(last, 100)))))]
    ticks = ticks[:: 1 + len(ticks) // 5]
    axes.set_xticks([step + OFFSET for step in ticks], [_tick(step) for step in ticks])
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="y", length=0)
    above = blended_transform_factory(axes.transData, axes.transAxes)
    for near, far, words in ((-GAP, -STRIP, "from the\nstart"), (1 + GAP, 1 + STRIP, "never")):
        axes.axvspan(_across(near, last), _across(far, last), color="#f1f1ee", lw=0, zorder=0)
        middle = _across((near + far) / 2, last)
        axes.text(middle, 1.0, words, transform=above, ha="center", va="bottom", fontsize=6, color="#555555")


def _tick(step: int) -> str:
    if step < 100_000:
        return f"{step:,}"
    return f"10{str(len(str(step)) - 1).translate(SUPERSCRIPT)}"


def _kept_by_all(values: pd.DataFrame) -> list[int]:
    """Steps at which every seed was kept: the common spacing of checkpoints."""
    seeds = values.groupby("step")["seed"].nunique().to_dict()
    return [int(step) for step, n in seeds.items() if n == values["seed"].nunique()]


def _row(axes: Axes, row: int, steps: np.ndarray, marks: list[str], colour: str, last: float) -> None:
    """One event: a mark a seed, mean and interval below them, and how many seeds lie in each strip."""
    during = np.isfinite(steps) & (steps > 0)
    for step, shift, mark in zip(steps[during], offsets(len(steps), 0.2)[during], np.array(marks)[during], strict=True):
        axes.plot(step + OFFSET, row + shift - 0.1, mark, ms=3.2, mfc="white", mec=colour, mew=0.8, zorder=3)
    mean, low, high = np.exp(seed_interval(np.log(steps[during] + OFFSET)))
    if during.any():
        axes.plot([mean, mean], [row + 0.2, row + 0.42], color=colour, lw=1.8, zorder=4, solid_capstyle="butt")
        axes.plot([low, high], [row + 0.31] * 2, color=colour, lw=1.0, zorder=2)
    for count, share in ((int((steps == 0).sum()), -1), (int(np.isnan(steps).sum()), 1)):
        if count:
            middle = _across(0.5 + share * (0.5 + (STRIP + GAP) / 2), last)
            axes.text(middle, row, f"{count}/{len(steps)}", ha="center", va="center", fontsize=6)


def _legend(circuits: set[str]) -> list[Line2D]:
    names = {MARKS[name]: name for name in MARKS if name in circuits}
    if circuits - set(MARKS):
        names[OTHER] = "not named"
    marks = [Line2D([], [], color=INK, mfc="white", ls="", ms=4, marker=m, label=name) for m, name in names.items()]
    mean = Line2D([], [], color=INK, lw=1, marker="|", ms=6, mew=1.8, label="mean, 95 % interval")
    learned = Line2D([], [], color=SET_COLOURS["rsn_train"], lw=0.8, label="mean of loss: reasoning, trained on")
    kept = Line2D([], [], color="#d0d0d0", lw=1, label="checkpoint")
    return [*marks, mean, learned, kept]


def caption_dynamics(evidence: Evidence) -> Caption:
    """Caption of the order of events."""
    try:
        told = _told(evidence, evidence.table("events"))
    except MissingEvidenceError as missing:
        told = str(missing)
    return Caption(
        "When each loss is first at most half of ln d_vocab, a uniform guess's loss (coloured), and when each "
        "mechanism first meets its threshold and keeps it at the next checkpoint (black), one mark a seed; below them "
        "the mean in log(step + 25) and its 95 % interval. Strips count the seeds that met it at step 0 already and "
        "those that never did; the mean leaves both out. All seeds of a rate are pooled whatever their circuit (the "
        "mark's shape), and signs of one circuit need not appear in a member of another. A mechanism's step is "
        "interpolated between checkpoints (grey lines; each seed has one more where its loss on reasoning, trained on, "
        "is halved): they are about a factor 2 apart and the same for all seeds, so smaller differences are not "
        f"resolved, however narrow the interval. {told}",
        "that a mechanism brings the rule: its sign appearing only after the loss on reasoning (trained on) is halved, "
        "in most members of its circuit (attention of the last layer to the key, or layer 1 carrying the key). The "
        "converse proves nothing: what comes first need not be a cause, and what meets a threshold late may have begun "
        "early.",
    )


def _told(evidence: Evidence, events: pd.DataFrame) -> str:
    """What came before and after the reasoning loss halved, in all members of each circuit; and how often its sign."""
    circuits, sentences = circuit_names(evidence), []
    members = zip(events["gamma"], events["seed"], strict=True)
    named = events.assign(circuit=[circuits.get((float(gamma), int(seed)), "") for gamma, seed in members])
    small = named.loc[named["gamma"] == SMALL]
    for circuit in (name for name in MARKS if name != "none"):
        steps = small.loc[small["circuit"] == circuit].pivot(index="event", columns="seed", values="step")
        if "rsn_train" not in steps.index or not np.isfinite(steps.loc["rsn_train"]).all():
            continue
        mechanisms = steps.loc[[event for event in CRITERIA if event in steps.index and event not in SETS]]
        before = mechanisms.index[(mechanisms < steps.loc["rsn_train"]).all(axis=1)]
        after = mechanisms.index[(mechanisms > steps.loc["rsn_train"]).all(axis=1)]
        sentences.append(
            f"At γ = {SMALL:g}, in each member of {circuit} ({seeds_text(steps.shape[1])}), before its loss on "
            f"reasoning (trained on) is halved: {'; '.join(before) or 'nothing'}; after it: "
            f"{'; '.join(after) or 'nothing'}."
        )
    return " ".join([*sentences, *_signs_first(named)])


def _signs_first(named: pd.DataFrame) -> list[str]:
    """In how many members of the two circuits the circuit's own sign came first, by rate; nothing where none is."""
    counts = []
    for gamma, here in named.groupby("gamma"):
        steps = here.pivot(index="seed", columns="event", values="step").reindex(columns=list(CRITERIA))
        circuits = here.drop_duplicates("seed").set_index("seed")["circuit"].to_dict()
        first = [steps.at[s, SIGNS[c]] < steps.at[s, "rsn_train"] for s, c in circuits.items() if c in SIGNS]
        if first:
            counts.append(f"{sum(first)} of {len(first)} at γ = {gamma:g}")
    told = "The sign of its circuit (the last layer looks at the key, or layer 1 carries it) came first in "
    return [f"{told}{', '.join(counts)}."] if counts else []
