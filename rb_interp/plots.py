"""Readings, effects, matrices, heads and learning curves on axes of matplotlib, as in a notebook.

Each function draws on the caller's axes or on a new figure of pyplot, and returns the axes. Colours
and fonts are those of matplotlib's settings. The figures of a report are in ``rb_interp.figures``.

Numbers off the scale are marked: NaN is hatched or a word, infinity an arrow at the edge, and a
cell beyond the colours' range has a frame and its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from rb_interp.errors import ArgumentError, describe, nearest
from rb_interp.statistics.intervals import intervals_or_nan
from rb_interp.table_repr import ATTENTION, UNITS, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rb_interp.tasks.inputs import Inputs

__all__ = ["attention", "heads", "learning_curves"]

COMPARISON_GREY = "0.45"
NULL_GREY = "0.85"
GRID_GREY = "0.8"
MAX_NUMBERED_CELLS = 400
"""A heat map of more cells has no numbers in them."""
EXTEND = ("neither", "min", "max", "both")
"""Pointed ends of a colour bar: 1 if cells are below its range, and 2 if cells are above it."""
LINE_STYLES = ("-", "--", ":", "-.")
NO_DRAWS = np.empty(0)


class Point(NamedTuple):
    """One line of `points`: a number, one to compare with it, their intervals, and the null's draws.

    NaN stands for a number that does not exist.
    """

    label: str
    value: float
    low: float = np.nan
    high: float = np.nan
    beside: float = np.nan
    beside_low: float = np.nan
    beside_high: float = np.nan
    null: np.ndarray = NO_DRAWS


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes, or those of a new figure of pyplot, inches wide and high.

    Raises ArgumentError for anything but axes of matplotlib, such as a figure.
    """
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    if ax is None:
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise ArgumentError(f"got ax={describe(ax)}; expected Axes of matplotlib.")
    return ax


