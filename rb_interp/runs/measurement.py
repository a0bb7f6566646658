"""Measurement: what is read of each member's models, the verdicts on it, and the files of both.

Members are read side by side, in threads with models of their own. The files of the step ``probe``
are written once, and read by figures and report.
"""

from __future__ import annotations

import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from pydantic import TypeAdapter
from safetensors.numpy import load, save
from tqdm import tqdm

from rb_interp.arguments import checked
from rb_interp.claims import (
    CheckedCause,
    Claim,
    Verdict,
    Verdicts,
    Within,
    expected_by_chance,
    judge,
    judge_checks,
    judge_within,
)
from rb_interp.claims.rule import MIN_SEEDS
from rb_interp.errors import RunError, StudyError
from rb_interp.figures.evidence import Evidence
from rb_interp.runs.config import study_names
from rb_interp.runs.results import (
    READINGS,
    RunFolder,
    StudyResult,
    curves_summary,
    readings_table,
    summary_table,
    with_reached,
)
from rb_interp.runs.sweep import Sweep
from rb_interp.settings import to_toml
from rb_interp.statistics.reading import Reading
from rb_interp.store import PACKAGE, PROBE, SETTINGS, code_version, write_file
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint

MAX_SEEDS = 20
SEEDS_AT_ONCE = 4
ARRAYS = "arrays.safetensors"
VERDICTS = "verdicts.json"
WITHIN = "verdicts_within.json"
CHECKS = "checks.json"
VERDICT_FILES = {
    VERDICTS: TypeAdapter[Any](Verdicts),
    WITHIN: TypeAdapter[Any](Within),
    CHECKS: TypeAdapter[Any](list[CheckedCause]),
}
"""File -> what is in it."""
T = TypeVar("T")
MAX_THREADS = 4
"""Threads, at most: Python's own part of a small model's pass is done by one at a time."""


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

        self.sweep = sweep
        first = sweep.members[0]
        weights = sweep.weights(first.gamma, first.seed, "init")
        self.model = lens_model(sweep.config.model, *sweep.sizes, weights)
        self.untrained = lens_model(sweep.config.model, *sweep.sizes, weights)

    def load(self, member: Member, stage: str | int) -> Checkpoint:
        """Write a member at a stage into ``model``, and its untrained model into ``untrained``."""
        from rb_interp.models.build import exported
        from rb_interp.models.protocol import write_weights

        if self.stopped:
            raise RunError("another member's work has failed, or Ctrl-C ended it.")
        checkpoint = self.sweep.checkpoint(stage, member.gamma, member.seed)
        weights = checkpoint.member(member.gamma, member.seed)
        if not all(weight.isfinite().all() for weight in weights.values()):
            raise RunError(
                f"the member with gamma={member.gamma:g}, seed={member.seed} diverged: its weights "
                f"at step {checkpoint.step} are not finite. Train it with a lower --lr."
            )
        config = self.sweep.config.model
        initial = self.sweep.weights(member.gamma, member.seed, "init")
        write_weights(self.untrained, exported(initial, config))
        write_weights(self.model, exported(weights, config))
        self.step = checkpoint.step
        return checkpoint


def map_members(
    sweep: Sweep,
    members: Sequence[Member],
    work: Callable[[MemberModels, Member], T],
    *,
    progress: bool = True,
    desc: str = "",
) -> list[T]:
    """``work(models, member)`` of members, in their order, with as many at once as
    ``train.workers`` says.

    Each thread has models of its own. If a member's work raises, or after Ctrl-C, the others end
    when they load the next checkpoint.
    """
    for seed in dict.fromkeys(member.seed for member in members):
        sweep.dataset(seed)  # drawn once, before several ask for it
    n_threads = sweep.config.train.workers or min(os.cpu_count() or 1, MAX_THREADS)
    n_threads = min(n_threads, len(members))
    models_of_threads = [MemberModels(sweep) for _ in range(n_threads)]
    idle = models_of_threads.copy()

    def with_models(member: Member) -> T:
        models = idle.pop()
        try:
            return work(models, member)
        finally:
            idle.append(models)

    options: dict[str, Any] = {"disable": not progress, "unit": "member", "desc": desc}
    if n_threads < 2:
        with tqdm(members, **options) as bar:  # closed before an error is printed
            return [with_models(member) for member in bar]
    torch_threads = (torch.get_num_threads(),)
    with ThreadPoolExecutor(n_threads, "", torch.set_num_threads, torch_threads) as pool:
        futures = [pool.submit(copy_context().run, with_models, member) for member in members]
        try:
            with tqdm(futures, **options) as bar:
                return [future.result() for future in bar]
        except BaseException:
            for models in models_of_threads:
                models.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


