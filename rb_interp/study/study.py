"""The whole study: train, probe, judge, draw, report; each step can be called alone on a run folder."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rb_interp.errors import ConfigError, RunError
from rb_interp.files import write_whole
from rb_interp.study.about import is_series
from rb_interp.study.config import StudyConfig
from rb_interp.study.language_config import LanguageConfig
from rb_interp.study.run import Run
from rb_interp.training.loop import resolve_device

if TYPE_CHECKING:
    from rb_interp.figures.evidence import Evidence

ARRAYS = "arrays.safetensors"
CAUSAL = ("effects", "ablations", "patching", "dynamics", "events")
"""Tables of what interventions did and of what happened when; runs that were probed by an older version lack them."""


def reproduce(
    config: StudyConfig | LanguageConfig | None = None,
    out: Path | str | None = None,
    *,
    command: str = "",
    progress: bool = True,
) -> Run:
    """Train the sweep, probe it, judge the claims and write the report; continues where a run was stopped.

    Args:
        config: the study; the ``quick`` preset where none is given. A LanguageConfig runs the language study.
        out: the run folder; by default ``runs/`` and the preset's name, with a fingerprint where settings differ.
    """
    if isinstance(config, LanguageConfig):
        from rb_interp.study.language import reproduce_language

        return reproduce_language(config, out, command=command, progress=progress)
    config = config or StudyConfig.from_preset()
    if config.model.architecture != "transformer":
        raise ConfigError(
            f"architecture='{config.model.architecture}'; the anchor study reads attention in two layers. Use --study "
            f"emb-mlp for the simplified models, or 'rb-interp train' to train without probing."
        )
    started = time.monotonic()
    resolve_device(config.train.device)
    run = Run.start(out or default_folder(config), config, command)
    trained = run.train(progress)
    seconds = {} if trained is None else trained.seconds
    seconds["probes"] = _timed(lambda: probe_run(run, progress))
    seconds["report"] = _timed(lambda: report_run(run))
    seconds["total"] = time.monotonic() - started
    write_whole(run.folder / "timing.json", lambda path: path.write_text(json.dumps(seconds, indent=1)))
    return run


def default_folder(config: StudyConfig) -> Path:
    """``runs/quick`` for a preset as it stands, ``runs/quick-0123456789ab`` for a variation of it."""
    as_it_stands = config.fingerprint == StudyConfig.from_preset(config.preset).fingerprint
    return Path("runs") / (config.preset if as_it_stands else f"{config.preset}-{config.fingerprint}")


def probe_run(run: Run, progress: bool = True) -> None:
    """Probe a finished run, intervene on it, and judge the claims: tables, arrays, claims.json, causes.json."""
    from safetensors.numpy import save_file

    from rb_interp.claims import judge
    from rb_interp.claims.calibration import family
    from rb_interp.claims.judging_causes import judge_causes
    from rb_interp.study.causal import measure_causes
    from rb_interp.study.dynamics import dynamics
    from rb_interp.study.measure import joined, measure
    from rb_interp.study.threads import one_thread

    _refuse_part(run, "probe")
    if not run.finished:
        raise RunError(
            f"{run.folder} stands at step {run.step or 0} of {run.config.train.steps}; "
            f"finish it first: rb-interp train --config {run.folder / 'config.toml'} --out {run.folder}"
        )
    with one_thread():
        measured, causes, moved = measure(run, progress), measure_causes(run, progress), dynamics(run, progress)
    readings = joined(measured.readings, causes.readings())
    run.write_table("curves", run.curves())
    run.write_table("readings", readings)
    run.write_table("circuits", measured.circuits)
    for name in ("effects", "ablations", "patching"):
        run.write_table(name, getattr(causes, name))
    run.write_table("dynamics", moved.values)
    run.write_table("events", moved.events)
    write_whole(run.folder / ARRAYS, lambda path: save_file(measured.arrays, path))
    tier = run.config.tier
    _write_json(run.folder / "claims.json", judge(readings, tier, family=family(run.config.model)))
    _write_json(run.folder / "causes.json", judge_causes(readings, causes.effects, tier))


def _refuse_part(run: Run, command: str) -> None:
    """Raise RunError where a run is a part of a study, or of an architecture that the anchor claims say nothing of."""
    if is_series(run.folder.parent):
        raise RunError(
            f"{run.folder} is a part of a study; {command} the folder of the whole study: "
            f"rb-interp {command} {run.folder.parent}"
        )
    if run.config.model.architecture != "transformer":
        raise RunError(
            f"{run.folder} holds models of architecture '{run.config.model.architecture}'; the anchor study's probes "
            f"and claims are about transformers. Probe its members from Python, with probe_members."
        )


def _write_json(path: Path, content: list[dict]) -> None:
    text = json.dumps(content, indent=1, allow_nan=False)
    write_whole(path, lambda temporary: temporary.write_text(text))


def evidence(run: Run) -> Evidence:
    """Everything that figures and report look at, read from a probed run."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from rb_interp.claims import expected_by_chance
    from rb_interp.claims.calibration import family, shipped_rates
    from rb_interp.figures.evidence import Evidence
    from rb_interp.probes.circuit import RULES

    try:
        curves, readings, circuits = (run.read_table(name) for name in ("curves", "readings", "circuits"))
        claims = json.loads((run.folder / "claims.json").read_text())
        causal = {name: run.read_table(name) for name in CAUSAL if (run.folder / f"{name}.parquet").exists()}
        causes = run.folder / "causes.json"
        judged = json.loads(causes.read_text()) if causes.exists() else []
        arrays = load_file(run.folder / ARRAYS)
    except (OSError, ValueError, SafetensorError) as error:
        raise RunError(
            f"what was read in {run.folder} is missing or damaged ({error}); "
            f"'rb-interp probe {run.folder}' makes it again."
        ) from None
    about, of_family, rates = run.about, family(run.config.model), shipped_rates()
    meta = {
        "versions": about["versions"],
        "host": about["host"],
        "command": about["command"] or f"rb-interp reproduce --config {run.folder / 'config.toml'}",
        "created": about["created"],
        "expected_holds_by_chance": expected_by_chance(claims),
        "circuit_thresholds": RULES,
        "calibration": {"family": of_family, "rates": rates.loc[rates["family"] == of_family].to_dict("records")},
    }
    return Evidence(
        config=about["config"],
        tier=run.config.tier,
        curves=curves,
        readings=readings,
        circuits=circuits,
        arrays=arrays,
        tables=causal,
        causes=judged,
        claims=claims,
        sample=run.config.task.dataset(run.config.seeds[0]),
        meta=meta,
    )


def report_run(run: Run) -> Path:
    """Draw the figures and write report.html and report.json; returns the page."""
    from rb_interp.report import write_report

    _refuse_part(run, "report")
    return write_report(evidence(run), run.folder)


def _timed(call) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started