def points(
    ax: Axes | None,
    rows: Sequence[Point],
    unit: str,
    title: str,
    *,
    value: str = "value",
    beside: str,
    null: str = "null",
    mixed: bool = True,
) -> Axes:
    """Numbers below each other, each with its interval, its null as a grey bar, and what stands
    beside it.

    ``mixed``: of several units, so logarithmic beyond 1 where a ratio or a rank would leave no room
    for the shares.
    """
    ax = axes_or_new(ax, 7.5, 1.2 + 0.26 * len(rows))
    lines = np.arange(len(rows), dtype=float)
    values = np.array([row.value for row in rows], dtype=float)
    compared = np.array([row.beside for row in rows], dtype=float)
    ax.plot(values, lines, "o", color="C0", label=value, zorder=4)
    if np.isfinite(compared).any():
        ax.plot(compared, lines, "o", mfc="none", mec=COMPARISON_GREY, label=beside, zorder=2)
    ends = np.full((len(rows), 2), np.nan)
    for line, row in enumerate(rows):
        if len(row.null):
            ends[line] = np.quantile(row.null, (0.025, 0.975))
    if np.isfinite(ends).any():
        label = f"{null}, 95 % of its draws"
        low, high = ends.T
        ax.hlines(lines, low, high, color=NULL_GREY, lw=7, label=label, zorder=1)
        # ends of their own, so that draws that are all the same show too
        ax.plot(ends, lines, "|", color=NULL_GREY, ms=12, mew=3, zorder=1)
    sizes = np.abs([*values, *compared])
    if mixed and (sizes[np.isfinite(sizes)] > 4).any():
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")
        unit += " (logarithmic beyond 1)"
    else:
        ax.locator_params(axis="x", nbins=6)
    low = [row.beside_low for row in rows]
    high = [row.beside_high for row in rows]
    whiskers(ax, lines, low, high, COMPARISON_GREY)
    whiskers(ax, lines, [row.low for row in rows], [row.high for row in rows], "C0")
    mark_off_scale(ax, lines, values)
    ax.axvline(0, color=GRID_GREY, lw=0.8, zorder=0)
    ax.set_yticks(lines, [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(unit)
    ax.set_title(title)
    if value != "value" or len(ax.get_legend_handles_labels()[0]) > 1:
        legend_beside(ax)
    return ax


def legend_beside(ax: Axes, title: str = "") -> None:
    """The legend on the right of the axes, in the order of drawing."""
    ax.legend(
        *ax.get_legend_handles_labels(),
        title=title,
        alignment="left",
        fontsize="small",
        title_fontsize="small",
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        borderaxespad=0,
        frameon=False,
    )


def whiskers(
    ax: Axes,
    lines: Float[np.ndarray, " line"],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
) -> None:
    """Intervals as bars; an end that is infinite is an arrow at the edge."""
    starts = np.asarray(low, dtype=float)
    stops = np.asarray(high, dtype=float)
    if np.isnan([starts, stops]).all():
        return
    left, right = ax.get_xlim()
    bars = (np.where(np.isinf(starts), left, starts), np.where(np.isinf(stops), right, stops))
    ax.hlines(lines, *bars, color=colour, lw=1.4)
    for ends, edge, arrow in ((starts, left, "<"), (stops, right, ">")):
        at_edge = lines[np.isinf(ends)]
        ax.plot(np.full(len(at_edge), edge), at_edge, arrow, color=colour, ms=4)
    if np.isinf([starts, stops]).any():
        ax.set_xlim(left, right)


def mark_off_scale(
    ax: Axes, lines: Float[np.ndarray, " line"], values: Float[np.ndarray, " line"]
) -> None:
    """Mark values that have no place on the axis: NaN by a word, infinity by an arrow at its edge."""
    options: dict[str, Any] = {
        "color": "C3",
        "transform": ax.get_yaxis_transform(),
        "zorder": 5,
    }
    for line in lines[np.isnan(values)]:
        ax.text(0.5, line, "undefined", ha="center", va="center", fontsize="small", **options)
    edges = ((np.inf, 0.98, ">", "infinite"), (-np.inf, 0.02, "<", "minus infinity"))
    for infinity, edge, arrow, label in edges:
        infinite = lines[values == infinity]
        if len(infinite):
            ax.plot(np.full(len(infinite), edge), infinite, arrow, label=label, **options)


def cells(
    ax: Axes | None,
    values: Float[np.ndarray, "row column"],
    rows: Sequence[str],
    columns: Sequence[str],
    unit: str,
    *,
    inner: Float[np.ndarray, "row column"] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    cmap: str = "Blues",
) -> Axes:
    """A matrix as coloured cells with a colour bar; ``inner`` is a small square in the corner of
    each cell."""
    rows, columns = ([fill(label, 20) for label in labels] for labels in (rows, columns))
    over_lines = "\n" in "".join(columns)
    width = 2.8 + (1.6 if over_lines else 0.55) * len(columns)
    ax = axes_or_new(ax, max(4.4, width), max(3.6, 1.4 + 0.34 * len(rows)))
    image = ax.imshow(np.ma.masked_invalid(values), vmin=low, vmax=high, cmap=cmap, aspect="auto")
    finite = np.isfinite(values)
    for row, column in np.argwhere(~finite).tolist():
        hatch(ax, row, column)
    digits = max(2, 1 - int(np.floor(np.log10(high))))
    rounded = np.round(values, digits) + 0.0  # no -0.00
    too_low = rounded < np.round(low, digits)
    too_high = rounded > np.round(high, digits)
    outside = too_low | too_high
    for row, column in np.argwhere(outside).tolist():
        _rectangle(ax, column - 0.47, row - 0.47, 0.94, 0.94, fill=False, edgecolor="black", lw=1.6)
    numbered = finite & (outside | (values.size <= MAX_NUMBERED_CELLS))
    for row, column in np.argwhere(numbered).tolist():
        ink = "white" if is_dark(image.to_rgba(values[row, column])) else "black"
        text = f"{rounded[row, column]:.{digits}f}"
        ax.text(column, row, text, ha="center", va="center", color=ink, fontsize="small")
    if inner is not None:
        for row, column in np.argwhere(np.isfinite(inner)).tolist():
            colour = image.to_rgba(inner[row, column])
            corner = (column + 0.28, row + 0.22)
            _rectangle(ax, *corner, 0.18, 0.24, facecolor=colour, edgecolor="white", lw=0.8)
    longest = max(map(len, columns), default=0)
    turned = {"rotation": 30, "ha": "right"} if longest > 6 and not over_lines else {}
    ax.set_xticks(range(len(columns)), columns, **turned)
    ax.set_yticks(range(len(rows)), rows)
    extend = EXTEND[too_low.any() + 2 * too_high.any()]
    ax.figure.colorbar(image, ax=ax, label=unit, extend=extend)
    return ax


def is_dark(colour: Any) -> bool:
    """Whether white is easier to read on a colour than black."""
    return bool(np.dot(colour[:3], (0.299, 0.587, 0.114)) < 0.5)


def hatch(ax: Axes, row: int, column: int) -> None:
    """Mark a cell whose number is not defined."""
    corner = (column - 0.5, row - 0.5)
    _rectangle(ax, *corner, 1.0, 1.0, facecolor="#f3f3f3", edgecolor="#8a8a8a", hatch="xxxx", lw=0)


def _rectangle(ax: Axes, x: float, y: float, width: float, height: float, **options: Any) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, **options))


