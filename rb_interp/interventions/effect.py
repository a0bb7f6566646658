"""What an intervention did: an `Effect` input by input beside its control, and a `Matrix` of many
cells.

    effect = mean_r e_r          control = mean_dr p_dr          difference = mean_r (e_r - mean_d p_dr)

over inputs r and draws d of the control: an intervention of the same form and size that leaves
alone what the mechanism is said to need. An effect that is no larger than its control's shows
nothing, however large it is. Intervals are over inputs, which are drawn independently:
Clopper-Pearson for shares, Tango's score interval for differences of shares (an accuracy before
less after), Student t for means, cut at the ends of what a share can be. Over seeds, take one
effect a seed. ``p_value`` is the share of control draws whose mean reaches the effect, (1 + n) / (1
+ draws).

A cell of a matrix is a share of the way from the rows that run to those that it is taken from, with
m the metric:

    share = (mean m(patched) - mean m(run)) / (mean m(source) - mean m(run))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special

from rb_interp.arguments import checked
from rb_interp.plots import NO_DRAWS, Point, points, share_cells, unit_of
from rb_interp.statistics.intervals import (
    Interval,
    difference_of_paired_shares,
    proportion_interval,
    t_interval,
)
from rb_interp.table_repr import TableRepr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Effect", "Matrix"]

NO_CONTROL = "none given"
REDRAWN = "noise redrawn"
FEW = 0.5
"""Below this share of rows answered rightly an effect has a caution."""
Direction = Literal["denoise", "noise"]
SHARES = {"denoise": "recovered", "noise": "lost"}
"""Direction -> what its share is called: clean cells recover in corrupted rows, corrupted ones lose
in clean rows."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Effect(TableRepr):
    """One intervention on one model. A notebook shows it as its table, and so does ``print``.

    Attributes:
        intervention: what was done, in words. site: where.
        quantity: what a metric lost, such as ``loss_increase`` (after less before) or
            ``accuracy_drop`` (before less after); ``_change`` (after less before) of a metric of
            which nobody knows which way is worse; ``moved_as_predicted`` (1 where the answer became
            the predicted one), ``recovered``, or ``lost``.
        values: effect on each input, ``[row]``. control: the control's effect on each input,
            ``[draw, row]``.
        control_name: what the control is, in words; NO_CONTROL where there is no draw of it.
        before, after: the mean metric of the rows that run, untouched and under the intervention.
        answered: share of rows that the untouched model answers rightly, all that it is given; nan
            without labels.
        notes: what else is to be said, by subject.

    >>> effect = Effect("ablation", "attn_out.0", "accuracy_drop", np.ones(4), np.zeros((1, 4)), "noise redrawn")
    >>> effect.summary()["difference"]
    1.0
    """

    intervention: str
    site: str
    quantity: str
    values: Float[np.ndarray, " row"]
    control: np.ndarray
    control_name: str
    before: float = float("nan")
    after: float = float("nan")
    answered: float = float("nan")
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "control", np.reshape(self.control, (len(self.control), len(self.values)))
        )
        if not len(self.control):
            object.__setattr__(self, "control_name", NO_CONTROL)

    @property
    def p_value(self) -> float:
        """Share of control draws whose mean is at least the effect, in (0, 1]; nan for fewer than
        two.

        One-sided, save for a ``_change``: there it is the share of draws that are at least as far
        from 0.
        """
        if len(self.control) < 2 or not len(self.values):
            return float("nan")
        draws, effect = self.control.mean(1), self.values.mean()
        if self.quantity.endswith("_change"):
            draws, effect = np.abs(draws), np.abs(effect)
        return float((1 + (draws >= effect).sum()) / (1 + len(draws)))

    def to_frame(self) -> pd.DataFrame:
        """The summary as a table of one row, so that effects can be put below each other."""
        return pd.DataFrame([self.summary()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Effect and control (an open dot) with 95 % intervals over rows, and the control's draws,
        on ``ax`` or new."""
        row = self.summary()
        ends = (
            float(row[name])
            for name in ("effect", "low", "high", "control", "control_low", "control_high")
        )
        point = Point(
            self.site, *ends, null=self.control.mean(1) if len(self.control) > 1 else NO_DRAWS
        )
        named = {
            "value": "effect, 95 % interval over rows",
            "beside": f"control: {self.control_name}",
        }
        title = f"{self.intervention}, n = {len(self.values)}"
        return points(
            ax, [point], unit_of(self.quantity), title, null="control", mixed=False, **named
        )

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """The columns that are not in the caption, which says what was done and where."""
        columns = [
            "effect",
            "low",
            "high",
            "control",
            "difference",
            "p_value",
            "before",
            "after",
            "answered",
            "n",
        ]
        draws = len(self.control)
        caption = (
            f"{self.intervention} at {self.site}: {self.quantity}; control: {self.control_name}"
        )
        if 1 < draws < 20:  # 19 draws reach .05 and do not fall below it
            caption += f"; p cannot be below {1 / (1 + draws):.2g} with {draws} draws"
        return caption, self.to_frame().loc[:, columns], _told(self.notes, self.answered)

    def summary(self) -> dict[str, Any]:
        """One row of a table of effects: effect, control and difference with intervals, p_value,
        names, what was, n."""
        mean = self.control.mean(0) if len(self.control) else np.full(len(self.values), np.nan)
        row: dict[str, Any] = {
            name: getattr(self, name) for name in ("intervention", "site", "quantity")
        }
        for name, values in {
            "effect": self.values,
            "control": mean,
            "difference": self.values - mean,
        }.items():
            prefix = "" if name == "effect" else f"{name}_"
            interval = _interval(values, self.quantity, lowest=0 if name != "difference" else -1)
            row |= dict(zip((name, f"{prefix}low", f"{prefix}high"), interval, strict=True))
        about = ("p_value", "control_name", "before", "after", "answered")
        return row | {name: getattr(self, name) for name in about} | {"n": len(self.values)}


def _told(notes: Mapping[str, str], answered: float) -> list[str]:
    """Notes in words, with a caution where a model answers few rows rightly, so that little can be
    lost or moved."""
    few = f"the untouched model answers {answered:.2f} of the rows rightly, so an effect says little of how it answers;"
    caution = {"answers": f"{few} are the labels those of these rows?"} if answered < FEW else {}
    return [f"{name}: {why}" for name, why in {**notes, **caution}.items()]


def _interval(values: Float[np.ndarray, " row"], quantity: str, lowest: int) -> Interval:
    """That of a share of inputs, from ``lowest`` on, of a difference of shares, or of a mean."""
    if quantity not in ("moved_as_predicted", "accuracy_drop"):
        return t_interval(values)
    lowest = -1 if quantity == "accuracy_drop" else lowest
    if np.isin(values, (lowest, 0, 1)).all():
        lost, gained, n = int((values > 0).sum()), int((values < 0).sum()), len(values)
        return (
            proportion_interval(lost, n)
            if lowest == 0
            else difference_of_paired_shares(lost, gained, n)
        )
    interval = t_interval(values)
    return Interval(interval.estimate, *(float(end) for end in np.clip(interval[1:], lowest, 1)))


def ratio_interval(
    part: Float[np.ndarray, "*cell row"], whole: Float[np.ndarray, " row"]
) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
    """Ends of the 95 % interval of mean(part) / mean(whole) over paired inputs (Fieller, 1954).

    It holds every ratio r for which the mean of ``part - r whole`` is within t standard errors of
    0. Where the mean of ``whole`` itself is within t standard errors of 0, any ratio may be true:
       the interval is the whole line.

    >>> low, high = ratio_interval(np.array([[0.0, 1.0, 2.0, 1.0]]), np.array([2.0, 2.0, 2.0, 2.0]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-0.15], [1.15])
    """
    n, a, b = len(whole), np.asarray(part.mean(-1)), whole.mean()
    line = np.full(a.shape, -np.inf), np.full(a.shape, np.inf)
    if n < 2:
        return line
    scale = special.stdtrit(n - 1, 0.975) ** 2 / (n * (n - 1))
    part, whole = part - a[..., None], whole - b
    square = b * b - scale * (whole * whole).sum()
    if square <= 0:
        return line
    middle = a * b - scale * (part * whole).sum(-1)
    half = np.sqrt(np.maximum(middle**2 - square * (a * a - scale * (part * part).sum(-1)), 0))
    ratio = a / b  # lies between the two, save for rounding
    ends = np.minimum(ratio, (middle - half) / square), np.maximum(ratio, (middle + half) / square)
    return np.asarray(ends[0]), np.asarray(ends[1])


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(TableRepr):
    """Shares of the way from the rows that run to those that a cell is taken from; 1 all, 0 none,
    nan for no cell.

    Attributes:
        axes: name -> what stands along it: ``component``, ``layer`` and ``role``, or ``sender`` and
            ``receiver``.
        metric: its name. clean, corrupted: the metric of each row, unpatched.
        patched: of each row with each cell patched, ``[*axes, row]``; nan where there is no cell.
        control_patched: the same with the control's activation, or None.
        notes: what is to be said of some cells, or why they are not there.
        direction: ``denoise`` (clean cells into corrupted rows) or ``noise`` (corrupted cells into
            clean rows).
        method: ``patching`` for exact cells, ``attribution`` for cells to first order.
        answered: share of pairs whose rows, clean and corrupted, the untouched model answers
            rightly; nan: no labels.
    """

    axes: Mapping[str, Sequence]
    metric: str
    clean: Float[np.ndarray, " row"]
    corrupted: Float[np.ndarray, " row"]
    patched: np.ndarray
    control_patched: np.ndarray | None
    notes: Mapping[str, str] = field(default_factory=dict)
    direction: str = "denoise"
    method: str = "patching"
    answered: float = float("nan")

    def __len__(self) -> int:
        """Number of rows."""
        return self.patched.shape[-1]

    def _way(self) -> tuple[np.ndarray, np.ndarray]:
        """The metric of the rows that run, and how far it is from there to their source."""
        run, source = (
            (self.corrupted, self.clean)
            if self.direction == "denoise"
            else (self.clean, self.corrupted)
        )
        return run, source - run

    @property
    def values(self) -> np.ndarray:
        """The share of each cell, ``[*axes]``."""
        run, way = self._way()
        return (self.patched.mean(-1) - run.mean()) / way.mean()

    @property
    def control(self) -> np.ndarray:
        """The control's share, near 0 where a patch as such does nothing; nan without a control."""
        patched = (
            np.full_like(self.patched, np.nan)
            if self.control_patched is None
            else self.control_patched
        )
        return replace(self, patched=patched).values

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the 95 % interval over inputs, see ``ratio_interval``."""
        run, way = self._way()
        low, high = ratio_interval(self.patched - run, way)
        return np.where(np.isnan(self.values), np.nan, low), np.where(
            np.isnan(self.values), np.nan, high
        )

    def cell(self, *place: object) -> tuple[int, ...]:
        """Where the cell of such a place stands in the arrays, for instance of ``("z", 0,
        "key")``."""
        return tuple(
            list(axis).index(one) for axis, one in zip(self.axes.values(), place, strict=True)
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a cell: its place on each axis, recovered (``lost`` when noising), low, high,
        control, n."""
        low, high = (end.ravel() for end in self.ends)
        frame = pd.DataFrame(product(*self.axes.values()), columns=pd.Index(self.axes))
        columns = {SHARES[self.direction]: self.values.ravel(), "low": low, "high": high}
        return frame.assign(**columns, control=self.control.ravel(), n=len(self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Share of each cell, a small square with the control's; colours from -1 to 1, beyond them
        a frame."""
        *first, (name, columns) = self.axes.items()
        rows = [" L".join(map(str, place)) for place in product(*(axis for _, axis in first))]
        values, control = (cells.reshape(len(rows), -1) for cells in (self.values, self.control))
        unit, title = (
            f"share of the {self.metric} {SHARES[self.direction]}",
            f"{self.method}, n = {len(self)}",
        )
        ax = share_cells(
            ax,
            values,
            None if self.control_patched is None else control,
            rows,
            columns,
            unit,
            title,
        )
        ax.set_xlabel(name)
        return ax

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Every cell, and why some are not there."""
        how = "" if self.method == "patching" else f", by {self.method}"
        caption = f"share of the {self.metric} {SHARES[self.direction]}{how}, n = {len(self)}"
        notes, gap = _told(self.notes, self.answered), self.clean - self.corrupted
        if not np.isfinite(ratio_interval(gap[None], gap)).all():
            notes.append(
                f"the {self.metric} of clean and corrupted rows differs by {gap.mean():.3g}, which "
                f"may be 0 by its "
                "spread over rows: shares are divided by it and mean nothing here."
            )
        return caption, self.to_frame().drop(columns="n"), notes
