"""What measuring a run gives: tables and arrays. They are made once; claims, figures and report only read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd

from rb_interp.errors import ArgumentError, StudyError, first_line, shown
from rb_interp.record import Record
from rb_interp.statistics.intervals import OVER_SEEDS, check_columns, intervals_or_nan, over_seeds, spread_over_seeds
from rb_interp.typed import typed

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
KNOWN = {
    **dict.fromkeys(("sweep", "stage", "set", "probe", "quantity", "null", "component", "group"), "str"),
    **dict.fromkeys(("seed", "step", "n"), "int"),
    "reached": "bool",
}
"""Types of columns that mean the same in every table."""


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Measured(Record):
    """What ``Study.measure`` returns.

    Attributes:
        readings: one row per member, stage, set, probe and quantity; `readings_table` makes it.
        tables: further tables by name, those of ``Study.tables``; each is written as ``NAME.parquet``.
        arrays: ``{gamma}/{seed}/{stage}/{set}/{probe}/{array}`` -> array, with ``{sweep}/`` in front in a study of
            several sweeps.
    """

    readings: pd.DataFrame
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def frame(rows: Any, columns: str) -> pd.DataFrame:
    """Rows, or another table, as a table with these columns, in this order and of these types.

    Args:
        columns: names with spaces between, each with ``:str``, ``:int``, ``:float`` or ``:bool`` behind it if it needs
            one. Other columns have their type in KNOWN, or are floats.

    >>> frame([("a", 3, 1)], "circuit:str n share").dtypes.astype(str).to_dict()
    {'circuit': 'object', 'n': 'int64', 'share': 'float64'}
    """
    pairs = [word.partition(":") for word in columns.split()]
    kinds = {name: DTYPES[kind or KNOWN.get(name, "float")] for name, _, kind in pairs}
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


@typed
def readings_table(*parts: pd.DataFrame | Iterable[Mapping], sweep: str = "") -> pd.DataFrame:
    """Tables or rows of readings joined into one table with the columns and types of READINGS.

    A table without the column ``sweep`` gets the given one. ``reached`` is True where it is missing; in the
    tables of a run it is what the learning curves say. Raises StudyError where another column is missing.
    """
    for part in parts:
        if isinstance(part, str) or not isinstance(part, Iterable):
            raise ArgumentError(f"readings_table got {shown(part)}; expected a table, or a list of rows.")
    tables = [part if isinstance(part, pd.DataFrame) else _table_of(part) for part in parts]
    given = {"sweep": sweep, "reached": True}
    tables = [
        table.assign(**{name: value for name, value in given.items() if name not in table})
        for table in tables
        if len(table)
    ]
    for table in tables:
        missing = [name for name in READINGS.split() if name not in table]
        if missing:
            raise StudyError(
                f"a table of readings lacks the columns {missing}; expected {', '.join(READINGS.split())}."
            )
    try:
        joined = pd.concat([frame(table, READINGS) for table in tables or [[]]], ignore_index=True)
    except (ValueError, TypeError) as error:
        told = f"readings_table got a column of another type ({first_line(error)})"
        raise ArgumentError(f"{told}; expected those of docs/tables.md.") from None
    return joined.fillna({"sweep": "", "set": ""})


def _table_of(rows: Iterable[Mapping]) -> pd.DataFrame:
    """Rows as a table; ArgumentError where one is no mapping of columns."""
    try:
        held = list(rows)
    except TypeError:  # as an array without axes says once it is asked
        held = [None]
    wrong = [row for row in held if not isinstance(row, Mapping)]
    if wrong:
        raise ArgumentError(f"readings_table got {shown(wrong[0])} as a row; expected a mapping of columns.")
    return pd.DataFrame(held)


@typed
def summary_table(readings: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of every reading with its 95 % interval (Student t), and median and range.

    ``n`` counts seeds with a finite value, ``untrained`` is the mean of the untrained models. The interval's ends are
    NaN below two seeds: one seed says nothing of the spread. Raises ArgumentError for a table that lacks a column.
    """
    by, rows = KEYS["summary"].split(), []
    check_columns("summary_table", readings, (*by, "value", "untrained"))
    for place, here in readings.groupby(by, sort=False, dropna=False):
        values, untrained = here["value"].to_numpy(), here["untrained"].mean()  # NaN where none has a value
        rows.append((*cast(tuple, place), *spread_over_seeds(values), untrained))
    return pd.DataFrame(rows, columns=[*by, *OVER_SEEDS.split(), "untrained"])


def curves_summary(curves: pd.DataFrame) -> pd.DataFrame:
    """Loss and accuracy over seeds at every evaluation: the table ``curves_summary``.

    Columns: sweep, gamma, step, set, quantity (``loss``, ``accuracy``), and those of `over_seeds`.
    """
    return over_seeds(curves, ["sweep", "gamma", "step", "set"], ["loss", "accuracy"])


def arrays_over_seeds(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean over seeds of arrays, cell by cell, with the ends of its 95 % interval (Student t).

    Args:
        arrays: ``{gamma}/{seed}/{stage}/{set}/{probe}/{array}`` -> array, with or without ``{sweep}/`` in front; of the
            same shape in all seeds.

    Returns the same keys with ``mean``, ``low`` and ``high`` in place of the seed. NaN is left out; the ends are NaN
    below two seeds.
    """
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for key, array in arrays.items():
        *place, stage, inputs, probe, name = key.split("/")
        found.setdefault(("/".join(place[:-1]), "/".join((stage, inputs, probe, name))), []).append(array)
    joined = {}
    for (before, after), each in found.items():
        stacked = np.stack(each).astype(float)
        cells = intervals_or_nan(stacked.reshape(len(each), -1).T)
        mean, low, high = (end.reshape(stacked.shape[1:]) for end in cells.T)
        joined |= {f"{before}/{end}/{after}": a for end, a in (("mean", mean), ("low", low), ("high", high))}
    return joined
