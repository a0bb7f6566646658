"""What an intervention did: an `Effect`, input by input, beside its control.

    effect = mean_r e_r      control = mean_dr p_dr      difference = mean_r (e_r - mean_d p_dr)

over inputs r and draws d of the control: an intervention of the same form and size that leaves
alone what the mechanism is said to need. An effect that is no larger than its control's shows
nothing, however large it is. Intervals are over inputs, which are drawn independently:
Clopper-Pearson for shares, Tango's score interval for differences of shares (an accuracy before
less after), Student t for means, cut at the ends of what a share can be. Over seeds, take one
effect a seed. ``p_value`` is the share of control draws whose mean reaches the effect, (1 + n) / (1
+ draws).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError
from rb_interp.plots import NO_DRAWS, Point, points
from rb_interp.statistics.intervals import (
    Interval,
    difference_of_paired_shares,
    proportion_interval,
    t_interval,
)
from rb_interp.table_repr import TableRepr, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Effect", "hypotheses_table"]

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
            caption += f"; {names or 'no hypothesis'} explains more than the other hypotheses"
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
            interval = row_interval(values, self.quantity, lowest)
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


def row_interval(values: RowValues, quantity: str, lowest: int) -> Interval:
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
