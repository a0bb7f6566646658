"""What each member's roles carry after L0: the shares that flows have their names from."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import heat_map, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, new_figure, styled
from rb_interp.studies.composite.config import MIDDLE, SMALL
from rb_interp.studies.composite.flow import ALONE, CARRIES

SHOWN = (
    *(("last", "kb_ps"), ("key", "ks_pb"), ("a1+a2", "source"), ("a1", "source"), ("a2", "source")),
    *(("last", "base"), ("key", "base"), ("a1+a2", "base"), ("a1+a2", "ks_pb")),
)
"""Roles taken from the source, and the answer that is counted."""


@styled
def draw_flows(evidence: Evidence) -> Figure:
    """A row for each member: shares of pairs by roles and answer, with its phase and flow."""
    n = len(evidence.records("phases"))
    figure = new_figure(max(1.8, 0.9 + 0.17 * n))
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0.02, 0, 0.97, 1))  # the members' names are wider when drawn than when they are laid out
    try_panel(figure.subplots(), _members, evidence)
    return figure


def _members(axes: Axes, evidence: Evidence) -> None:
    members = evidence.table("phases").sort_values(["gamma", "seed"])
    moved = evidence.table("interchange").set_index(["gamma", "seed", "roles"])
    places = list(zip(members["gamma"], members["seed"], strict=True))
    values = np.array([[moved[answer].get((*place, roles), np.nan) for roles, answer in SHOWN] for place in places])
    heat_map(axes, values, low=0, high=1, colours=ATTENTION, write=two_digits, text=9999)
    axes.set_aspect("auto")
    axes.set_xticks(range(len(SHOWN)), [f"{roles}\n→ {answer}" for roles, answer in SHOWN])
    axes.xaxis.tick_top()
    names = [f"γ = {gamma:g}, seed {seed}" for gamma, seed in places]
    axes.set_yticks(range(len(places)), names)
    for row, member in enumerate(members.to_dict("records")):
        text = f"{member['phase']}; {member['flow']}, n = {member['n_pairs']}"
        axes.text(len(SHOWN) - 0.4, row, text, va="center", fontsize=6.5)


def caption_flows(evidence: Evidence) -> Caption:
    """Caption of interchange, with what F4 and F5 judge."""
    last, anchors = (two_digits(evidence.threshold(claim)) for claim in ("F4", "F5"))
    return Caption(
        "Share of pairs of inputs that get an answer once the residual stream after L0 is taken from the source at the "
        "roles above: kb_ps is the base's key with the source's pair, ks_pb the source's key with the base's pair. On "
        "the right phase, flow and number of pairs; crossed cells have no pair. “via last” needs the first two columns "
        f"at {two_digits(CARRIES)} or more, “via anchors” the third one, with the fourth and fifth below "
        f"{two_digits(ALONE)}, “via a2” the fifth; anything else is “several”.",
        f"at γ = {MIDDLE:g} a first or second column below {last} (F4); at γ = {SMALL:g} a third column, or base in "
        f"the columns of last and key, below {anchors} (F5).",
    )
