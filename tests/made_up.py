"""Made-up evidence of a study, without training: tables of its columns, and what a run makes of them.

Tables have the columns of ``table_columns``, to which real runs are held.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from table_columns import check_tables, columns_of, keys, table_of

from rb_interp.claims import Verdicts, judge, judge_checks, judge_within
from rb_interp.figures.evidence import Evidence
from rb_interp.runs.config import StudyConfig
from rb_interp.runs.measured import Measured, curves_summary, summary_table
from rb_interp.runs.protocol import Study

NEUTRAL = {"O": "", "i": 0, "f": math.nan, "b": False}
"""What stands in a column that is not given, by its type."""
PLACE = {"layer": math.nan, "head": math.nan, "stage": "final", "set": "", "null": None, "n": 400}
"""What stands in a column of readings that is not given, where that is not the neutral value of its type."""
Statistics = Callable[[Evidence], Mapping[str, pd.DataFrame]]
"""The further tables that a study's ``measure`` makes of curves, readings and tables."""


@cache
def _neutral(columns: str) -> tuple[dict[str, Any], set[str]]:
    """What stands in a row's columns that are not given, and which of them are keys."""
    own = table_of(columns)
    return {column: column == "reached" or NEUTRAL[own[column].dtype.kind] for column in own}, {*keys(columns)}


class MadeUp:
    """Tables and arrays of a study, filled row by row; `evidence` makes a whole run of them.

    >>> from rb_interp.studies.labels import LABELS
    >>> made = MadeUp(LABELS, LABELS.preset("smoke"))
    >>> made.fill("outputs", lambda group, label, **place: {"probability": group * label / 10},
    ...           gamma=[0.8], seed=[0], group=[1, 2], label=[0, 1])
    >>> made.tables()["outputs"][["seed", "group", "label", "low", "probability"]]
       seed  group  label  low  probability
    0     0      1      0    0          0.0
    1     0      1      1    0          0.1
    2     0      2      0    0          0.0
    3     0      2      1    0          0.2
    """

    def __init__(self, study: Study, config: StudyConfig) -> None:
        self.study, self.config = study, config
        self.declared = columns_of(study)
        self.rows: dict[str, list[dict]] = defaultdict(list)
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, name: str, **row: Any) -> None:
        """A row of a table; a column that is not given gets its NEUTRAL value, and ``reached`` True.

        Raises AssertionError for a column that is not declared, and for a key that is not given; ``sweep`` need not be.
        """
        neutral, own_keys = _neutral(self.declared[name])
        wrong = row.keys() - neutral.keys() | own_keys - {*row, "sweep"}
        assert not wrong, f"table '{name}': {sorted(wrong)} undeclared or, as keys, not given; got {sorted(row)}"
        self.rows[name].append({**neutral, **row})

    def fill(self, name: str, values: Callable[..., Mapping[str, Any] | None], **levels: Iterable) -> None:
        """A row for every combination of levels, the last one varying fastest.

        ``values(**place)`` gives the other columns of that row; there is no row where it gives None.
        """
        for each in product(*levels.values()):
            place = dict(zip(levels, each, strict=True))
            found = values(**place)
            if found is not None:
                self.add(name, **place, **found)

    def extend(self, name: str, rows: pd.DataFrame | Iterable[Mapping]) -> None:
        """Rows of a table as another function makes them."""
        for row in rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows:
            self.add(name, **row)

    def reading(
        self, probe: str, values: Mapping[str, float], arrays: Mapping[str, Any] | None = None, **columns: Any
    ) -> None:
        """Readings of one probe at one place, with its arrays; columns that are not given are as in PLACE."""
        columns = {**PLACE, **columns}
        for quantity, value in values.items():
            self.add("readings", probe=probe, quantity=quantity, value=float(value), **columns)
        prefix = "/".join(str(columns[name]) for name in ("gamma", "seed", "stage", "set"))
        self.arrays |= {f"{prefix}/{probe}/{name}": np.asarray(array) for name, array in (arrays or {}).items()}

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables so far, with their columns and types."""
        return {name: table_of(self.declared[name], rows) for name, rows in self.rows.items()}

    def evidence(self, statistics: Statistics, scale: str = "custom", **meta: Any) -> Evidence:
        """The evidence of a run that measured this; AssertionError where a table has other columns."""
        tables = {"readings": table_of(self.declared["readings"]), **self.tables()}
        curves, readings = tables.pop("curves"), tables.pop("readings")
        own = {"arrays": self.arrays, "tables": tables, "claims": self.study.load("claims"), "meta": meta}
        own["keys"] = {name: " ".join(keys(columns)) for name, columns in self.declared.items()}
        empty = {"summary": table_of(self.declared["summary"]), "verdicts": Verdicts([])}
        return remade(self.study, Evidence(self.config, scale, curves, readings, **empty, **own), statistics)


def remade(study: Study, evidence: Evidence, statistics: Statistics) -> Evidence:
    """Evidence whose readings or tables were changed, with its summary, statistics, verdicts and checks made anew."""
    readings, own = evidence.readings, {"curves_summary": curves_summary(evidence.curves), **statistics(evidence)}
    tables = {**evidence.tables, **own}
    summary, checks = summary_table(readings), study.load("checks")
    every = {**tables, "curves": evidence.curves, "readings": readings, "summary": summary}
    check_tables(study, every)
    found = {"verdicts": judge(readings, evidence.claims)}
    if (groups := study.load("groups")) is not None:
        found["within"] = judge_within(readings, groups(Measured(readings, tables)))
    if checks:
        siblings = evidence.config.sibling_stages
        found["checks"] = judge_checks(readings, tables["effects"], checks, sibling_stages=siblings)
    return replace(evidence, summary=summary, tables=tables, **found)


def places(readings: pd.DataFrame) -> set[tuple]:
    """What was read where: sweep, stage, set, probe, quantity, and whether a layer and a head are given."""
    names = readings[["sweep", "stage", "set", "probe", "quantity"]]
    return set(names.assign(layer=readings["layer"].notna(), head=readings["head"].notna()).itertuples(False, None))
