"""Kills and signals at random moments of every study; then the same command again, to its end.

There are about 600 of them in the long campaign: a case has one to three. A case none of whose hits came before the
command had ended counts in a group of its own.

A case takes a tiny run of a study to the beginning of a phase, starts the phase's command, and hits it: by SIGKILL, up
to three times; by one of SIGTERM, SIGHUP and SIGINT; or by two of them in a row. Then the same command runs to its end,
and the folder has to be that of a run that was never hit: the same bits in checkpoints, curves, tables, figures and
verdicts, no file missing and none left over. A signal has to end the process with its own status (143, 129, 130), after
training has saved; a second one at once.

Moments are uniform over the phase's usual time. Some phases are short and matter much, so these are waited for: while
a file is being written, after the last checkpoint of training, and while tables are written.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

from campaigns.harness import Child, Ended, Outcome, command, forked
from campaigns.tiny_runs import RUN, STEPS, STUDIES, Work, add_seeds, at, compared, contents, make_small, making
from campaigns.tiny_runs import settings as settings_of

EVEN, OWN = 360, 10
LONG, SHORT = EVEN + OWN, 5
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
HITS = ("SIGKILL", "one signal", "two signals")
PHASES = {
    "start": "trained",
    "training": "trained",
    "writing a checkpoint": "trained",
    "end of training": "trained",
    "probing": "probed",
    "writing tables": "probed",
    "report": "reported",
    "adding seeds": "seeded",
    "reproduce": "reported",
}
"""Phase -> the stage that its command leads to."""
STAGES = ("", "trained", "probed", "reported", "seeded")
SOON = ("labels", "crossed-seeds")
"""Studies whose whole way takes the least time."""
AT_ONCE = 10.0
"""Seconds that a process may take to end after its second signal."""
SELDOM = 1000.0
"""Seconds between saves, so that only a signal saves."""


@dataclass
class Prepared:
    """Runs that nothing has hit, made when first asked for.

    Attributes:
        place: their folder. seconds: how long each stage took. contents: what each stage's folder holds.
    """

    place: Path
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    contents: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def toml(self, study: str, save_every: float = 0.0) -> Path:
        """A file with a study's settings."""
        path = self.place / f"{study}-{save_every}.toml"
        path.write_text(settings_of(study, save_every))
        return path

    def reference(self, study: str, stage: str) -> Path:
        """The folder around a study's run at a stage; an empty one for the stage ""."""
        folder = self.place / study / (stage or "nothing")
        if not folder.exists():
            before = self.reference(study, STAGES[STAGES.index(stage) - 1]) if stage else None
            shutil.copytree(before, folder) if before else folder.mkdir(parents=True)
            if stage:
                told = self.place / "modules"
                ended = forked(at(folder, work_to(stage, study, self.toml(study)), telling(told)), 300.0)
                assert ended.status == 0, ended.err
                for name in told.read_text().split():
                    with suppress(ImportError):
                        import_module(name)
                self.seconds[study, stage] = ended.seconds
                self.contents[study, stage] = contents(folder / RUN)
        return folder


def prepare(folder: Path) -> Prepared:
    """Make studies small, for this process and those it forks."""
    make_small()
    return Prepared(folder)


def telling(file: Path) -> Work:
    """Write down what has been imported, so that the process that forks can import it once and for all."""
    return lambda: 0 * file.write_text(" ".join(name for name in sys.modules if name != "__main__"))


def work_to(stage: str, study: str, toml: Path) -> Work:
    """The command that leads to a stage from the one before it."""
    works = {"trained": making(study, toml), "probed": command("probe", RUN), "reported": command("report", RUN)}
    return {**works, "seeded": add_seeds}[stage]


