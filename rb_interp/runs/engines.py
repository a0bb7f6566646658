"""Engines that carry out jobs: processes of this machine, Slurm, Ray. Each runs the same command
of a job, so any other engine does too."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from shutil import which

from tqdm import tqdm

from rb_interp.errors import RunError, first_line
from rb_interp.runs.jobs import JobFolder
from rb_interp.runs.points import Job

SCRIPT = """#!/bin/sh
# Before the time limit Slurm sends USR1: the job saves, and waits in the queue again.
trap 'kill -TERM $pid; wait $pid; scontrol requeue ${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID' USR1
set -- {names}
shift $SLURM_ARRAY_TASK_ID
sh {job} "$1" & pid=$!
wait $pid
"""
SECONDS_TO_SAVE = 60
SECONDS_TO_ANSWER = 5


def run_local(folder: JobFolder, jobs: Sequence[Job], at_once: int) -> None:
    """Carry out jobs in processes of this machine, one a core if ``at_once`` is 0.

    Ctrl-C lets each save, and ends them.
    """
    processes: list[subprocess.Popen] = []

    def call(command: list[str]) -> int:
        # in a session of its own, so that Ctrl-C reaches it once, from here
        process = subprocess.Popen(command, start_new_session=True)
        processes.append(process)
        return process.wait()

    def stop() -> None:
        for process in processes:
            process.terminate()

    _call_jobs(call, stop, folder, jobs, at_once or os.cpu_count() or 1)


def run_on_ray(folder: JobFolder, jobs: Sequence[Job], at_once: int, address: str) -> None:
    """Carry out jobs as tasks of a Ray cluster, one a core, or of a local one.

    Tasks of a node that dies are tried again on another. Raises RunError if Ray is not installed or
    nothing answers at the address.
    """
    if not find_spec("ray"):
        raise RunError(
            "the engine 'ray' needs the package ray, which is not installed: pip install ray."
        )
    import ray  # pyright: ignore[reportMissingImports] (an extra)

    try:
        if address != "local":  # Ray itself tries for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError) as error:
        raise RunError(
            f"no Ray cluster answers at '{address}' ({first_line(error)}); start one with 'ray "
            f"start --head', give its RAY_AUTH_TOKEN, or leave out --address."
        ) from None
    task = ray.remote(max_retries=-1)(subprocess.call)

    def call(command: list[str]) -> int:
        return ray.get(task.remote(command))

    n_cores = int(ray.cluster_resources().get("CPU", 1))
    _call_jobs(call, ray.shutdown, folder, jobs, at_once or n_cores)


def _call_jobs(
    call: Callable[[list[str]], int],
    stop: Callable[[], None],
    folder: JobFolder,
    jobs: Sequence[Job],
    at_once: int,
) -> None:
    """Call the command of each job, some at once, with a bar over jobs; after Ctrl-C no other
    begins, and ``stop`` ends those that run."""
    failed = 0
    with ThreadPoolExecutor(at_once) as pool, tqdm(total=len(jobs), unit="job") as bar:
        futures = [pool.submit(call, folder.command(job)) for job in jobs]
        try:
            for future in as_completed(futures):
                failed += future.result() != 0
                bar.set_postfix_str(f"{failed} failed")
                bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


def submit_to_slurm(folder: JobFolder, jobs: Sequence[Job], at_once: int) -> str:
    """Submit jobs as one array, less those that are in the queue already; returns what sbatch says.

    Partition, time limit and the like are taken from the variables that sbatch reads, such as
    SBATCH_PARTITION and SBATCH_TIMELIMIT. Raises RunError if Slurm is not installed or does not
    answer.
    """
    name = f"rb-interp {folder.folder}"
    queue = _slurm("squeue", "--noheader", "--array", "--format=%K", f"--name={name}").split()
    numbers = []
    for number, job in enumerate(folder.jobs):  # the same in every call
        if job in jobs and str(number) not in queue:
            numbers.append(str(number))
    if not numbers:
        return f"all {len(jobs)} jobs are in the queue already"
    names = shlex.join(job.name for job in folder.jobs)
    return _slurm(
        "sbatch",
        f"--array={','.join(numbers)}{f'%{at_once}' if at_once else ''}",
        f"--job-name={name}",
        "--requeue",
        f"--signal=B:USR1@{SECONDS_TO_SAVE}",
        "--open-mode=append",
        f"--output={folder.folder}/logs/slurm.log",
        script=SCRIPT.format(job=shlex.quote(f"{folder.folder}/job.sh"), names=names),
    )


def _slurm(*command: str, script: str = "") -> str:
    """What a command of Slurm prints."""
    if not which(command[0]):
        raise RunError(
            f"the engine 'slurm' needs the command {command[0]}, which is not installed here; run it "
            f"where jobs are submitted, or give another --engine."
        )
    result = subprocess.run(command, input=script, capture_output=True, text=True)
    if result.returncode:
        raise RunError(f"{command[0]} failed: {first_line(RuntimeError(result.stderr))}.")
    return result.stdout.strip()
