"""Surroundings that fail: no room, no rights, no home, no network, odd names, closed streams.

A case carries out one command on a tiny run (``train``, ``probe`` or ``report``) in such surroundings. It does its
work, or refuses in one sentence, and nothing that was there may be gone. Then the surroundings are as usual again, and
the same command has to end with the results of a run that was never hindered.

A full disk and a file system that cannot be written are small mounted ones where the user may mount, as root may. Other
users get a limit on the size of files, and a folder without the right to write.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from campaigns.harness import Ended, Outcome, command, forked
from campaigns.kills import STAGES, Prepared, started
from campaigns.tiny_runs import RUN, Work, contents, difference, make_small

NOBODY = 65534
LEADS_TO = {"train": "trained", "probe": "probed", "report": "reported"}
Step = Callable[[], object]


@dataclass
class Case:
    """One command and its surroundings; a hindrance changes these fields.

    Attributes:
        folder: where it is started. rng: draws what is random.
        run: the run folder, as the command is given it.
        placed: what is done once the run is there. inside: what is done in the process, before the command. over: what
            ends the hindrance. last: what is done when all is compared. These are lists of functions.
        variables: of the environment; None takes one away.
        own: whether the command is started as a process of its own, with an interpreter that finds all this.
        works: whether it must work all the same. refused: whether it must refuse, now and later.
        mute: whether nobody can read what it says.
    """

    folder: Path
    rng: np.random.Generator
    run: str = RUN
    placed: list[Step] = field(default_factory=list)
    inside: list[Step] = field(default_factory=list)
    over: list[Step] = field(default_factory=list)
    last: list[Step] = field(default_factory=list)
    variables: dict[str, str | None] = field(default_factory=dict)
    own: bool = False
    works: bool = False
    refused: bool = False
    mute: bool = False


def prepare(folder: Path) -> Prepared:
    """Make studies small, for this process and those it forks."""
    make_small()
    return Prepared(folder)


def case(number: int, prepared: Prepared, folder: Path) -> Outcome:
    """One command in one kind of surroundings."""
    name = list(HINDRANCES)[number % len(HINDRANCES)]
    hindrance, word = HINDRANCES[name], list(LEADS_TO)[number // len(HINDRANCES) % len(LEADS_TO)]
    here, study = Case(folder, np.random.default_rng(number)), "language" if name == "offline" else "crossed-seeds"
    hindrance(here)
    word = "report" if here.own and word == "probe" else "train" if here.refused else word
    stage = LEADS_TO[word]
    prepared.reference(study, stage)
    words = ["train", study, "--config", str(prepared.toml(study)), "--out", here.run]
    words = words if word == "train" else [word, here.run]
    begun = prepared.reference(study, STAGES[STAGES.index(stage) - 1]) / RUN
    try:
        end, detail = _tried(here, words, begun, prepared.contents[study, stage])
    finally:
        for step in (*here.over, *here.last):
            step()
    return Outcome(name, end or "equal", f"{word}: {detail}" if detail else "")


def _tried(here: Case, words: list[str], begun: Path, wanted: dict[str, str]) -> tuple[str, str]:
    run = here.folder / here.run
    if begun.exists():
        shutil.copytree(begun, run, dirs_exist_ok=True)
    had = contents(run) if begun.exists() else {}
    for step in here.placed:
        step()
    ended = forked(_work(here, words), 300.0 if here.own else 120.0)  # an interpreter of its own imports everything
    said = f"{ended.status} {ended.out[-200:]!r} {ended.err[-600:]!r}"
    end = _judged(here, ended)
    while here.over:
        here.over.pop(0)()
    if end or (here.refused and ended.status == 2):
        return end or "sentence", said if end else ""
    if gone := sorted(had.keys() - contents(run).keys()):
        return "lost", f"gone: {gone[:4]}; {said}"
    again = forked(_plain(here, words), 120.0)
    if again.status:
        return again.failure or "lost", f"the same command then ends {again.status}: {again.err[-600:]!r}; {said}"
    end, detail = difference(run, wanted)
    return end or ("sentence" if ended.status else ""), f"{detail}; {said}" if end else ""


def _plain(here: Case, words: list[str]) -> Work:
    def work() -> int:
        os.chdir(here.folder)
        return command(*words)()

    return work


def _work(here: Case, words: list[str]) -> Work:
    def work() -> int:
        os.chdir(here.folder)
        for name, value in here.variables.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        doing = started(*words) if here.own else command(*words)
        for step in here.inside:
            step()
        return doing()

    return work


def _judged(here: Case, ended: Ended) -> str:
    """What is wrong with how the hindered command ended: an end, or nothing."""
    if here.mute and not here.works and ended.status == 1 and "Traceback" not in ended.err:
        return ""
    if ended.failure:
        return ended.failure
    if ended.status and not here.mute and not ended.sentence:
        return "traceback"
    if here.works and ended.status:
        return "lost"
    return "silent" if here.refused and not ended.status else ""


def _limit(kind: int, most: int) -> Step:
    return lambda: resource.setrlimit(kind, (most, most))


def _mounted(here: Case, size: str) -> Path | None:
    """A small file system with the run in it; None where this user may not mount."""
    place = here.folder / "mounted"
    place.mkdir()
    asked = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        if subprocess.run(asked, capture_output=True, check=False).returncode:
            return None
    except OSError:
        return None
    here.run = f"mounted/{RUN}"
    return place


def full_disk(here: Case) -> None:
    """A file system with 0 to 300 kB left."""
    place, left = _mounted(here, "8m"), int(here.rng.choice([0, here.rng.integers(300_000)]))
    if place is None:
        here.inside.append(_limit(resource.RLIMIT_FSIZE, 2000 + left // 4))
        return

    def fill() -> None:
        room = os.statvfs(place)
        (place / "ballast").write_bytes(bytes(max(0, room.f_bavail * room.f_bsize - left)))

    here.placed.append(fill)
    here.over.append((place / "ballast").unlink)
    _copied_back(here, place)


def _copied_back(here: Case, place: Path) -> None:
    """Afterwards the run goes on in the folder, where there is room, and the small file system goes."""

    def back() -> None:
        if (place / RUN).exists():
            shutil.copytree(place / RUN, here.folder / "copy")
        subprocess.run(["umount", str(place)], check=True)
        if (here.folder / "copy").exists():
            (here.folder / "copy").rename(place / RUN)

    here.over.append(back)


def large_files_refused(here: Case) -> None:
    """A limit on the size of a file."""
    here.inside.append(_limit(resource.RLIMIT_FSIZE, int(here.rng.integers(2000, 60_000))))


def read_only_folder(here: Case) -> None:
    """A folder without the right to write; root becomes nobody."""
    here.folder.chmod(0o755)

    def change(rights: int) -> Step:
        def each() -> None:
            for path in (here.folder, *here.folder.rglob("*")):
                if path.is_dir():
                    path.chmod(rights)

        return each

    here.placed.append(change(0o555))
    here.over.append(change(0o755))
    if os.geteuid() == 0:
        here.inside.append(lambda: os.setuid(NOBODY))


def read_only_disk(here: Case) -> None:
    """A file system that is mounted for reading alone."""
    place = _mounted(here, "8m")
    if place is None:
        read_only_folder(here)
        return
    here.placed.append(lambda: subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True))
    _copied_back(here, place)


def few_descriptors(here: Case) -> None:
    """A limit on open files."""
    here.inside.append(_limit(resource.RLIMIT_NOFILE, int(here.rng.integers(8, 40))))


def closed_pipe(here: Case, *streams: int) -> None:
    """What is said goes to a pipe that nobody reads any more; standard output alone, or the streams given."""

    def closed() -> None:
        reading, writing = os.pipe()
        os.close(reading)
        for stream in streams or (1,):
            os.dup2(writing, stream)

    here.inside.append(closed)
    here.mute = True


def no_streams(here: Case) -> None:
    """Started without standard input, output and errors."""
    here.inside.append(lambda: os.closerange(0, 3))
    here.own = here.mute = here.works = True


def no_input(here: Case) -> None:
    """Started without standard input."""
    here.inside.append(lambda: os.close(0))
    here.own = here.works = True


def no_home(here: Case) -> None:
    """No HOME, or one that is not there and cannot be made."""
    here.variables = {"HOME": here.rng.choice([None, "/proc/nothing"]), "MPLCONFIGDIR": None, "XDG_CACHE_HOME": None}
    here.own = here.works = True


def no_temporary_folder(here: Case) -> None:
    """TMPDIR names a folder that is not there."""
    here.variables = {"TMPDIR": str(here.folder / "nowhere"), "MPLCONFIGDIR": None}
    here.own = here.works = True


def other_file_system(here: Case) -> None:
    """The run lies on another file system than temporary files."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else here.folder))
    here.run = str(place / RUN)
    here.last.append(lambda: shutil.rmtree(place))
    here.works = True


