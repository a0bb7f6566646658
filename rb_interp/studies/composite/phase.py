"""The phase of a member: what it answers to pairs that were never trained.

After paper 2, Figs. 2 and 10:

    I   share of the rows of ``unseen`` answered inferentially, x + s(a1) + s(a2), for (4,3) x - 10
    S   share answered symmetrically, as the mirrored pair was trained, for (4,3) x - 6
    O   1 - I - S

    unfit         accuracy on seen_test < .90
    inferential   else, I >= .90
    symmetric     else, S >= .90
    mixed         else

All of it at the last step. ``early`` rows have their key at positions 0 to length - 5, so that
noise stands between the anchors and the last position. The paper counts all positions, and so do
the phases.

How it can mislead. An untrained model answers almost nothing in either way and is unfit. A member
may be mixed because it answers every row by a coin, or because it answers some keys or positions in
one way and the rest in the other; the shares by position and the histogram of answers tell the two
apart. O is not noise: a histogram with one other peak is a third rule.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from rb_interp.interventions.edits import most_likely
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.results import frame
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import MIDDLE
from rb_interp.studies.composite.task import FITTED, CompositeDataset

UNFIT = "unfit"
INFERENTIAL = "inferential"
SYMMETRIC = "symmetric"
MIXED = "mixed"
PHASES = (UNFIT, INFERENTIAL, SYMMETRIC, MIXED)
DECIDED = 0.90
"""Share of answers from which a member is inferential, or symmetric."""
ACCURACIES = ("train", "seen_train", "seen_test")
PHASE_VALUES = "I S O I_early S_early acc_train acc_seen_train acc_seen_test"


def phase_of(seen_test: float, inferential: float, symmetric: float) -> str:
    """The phase by accuracy on seen_test and the shares I and S.

    >>> phase_of(0.89, 1.0, 0.0), phase_of(0.9, 0.9, 0.1)
    ('unfit', 'inferential')
    >>> phase_of(1.0, 0.1, 0.9), phase_of(1.0, 0.5, 0.5)
    ('symmetric', 'mixed')
    """
    if not seen_test >= FITTED:
        return UNFIT
    if inferential >= DECIDED:
        return INFERENTIAL
    return SYMMETRIC if symmetric >= DECIDED else MIXED


def early(data: CompositeDataset, rows: Int[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Which rows have noise between their anchors and the last position.

    Their key stands at 0 to length - 5.
    """
    return data.key_position[rows] <= data.task.length - 5


def read_phase(
    model: HookedModel,
    data: CompositeDataset,
    *,
    unseen_data: CompositeDataset | None = None,
    untrained: HookedModel | None = None,
) -> Reading:
    """Accuracies, I, S and O of a model on the rows of a dataset, in [0, 1].

    Values: ``acc_train`` (as many rows that were trained on as other sets have),
    ``acc_seen_train``, ``acc_seen_test``, ``gap`` (seen_train less seen_test), ``I``, ``S``, ``O``,
    and ``I_early``, ``S_early`` of early rows. Tables: ``answers`` (how often each ``difference``
    of answer and inferential answer occurs: ``count`` and ``share``) and ``by_position`` (I and S
    of the n rows with their key at a ``position``), both ascending. n is the number of rows of
    ``unseen``.

    Args:
        model: any model that reads the dataset's tokens. data: what it was trained on.
        unseen_data: whose rows of ``unseen`` it answers, by default those of data. For a model that
            was trained on neither a held-out pair nor its mirror these are rows of the task that
            trains the mirror, so S is an answer that it has never seen.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises TaskError if a held-out pair has no symmetric answer.
    """
    values, tables = _values(model, data, unseen_data or data)
    before = {}
    if untrained is not None:
        before, _ = _values(untrained, data, unseen_data or data)
    if unseen_data:
        tables = {}
    n = len((unseen_data or data).rows("unseen"))
    return Reading("phase", values, untrained=before, n=n, tables=tables)


