"""Do members of two circuits answer alike: on the task's own rows, and on rows shorter than any they learned?"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import number, two_digits
from rb_interp.figures.panels import heat_map, note, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, INK, new_figure
from rb_interp.studies.anchor.figures.circuits import CIRCUITS, EDGE, OTHER, look

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
