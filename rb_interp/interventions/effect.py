"""What an intervention and its control did, input by input.

    effect = mean_r e_r          control = mean_dr p_dr          difference = mean_r (e_r - mean_d p_dr)

over inputs r and draws d of the control: an intervention of the same form and size that leaves alone what the
mechanism is said to need. An effect that is no larger than its control's shows nothing, however large it is. Intervals
are over inputs, which are drawn independently: Clopper-Pearson for shares, Tango's score interval for differences of
shares (an accuracy before less after), Student t for means. Where a control has several draws, its mean on an input is
no longer 0 or 1; its shares then have a Student t interval that is cut at the ends of what a share can be. Over seeds,
take one effect a seed. ``p_value`` is the share
of control draws whose mean reaches the effect, (1 + n) / (1 + draws); it is nan where the control has one draw. With
fewer than 20 draws it cannot be below .05, however large the effect, and a notebook says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from rb_interp.errors import ModelError
from rb_interp.plots import NOTHING, Point, points, unit_of
from rb_interp.record import Record
from rb_interp.statistics.intervals import Interval, difference_of_paired_shares, proportion_interval, t_interval
from rb_interp.typed import typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_CONTROL = "none given"


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Effect(Record):
    """One intervention on one model. A notebook shows it as its table, and so does ``print``.

    Attributes:
        intervention: what was done, in words. site: where.
        quantity: what a metric lost, such as ``loss_increase`` (after less before) or ``accuracy_drop`` (before less
            after); ``_change`` (after less before) of a metric of which nobody knows which way is worse;
            ``moved_as_predicted`` (1 where the answer became the predicted one), ``recovered``, or ``lost``. Where a
            control has no prediction of its own, as in an interchange, it counts every changed answer: the stricter
            count.
        values: effect on each input, ``[row]``. control: the control's effect on each input, ``[draw, row]``.
        control_name: what the control is, in words; NO_CONTROL where there is no draw of it.

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

    def __post_init__(self) -> None:
        if self.control.ndim != 2 or self.control.shape[1] != len(self.values):
            raise ModelError(
                f"the effect has {len(self.values)} inputs and its control shape {list(self.control.shape)}; "
                f"expected [draw, {len(self.values)}], the same inputs."
            )
        if not len(self.control):
            object.__setattr__(self, "control_name", NO_CONTROL)

    @property
    def p_value(self) -> float:
        """Share of control draws whose mean is at least the effect, in (0, 1]; nan for fewer than two.

        One-sided, save for a ``_change``: there it is the share of draws that are at least as far from 0.
        """
        draws = self.control.mean(1) if self.control.size else np.array([])
        if len(draws) < 2 or not len(self.values):
            return float("nan")
        effect = self.values.mean()
        if self.quantity.endswith("_change"):
            draws, effect = np.abs(draws), np.abs(effect)
        return float((1 + (draws >= effect).sum()) / (1 + len(draws)))

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that there can be with as many draws, 1 / (1 + draws); nan for fewer than two.

        >>> Effect("", "", "recovered", np.ones(3), np.zeros((4, 3)), "").smallest_p
        0.2
        """
        return 1 / (1 + len(self.control)) if len(self.control) > 1 else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """The summary as a table of one row, so that effects can be put below each other."""
        return pd.DataFrame([self.summary()])

    @typed
    def plot(self, ax: Axes | None = None) -> Axes:
        """Effect and control (an open dot), each with its 95 % interval over rows, and the draws of the control.

        Draws on ``ax``, or on a new figure, and returns the axes.
        """
        rows = [effect_point(self.summary(), self.site, self.control.mean(1) if len(self.control) > 1 else NOTHING)]
        title = f"{self.intervention}, n = {len(self.values)}"
        return points(ax, rows, unit_of(self.quantity), title, **looks_of(self.control_name))

    def shown(self) -> tuple[str, pd.DataFrame, list[str]]:
        """The columns that are not in the caption, which says what was done and where."""
        columns = ["effect", "low", "high", "control", "difference", "p_value", "n"]
        caption = f"{self.intervention} at {self.site}: {self.quantity}; control: {self.control_name}"
        few = self.smallest_p >= 0.05  # 19 draws reach .05 and do not fall below it
        more = f"; p cannot be below {self.smallest_p:.2g} with {len(self.control)} draws" if few else ""
        return caption + more, pd.DataFrame(self.to_frame()[columns]), []

    def summary(self) -> dict[str, float | str | int]:
        """One row of a table of effects: effect, control and difference with intervals, p_value, names, n."""
        mean_control = self.control.mean(0) if len(self.control) else np.full(len(self.values), np.nan)
        row: dict[str, float | str | int] = {
            "intervention": self.intervention,
            "site": self.site,
            "quantity": self.quantity,
        }
        named = {"effect": self.values, "control": mean_control, "difference": self.values - mean_control}
        for name, values in named.items():
            interval = _interval(values, self.quantity, lowest=0 if name != "difference" else -1)
            prefix = "" if name == "effect" else f"{name}_"
            row |= {name: interval.estimate, f"{prefix}low": interval.low, f"{prefix}high": interval.high}
        return {**row, "p_value": self.p_value, "control_name": self.control_name, "n": len(self.values)}


def effect_point(row: Mapping[str, Any], label: str, draws: np.ndarray = NOTHING) -> Point:
    """One row of a table of effects as what is drawn of it; ``draws``: means of the control's draws."""
    ends = (row[name] for name in ("effect", "low", "high", "control", "control_low", "control_high"))
    return Point(label, *map(float, ends), null=draws)


def looks_of(control_name: str) -> dict[str, Any]:
    """What the parts of a plot of effects are; all have one unit."""
    named = {"value": "effect, 95 % interval over rows", "beside": f"control: {control_name}", "null": "control"}
    return {**named, "mixed": False}


def _interval(values: Float[np.ndarray, " row"], quantity: str, lowest: int) -> Interval:
    """That of a share of inputs, from ``lowest`` on, of a difference of shares, or of a mean."""
    if quantity not in ("moved_as_predicted", "accuracy_drop"):
        return t_interval(values)
    lowest = -1 if quantity == "accuracy_drop" else lowest
    if np.isin(values, (lowest, 0, 1)).all():
        lost, gained = int((values > 0).sum()), int((values < 0).sum())
        of_one = proportion_interval(lost, len(values)) if lowest == 0 else None
        return of_one or difference_of_paired_shares(lost, gained, len(values))
    found = t_interval(values)
    return Interval(found.estimate, *(float(end) for end in np.clip(found[1:], lowest, 1)))
