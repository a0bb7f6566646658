"""How often each circuit occurs, by which routes key and anchors travel, and whether members of two circuits agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import number, seeds_text, two_digits
from rb_interp.figures.panels import heat_map, note, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, BLUE, INK, KEY, NOISE, REASONING, RED, new_figure
from rb_interp.interventions.circuit_names import ACCURACY_MIN, SHARE_MIN

CIRCUITS = {
    "average-then-key": ("#0c6b6f", ""), "gather-at-last-anchor": ("#9cc9ea", "\\\\\\"),
    "key-to-anchors": ("#e9b949", "///"), "mixed": ("#a99bd0", "..."), "none": ("#e2e2e2", ""),
}  # fmt: skip
OTHER = ("#ffffff", "xx")
EDGE = "#555555"
PARTS = {
    "from_key": ("from the key", KEY),
    "from_first_anchors": ("from the first anchors", "#a8d8c6"),
    "from_last_anchor": ("from the last anchor", REASONING),
    "L0_at_last": ("L0's attention to the last position", BLUE),
    "from_noise": ("from noise", NOISE),
}
"""Routes that share no position, in the order in which they are drawn: name and colour."""
CHANGES = {"key": "the key is changed", "anchors": "one anchor is changed (mean)"}
NAMED_BY = {"cause": "named by cause", "attention": "named by attention"}
ROW = 0.155
"""Inches of one member."""
PALE = 0.4
"""Opacity of a member that has not learned the rule."""


def draw_circuits(evidence: Evidence) -> Figure:
    """Share of seeds per circuit at each rate, by cause and by attention; every member's routes and two names."""
    counts, members = evidence.table("circuit_counts"), evidence.table("circuits")
    members = members.sort_values(["gamma", "seed"], ignore_index=True)
    gammas = sorted(counts["gamma"].astype(float).unique().tolist())
    above, below = 0.9 + 0.28 * len(gammas), 0.95 + ROW * len(members)
    figure = new_figure(above + below)
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=(above, below))[:, 0]
    for axes, named_by in zip(top.subplots(1, 2, sharey=True), NAMED_BY, strict=True):
        _bars(axes, counts.loc[counts["named_by"] == named_by], gammas)
        axes.set_title(NAMED_BY[named_by])
    panels = bottom.subplots(1, 3, sharey=True, width_ratios=(1, 1, 1.15))
    for axes, change in zip(panels, CHANGES, strict=False):
        _routes(axes, evidence, members, change)
    _names(panels[2], members)
    _rows(panels[0], members)
    found = dict.fromkeys(counts.loc[counts["n"] > 0, "circuit"].astype(str))
    names = [*(name for name in CIRCUITS if name in found), *(name for name in found if name not in CIRCUITS)]
    legend.above(top, [legend.area(name, *CIRCUITS.get(name, OTHER), edge=EDGE) for name in names], columns=len(names))
    parts = [legend.area(words, colour, edge=EDGE) for words, colour in PARTS.values()]
    legend.above(bottom, parts, columns=len(parts))
    return figure


def look(circuit: str) -> dict[str, Any]:
    """Colour, hatch and edge of a circuit."""
    colour, hatch = CIRCUITS.get(circuit, OTHER)
    return {"fc": colour, "hatch": hatch, "ec": EDGE, "lw": 0.4}


def _bars(axes: Axes, counts: pd.DataFrame, gammas: list[float]) -> None:
    for place, gamma in enumerate(gammas):
        start = 0.0
        for row in counts.loc[(counts["gamma"] == gamma) & (counts["n"] > 0)].to_dict("records"):
            axes.barh(place, row["share"], 0.7, left=start, **look(row["circuit"]))
            box = {"fc": "white", "ec": "none", "pad": 1.0}
            text = {"ha": "center", "va": "center", "fontsize": 7, "bbox": box}
            axes.text(start + row["share"] / 2, place, str(row["n"]), **text)
            start += row["share"]
    axes.set_yticks(range(len(gammas)), [f"γ = {gamma:g}" for gamma in gammas])
    axes.set(xlim=(0, 1), ylim=(len(gammas) - 0.5, -0.5), xlabel="share of seeds (written: number of seeds)")


def _routes(axes: Axes, evidence: Evidence, members: pd.DataFrame, change: str) -> None:
    """One bar a member, of the shares of its routes; they need not end at 1."""
    widest = 1.0
    for y, member in enumerate(members.to_dict("records")):
        start, strength = 0.0, PALE if member["cause"] == "none" else 1.0
        for name, (_, colour) in PARTS.items():
            place = {"gamma": float(member["gamma"]), "seed": int(member["seed"])}
            share = evidence.value("routes", f"{change}:{name}", **place, stage="final", set="rsn_train")
            if share > 0:
                axes.barh(y, share, 0.74, left=start, fc=colour, ec=EDGE, lw=0.3, alpha=strength)
                start += share
        widest = max(widest, start)
    axes.axvline(1, color=INK, lw=0.7, ls=":")
    axes.set(xlim=(0, 1.02 * widest), title=CHANGES[change], xlabel="share of the effect, by route")
    axes.set_xticks([0, 0.5, 1])