def plain_text(here: Case) -> None:
    """A locale that knows ASCII alone."""
    here.variables = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    here.own = True
    here.run = str(here.rng.choice([RUN, "γ = 0.8"]))
    here.works = here.run == RUN


def no_current_folder(here: Case) -> None:
    """The current folder has been removed; the run is named in full, or relative to it."""
    gone = here.folder / "gone"

    def remove() -> None:
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    here.inside.append(remove)
    if here.rng.random() < 0.5:
        here.run, here.works = str(here.folder / RUN), True


def offline(here: Case) -> None:
    """No connection can be made."""

    def refuse(*_: object) -> None:
        raise OSError(101, "Network is unreachable")

    def cut() -> None:
        socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse

    here.inside.append(cut)
    here.works = True


def backward_clock(here: Case) -> None:
    """A clock that goes back by a minute at every look."""
    now = [time.time()]

    def back() -> float:
        now[0] -= 60.0
        return now[0]

    here.inside.append(lambda: setattr(time, "time", back))
    here.works = True


NAMED = (
    "with space",
    "γ=0.8 日本",
    "two\nlines",
    "<b>tags</b>&amp;",
    "'quotes\"",
    "{braces}%s",
    "*.?[a]",
    "back\\slash",
)


def odd_name(here: Case) -> None:
    """A run folder with a name that is not plain."""
    here.run, here.works = str(here.rng.choice(NAMED)), True


