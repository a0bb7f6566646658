"""Many cells of a model at once: a `Matrix` of what each recovers, loses, or writes into the answer.

A cell of a matrix is a share of the way from the rows that run to those that it is taken from, with
m the metric:

    share = (mean m(patched) - mean m(run)) / (mean m(source) - mean m(run))

A cell of direct effects is a mean over inputs itself, in the metric's unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rb_interp.interventions.effect import (
    SHARE_NAMES,
    RowValues,
    notes_with_caution,
    short_name,
)
from rb_interp.plots import Point, cells, points
from rb_interp.statistics.intervals import ratio_interval
from rb_interp.table_repr import TableRepr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Matrix"]


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(TableRepr):
    """Shares of the way from the rows that run to those that a cell is taken from.

    1 is all, 0 none, NaN no cell. Direct effects are no shares, but what each part adds to the
    metric.

    Attributes:
        axes: name -> what stands along it: ``component``, ``layer`` and ``role``, ``sender`` and
            ``receiver``, or ``site``.
        metric: its name.
        clean: the metric of each clean row, unpatched.
        corrupted: the metric of each corrupted row, unpatched; 0 for direct effects.
        patched: the metric of each row with each cell patched, or what the cell adds to it, ``[*axes,
            row]``; NaN if there is no cell.
        control_patched: the same with the control's activation, or None.
        notes: what a reader must know of some cells, or why they are missing.
        direction: ``denoise`` (clean cells into corrupted rows) or ``noise`` (corrupted cells into
            clean rows); ``direct`` for direct effects.
        method: ``patching`` for exact cells, ``attribution`` for cells to first order.
        answered: share of pairs whose rows the untouched model both answers rightly; NaN without
            labels.
        tokens: the token at each position, or else a role; empty where rows differ.
        p_values: of each cell, ``[*axes]``, or None.
    """

    axes: Mapping[str, Sequence]
    metric: str
    clean: RowValues
    corrupted: RowValues
    patched: np.ndarray
    control_patched: np.ndarray | None
    notes: Mapping[str, str] = field(default_factory=dict)
    direction: str = "denoise"
    method: str = "patching"
    answered: float = float("nan")
    tokens: Sequence[str] = ()
    p_values: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return self.patched.shape[-1]

    def _way(self) -> tuple[np.ndarray, np.ndarray]:
        """The metric of the rows that run, and how far it is from there to their source."""
        if self.direction == "direct":
            return self.corrupted, np.ones(len(self))
        difference = self.clean - self.corrupted
        if self.direction == "denoise":
            return self.corrupted, difference
        return self.clean, -difference

    def _shares(self, patched: np.ndarray) -> np.ndarray:
        run, way = self._way()
        return (patched.mean(-1) - run.mean()) / way.mean() + 0.0

    @property
    def values(self) -> np.ndarray:
        """The share of each cell, ``[*axes]``."""
        return self._shares(self.patched)

    @property
    def control(self) -> np.ndarray:
        """The control's share, near 0 if a patch as such does nothing; NaN without a control."""
        if self.control_patched is None:
            return np.full(self.patched.shape[:-1], np.nan)
        return self._shares(self.control_patched)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the 95 % interval over inputs, see ``ratio_interval``."""
        run, way = self._way()
        low, high = ratio_interval(self.patched - run, way)
        nan_or_0 = 0 * np.abs(self.values)
        return low + nan_or_0, high + nan_or_0

    def cell(self, *names: object) -> tuple[int, ...]:
        """Index of a cell in the arrays by its names, for instance ``("z", 0, "key")``."""
        axes = zip(self.axes.values(), names, strict=True)
        return tuple(list(axis).index(name) for axis, name in axes)

    def to_frame(self) -> pd.DataFrame:
        """One row a cell: its names, recovered (``lost`` when noising, ``effect`` of direct
        effects), low, high, control, p_value if there is one, n."""
        frame = pd.DataFrame(product(*self.axes.values()), columns=pd.Index(self.axes))
        low, high = self.ends
        frame[SHARE_NAMES[self.direction]] = self.values.ravel()
        frame["low"] = low.ravel()
        frame["high"] = high.ravel()
        frame["control"] = self.control.ravel()
        if self.p_values is not None:
            frame["p_value"] = self.p_values.ravel()
        return frame.assign(n=len(self))

    @property
    def runs(self) -> str:
        """Which rows ran, and whose activations a cell has."""
        if self.method == "path patching":
            return "activations of the source in the base rows"
        taken, run = (
            ("clean", "corrupted") if self.direction == "denoise" else ("corrupted", "clean")
        )
        return f"{taken} activations in {run} rows"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Share of each cell, a small square with the control's; colours from -1 to 1.

        An axis of one entry stands in the title. Positions have the token or role that rows share.
        Direct effects are dots with 95 % intervals over rows, the control an open dot.
        """
        if self.direction == "direct":
            columns = zip(self.axes["site"], self.values, *self.ends, self.control, strict=True)
            return points(
                ax,
                [Point(site, *numbers) for site, *numbers in columns],
                f"direct effect on the {self.metric} (nats)",
                f"{self.method}, n = {len(self)}",
                mixed=False,
                value="effect, 95 % interval over rows",
                beside="control",
            )
        labels = {name: [str(short_name(x)) for x in axis] for name, axis in self.axes.items()}
        labels["layer"] = [f"L{layer}" for layer in self.axes.get("layer", ())]
        labels["head"] = [f"H{head}" for head in self.axes.get("head", ())]
        if "position" in labels:
            texts = zip(labels["position"], self.tokens, strict=True)
            labels["position"] = [f"{position} {text}".strip() for position, text in texts]
        names = list(self.axes)
        single_last = sorted(names, key=lambda name: (len(labels[name]) == 1, -names.index(name)))
        n_plotted = max(2, sum(len(labels[name]) > 1 for name in names))
        plotted = sorted(single_last[:n_plotted], key=names.index)
        fixed = [labels[name][0] for name in names if name not in plotted]
        fixed = ["all positions" if name == "all" else name for name in fixed]
        *first, last = plotted
        rows = [" ".join(cell) for cell in product(*(labels[name] for name in first))]
        shape = (len(rows), len(labels[last]))
        title = ", ".join([self.method, *fixed, f"n = {len(self)}"])
        control = None
        if self.control_patched is not None:
            control = self.control.reshape(shape)
            title += "\n(small square: control)"
        ax = cells(
            ax,
            self.values.reshape(shape),
            rows,
            labels[last],
            f"share of the {self.metric} {SHARE_NAMES[self.direction]}\n({self.runs})",
            inner=control,
            low=-1.0,
            cmap="RdBu_r",
        )
        ax.set(xlabel=last, ylabel=", ".join(first), title=title)
        return ax

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Caption, every cell, and why some are missing."""
        by = "" if self.method == "patching" else f", by {self.method}"
        share = SHARE_NAMES[self.direction]
        caption = f"share of the {self.metric} {share}{by}, {self.runs}, n = {len(self)}"
        notes = notes_with_caution(self.notes, self.answered)
        table = self.to_frame().drop(columns="n").map(short_name)
        if self.direction == "direct":
            return f"direct {share} on the {self.metric} (nats), n = {len(self)}", table, notes
        difference = self.clean - self.corrupted
        if len(self) > 1 and not np.isfinite(ratio_interval(difference[None], difference)).all():
            notes.append(
                f"the {self.metric} of clean and corrupted rows differs by "
                f"{difference.mean():.3g}, which may be 0 by its spread over rows: shares are "
                f"divided by it and mean nothing here."
            )
        return caption, table, notes