def heads(table: pd.DataFrame, quantity: str, ax: Axes | None = None) -> Axes:
    """One quantity of a scan, of ablations or of a matrix by heads, layer by head; a small square in
    each cell has the colour of the untrained model or of the control.

    Args:
        table: what ``rb.scan`` returns, ``ablations(..., head="all")`` of one method, or
            ``direct_effect(..., by="head").to_frame()``.
        quantity: one of its quantities, such as ``accuracy_drop`` or ``effect``.
        ax: where to draw; by default a new figure.

    Raises:
        ArgumentError: the table is of another kind, has no such quantity, or several rows a head.

    >>> import pandas as pd
    >>> rows = {"quantity": "tv", "layer": [0, 0], "head": [0, 1], "value": [0.1, 1]}
    >>> table = pd.DataFrame({"probe": "uniformity", **rows})
    >>> heads(table, "tv").get_xlabel()
    'head'
    """
    columns = getattr(table, "columns", ())
    probe: Any = None
    if "site" in columns:
        probe = "direct effects"
        numbers = table["site"].str.extract(r"^z\.(?P<layer>\d+)\.(?P<head>\d+)$")
        table = table.join(numbers).dropna(subset="head").astype({"layer": int, "head": int})
    elif "method" in columns:
        probe = table["method"] + " ablation"
    elif "component" in columns:
        probe = "matrix"
    beside = "untrained" if probe is None else "control"
    if probe is not None:
        check_columns("heads", table, ("layer", "head", quantity))
        names = {quantity: "value", f"control_{quantity}": "untrained", "control": "untrained"}
        table = table.assign(quantity=quantity, probe=probe).rename(columns=names)
        table = table.dropna(subset="head")
    check_columns("heads", table, ("probe", "quantity", "layer", "head", "value"))
    names = table["quantity"].astype(str)
    known = sorted(set(names))
    if quantity not in known:
        raise ArgumentError(f"heads got quantity={quantity!r}; {nearest(quantity, known)}")
    rows = pd.DataFrame(table.loc[names == quantity])
    if rows.duplicated(["layer", "head"]).any():
        raise ArgumentError(
            "heads got several rows for a head; give one method or probe, such as "
            "table[table['method'] == 'mean']."
        )
    grids = rows.pivot(index="layer", columns="head")
    grid = pd.DataFrame(grids["value"], dtype=float)
    values = grid.to_numpy()
    untrained = None
    if "untrained" in rows and rows["untrained"].notna().to_numpy().any():
        untrained = grids["untrained"].to_numpy(float)
    numbers = values if untrained is None else np.concatenate([values, untrained])
    finite = numbers[np.isfinite(numbers)]
    probe = str(rows["probe"].iloc[0])
    high = float(np.abs(finite).max(initial=0)) or 1.0
    if UNITS.get(probe) == ATTENTION:
        high = 1.0  # so that a small share looks small
    signed = bool((finite < 0).any())
    ax = cells(
        ax,
        values,
        [f"L{layer}" for layer in grid.index],
        [str(head) for head in grid.columns],
        f"{quantity}\n({UNITS[probe]})" if probe in UNITS else unit_of(quantity),
        inner=untrained,
        low=-high if signed else 0.0,
        high=high,
        cmap="RdBu_r" if signed else "Blues",
    )
    title = probe if untrained is None else f"{probe}\n(small square: {beside})"
    ax.set(xlabel="head", ylabel="layer", title=title)
    return ax


