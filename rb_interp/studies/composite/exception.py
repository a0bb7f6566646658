"""Where the exception is stored: which edge of L0's attention a member needs for it alone. Exploratory.

The exception is the trained pair that mirrors the held-out one, (3,4). An edge goes from one role to another (or to the
same one), at all rows of the exception and of the rest alike: L0's attention from the query's positions to the key's is
set to 0, and what remains is scaled to sum to 1. One edge at a time. Rows are early ones of ``seen_test``.

    Q_from_K:turned   share of the exception's rows that are answered inferentially without the edge, x - 10 for (3,4)
    Q_from_K:kept     accuracy without it on all other rows, the seen pairs other than the exception
    before:...        both without any change, and ``before:learned``, the exception's accuracy

The exception is stored in an edge that turns it in .90 or more of its rows, while the rest keeps .95. Where several do,
the place is that which turns the largest share; the first of EDGES where they are equal. ``none``: no edge does.
``unlearned``: the exception's accuracy is below .90 without any change, so that nothing can be turned. ``no rows``: the
task has no such pair.

The rule for seeds was fixed before any member was read: even seeds suggest, odd seeds test. See `suggestions`.

How it can mislead. ``none`` does not say that the exception is in L1. L0's attention may carry it by several edges that
stand in for each other, or by one that the rest needs too: a model via a2 tells pairs apart at a2, and loses all of
them with that edge. An untrained model reads ``unlearned``. A key and a noise position may have nothing to look at but
themselves, so their edges to themselves are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from rb_interp.errors import ModelError
from rb_interp.interventions.attention import blocked_edits
from rb_interp.interventions.interchanging import most_likely
from rb_interp.models.protocol import HookedModel
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.flow import LAYERS, early_positions
from rb_interp.studies.composite.phase import UNFIT, early
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.torch_threads import few_threads

_SEEN = {
    "key": ("noise",),
    "a1": ("key", "a1", "noise"),
    "a2": ("key", "a1", "a2", "noise"),
    "last": ("key", "a1", "a2", "last", "noise"),
    "noise": ("key", "a1", "a2"),
}
EDGES = {f"{query}_from_{key}": (query, key) for query, keys in _SEEN.items() for key in keys}
"""Name -> query and key of every edge of L0 that can be knocked out."""
TURNED, KEPT = 0.90, 0.95
"""Share of the exception's rows that an edge has to turn, and accuracy that the rest has to keep."""
ELSEWHERE, UNLEARNED, NO_ROWS = "none", "unlearned", "no rows"
NO_EXCEPTION = "no row of seen_test has an exception that mirrors a held-out pair."
LOOK, TEST = "look", "test"
BY: dict[str, list[str]] = {"nothing": [], "phase": ["phase"], "flow": ["flow"], "phase and flow": ["phase", "flow"]}
"""What tells the place of a member: name -> columns."""


@few_threads
def read_exception(model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None) -> Reading:
    """What becomes of the exception and of the rest without each edge of L0's attention, in [0, 1].

    Values: ``EDGE:turned`` and ``EDGE:kept`` of each of EDGES, ``before:turned``, ``before:kept`` and
    ``before:learned``. All are NaN where the task has no exception that mirrors a held-out pair. n is the number of the
    exception's rows.

    Args:
        model: a model of two layers. data: whose rows.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises ModelError for another number of layers.
    """
    if model.cfg.n_layers != LAYERS:
        raise ModelError(
            f"read_exception got a model of {model.cfg.n_layers} layers; places of the exception are told for two, so "
            f"pass one with two."
        )
    values, n = _values(model, data)
    before = {} if untrained is None else _values(untrained, data)[0]
    notes = {} if n else dict.fromkeys(values, NO_EXCEPTION)
    return Reading("exception_edges", values, untrained=before, n=n, notes=notes)


