"""Readings, effects, matrices, heads and learning curves on axes of matplotlib, as a notebook draws
them.

Each function takes axes, or makes a figure of its own with pyplot, and returns the axes to be
changed further. Colours and fonts are the caller's, as matplotlib's settings have them. The figures
of a report are in ``rb_interp.figures``.

What cannot be drawn to scale is marked: NaN is hatched or a word, infinity an arrow at the edge,
and a cell beyond the colours' range has a frame and its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from rb_interp.errors import ArgumentError, nearest, shown
from rb_interp.statistics.intervals import intervals_or_nan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["heads", "learning_curves"]

BESIDE, NULL, FAINT = "0.45", "0.85", "0.8"
"""Greys of what stands beside a value, of its null, and of lines to look along."""
WRITTEN = 400
"""A heat map of up to so many cells has their numbers in them."""
ATTENTION = "share of attention"
UNITS = {
    **dict.fromkeys(("attention_by_role", "attention", "attention_to_key"), ATTENTION),
    "uniformity": "total variation distance, or share",
    "variance_explained": "share of variance explained",
    "value_alignment": "cosine or share; ratio of singular values",
    "geometry": "cosine, ratio, or number of dimensions",
    **dict.fromkeys(("cosines_by_target", "token_similarity"), "cosine"),
    **dict.fromkeys(("condensation", "next_token"), "cosine or correlation"),
    **dict.fromkeys(("embedding_rank", "weight_rank"), "rank, in dimensions"),
    "weight_spectra": "singular value, or its ratio to others",
    **dict.fromkeys(("label_range", "chain", "chain_accuracy"), "share of rows"),
    "lattice": "share of variance",
    "lost": "share lost",
    "moved_as_predicted": "share of rows that answer as predicted",
    "recovered": "share recovered",
    "loss": "loss (nats)",
    "accuracy": "accuracy (share of rows)",
}
"""Probe, or quantity of an effect or a curve -> what an axis of its numbers is called."""
METRICS = {
    **dict.fromkeys(("loss", "logit", "logit_diff"), "nats"),
    "kl": "nats, of the KL divergence",
    "probability": "in [0, 1]",
    "accuracy": "share of rows",
    "rank": "tokens that are likelier",
}
"""Metric -> its unit."""
NOTHING = np.empty(0)


class Point(NamedTuple):
    """One line of `points`: a number with its interval, what stands beside it, and its null; NaN
    for what is not."""

    label: str
    value: float
    low: float = np.nan
    high: float = np.nan
    beside: float = np.nan
    beside_low: float = np.nan
    beside_high: float = np.nan
    null: np.ndarray = NOTHING


def unit_of(quantity: str) -> str:
    """What an axis of an effect is called.

    >>> unit_of("logit_diff_drop"), unit_of("recovered"), unit_of("own_change")
    ('drop of logit_diff (nats)', 'share recovered', 'change of own')
    """
    metric, _, way = quantity.rpartition("_")
    if way not in ("increase", "drop", "change"):
        return UNITS.get(quantity, quantity)
    return f"{way} of {metric}" + (f" ({METRICS[metric]})" if metric in METRICS else "")


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes, or those of a new figure of pyplot, inches wide and high.

    Raises ArgumentError for anything but axes of matplotlib, such as a figure.
    """
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    if ax is None:
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise ArgumentError(f"got ax={shown(ax)}; expected Axes of matplotlib.")
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
    at = np.arange(len(rows), dtype=float)
    _, found, low, high, other, other_low, other_high, nulls = (
        zip(*rows, strict=True) if rows else ((),) * 8
    )
    ends = [
        np.quantile(draws, (0.025, 0.975)) if len(draws) else (np.nan, np.nan) for draws in nulls
    ]
    bars = np.reshape(np.asarray(ends, dtype=float), (-1, 2))
    ax.plot(found, at, "o", color="C0", label=value, zorder=4)
    if np.isfinite(other).any():
        ax.plot(other, at, "o", mfc="none", mec=BESIDE, label=beside, zorder=2)
        whiskers(ax, at, other_low, other_high, BESIDE)
    if np.isfinite(bars).any():
        ax.hlines(
            at,
            bars[:, 0],
            bars[:, 1],
            color=NULL,
            lw=7,
            label=f"{null}, 95 % of its draws",
            zorder=1,
        )
        ax.plot(
            bars, at, "|", color=NULL, ms=12, mew=3, zorder=1
        )  # so that draws that are all the same show too
    wide = np.abs([*found, *other])
    if mixed and (wide[np.isfinite(wide)] > 4).any():
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")
        unit += " (logarithmic beyond 1)"
    else:
        ax.locator_params(axis="x", nbins=6)
    whiskers(ax, at, low, high, "C0")
    beyond(ax, at, np.asarray(found, dtype=float))
    ax.axvline(0, color=FAINT, lw=0.8, zorder=0)
    ax.set_yticks(at, [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(unit)
    ax.set_title(title)
    if value != "value" or len(ax.get_legend_handles_labels()[0]) > 1:
        legend_beside(ax)
    return ax


def legend_beside(ax: Axes, title: str = "") -> None:
    """The legend, on the right of the axes; dots and lines before bars, as they were drawn."""
    handles, labels = ax.get_legend_handles_labels()
    look = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0, "frameon": False}
    ax.legend(
        handles,
        labels,
        title=title,
        alignment="left",
        fontsize="small",
        title_fontsize="small",
        **look,
    )


def whiskers(ax: Axes, at: Sequence[float] | np.ndarray, low: Any, high: Any, colour: str) -> None:
    """Intervals as lines; an end that is infinite is an arrow at the edge."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    if not (np.isfinite(low) | np.isfinite(high)).any() and not np.isinf(low).any():
        return
    edges = ax.get_xlim()
    ax.hlines(
        at,
        np.where(np.isinf(low), edges[0], low),
        np.where(np.isinf(high), edges[1], high),
        color=colour,
        lw=1.4,
    )
    for ends, edge, arrow in ((low, edges[0], "<"), (high, edges[1], ">")):
        open_ended = np.isinf(ends)
        ax.plot(
            np.full(open_ended.sum(), edge), np.asarray(at)[open_ended], arrow, color=colour, ms=4
        )
    if np.isinf(low).any() or np.isinf(high).any():
        ax.set_xlim(edges)


def beyond(ax: Axes, at: np.ndarray, found: np.ndarray) -> None:
    """Mark numbers that have no place on the axis: NaN by a word, infinity by an arrow at its
    edge."""
    look: dict[str, Any] = {"color": "C3", "transform": ax.get_yaxis_transform(), "zorder": 5}
    for place in at[np.isnan(found)]:
        ax.text(0.5, place, "undefined", ha="center", va="center", fontsize="small", **look)
    for chosen, x, marker, name in (
        (found == np.inf, 0.98, ">", "infinite"),
        (found == -np.inf, 0.02, "<", "minus infinity"),
    ):
        if chosen.any():
            ax.plot(np.full(chosen.sum(), x), at[chosen], marker, label=name, **look)


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
    ax = axes_or_new(ax, 2.8 + 0.55 * len(columns), max(3.4, 1.4 + 0.3 * len(rows)))
    image = ax.imshow(np.ma.masked_invalid(values), vmin=low, vmax=high, cmap=cmap, aspect="auto")
    for row, column in np.argwhere(~np.isfinite(values)).tolist():
        hatch(ax, row, column)
    digits = max(2, 1 - int(np.floor(np.log10(high))))
    shown = np.round(values, digits) + 0.0  # no -0.00
    outside = (shown < np.round(low, digits)) | (shown > np.round(high, digits))
    for row, column in np.argwhere(outside).tolist():
        _rectangle(ax, column - 0.47, row - 0.47, 0.94, 0.94, fill=False, edgecolor="black", lw=1.6)
    for row, column in np.argwhere(
        np.isfinite(values) & (outside | (values.size <= WRITTEN))
    ).tolist():
        ink = "white" if is_dark(image.to_rgba(values[row, column])) else "black"
        ax.text(
            column,
            row,
            f"{shown[row, column]:.{digits}f}",
            ha="center",
            va="center",
            color=ink,
            fontsize="small",
        )
    if inner is not None:
        for row, column in np.argwhere(np.isfinite(inner)).tolist():
            look: dict[str, Any] = {
                "facecolor": image.to_rgba(inner[row, column]),
                "edgecolor": "white",
                "lw": 0.8,
            }
            _rectangle(ax, column + 0.28, row + 0.22, 0.18, 0.24, **look)
    turned = {"rotation": 30, "ha": "right"} if max(map(len, columns), default=0) > 6 else {}
    ax.set_xticks(range(len(columns)), columns, **turned)
    ax.set_yticks(range(len(rows)), rows)
    ends = (bool((outside & (values < low)).any()), bool((outside & (values > high)).any()))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(ends, "neither")
    ax.figure.colorbar(image, ax=ax, label=unit, extend=extend)
    return ax


def share_cells(
    ax: Axes | None,
    values: Float[np.ndarray, "row column"],
    control: Float[np.ndarray, "row column"] | None,
    rows: Sequence[str],
    columns: Sequence[str],
    unit: str,
    title: str,
) -> Axes:
    """A matrix of shares, from -1 to 1, with those of the control as small squares."""
    ax = cells(ax, values, rows, columns, unit, inner=control, low=-1.0, high=1.0, cmap="RdBu_r")
    ax.set_title(title if control is None else f"{title}\n(small square: control)")
    return ax


def is_dark(colour: Any) -> bool:
    """Whether white is easier to read on a colour than black."""
    return bool(np.dot(colour[:3], (0.299, 0.587, 0.114)) < 0.5)


def hatch(ax: Axes, row: int, column: int) -> None:
    """Mark a cell whose number is not defined."""
    _rectangle(
        ax,
        column - 0.5,
        row - 0.5,
        1.0,
        1.0,
        facecolor="#f3f3f3",
        edgecolor="#8a8a8a",
        hatch="xxxx",
        lw=0,
    )


def _rectangle(ax: Axes, x: float, y: float, width: float, height: float, **look: Any) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, **look))


def heads(table: pd.DataFrame, quantity: str, ax: Axes | None = None) -> Axes:
    """One quantity of a scan, layer by head; a small square in each cell has the untrained model's
    colour.

    Args:
        table: what ``rb.scan`` returns. quantity: one of its quantities.
        ax: where to draw; by default a new figure.

    >>> import pandas as pd
    >>> rows = {"quantity": "tv", "layer": [0, 0], "head": [0, 1], "value": [0.1, 1]}
    >>> found = pd.DataFrame({"probe": "uniformity", **rows})
    >>> heads(found, "tv").get_xlabel()
    'head'
    """
    names = table["quantity"].astype(str)
    known = sorted(set(names))
    if quantity not in known:
        raise ArgumentError(f"heads got quantity={quantity!r}; {nearest(quantity, known)}")
    chosen = pd.DataFrame(table.loc[names == quantity])
    values = chosen.pivot(index="layer", columns="head", values="value").astype(float)
    numbers, inner = values.to_numpy(), None
    if "untrained" in chosen and chosen["untrained"].notna().to_numpy().any():
        inner = chosen.pivot(index="layer", columns="head", values="untrained").to_numpy(float)
    probe = str(chosen["probe"].to_numpy()[0])
    every = numbers if inner is None else np.concatenate([numbers, inner])
    finite = every[np.isfinite(every)]
    high = float(np.abs(finite).max(initial=0)) or 1.0
    if UNITS.get(probe) == ATTENTION:
        high = 1.0  # so that a small share looks small
    low, cmap = (-high, "RdBu_r") if (finite < 0).any() else (0.0, "Blues")
    unit = f"{quantity}\n({UNITS[probe]})" if probe in UNITS else quantity
    ax = cells(
        ax,
        numbers,
        [f"L{layer}" for layer in values.index],
        [str(head) for head in values.columns],
        unit,
        inner=inner,
        low=low,
        high=high,
        cmap=cmap,
    )
    ax.set(
        xlabel="head",
        ylabel="layer",
        title=probe if inner is None else f"{probe}\n(small square: untrained)",
    )
    return ax


def learning_curves(curves: pd.DataFrame, quantity: str = "loss", ax: Axes | None = None) -> Axes:
    """Learning curves: each member a thin line, their mean, and from three seeds on its 95 %
    interval as a band.

    Args:
        curves: columns gamma, seed, step, set, and the quantity, as ``run.curves`` has them.
        quantity: ``loss`` (nats) or ``accuracy`` (share of rows).
        ax: where to draw; by default a new figure.
    """
    ax = axes_or_new(ax, 6.0, 3.4)
    curves = curves.assign(gamma=curves["gamma"].fillna("none"))  # a scheme without a gamma
    gammas, sets = list(dict.fromkeys(curves["gamma"])), list(dict.fromkeys(curves["set"]))
    for gamma, set_ in product(gammas, sets):
        rows = curves.loc[(curves["gamma"] == gamma) & (curves["set"] == set_)]
        if rows.empty:
            continue
        seeds = rows.pivot(index="step", columns="seed", values=quantity).astype(float)
        look: dict[str, Any] = {
            "color": f"C{gammas.index(gamma)}",
            "ls": ("-", "--", ":", "-.")[sets.index(set_) % 4],
        }
        mean, low, high = intervals_or_nan(seeds.to_numpy()).T
        ax.plot(seeds.index, seeds, lw=0.6, alpha=0.4, **look)
        ax.plot(seeds.index, mean, lw=2, label=f"{set_}, γ = {gamma}", **look)
        if seeds.shape[1] > 2:
            most = 1 if quantity == "accuracy" else None
            ax.fill_between(
                seeds.index, *np.clip((low, high), 0, most), color=look["color"], alpha=0.15, lw=0
            )
    ax.set(xlabel="training step", ylabel=UNITS.get(quantity, quantity))
    legend_beside(ax, "thin: each seed\nthick: mean\nband: its 95 % interval\n")
    return ax
