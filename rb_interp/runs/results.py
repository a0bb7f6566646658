"""What a study measured: tables of readings with their columns and types, and numbers over
seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd

from rb_interp.arguments import checked
from rb_interp.errors import StudyError
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.intervals import (
    OVER_SEEDS,
    intervals_or_nan,
    over_seeds,
    spread_over_seeds,
)
from rb_interp.table_repr import TableRepr
from rb_interp.training.member_group import Member

KEYS = {
    "curves": "sweep gamma seed step set",
    "readings": "sweep gamma seed stage step set probe layer head quantity",
    "summary": "sweep gamma stage set probe layer head quantity",
    "curves_summary": "sweep gamma step set quantity",
}
"""Tables that every run has -> the columns that tell their rows apart."""
READINGS = f"{KEYS['readings']} value untrained null null_mean null_sd p_value n reached"
"""Columns of readings of probes; docs/tables.md says what each holds."""
DTYPES = {"str": "object", "int": "int64", "float": "float64", "bool": "bool"}
TEXT_COLUMNS = ("sweep", "stage", "set", "probe", "quantity", "null", "component", "group")
COLUMN_TYPES = {
    **dict.fromkeys(TEXT_COLUMNS, "str"),
    **dict.fromkeys(("seed", "step", "n"), "int"),
    "reached": "bool",
}
"""Types of columns that mean the same in every table."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class StudyResult(TableRepr):
    """What ``Study.measure`` returns.

    Attributes:
        readings: one row per member, stage, set, probe and quantity; `readings_table` makes it.
        tables: further tables by name, those of ``Study.tables``; each is written as
            ``NAME.parquet``.
        arrays: ``{gamma}/{seed}/{stage}/{set}/{probe}/{array}`` -> array, with ``{sweep}/`` in
            front in a study of several sweeps.
    """

    readings: pd.DataFrame
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def frame(rows: Any, columns: str) -> pd.DataFrame:
    """Rows, or another table, as a table with these columns, in this order and of these types.

    Args:
        columns: names with spaces between, each with ``:str``, ``:int``, ``:float`` or ``:bool``
            behind it if it needs one. Other columns have their type in COLUMN_TYPES, or are floats.

    >>> frame([("a", 3, 1)], "circuit:str n share").dtypes.astype(str).to_dict()
    {'circuit': 'object', 'n': 'int64', 'share': 'float64'}
    """
    dtypes = {}
    for column in columns.split():
        name, _, kind = column.partition(":")
        dtypes[name] = DTYPES[kind or COLUMN_TYPES.get(name, "float")]
    return pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)


@checked
def readings_table(*parts: pd.DataFrame | Iterable[Mapping], sweep: str = "") -> pd.DataFrame:
    """Tables or rows of readings joined into one table with the columns and types of READINGS.

    A table without the column ``sweep`` gets the given one. ``reached`` is True if it is missing;
    in the tables of a run it is what the learning curves say. Raises StudyError if another column
    is missing.
    """
    tables = []
    for part in parts:
        table = pd.DataFrame(part)
        if not len(table):
            continue
        if "sweep" not in table:
            table = table.assign(sweep=sweep)
        if "reached" not in table:
            table = table.assign(reached=True)
        missing = [name for name in READINGS.split() if name not in table]
        if missing:
            raise StudyError(
                f"a table of readings lacks the columns {missing}; expected {READINGS}."
            )
        tables.append(frame(table, READINGS))
    joined = pd.concat(tables or [frame([], READINGS)], ignore_index=True)
    return joined.fillna({"sweep": "", "set": ""})


@checked
def summary_table(readings: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of every reading with its 95 % interval (Student t), and median and range.

    ``n`` counts seeds with a finite value, ``n_reached`` those of all that came to the stage (the
    others are read at their last step), ``untrained`` is the mean of the untrained models, NaN if
    none has a value. The interval's ends are NaN below two seeds: one seed says nothing of the
    spread.
    """
    keys = KEYS["summary"].split()
    rows = []
    for values, group in readings.groupby(keys, sort=False, dropna=False):
        spread = spread_over_seeds(group["value"].to_numpy())
        n_reached = int(group["reached"].to_numpy().sum())
        rows.append((*cast(tuple, values), *spread, group["untrained"].mean(), n_reached))
    return pd.DataFrame(rows, columns=[*keys, *OVER_SEEDS.split(), "untrained", "n_reached"])


def curves_summary(curves: pd.DataFrame) -> pd.DataFrame:
    """Loss and accuracy over seeds at every evaluation: the table ``curves_summary``."""
    return over_seeds(curves, ["sweep", "gamma", "step", "set"], ["loss", "accuracy"])


def ablation_means(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of a table of ablations; ``before`` is the accuracy with the component."""
    named = table.assign(before=table["accuracy"] + table["accuracy_drop"])
    by = ["gamma", "stage", "set", "component", "method"]
    return over_seeds(named, by, ["accuracy", "accuracy_drop", "control_accuracy_drop", "before"])


def arrays_over_seeds(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean over seeds of `StudyResult.arrays`, cell by cell, with the ends of its 95 % interval
    (Student t).

    Returns the same keys with ``mean``, ``low`` and ``high`` in place of the seed. NaN is left out;
    the ends are NaN below two seeds.
    """
    of_seeds: defaultdict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for key, array in arrays.items():
        *member, stage, inputs, probe, name = key.split("/")
        before = "/".join(member[:-1])
        of_seeds[before, f"{stage}/{inputs}/{probe}/{name}"].append(array)
    joined = {}
    for (before, after), seeds in of_seeds.items():
        stacked = np.stack(seeds).astype(float)
        intervals = intervals_or_nan(stacked.reshape(len(seeds), -1).T)
        for name, values in zip(("mean", "low", "high"), intervals.T, strict=True):
            joined[f"{before}/{name}/{after}"] = values.reshape(stacked.shape[1:])
    return joined


def with_reached(sweeps: Mapping[str, Sweep], table: pd.DataFrame) -> pd.DataFrame:
    """A table of members and stages with the column ``reached``; numbers of several sweeps count as
    reached."""
    if not {"stage", "gamma", "seed"} <= set(table):
        return table
    names = table["sweep"] if "sweep" in table else [""] * len(table)
    by_stage: dict[tuple[str, Any], dict[Member, bool]] = {}
    reached = []
    for name, stage, gamma, seed in zip(
        names, table["stage"], table["gamma"], table["seed"], strict=True
    ):
        if (name, stage) not in by_stage:
            by_stage[name, stage] = sweeps[name].reached(stage) if name in sweeps else {}
        reached.append(by_stage[name, stage].get(Member(gamma, seed), True))
    return table.assign(reached=np.array(reached, dtype=bool))