def _rows(axes: Axes, members: pd.DataFrame) -> None:
    """A label for each member, and a line between rates."""
    labels = [f"γ = {row['gamma']:g}, seed {int(row['seed'])}" for row in members.to_dict("records")]
    axes.set_yticks(range(len(labels)), labels, fontsize=6)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    rates = members["gamma"].tolist()
    for edge in (i for i in range(1, len(rates)) if rates[i] != rates[i - 1]):
        for panel in axes.figure.axes:
            panel.axhline(edge - 0.5, color="#333333", lw=0.6)


def _names(axes: Axes, members: pd.DataFrame) -> None:
    """Each member's name by cause and by attention; red where they differ."""
    for y, row in enumerate(members.to_dict("records")):
        colour = INK if row["cause"] == row["circuit"] else RED
        for x, name in ((0.0, row["cause"]), (0.52, row["circuit"])):
            axes.add_patch(Rectangle((x, y - 0.33), 0.035, 0.66, **look(name)))
            axes.text(x + 0.05, y, name, va="center", fontsize=5.8, color=colour)
    for x, words in ((0.0, "by cause"), (0.52, "by attention")):
        axes.text(x, -0.8, words, fontsize=7, va="bottom")
    axes.set(xlim=(0, 1.04))
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def caption_circuits(evidence: Evidence) -> Caption:
    """Caption of the circuits, with their numbers at the small initialisation."""
    counts = evidence.table("circuit_counts", named_by="cause")
    rows = counts.loc[(counts["gamma"] == SMALL) & (counts["n"] > 0)].to_dict("records")
    named = ", ".join(f"{row['circuit']} {row['n']}" for row in rows)
    named = f"{named} of {seeds_text(rows[0]['total'])}" if rows else "no circuit was named there"
    small, whole = (two_digits(evidence.threshold(claim)) for claim in ("M7r", "M8r"))
    apart = evidence.records("circuit_disagreement", gamma=SMALL)
    differ = f" The name by attention differs in {apart[0]['n']} of {apart[0]['total']}." if apart else ""
    unread = any(math.isnan(share) for share in evidence.table("circuits")["key_from_key"])
    empty = " A member without a bar answers no row rightly both with and without the change." if unread else ""
    return Caption(
        "The circuit that each member ends up with. Below: where the last layer has the key and the anchors from. Each "
        "bar is one member; a part is the share of the effect of changing the key (or one anchor) alone that comes "
        "about when the last layer's input is changed along this route alone (rsn_train, end of training). Parts need "
        f"not add up to 1 (dotted). Pale: accuracy on rsn_train below {two_digits(ACCURACY_MIN)}, so that the bar "
        f"rests on few rows.{empty} The name by cause is the route that carries at least {two_digits(SHARE_MIN)}; the "
        f"name by attention rests on where the model looks, and is red where it differs. By cause at γ = {SMALL:g}: "
        f"{named}.{differ} Average-then-key is the paper's reading (L0 averages, the last layer fetches the key); "
        "key-to-anchors carries the key to the anchors in L0 and reads them in the last; gather-at-last-anchor reads "
        "the last anchor alone.",
        "that small initialisation leads to the paper's circuit: a small share of average-then-key at γ = "
        f"{SMALL:g} (M7r: of the key, parts from its own position below {small}; M8r: of the anchors, parts by L0's "
        f"attention at the last position below {whole}), or as large a share at the other rates. With few seeds "
        "a share is coarse: one of eight seeds is already 13 %.",
    )


HELD_OUT = "held_out"
NOT_COMPARED = f"Two circuits were not compared: this needs members of two circuits at γ = {SMALL:g}, and two of one."


def draw_equivalence(evidence: Evidence) -> Figure:
    """Disagreement of every two members at the small initialisation, ordered by circuit, on two kinds of rows."""
    evidence.require(SMALL)
    figure = new_figure(3.9)
    panels = figure.subplots(1, 2)
    for axes, battery in zip(panels, (HELD_OUT, short_rows(evidence)), strict=True):
        try_panel(axes, _members, evidence, battery)
    images = [axes.images[0] for axes in panels if axes.images]
    if images:
        label = "share of rows that two members answer differently"
        figure.colorbar(images[0], ax=list(panels), label=label, shrink=0.7, aspect=40, location="bottom")
        found = dict.fromkeys(row["circuit"] for row in _members_of(evidence, HELD_OUT))
        entries = [legend.area(name, *CIRCUITS.get(name, OTHER), edge=EDGE) for name in found]
        legend.above(figure, entries, columns=len(entries))
    return figure