def case(number: int, prepared: Prepared, folder: Path) -> Outcome:
    """One phase of one study, hit and continued."""
    rng = np.random.default_rng(number)
    if number >= EVEN:
        return _own_interpreter(rng, prepared, folder)
    study, phase = STUDIES[number % len(STUDIES)], list(PHASES)[number % len(PHASES)]
    study = str(rng.choice(SOON)) if phase == "reproduce" else study
    hits = HITS[(number + number // (len(STUDIES) * len(PHASES))) % len(HITS)]
    stage = PHASES[phase]
    toml = prepared.toml(study, 0.0 if hits == "SIGKILL" else SELDOM)
    prepared.reference(study, stage)
    before = "" if phase == "reproduce" else STAGES[STAGES.index(stage) - 1]
    shutil.copytree(prepared.reference(study, before), folder, dirs_exist_ok=True)
    work = at(folder, making(study, toml, "reproduce") if phase == "reproduce" else work_to(stage, study, toml))
    steps = STAGES[1:4] if phase == "reproduce" else (stage,)
    usual = sum(prepared.seconds[study, each] for each in steps)
    group, landed = f"{phase}: {hits}", False
    for _ in range(rng.integers(1, 4) if hits == "SIGKILL" else 1):
        child, started_at = Child(work), time.monotonic()
        _wait_for(phase, study, folder / RUN, usual, rng)
        numbers = [signal.SIGKILL] if hits == "SIGKILL" else list(rng.choice(SIGNALS, 1 + (hits == "two signals")))
        early = time.monotonic() - started_at < 0.1
        came, landed = not child.ended, landed or not child.ended
        since = time.monotonic()
        found = _hit(child, numbers, rng)
        end, detail = _judge(found, numbers, phase, early, folder / RUN)
        if came and not found.status and time.monotonic() - since > 1.0 + usual / 2:
            end, detail = "lost", f"{numbers}: it went on for {time.monotonic() - since:.1f} s as if it had not come"
        if end:
            return Outcome(group, end, f"{study}: {detail}")
    group = group if landed else "ended before any hit"
    return _continued(group, study, stage, work, prepared, folder, rng)


def _continued(
    group: str, study: str, stage: str, work: Work, prepared: Prepared, folder: Path, rng: np.random.Generator
) -> Outcome:
    """Look at what was left, then carry out the same command to its end."""
    if rng.random() < 0.25:
        read = forked(at(folder, command("info", RUN)))
        if read.failure:
            return Outcome(group, read.failure, f"{study}: info after the hit: {read.err[-300:]}")
    again = forked(work, 120.0)
    if again.status or again.hung:
        return Outcome(group, again.failure or "lost", f"{study}: the same command ends {again.status}: {again.err}")
    end, detail = compared(folder, prepared.contents[study, stage])
    return Outcome(group, end or "equal", f"{study}: {detail}" if end else "")


def _wait_for(phase: str, study: str, run: Path, usual: float, rng: np.random.Generator) -> None:
    """Sleep until the moment of the hit."""
    last = f"step_{STEPS[study][0]:08d}.safetensors"
    if phase == "start":
        time.sleep(rng.uniform(0, 0.25))
    elif phase == "end of training":
        sweeps = len(list(run.rglob(last))) if run.exists() else 0
        _until(lambda: len(list(run.rglob(last))) > sweeps and rng.random() < 0.3, 2 * usual)
        time.sleep(rng.uniform(0, 0.08))
    elif phase == "writing a checkpoint":
        time.sleep(rng.uniform(0, 0.7 * usual))
        _until(lambda: any(run.rglob("checkpoints/.*.tmp")), usual)
    elif phase == "writing tables":
        tables = {path.name for path in run.glob("*.parquet")}
        _until(lambda: {path.name for path in run.glob("*.parquet")} > tables or any(run.glob(".*.tmp")), 2 * usual)
        time.sleep(rng.uniform(0, 0.4))
    else:
        time.sleep(rng.uniform(0, usual))


def _until(seen: Callable[[], bool], limit: float) -> None:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if seen():
                return
        except OSError:  # a folder that is being changed
            continue
        time.sleep(0.001)


def _hit(child: Child, numbers: list[int], rng: np.random.Generator) -> Ended:
    child.signal(int(numbers[0]))
    if len(numbers) > 1:
        time.sleep(rng.choice([0.0, rng.uniform(0, 0.01), rng.uniform(0, 0.1)]))
        child.signal(int(numbers[1]))
    second = time.monotonic()
    found = child.wait(60.0)
    others = len(set(numbers)) > 1  # two of a kind may arrive as one
    late = others and time.monotonic() - second > AT_ONCE and found.status >= 128
    return Ended(found.status, found.out, found.err, found.hung or late, found.seconds)


def _judge(found: Ended, numbers: list[int], phase: str, early: bool, run: Path) -> tuple[str, str]:
    """What is wrong with how a process ended after a hit: an end and a sentence, or nothing."""
    said = f"{[signal.Signals(number).name for number in numbers]} ends {found.status}: {found.err[-400:]!r}"
    if found.hung:
        return "hang", said
    if "Traceback" in found.err or "terminate called" in found.err:
        return "traceback", said
    plain = early or bool(found.out) or phase == "adding seeds" or numbers[0] == signal.SIGKILL
    promised = {0, *(128 + number for number in numbers), *(-number for number in numbers if plain)}
    if found.status not in promised:
        return "traceback", said
    if len(numbers) == 1 and found.status == 128 + numbers[0]:
        for first in run.rglob("step_00000000.safetensors"):
            if not (first.parent / "state.safetensors").exists():
                return "lost", f"nothing was saved in {first.parent.name}; {said}"
    return "", ""


def _own_interpreter(rng: np.random.Generator, prepared: Prepared, folder: Path) -> Outcome:
    """``train`` as a command of its own, with all that an interpreter does at its end, hit by two signals."""
    study, group = str(rng.choice(["anchor", "labels", "crossed-seeds"])), "own interpreter: two signals"
    prepared.reference(study, "trained")
    words = ["train", study, "--config", str(prepared.toml(study, SELDOM)), "--out", RUN]
    child = Child(at(folder, started(*words)))
    _until(lambda: any(folder.rglob("step_00000000.safetensors")), 60.0)
    time.sleep(rng.uniform(0, 0.5))
    numbers = list(rng.choice(SIGNALS, 2))
    found = _hit(child, numbers, rng)
    end, detail = _judge(found, numbers, "training", False, folder / RUN)
    if end:
        return Outcome(group, end, f"{study}: {detail}")
    return _continued(group, study, "trained", at(folder, started(*words)), prepared, folder, rng)


def started(*words: str) -> Work:
    """The command line as ``python -m rb_interp`` starts it, in place of the process."""
    import rb_interp

    path = os.pathsep.join([str(Path(rb_interp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])

    def work() -> int:
        os.execve(sys.executable, [sys.executable, "-m", "rb_interp", *words], {**os.environ, "PYTHONPATH": path})

    return work
