"""What an intervention did: an `Effect` input by input beside its control, and a `Matrix` of many
cells.

    effect = mean_r e_r      control = mean_dr p_dr      difference = mean_r (e_r - mean_d p_dr)

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

A cell of direct effects is a mean over inputs itself, in the metric's unit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError
from rb_interp.plots import NO_DRAWS, Point, points, share_cells
from rb_interp.statistics.intervals import (
    Interval,
    difference_of_paired_shares,
    proportion_interval,
    ratio_interval,
    t_interval,
)
from rb_interp.table_repr import TableRepr, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Effect", "Matrix", "hypotheses_table"]

NO_CONTROL = "none given"
REDRAWN = "noise redrawn"
FEW_ANSWERED = 0.5
"""Below this share of rows answered rightly an effect has a caution."""
Direction = Literal["denoise", "noise"]
TABLE_COLUMNS = [
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
RowValues = Float[np.ndarray, " row"]
"""A number for each row."""
SHARE_NAMES = {"denoise": "recovered", "noise": "lost", "direct": "effect"}
"""Direction -> what its cells are called: clean cells recover in corrupted rows, corrupted ones lose
in clean rows; direct effects are no shares."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Effect(TableRepr):
    """One intervention on one model. A notebook shows it as its table, and so does ``print``.

    Attributes:
        intervention: what was done.
        site: where.
        quantity: what a metric lost, such as ``loss_increase`` (after less before) or
            ``accuracy_drop`` (before less after); ``_change`` (after less before) if nobody knows
            which way is worse; ``moved_as_predicted`` (1 if the answer became the predicted one),
            ``recovered``, or ``lost``.
        values: effect on each input.
        control: the control's effect on each input, ``[draw, row]``.
        control_name: what the control is; NO_CONTROL if there is no draw of it.
        before: mean metric of the rows that run, untouched.
        after: mean metric of the rows that run, under the intervention.
        answered: share of all given rows that the untouched model answers rightly; NaN without
            labels.
        notes: what a reader must know, by subject.
        hypotheses: the table of an interchange with several, see ``hypotheses_table``; the effect is
            then that of the one which most pairs follow. Empty otherwise.

    Raises ArgumentError for a control of other rows.

    >>> values, control = np.ones(4), np.zeros((1, 4))
    >>> effect = Effect("ablation", "attn_out.0", "accuracy_drop", values, control, REDRAWN)
    >>> effect.summary()["difference"]
    1.0
    """

    intervention: str
    site: str
    quantity: str
    values: RowValues
    control: np.ndarray
    control_name: str
    before: float = float("nan")
    after: float = float("nan")
    answered: float = float("nan")
    notes: Mapping[str, str] = field(default_factory=dict)
    hypotheses: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        shape = (len(self.control), len(self.values))
        if self.control.size != shape[0] * shape[1]:
            raise ArgumentError(
                f"Effect got a control of shape {list(self.control.shape)}; expected [draw, row] "
                f"for {shape[1]} rows."
            )
        object.__setattr__(self, "control", self.control.reshape(shape))
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
        draws = self.control.mean(1)
        effect = self.values.mean()
        if self.quantity.endswith("_change"):
            draws = np.abs(draws)
            effect = np.abs(effect)
        return float((1 + (draws >= effect).sum()) / (1 + len(draws)))

    def to_frame(self) -> pd.DataFrame:
        """The summary as a table of one row, so that effects can be put below each other."""
        return pd.DataFrame([self.summary()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Effect and control (an open dot) with 95 % intervals over rows, and the control's draws.

        Of several hypotheses, the share of each answer beside that of its largest control.
        """
        row = self.summary()
        names = ("effect", "low", "high", "control", "control_low", "control_high")
        ends = map(row.__getitem__, names)
        draws = self.control.mean(1) if len(self.control) > 1 else NO_DRAWS
        site, title = short_name(self.site), f"{self.intervention}, n = {len(self.values)}"
        rows = [Point(site, *ends, null=draws)]
        unit, control = unit_of(self.quantity), f"control: {self.control_name}"
        value = "effect, 95 % interval over rows"
        if len(self.hypotheses):
            largest = self.hypotheses.iloc[:, 7:].max(axis=1)
            shares = self.hypotheses.iloc[:, :4].assign(control=largest)
            rows = [Point(*row) for row in shares.to_numpy()]
            title += f"\n{site}"
            unit, control = "share of pairs with this answer", "largest of the controls"
            value = "share, 95 % interval over pairs"
        return points(
            ax, rows, unit, title, null="control", mixed=False, value=value, beside=control
        )

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Caption, the columns that are not in it, and notes."""
        n_draws = len(self.control)
        caption = (
            f"{self.intervention} at {self.site}: {self.quantity}; control: {self.control_name}"
        )
        if 1 < n_draws < 20:  # 19 draws reach .05 and do not fall below it
            caption += f"; p cannot be below {1 / (1 + n_draws):.2g} with {n_draws} draws"
        table = self.to_frame().loc[:, TABLE_COLUMNS]
        if len(self.hypotheses):
            table = self.hypotheses
            names = ", ".join(table["answer"][table["explains"]])
            caption += f"; {names or 'no hypothesis'} explains more than the others"
        return caption, table, notes_with_caution(self.notes, self.answered)

    def summary(self) -> dict[str, Any]:
        """One row of a table of effects: effect, control and difference with intervals, and the rest."""
        control = np.full(len(self.values), np.nan)
        if len(self.control):
            control = self.control.mean(0)
        row: dict[str, Any] = {
            "intervention": self.intervention,
            "site": self.site,
            "quantity": self.quantity,
        }
        columns = {"effect": self.values, "control": control, "difference": self.values - control}
        for name, values in columns.items():
            lowest = -1 if name == "difference" else 0
            interval = _interval(values, self.quantity, lowest)
            prefix = "" if name == "effect" else f"{name}_"
            row[name], row[f"{prefix}low"], row[f"{prefix}high"] = interval
        for name in ("p_value", "control_name", "before", "after", "answered"):
            row[name] = getattr(self, name)
        return {**row, "n": len(self.values)}


def short_name(sites: Any) -> Any:
    """Sites in a line, counted if they are more than four; anything else as it is.

    >>> short_name("z.0.0 + z.0.1"), short_name("z.0.0 + z.0.1 + z.0.2 + z.0.3 + v.1.0")
    ('z.0.0 + z.0.1', '5 sites: z.0.0 ... v.1.0')
    """
    names = str(sites).split(" + ")
    return sites if len(names) < 5 else f"{len(names)} sites: {names[0]} ... {names[-1]}"


def hypotheses_table(
    names: Collection[str],
    predicted: np.ndarray,
    untouched: np.ndarray,
    answers: Mapping[str, Sequence[np.ndarray]],
) -> pd.DataFrame:
    """Share of pairs whose answer is that of each hypothesis, the untouched one, or any other.

    Columns: answer; share with its Clopper-Pearson interval low, high; p_value; explains; the same
    share for each control; n. p is that of the one-sided sign test against the best other hypothesis
    times the number of hypotheses: if none is better than all others, one of them has p below .05 with
    probability .05 at most. It explains more than the others if p is below .05, low is above its share
    in every control, and ``self``, the row's own activation, leaves all answers as they are.

    Args:
        names: of the hypotheses.
        predicted: their answers ``[hypothesis, pair]``, which differ from each other and from the
            untouched ones.
        untouched: answers of the base rows as they are, ``[pair]``.
        answers: ``share`` -> answers with the sites of the source ``[draw, pair]``; control -> those
            with its own.

    >>> taken, own = np.array([[3] * 9 + [7]]), np.zeros((1, 10), int)
    >>> predicted = np.array([[3], [4]]).repeat(10, 1)
    >>> table = hypotheses_table(["a", "b"], predicted, own[0], {"share": taken, "self": own})
    >>> table[["share", "low", "p_value"]].round(3).to_numpy().tolist()[0], table["explains"].tolist()[0]
    ([0.9, 0.555, 0.004], True)
    """
    n = len(untouched)
    shares = {}
    for run, of_run in answers.items():
        follows = np.vstack([predicted, untouched])[:, None] == of_run
        shares[run] = np.vstack([follows, ~follows.any(0, keepdims=True)]).mean((1, 2))
    counts = np.rint(shares.pop("share") * n).astype(int)
    intervals = [proportion_interval(count, n) for count in counts]
    table = pd.DataFrame(intervals, columns=pd.Index(["share", "low", "high"]))
    table.insert(0, "answer", [*names, "untouched", "other"])
    followed = counts[:-2]
    rivals = [max(np.delete(followed, number)) for number in range(len(names))]
    p_values = len(names) * special.bdtr(rivals, followed + rivals, 0.5)
    table["p_value"] = [*np.minimum(p_values, 1), np.nan, np.nan]
    explains = (table["p_value"] < 0.05) & (table["low"] > np.max([*shares.values()], axis=0))
    explains &= shares["self"][-2] == 1
    return table.assign(explains=explains, n=n).join(pd.DataFrame(shares))


def notes_with_caution(notes: Mapping[str, str], answered: float) -> list[str]:
    """Notes as lines, with a caution if a model answers few rows rightly.

    Then little can be lost or moved.
    """
    lines = [f"{subject}: {text}" for subject, text in notes.items()]
    if answered < FEW_ANSWERED:
        lines.append(
            f"answers: the untouched model answers {answered:.2f} of the rows rightly, so an "
            f"effect says little of how it answers; are the labels those of these rows?"
        )
    return lines


def _interval(values: RowValues, quantity: str, lowest: int) -> Interval:
    """That of a share of inputs, from ``lowest`` on, of a difference of shares, or of a mean."""
    interval = t_interval(values)
    if quantity not in ("moved_as_predicted", "accuracy_drop"):
        return interval
    if quantity == "accuracy_drop":
        lowest = -1
    if not np.isin(values, (lowest, 0, 1)).all():
        low, high = np.clip(interval[1:], lowest, 1)
        return Interval(interval.estimate, float(low), float(high))
    n_lost = int((values > 0).sum())
    n_gained = int((values < 0).sum())
    if lowest == 0:
        return proportion_interval(n_lost, len(values))
    return difference_of_paired_shares(n_lost, n_gained, len(values))


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
        return (patched.mean(-1) - run.mean()) / way.mean()

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
        missing = np.isnan(self.values)
        return np.where(missing, np.nan, low), np.where(missing, np.nan, high)

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
                f"direct effect on the {self.metric}",
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
        *first, last = plotted
        rows = [" ".join(cell) for cell in product(*(labels[name] for name in first))]
        shape = (len(rows), len(labels[last]))
        ax = share_cells(
            ax,
            self.values.reshape(shape),
            None if self.control_patched is None else self.control.reshape(shape),
            rows,
            labels[last],
            f"share of the {self.metric} {SHARE_NAMES[self.direction]}",
            ", ".join([self.method, *fixed, f"n = {len(self)}"]),
        )
        ax.set(xlabel=last, ylabel=", ".join(first))
        return ax

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Caption, every cell, and why some are missing."""
        by = "" if self.method == "patching" else f", by {self.method}"
        share = SHARE_NAMES[self.direction]
        caption = f"share of the {self.metric} {share}{by}, n = {len(self)}"
        notes = notes_with_caution(self.notes, self.answered)
        table = self.to_frame().drop(columns="n").map(short_name)
        if self.direction == "direct":
            return f"direct {share} on the {self.metric}, n = {len(self)}", table, notes
        difference = self.clean - self.corrupted
        if not np.isfinite(ratio_interval(difference[None], difference)).all():
            notes.append(
                f"the {self.metric} of clean and corrupted rows differs by "
                f"{difference.mean():.3g}, which may be 0 by its spread over rows: shares are "
                f"divided by it and mean nothing here."
            )
        return caption, table, notes
