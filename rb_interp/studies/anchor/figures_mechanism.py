"""Figures of the mechanism: L0 (after Fig. 6), where L1 looks, and what outputs carry."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.settings import LARGE, MIDDLE, SMALL
from rb_interp.statistics.intervals import mean_text, two_digits
from rb_interp.studies.anchor.figures_causes import (
    forward,
    in_words,
)

PARTS = {
    "key": ("key", kit.KEY),
    "anchors": ("anchors", kit.REASONING),
    "self": ("itself (noise)", "#7d7d7d"),
    "noise": ("other noise", kit.NOISE),
}
GROUPINGS = ("key", "anchor_sum", "anchors", "key_and_sum", "interaction")


def draw_first_layer(evidence: Evidence) -> Figure:
    """Mean attention against 1/i, spectrum of W_V, its leading vector's mean cosines with anchors
    (after Fig. 6)."""
    figure, [patterns, [by_row, spectrum, alignment]] = kit.panels(2, 3, 5.4)
    length = evidence.task.length
    average = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    uniformity = evidence.condition("M1").of
    for axes, (gamma, stage) in zip(patterns, ((LARGE, "matched"), (SMALL, "half")), strict=False):
        with kit.missing(axes):
            term = replace(uniformity, gamma=gamma, stage=stage)
            seed, pattern = evidence.first(replace(term, quantity="mean_pattern"))
            distance = two_digits(evidence.value(term, seed))
            _pattern(
                axes, pattern, f"γ = {gamma:g}, {stage}, seed {seed}\nmean distance {distance}"
            )
    _pattern(patterns[2], average, "average operator: 1/i")
    with kit.missing(by_row):
        _distance_by_row(by_row, evidence, uniformity)
    with kit.missing(spectrum):
        _spectrum(spectrum, evidence)
    with kit.missing(alignment):
        memory = kit.Series(evidence.condition("M5").of, "memory anchors", kit.BLUE, "s")
        reasoning = kit.Series(evidence.condition("M4").of, "reasoning anchors", kit.RED, "D")
        kit.rates(alignment, evidence, memory, reasoning, untrained=True)
        for claim in ("M4", "M5"):
            kit.threshold(alignment, evidence, claim, gamma=SMALL)
        alignment.set(
            ylim=(0, 1.05),
            ylabel="mean |cos(u$_1$, anchor)|",
            title="leading vector of W$_V$, half",
        )
    kit.legend(figure, 4)
    return figure


def _pattern(axes: Axes, pattern: np.ndarray, title: str) -> None:
    """A mean pattern of attention in %, written out where there are few positions."""

    def percent(value: float) -> str:
        return f"{value:.0f}" if value else ""

    positions = np.arange(1, len(pattern) + 1)
    write = percent if len(pattern) <= 12 else None
    look: dict[str, Any] = {"low": 0, "high": 100, "colours": kit.ATTENTION, "write": write}
    kit.heat_map(axes, 100 * pattern, positions, **look)
    axes.set(xlabel="position j (cells: attention in %)", ylabel="position i", title=title)


def _distance_by_row(axes: Axes, evidence: Evidence, uniformity: Term) -> None:
    """Distance of each row of L0's attention from 1/i, seeds and their mean by rate."""
    rows = replace(uniformity, quantity="tv_per_row")
    with_arrays = {key.partition("/")[0] for key in evidence.arrays}
    for gamma in evidence.gammas:
        if gamma in (LARGE, MIDDLE, SMALL) and str(gamma) in with_arrays:
            stage = "half" if gamma == SMALL else "matched"
            arrays = evidence.array(replace(rows, gamma=gamma, stage=stage))
            _ranked(axes, evidence, arrays.values(), gamma, f"γ = {gamma:g}, {stage}", 2)
    start = evidence.array(replace(rows, stage="init"))
    _untrained(axes, start.values(), 2)
    kit.threshold(axes, evidence, "M1")
    axes.set(ylim=(0, None), xlabel="position i", title="row by row")
    axes.set_ylabel("distance from 1/i (TV, 0 to 1)")


def _spectrum(axes: Axes, evidence: Evidence) -> None:
    """Singular values of L0's W_V over the largest, seeds and their mean."""
    ratio = evidence.condition("M3").of
    values = replace(ratio, quantity="singular_values")
    trained = [array / array[0] for array in evidence.array(values).values()]
    _ranked(axes, evidence, trained, SMALL, f"γ = {SMALL:g}, half", 1)
    start = evidence.array(replace(values, stage="init"))
    _untrained(axes, [array / array[0] for array in start.values()], 1)
    axes.set(ylim=(0, 1.06), xlabel="singular value k of L0's W$_V$", ylabel="s$_k$ / s$_1$")
    axes.set_title(f"s$_1$/s$_2$ = {mean_text(*evidence.spread(ratio))}")


def _untrained(axes: Axes, arrays: Iterable[np.ndarray], first: int) -> None:
    """The mean of untrained models over its places."""
    mean = np.mean([*arrays], 0)
    places = np.arange(first, len(mean) + first)
    axes.plot(places, mean, color=kit.GREY, ls="--", label="untrained models")


