"""The schema of tables: which columns a table has, of which type, and which of them tell its rows apart.

A study declares the tables that it measures. A run is checked against them before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rb_interp.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd

TYPES = {"str": "object", "int": "int64", "float": "float64", "bool": "bool"}
KNOWN = {
    **dict.fromkeys(("sweep", "stage", "set", "probe", "quantity", "null", "component", "group"), "str"),
    **dict.fromkeys(("seed", "step", "n"), "int"),
    "reached": "bool",
}
"""Types of columns that mean the same in every table; any other column is a float unless its table says more."""


@dataclass(frozen=True)
class TableSchema:
    """Columns of a table, as text: names with a space between, each with ``:type`` behind it where it needs one.

    Attributes:
        keys: columns that tell rows apart: no two rows agree in all of them.
        values: the other columns.

    Types are ``str``, ``int``, ``float`` and ``bool``. A column in KNOWN has its type there, any other is a float.

    >>> TableSchema(keys="gamma seed circuit:str", values="share n").columns
    {'gamma': 'float', 'seed': 'int', 'circuit': 'str', 'share': 'float', 'n': 'int'}
    """

    keys: str
    values: str

    @cached_property
    def columns(self) -> dict[str, str]:
        """Every column with its type, keys first."""
        return {**_parsed(self.keys), **_parsed(self.values)}

    @cached_property
    def key_columns(self) -> list[str]:
        """The columns that tell rows apart."""
        return list(_parsed(self.keys))

    def frame(self, rows: Any) -> pd.DataFrame:
        """Rows, or another table, as a table with these columns, in this order and of these types."""
        import pandas as pd

        table = pd.DataFrame(rows, columns=list(self.columns))
        return table.astype({name: TYPES[kind] for name, kind in self.columns.items()})

    def fault(self, table: pd.DataFrame) -> str:
        """What is wrong with a table, in words; empty where it fits."""
        missing, more = sorted(set(self.columns) - set(table)), sorted(set(table) - set(self.columns))
        if missing:
            return f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}"
        if more:
            return f"has, undeclared, the column{'s' * (len(more) > 1)} {', '.join(more)}"
        for name, kind in self.columns.items():
            column: Any = table[name]
            if not _fits(column, kind):
                return f"has {column.dtype} in the column {name}, which is declared as {kind}"
            place_or_count = name in self.key_columns or name == "n" or name.startswith("n_")
            if kind == "float" and place_or_count and column.astype(float).abs().eq(float("inf")).any():
                return f"has infinity in the column {name}"
        twice = table.duplicated(self.key_columns)
        if twice.any():
            place = ", ".join(f"{name} = {table.loc[twice, name].iloc[0]}" for name in self.key_columns)
            return f"has two rows with {place}"
        return ""


CURVES = TableSchema(keys="sweep gamma seed step set", values="loss accuracy")
READINGS = TableSchema(
    keys="sweep gamma seed stage step set probe layer head quantity",
    values="value untrained null null_mean null_sd p_value n reached",
)
"""Readings of probes; docs/tables.md says what each column holds."""
OVER_SEEDS = "mean low high n median lowest highest"
"""Columns of every table over seeds: mean with its 95 % interval, number, median and range."""
SUMMARY = TableSchema(keys="sweep gamma stage set probe layer head quantity", values=f"{OVER_SEEDS} untrained")
CURVES_SUMMARY = TableSchema(keys="sweep gamma step set quantity", values=OVER_SEEDS)
EVERY_STUDY = {"curves": CURVES, "readings": READINGS, "summary": SUMMARY, "curves_summary": CURVES_SUMMARY}
"""Tables that every run has."""


def over_seeds(keys: str) -> TableSchema:
    """The table that `runs.measured.over_seeds` makes: means and medians over seeds at each place."""
    return TableSchema(keys=f"{keys} quantity", values=OVER_SEEDS)


def check_tables(study: str, declared: Mapping[str, TableSchema], tables: Mapping[str, pd.DataFrame]) -> None:
    """Compare what a study measured with what it declares.

    Raises StudyError for a table that it does not declare, for one that is missing, and for one with other columns or
    types, or with a row twice.
    """
    missing, more = sorted(set(declared) - set(tables)), sorted(set(tables) - set(declared))
    if missing:
        raise StudyError(f"study '{study}' declares the tables {missing} and did not measure them; make both agree.")
    if more:
        raise StudyError(f"study '{study}' measured the tables {more} and does not declare them; make both agree.")
    for name, table in tables.items():
        fault = declared[name].fault(table)
        if fault:
            raise StudyError(f"study '{study}': its table '{name}' {fault}; make its schema and its measurement agree.")


def _parsed(text: str) -> dict[str, str]:
    pairs = (word.partition(":") for word in text.split())
    return {name: kind or KNOWN.get(name, "float") for name, _, kind in pairs}


def _fits(column: pd.Series, kind: str) -> bool:
    from pandas.api import types

    if column.isna().all() and kind in ("str", "float"):
        return True
    is_kind = {
        "str": lambda c: types.is_string_dtype(c.dropna()),
        "int": types.is_integer_dtype,
        "float": types.is_float_dtype,
        "bool": types.is_bool_dtype,
    }
    return bool(is_kind[kind](column))
