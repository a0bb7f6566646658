"""Measuring a run: its members as models, and what is read of them: tables, arrays and verdicts, as
values and files.

They are made once; claims, figures and report only read them.
"""

from __future__ import annotations

import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd
import torch
from pydantic import TypeAdapter
from safetensors.numpy import load, save
from tqdm import tqdm

from rb_interp.arguments import checked
from rb_interp.claims import (
    CheckedCause,
    Verdicts,
    Within,
    expected_by_chance,
    judge,
    judge_checks,
    judge_within,
)
from rb_interp.errors import RunError, StudyError
from rb_interp.figures.evidence import Evidence
from rb_interp.runs.store import PROBE, SETTINGS, code_version, write_file
from rb_interp.runs.sweep import Sweep
from rb_interp.settings import to_toml
from rb_interp.statistics.intervals import (
    OVER_SEEDS,
    intervals_or_nan,
    over_seeds,
    spread_over_seeds,
)
from rb_interp.statistics.reading import Reading
from rb_interp.table_repr import TableRepr
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint

if TYPE_CHECKING:
    from rb_interp.runs.run import Run

Found = TypeVar("Found")
MOST = 4
"""Threads, at most: Python's own part of a small model's pass is done by one at a time."""
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
    **dict.fromkeys(
        ("sweep", "stage", "set", "probe", "quantity", "null", "component", "group"), "str"
    ),
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
            behind it if it needs one. Other columns have their type in KNOWN, or are floats.

    >>> frame([("a", 3, 1)], "circuit:str n share").dtypes.astype(str).to_dict()
    {'circuit': 'object', 'n': 'int64', 'share': 'float64'}
    """
    pairs = [word.partition(":") for word in columns.split()]
    kinds = {name: DTYPES[kind or KNOWN.get(name, "float")] for name, _, kind in pairs}
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


@checked
def readings_table(*parts: pd.DataFrame | Iterable[Mapping], sweep: str = "") -> pd.DataFrame:
    """Tables or rows of readings joined into one table with the columns and types of READINGS.

    A table without the column ``sweep`` gets the given one. ``reached`` is True where it is
    missing; in the tables of a run it is what the learning curves say. Raises StudyError where
    another column is missing.
    """
    given = {"sweep": sweep, "reached": True}
    tables = [table for table in map(pd.DataFrame, parts) if len(table)]
    tables = [
        table.assign(**{k: v for k, v in given.items() if k not in table}) for table in tables
    ]
    for table in tables:
        missing = [name for name in READINGS.split() if name not in table]
        if missing:
            raise StudyError(
                f"a table of readings lacks the columns {missing}; expected {READINGS}."
            )
    joined = pd.concat([frame(table, READINGS) for table in tables or [[]]], ignore_index=True)
    return joined.fillna({"sweep": "", "set": ""})


@checked
def summary_table(readings: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of every reading with its 95 % interval (Student t), and median and range.

    ``n`` counts seeds with a finite value, ``n_reached`` those of all that came to the stage (the
    others are read at their last step), ``untrained`` is the mean of the untrained models. The
    interval's ends are NaN below two seeds: one seed says nothing of the spread.
    """
    by, rows = KEYS["summary"].split(), []
    for place, here in readings.groupby(by, sort=False, dropna=False):
        values, untrained = (
            here["value"].to_numpy(),
            here["untrained"].mean(),
        )  # NaN where none has a value
        reached = int(here["reached"].to_numpy().sum())
        rows.append((*cast(tuple, place), *spread_over_seeds(values), untrained, reached))
    return pd.DataFrame(rows, columns=[*by, *OVER_SEEDS.split(), "untrained", "n_reached"])


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
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for key, array in arrays.items():
        *place, stage, inputs, probe, name = key.split("/")
        found.setdefault(("/".join(place[:-1]), "/".join((stage, inputs, probe, name))), []).append(
            array
        )
    joined = {}
    for (before, after), each in found.items():
        stacked = np.stack(each).astype(float)
        cells = intervals_or_nan(stacked.reshape(len(each), -1).T)
        mean, low, high = (end.reshape(stacked.shape[1:]) for end in cells.T)
        joined |= {
            f"{before}/{end}/{after}": a
            for end, a in (("mean", mean), ("low", low), ("high", high))
        }
    return joined