Plan = Callable[[MemberModels, Member], Iterable[tuple[str, str, Reading]]]
"""All that is read of a member: stage, set and reading, each taken at the step at which the models
were loaded last."""


def measure_members(
    run: RunFolder, plan: Plan, sweeps: Iterable[str] | None = None, progress: bool = True
) -> StudyResult:
    """What a plan reads of every sound member of a run's sweeps.

    Further tables of readings are in the result if the study declares them.
    """

    def read(models: MemberModels, member: Member) -> list[tuple[int, str, str, Reading]]:
        return [(models.step, *reading) for reading in plan(models, member)]

    rows: list[dict[str, Any]] = []
    tables: defaultdict[str, list[pd.DataFrame]] = defaultdict(list)
    arrays: dict[str, np.ndarray] = {}
    for name in run.sweeps if sweeps is None else sweeps:
        sweep = run.sweep(name)
        members = sweep.sound_members
        desc = f"probing {name}".strip()
        results = map_members(sweep, members, read, progress=progress, desc=desc)
        for member, readings in zip(members, results, strict=True):
            for step, stage, set, reading in readings:
                labels = {
                    "sweep": name,
                    "gamma": member.gamma,
                    "seed": member.seed,
                    "stage": stage,
                    "set": set,
                }
                site = "" if reading.layer is None else f".L{reading.layer}"
                site += "" if reading.head is None else f".H{reading.head}"
                probe = f"{reading.probe}{site}"
                prefix = "/".join(map(str, (*labels.values(), probe))).removeprefix("/")
                for array, values in reading.arrays.items():
                    arrays[f"{prefix}/{array}"] = np.asarray(values)
                labels["step"] = step
                rows += [{**labels, **row} for row in reading.rows()]
                for table in reading.tables.keys() & run.study.tables.keys():
                    columns = run.study.tables[table].split()
                    declared = {key: labels[key] for key in labels if key in columns}
                    tables[table].append(reading.tables[table].assign(**declared))
    frames = {table: pd.concat(parts, ignore_index=True) for table, parts in tables.items()}
    return StudyResult(readings_table(rows), frames, arrays)


def write_result(run: RunFolder, result: StudyResult) -> None:
    """Judge what was measured, and write the files of the step ``probe``.

    Raises StudyError if the tables are not those that the study declares.
    """
    keys = run.table_keys
    name_of_study = run.study.name
    tables = {"curves_summary": curves_summary(run.curves), **result.tables}
    tables["readings"] = result.readings
    if {*tables, "curves", "summary"} != set(keys):
        raise StudyError(
            f"study '{name_of_study}' declares the tables {sorted(keys)} and measured "
            f"{sorted(tables)}; make both agree."
        )
    columns = {**keys, "readings": READINGS}
    for name, table in tables.items():
        tables[name] = table = with_reached(run.sweeps, table)
        missing = [column for column in columns[name].split() if column not in table]
        if missing:
            raise StudyError(
                f"study '{name_of_study}' measured the table '{name}' without the columns {missing}."
            )
    measured = replace(result, readings=tables.pop("readings"), tables=tables)
    write_tables(run, measured, [run])


def write_tables(run: RunFolder, result: StudyResult, parts: Sequence[RunFolder]) -> None:
    """Judge readings, and write the files of the step ``probe``; ``parts`` are the runs whose
    members they are."""
    readings = result.readings
    tables = {**result.tables, "readings": readings, "summary": summary_table(readings)}
    verdicts = _verdict_contents(run, result, parts)
    run.store.begin(PROBE)
    for name, table in tables.items():
        run.store.write_table(name, table, run.table_keys[name].split())
    in_order = {name: np.asarray(array, order="C") for name, array in result.arrays.items()}
    write_file(run.folder / ARRAYS, save(in_order))  # which writes other orders wrongly
    for name, content in verdicts.items():
        run.store.write_json(name, content)
    files = [*(f"{name}.parquet" for name in tables), ARRAYS, *verdicts]
    run.store.finish(PROBE, files, _code_version(run))