def _ranked(
    axes: Axes,
    evidence: Evidence,
    seeds: Iterable[np.ndarray],
    gamma: float,
    label: str,
    first: int,
) -> None:
    """An array of every seed over its places, and its mean."""
    mean, colour = np.mean([*seeds], 0), kit.gamma_colour(gamma, evidence.gammas)
    places, marker = np.arange(first, len(mean) + first), kit.gamma_marker(gamma, evidence.gammas)
    axes.plot(places, np.transpose([*seeds]), color=colour, lw=0.5, alpha=0.5)
    axes.plot(places, mean, color=colour, marker=marker, ms=3.5, lw=1.5, label=label)


def draw_attention_by_role(evidence: Evidence) -> Figure:
    """L1's attention from the last position to key, anchors, itself and noise, one bar per seed and
    rate."""
    figure, axes = kit.panels(2, 1, 3.7, max(kit.WIDTH, 2.1 * len(evidence.shown_gammas)))
    looks: dict[str, dict[str, Any]] = {name: {"fc": colour} for name, (_, colour) in PARTS.items()}
    claims = {"M7": "reasoning inputs", "M7b": "memory inputs"}
    for panel, (claim, inputs) in zip(axes[:, 0], claims.items(), strict=True):
        with kit.missing(panel):
            _attention_bars(panel, evidence, claim, inputs, looks)
    kit.legend(figure, 6, [Patch(**looks[name], label=words) for name, (words, _) in PARTS.items()])
    return figure


def _attention_bars(
    axes: Axes, evidence: Evidence, claim: str, inputs: str, looks: dict[str, dict[str, Any]]
) -> None:
    """The parts of the attention that a claim reads, one bar a seed."""
    condition = evidence.condition(claim)
    start = 0.0
    ticks: dict[float, str] = {}
    title = inputs
    reason = MissingEvidenceError("This run has no members.")
    for gamma in evidence.gammas:
        key = replace(condition.of, gamma=gamma)
        try:
            columns = {part: evidence.values(replace(key, quantity=part)) for part in PARTS}
        except MissingEvidenceError as error:
            reason = error
            title += f", not read at γ = {gamma:g}"
            continue
        untrained = evidence.values(key, "untrained").to_dict()
        first = start
        for seed, shares in pd.DataFrame(columns).dropna().iterrows():
            kit.stack(axes, start, shares.to_dict(), looks.__getitem__, upright=True)
            height = float(untrained.get(seed, np.nan))
            kit.level(axes, start, height, kit.INK, 0.4, label="key, untrained")
            ticks[start] = str(seed)
            start += 1
        if gamma == condition.of.gamma:
            look = {"color": kit.INK, "lw": 0.9, "ls": kit.DASHED}
            ends = [first - 0.5, start - 0.5]
            axes.plot(ends, [condition.threshold] * 2, label="threshold of M7, M7b", **look)
        text = f"γ = {gamma:g}: key {mean_text(*evidence.spread(key))}"
        middle = (first + start - 1) / 2
        axes.text(middle, 1.03, text, ha="center", va="bottom", fontsize=7)
        start += 1.2
    if not ticks:
        raise reason
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set(ylim=(0, 1.16), ylabel="attention (share)", xlabel="seed", title=title)


def draw_variance_explained(evidence: Evidence) -> Figure:
    """Share of variance by component and grouping at the small initialisation, and the two shares
    of M8 by rate."""
    evidence.require(SMALL)
    shares = Term("variance_explained", "", SMALL, "final", "rsn_train")
    readings = evidence.readings
    quantities = readings.loc[readings["probe"] == shares.probe, "quantity"]
    components = sorted({name.split(":")[0] for name in quantities}, key=forward)
    if not components:
        raise MissingEvidenceError(f"This run has no reading of {shares.probe}.")
    figure = kit.new_figure(3.6)
    grid = figure.add_gridspec(2, 2, width_ratios=(2, 1))
    table = figure.add_subplot(grid[:, 0])
    single = [f"anchor_{i}" for i in range(1, evidence.task.q + 1)] if evidence.task.q > 1 else []
    groupings = [*GROUPINGS[:2], *single, *GROUPINGS[2:]]
    medians = np.full((len(components), len(groupings)), np.nan)
    for (row, component), (column, grouping) in product(
        enumerate(components), enumerate(groupings)
    ):
        term = replace(shares, quantity=f"{component}:{grouping}")
        medians[row, column] = evidence.spread(term).estimate
    names = [in_words(component) for component in components]
    columns = [grouping.replace("_", "\n") for grouping in groupings]
    look: dict[str, Any] = {"low": 0, "high": 1, "aspect": "auto", "size": 7}
    kit.heat_map(table, medians, names, columns, colours=kit.ATTENTION, write=two_digits, **look)
    table.set_title(f"share of variance explained, γ = {SMALL:g}, final, median")
    for number, title in enumerate(("key in L1's attention", "sum in L0's")):
        axes = figure.add_subplot(grid[number, 1])
        with kit.missing(axes):
            series = kit.Series(evidence.condition("M8", number).of)
            kit.rates(axes, evidence, series, untrained=True)
            kit.threshold(axes, evidence, "M8", number, SMALL)
            axes.set(ylim=(-0.05, 1.1), title=f"{title} output")
    return figure
