"""A whole study in one call: train, probe, report. Each step can also be called alone, on the run."""

from __future__ import annotations

from pathlib import Path

from rb_interp.machine.config import StudyConfig, fingerprint
from rb_interp.machine.protocol import Study
from rb_interp.machine.registry import DEFAULT
from rb_interp.machine.registry import study as find_study
from rb_interp.machine.run import Run


def reproduce(
    study: Study | str = DEFAULT,
    config: StudyConfig | None = None,
    out: Path | str | None = None,
    *,
    command: str = "",
    progress: bool = True,
) -> Run:
    """Train every sweep, measure, judge the claims and write the report; continues where a run was stopped.

    Args:
        study: the study, or its name.
        config: its configuration; the ``quick`` preset where none is given.
        out: the run folder; by default ``runs/`` and the names of study and preset.
        command: the command line, to be kept with the run.
    """
    return finish(start(study, config, out, command=command), progress)


def finish(run: Run, progress: bool = True) -> Run:
    """Carry a run through its three steps, train, probe and report, and write their seconds to ``timing.json``."""
    steps = {"train": lambda: run.train(progress), "probes": lambda: run.probe(progress), "report": run.write_report}
    run.timed(steps, {})
    return run


def start(
    study: Study | str = DEFAULT,
    config: StudyConfig | None = None,
    out: Path | str | None = None,
    *,
    command: str = "",
) -> Run:
    """The run of a study, made or opened, before anything is trained; arguments as of `reproduce`."""
    from rb_interp.training.loop import resolve_device

    study = find_study(study) if isinstance(study, str) else study
    config = config or study.preset()
    for sweep in config.sweeps.values():
        resolve_device(sweep.train.device)
    return Run.start(out or default_folder(study, config), study, config, command)


def default_folder(study: Study, config: StudyConfig) -> Path:
    """``runs/anchor-quick`` for a preset as it stands; a variation gets its fingerprint at the end of the name."""
    name = f"{study.name}-{config.preset}"
    of = fingerprint(study.name, config)
    as_it_stands = of == fingerprint(study.name, study.preset(config.preset))
    return Path("runs") / (name if as_it_stands else f"{name}-{of}")