def is_measured(run: RunFolder) -> bool:
    """Whether the run was measured from the checkpoints of now, by the code of now."""
    return run.store.is_current(PROBE) and run.store.steps[PROBE]["version"] == _code_version(run)


def _source(run: RunFolder) -> Path:
    """The file of the study's measurement."""
    return Path(inspect.getfile(inspect.unwrap(run.study.load("measure")))).resolve()


def _code_version(run: RunFolder) -> str:
    """That of this package, and of the study's file or package if it comes from elsewhere."""
    source = _source(run)
    if source.is_relative_to(PACKAGE):
        return code_version()
    in_package = (source.parent / "__init__.py").is_file()
    return code_version(source.parent if in_package else source)


def _claims(run: RunFolder) -> tuple[Claim, ...]:
    return tuple(map(run.config.adapt_claim, run.study.load("claims")))


def _verdict_contents(
    run: RunFolder, result: StudyResult, parts: Sequence[RunFolder]
) -> dict[str, Any]:
    """File -> verdicts as plain data: of claims, within groups of seeds, of causal checks on the
    table ``effects``."""
    diverged = []
    for part in parts:
        for name, sweep in part.sweeps.items():
            diverged += [(name, member.gamma, member.seed) for member in sweep.diverged]
    standings = {} if run.calibration is None else run.calibration.standings
    options: dict[str, Any] = {"diverged": diverged, "standings": standings}
    contents: dict[str, Any] = {VERDICTS: judge(result.readings, _claims(run), **options)}
    groups = run.study.load("groups")
    if groups is not None:
        grouping = groups(result)
        grouping = replace(grouping, claims=tuple(map(run.config.adapt_claim, grouping.claims)))
        contents[WITHIN] = judge_within(result.readings, grouping, **options)
    checks = run.study.load("checks")
    if checks:
        contents[CHECKS] = judge_checks(
            result.readings,
            result.tables["effects"],
            checks,
            sibling_stages=run.config.sibling_stages,
            diverged=diverged,
        )
    return {
        name: VERDICT_FILES[name].dump_python(content, mode="json")
        for name, content in contents.items()
    }


def read_evidence(run: RunFolder) -> Evidence:
    """Everything that figures and report use; RunError for a damaged file."""
    files = run.store.steps[PROBE]["files"]
    tables = {}
    for name in run.table_keys:
        if name == "curves" or f"{name}.parquet" in files:
            tables[name] = run.table(name)
    contents = {}
    for name, kind in VERDICT_FILES.items():
        if name in files:
            contents[name] = kind.validate_python(run.store.read_json(name))
    verdicts = contents[VERDICTS]
    command = f"rb-interp reproduce --config {run.folder / SETTINGS}"
    if run.study.name not in study_names():
        command = (
            f"Run.open('{run.folder}', study=STUDY).reproduce() with STUDY of {_source(run).name}"
        )
    evidence = Evidence(
        config=run.config,
        scale=run.scale,
        curves=tables.pop("curves"),
        readings=tables.pop("readings"),
        summary=tables.pop("summary"),
        arrays=load(run.store.verified(ARRAYS).read_bytes()),
        tables=tables,
        keys=run.table_keys,
        verdicts=verdicts,
        within=contents.get(WITHIN),
        checks=contents.get(CHECKS, []),
        claims=_claims(run),
        meta={
            "versions": run.made_with,
            "created": run.metadata["created"],
            "note": run.metadata.get("note"),
            "command": run.metadata["command"] or command,
            "toml": to_toml(run.study.name, run.config),
            "expected_by_chance": expected_by_chance(verdicts) if verdicts else None,
            "calibration": run.calibration,
        },
    )
    return evidence.main if "" in run.sweeps else evidence


def seeds_to_add(verdicts: Iterable[Verdict], n_seeds: int) -> int:
    """How many seeds to add so that more claims can be decided: those that are OPEN and about
    seeds."""
    if not any(verdict.outcome == "OPEN" and verdict.unit == "seed" for verdict in verdicts):
        return 0
    target = min(MAX_SEEDS, max(MIN_SEEDS, n_seeds + SEEDS_AT_ONCE))
    return max(0, target - n_seeds)
