"""Where key and anchors travel: logit difference recovered by patching one component at the positions of one role."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures.ablations import PARTS, in_words
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import Caption, heat_map, sentence_figure, two_digits
from rb_interp.figures.style import ATTENTION, RED, WIDTH, new_figure, styled

CHANGES = {"key": "inputs differ in the key", "anchors": "inputs differ in the anchors"}
ROLES = {
    "key": "key", "first_anchor": "first\nanchor", "last_anchor": "last\nanchor", "anchor": "all\nanchors",
    "last": "last\nposition", "noise": "noise", "all": "every\nposition",
}  # fmt: skip


MARGIN = 0.05
"""How far outside [0, 1] a cell must lie to be marked; what is written in it is never clipped."""


class Column(NamedTuple):
    """A rate, or the members of one circuit at a rate."""

    gamma: float
    circuit: str
    seeds: tuple[int, ...]

    @property
    def title(self) -> str:
        """Heading: rate, circuit where it is split by it, seeds."""
        rate = f"γ = {self.gamma:g} ({seeds_text(len(self.seeds))})"
        return f"{rate}\n{self.circuit}" if self.circuit else rate


def columns(evidence: Evidence) -> list[Column]:
    """One column a rate, ascending; the small initialisation one a circuit where its members learned several."""
    table, found = _final(evidence), []
    for gamma in sorted(table["gamma"].astype(float).unique().tolist()):
        seeds = sorted(table.loc[table["gamma"] == gamma, "seed"].astype(int).unique().tolist())
        names = {seed: _circuit(evidence, gamma, seed) for seed in seeds} if gamma == SMALL else {}
        split = sorted(set(names.values()))
        if len(split) < 2:
            found.append(Column(gamma, "", tuple(seeds)))
            continue
        found += [Column(gamma, name, tuple(s for s in seeds if names[s] == name)) for name in split]
    return found


def _circuit(evidence: Evidence, gamma: float, seed: int) -> str:
    table = evidence.circuits
    here = table.loc[(table["gamma"].astype(float) == gamma) & (table["seed"].astype(int) == seed), "circuit"]
    return str(here.iloc[0]) if len(here) else "not named"


def _final(evidence: Evidence) -> pd.DataFrame:
    table = evidence.table("patching")
    return table.loc[table["stage"] == "final"]


def cells(evidence: Evidence) -> tuple[list[tuple[str, int]], list[str]]:
    """Rows (component, layer) in forward order, and columns (roles) of the matrices."""
    table, parts, roles = _final(evidence), list(PARTS), list(ROLES)
    pairs = {(str(c), int(layer)) for c, layer in zip(table["component"], table["layer"], strict=True)}
    rows = sorted(pairs, key=lambda pair: (pair[1], _place(pair[0], parts), pair[0]))
    return rows, sorted(table["role"].astype(str).unique(), key=lambda role: (_place(role, roles), role))


def _place(name: str, order: list[str]) -> int:
    return order.index(name) if name in order else len(order)


def matrix(evidence: Evidence, change: str, column: Column) -> Float[np.ndarray, "row role"]:
    """Recovered logit difference, mean over the column's seeds; NaN where no seed has a value."""
    rows, roles = cells(evidence)
    table = _final(evidence)
    here = table.loc[(table["change"] == change) & (table["gamma"] == column.gamma) & table["seed"].isin(column.seeds)]
    means = here.groupby(["component", "layer", "role"])["recovered"].mean().to_dict()
    return np.array([[means.get((c, layer, role), np.nan) for role in roles] for c, layer in rows], dtype=float)