@checked
class MemberModels:
    """Two models that take the weights of each member in turn: building a model costs more than
    probing it.

    Attributes:
        model: the member that was loaded last. untrained: the same member at step 0. step: at which
            it was loaded.
    """

    step: int
    stopped = False

    def __init__(self, sweep: Sweep) -> None:
        from rb_interp.models.build import lens_model

        self.sweep, first = sweep, sweep.members[0]
        weights = sweep.weights(first.gamma, first.seed, "init")
        self.model, self.untrained = (
            lens_model(sweep.config.model, *sweep.sizes, weights) for _ in range(2)
        )

    def load(self, member: Member, stage: str | int) -> Checkpoint:
        """Write a member at a stage into ``model``, and its untrained model into ``untrained``."""
        from rb_interp.models.build import exported
        from rb_interp.models.protocol import write_weights

        if self.stopped:
            raise RunError("another member's work has failed, or Ctrl-C ended it.")
        checkpoint = self.sweep.checkpoint(stage, member.gamma, member.seed)
        weights = checkpoint.member(member.gamma, member.seed)
        if not all(weight.isfinite().all() for weight in weights.values()):
            told = f"gamma={member.gamma:g}, seed={member.seed} diverged: its weights at step {checkpoint.step}"
            raise RunError(f"the member with {told} are not finite. Train it with a lower --lr.")
        config = self.sweep.config.model
        write_weights(
            self.untrained, exported(self.sweep.weights(member.gamma, member.seed, "init"), config)
        )
        write_weights(self.model, exported(weights, config))
        self.step = checkpoint.step
        return checkpoint


def each_member(
    sweep: Sweep,
    members: Sequence[Member],
    work: Callable[[MemberModels, Member], Found],
    *,
    progress: bool = True,
    desc: str = "",
) -> list[Found]:
    """``work(models, member)`` of members, in their order, with as many at once as
    ``train.workers`` says.

    Each thread has models of its own. If a member's work raises, or after Ctrl-C, the others end
    when they load the next checkpoint.
    """
    for seed in dict.fromkeys(member.seed for member in members):
        sweep.dataset(seed)  # drawn once, before several ask for it
    n = min(sweep.config.train.workers or min(os.cpu_count() or 1, MOST), len(members))
    every = [MemberModels(sweep) for _ in range(n)]
    idle = every.copy()

    def one(member: Member) -> Found:
        models = idle.pop()
        try:
            return work(models, member)
        finally:
            idle.append(models)

    options = {"disable": not progress, "unit": "member", "desc": desc}
    if n < 2:
        with tqdm(members, **options) as bar:  # closed before an error is printed
            return [one(member) for member in bar]
    with ThreadPoolExecutor(
        n, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)
    ) as pool:
        futures = [pool.submit(copy_context().run, one, member) for member in members]
        try:
            with tqdm(futures, **options) as bar:
                return [future.result() for future in bar]
        except BaseException:
            for models in every:
                models.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


Plan = Callable[[MemberModels, Member], Iterable[tuple[str, str, Reading]]]
"""All that is read of a member: stage, set and reading, each taken at the step at which the models
were loaded last."""


def measure_members(
    run: Run, plan: Plan, sweeps: Iterable[str] | None = None, progress: bool = True
) -> StudyResult:
    """What a plan reads of every sound member of a run's sweeps; tables are kept if the study
    declares them."""
    rows, tables, arrays = [], defaultdict(list), {}
    for name in run.sweeps if sweeps is None else sweeps:
        sweep = run.sweep(name)

        def read(models: MemberModels, member: Member) -> list[tuple[int, str, str, Reading]]:
            return [(models.step, *one) for one in plan(models, member)]

        found = each_member(
            sweep, sweep.sound_members, read, progress=progress, desc=f"probing {name}".strip()
        )
        for member, readings in zip(sweep.sound_members, found, strict=True):
            for step, stage, set, reading in readings:
                place = {
                    "sweep": name,
                    "gamma": member.gamma,
                    "seed": member.seed,
                    "stage": stage,
                    "set": set,
                }
                prefix = "/".join(map(str, (*place.values(), reading.probe))).removeprefix("/")
                place["step"] = step
                rows += [{**place, **row} for row in reading.rows()]
                arrays |= {
                    f"{prefix}/{array}": np.asarray(value)
                    for array, value in reading.arrays.items()
                }
                for table in reading.tables.keys() & run.study.tables.keys():
                    keys = {
                        key: value
                        for key, value in place.items()
                        if key in run.study.tables[table].split()
                    }
                    tables[table].append(reading.tables[table].assign(**keys))
    joined = {table: pd.concat(parts, ignore_index=True) for table, parts in tables.items()}
    return StudyResult(readings_table(rows), joined, arrays)


ARRAYS, VERDICTS, WITHIN, CHECKS = (
    "arrays.safetensors",
    "verdicts.json",
    "verdicts_within.json",
    "checks.json",
)
JUDGED = {
    VERDICTS: TypeAdapter[Any](Verdicts),
    WITHIN: TypeAdapter[Any](Within),
    CHECKS: TypeAdapter[Any](list[CheckedCause]),
}
"""File -> what is in it."""


