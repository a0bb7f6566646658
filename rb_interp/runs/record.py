"""What was measured of a run, as files of its folder: written whole when it is probed, read for figures and report."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rb_interp.claims import expected_by_chance
from rb_interp.errors import RunError, StudyError
from rb_interp.figures.evidence import Evidence
from rb_interp.manifest import PROBE, TRAIN, code_version
from rb_interp.runs.config import to_toml
from rb_interp.runs.judged import read_verdicts, write_verdicts
from rb_interp.runs.measured import Measured, curves_summary, summary_table
from rb_interp.runs.schema import EVERY_STUDY, TableSchema, check_tables
from rb_interp.training.member_group import Member

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.runs.run_folder import RunFolder

ARRAYS = "arrays.safetensors"
MOST_BYTES = 4 * 2**30
"""Bytes of a file of numbers, at most."""
TABLES = ("curves", "readings", "summary")
"""Tables that every measured run has."""


def write_measured(run: RunFolder, measured: Measured) -> None:
    """Write tables, arrays, and the verdicts last; StudyError, and nothing written, for other tables than declared."""
    measured = _with_reached(run, measured)
    tables = {
        "curves": run.curves,
        "curves_summary": curves_summary(run.curves),
        **measured.tables,
        "readings": measured.readings,
        "summary": summary_table(measured.readings),
    }
    if run.study.load("checks") and "effects" not in tables:
        raise StudyError(
            f"study '{run.study.name}' has causal checks, and its measurement returns no table 'effects', which "
            f"they are judged by; return it, or give the study no checks."
        )
    check_tables(run.study.name, declared(run), tables)
    whole = {name: np.asarray(array, order="C") for name, array in measured.arrays.items()}  # as save assumes
    with run.manifest.making(PROBE, TRAIN, version=_code_version(run)):
        for name, table in tables.items():
            if name != "curves":
                run.write_table(name, table)
        run.manifest.write_bytes(run.folder / ARRAYS, save(whole), PROBE)
        write_verdicts(run, measured)


def _with_reached(run: RunFolder, measured: Measured) -> Measured:
    """The same, with the column ``reached`` as the learning curves say in each table that declares it.

    A number of several members or sweeps together has no stage that could be missed.
    """
    came: dict[tuple[str, str], Mapping[Member, bool]] = {}

    def reached(sweep: str, stage: str, gamma: float, seed: int) -> bool:
        if sweep not in run.sweeps:
            return True
        if (sweep, stage) not in came:
            came[sweep, stage] = run.sweeps[sweep].reached(str(stage))
        return came[sweep, stage].get(Member(gamma, seed), True)

    def marked(name: str, table: pd.DataFrame) -> pd.DataFrame:
        if "reached" not in declared(run)[name].columns or not {"stage", "gamma", "seed"} <= set(table):
            return table  # without places, which the check of tables refuses
        places = zip(
            table.get("sweep", [""] * len(table)), *(table[key] for key in ("stage", "gamma", "seed")), strict=True
        )
        return table.assign(reached=[reached(*place) for place in places]).astype({"reached": bool})

    known = {name: marked(name, table) if name in declared(run) else table for name, table in measured.tables.items()}
    return replace(measured, readings=marked("readings", measured.readings), tables=known)


def measured_already(run: RunFolder) -> bool:
    """Whether the run was measured from the checkpoints of now, by the code of now."""
    finished = run.manifest.finished(PROBE)
    return finished and run.manifest.content.steps[PROBE].version == _code_version(run)


def _code_version(run: RunFolder) -> str:
    """That of this package, and of the study where it comes from elsewhere."""
    place = Path(inspect.getfile(inspect.unwrap(run.study.load("measure")))).resolve().parent
    return code_version(*([] if place.is_relative_to(Path(__file__).parents[1]) else [place]))


def declared(run: RunFolder) -> dict[str, TableSchema]:
    """Every table of a run, by name."""
    return {**EVERY_STUDY, **run.study.load("tables")}


def step_of(table: str) -> str:
    """The step that writes a table."""
    return TRAIN if table == "curves" else PROBE


def read_table(run: RunFolder, name: str) -> pd.DataFrame:
    """Read ``name.parquet``; RunError where it is not there, damaged, outdated, or another table than declared."""
    import pandas as pd
    from pyarrow import ArrowException

    from rb_interp.runs.parquet import check_size

    path, step = run.folder / f"{name}.parquet", step_of(name)
    if step == PROBE:
        run.check_current(PROBE)
    held = _read(run, path, step)
    try:
        check_size(held)
        table = pd.read_parquet(BytesIO(held))
        schema = declared(run)[name]
        fault = schema.fault(table) or ("has no rows" if name == "curves" and not len(table) else "")
        if not fault:
            floats = [column for column, kind in schema.columns.items() if kind == "float"]
            table = table.astype({column: "float64" for column in floats if bool(table[column].isna().all())})
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ArrowException) as error:
        fault = f"cannot be read ({error})"
    if fault:
        raise RunError(f"{path} {fault}. Run 'rb-interp {step} {run.folder}' to make it again.")
    return table


def _read(run: RunFolder, path: Path, step: str) -> bytes:
    """The content of a file of numbers; raises as `Manifest.read`, and where no measurement writes one so large."""
    size = path.stat().st_size if path.is_file() else 0
    if size > MOST_BYTES:
        raise RunError(
            f"{path} has {size:,} bytes, more than {MOST_BYTES:,}. Run 'rb-interp {step} {run.folder}' to make it "
            f"again."
        )
    return run.manifest.read(path, step)


def read_evidence(run: RunFolder) -> Evidence:
    """Everything that figures and report use; RunError where the run was not measured, or a file is damaged."""
    written = {path.removesuffix(".parquet") for path in run.manifest.names(run.folder) if path.endswith(".parquet")}
    others = sorted(name for name in declared(run) if name in written and name not in TABLES)
    try:
        tables = {name: run.table(name) for name in (*TABLES, *others)}
        judged = read_verdicts(run, Measured(tables["readings"], tables))
        arrays = load(_read(run, run.folder / ARRAYS, PROBE))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, SafetensorError) as error:
        raise RunError(
            f"what was read in {run.folder} is not what its study measures ({error!r}); "
            f"'rb-interp probe {run.folder}' makes it again."
        ) from None
    found = Evidence(
        config=run.config,
        scale=run.scale,
        **{name: tables.pop(name) for name in TABLES},
        arrays=arrays,
        tables=tables,
        **judged,
        claims=run.study.load("claims"),
        meta={
            **{name: run.metadata[name] for name in ("versions", "host", "created")},
            "command": run.metadata["command"] or f"rb-interp reproduce --config {run.folder / 'config.toml'}",
            "toml": to_toml(run.study.name, run.config),
            "expected_by_chance": expected_by_chance(judged["verdicts"]) if judged["verdicts"] else None,
            "calibration": run.calibration,
        },
    )
    return found.main if "" in run.sweeps else found
