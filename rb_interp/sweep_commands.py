"""Command line of jobs: ``rb-interp sweep FILE``, and ``sweep status | gather | job``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from rb_interp.errors import RunError


@dataclass(frozen=True)
class StartJobs:
    """Carry out the runs of a file with axes, those that are missing; 'sweep status DIR', 'sweep
    gather DIR' and 'sweep job DIR NAME' look at them, join their tables, and carry out one."""

    file: Positional[Path]
    """TOML file with a study, its settings, and axes or points."""
    out: Path | None = None
    """Folder of the jobs; by default runs/ and the file's name."""
    engine: Literal["local", "slurm", "ray"] = "local"
    """What carries them out."""
    jobs: int = 0
    """Jobs at once; 0 is one a core, with slurm as many as it likes."""
    address: str = "local"
    """Of a Ray cluster; by default one on this machine alone."""
    print_commands: bool = False
    """Print a line for each missing job, for another engine, and start none."""

    def __call__(self, line: str) -> None:
        from rb_interp.runs import engines
        from rb_interp.runs.jobs import DONE, RUNNING, JobFolder, counts_text

        if self.jobs < 0:
            raise RunError(f"got --jobs {self.jobs}; give a number of jobs, or 0 for one a core.")
        folder = JobFolder.start(self.file, self.out or Path("runs") / self.file.stem)
        states = folder.states()
        missing = [job for job in folder.jobs if states[job.name] not in (DONE, RUNNING)]
        print(f"folder: {folder.folder}; {counts_text(states)}", file=sys.stderr)
        if self.print_commands:
            for job in missing:
                print(shlex.join(folder.command(job)))
            return
        if missing and self.engine == "slurm":
            print(engines.submit_to_slurm(folder, missing, self.jobs))
            print(f"next: rb-interp sweep status {folder.folder}")
            return
        if missing and self.engine == "ray":
            engines.run_on_ray(folder, missing, self.jobs, self.address)
        elif missing:
            engines.run_local(folder, missing, self.jobs)
        states = folder.states()
        failed = [job for job in folder.jobs if states[job.name] not in (DONE, RUNNING)]
        if failed:
            no_log = "it wrote no log; does its node have the folder?"
            lines = [f"{job.name}: {folder.last_line(job) or no_log}" for job in failed]
            raise RunError("\n".join([f"{counts_text(states)}; the same command goes on.", *lines]))
        print(f"{counts_text(states)}; next: rb-interp sweep gather {folder.folder}")


@dataclass(frozen=True)
class OnJobs:
    """A command on a folder of jobs."""

    folder: Positional[Path]
    """Folder of the jobs."""


@dataclass(frozen=True)
class Status(OnJobs):
    """List jobs with their state and the last line of their logs, and the time that is left."""

    def __call__(self, line: str) -> None:
        from rb_interp.runs.jobs import DONE, JobFolder, counts_text
        from rb_interp.runs.terminal import Screen

        folder = JobFolder(self.folder)
        states = folder.states()
        rows = []
        for job in folder.jobs:
            state = states[job.name]
            rows.append((job.name, state, "" if state == DONE else folder.last_line(job)))
        screen = Screen(None)
        screen.table(["job", "state", "last line of its log"], rows, wide=True)
        seconds = folder.seconds_left(states)
        left = f"; about {seconds / 60:.0f} minutes left" if seconds else ""
        screen.say(f"{counts_text(states)}{left}")


@dataclass(frozen=True)
class Gather(OnJobs):
    """Join the tables of all finished runs, with the axes as columns."""

    def __call__(self, line: str) -> None:
        from rb_interp.runs.jobs import JobFolder

        folder = JobFolder(self.folder)
        missing = folder.gather()
        print(f"tables: {folder.folder / 'gathered'}; runs: {folder.folder / 'runs'}")
        if missing:
            print(f"without {', '.join(missing)}, of which jobs are missing")


@dataclass(frozen=True)
class CarryOut(OnJobs):
    """Carry out one job, as engines do."""

    name: Positional[str]
    """Name of the job."""

    def __call__(self, line: str) -> None:
        from rb_interp.runs.jobs import JobFolder

        JobFolder(self.folder).carry_out(self.name, line)


ON_JOBS = {"status": Status, "gather": Gather, "job": CarryOut}