def _values(model: HookedModel, data: CompositeDataset) -> tuple[dict[str, float], int]:
    rows = data.rows("seen_test")
    rows = rows[early(data, rows)]
    pairs, inputs = data.pairs[rows], data.inputs(rows)
    is_mirror = np.array([tuple(pair[::-1]) in data.task.held_out for pair in pairs.tolist()], dtype=bool)
    exception = is_mirror & data.is_exception(pairs)
    names = [f"{edge}:{what}" for edge, what in product(("before", *EDGES), ("turned", "kept"))]
    if not exception.any():
        return dict.fromkeys([*names, "before:learned"], float("nan")), 0
    inferential, values = data.task.inferential(data.keys[rows], pairs), {}
    for edge in ("before", *EDGES):
        edits: Sequence = ()
        if edge in EDGES:
            query, key = (early_positions(inputs, role) for role in EDGES[edge])
            edits = blocked_edits(model, query, key, layer=0)
        answers = most_likely(model, inputs.tokens, edits)
        values[f"{edge}:turned"] = float((answers == inferential)[exception].mean())
        values[f"{edge}:kept"] = float((answers == inputs.labels)[~exception].mean())
        if edge == "before":
            values["before:learned"] = float((answers == inputs.labels)[exception].mean())
    return values, int(exception.sum())


def qualifying(values: Mapping[str, float]) -> list[str]:
    """The edges that the exception is stored in, the one that turns the largest share first."""
    found = [edge for edge in EDGES if values[f"{edge}:turned"] >= TURNED and values[f"{edge}:kept"] >= KEPT]
    return sorted(found, key=lambda edge: -values[f"{edge}:turned"]) if values["before:learned"] >= TURNED else []


def place_of(values: Mapping[str, float]) -> str:
    """Where the exception is stored: an edge, ``none``, ``unlearned`` or ``no rows``."""
    if np.isnan(values["before:learned"]):
        return NO_ROWS
    return next(iter(qualifying(values)), ELSEWHERE) if values["before:learned"] >= TURNED else UNLEARNED


def use_of(seed: int) -> str:
    """Whether a seed is one to ``look`` at, or kept for the ``test``.

    >>> [use_of(seed) for seed in range(4)]
    ['look', 'test', 'look', 'test']
    """
    return TEST if seed % 2 else LOOK


def fitted(places: pd.DataFrame) -> pd.DataFrame:
    """The members that a place can be told of: fitted ones of a task that has the exception."""
    return places.loc[(places["phase"] != UNFIT) & (places["place"] != NO_ROWS)]


def suggestions(places: pd.DataFrame) -> list[dict]:
    """How often the place is what seeds to look at suggest, among fitted members of the seeds kept for the test.

    What is suggested for a member is the most frequent place among members to look at that are like it: alike in phase,
    in flow, in both, or in ``nothing``, which takes all of them. Of equally frequent ones it is the first by name. A
    member that none is like gets what is suggested by nothing. A phase or a flow tells something of the place where it
    is right more often than nothing is.

    Args:
        places: rows with phase, flow, place and used_for.

    Returns a row for each of BY: ``by``, ``right`` with its Clopper-Pearson interval ``low`` and ``high``, ``n``.
    """
    known = fitted(places)
    look, test = (known.loc[known["used_for"] == use].to_dict("records") for use in (LOOK, TEST))
    rows = []
    for by, columns in BY.items():
        right = sum(bool(look) and _suggested(look, one, columns) == one["place"] for one in test)
        found = proportion_interval(right, len(test) if look else 0)
        rows.append({"by": by, "right": found.estimate, "low": found.low, "high": found.high, "n": len(test)})
    return rows


def _suggested(look: list[dict], member: dict, columns: list[str]) -> str:
    alike = [one["place"] for one in look if all(one[name] == member[name] for name in columns)]
    alike = alike or [one["place"] for one in look]
    return min(set(alike), key=lambda place: (-alike.count(place), place))
