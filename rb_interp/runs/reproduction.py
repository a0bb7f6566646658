"""A whole study in one call: train, probe, report. Each step can also be called alone, on the run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rb_interp.runs.config import StudyConfig, fingerprint
from rb_interp.runs.protocol import Study
from rb_interp.runs.registry import DEFAULT
from rb_interp.runs.registry import study as find_study
from rb_interp.runs.results import measured_already
from rb_interp.runs.run import Run
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.claims import Verdict

MOST_SEEDS, SEEDS_A_TIME = 20, 4


@typed
def reproduce(
    study: Study | str = DEFAULT,
    config: StudyConfig | None = None,
    out: Path | str | None = None,
    *,
    command: str = "",
    progress: bool = True,
    until_decided: bool = False,
) -> Run:
    """Train every sweep, measure, judge the claims and write the report; continues where a run was stopped.

    Args:
        study: the study, or its name.
        config: its configuration; the ``quick`` preset if none is given.
        out: the run folder; by default ``runs/`` and the names of study and preset.
        command: the command line, to be kept with the run.
        until_decided: add seeds until no claim about them is OPEN, up to 20 seeds.
    """
    study = find_study(study) if isinstance(study, str) else study
    config = config or study.preset()
    run = Run.start(out or default_folder(study, config), study, config, command)
    return finish(run, progress, until_decided)


def finish(run: Run, progress: bool = True, until_decided: bool = False) -> Run:
    """Carry a run through its three steps, train, probe and report, and write their seconds to ``timing.json``.

    What was measured already, from the same checkpoints and by the same code, is not measured again.
    With ``until_decided``, seeds are added after probing, four at a time, as long as a claim about seeds is OPEN.
    """

    def probe() -> None:
        if not measured_already(run):
            run.probe(progress)

    def more() -> None:
        while until_decided and (n := seeds_to_add(run.verdicts, len(run.config.seeds))):
            run.add_seeds(n)
            run.train(progress)
            run.probe(progress)

    started, seconds = time.monotonic(), {}
    steps = {"train": lambda: run.train(progress), "probes": probe, "further seeds": more, "report": run.write_report}
    with run.writing():
        for name, step in steps.items():
            before = time.monotonic()
            step()
            seconds[name] = time.monotonic() - before
        run.store.write_json("timing.json", {**seconds, "total": time.monotonic() - started})
    return run


def seeds_to_add(verdicts: Iterable[Verdict], n_seeds: int) -> int:
    """How many seeds to add so that more claims can be decided; 0 if none can, or the run has 20.

    Seeds decide claims that are OPEN and about seeds.
    """
    from rb_interp.claims.rule import FEWEST

    able = any(verdict.outcome == "OPEN" and verdict.unit == "seed" for verdict in verdicts)
    return max(0, min(MOST_SEEDS, max(FEWEST, n_seeds + SEEDS_A_TIME)) - n_seeds) if able else 0


def default_folder(study: Study, config: StudyConfig) -> Path:
    """``runs/anchor-quick`` for a preset as it stands; a variation gets its fingerprint at the end of the name."""
    name = f"{study.name}-{config.preset}"
    of = fingerprint(study.name, config)
    as_it_stands = of == fingerprint(study.name, study.preset(config.preset))
    return Path("runs") / (name if as_it_stands else f"{name}-{of}")
