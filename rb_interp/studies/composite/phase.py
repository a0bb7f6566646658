"""The phase of a member: what it answers to pairs that were never trained (paper 2, Figs. 2 and
10).

    I   share of the rows of ``unseen`` answered inferentially, x + s(a1) + s(a2), which is x - 10 for (4,3)
    S   share answered symmetrically, as the mirrored pair was trained, which is x - 6 for (4,3)
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

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from rb_interp.interventions.sites import most_likely
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.results import frame
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import MIDDLE
from rb_interp.studies.composite.task import FITTED, CompositeDataset

PHASES = UNFIT, INFERENTIAL, SYMMETRIC, MIXED = ("unfit", "inferential", "symmetric", "mixed")
DECIDED = 0.90
"""Share of answers from which a member is inferential, or symmetric."""
ACCURACIES = ("train", "seen_train", "seen_test")
PHASE_VALUES = "I S O I_early S_early acc_train acc_seen_train acc_seen_test"


def phase_of(seen_test: float, inferential: float, symmetric: float) -> str:
    """The phase by accuracy on seen_test and the shares I and S.

    >>> [phase_of(*one) for one in ((0.89, 1.0, 0.0), (0.9, 0.9, 0.1), (1.0, 0.1, 0.9), (1.0, 0.5, 0.5))]
    ['unfit', 'inferential', 'symmetric', 'mixed']
    """
    if not seen_test >= FITTED:
        return UNFIT
    if inferential >= DECIDED:
        return INFERENTIAL
    return SYMMETRIC if symmetric >= DECIDED else MIXED


def early(data: CompositeDataset, rows: Int[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Which rows have noise between their anchors and the last position: the key stands at 0 to
    length - 5."""
    return data.key_position[rows] <= data.task.length - 5


def read_phase(
    model: HookedModel,
    data: CompositeDataset,
    *,
    asked: CompositeDataset | None = None,
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
        asked: whose rows of ``unseen`` it answers. For a model that was trained on neither a
            held-out pair nor its mirror these are rows of the task that trains the mirror, so S is
            an answer that it has never seen.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises TaskError where a held-out pair has no symmetric answer.
    """
    values, tables = _values(model, data, asked or data)
    before = {} if untrained is None else _values(untrained, data, asked or data)[0]
    n = len((asked or data).rows("unseen"))
    return Reading("phase", values, untrained=before, n=n, tables={} if asked else tables)


def _values(
    model: HookedModel, data: CompositeDataset, asked: CompositeDataset
) -> tuple[dict[str, float], dict[str, pd.DataFrame]]:
    values = {}
    for name in ACCURACIES:
        rows = data.sample(name, data.task.evaluation_rows)
        values[f"acc_{name}"] = float(
            (most_likely(model, data.tokens[rows]) == data.labels[rows]).mean()
        )
    values["gap"] = values["acc_seen_train"] - values["acc_seen_test"]
    rows = asked.rows("unseen")
    keys, pairs, answers = (
        asked.keys[rows],
        asked.pairs[rows],
        most_likely(model, asked.tokens[rows]),
    )
    inferential, symmetric = asked.task.inferential(keys, pairs), asked.task.symmetric(keys, pairs)
    right = {"I": answers == inferential, "S": answers == symmetric}
    told = pd.DataFrame({"position": asked.key_position[rows], **right})
    every, first = told[["I", "S"]].mean(), told.loc[early(asked, rows), ["I", "S"]].mean()
    values |= {"I": every["I"], "S": every["S"], "I_early": first["I"], "S_early": first["S"]}
    values["O"] = 1 - values["I"] - values["S"]
    shares = (
        told.groupby("position")
        .agg(I=("I", "mean"), S=("S", "mean"), n=("I", "size"))
        .reset_index()
    )
    difference, count = np.unique(answers - inferential, return_counts=True)
    histogram = pd.DataFrame(
        {"difference": difference, "count": count, "share": count / max(1, len(answers))}
    )
    return {name: float(value) for name, value in values.items()}, {
        "answers": histogram,
        "by_position": shares,
    }


def phase_table(readings: pd.DataFrame, column: str = "value") -> pd.DataFrame:
    """One row a member, of readings ``phase``: sweep, gamma, seed, phase, and the values of
    `read_phase`."""
    own = readings.loc[readings["probe"] == "phase"]
    table = own.pivot(
        index=["sweep", "gamma", "seed"], columns="quantity", values=column
    ).reset_index()
    table = frame(table, f"sweep gamma seed {PHASE_VALUES}")
    return table.assign(
        phase=[phase_of(*row) for row in table[["acc_seen_test", "I", "S"]].to_numpy()]
    )


Placed = Iterator[tuple[float, int, str, Reading]]
"""Gamma, seed and set of a reading; gamma is NaN where it is of all gammas together."""


def two_phases(phases: pd.DataFrame) -> Placed:
    """Readings ``two_phases`` of each seed over its fitted members at gammas of .5 and above, the
    numbers of C6.

    ``decided``: share of them that are inferential or symmetric, NaN where none is fitted. n is how
    many there are.
    """
    for seed, members in phases.loc[phases["gamma"] >= MIDDLE - 1e-9].groupby("seed"):
        fitted = members.loc[members["phase"] != UNFIT, "phase"]
        share = float(fitted.isin((INFERENTIAL, SYMMETRIC)).mean()) if len(fitted) else np.nan
        yield np.nan, int(seed), "", Reading("two_phases", {"decided": share}, n=len(fitted))  # type: ignore[call-overload]


def memorising(phases: pd.DataFrame, curves: pd.DataFrame) -> Placed:
    """Readings ``memorising`` of every member that is unfit on seen_test, the numbers of C3m.

    ``train``: accuracy on the rows that were trained on; ``gap``: that less accuracy on seen_train;
    ``loss``: on rows of train at the last evaluation, in nats, NaN where ``curves`` has none.
    """
    last = (
        curves.loc[curves["set"] == "train"]
        .sort_values("step")
        .groupby(["gamma", "seed"])["loss"]
        .last()
    )
    for row in phases.loc[phases["phase"] == UNFIT].to_dict("records"):
        member = row["gamma"], row["seed"]
        values = {"train": row["acc_train"], "gap": row["acc_train"] - row["acc_seen_train"]}
        yield (
            *member,
            "train",
            Reading("memorising", {**values, "loss": last.get(member, np.nan)}, n=1),
        )