def _values(
    model: HookedModel, data: CompositeDataset, unseen_data: CompositeDataset
) -> tuple[dict[str, float], dict[str, pd.DataFrame]]:
    """Values and tables of `read_phase`."""
    values = {}
    for name in ACCURACIES:
        rows = data.sample(name, data.task.evaluation_rows)
        right = most_likely(model, data.tokens[rows]) == data.labels[rows]
        values[f"acc_{name}"] = float(right.mean())
    values["gap"] = values["acc_seen_train"] - values["acc_seen_test"]
    rows = unseen_data.rows("unseen")
    keys = unseen_data.keys[rows]
    pairs = unseen_data.pairs[rows]
    answers = most_likely(model, unseen_data.tokens[rows])
    inferential = unseen_data.task.inferential(keys, pairs)
    by_row = pd.DataFrame(
        {
            "position": unseen_data.key_position[rows],
            "I": answers == inferential,
            "S": answers == unseen_data.task.symmetric(keys, pairs),
        }
    )
    shares = by_row[["I", "S"]]
    values |= shares.mean().to_dict()
    values |= shares[early(unseen_data, rows)].mean().add_suffix("_early").to_dict()
    values["O"] = 1 - values["I"] - values["S"]
    positions = by_row.groupby("position")
    by_position = positions.agg(I=("I", "mean"), S=("S", "mean"), n=("I", "size"))
    difference, count = np.unique(answers - inferential, return_counts=True)
    histogram = pd.DataFrame({"difference": difference, "count": count})
    histogram["share"] = count / max(1, len(answers))
    return values, {"answers": histogram, "by_position": by_position.reset_index()}


def phase_table(readings: pd.DataFrame, column: str = "value") -> pd.DataFrame:
    """Phase of every member, and the values of `read_phase`.

    Columns: sweep, gamma, seed, those values, phase.
    """
    members = ["sweep", "gamma", "seed"]
    rows = readings.query("probe == 'phase'")
    table = rows.pivot(index=members, columns="quantity", values=column).reset_index()
    table = frame(table, f"sweep gamma seed {PHASE_VALUES}")
    numbers = table[["acc_seen_test", "I", "S"]].to_numpy()
    return table.assign(phase=[phase_of(*row) for row in numbers])


MemberReading = tuple[float, int, str, Reading]
"""Gamma, seed and set of a reading; gamma is NaN if it is of all gammas together."""


def final_rows(readings: Iterable[MemberReading], step: int) -> list[dict]:
    """Rows of readings at the last step."""
    rows = []
    for gamma, seed, set, reading in readings:
        rows += reading.rows(gamma=gamma, seed=seed, stage="final", step=step, set=set)
    return rows


def two_phases(phases: pd.DataFrame) -> Iterator[MemberReading]:
    """Readings ``two_phases`` of each seed over its fitted members at gammas of .5 and above.

    ``decided``: share of them that are inferential or symmetric, NaN if none is fitted. n is how
    many there are. These are the numbers of C6.
    """
    members = phases.loc[phases["gamma"] >= MIDDLE - 1e-9]
    for seed in sorted(set(members["seed"])):
        phase = members.query("seed == @seed")["phase"]
        fitted = phase[phase != UNFIT]
        decided = fitted.isin((INFERENTIAL, SYMMETRIC))
        reading = Reading("two_phases", {"decided": float(decided.mean())}, n=len(fitted))
        yield np.nan, seed, "", reading


def memorising(phases: pd.DataFrame, curves: pd.DataFrame) -> Iterator[MemberReading]:
    """Readings ``memorising`` of every member that is unfit on seen_test, the numbers of C3m.

    ``train``: accuracy on the rows that were trained on; ``gap``: that less accuracy on seen_train;
    ``loss``: on rows of train at the last evaluation, in nats, NaN if ``curves`` has none.
    """
    train = curves.query("set == 'train'").sort_values("step")
    losses = train.groupby(["gamma", "seed"])["loss"].last()
    for row in phases.query("phase == @UNFIT").to_dict("records"):
        gamma = row["gamma"]
        seed = row["seed"]
        values = {
            "train": row["acc_train"],
            "gap": row["acc_train"] - row["acc_seen_train"],
            "loss": losses.get((gamma, seed), np.nan),
        }
        yield gamma, seed, "train", Reading("memorising", values, n=1)