@styled
def draw_patching_matrix(evidence: Evidence) -> Figure:
    """Recovered logit difference by component, layer and role: a row of matrices per change, a column per rate."""
    try:
        shown = columns(evidence)
        rows, roles = cells(evidence)
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    if not shown:
        return sentence_figure("This run has no patched activations at the end of training.")
    figure = new_figure(1.6 + 2 * 0.19 * len(rows), max(WIDTH, 1.0 + len(shown) * (0.25 + 0.2 * len(roles))))
    panels = figure.subplots(len(CHANGES), len(shown), sharex=True, sharey=True, squeeze=False)
    for line, change in zip(panels, CHANGES, strict=True):
        for axes, column in zip(line, shown, strict=True):
            _panel(axes, matrix(evidence, change, column), rows)
        line[0].set_ylabel(CHANGES[change], fontsize=8)
    for axes, column in zip(panels[0], shown, strict=True):
        axes.set_title(column.title, fontsize=7)
    for axes in panels[-1]:
        axes.set_xticks(range(len(roles)), [ROLES.get(r, r) for r in roles], rotation=90, fontsize=6.5)
    panels[0, 0].set_yticks(range(len(rows)), [in_words(f"{part}.{layer}") for part, layer in rows], fontsize=6.5)
    bar = figure.colorbar(panels[0, 0].images[0], ax=panels, location="bottom", shrink=0.45, aspect=40, pad=0.02)
    bar.set_label(
        f"recovered logit difference (0: nothing of what differs, 1: all of it; ▲ above {1 + MARGIN:g}, "
        f"▼ below −{MARGIN:g})"
    )
    return figure


def _panel(axes: Axes, values: Float[np.ndarray, "row role"], rows: list[tuple[str, int]]) -> None:
    heat_map(axes, values, low=0.0, high=1.0, colours=ATTENTION, write=two_digits, text=95.0)
    axes.set_aspect("auto")
    for at in range(1, len(rows)):
        if rows[at][1] != rows[at - 1][1]:
            axes.axhline(at - 0.5, color="#333333", lw=0.8)
    for row, role in np.argwhere(outside(values)).tolist():
        high = values[row, role] > 1
        axes.plot([role + 0.36], [row - 0.3 if high else row + 0.3], marker="^" if high else "v", ms=2.6, color=RED,
                  mec="none", zorder=5)  # fmt: skip


def outside(values: np.ndarray) -> np.ndarray:
    """Where a value lies outside [0, 1] by more than MARGIN.

    >>> outside(np.array([-0.04, -0.06, 1.04, 1.06, np.nan])).tolist()
    [False, True, False, True, False]
    """
    return (values < -MARGIN) | (values > 1 + MARGIN)


def largest_placebos(evidence: Evidence) -> dict[float, float]:
    """Largest absolute value of the placebo over members and cells by rate; rates where it was not read left out."""
    table = _final(evidence)
    sizes = pd.Series(np.abs(table["placebo"].to_numpy(dtype=float)), index=table["gamma"].to_numpy(dtype=float))
    return {gamma: float(sizes.loc[[gamma]].max()) for gamma in sorted(set(sizes.dropna().index))}


def _told(evidence: Evidence) -> str:
    """The caption's sentences about this run."""
    split = any(column.circuit for column in columns(evidence))
    sentences = [f"At γ = {SMALL:g} the members are split by circuit."] if split else []
    largest = [f"{value:.2f} at γ = {gamma:g}" for gamma, value in largest_placebos(evidence).items()]
    if largest:
        sentences.append(
            "Placebo (the source differs in noise alone): in no cell of any member does it recover more than "
            f"{', '.join(largest)} (absolute)."
        )
    return " ".join(sentences)


def caption_patching_matrix(evidence: Evidence) -> Caption:
    """Caption of the patching matrices."""
    try:
        told = _told(evidence)
    except MissingEvidenceError as missing:
        told = str(missing)
    return Caption(
        "Activation patching at the end of training: inputs that differ from a clean one in the key (top) or the "
        "anchors (bottom) alone run with one component, at the positions of one role, taken from the clean input. "
        "Cells: share of the logit difference that this recovers, mean over seeds; layers count from 1, rows follow "
        "the forward pass. Triangles mark cells outside 0 to 1, where other components exceed or undo what the cell "
        "carries; hatched cells have no value. Cells do not add up: what passes through several of them is recovered "
        "by each, and roles overlap (the last position is noise, or the last anchor where the anchors end the "
        f"sequence). {told}",
        "of average-then-key: little recovered by layer 2's attention at the last position where the key differs, or "
        "by layer 1's attention at the last position where the anchors differ. Of key-to-anchors: little recovered by "
        "layer 1's attention at the anchors where the key differs.",
    )
