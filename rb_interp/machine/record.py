"""What was measured of a run, as files of its folder: written whole when it is probed, read for figures and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rb_interp.claims import expected_by_chance
from rb_interp.errors import RunError, StudyError
from rb_interp.figures.evidence import Evidence
from rb_interp.files import write_whole
from rb_interp.machine.config import to_toml
from rb_interp.machine.judged import read_verdicts, write_verdicts
from rb_interp.machine.measured import Measured, curves_summary, summary_table
from rb_interp.machine.schema import EVERY_STUDY, check_tables

if TYPE_CHECKING:
    from rb_interp.machine.run import Run

ARRAYS = "arrays.safetensors"
TABLES = ("curves", "readings", "summary")
"""Tables that every measured run has."""


def write_measured(run: Run, measured: Measured) -> None:
    """Write tables, arrays, and the verdicts last; StudyError, and nothing written, for other tables than declared."""
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
    check_tables(run.study.name, {**EVERY_STUDY, **run.study.load("tables")}, tables)
    for name, table in tables.items():
        run.write_table(name, table)
    whole = {name: np.asarray(array, order="C") for name, array in measured.arrays.items()}  # as save_file assumes
    write_whole(run.folder / ARRAYS, lambda path: save_file(whole, path))
    write_verdicts(run, measured)


def read_evidence(run: Run) -> Evidence:
    """Everything that figures and report use; RunError where the run was not measured, or a file is damaged."""
    try:
        others = [path.stem for path in sorted(run.folder.glob("*.parquet")) if path.stem not in TABLES]
        tables = {name: run.table(name) for name in (*TABLES, *others)}
        judged = read_verdicts(run, Measured(tables["readings"], tables))
        arrays = load_file(run.folder / ARRAYS)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunError(
            f"what was read in {run.folder} is missing or damaged ({error}); "
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
