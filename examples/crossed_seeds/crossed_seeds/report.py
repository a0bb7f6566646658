"""What the report says of crossed seeds: how often each circuit occurs, the shares of variance, and one figure."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from crossed_seeds.measure import components_table, crossing_table
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.panels import heat_map
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import INK, RED, new_figure, styled
from rb_interp.report import section as page

COMPONENTS = {
    "data": "data", "initialisation": "initial weights", "rest": "interaction and noise",
    "difference": "data less initial weights",
}  # fmt: skip
SHORT = {"average-then-key": "average", "gather-at-last-anchor": "gather", "key-to-anchors": "anchors"}
"""Circuits -> what a cell says of them; other names are said whole."""
GLOSSARY: dict[str, str] = {
    "member": "One model: one γ, one seed of the data and one seed of the initial weights.",
    "seed of the data": "Fixes rows, label table and order of batches; sweep data_3 has the data of seed 3.",
    "seed of the initial weights": "Fixes the standard normal draws.",
    "share of the key's effect": (
        "Another key changes the logit of the new answer less that of the old one. The share is what remains of this "
        "change where only the last layer's input at some positions (a route) is taken from the row with the other "
        "key; sum over rows by sum over rows, cut off at 0 and 1."
    ),
    "circuit by cause": (
        "What a member learned, named by the routes of the key and of the anchors; the rules are those of "
        "rb_interp.interventions.circuit_by_cause."
    ),
    "share of variance": "Seeds of both kinds count as samples of all seeds.",
}


def narrative(evidence: Evidence) -> page.Narrative:
    """Answer, and a section with the table of shares and the figure."""
    crossing = crossing_table(evidence.readings)
    parts = components_table(crossing, evidence.config).set_index("component")
    circuits = ", ".join(f"{name} {n}" for name, n in crossing["circuit"].value_counts(sort=False).sort_index().items())
    if math.isnan(parts.loc["data", "share"]):
        decides = (
            "No share of variance is known: all members are alike, or one of them diverged or answers no row rightly, "
            "so that its cell is empty."
        )
    else:
        decides = f"Variance of the share of the key's effect from its own position: {_shares(parts)}."
    rows = [
        page.Row((page.Cell(words, head=True), page.Cell(_text(parts, name)), page.Cell(f"{variance:.3g}")))
        for (name, words), variance in zip(COMPONENTS.items(), parts["variance"], strict=True)
    ]
    note = page.Paragraph(
        "Shares are estimated by the analysis of variance; a negative one is cut off at 0. Their 95 % intervals hold "
        "for numbers near 0 or 1 too, and are wide: six seeds of a kind say little.", "soft",
    )  # fmt: skip
    blocks = (page.Table(("", "share [95 % interval]", "variance"), tuple(rows)), note, page.Figure("crossing"))
    answer = (f"Circuits by cause, members: {circuits}.", decides)
    return page.Narrative(answer, sections=(page.Section("shares", "Shares of variance", blocks, short="Shares"),))


def _text(parts: pd.DataFrame, name: str) -> str:
    share, low, high = parts.loc[name, ["share", "low", "high"]]
    return "n/a" if math.isnan(share) else f"{share:.2f} [{low:.2f}, {high:.2f}]".replace("-", "−")


def _shares(parts: pd.DataFrame) -> str:
    return ", ".join(f"{words} {_text(parts, name)}" for name, words in COMPONENTS.items())


@styled
def draw(evidence: Evidence) -> Figure:
    """Share of the key's effect from its own position, and circuit, of every member, and whose seed decides it."""
    crossing = crossing_table(evidence.readings)
    figure = new_figure(3.3)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _members(left, crossing, evidence.config)
    _components(right, components_table(crossing, evidence.config))
    return figure


def _members(axes: Axes, crossing: pd.DataFrame, config) -> None:
    rows, columns = (sorted(seeds) for seeds in (config.data_seeds, config.seeds))
    values = crossing.pivot(index="data_seed", columns="seed", values="key_from_key").reindex(rows, columns=columns)
    shade = heat_map(axes, values.to_numpy(), low=0, high=1, colours="GnBu")
    for member in crossing.to_dict("records"):
        row, column, share = rows.index(member["data_seed"]), columns.index(member["seed"]), member["key_from_key"]
        ink = {"color": "white" if share > 0.6 else INK, "ha": "center"}
        axes.text(column, row - 0.03, "" if math.isnan(share) else f"{share:.2f}", va="bottom", fontsize=7, **ink)
        axes.text(column, row + 0.03, SHORT.get(member["circuit"], member["circuit"]), va="top", fontsize=5.5, **ink)
        if member["data_seed"] == member["seed"]:
            place = (column - 0.46, row - 0.46)
            axes.add_patch(Rectangle(place, 0.92, 0.92, fill=False, ec=RED, lw=1.4, zorder=5))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="seed of the initial weights", ylabel="seed of the data")
    bar = axes.figure.colorbar(shade, ax=axes, fraction=0.046, pad=0.03)
    bar.set_label("share of the key's effect from its own position")


def _components(axes: Axes, parts: pd.DataFrame) -> None:
    for place, (part, words) in enumerate(zip(parts.to_dict("records"), COMPONENTS.values(), strict=True)):
        axes.plot([part["low"], part["high"]], [place, place], color=INK, lw=1.1)
        axes.plot([part["share"]], [place], "o", color=INK, ms=4.5)
        axes.text(0.0, place - 0.22, words, transform=axes.get_yaxis_transform(), fontsize=7.5)
    axes.axvline(0, color="#b0b0b0", lw=0.7, zorder=0)
    axes.set(xlim=(-1.04, 1.04), ylim=(len(COMPONENTS) - 0.5, -0.7), yticks=[], xlabel="share of the variance")
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.spines["left"].set_visible(False)


def caption(evidence: Evidence) -> Caption:
    """Caption of the crossing, with the shares of variance."""
    crossing = crossing_table(evidence.readings)
    names = "; ".join(f"{short}: {name}" for name, short in SHORT.items() if name in set(crossing["circuit"]))
    shares = _shares(components_table(crossing, evidence.config).set_index("component"))
    return Caption(
        f"{len(crossing)} members: each seed of the data (rows, label table, order of batches) with each seed of the "
        "initial weights; a red frame: both are the same, a member of the anchor study. Left: share of the key's "
        "effect on the answer that enters the last layer at the key's own position, and below it the circuit by cause"
        f"{f' ({names})' if names else ''}. Right: the variance of that share, divided between the two seeds, with 95 "
        f"% intervals: {shares}. The rest is interaction and noise: with one member in each cell the two cannot be "
        "told apart.",
        "that the data decide: rows that are not of one colour, and an interval of the difference below 0. That the "
        "initial weights decide: columns that are not of one colour, and an interval above 0. That neither does "
        "alone: a small rest.",
    )


FIGURES = (FigureSpec("crossing", "Which seed decides the route of the key, and the circuit", draw, caption),)
