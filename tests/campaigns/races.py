"""Processes that start on one run folder at nearly the same time.

One of them writes; the others get one sentence that says who writes and since when, or find the work done. In the end
the folder has to be that of a run that one process made: the same bits, and settings that belong to the checkpoints.
Readers are never refused because of a writer.
"""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from campaigns.harness import Child, Ended, Outcome, command, forked
from campaigns.kills import Prepared
from campaigns.tiny_runs import RUN, Work, add_seeds, at, compared, contents, make_small, making, settings

LONG, SHORT = 200, 9
STUDIES = ("anchor", "labels")
KEPT = "kept"
WHO = re.compile(
    r"rb-interp: (?:run|\.kept)\S* is being written by (process \d+ on \S+, since \d{4}-\d\d-\d\d |another process)"
)
OTHERWISE = (
    WHO,
    re.compile(r"rb-interp: run holds a run with another configuration \(seeds: "),
    re.compile(r"rb-interp: kept holds a run already; nothing was changed"),
    re.compile(r"rb-interp: run has been changed since it was opened; open it again"),
)
"""What a second writer may be told."""
NOT_YET = re.compile(
    r"rb-interp: .*(is not a run folder: it has no run\.json|stands at step|is missing or damaged|is not there yet"
    r"|does not exist; this run holds)"
)
"""What a reader may be told before everything is there."""
TRAINS = re.compile(r"training \d+ members: ")
"""What a process says that trains; what it says of an estimate is told by one that finds all done, too."""
Race = Callable[[np.random.Generator, str, Prepared, Path], tuple[str, str]]


def prepare(folder: Path) -> Prepared:
    """Make studies small, for this process and those it forks."""
    make_small()
    return Prepared(folder)


