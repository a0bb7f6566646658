"""What a job of a sweep costs beside its training, what members cost in one stack, and what reading
a member costs beside training it: anchor study, preset quick, one core.

    python benchmarks/sweeps.py [--parts job members reading] [--steps 200] [--members 24 80 240]
                                [--rounds 3] [--run RUN]

CPU seconds, which a busy machine disturbs least. Nothing is trained to its end: a whole training is
the preset's steps times a step's time. Reading is measured on RUN, a trained run of the study, in
which nothing is changed. Without one it is a run of --steps steps, whose members answer little, so
some interventions have fewer rows than after a whole training.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import torch

import rb_interp as rb
from rb_interp._threads import single_threaded
from rb_interp.training.loop import bring_to, torch_settings
from rb_interp.training.member_group import Member
from rb_interp.training.members import share_out

STUDY = rb.study("anchor")
QUICK = STUDY.preset("quick")
FILE = 'study = "anchor"\npreset = "quick"\nverb = "train"\ntrain.steps = {}\n'


def step_seconds(members: int, rounds: int, steps: int) -> float:
    """CPU seconds of a step of all members in one stack, without evaluation: median of rounds."""
    chosen = [Member(gamma, seed) for seed, gamma in product(range(members), QUICK.gammas)]
    device = torch.device("cpu")
    shares = share_out(chosen[:members], QUICK.model, QUICK.task, QUICK.train, device, 1, {})
    times = []
    with torch_settings(QUICK.train), ThreadPoolExecutor(1) as pool:
        bring_to(pool, shares, 2)
        for _ in range(rounds):
            started = time.process_time()
            bring_to(pool, shares, shares[0][0].step + steps)
            times.append((time.process_time() - started) / steps)
    return statistics.median(times)


def job_seconds(folder: Path, steps: int) -> float:
    """CPU seconds of the command of a job with its training; nothing of it if it is done."""
    file = folder / f"{steps}.toml"
    file.write_text(FILE.format(steps))
    command = [sys.executable, "-m", "rb_interp", "sweep", str(file), "--out", f"{folder}/{steps}"]
    listed = subprocess.check_output([*command, "--print-commands"], text=True).splitlines()
    before = getrusage(RUSAGE_CHILDREN)
    for line in listed:
        subprocess.run(["sh", "-c", line], check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def job(options: argparse.Namespace) -> None:
    """All that a job does but its steps: a line through two short jobs, at no steps."""
    with tempfile.TemporaryDirectory() as folder:
        short, long = (job_seconds(Path(folder), n * options.steps) for n in (1, 3))
    step = (long - short) / (2 * options.steps)
    rest = short - options.steps * step
    whole = QUICK.train.steps * step
    print(
        f"a job beside its {QUICK.train.steps:,} steps (start, data, lock, tables): {rest:.1f} s of "
        f"{whole:.0f} s, {rest / whole:.1%}"
    )


def members(options: argparse.Namespace) -> None:
    """The time of a step by the number of members."""
    for n in options.members:
        steps = max(2, 4 * options.steps // n)
        seconds = step_seconds(n, options.rounds, steps)
        print(f"{n} members: {1e3 * seconds:.0f} ms a step, {1e3 * seconds / n:.2f} ms a member")


def reading(options: argparse.Namespace) -> None:
    """Probes and interventions on a member over its training among 24 members."""
    step = step_seconds(24, options.rounds, max(2, options.steps // 6)) / 24
    with tempfile.TemporaryDirectory() as folder:
        if options.run:
            run = rb.Run.open(options.run)
        else:
            train = replace(QUICK.train, steps=options.steps)
            run = rb.Run.start(Path(folder) / "run", STUDY, replace(QUICK, train=train))
            run.train(progress=False)
        started = time.process_time()
        single_threaded(STUDY.load("measure"))(run, False)
        n = len(run.sweep().sound_members)
        seconds = (time.process_time() - started) / n
    whole = QUICK.train.steps * step
    print(
        f"reading a member ({n} of {run.config.train.steps:,} steps): {seconds:.1f} s; training it "
        f"for {QUICK.train.steps:,}: {whole:.0f} s; {seconds / whole:.2f}"
    )


PARTS = {"job": job, "members": members, "reading": reading}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--members", type=int, nargs="*", default=[24, 80, 240])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", type=Path, default=None)
    options = parser.parse_args()
    print(f"torch {torch.__version__}; CPU seconds of one core", flush=True)
    for name in options.parts:
        PARTS[name](options)


if __name__ == "__main__":
    main()
