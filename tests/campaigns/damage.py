"""Files of finished runs, damaged in one place, and then everything that reads or continues the run.

A case damages one file of a run (a flipped bit, a cut, zeros, a swap with a sibling or with another run's file of the
same name, a folder or nothing in its place) and asks for one thing: what the folder holds, a member, a table, the
verdicts, the report, more training, probing, or all of it again. Either the answer is the one of the sound run, or it
is one sentence. Files that were not damaged stay as they were, unless they were made again with the same content.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from campaigns.harness import Ended, Outcome, command, forked
from campaigns.tiny_runs import JUDGED, RUN, at, difference, make_small, making, settings
from campaigns.tiny_runs import contents as contents_of

LONG, SHORT = 2000, 16
STUDIES = ("anchor", "labels", "language")


@dataclass
class Prepared:
    """Sound runs of each study, two with different seeds.

    Attributes:
        place: their folder. contents: study -> its files. answers: see `answer`.
    """

    place: Path
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    contents: dict[str, dict[str, str]] = field(default_factory=dict)

    def toml(self, study: str) -> Path:
        """A file with a study's settings."""
        return self.place / f"{study}.toml"

    def answer(self, study: str, asked: str) -> str:
        """What a sound run answers; asked for once."""
        if (study, asked) not in self.answers:
            copy = shutil.copytree(self.place / study, self.place / f"{study}-{asked}")
            ended = forked(at(copy, partial(ASKED[asked], study, self.toml(study))), 600.0)
            assert ended.status == 0, ended.err
            self.answers[study, asked] = ended.out
        return self.answers[study, asked]


def prepare(folder: Path) -> Prepared:
    """Make the runs."""
    make_small()
    prepared = Prepared(folder)
    for study in STUDIES:
        prepared.toml(study).write_text(settings(study))
        other = folder / f"{study}-other.toml"
        other.write_text(settings(study).replace("seeds=[0]", "seeds=[1]"))
        for place, toml in ((folder / study, prepared.toml(study)), (folder / "other" / study, other)):
            place.mkdir(parents=True)
            ended = forked(at(place, making(study, toml, "reproduce")), 600.0)
            assert ended.status == 0, ended.err
        prepared.contents[study] = contents_of(folder / study / RUN)
    return prepared


def _digest(table: object) -> str:
    return hashlib.sha256(str(table).encode()).hexdigest()


def _ask(of: Callable[..., object]) -> Callable[[str, Path], int]:
    """A question to a run, from Python; what the command line would say where it cannot be answered."""

    def work(study: str, toml: Path) -> int:
        import sys

        from rb_interp.errors import RbInterpError
        from rb_interp.runs.run import Run

        try:
            print(_digest(of(Run.open(RUN))))
        except RbInterpError as error:
            print(f"rb-interp: {error}", file=sys.stderr)
            return 2
        return 0

    return work


def _members(run) -> list:
    return [
        value.double().sum().item()
        for name, sweep in sorted(run.sweeps.items())
        for member in sweep.members
        for _, value in sorted(sweep.weights(member.gamma, member.seed).items())
    ]


ASKED: dict[str, Callable[[str, Path], int]] = {
    "info": lambda study, toml: command("info", RUN)(),
    "weights": _ask(_members),
    "readings": _ask(lambda run: run.readings.to_csv()),
    "curves": _ask(lambda run: run.table("curves").to_csv()),
    "verdicts": _ask(lambda run: run.verdicts.to_json()),
    "report": lambda study, toml: command("report", RUN)(),
    "train": lambda study, toml: making(study, toml)(),
    "probe": lambda study, toml: command("probe", RUN)(),
    "reproduce": lambda study, toml: making(study, toml, "reproduce")(),
}
SLOW = ("report", "train", "probe", "reproduce")
"""What takes a second or more, and is asked less often."""


def case(number: int, prepared: Prepared, folder: Path) -> Outcome:
    """One damage, one question."""
    rng = np.random.default_rng(number)
    study = STUDIES[number % len(STUDIES)]
    shutil.copytree(prepared.place / study, folder, dirs_exist_ok=True)
    files = [path for path in sorted((folder / RUN).rglob("*")) if path.is_file() and path.name != ".lock"]
    hit = files[rng.integers(len(files))]
    kind = str(rng.choice(list(DAMAGES)))
    name = hit.relative_to(folder / RUN)
    checkpoint = "checkpoints" in hit.parts
    reads = [asked for asked in ASKED if asked not in SLOW and (asked != "weights" or checkpoint)]
    asked = str(rng.choice(SLOW if rng.random() < 0.2 else ["weights"] if checkpoint and rng.random() < 0.6 else reads))
    DAMAGES[kind](hit, rng, prepared.place / "other" / study / RUN / name, files)
    damaged = _state(hit)
    ended = forked(at(folder, partial(ASKED[asked], study, prepared.toml(study))), 120.0)
    end, detail = _judged(ended, prepared, study, asked, folder / RUN, str(name), damaged)
    return Outcome(kind, end, f"{study}, {asked}, {name}: {detail}")