def short_rows(evidence: Evidence) -> str:
    """Name of the battery of short rows, ``length_4`` for two anchors."""
    return f"length_{evidence.task.q + 2}"


def titled(battery: str) -> str:
    """What the rows of a battery are, in words.

    >>> titled("length_4"), titled("key_at_0")
    ('rows of length 4', 'key at position 0')
    """
    named = {"held_out": "held-out rows", "distractor": "one anchor too many", "second_block": "a second key, anchors"}
    kind, _, at = battery.rpartition("_")
    return named.get(battery) or {"length": f"rows of length {at}", "key_at": f"key at position {at}"}[kind]


def _members_of(evidence: Evidence, battery: str) -> list[dict]:
    """Members that take part, ordered by circuit and then by seed, with their accuracy."""
    rows = evidence.records("battery_accuracy", battery=battery)
    named = [row for row in rows if row["circuit"] != "none"]
    return sorted(
        named, key=lambda row: ([*CIRCUITS, row["circuit"]].index(row["circuit"]), row["circuit"], row["seed"])
    )


def _members(axes: Axes, evidence: Evidence, battery: str) -> None:
    pairs_of_all = evidence.tables.get("disagreement")
    if pairs_of_all is not None and pairs_of_all.empty:
        raise MissingEvidenceError(NOT_COMPARED)
    members, pairs = _members_of(evidence, battery), evidence.table("disagreement", battery=battery)
    place = {row["seed"]: at for at, row in enumerate(members)}
    matrix = np.full((len(members), len(members)), np.nan)
    for pair in pairs.to_dict("records"):
        a, b = place[pair["seed_a"]], place[pair["seed_b"]]
        matrix[a, b] = matrix[b, a] = pair["disagreement"]
    itself = np.eye(len(members), dtype=bool)
    labels = [row["seed"] for row in members]
    heat_map(axes, matrix, labels, low=0, high=1, colours=ATTENTION, write=two_digits, hidden=itself)
    for at, row in enumerate(members):
        for corner, width, height in (((at - 0.5, -0.92), 1, 0.32), ((-0.92, at - 0.5), 0.32, 1)):
            axes.add_patch(Rectangle(corner, width, height, **look(row["circuit"])))
        right = {"va": "center", "ha": "left", "annotation_clip": False}
        note(axes, two_digits(row["accuracy"]), (len(members) - 0.4, float(at)), "data", **right)
        if at and row["circuit"] != members[at - 1]["circuit"]:
            axes.axhline(at - 0.5, color=INK, lw=1.2)
            axes.axvline(at - 0.5, color=INK, lw=1.2)
    head = {"va": "bottom", "ha": "left", "annotation_clip": False}
    note(axes, "accuracy", (len(members) - 0.4, -0.6), "data", **head)
    axes.set(xlim=(-1, len(members) + 0.3), ylim=(len(members) - 0.5, -1))
    axes.set(xlabel="seed of one member", ylabel="seed of the other", title=titled(battery))


def caption_equivalence(evidence: Evidence) -> Caption:
    """Caption of the disagreement between members, with the numbers of both kinds of rows."""
    short = short_rows(evidence)
    alike, apart = (two_digits(evidence.threshold(claim)) for claim in ("Q1", "Q2"))
    seen = "; ".join(filter(None, (_compared(evidence, battery) for battery in (HELD_OUT, short))))
    return Caption(
        f"Each cell: the share of the same rows that two members at γ = {SMALL:g} answer differently. Members of one "
        "circuit stand together, and lines part the circuits. Beside each line stands that member's accuracy. Left: "
        f"{titled(HELD_OUT)}, as long as those of training. Right: {titled(short)}, which no member was trained on. "
        f"{seen or 'Nothing was compared in this run'}. Members that all fail, each in its own way, disagree within "
        "their circuit too, so look at the accuracy as well.",
        f"dark cells between circuits and light ones within them on the left, a difference above {alike} (Q1): members "
        "of two circuits would not do the same even on the task's own rows. Cells as light between circuits as within "
        f"them on the right, a difference below {apart} (Q2), and all members equally accurate: nothing would tell the "
        "circuits apart, and they could be one mechanism with two names.",
    )


def _compared(evidence: Evidence, battery: str) -> str:
    """What was compared on a battery, as half a sentence; empty where nothing was."""
    try:
        row = evidence.table("equivalence", battery=battery).iloc[0]
    except MissingEvidenceError:
        return ""
    if not np.isfinite(row["difference"]):
        return ""
    means = f"{number(row['between'])} between circuits and {number(row['within'])} within"
    test = (
        f"p = {number(row['p_value'])}, {'all ' if row['exact'] else ''}{row['n_relabelings']} relabelings of members"
    )
    return f"{titled(battery)[:1].upper()}{titled(battery)[1:]}: {means} ({test})"
