"""Jobs: the runs of a file with axes, one for each point, and how far each of them is.

A job is one command, and its state is read from its folders:

    sweep.toml        a copy of the file
    job.sh            carries out the job of a given name, on any machine that has the folder
    runs/POINT        a run folder; one of many seeds is put together of parts by `JobFolder.gather`
    parts/POINT-SEED  run folders of the jobs that train some seeds of such a run
    logs/JOB.log      what the job has printed; the process that carries it out holds JOB.lock
    gathered/         joined tables of all runs, with the axes as columns; a run, if no two share a seed
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rb_interp.arguments import checked
from rb_interp.errors import RunError, nearest
from rb_interp.runs.config import stacks
from rb_interp.runs.points import AxesPoint, Job, read_jobs
from rb_interp.settings import read_toml
from rb_interp.store import PROBE, REPORT, TRAIN, RunStore, write_file

FILE = "sweep.toml"
SCRIPT = """#!/bin/sh
# Carries out a job of this folder, by its name, and writes its log.
folder=$(cd "$(dirname "$0")" && pwd)
exec >> "$folder/logs/$1.log" 2>&1
{python} -c "import rb_interp" 2> /dev/null || {{
    echo "the node ${{SLURMD_NODENAME:-$(uname -n)}} has no package rb-interp for" {python}: \
        "install it there, or leave the node out."
    exit 2
}}
OMP_NUM_THREADS=1 exec {python} -m rb_interp sweep job "$folder" "$1"
"""
DONE, RUNNING, FAILED, NOT_STARTED = STATES = ("done", "running", "failed", "not started")


class JobFolder:
    """A folder with a copy of a file of axes, and the jobs that the file stands for."""

    @checked
    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).resolve()
        path = self.folder / FILE
        if not path.is_file():
            raise RunError(
                f"{folder} has no {FILE}. Make the folder with 'rb-interp sweep FILE --out FOLDER'."
            )
        self.settings, self.points, self.jobs = read_jobs(path)

    @classmethod
    @checked
    def start(cls, file: Path | str, folder: Path | str) -> JobFolder:
        """Make the folder, or open it if it was made from the same file.

        Raises ConfigError for an unknown axis or setting, and RunError if the folder holds
        something else; nothing is written then.
        """
        read_jobs(Path(file))
        folder = Path(folder)
        path = folder / FILE
        if path.is_file():
            if read_toml(path) != read_toml(Path(file)):
                raise RunError(
                    f"{folder} was made from another file than {file}: compare it with {path}. "
                    f"Nothing was changed; give another --out."
                )
        elif folder.exists() and any(folder.iterdir()):
            raise RunError(
                f"{folder} holds something else; nothing was changed. Give another --out."
            )
        else:
            write_file(path, Path(file).read_bytes())
        (folder / "logs").mkdir(exist_ok=True)
        script = SCRIPT.format(python=shlex.quote(sys.executable))
        write_file(folder / "job.sh", script.encode())
        return cls(folder)

    def job(self, name: str) -> Job:
        """A job by its name; RunError for an unknown one."""
        jobs = {job.name: job for job in self.jobs}
        if name not in jobs:
            raise RunError(f"{self.folder} has no job '{name}'; {nearest(name, jobs)}")
        return jobs[name]

    def command(self, job: Job) -> list[str]:
        """The words of the command that carries out a job."""
        return ["sh", f"{self.folder}/job.sh", job.name]

    def _log(self, job: Job) -> Path:
        return self.folder / "logs" / f"{job.name}.log"

    def _lock(self, job: Job) -> FileLock:
        return FileLock(self._log(job).with_suffix(".lock"))

    def _is_finished(self, folder: str) -> bool:
        step = TRAIN if self.settings.verb == "train" or folder.startswith("parts") else REPORT
        return RunStore(self.folder / folder).is_current(step)

    def state(self, job: Job) -> str:
        """One of STATES."""
        if all(map(self._is_finished, job.parts)):
            return DONE
        log = self._log(job)
        try:
            if log.is_file():
                self._lock(job).acquire(timeout=0).lock.release()
        except Timeout:
            return RUNNING
        return FAILED if log.is_file() else NOT_STARTED

    def states(self) -> dict[str, str]:
        """Job -> its state."""
        return {job.name: self.state(job) for job in self.jobs}

    def last_line(self, job: Job) -> str:
        """The last line that a job has printed; a progress bar's is how far it is."""
        log = self._log(job)
        text = log.read_text(errors="replace") if log.is_file() else ""
        return re.split(r"[\r\n]+", text.strip())[-1]

    def seconds_left(self, states: Mapping[str, str]) -> float | None:
        """Seconds until all jobs are done if each takes as long as those that are; None if none
        is."""
        seconds = []
        for job in self.jobs:
            times = []
            for folder in job.parts if states[job.name] == DONE else ():
                records = RunStore(self.folder / folder).steps.values()
                times += [datetime.fromisoformat(record["finished"]) for record in records]
            if times:
                seconds.append((max(times) - min(times)).total_seconds())
        n_running = list(states.values()).count(RUNNING)
        n_left = len(self.jobs) - len(seconds)
        return sum(seconds) / len(seconds) * n_left / max(1, n_running) if seconds else None

    def carry_out(self, name: str, command: str = "") -> None:
        """Carry out a job from wherever it was stopped; a run that fails keeps no other of the job
        from its end.

        Waits while another process carries it out: one of a node that is thought dead, perhaps.
        """
        from rb_interp.runs.run import Run  # with torch, which a list of states does without

        job = self.job(name)
        errors = []
        with self._lock(job):
            runs = {}
            for folder, config in job.parts.items():
                runs[folder] = Run.start(
                    self.folder / folder, self.settings.definition, config, command
                )
            train_runs(list(runs.values()))
            for folder, run in runs.items():
                try:
                    if not self._is_finished(folder):
                        run.reproduce()
                except Exception as error:
                    print(f"{folder}: {error}", file=sys.stderr)
                    errors.append(error)
        if errors:
            raise errors[0]

    def gather(self) -> list[str]:
        """Put runs together of their parts, measure those that are not measured, and join all
        tables, as one run if no two points share a seed; returns the points of which jobs are
        missing.

        A run of parts is the run that trained all of these seeds, up to rounding. Raises RunError
        if no run is there.
        """
        import pandas as pd

        from rb_interp.runs.joined import join_runs

        missing = []
        runs = []
        tables: dict[str, list[pd.DataFrame]] = {}
        for point in self.points:
            if not all(map(self._is_finished, point.parts)):
                missing.append(point.name)
                continue
            run = self._gathered_run(point)
            runs.append(run)
            labels: dict[str, Any] = {"run": point.name}
            for axis, value in point.axes.items():
                labels[axis] = value if isinstance(value, str | int | float) else json.dumps(value)
            of_run = {name: run.table(name) for name in run.table_keys}
            of_run["verdicts"] = run.verdicts.to_frame()
            for name, table in of_run.items():
                tables.setdefault(name, []).append(table.assign(**labels))
        if not runs:
            raise RunError(f"{self.folder} has no finished run yet; see rb-interp sweep status.")
        folder = self.folder / "gathered"
        joined = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
        for name, table in joined.items():
            write_file(folder / f"{name}.parquet", table.to_parquet)
        seeds = [seed for run in runs for seed in run.config.seeds]
        if len(runs) > 1 and len(set(seeds)) == len(seeds):
            join_runs(folder, runs, joined)
        return missing

    def _gathered_run(self, point: AxesPoint) -> Any:
        from rb_interp.runs.run import Run

        parts = [
            Run.open(self.folder / folder, study=self.settings.definition) for folder in point.parts
        ]
        run = parts[0]
        if len(parts) > 1:
            config = replace(point.config, seeds=point.batches[0])
            run = Run.start(self.folder / "runs" / point.name, self.settings.definition, config)
            if not run.store.is_current(PROBE):
                _join(run, parts)
        if not run.store.is_current(PROBE):
            print(f"measuring {run.folder}", file=sys.stderr)
            run.reproduce()
        return run