def _state(path: Path) -> object:
    return path.read_bytes() if path.is_file() else path.is_dir()


def _judged(
    ended: Ended, prepared: Prepared, study: str, asked: str, run: Path, name: str, damaged: object
) -> tuple[str, str]:
    if ended.failure:
        return ended.failure, ended.err.strip().splitlines()[-1] if ended.err.strip() else str(ended.status)
    left = contents_of(run, without=name)
    known = {each: held for each, held in prepared.contents[study].items() if each != name}
    lost = [each for each in known if each not in left]
    if lost:
        return "lost", ", ".join(lost[:3])
    if ended.status == 2:
        changed = [each for each in known if left[each] != known[each]]
        if changed:
            return "silent", f"refused, and changed {changed[:3]}"
        if _state(run / name) != damaged:
            return "lost", "refused, and the damaged file was changed"
        return ("sentence", "") if ended.sentence else ("traceback", ended.err[-200:])
    if _state(run / name) != damaged:  # it was made again
        end, detail = difference(run, prepared.contents[study])
        return end or "equal", detail
    changed = [each for each in known if left[each] != known[each]]
    if changed:
        return "silent", f"changed {changed[:3]}"
    if asked in SLOW:
        same = damaged == _state(prepared.place / study / RUN / name)  # as another run's table may be
        done = "done, although a file that it rests on is damaged"
        return ("silent", done) if _rests(asked, name) and not same else ("equal", "")
    if ended.out == prepared.answer(study, asked):
        return "equal", ""
    named = asked == "info" and Path(name).name in "".join(ended.out.split())  # which tells of it among the rest
    return ("sentence", "") if named else ("silent", ended.out[-200:])


def _rests(asked: str, name: str) -> bool:
    """Whether what was asked rests on a file: train, probe and report on training's, report on the tables too."""
    trained = "checkpoints" in Path(name).parts or name == "curves.parquet"
    table = name.endswith(".parquet") or name in (*JUDGED[:3], "arrays.safetensors")
    return trained or (table and asked in ("report", "reproduce"))


def _flip(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    held = bytearray(path.read_bytes())
    held[rng.integers(len(held))] ^= 1 << rng.integers(8)
    path.write_bytes(held)


def _header(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    held = bytearray(path.read_bytes())
    held[rng.integers(min(len(held), 400))] ^= 1 << rng.integers(8)
    path.write_bytes(held)


def _cut(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    held = path.read_bytes()
    path.write_bytes(held[: rng.integers(len(held))])


def _zeros(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    held = bytearray(path.read_bytes())
    first = int(rng.integers(len(held)))
    block = min(int(rng.integers(1, 4096)), len(held) - first)
    held[first : first + block] = b"\0" * block
    path.write_bytes(held)


def _sibling(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    alike = [each for each in files if each.suffix == path.suffix and each != path] or files
    path.write_bytes(alike[rng.integers(len(alike))].read_bytes())


def _another_run(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    path.write_bytes(other.read_bytes() if other.is_file() else b"")


def _folder(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def _other_json(path: Path, rng: np.random.Generator, other: Path, files: list[Path]) -> None:
    shapes = (None, [], {}, 1, "x", [[]], {"a": {"b": [None]}}, [{"id": None}])
    path.write_text(json.dumps(shapes[rng.integers(len(shapes))]))


DAMAGES: dict[str, Callable[[Path, np.random.Generator, Path, list[Path]], None]] = {
    "bit flipped": _flip,
    "bit of the header flipped": _header,
    "cut": _cut,
    "block of zeros": _zeros,
    "empty": lambda path, rng, other, files: path.write_bytes(b""),
    "sibling's content": _sibling,
    "another run's content": _another_run,
    "other JSON": _other_json,
    "a folder instead": _folder,
    "deleted": lambda path, rng, other, files: path.unlink(),
}
