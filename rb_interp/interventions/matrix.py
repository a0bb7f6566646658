"""Shares of the way from one run to another, and a patching matrix of them, by component of one layer and role.

    share = (mean m(patched) - mean m(run)) / (mean m(source) - mean m(run))

with m the metric, of the rows that run and of those that the cell is taken from: see `patching` for both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special

from rb_interp.errors import ModelError
from rb_interp.plots import share_cells
from rb_interp.record import Record
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PatchingMatrix", "Shares"]

Direction = Literal["denoise", "noise"]
SHARES = {"denoise": "recovered", "noise": "lost"}
"""Direction -> what its share is called: clean cells recover in corrupted rows, corrupted ones lose in clean rows."""


def check_distinct(
    first: Float[np.ndarray, " row"], second: Float[np.ndarray, " row"], metric: str, names: str = "clean corrupted"
) -> None:
    """Raise ModelError where the mean metric of two runs is the same, so that there is nothing to recover."""
    gap, scale = first.mean() - second.mean(), np.abs(first).mean() + np.abs(second).mean()
    if not np.isfinite(scale):
        raise ModelError(f"the mean {metric} is not finite, so the model has diverged; use one that has not.")
    if not abs(gap) > 1e-6 * scale:
        one, other = names.split()
        raise ModelError(
            f"the mean {metric} is {first.mean():.3g} on the {one} rows and {second.mean():.3g} on the {other} ones, "
            f"so there is nothing to recover; let them differ in what the answer depends on, with another right answer."
        )


def check_control(control: Inputs | None, source: Inputs, base: Inputs, asker: str) -> None:
    """Raise ModelError where a control was made of the source's rows, and so carries what the source carries."""
    if control is None or control.labels is None or source.labels is None or base.labels is None:
        return
    shapes = {rows.labels.shape for rows in (control, source, base) if rows.labels is not None}
    if len(shapes) == 1 and (control.labels == source.labels).all() and (source.labels != base.labels).any():
        raise ModelError(
            f"{asker} got a control with the right answers of the rows that activations are taken from, so it is like "
            f"the effect and no control; make it of the rows that run: with_tokens_of(other, 'noise') of these."
        )


