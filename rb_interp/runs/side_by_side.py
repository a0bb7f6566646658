"""Independent jobs side by side: a thread a core, each with models of its own, results in the order of the jobs.

Threads and not processes: torch lets the others run while it computes, and a new process would first import it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

import torch
from tqdm import tqdm

Models = TypeVar("Models")
Job = TypeVar("Job")
Found = TypeVar("Found")
MOST = 4
"""Threads, at most: Python's own part of a small model's pass is done by one at a time."""
_stopping: ContextVar[Event | None] = ContextVar("stopping", default=None)


class StoppedError(Exception):
    """Ends the other jobs once one has failed, or after Ctrl-C; nobody outside this module sees it."""


def check_stop() -> None:
    """Raise StoppedError in a job whose results nobody waits for any more; long jobs call it now and then."""
    stopping = _stopping.get()
    if stopping is not None and stopping.is_set():
        raise StoppedError


def side_by_side(
    make: Callable[[], Models],
    jobs: Sequence[Job],
    work: Callable[[Models, Job], Found],
    *,
    workers: int = 0,
    progress: bool = True,
    unit: str = "member",
    desc: str = "",
) -> list[Found]:
    """``work(models, job)`` of every job, in their order.

    Args:
        make: models for one worker, which take the weights of one job after another; called once a worker.
        workers: threads; 0 takes one a core, up to MOST. With 1, everything runs in the calling thread.
        progress, unit, desc: of the progress bar.

    What a job raises reaches the caller as it is, of several failures that of the first job. The others end at their
    next `check_stop`, as they do after Ctrl-C.

    >>> side_by_side(list, [3, 1, 2], lambda models, job: job * job, workers=2, progress=False)
    [9, 1, 4]
    """
    n = min(workers or min(os.cpu_count() or 1, MOST), len(jobs))
    idle: SimpleQueue[Models] = SimpleQueue()
    for _ in range(n):
        idle.put(make())

    def one(job: Job) -> Found:
        check_stop()
        models = idle.get()
        try:
            return work(models, job)
        finally:
            idle.put(models)

    bar = {"disable": not progress, "unit": unit, "desc": desc}
    if n < 2:
        return [one(job) for job in tqdm(jobs, **bar)]
    stopping = Event()
    before = _stopping.set(stopping)
    try:
        with ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)) as pool:
            futures = [pool.submit(copy_context().run, one, job) for job in jobs]
            try:
                return [future.result() for future in tqdm(futures, **bar)]
            except BaseException:
                stopping.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        _stopping.reset(before)