def case(number: int, prepared: Prepared, folder: Path) -> Outcome:
    """One race."""
    rng = np.random.default_rng(number)
    group = list(RACES)[number % len(RACES)]
    study = STUDIES[(number // len(RACES)) % len(STUDIES)]
    end, detail = RACES[group](rng, study, prepared, folder)
    return Outcome(group, end or "equal", f"{study}: {detail}" if end else "")


def train_alike(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path, n: int = 2) -> tuple[str, str]:
    """``train`` with the same settings."""
    return raced(rng, prepared, folder, study, "trained", [making(study, prepared.toml(study))] * n)


def train_three(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """The same, three at a time."""
    return train_alike(rng, study, prepared, folder, n=3)


def train_differently(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``train`` with other seeds: the folder has to be wholly one of the two."""
    tomls = [prepared.toml(study), prepared.place / f"{study}-other.toml"]
    tomls[1].write_text(re.sub(r"(?m)^seeds=.*$", "seeds=[5]", settings(study)))
    prepared.reference(study, "trained")
    other = prepared.place / study / "other"
    if not other.exists():
        other.mkdir()
        assert forked(at(other, making(study, tomls[1]))).status == 0
    ended = together(rng, [at(folder, making(study, toml)) for toml in tomls], 0.3)
    found = wrong(ended, [0, 2])
    if found[0]:
        return found
    won = [toml for toml, each in zip(tomls, ended, strict=True) if each.status == 0]
    if len(won) != 1:
        return "silent", f"{len(won)} of two different trainings say that they are done"
    wanted = prepared.contents[study, "trained"] if won == tomls[:1] else contents(other / RUN)
    return compared(folder, wanted)


def probe_and_train(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``probe`` twice and ``train``, on a trained run."""
    works = [command("probe", RUN), making(study, prepared.toml(study)), command("probe", RUN)]
    return raced(rng, prepared, folder, study, "probed", works, until=command("probe", RUN))


def report_and_probe(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``report`` and ``probe``, on a probed run."""
    works = [command("report", RUN), command("probe", RUN)]
    return raced(rng, prepared, folder, study, "reported", works, until=command("report", RUN))


def added_seeds(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """Adding seeds and ``train``, on a reported run."""
    works = [_sentence_of(add_seeds), making(study, prepared.toml(study)), _sentence_of(add_seeds)]
    return raced(rng, prepared, folder, study, "seeded", works, until=add_seeds)


def writer_killed(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """A writer that is killed while another one tries again and again."""
    prepared.reference(study, "trained")
    work, usual = at(folder, making(study, prepared.toml(study))), prepared.seconds[study, "trained"]
    first = Child(work)
    time.sleep(rng.uniform(0.05, 0.5 * usual))
    until, killed, said = time.monotonic() + rng.uniform(0, 0.5 * usual), False, ""
    for _ in range(100):
        second = forked(work)
        if not killed and time.monotonic() > until:
            first.signal(signal.SIGKILL)
            killed = True
        if second.status == 0:
            break
        found = wrong([second], [2])
        if found[0]:
            first.signal(signal.SIGKILL)
            first.wait()
            return found
        said = second.err
    ended = first.wait()
    if not killed and ended.status:
        return wrong([ended], [0])
    return compared(folder, prepared.contents[study, "trained"]) if second.status == 0 else ("lost", said)


def readers(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``info`` and Python beside ``train``: told what is there, or that it is not there yet."""
    return beside(rng, study, prepared, folder, "trained", [command("info", RUN), _read("curves"), _read("metadata")])


def report_elsewhere(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``report --out`` and the readings beside ``probe`` on a run that was probed before."""
    works = [command("report", RUN, "--out", "elsewhere"), _read("readings"), command("info", RUN)]
    return beside(rng, study, prepared, folder, "probed", works, start="probed")


def kept_beside(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``keep`` beside ``probe``, on a run that was probed before: the whole of the old tables, or of the new ones."""
    return beside(rng, study, prepared, folder, "probed", [_keep_and_read], start="probed")


def kept_twice(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``keep`` into one folder, three at a time: one keeps, and the others are told so."""
    shutil.copytree(prepared.reference(study, "probed"), folder, dirs_exist_ok=True)
    ended = together(rng, [at(folder, command("keep", RUN, KEPT))] * 3, rng.choice([0.02, 0.3]))
    found = wrong(ended, [0, 2])
    if found[0]:
        return found
    if sum(each.status == 0 for each in ended) != 1:
        return "silent", f"{sum(each.status == 0 for each in ended)} of three have kept a result"
    told = forked(at(folder, _sentence_of(lambda: _sound(KEPT))))
    left = [path.name for path in folder.iterdir() if path.name not in (RUN, KEPT)]
    return ("silent", f"{told.status} {told.err} {left}") if told.status or left else ("", "")


def reports_elsewhere(rng: np.random.Generator, study: str, prepared: Prepared, folder: Path) -> tuple[str, str]:
    """``report --out`` twice into one folder: both draw the same pages."""
    shutil.copytree(prepared.reference(study, "probed"), folder, dirs_exist_ok=True)
    works = [at(folder, command("report", RUN, "--out", name)) for name in ("elsewhere", "elsewhere", "alone")]
    ended = [*together(rng, works[:2], rng.choice([0.02, 0.3])), forked(works[2])]
    found = wrong(ended, [0])
    if found[0]:
        return found
    both, alone = contents(folder / "elsewhere"), contents(folder / "alone")
    wrongly = sorted(name for name in both.keys() | alone.keys() if both.get(name) != alone.get(name))
    return ("silent", f"differs: {wrongly[:4]}") if wrongly else ("", "")


RACES: dict[str, Race] = {
    "train twice": train_alike,
    "train with other settings": train_differently,
    "train beside readers": readers,
    "a killed writer and the next": writer_killed,
    "train three times": train_three,
    "adding seeds beside train": added_seeds,
    "probe, train, probe": probe_and_train,
    "report beside probe": report_and_probe,
    "report elsewhere beside probe": report_elsewhere,
    "keep beside probe": kept_beside,
    "keep three times": kept_twice,
    "report elsewhere twice": reports_elsewhere,
}


def raced(
    rng: np.random.Generator, prepared: Prepared, folder: Path, study: str, stage: str, works: list[Work],
    until: Work | None = None,
) -> tuple[str, str]:  # fmt: skip
    """Start works at nearly the same time on the run that leads to a stage, and compare with that stage.

    ``until`` is carried out afterwards, where the order of the works decides what is there.
    """
    prepared.reference(study, stage)
    before = {"trained": "", "probed": "trained", "reported": "probed", "seeded": "reported"}[stage]
    shutil.copytree(prepared.reference(study, before), folder, dirs_exist_ok=True)
    ended = together(rng, [at(folder, work) for work in works], rng.choice([0.02, 0.3, prepared.seconds[study, stage]]))
    found = wrong(ended, [0, 2])
    if found[0]:
        return found
    if stage == "trained" and sum(each.status == 0 and bool(TRAINS.search(each.err)) for each in ended) > 1:
        return "silent", "two have trained the same members, and both say that they are done"
    if all(each.status for each in ended):
        return "lost", f"none was let in: {[each.err for each in ended]}"
    if until is not None and (last := forked(at(folder, until))).status:
        return last.failure or "lost", f"afterwards: {last.err}"
    return compared(folder, prepared.contents[study, stage])


def beside(
    rng: np.random.Generator, study: str, prepared: Prepared, folder: Path, stage: str, works: list[Work],
    start: str = "",
) -> tuple[str, str]:  # fmt: skip
    """Read again and again while a writer brings a run to a stage."""
    prepared.reference(study, stage)
    shutil.copytree(prepared.reference(study, start), folder, dirs_exist_ok=True)
    writes = making(study, prepared.toml(study)) if stage == "trained" else command("probe", RUN)
    writer, finished = Child(at(folder, writes)), False
    for _ in range(4):
        time.sleep(rng.uniform(0, prepared.seconds[study, stage] / 4))
        reader = forked(at(folder, works[rng.integers(len(works))]))
        told = not start and NOT_YET.search(reader.err)  # with a start, everything was there before
        bad = reader.failure or ("" if reader.status == 0 or told else "lost")
        if bad:
            writer.wait()
            return bad, f"a reader: {reader.status} {reader.err}"
    ended = writer.wait()
    finished = ended.status == 0
    return compared(folder, prepared.contents[study, stage]) if finished else wrong([ended], [0])


def together(rng: np.random.Generator, works: list[Work], within: float) -> list[Ended]:
    """Start works in processes of their own, each up to ``within`` seconds after the one before."""
    children = []
    for work in works:
        children.append(Child(work))
        time.sleep(rng.uniform(0, within / len(works)))
    return [child.wait() for child in children]


def wrong(ended: list[Ended], promised: list[int]) -> tuple[str, str]:
    """What is wrong with how processes ended: an end and a sentence, or nothing."""
    for each in ended:
        if each.failure:
            return each.failure, each.err[-600:]
        if each.status not in promised:
            return "lost", f"ends {each.status}: {each.err[-300:]}"
        if each.status and not (each.sentence and any(told.search(each.err) for told in OTHERWISE)):
            return "lost", f"told something else: {each.err[-300:]}"
    return "", ""


def _sentence_of(work: Work) -> Work:
    """A work from Python that refuses as the command line does."""

    def told() -> int:
        import sys

        from rb_interp.errors import RbInterpError

        try:
            return work()
        except RbInterpError as error:
            print(f"rb-interp: {error}", file=sys.stderr)
            return 2

    return told


def _read(name: str) -> Work:
    """Read something of the run from Python."""

    def read() -> int:
        from rb_interp.runs.run import Run

        return int(len(getattr(Run.open(RUN), name)) == 0)

    return _sentence_of(read)


def _keep_and_read() -> int:
    """Keep a result of the run in a new folder and read all of it."""
    place = f"kept{len(list(Path().glob('kept*')))}"
    return command("keep", RUN, place)() or _sentence_of(lambda: _sound(place))()


def _sound(kept: str) -> int:
    """1 where a kept result is damaged, incomplete or cannot be drawn."""
    from rb_interp.runs.run import Run

    run = Run.open(kept)
    return int(bool(run.verify()) or not run.kept or run.readings.empty or not run.outcomes)
