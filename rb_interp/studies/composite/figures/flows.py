"""Mean attention from role to role (after Fig. 3 of paper 2), and what roles carry after L0, member by member."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import heat_map, over_seeds, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, WIDTH, new_figure, styled
from rb_interp.studies.composite.config import MIDDLE, SMALL
from rb_interp.studies.composite.flow import ALONE, CARRIES, FLOWS, NONE, ROLES

ACROSS = 4
"""Groups of members beside each other; more of them stand below."""


@styled
def draw_attention(evidence: Evidence) -> Figure:
    """Heat maps of attention between roles on trained pairs, layers below each other, rates and flows beside them."""
    counts = Counter((member["gamma"], member["flow"]) for member in evidence.records("phases"))
    groups = {group: counts[group] for group in product(evidence.gammas, FLOWS) if counts[group]}
    layers = range(evidence.config.model.n_layers)
    if not groups:
        raise MissingEvidenceError("This run has no members.")
    columns, shown = min(len(groups), ACROSS), list(groups.items())
    blocks = [shown[at : at + columns] for at in range(0, len(shown), columns)]
    figure = new_figure(0.4 + 2.1 * len(layers) * len(blocks), max(WIDTH, 0.6 + 1.9 * columns))
    panels = figure.subplots(len(layers) * len(blocks), columns, squeeze=False)
    for row, (block, layer) in zip(panels, product(blocks, layers), strict=True):
        for axes, ((gamma, flow), n) in zip(row, block, strict=False):
            try_panel(axes, _map, evidence, layer, gamma, flow)
            named = "no flow" if flow == NONE else flow
            axes.set_title(f"L{layer}, γ = {gamma:g}\n{named}, {n} member{'s' * (n > 1)}")
            axes.set_xlabel("to (key)" if layer == layers[-1] else "")
        for axes in row[len(block) :]:
            axes.set_axis_off()
        row[0].set_ylabel("from (query)")
    images = [axes.images[0] for axes in panels.flat if axes.images]
    if images:
        figure.colorbar(images[0], ax=panels, label="attention (share), mean over members", shrink=0.5, aspect=30)
    return figure


def _map(axes: Axes, evidence: Evidence, layer: int, gamma: float, flow: str) -> None:
    place = {"gamma": gamma, "flow": flow, "set": "seen_test", "layer": layer, "head": 0, "quantity": "attention"}
    means = evidence.table("attention_summary", **place).pivot(index="query", columns="key", values="mean")
    matrix = means.reindex(index=list(ROLES), columns=list(ROLES)).to_numpy()
    heat_map(axes, matrix, ROLES, low=0, high=1, colours=ATTENTION, write=two_digits, text=32)


def caption_attention(evidence: Evidence) -> Caption:
    """Caption of attention between roles, with what F1 to F3 judge."""

    def read(layer: int, quantity: str, gamma: float) -> str:
        deepest = layer > 0
        return over_seeds(evidence, "attention_between_roles", quantity, gamma, set="seen_test", deepest=deepest)

    return Caption(
        "Attention of the first head at the last step on trained pairs that are no exceptions, with test keys at "
        "positions that leave noise between anchors and last position; mean over rows and over the members of a rate "
        "that have the same flow by interchange. Rows are queries; a row adds up to 1. Over all members, at "
        f"γ = {MIDDLE:g} L0 looks from the last position to both anchors by {read(0, 'last_to_anchors', MIDDLE)} and "
        f"the last layer to the key by {read(1, 'last_to_key', MIDDLE)}; at γ = {SMALL:g} L0 looks from a1 to the key "
        f"by {read(0, 'a1_to_key', SMALL)} and the last layer from the last position to both anchors by "
        f"{read(1, 'last_to_anchors', SMALL)} (median [range] over seeds).",
        f"at γ = {MIDDLE:g} a last row of L0 without dark cells at a1 and a2, or one of L1 without a dark cell at key "
        f"(F1); at γ = {SMALL:g} rows a1 and a2 of L0 without a dark cell at key, or a last row of L1 without dark "
        "cells at a1 and a2 (F2).",
    )


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