def ratio_interval(
    part: Float[np.ndarray, "*cell row"], whole: Float[np.ndarray, " row"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
    """Ends of the interval of mean(part) / mean(whole) over paired inputs (Fieller, 1954).

    It holds every ratio r for which the mean of ``part - r whole`` is within t standard errors of 0, and so covers as
    promised however small the mean of ``whole``. Where that itself is within t standard errors of 0, any ratio may be
    true: the interval is the whole line.

    >>> low, high = ratio_interval(np.array([[0.0, 1.0, 2.0, 1.0]]), np.array([2.0, 2.0, 2.0, 2.0]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-0.15], [1.15])
    """
    n, a, b = len(whole), np.asarray(part.mean(-1)), whole.mean()
    line = np.full(a.shape, -np.inf), np.full(a.shape, np.inf)
    if n < 2:
        return line
    scale = special.stdtrit(n - 1, (1 + confidence) / 2) ** 2 / (n * (n - 1))
    part, whole = part - a[..., None], whole - b
    square = b * b - scale * (whole * whole).sum()
    if square <= 0:
        return line
    middle = a * b - scale * (part * whole).sum(-1)
    half = np.sqrt(np.maximum(middle**2 - square * (a * a - scale * (part * part).sum(-1)), 0))
    ratio = a / b  # lies between the two, save for rounding
    ends = np.minimum(ratio, (middle - half) / square), np.maximum(ratio, (middle + half) / square)
    return np.asarray(ends[0]), np.asarray(ends[1])


class Shares(Record):
    """Shares of the way from the rows that run to their source; a notebook and ``print`` show them as a table.

    ``values`` have the axes of ``patched`` ``[..., row]`` but the last: 1 all, 0 none, nan where there is no cell.
    ``control`` is the same share of the control, near 0 where a patch as such does nothing; nan without a control.
    ``ends`` are those of the 95 % interval over inputs, see ``ratio_interval``.
    """

    patched: np.ndarray
    control_patched: np.ndarray | None

    def _runs(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """The metric of the rows that run, and of their source."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Number of rows."""
        return self.patched.shape[-1]

    @property
    def values(self) -> np.ndarray:
        run, source = (values.mean() for values in self._runs())
        return (self.patched.mean(-1) - run) / (source - run)

    @property
    def control(self) -> np.ndarray:
        if self.control_patched is None:
            return np.full(self.patched.shape[:-1], np.nan)
        run, source = (values.mean() for values in self._runs())
        return (self.control_patched.mean(-1) - run) / (source - run)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        run, source = self._runs()
        low, high = ratio_interval(self.patched - run, source - run)
        missing = np.isnan(self.values)
        return np.where(missing, np.nan, low), np.where(missing, np.nan, high)

    def cells(self, share: str, **axes: Sequence) -> pd.DataFrame:
        """One row a cell: its place on each axis, share, low, high, control, n."""
        low, high = (end.ravel() for end in self.ends)
        frame = pd.DataFrame(product(*axes.values()), columns=pd.Index(axes))
        columns = {share: self.values.ravel(), "low": low, "high": high, "control": self.control.ravel()}
        return frame.assign(**columns, n=len(self))


@dataclass(frozen=True, eq=False, repr=False)
class PatchingMatrix(Shares):
    """What each cell recovers, and shares of it.

    Arrays are ``[component, layer, role]`` in the order of the three names.

    Attributes:
        components, layers, roles: what was patched, where and at which roles, in the order of the cells.
        metric: name of the metric. head: the head of the cells, or None for all heads at once.
        clean, corrupted: metric of each row, unpatched. patched: of each row with each cell patched.
        control_patched: the same with the control's activation, or None.
        notes: component -> what its cells are of besides, or why there are none.
        direction: ``denoise`` (clean cells into corrupted rows) or ``noise`` (corrupted cells into clean rows).
        method: ``patching`` for exact cells, ``attribution`` for cells to first order, whose ``rank_correlation`` with
            the exact ones is Spearman's over cells, or None where it was not asked for.
    """

    components: tuple[str, ...]
    layers: tuple[int, ...]
    roles: tuple[str, ...]
    metric: str
    head: int | None
    clean: Float[np.ndarray, " row"]
    corrupted: Float[np.ndarray, " row"]
    patched: Float[np.ndarray, "component layer role row"]
    control_patched: Float[np.ndarray, "component layer role row"] | None
    notes: Mapping[str, str] = field(default_factory=dict)
    direction: str = "denoise"
    method: str = "patching"
    rank_correlation: float | None = None

    def _runs(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """The metric of the rows that run, and of those that cells are taken from."""
        return (self.corrupted, self.clean) if self.direction == "denoise" else (self.clean, self.corrupted)

    @property
    def caution(self) -> str:
        """Why shares mean nothing here: clean and corrupted rows hardly differ in the metric. Else empty."""
        gap = self.clean - self.corrupted
        if np.isfinite(ratio_interval(gap[None], gap)).all():
            return ""
        return (
            f"the {self.metric} of clean and corrupted rows differs by {gap.mean():.3g}, which may be 0 by its spread "
            f"over rows: shares are divided by it and mean nothing here."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a cell: component, layer, role, recovered (``lost`` when noising), low, high, control, n."""
        return self.cells(SHARES[self.direction], component=self.components, layer=self.layers, role=self.roles)

    @typed
    def plot(self, ax: Axes | None = None) -> Axes:
        """Share of each cell; a small square in a cell has the colour of the control's share.

        Colours go from -1 to 1; a cell beyond them has a frame. Draws on ``ax``, or on a new figure, and returns the
        axes.
        """
        rows = [f"{component} L{layer}" for component, layer in product(self.components, self.layers)]
        control = None if self.control_patched is None else self.control.reshape(len(rows), -1)
        unit = f"share of the {self.metric} {SHARES[self.direction]}"
        title = f"{'activation' if self.method == 'patching' else 'attribution'} patching, n = {len(self)}"
        ax = share_cells(ax, self.values.reshape(len(rows), -1), control, rows, self.roles, unit, title)
        ax.set_xlabel("role")
        return ax

    def shown(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Every cell, why some are not there, and the caution where shares mean nothing."""
        notes = [f"{name}: {why}" for name, why in self.notes.items()] + [self.caution] * bool(self.caution)
        how = "" if self.method == "patching" else f", by {self.method}"
        if self.rank_correlation is not None:
            how += f" (rank correlation with exact cells {self.rank_correlation:.2f})"
        caption = f"share of the {self.metric} {SHARES[self.direction]}{how}, n = {len(self)}"
        return caption, self.to_frame().drop(columns="n"), notes