def counts_text(states: Mapping[str, str]) -> str:
    """How many jobs are in each state."""
    counts = Counter(states.values())
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def train_runs(runs: Sequence[Any]) -> None:
    """Train runs to the last step, those of their sweeps together that can share a stack."""
    from rb_interp.runs.sweep import train_sweeps

    with ExitStack() as locks:
        for run in runs:
            locks.enter_context(run.writing())
        sweeps = {
            f"{index}/{name}": sweep
            for index, run in enumerate(runs)
            for name, sweep in run.sweeps.items()
        }
        for names in stacks({name: sweep.config for name, sweep in sweeps.items()}):
            train_sweeps([sweeps[name] for name in names])
        for run in runs:
            run.train()


def _join(run: Any, parts: Sequence[Any]) -> None:
    """Let a run have the seeds of others, with the checkpoints that they made."""
    batches = [part.config.seeds for part in parts]
    if run.batches != batches:
        run.add_batches(batches[1:])
    with run.writing():
        for name, sweep in run.sweeps.items():
            provenance: dict[int, Any] = {}
            for part, target in zip(parts, sweep.stores.values(), strict=True):
                source = part.sweep(name)
                provenance |= source.provenance
                for store in source.stores.values():
                    for path in map(store.path, store.names()):
                        write_file(target.folder / path.name, path.read_bytes())
            if provenance:
                sweep.write_provenance(provenance)
