"""What the report says of crossed seeds: how often each circuit occurs, the shares of variance, and
one figure."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from crossed_seeds.measure import components_table, crossing_table
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.kit import INK, RED, heat_map, new_figure

COMPONENTS = {
    "data": "data",
    "initialisation": "initial weights",
    "rest": "interaction and noise",
    "difference": "data less initial weights",
}
SHORT = {
    "average-then-key": "average",
    "gather-at-last-anchor": "gather",
    "key-to-anchors": "anchors",
}
"""Circuits -> what a cell says of them; other names are said whole."""
GLOSSARY: dict[str, str] = {
    "member": "One model: one γ, one seed of the data and one seed of the initial weights.",
    "seed of the data": "Fixes rows, label table and order of batches; sweep data_3 has the data of seed 3.",
    "seed of the initial weights": "Fixes the standard normal draws.",
    "share of the key's effect": (
        "Another key changes the logit of the new answer less that of the old one. The share is "
        "what remains of this "
        "change where only the last layer's input at some positions (a route) is taken from the "
        "row with the other "
        "key; sum over rows by sum over rows, cut off at 0 and 1."
    ),
    "circuit by cause": (
        "What a member learned, named by the routes of the key and of the anchors; the rules are "
        "those of "
        "rb_interp.interventions.circuit_by_cause."
    ),
    "share of variance": "Seeds of both kinds count as samples of all seeds.",
}


def parts(evidence: Evidence) -> list[dict]:
    """Shares of variance of the key's route, as rows of the report."""
    table = components_table(crossing_table(evidence.readings), evidence.config)
    return [{**row, "mean": row["share"]} for row in table.to_dict("records")]


def draw(evidence: Evidence) -> Figure:
    """Share of the key's effect from its own position, and circuit, of every member, and whose seed
    decides it."""
    crossing = crossing_table(evidence.readings)
    figure = new_figure(3.3)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _members(left, crossing, evidence.config)
    _components(right, components_table(crossing, evidence.config))
    return figure


def _members(axes: Axes, crossing: pd.DataFrame, config) -> None:
    rows, columns = (sorted(seeds) for seeds in (config.data_seeds, config.seeds))
    values = crossing.pivot(index="data_seed", columns="seed", values="key_from_key").reindex(
        rows, columns=columns
    )
    shade = heat_map(axes, values.to_numpy(), low=0, high=1, colours="GnBu")
    for member in crossing.to_dict("records"):
        row, column, share = (
            rows.index(member["data_seed"]),
            columns.index(member["seed"]),
            member["key_from_key"],
        )
        ink = {"color": "white" if share > 0.6 else INK, "ha": "center"}
        axes.text(
            column,
            row - 0.03,
            "" if math.isnan(share) else f"{share:.2f}",
            va="bottom",
            fontsize=7,
            **ink,
        )
        axes.text(
            column,
            row + 0.03,
            SHORT.get(member["circuit"], member["circuit"]),
            va="top",
            fontsize=5.5,
            **ink,
        )
        if member["data_seed"] == member["seed"]:
            place = (column - 0.46, row - 0.46)
            axes.add_patch(Rectangle(place, 0.92, 0.92, fill=False, ec=RED, lw=1.4, zorder=5))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="seed of the initial weights", ylabel="seed of the data")
    bar = axes.figure.colorbar(shade, ax=axes, fraction=0.046, pad=0.03)
    bar.set_label("share of the key's effect from its own position")


def _components(axes: Axes, parts: pd.DataFrame) -> None:
    for place, (part, words) in enumerate(
        zip(parts.to_dict("records"), COMPONENTS.values(), strict=True)
    ):
        axes.plot([part["low"], part["high"]], [place, place], color=INK, lw=1.1)
        axes.plot([part["share"]], [place], "o", color=INK, ms=4.5)
        axes.text(0.0, place - 0.22, words, transform=axes.get_yaxis_transform(), fontsize=7.5)
    axes.axvline(0, color="#b0b0b0", lw=0.7, zorder=0)
    axes.set(
        xlim=(-1.04, 1.04),
        ylim=(len(COMPONENTS) - 0.5, -0.7),
        yticks=[],
        xlabel="share of the variance",
    )
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.spines["left"].set_visible(False)


FIGURES = {"crossing": draw}
