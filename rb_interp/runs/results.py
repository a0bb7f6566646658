"""Results of a run: tables of readings with their columns, numbers over seeds, and the folder that
holds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from rb_interp.arguments import checked
from rb_interp.errors import RunError, StudyError, nearest
from rb_interp.runs.config import StudyConfig, StudyDefinition, scale_of
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.intervals import (
    OVER_SEEDS,
    intervals_or_nan,
    over_seeds,
    spread_over_seeds,
)
from rb_interp.store import PROBE, REMEDY, REPORT, SETTINGS, TRAIN, RunStore, read_run
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
        arrays: ``{gamma}/{seed}/{stage}/{set}/{probe}.L{layer}.H{head}/{array}`` -> array, with
            ``{sweep}/`` in front in a study of several sweeps.
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
    table = pd.concat(tables or [frame([], READINGS)], ignore_index=True)
    return table.fillna({"sweep": "", "set": ""})


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
    means = {}
    for (before, after), seeds in of_seeds.items():
        stacked = np.stack(seeds).astype(float)
        intervals = intervals_or_nan(stacked.reshape(len(seeds), -1).T)
        for name, values in zip(("mean", "low", "high"), intervals.T, strict=True):
            means[f"{before}/{name}/{after}"] = values.reshape(stacked.shape[1:])
    return means


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


class RunFolder:
    """A run as its folder shows it. `Run` adds the verbs that write.

    A copy of the folder without ``checkpoints`` opens and reports as the run does; it trains and
    measures nothing.

    Attributes:
        folder: its path. study, config: the study and its settings, with the seeds that were added.
        metadata: content of ``run.json``. sweeps: its sweeps by name. store: its files, and the
            right to write them.
        batches: the seeds that it began with, and those that were added, as they were trained
            together.
    """

    @checked
    def __init__(
        self,
        folder: Path,
        study: StudyDefinition,
        config: StudyConfig,
        metadata: dict[str, Any],
    ) -> None:
        self.folder = Path(folder)
        self.study = study
        self.store = RunStore(folder)
        self._take(config, metadata)

    def _take(self, config: StudyConfig, metadata: dict[str, Any]) -> None:
        """Take over settings as they are without added seeds, and the content of ``run.json``."""
        self.metadata = metadata
        self.batches = [config.seeds, *(tuple(seeds) for seeds in metadata["added_seeds"])]
        all_seeds = tuple(seed for seeds in self.batches for seed in seeds)
        self.config = replace(config, seeds=all_seeds)
        self.sweeps = {}
        for name, sweep in config.sweeps.items():
            folder = self.folder / name
            siblings = config.sibling_stages
            self.sweeps[name] = Sweep(folder, name, sweep, self.batches, siblings, self.store)

    @property
    def finished(self) -> bool:
        """Whether every sweep is trained to its last step."""
        return self.is_copy or all(sweep.finished for sweep in self.sweeps.values())

    @property
    def is_copy(self) -> bool:
        """Whether the folder is a copy without checkpoints: it opens and reports, and has no
        members."""
        folders = [sweep.folder / "checkpoints" for sweep in self.sweeps.values()]
        found = any(folder.is_dir() for folder in folders)
        return TRAIN in self.store.steps and bool(folders) and not found

    def check_checkpoints(self) -> None:
        """Raise RunError for a copy without checkpoints, which has no members."""
        if self.is_copy:
            raise RunError(
                f"{self.folder} holds tables alone, without checkpoints, so nothing is trained or "
                f"measured there; make the run again: rb-interp reproduce --config "
                f"{self.folder / SETTINGS} --out {Path('runs') / self.folder.resolve().name}"
            )

    @property
    def scale(self) -> str:
        """How serious the run is: its preset, or ``custom`` if sizes differ from the preset's."""
        return scale_of(self.config)

    @property
    def calibration(self) -> Any:
        """Error rates of the study's probes for these models, a ``claims.Calibration``; None if it
        has none."""
        find = self.study.load("calibration")
        return None if find is None else find(self.config)

    @checked
    def sweep(self, name: str = "") -> Sweep:
        """A sweep by its name; RunError for an unknown one. A study with a single sweep needs no
        name."""
        if name not in self.sweeps:
            raise RunError(
                f"this run has no sweep '{name}'; give sweep='...' (--sweep): "
                f"{nearest(name, self.sweeps)}"
            )
        return self.sweeps[name]

    @property
    def curves(self) -> pd.DataFrame:
        """Learning curves of every sweep so far: sweep, gamma, seed, step, set, loss (nats),
        accuracy."""
        if self.is_copy:
            return self.table("curves")
        tables = [sweep.curves().assign(sweep=name) for name, sweep in self.sweeps.items()]
        none = frame([], "gamma seed step set loss accuracy sweep")
        table = pd.concat(tables or [none], ignore_index=True)
        table.insert(0, "sweep", table.pop("sweep"))
        return table

    @property
    def made_with(self) -> dict[str, str]:
        """Part -> version of what made the run: packages, or its steps where ``provenance.json``
        tells of each.

        A run whose parts were made elsewhere and joined keeps that file; `metadata` is of the join
        alone then.
        """
        path = self.folder / "provenance.json"
        if not path.is_file():
            return {**self.metadata["host"], **self.metadata["versions"]}
        steps = self.store.read_json(path.name)
        entries = steps.values() if isinstance(steps, dict) else [None]
        if not all(isinstance(entry, dict | str) for entry in entries):
            raise RunError(f"{path} is damaged: it does not tell of each step. {REMEDY}")
        return {name: _versions(step) for name, step in steps.items() if isinstance(step, dict)}

    @property
    def table_keys(self) -> dict[str, str]:
        """Table -> the columns that tell its rows apart, with spaces between."""
        return {**KEYS, **self.study.load("tables")}

    def _check(self, step: str) -> None:
        """Raise RunError if the files of a step are not those of this run as it was opened."""
        if read_run(self.folder) != self.metadata:
            raise RunError(
                f"{self.folder} has been changed since it was opened; open it again, then continue."
            )
        self.store.check(step)

    @checked
    def table(self, name: str) -> pd.DataFrame:
        """Read ``name.parquet``; RunError if it is not there, is damaged, or was made from other
        checkpoints."""
        if name not in self.table_keys:
            raise RunError(
                f"study '{self.study.name}' has no table '{name}'; {nearest(name, self.table_keys)}"
            )
        self._check(TRAIN if name == "curves" else PROBE)
        return self.store.read_table(name)

    @property
    def readings(self) -> pd.DataFrame:
        """The readings of all probes, as a table."""
        return self.table("readings")

    @property
    def report(self) -> Path:
        """The report's page; RunError if it is not written yet, was made from other tables, or is
        damaged."""
        self._check(REPORT)
        return self.store.verified("report.html")


def _versions(step: Mapping[str, Any]) -> str:
    """Device and versions of one step of ``provenance.json``."""
    versions = step.get("versions", {})
    parts = [str(step.get("device", ""))]
    if isinstance(versions, dict):
        parts += [f"{package} {version}" for package, version in versions.items()]
    return ", ".join(filter(None, parts))