def attention(
    pattern: Any, inputs: Inputs | None = None, *, row: int | None = None, ax: Axes | None = None
) -> Axes:
    """Where one head looks: its pattern in one row, or the mean over rows.

    ``attention(cache["pattern", 0][:, 3], inputs).figure.savefig("L0H3.png")`` saves it.

    Args:
        pattern: attention of the head, ``[row, query, key]``, as `capture` or TransformerLens's
            cache has it, or ``[query, key]``, such as ``reading.arrays["mean_pattern"]``.
        inputs: the rows, whose tokens name positions: those of ``row``, or those that all rows
            share.
        row: its number, counted from 0; by default the mean over rows.
        ax: where to draw; by default a new figure.

    Raises:
        ArgumentError: the pattern has another shape, or is of other rows.

    >>> attention(np.tri(3) / [[1], [2], [3]]).get_xlabel()
    'key'
    """
    values = np.asarray(pattern, dtype=float)
    rows, size = (len(values) if values.ndim == 3 else 0), values.shape[-1]
    shapes = [(size, size), (rows, size, size)]
    if inputs is not None:
        shapes = [inputs.tokens.shape[1:] * 2, (*inputs.tokens.shape, size)]
    if values.shape not in shapes or (row is not None and not 0 <= row < rows):
        raise ArgumentError(
            f"attention got a pattern of shape {list(values.shape)} with row={row}; expected "
            f"[row, query, key] of one head, and a row of it; inputs have its rows."
        )
    title = "mean attention"
    if row is not None:
        values, inputs, title = values[row], inputs and inputs.take([row]), f"attention, row {row}"
    if values.ndim == 3:
        values = values.mean(0)
    values = np.where(np.tri(size) + (np.triu(values, 1).any() > 0), values, np.nan)
    texts = [""] * size if inputs is None else inputs.shared_texts()
    labels = [f"{position} {text}" for position, text in enumerate(texts)]
    ax = cells(ax, values, labels, labels, ATTENTION)
    ax.set(xlabel="key", ylabel="query", title=title)
    return ax


def learning_curves(curves: pd.DataFrame, quantity: str = "loss", ax: Axes | None = None) -> Axes:
    """Learning curves: a thin line for each member, a thick one for their mean, and from three seeds
    on a band for its 95 % interval.

    Args:
        curves: columns gamma, seed, step, set, and the quantity, of one sweep, as in ``run.curves``.
        quantity: ``loss`` (nats) or ``accuracy`` (share of rows).
        ax: where to draw; by default a new figure.

    Raises:
        ArgumentError: the table is of another kind, has no such column, or is of several sweeps.
    """
    check_columns("learning_curves", curves, ("gamma", "seed", "step", "set", quantity))
    sweeps = sorted(set(curves["sweep"])) if "sweep" in curves else []
    if len(sweeps) > 1:
        raise ArgumentError(
            f"learning_curves got curves of the sweeps {sweeps}; give those of one, such as "
            f"curves[curves['sweep'] == {sweeps[0]!r}]."
        )
    ax = axes_or_new(ax, 6.0, 3.4)
    curves = curves.assign(gamma=curves["gamma"].fillna("none"))  # a scheme without a gamma
    gammas = list(dict.fromkeys(curves["gamma"]))
    sets = list(dict.fromkeys(curves["set"]))
    highest = 1 if quantity == "accuracy" else None
    for gamma, set_name in product(gammas, sets):
        rows = curves.loc[(curves["gamma"] == gamma) & (curves["set"] == set_name)]
        if rows.empty:
            continue
        members = rows.pivot(index="step", columns="seed", values=quantity).astype(float)
        colour = f"C{gammas.index(gamma)}"
        style = LINE_STYLES[sets.index(set_name) % len(LINE_STYLES)]
        lines = members.interpolate("index", limit_area="inside")  # over steps of other seeds
        members = members[2 * members.notna().sum(axis=1) > members.shape[1]]
        steps = members.index
        mean, low, high = intervals_or_nan(members.to_numpy()).T
        ax.plot(lines.index, lines, lw=0.6, alpha=0.4, color=colour, ls=style)
        label = f"{set_name}, γ = {gamma}"
        ax.plot(steps, mean, lw=2, label=label, color=colour, ls=style)
        if members.shape[1] > 2:
            band = np.clip((low, high), 0, highest)
            ax.fill_between(steps, *band, color=colour, alpha=0.15, lw=0)
    ax.set(xlabel="training step", ylabel=UNITS.get(quantity, quantity))
    legend_beside(ax, "thin: each seed\nthick: mean\nband: its 95 % interval\n")
    return ax


def check_columns(caller: str, table: Any, columns: Sequence[str]) -> None:
    """Raise ArgumentError if it is no table, or lacks a column."""
    if not isinstance(table, pd.DataFrame):
        raise ArgumentError(f"{caller} got {describe(table)}; expected a DataFrame.")
    for column in columns:
        if column not in table:
            hint = nearest(column, map(str, table.columns))
            raise ArgumentError(f"{caller} got a table without the column {column!r}; {hint}")
