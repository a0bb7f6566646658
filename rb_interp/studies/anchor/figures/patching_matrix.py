"""Where key and anchors travel: logit difference recovered by patching one component at the positions of one role."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import heat_map
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, RED, WIDTH, new_figure
from rb_interp.studies.anchor.figures.ablations import forward, in_words

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
    n: int

    @property
    def title(self) -> str:
        """Heading: rate, circuit where it is split by it, seeds."""
        rate = f"γ = {self.gamma:g} ({seeds_text(self.n)})"
        return f"{rate}\n{self.circuit}" if self.circuit else rate


def columns(evidence: Evidence) -> list[Column]:
    """One column a rate, ascending; the small initialisation one a circuit where its members learned several."""
    counts = evidence.table("patching_circuits", stage="final").to_dict("records")
    every = [Column(float(row["gamma"]), row["circuit"], int(row["n"])) for row in counts]
    split = [column for column in every if column.gamma == SMALL and column.circuit]
    split = split if len(split) > 1 else []
    return sorted([*split, *(c for c in every if not c.circuit and not (split and c.gamma == SMALL))])


def cells(evidence: Evidence) -> tuple[list[tuple[str, int]], list[str]]:
    """Rows (component, layer) in forward order, and columns (roles) of the matrices."""
    table, known = evidence.table("patching_summary", stage="final"), list(ROLES)
    pairs = {(str(c), int(layer)) for c, layer in zip(table["component"], table["layer"], strict=True)}
    roles = sorted({*table["role"]}, key=lambda role: (known.index(role) if role in known else len(known), role))
    return sorted(pairs, key=lambda pair: forward(f"{pair[0]}.{pair[1]}")), roles


def matrix(evidence: Evidence, changed: str, column: Column) -> Float[np.ndarray, "row role"]:
    """Recovered logit difference, mean over the column's seeds; NaN where no seed has a value."""
    rows, roles = cells(evidence)
    where = {"stage": "final", "gamma": column.gamma, "circuit": column.circuit, "counterfactual": changed}
    table = evidence.table("patching_summary", quantity="recovered", **where)
    means = table.set_index(["component", "layer", "role"])["mean"].to_dict()
    return np.array([[means.get((c, layer, role), np.nan) for role in roles] for c, layer in rows], dtype=float)


def draw_patching_matrix(evidence: Evidence) -> Figure:
    """Recovered logit difference by component, layer and role: a row per counterfactual, a column per rate."""
    shown, (rows, roles) = columns(evidence), cells(evidence)
    figure = new_figure(1.6 + 2 * 0.19 * len(rows), max(WIDTH, 1.0 + len(shown) * (0.25 + 0.2 * len(roles))))
    panels = figure.subplots(len(CHANGES), len(shown), sharex=True, sharey=True, squeeze=False)
    for line, changed in zip(panels, CHANGES, strict=True):
        for axes, column in zip(line, shown, strict=True):
            _panel(axes, matrix(evidence, changed, column), rows)
        line[0].set_ylabel(CHANGES[changed], fontsize=8)
    for axes, column in zip(panels[0], shown, strict=True):
        axes.set_title(column.title, fontsize=7)
    for axes in panels[-1]:
        axes.set_xticks(range(len(roles)), [ROLES.get(r, r) for r in roles], rotation=90, fontsize=6.5)
    panels[0, 0].set_yticks(range(len(rows)), [in_words(f"{part}.{layer}") for part, layer in rows], fontsize=6.5)
    bar = figure.colorbar(panels[0, 0].images[0], ax=panels, location="bottom", shrink=0.45, aspect=40, pad=0.02)
    words = f"0: nothing of what differs, 1: all of it; ▲ above {1 + MARGIN:g}, ▼ below −{MARGIN:g}"
    bar.set_label(f"recovered logit difference ({words})")
    return figure


def _panel(axes: Axes, values: Float[np.ndarray, "row role"], rows: list[tuple[str, int]]) -> None:
    heat_map(axes, values, low=0.0, high=1.0, colours=ATTENTION, write=two_digits, text=95.0)
    axes.set_aspect("auto")
    for edge in np.flatnonzero(np.diff([layer for _, layer in rows])) + 0.5:
        axes.axhline(edge, color="#333333", lw=0.8)
    for row, role in np.argwhere((values < -MARGIN) | (values > 1 + MARGIN)).tolist():
        shift, marker = (-0.3, "^") if values[row, role] > 1 else (0.3, "v")
        axes.plot([role + 0.36], [row + shift], marker=marker, ms=2.6, color=RED, mec="none", zorder=5)


def caption_patching_matrix(evidence: Evidence) -> Caption:
    """Caption of the patching matrices."""
    split = any(column.circuit for column in columns(evidence))
    by_circuit = f"At γ = {SMALL:g} the members are split by circuit, named by cause. " if split else ""
    controls = evidence.table("patching_controls", stage="final").dropna(subset="largest").sort_values("gamma")
    largest = [f"{row['largest']:.2f} at γ = {row['gamma']:g}" for row in controls.to_dict("records")]
    return Caption(
        "Activation patching at the end of training: inputs that differ from a clean one in the key (top) or the "
        "anchors (bottom) alone run with one component, at the positions of one role, taken from the clean input. "
        "Cells: share of the logit difference that this recovers, mean over seeds; rows follow the forward pass. "
        f"Triangles mark cells above {1 + MARGIN:g} or below −{MARGIN:g}, where other components exceed or undo what "
        "the cell carries; hatched cells have no value. Cells do not add up: what passes through several of them is "
        "recovered by each, and roles overlap (the last position is noise, or the last anchor where the anchors end "
        f"the sequence). {by_circuit}Control (the source differs in noise alone): in no cell of any member does it "
        f"recover more than {', '.join(largest) or 'n/a'} (absolute).",
        "of average-then-key: little recovered by L1's attention at the last position where the key differs, or "
        "by L0's attention at the last position where the anchors differ. Of key-to-anchors: little recovered by "
        "L0's attention at the anchors where the key differs.",
    )