def no_text_name(here: Case) -> None:
    """A name in bytes that are no text in UTF-8."""
    here.run = os.fsdecode(b"run\xff\xfe")
    here.own, here.refused = bool(here.rng.random() < 0.5), True


def long_path(here: Case) -> None:
    """A path of 1,500 letters."""
    here.run, here.works = "/".join(["long" * 30] * 12), True


def too_long_path(here: Case) -> None:
    """A name, or a path, that is longer than the system allows."""
    here.run = "x" * 300 if here.rng.random() < 0.5 else "/".join(["y" * 200] * 25)
    here.refused = True


def taken_place(here: Case) -> None:
    """The run folder is a file, a device, below a file, a link to itself, or one to a file."""
    (here.folder / "file").write_text("mine")
    (here.folder / "loop").symlink_to("loop")
    (here.folder / "link").symlink_to("file")
    here.run = str(here.rng.choice(["file", "/dev/null", "file/run", "loop", "loop/run", "link"]))
    here.refused = True


def linked_folder(here: Case) -> None:
    """The run folder is a link to one somewhere else."""
    (here.folder / "elsewhere").mkdir()
    (here.folder / RUN).symlink_to("elsewhere")
    here.works = True


HINDRANCES: dict[str, Callable[[Case], None]] = {
    "full disk": full_disk,
    "read-only folder": read_only_folder,
    "large files refused": large_files_refused,
    "closed pipe": closed_pipe,
    "name that is not plain": odd_name,
    "place that is taken": taken_place,
    "path that is too long": too_long_path,
    "clock that goes back": backward_clock,
    "few file descriptors": few_descriptors,
    "read-only file system": read_only_disk,
    "closed pipe, errors too": lambda here: closed_pipe(here, 1, 2),
    "no current folder": no_current_folder,
    "link to a folder": linked_folder,
    "path of 1,500 letters": long_path,
    "other file system": other_file_system,
    "offline": offline,
    "name that is no UTF-8": no_text_name,
    "no HOME": no_home,
    "no TMPDIR": no_temporary_folder,
    "ASCII alone": plain_text,
    "no standard streams": no_streams,
    "no standard input": no_input,
}
LONG, SHORT = 6 * len(HINDRANCES), 7
