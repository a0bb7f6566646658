"""The whole language study: train, probe, judge, draw, report; each step can be called alone on a run folder."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rb_interp.errors import RunError
from rb_interp.files import write_whole
from rb_interp.study.language_config import LANGUAGE, LanguageConfig, default_language_folder
from rb_interp.study.language_run import LanguageRun
from rb_interp.training.loop import resolve_device

if TYPE_CHECKING:
    from rb_interp.figures.evidence import Evidence

ARRAYS = "arrays.safetensors"
TABLES = ("skills", "tokens", "similarity")


def reproduce_language(
    config: LanguageConfig | None = None, out: Path | str | None = None, *, command: str = "", progress: bool = True
) -> LanguageRun:
    """Train the sweep, probe it, judge the claims and write the report; continues where a run was stopped.

    Args:
        config: the study; the ``quick`` preset where none is given.
        out: the run folder; by default ``runs/``, the study and the preset, with a fingerprint where settings differ.
    """
    config = config or LanguageConfig.from_preset()
    started = time.monotonic()
    resolve_device(config.train.device)
    run = LanguageRun.start(out or default_language_folder(config), config, command)
    before = time.monotonic()
    run.texts  # noqa: B018 (builds the text, or says at once what is wrong with it)
    seconds = {"text": time.monotonic() - before}
    trained = run.train(progress)
    seconds |= {} if trained is None else trained.seconds
    for name, call in (("probes", lambda: probe_language(run, progress)), ("report", lambda: report_language(run))):
        before = time.monotonic()
        call()
        seconds[name] = time.monotonic() - before
    seconds["total"] = time.monotonic() - started
    write_whole(run.folder / "timing.json", lambda path: path.write_text(json.dumps(seconds, indent=1)))
    return run


def probe_language(run: LanguageRun, progress: bool = True) -> None:
    """Probe a finished run and judge the claims: tables, arrays, claims.json."""
    from safetensors.numpy import save_file

    from rb_interp.claims import claims_of, judge
    from rb_interp.study.language_measure import measure_language

    if not run.finished:
        raise RunError(
            f"{run.folder} stands at step {run.step or 0} of {run.config.train.steps}; "
            f"finish it first: rb-interp train --config {run.folder / 'config.toml'} --out {run.folder}"
        )
    measured = measure_language(run, progress)
    run.write_table("curves", run.curves())
    run.write_table("readings", measured.readings)
    for name in TABLES:
        run.write_table(name, getattr(measured, name))
    write_whole(run.folder / ARRAYS, lambda path: save_file(measured.arrays, path))
    judged = judge(measured.readings, run.config.tier, claims_of(LANGUAGE))
    text = json.dumps(judged, indent=1, allow_nan=False)
    write_whole(run.folder / "claims.json", lambda path: path.write_text(text))


def evidence_language(run: LanguageRun) -> Evidence:
    """Everything that figures and report look at, read from a probed run."""
    import pandas as pd
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from rb_interp.claims import expected_by_chance
    from rb_interp.figures.evidence import Evidence

    try:
        curves, readings = run.read_table("curves"), run.read_table("readings")
        tables = {name: run.read_table(name) for name in TABLES if (run.folder / f"{name}.parquet").exists()}
        claims = json.loads((run.folder / "claims.json").read_text())
        arrays = load_file(run.folder / ARRAYS)
    except (OSError, ValueError, SafetensorError) as error:
        raise RunError(
            f"what was read in {run.folder} is missing or damaged ({error}); "
            f"'rb-interp probe {run.folder}' makes it again."
        ) from None
    about = run.about
    meta = {
        "versions": about["versions"],
        "host": about["host"],
        "command": about["command"] or f"rb-interp reproduce --config {run.folder / 'config.toml'}",
        "created": about["created"],
        "expected_holds_by_chance": expected_by_chance(claims),
        "text": run.text_about,
    }
    return Evidence(
        config=about["config"],
        tier=run.config.tier,
        curves=curves,
        readings=readings,
        circuits=pd.DataFrame(),
        arrays=arrays,
        claims=claims,
        sample=None,
        meta=meta,
        tables=tables,
        study=LANGUAGE,
    )


def report_language(run: LanguageRun) -> Path:
    """Draw the figures and write report.html and report.json; returns the page."""
    from rb_interp.report import write_report

    return write_report(evidence_language(run), run.folder)
