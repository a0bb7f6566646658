"""CPU and wall seconds of probing a run by its parts, in one thread and in one a core; and of its
report.

    python benchmarks/probing.py RUN [--parts readings interventions dynamics battery report]

RUN is a folder of the anchor study that was trained and probed; nothing in it is changed. CPU time
says what the work costs, on a busy machine too; wall time says what threads bring on a quiet one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import rb_interp as rb
from rb_interp._threads import single_threaded
from rb_interp.report.page import write_report
from rb_interp.runs import measurement
from rb_interp.studies.anchor.causes import measure_causes
from rb_interp.studies.anchor.circuits import measure_equivalence
from rb_interp.studies.anchor.dynamics import dynamics
from rb_interp.studies.anchor.measure import read_members


def timed(name: str, work: Callable[[], Any]) -> None:
    """Carry out a part, and print its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    print(
        f"  {name}: {time.process_time() - cpu:.1f} s of CPU, {time.perf_counter() - wall:.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--parts", nargs="*", default=())
    options = parser.parse_args()
    run = rb.Run.open(options.run)
    circuits, evidence = run.table("circuits"), run.evidence
    print(f"torch {torch.__version__}; {len(run.sweep().sound_members)} members")
    parts = {
        "readings": lambda: read_members(run, progress=False),
        "interventions": lambda: measure_causes(run, circuits, progress=False),
        "dynamics": lambda: dynamics(run, progress=False),
        "battery": lambda: measure_equivalence(run, circuits, progress=False),
        "report": lambda: write_report(run.study, evidence, tempfile.mkdtemp()),
    }
    for threads in dict.fromkeys((1, os.cpu_count() or 1)):
        print(f"{threads} threads")
        measurement.MAX_THREADS = threads
        for name, work in parts.items():
            if name in (options.parts or parts):
                timed(name, single_threaded(work))


if __name__ == "__main__":
    main()
