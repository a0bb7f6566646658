"""The phase of a member: what it answers to pairs that were never trained (paper 2, Figs. 2 and 10).

    I   share of the rows of ``unseen`` answered inferentially, x + s(a1) + s(a2), which is x - 10 for (4,3)
    S   share answered symmetrically, as the mirrored pair was trained, which is x - 6 for (4,3)
    O   1 - I - S

    unfit         accuracy on seen_test < .90
    inferential   else, I >= .90
    symmetric     else, S >= .90
    mixed         else

All of it at the last step. ``early`` rows have their key at positions 0 to length - 5, so that noise stands between the
anchors and the last position. The paper counts all positions, and so do the phases.

How it can mislead. An untrained model answers almost nothing in either way and is unfit. A member may be mixed because
it answers every row by a coin, or because it answers some keys or positions in one way and the rest in the other; the
shares by position and the histogram of answers tell the two apart. O is not noise: a histogram with one other peak is a
third rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from rb_interp.interventions.interchanging import most_likely
from rb_interp.models.protocol import HookedModel
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.studies.composite.task import FITTED
from rb_interp.torch_threads import few_threads

PHASES = UNFIT, INFERENTIAL, SYMMETRIC, MIXED = ("unfit", "inferential", "symmetric", "mixed")
DECIDED = 0.90
"""Share of answers from which a member is inferential, or symmetric."""
ACCURACIES = ("train", "seen_train", "seen_test")

Answers = Int[np.ndarray, " row"]


class Shares(NamedTuple):
    """Shares of rows answered inferentially, symmetrically and otherwise; NaN without rows."""

    inferential: float
    symmetric: float
    other: float


def shares(answers: Answers, inferential: Answers, symmetric: Answers) -> Shares:
    """I, S and O of answers, beside the two answers that each row could have.

    >>> shares(np.array([40, 44, 44, 7]), np.full(4, 40), np.full(4, 44))
    Shares(inferential=0.25, symmetric=0.5, other=0.25)
    """
    if not len(answers):
        return Shares(float("nan"), float("nan"), float("nan"))
    first, second = float((answers == inferential).mean()), float((answers == symmetric).mean())
    return Shares(first, second, 1 - first - second)


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


def histogram(answers: Answers, inferential: Answers) -> pd.DataFrame:
    """How often each ``difference`` of answer and inferential answer occurs, ascending: ``count`` and ``share``.

    >>> histogram(np.array([40, 44, 44]), np.full(3, 40))["count"].tolist()
    [1, 2]
    """
    differences, counts = np.unique(answers - inferential, return_counts=True)
    return pd.DataFrame({"difference": differences, "count": counts, "share": counts / max(1, len(answers))})


def by_position(
    answers: Answers, inferential: Answers, symmetric: Answers, positions: Int[np.ndarray, " row"]
) -> pd.DataFrame:
    """I and S of the rows with their key at each position that occurs, ascending, and how many rows these are (n)."""
    rows = []
    for position in np.unique(positions):
        here = positions == position
        found = shares(answers[here], inferential[here], symmetric[here])
        rows.append({"position": position, "I": found.inferential, "S": found.symmetric, "n": int(here.sum())})
    return pd.DataFrame(rows, columns=["position", "I", "S", "n"])


def early(data: CompositeDataset, rows: Int[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Which rows have noise between their anchors and the last position: the key stands at 0 to length - 5."""
    return data.key_position[rows] <= data.task.length - 5


@few_threads
def read_phase(model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None) -> Reading:
    """Accuracies, I, S and O of a model on the rows of a dataset, in [0, 1].

    Values: ``acc_train`` (as many rows that were trained on as other sets have), ``acc_seen_train``, ``acc_seen_test``,
    ``gap`` (seen_train less seen_test), ``I``, ``S``, ``O``, and ``I_early``, ``S_early`` of early rows. Tables:
    ``answers`` (`histogram`) and ``by_position``. n is the number of rows of ``unseen``.

    Args:
        model: any model that reads the dataset's tokens. data: whose held-out pairs have a symmetric answer.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises TaskError where a held-out pair has no symmetric answer.
    """
    values, tables = _values(model, data)
    before: Mapping[str, float] = {} if untrained is None else _values(untrained, data)[0]
    return Reading("phase", values, untrained=before, n=len(data.rows("unseen")), tables=tables)


@few_threads
def read_control(
    model: HookedModel, data: CompositeDataset, main: CompositeDataset, *, untrained: HookedModel | None = None
) -> Reading:
    """I, S and O of a model that was trained on neither the held-out pairs nor their mirrors, in [0, 1].

    S is the share answered as the mirrored pair is trained in ``main``: an answer that this model has never seen.
    Values: as of `read_phase`; accuracies are on ``data``, answers on ``unseen`` of ``main``.

    Args:
        model: any model that reads the tokens. data: what it was trained on. main: the same with the mirrored pairs.
        untrained: the same model at step 0, read beside it; None for no comparison.
    """
    answered, tables = _answered(model, main)
    before = {} if untrained is None else _accuracies(untrained, data) | _answered(untrained, main)[0]
    return Reading(
        "phase", _accuracies(model, data) | answered, untrained=before, n=len(main.rows("unseen")), tables=tables
    )


def _values(model: HookedModel, data: CompositeDataset) -> tuple[dict[str, float], dict[str, pd.DataFrame]]:
    answered, tables = _answered(model, data)
    return _accuracies(model, data) | answered, tables


def _accuracies(model: HookedModel, data: CompositeDataset) -> dict[str, float]:
    sampled = {name: data.sample(name, data.task.evaluation_rows) for name in ACCURACIES}
    values = {
        f"acc_{name}": float((most_likely(model, data.tokens[rows]) == data.labels[rows]).mean())
        for name, rows in sampled.items()
    }
    return values | {"gap": values["acc_seen_train"] - values["acc_seen_test"]}


def _answered(model: HookedModel, data: CompositeDataset) -> tuple[dict[str, float], dict[str, pd.DataFrame]]:
    rows = data.rows("unseen")
    keys, pairs, answers = data.keys[rows], data.pairs[rows], most_likely(model, data.tokens[rows])
    both, first = (data.task.inferential(keys, pairs), data.task.symmetric(keys, pairs)), early(data, rows)
    every, at_first = shares(answers, *both), shares(answers[first], both[0][first], both[1][first])
    values = dict(zip("ISO", every, strict=True)) | {"I_early": at_first.inferential, "S_early": at_first.symmetric}
    positions = by_position(answers, *both, data.key_position[rows])
    return values, {"answers": histogram(answers, both[0]), "by_position": positions}
