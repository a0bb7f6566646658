"""Information flow as a diagram, drawn from what one member of each rate attends to (after Fig. 3 of paper 2)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, GREY, INK, RED, WIDTH, new_figure, styled
from rb_interp.studies.composite.config import MIDDLE, SMALL
from rb_interp.studies.composite.flow import CARRIES, NONE, SEVERAL
from rb_interp.studies.composite.phase import UNFIT

SETS = {"seen_test": "trained pairs", "unseen": "(4,3), never trained"}
FAINT, WIDEST = 0.05, 5.0
"""Attention below which nothing is drawn, and width of a line of attention 1, in points."""
COLOURS = {"key": BLUE, "a1": RED, "a2": RED}
CARRIED = (("last", "kb_ps", "pair"), ("key", "ks_pb", "key"), ("a1+a2", "source", "both"))
"""Roles taken from the source, the answer that is counted, and what the roles carry where it is given."""
PLACES = {role: place for place, role in enumerate(("key", "a1", "a2", "noise", "last"))}


@styled
def draw_diagram(evidence: Evidence) -> Figure:
    """Attention as lines between roles, layer over layer: a column for each rate, a row for each set of pairs."""
    rates = evidence.shown_gammas
    figure = new_figure(2.55 * len(SETS) + 0.4, max(WIDTH, 2.4 * len(rates)))
    panels = figure.subplots(len(SETS), len(rates), squeeze=False)
    for row, (name, words) in zip(panels, SETS.items(), strict=True):
        for axes, gamma in zip(row, rates, strict=True):
            try_panel(axes, _panel, evidence, gamma, name)
            axes.set_xlabel(words)
    legend.above(
        figure,
        [
            legend.line("from the key", BLUE, "-", 3.0),
            legend.line("from an anchor", RED, "-", 3.0),
            legend.line("from noise or the last position", GREY, "-", 3.0),
        ],
        columns=3,
    )
    return figure


def shown_member(evidence: Evidence, gamma: float) -> dict[str, Any]:
    """The member of a rate that stands for it: the first seed of the most frequent phase and flow that is fitted.

    Of two that are as frequent, one with a single flow.
    Where no member is fitted, of the most frequent one of all. ``like`` is how many members have its phase and flow.
    """
    members = [row for row in evidence.records("phases") if row["gamma"] == gamma]
    if not members:
        raise MissingEvidenceError("No member of this rate was read.")
    members = sorted(members, key=lambda row: row["seed"])
    fitted = [row for row in members if row["phase"] != UNFIT] or members
    kinds = Counter((row["phase"], row["flow"]) for row in fitted)
    (phase, flow), like = max(kinds.items(), key=lambda kind: (kind[1], kind[0][1] not in (SEVERAL, NONE)))
    first = next(row for row in fitted if (row["phase"], row["flow"]) == (phase, flow))
    return {**first, "like": like, "of": len(members)}


def _panel(axes: Axes, evidence: Evidence, gamma: float, name: str) -> None:
    member = shown_member(evidence, gamma)
    attention = evidence.table("attention", gamma=gamma, set=name, head=0)
    attention = attention.loc[attention["seed"] == member["seed"]]
    if attention.empty:
        raise MissingEvidenceError("This member has no such row to read.")
    layers = sorted(set(attention["layer"]))
    for layer in layers:
        rows = attention.loc[attention["layer"] == layer]
        if layer == layers[-1]:
            rows = rows.loc[rows["query"] == "last"]
        _lines(axes, rows, layer)
    for level in range(len(layers) + 1):
        for role, place in PLACES.items():
            if level <= layers[-1] or role == "last":
                axes.plot(place, level, "o", ms=5.5, mfc="white", mec=INK, mew=0.9, zorder=5)
    title = f"γ = {gamma:g}, seed {member['seed']} ({member['like']} of {member['of']} seeds):\n"
    if name == "seen_test":
        of = f"{member['n_pairs']} {'pair' if member['n_pairs'] == 1 else 'pairs'}"
        axes.set_title(f"{title}{member['phase']}, {member['flow']}, {of}", fontsize=7.5)
        _carried(axes, evidence, gamma, member["seed"])
    axes.set(xlim=(-0.6, len(PLACES) - 0.4), ylim=(-0.35, len(layers) + 0.3))
    axes.set_xticks(list(PLACES.values()), list(PLACES))
    axes.set_yticks(range(len(layers) + 1), ["input", *(f"after L{layer}" for layer in layers)])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _lines(axes: Axes, rows: pd.DataFrame, layer: int) -> None:
    """Lines from the roles that are attended to, below, to the roles that attend, above; the stronger ones on top."""
    for row in rows.sort_values("attention").to_dict("records"):
        if row["attention"] >= FAINT:
            ends = [PLACES[row["key"]], PLACES[row["query"]]]
            look = {"lw": WIDEST * row["attention"], "solid_capstyle": "butt", "alpha": 0.85}
            axes.plot(
                ends, [layer, layer + 1], color=COLOURS.get(row["key"], GREY), zorder=1 + row["attention"], **look
            )


def _carried(axes: Axes, evidence: Evidence, gamma: float, seed: int) -> None:
    """Beside the roles after L0, what they were found to carry."""
    moved = evidence.table("interchange", gamma=gamma)
    moved = moved.loc[moved["seed"] == seed].set_index("roles")
    for roles, answer, word in CARRIED:
        if roles not in moved.index or not moved.loc[roles, "n"]:
            continue
        share = float(moved.loc[roles, answer])
        place = sum(PLACES[role] for role in roles.split("+")) / len(roles.split("+"))
        weight = "bold" if share >= CARRIES else "normal"
        box = {"fc": "white", "ec": "#cfcfcf", "lw": 0.5, "pad": 1.2, "alpha": 0.9}
        text = f"{word} {two_digits(share)}"
        axes.text(place, 1.24, text, ha="center", va="bottom", fontsize=6, weight=weight, bbox=box, zorder=8)


def caption_diagram(evidence: Evidence) -> Caption:
    """Caption of the diagram, with what F1 and F2 judge."""
    return Caption(
        "What attends to what, in one member of each rate: the first seed of the most frequent phase and flow among "
        "members that are fitted, or among all where none is. A line goes from the role that is attended to, below, to "
        "the role that attends, above; its width is the mean attention of head 0 over rows (the widest is 1), and "
        f"below {two_digits(FAINT)} nothing is drawn. Of the last layer only the last position is drawn, since it "
        "alone is answered from. What a position has is kept beside this in the residual stream and is not drawn. "
        "Boxes: the share of pairs of inputs that are answered with the source's pair (“pair”), its key (“key”), or "
        "both (“both”, over the two anchors) once these roles are taken from the source after L0; bold from "
        f"{two_digits(CARRIES)} on, where a flow has its name from it. Titles say how many "
        "pairs these are, those that are answered rightly; members without a box answer none so.",
        f"at γ = {MIDDLE:g} no red lines into last in L0, or no blue line into last in L1 (F1); at γ = {SMALL:g} no "
        "blue lines into a1 and a2 in L0, or no red lines into last in L1 (F2).",
    )