def write_measured(run: Run, measured: StudyResult) -> None:
    """Judge what was measured, and write the files of the step ``probe``; StudyError for undeclared
    tables."""
    tables = {
        "curves_summary": curves_summary(run.curves),
        **measured.tables,
        "readings": measured.readings,
    }
    keys = run.table_keys
    if {*tables, "curves", "summary"} != set(keys):
        told = f"study '{run.study.name}' declares the tables {sorted(keys)} and measured {sorted(tables)}"
        raise StudyError(f"{told}; make both agree.")
    tables = {name: with_reached(run, table) for name, table in tables.items()}
    for name, table in tables.items():
        if missing := [
            one for one in {**keys, "readings": READINGS}[name].split() if one not in table
        ]:
            raise StudyError(
                f"study '{run.study.name}' measured the table '{name}' without the columns "
                f"{missing}."
            )
    tables["summary"] = summary_table(tables["readings"])
    named = {name: tables[name] for name in measured.tables}
    measured = replace(measured, readings=tables["readings"], tables=named)
    verdicts = _judged(run, measured)
    run.store.begin(PROBE)
    for name, table in tables.items():
        run.store.write_table(name, table, keys[name].split())
    whole = {
        name: np.asarray(array, order="C") for name, array in measured.arrays.items()
    }  # as save assumes
    write_file(run.folder / ARRAYS, save(whole))
    for name, content in verdicts.items():
        run.store.write_json(name, content)
    files = [*(f"{name}.parquet" for name in tables), ARRAYS, *verdicts]
    run.store.finish(PROBE, files, _code_version(run))


def with_reached(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """A table of members and stages with the column ``reached``; numbers of several sweeps count as
    reached."""
    if not {"stage", "gamma", "seed"} <= set(table):
        return table
    sweeps = table["sweep"] if "sweep" in table else [""] * len(table)
    places = [*zip(sweeps, table["stage"], table["gamma"], table["seed"], strict=True)]
    came = {
        place: run.sweeps[place[0]].reached(place[1])
        for place in {p[:2] for p in places}
        if place[0] in run.sweeps
    }
    reached = [came.get(p[:2], {}).get(Member(p[2], p[3]), True) for p in places]
    return table.assign(reached=np.array(reached, dtype=bool))


def measured_already(run: Run) -> bool:
    """Whether the run was measured from the checkpoints of now, by the code of now."""
    return run.store.is_current(PROBE) and run.store.steps[PROBE]["version"] == _code_version(run)


def _code_version(run: Run) -> str:
    """That of this package, and of the study if it comes from elsewhere."""
    place = Path(inspect.getfile(inspect.unwrap(run.study.load("measure")))).resolve().parent
    return code_version(*([] if place.is_relative_to(Path(__file__).parents[1]) else [place]))


def _judged(run: Run, measured: StudyResult) -> dict[str, Any]:
    """File -> verdicts as plain data: of claims, within groups of seeds, of causal checks on the
    table ``effects``."""
    diverged = [
        (name, m.gamma, m.seed) for name, sweep in run.sweeps.items() for m in sweep.diverged
    ]
    options = {
        "diverged": diverged,
        "standings": {} if run.calibration is None else run.calibration.standings,
    }
    checks, groups = run.study.load("checks"), run.study.load("groups")
    claims = tuple(map(run.config.judged, run.study.load("claims")))
    judged: dict[str, Any] = {VERDICTS: judge(measured.readings, claims, **options)}
    if groups is not None:
        grouping = groups(measured)
        grouping = replace(grouping, claims=tuple(map(run.config.judged, grouping.claims)))
        judged[WITHIN] = judge_within(measured.readings, grouping, **options)
    if checks:
        effects, siblings = measured.tables["effects"], run.config.sibling_stages
        told = {"sibling_stages": siblings, "diverged": diverged}
        judged[CHECKS] = judge_checks(measured.readings, effects, checks, **told)
    return {
        name: JUDGED[name].dump_python(content, mode="json") for name, content in judged.items()
    }


def read_evidence(run: Run) -> Evidence:
    """Everything that figures and report use; RunError for a damaged file."""
    files, read = run.store.steps[PROBE]["files"], run.store.read_json
    tables = {
        name: run.table(name)
        for name in run.table_keys
        if name == "curves" or f"{name}.parquet" in files
    }
    first = {name: tables.pop(name) for name in ("curves", "readings", "summary")}
    judged = {
        name: kind.validate_python(read(name)) for name, kind in JUDGED.items() if name in files
    }
    found = Evidence(
        config=run.config,
        scale=run.scale,
        **cast(Any, first),
        arrays=load(run.store.verified(ARRAYS).read_bytes()),
        tables=tables,
        keys=run.table_keys,
        verdicts=judged[VERDICTS],
        within=judged.get(WITHIN),
        checks=judged.get(CHECKS, []),
        claims=tuple(map(run.config.judged, run.study.load("claims"))),
        meta={
            "versions": run.made_with,
            "created": run.metadata["created"],
            "command": run.metadata["command"]
            or f"rb-interp reproduce --config {run.folder / SETTINGS}",
            "toml": to_toml(run.study.name, run.config),
            "expected_by_chance": expected_by_chance(judged[VERDICTS])
            if judged[VERDICTS]
            else None,
            "calibration": run.calibration,
        },
    )
    return found.main if "" in run.sweeps else found
