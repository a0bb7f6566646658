"""Verdicts on what was measured, and the files of the step ``probe``: written once, and read by
figures and report."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter
from safetensors.numpy import load, save

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
from rb_interp.claims.rule import FEWEST
from rb_interp.errors import StudyError
from rb_interp.figures.evidence import Evidence
from rb_interp.runs.folder import RunFolder
from rb_interp.runs.results import (
    READINGS,
    StudyResult,
    curves_summary,
    summary_table,
    with_reached,
)
from rb_interp.settings import to_toml
from rb_interp.store import PACKAGE, PROBE, SETTINGS, code_version, write_file

MAX_SEEDS = 20
SEEDS_AT_ONCE = 4
ARRAYS = "arrays.safetensors"
VERDICTS = "verdicts.json"
WITHIN = "verdicts_within.json"
CHECKS = "checks.json"
JUDGED = {
    VERDICTS: TypeAdapter[Any](Verdicts),
    WITHIN: TypeAdapter[Any](Within),
    CHECKS: TypeAdapter[Any](list[CheckedCause]),
}
"""File -> what is in it."""


def write_result(run: RunFolder, result: StudyResult) -> None:
    """Judge what was measured, and write the files of the step ``probe``.

    Raises StudyError if the tables are not those that the study declares.
    """
    keys = run.table_keys
    tables = _checked_tables(run, result)
    readings = tables["readings"]
    result = replace(
        result, readings=readings, tables={name: tables[name] for name in result.tables}
    )
    tables["summary"] = summary_table(readings)
    verdicts = _judged(run, result)
    run.store.begin(PROBE)
    for name, table in tables.items():
        run.store.write_table(name, table, keys[name].split())
    in_order = {name: np.asarray(array, order="C") for name, array in result.arrays.items()}
    write_file(run.folder / ARRAYS, save(in_order))  # which writes other orders wrongly
    for name, content in verdicts.items():
        run.store.write_json(name, content)
    files = [*(f"{name}.parquet" for name in tables), ARRAYS, *verdicts]
    run.store.finish(PROBE, files, _code_version(run))


def _checked_tables(run: RunFolder, result: StudyResult) -> dict[str, pd.DataFrame]:
    """Every table but the summary, with what was reached; StudyError if they are not as declared."""
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
    return tables


def is_measured(run: RunFolder) -> bool:
    """Whether the run was measured from the checkpoints of now, by the code of now."""
    return run.store.is_current(PROBE) and run.store.steps[PROBE]["version"] == _code_version(run)


def _code_version(run: RunFolder) -> str:
    """That of this package, and of the study if it comes from elsewhere."""
    source = Path(inspect.getfile(inspect.unwrap(run.study.load("measure")))).resolve()
    if source.is_relative_to(PACKAGE):
        return code_version()
    return code_version(source.parent)


def _claims(run: RunFolder) -> tuple[Claim, ...]:
    return tuple(map(run.config.judged, run.study.load("claims")))


def _judged(run: RunFolder, result: StudyResult) -> dict[str, Any]:
    """File -> verdicts as plain data: of claims, within groups of seeds, of causal checks on the
    table ``effects``."""
    diverged = []
    for name, sweep in run.sweeps.items():
        diverged += [(name, member.gamma, member.seed) for member in sweep.diverged]
    standings = {} if run.calibration is None else run.calibration.standings
    options: dict[str, Any] = {"diverged": diverged, "standings": standings}
    judged: dict[str, Any] = {VERDICTS: judge(result.readings, _claims(run), **options)}
    groups = run.study.load("groups")
    if groups is not None:
        grouping = groups(result)
        grouping = replace(grouping, claims=tuple(map(run.config.judged, grouping.claims)))
        judged[WITHIN] = judge_within(result.readings, grouping, **options)
    checks = run.study.load("checks")
    if checks:
        judged[CHECKS] = judge_checks(
            result.readings,
            result.tables["effects"],
            checks,
            sibling_stages=run.config.sibling_stages,
            diverged=diverged,
        )
    return {
        name: JUDGED[name].dump_python(content, mode="json") for name, content in judged.items()
    }


def read_evidence(run: RunFolder) -> Evidence:
    """Everything that figures and report use; RunError for a damaged file."""
    files = run.store.steps[PROBE]["files"]
    tables = {}
    for name in run.table_keys:
        if name == "curves" or f"{name}.parquet" in files:
            tables[name] = run.table(name)
    judged = {}
    for name, kind in JUDGED.items():
        if name in files:
            judged[name] = kind.validate_python(run.store.read_json(name))
    verdicts = judged[VERDICTS]
    again = f"rb-interp reproduce --config {run.folder / SETTINGS}"
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
        within=judged.get(WITHIN),
        checks=judged.get(CHECKS, []),
        claims=_claims(run),
        meta={
            "versions": run.made_with,
            "created": run.metadata["created"],
            "command": run.metadata["command"] or again,
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
    wanted = min(MAX_SEEDS, max(FEWEST, n_seeds + SEEDS_AT_ONCE))
    return max(0, wanted - n_seeds)
