"""Fig. 2 of paper 1: what the memory mapping and the reasoning mapping look like."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import INK, KEY, NOISE, REASONING, SET_COLOURS, new_figure
from rb_interp.tasks import AnchorDataset

TITLES = {"mem": "Memory: the label is looked up", "rsn": "Reasoning: the label is computed"}


def rows_to_show(data: AnchorDataset) -> list[tuple[str, int]]:
    """Two rows with one key and the same anchors, for memory and for reasoning, and a held-out row: (set, row)."""
    shown = [(set, row) for set in ("mem", "rsn_train") for row in _pair(data, set)]
    return shown + [("rsn_test", int(row)) for row in data.rows("rsn_test")[:1]]


def _pair(data: AnchorDataset, set: str) -> list[int]:
    """The first row of a set, and one that places the same key and anchors elsewhere."""
    rows = data.rows(set)
    if len(rows) == 0:
        return []
    block = np.concatenate([data.key_position[:, None], data.anchor_positions], axis=1)[rows]
    content = np.take_along_axis(data.tokens[rows], block, 1)
    first = len(rows) // 3
    same = (content == content[first]).all(1) & (block[:, 0] != block[first, 0])
    others = np.flatnonzero(same) if same.any() else np.setdiff1d(np.arange(len(rows)), [first])
    return [int(rows[first]), *(int(rows[other]) for other in others[:1])]


def rule(data: AnchorDataset, set: str, row: int) -> str:
    """How a row's label comes about, in one short line."""
    key = data.tokens[row, data.key_position[row]]
    anchors = data.tokens[row, data.anchor_positions[row]]
    if set == "mem":
        return f"table[{key}; {', '.join(map(str, anchors))}], drawn once"
    return " + ".join(map(str, [key, *anchors]))


def draw_tasks(evidence: Evidence) -> Figure:
    """Sample sequences with their roles and labels (after Fig. 2)."""
    data = evidence.task.dataset(seed=0)
    shown = rows_to_show(data)
    if not shown:
        raise MissingEvidenceError("This run has no sample rows to show.")
    figure = new_figure(0.5 + 0.42 * (len(shown) + 2))
    axes = figure.subplots()
    axes.set_axis_off()
    y, last = 0.0, ""
    for set, row in shown:
        group = set[:3]
        if group != last:
            y -= 0.15 if last else 0.0
            axes.text(-0.4, y - 0.1, TITLES[group], weight="bold", va="center", fontsize=8.5)
            y, last = y - 0.85, group
        _sequence(axes, data, set, row, y)
        y -= 1.0
    axes.set_xlim(-0.5, data.task.length + 6.6)
    axes.set_ylim(y + 0.4, 0.2)
    entries = [legend.area(name, colour) for name, colour in (("key", KEY), ("anchor", REASONING), ("noise", NOISE))]
    label = legend.area("label, predicted at the last position", "white", "", "#333333", 1.0)
    legend.above(figure, [*entries, label], 4)
    return figure


def _sequence(axes: Axes, data: AnchorDataset, set: str, row: int, y: float) -> None:
    anchors = dict.fromkeys(data.anchor_positions[row].tolist(), REASONING)
    colours = {int(data.key_position[row]): KEY, **anchors}
    for position, token in enumerate(data.tokens[row]):
        colour = colours.get(position, NOISE)
        _box(axes, float(position), y, str(token), colour, "white" if colour == REASONING else INK)
    end = data.task.length
    axes.annotate("", (end + 0.55, y), (end - 0.35, y), arrowprops={"arrowstyle": "->", "color": "#555555", "lw": 0.9})
    _box(axes, end + 1.05, y, str(data.labels[row]), "white", INK, edge=SET_COLOURS[set])
    axes.text(end + 1.75, y, f"= {rule(data, set, row)}", va="center")
    if set == "rsn_test":
        look = {"va": "center", "color": SET_COLOURS[set], "fontsize": 7}
        axes.text(end + 4.15, y, "anchors never seen\ntogether in training", **look)


def _box(axes: Axes, x: float, y: float, text: str, fill: str, ink: str, edge: str = "none") -> None:
    shape = FancyBboxPatch((x - 0.36, y - 0.3), 0.72, 0.6, boxstyle="round,pad=0.06", fc=fill, ec=edge, lw=1.4)
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", color=ink)


def caption_tasks(evidence: Evidence) -> Caption:
    """Caption of the sample sequences."""
    task = evidence.task
    return Caption(
        f"Sequences of {task.length} tokens; the key (yellow) stands immediately before its {task.q} "
        f"{'anchor' if task.q == 1 else 'anchors'} (brown), the rest is noise. Memory anchors "
        f"({task.memory_anchors[0]} to {task.memory_anchors[1]}) and the key point into a table of labels that are "
        f"drawn once at random; reasoning anchors ({task.reasoning_anchors[0]} to {task.reasoning_anchors[1]}) are "
        "added to the key. Within each pair of rows key and anchors are the same, place and noise are not, and the "
        "label stays.",
        "this figure defines the task and supports no claim by itself; a pair of rows with one key, the same anchors "
        "and different labels would mean that the data are wrong.",
    )
