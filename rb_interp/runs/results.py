"""What was measured of a run, as files of its folder: tables, arrays and verdicts; written, and read for a report."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load, save

from rb_interp.claims import CheckedCause, Verdicts, Within, expected_by_chance, judge, judge_checks, judge_within
from rb_interp.errors import StudyError
from rb_interp.figures.evidence import Evidence
from rb_interp.runs.measured import Measured, curves_summary, summary_table
from rb_interp.runs.store import PROBE, SETTINGS, code_version, write_file
from rb_interp.settings import to_toml
from rb_interp.training.member_group import Member

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.runs.run import Run

ARRAYS, VERDICTS, WITHIN, CHECKS = "arrays.safetensors", "verdicts.json", "verdicts_within.json", "checks.json"


def write_measured(run: Run, measured: Measured) -> None:
    """Judge what was measured, and write the files of the step ``probe``.

    Raises StudyError for other tables than the study declares, and for two rows of one key.
    """
    tables = {
        "curves_summary": curves_summary(run.curves),
        **measured.tables,
        "readings": measured.readings,
        "summary": summary_table(measured.readings),
    }
    keys = run.table_keys
    if set(tables) | {"curves"} != set(keys):
        raise StudyError(
            f"study '{run.study.name}' declares the tables {sorted(keys)} and measured {sorted(tables)}; make both "
            f"agree."
        )
    tables = {name: _with_reached(run, table) for name, table in tables.items()}
    measured = replace(measured, readings=tables["readings"], tables={name: tables[name] for name in measured.tables})
    verdicts = _judged(run, measured)
    run.store.begin(PROBE)
    for name, table in tables.items():
        run.store.write_table(name, table, keys[name].split())
    whole = {name: np.asarray(array, order="C") for name, array in measured.arrays.items()}  # as save assumes
    write_file(run.folder / ARRAYS, save(whole))
    for name, content in verdicts.items():
        run.store.write_json(name, content)
    files = [*(f"{name}.parquet" for name in tables), ARRAYS, *verdicts]
    run.store.finish(PROBE, files, _code_version(run))


def _with_reached(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """A table with the column ``reached``: whether the member's learning curves came to the stage of the row.

    Tables without stage, gamma and seed stay as they are. Numbers of several sweeps together count as reached.
    """
    if not {"stage", "gamma", "seed"} <= set(table):
        return table
    sweeps = table["sweep"] if "sweep" in table else [""] * len(table)
    places = [*zip(sweeps, table["stage"], table["gamma"], table["seed"], strict=True)]
    came = {
        place: run.sweeps[place[0]].reached(place[1]) for place in {p[:2] for p in places} if place[0] in run.sweeps
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


def _judged(run: Run, measured: Measured) -> dict[str, Any]:
    """File -> verdicts as plain data: of claims, within groups of seeds, of causal checks on the table ``effects``."""
    context, checks, within = _context(run), run.study.load("checks"), _judged_within(run, measured)
    claims = tuple(map(run.config.judged, run.study.load("claims")))
    found = judge(measured.readings, claims, standings=_standings(run), **context)
    judged: dict[str, Any] = {VERDICTS: found.to_json()}
    if within is not None:
        judged[WITHIN] = within.to_json()
    if checks:
        effects, siblings = measured.tables["effects"], run.config.sibling_stages
        causes = judge_checks(measured.readings, effects, checks, sibling_stages=siblings, **context)
        judged[CHECKS] = [cause.to_json() for cause in causes]
    return judged


def _judged_within(run: Run, measured: Measured) -> Within | None:
    """Verdicts within the study's groups of seeds; None if it has no groups."""
    groups = run.study.load("groups")
    if groups is None:
        return None
    grouping = groups(measured)
    grouping = replace(grouping, claims=tuple(map(run.config.judged, grouping.claims)))
    return judge_within(measured.readings, grouping, standings=_standings(run), **_context(run))


def _context(run: Run) -> dict[str, Any]:
    """What every verdict of this run needs besides its readings."""
    diverged = [(name, m.gamma, m.seed) for name, sweep in run.sweeps.items() for m in sweep.diverged]
    return {"scale": run.scale, "diverged": diverged}


def _standings(run: Run) -> Any:
    return {} if run.calibration is None else run.calibration.standings


def read_evidence(run: Run) -> Evidence:
    """Everything that figures and report use; RunError for a damaged file."""
    files, read = run.store.steps[PROBE]["files"], run.store.read_json
    tables = {name: run.table(name) for name in run.table_keys if name == "curves" or f"{name}.parquet" in files}
    first = {name: tables.pop(name) for name in ("curves", "readings", "summary")}
    verdicts = Verdicts.from_json(read(VERDICTS))
    within = Within.from_json(read(WITHIN)) if WITHIN in files else None
    if within is None:  # the run may have been judged before its study had groups
        within = _judged_within(run, Measured(first["readings"], tables))
    found = Evidence(
        config=run.config,
        scale=run.scale,
        **first,
        arrays=load(run.store.verified(ARRAYS).read_bytes()),
        tables=tables,
        keys=run.table_keys,
        verdicts=verdicts,
        within=within,
        checks=[CheckedCause.from_json(row) for row in read(CHECKS)] if CHECKS in files else [],
        claims=tuple(map(run.config.judged, run.study.load("claims"))),
        meta={
            **{name: run.metadata[name] for name in ("versions", "host", "created")},
            "command": run.metadata["command"] or f"rb-interp reproduce --config {run.folder / SETTINGS}",
            "toml": to_toml(run.study.name, run.config),
            "expected_by_chance": expected_by_chance(verdicts) if verdicts else None,
            "calibration": run.calibration,
        },
    )
    return found.main if "" in run.sweeps else found
