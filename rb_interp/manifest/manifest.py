"""What the files of a folder are: ``manifest.json``, with each file's checksum, and what it was made from.

A file belongs to a step (``train``, ``probe``, ``report``, ...). A step is finished when its last file stands in the
manifest; it names the steps that it was made from by a digest of their files. So a damaged file is named before a
number of it is used, and a table is not taken for one of other checkpoints.

A file that is replaced has two checksums until it is replaced, its own and that of the file before, so a process may
be killed anywhere. A step that is made again is written beside the files of before, and put in their place at the end,
all in one go; `steady` lets a reader see the one or the other, never some of each.

Checksums (SHA-256) find accidents and mix-ups. Somebody who writes a manifest can say what he likes in it: what a
folder says is checked further where it is read, and no path in it leaves the folder.
"""

from __future__ import annotations

import hashlib
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from rb_interp.checks import shown
from rb_interp.errors import RunError
from rb_interp.files import fill as fill_beside
from rb_interp.files import put, write_bytes
from rb_interp.manifest.content import FILE, Content, Entry, Making, Step, code_version, packed, parsed, real
from rb_interp.one_writer import OneWriter

PATIENCE = 10.0
T = TypeVar("T")
START, TRAIN, PROBE, REPORT = "start", "train", "probe", "report"
"""The steps of a run: its configuration, checkpoints and curves, tables and verdicts, figures and page."""


class Manifest:
    """The manifest of a folder, and the right to write the folder.

    Args:
        folder: what it is about. fingerprint: of the configuration, for a folder that has no manifest yet.
        remedies: what to do about a file that is damaged or lost, a sentence for each step, or for a file by its name.
        parts: folders in it that may have temporary files.
    """

    def __init__(
        self, folder: Path, fingerprint: str = "", remedies: Mapping[str, str] = {}, parts: Iterable[Path] = ()
    ) -> None:
        self.folder, self.remedies = Path(folder), dict(remedies)
        self._writer = OneWriter(self.folder, parts)
        self._empty = Content(fingerprint)
        self._read: tuple[Any, Content] = (None, self._empty)
        self._sums: dict[str, tuple[Any, str]] = {}
        self._making: dict[str, tuple[Path, Entry]] | None = None
        self._depth, self._guard = 0, threading.Lock()

    # -- reading

    @property
    def content(self) -> Content:
        """What it says now; empty where there is none. Raises RunError where it is damaged."""
        now = _signature(self.folder / FILE)
        if now is None:
            return self._empty
        if now != self._read[0]:
            self._read = (now, parsed(self.folder / FILE))
        return self._read[1]

    def holds(self, path: Path) -> bool:
        """Whether a file stands in it and is there; RunError where something else is in its place."""
        if self.name(path) not in self.content.files:
            return False
        self._inside(path)
        return path.is_file()

    @property
    def writer(self) -> str:
        """Who writes the folder now, in words; "" where nobody does, or a writer was killed and none came after."""
        return self._writer.holder

    @property
    def held(self) -> bool:
        """Whether this process writes the folder now."""
        return self._writer.held

    def names(self, folder: Path) -> list[str]:
        """Names of the files right in a folder that stand in it and are there."""
        found = (self.folder / name for name in self.content.files)
        return sorted(path.name for path in found if path.parent == folder and path.is_file())

    def check(self, path: Path, step: str = "") -> None:
        """Raise RunError where a file is not what it says: not made yet, lost, damaged, or no file in the folder.

        A file is read through once; then its size and time of change are looked at. ``step`` is the one that makes it.
        """
        self._checked(path, step, self._sum)

    def read(self, path: Path, step: str = "") -> bytes:
        """The content of a file; raises as `check` does."""
        held: list[bytes] = []

        def sum_of(path: Path) -> str:
            self._inside(path)
            held[:] = [Path(path).read_bytes()]
            return hashlib.sha256(held[0]).hexdigest()

        self._checked(path, step, sum_of)
        return held[0]

    def check_step(self, step: str) -> None:
        """Raise RunError where a file of a step is not what it says."""
        for name, entry in self.content.files.items():
            if entry.step == step:
                self.check(self.folder / name)

    def finished(self, step: str) -> bool:
        """Whether a step was carried out to its last file, from what is there now, and its files are there."""
        content = self.content
        files = (self.folder / name for name, entry in content.files.items() if entry.step == step)
        return step in content.steps and not self.outdated(step) and all(path.is_file() for path in files)

    def outdated(self, step: str) -> bool:
        """Whether a step was carried out on other files than those that are there now, or on an outdated step."""
        content = self.content
        record = content.steps.get(step)
        return record is not None and any(
            content.digest(name) != was or self.outdated(name) for name, was in record.made_from.items()
        )

    def wait(self, step: str) -> Making:
        """Wait while a writer moves the files of a step into place, which takes milliseconds; 10 seconds at most.

        Returns what `made` said at the end of it.
        """
        until = time.monotonic() + PATIENCE
        while (content := self.content).moving(step) and self.writer and time.monotonic() < until:
            time.sleep(0.005)
        return content.made(step)

    def steady(self, step: str, read: Callable[[], T]) -> T:
        """What ``read`` returns, from files of one making of a step; read again where they were replaced meanwhile."""
        while True:
            before = self.wait(step)
            try:
                found = read()
            except RunError:
                if self.made(step) == before:
                    raise
            else:
                if self.made(step) == before:
                    return found

    def made(self, step: str) -> Making:
        """What was made last of a step."""
        return self.content.made(step)

    @property
    def missing(self) -> list[str]:
        """Names of files that were there and are not, or are no files any more. Reads none of them."""
        made = (name for name, entry in self.content.files.items() if entry.before != "")
        return [name for name in made if not (self.folder / name).is_file()]

    def problems(self) -> dict[str, str]:
        """File -> what is wrong with it, for every file that is not what it says. Reads all of them."""
        found = {}
        for name, entry in self.content.files.items():
            if entry.before == "" and not (self.folder / name).exists():
                continue  # its writer was stopped before it was there
            try:
                self.check(self.folder / name)
            except RunError as error:
                found[name] = str(error)
        return found

    def name(self, path: Path) -> str:
        """A path in the folder as it stands in the manifest; RunError for what is none."""
        try:
            return Path(path).relative_to(self.folder).as_posix()
        except (TypeError, ValueError):
            raise RunError(f"{shown(path)} is no path in {self.folder}; give the path of a file there.") from None

    def _checked(self, path: Path, step: str, sum_of: Callable[[Path], str]) -> None:
        name = self.name(path)
        while True:
            entry, before = self.content.files.get(name), self._read[0]
            if entry is None:
                todo = f"Wait until {self.writer} has made it." if self.writer else self.remedy(name, step)
                raise RunError(f"{path} is not there yet. {todo}")
            remedy = self.remedy(name)
            try:
                found = sum_of(path)
            except FileNotFoundError:
                found = None
            except NotADirectoryError:
                raise RunError(f"{path.parent} is a file, where a folder should be; move it away. {remedy}") from None
            except OSError as error:
                raise RunError(f"{path} cannot be read ({error.strerror}). {remedy}") from None
            if found is not None and found in (entry.sha256, entry.before):
                return
            if _signature(self.folder / FILE) == before:  # no writer was at work meanwhile
                break
        if found is None and entry.before == "":
            raise RunError(f"{path} is not there yet. {remedy}")
        if found is None:
            raise RunError(f"{path} is missing; it was there. {remedy}")
        raise RunError(
            f"{path} is damaged, or something else has changed it: its checksum is {found[:12]}, {FILE} says "
            f"{entry.sha256[:12]}. {remedy}"
        )

    def _sum(self, path: Path) -> str:
        with self._guard:
            name, now = self.name(path), _signature(path)
            if now is None or self._sums.get(name, (None,))[0] != now:
                self._inside(path)
                self._sums[name] = (now, _sum_of(path))
            return self._sums[name][1]

    def _inside(self, path: Path) -> None:
        """Raise RunError where a path leaves the folder, through ``..`` or a link, or is no file."""
        if not real(path).is_relative_to(real(self.folder)):
            raise RunError(f"{path} leads out of {self.folder}; nothing was read or written there. Remove that link.")
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            name = self.name(path)
            then = f" {self.remedy(name)}" if name in self.content.files else ""
            raise RunError(f"{path} is a folder or a device, where a file should be; move it away.{then}")

    def remedy(self, name: str, step: str = "") -> str:
        """What to do about a damaged or lost file; ``step`` is the one that makes it, where it was never made."""
        entry = self.content.files.get(name)
        remedy = self.remedies.get(name) or self.remedies.get(entry.step if entry else step)
        return remedy or "Put a sound copy of it back."

    # -- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder, see `one_writer`. Can be entered again inside.

        Raises RunError while another process, or another thread, has it.
        """
        with self._writer:
            if not self._depth:
                self._settle()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._settle()

    def write(self, path: Path, fill: Callable[[Path], object], step: str) -> None:
        """Let ``fill`` write a file, whole or not at all, as one of a step.

        Raises RunError where that fails, and where the path leaves the folder; what was there before is untouched.
        """
        name = self.name(path)
        self._inside(path)
        with self.writing():
            self._writer.check()
            temporary = fill_beside(path, fill)
            made = {name: (temporary, Entry(_sum_of(temporary), step, code_version()))}
            if self._making is None:
                self._put(made, self.content)
            else:
                self._making |= made

    def _put(self, made: Mapping[str, tuple[Path, Entry]], content: Content) -> None:
        """Move new files into place; until then the manifest, otherwise ``content``, knows both checksums of each."""
        files = dict(content.files)
        for name, (_, entry) in made.items():
            there = self.content.files.get(name)
            was = there.sha256 if there is not None and (self.folder / name).is_file() else ""
            files[name] = replace(entry, before=was)
        self._save(replace(content, files=files))
        for name, (temporary, _) in made.items():
            put(temporary, self.folder / name)

    def write_bytes(self, path: Path, content: bytes, step: str) -> None:
        """Write bytes, see `write`."""
        self.write(path, lambda temporary: temporary.write_bytes(content), step)

    @contextmanager
    def making(self, step: str, *made_from: str, version: str = "") -> Iterator[None]:
        """Make a step again: what is written inside takes the place of its files of before, once all of it is written.

        Where the writing fails, the files of before stay. A file of before that is not written again is removed.

        Args:
            step: its name. made_from: the steps that it is made from. version: of the code, by default this package's.
        """
        with self.writing():
            made = self._making = {}
            try:
                yield
                self._making = None
                content = self.content
                was = {name: entry for name, entry in content.files.items() if entry.step == step}
                files = {name: entry for name, entry in content.files.items() if name not in was}
                steps = {name: record for name, record in content.steps.items() if name != step}
                self._put(made, replace(content, files=files, steps=steps))
                self.finish(step, *made_from, version=version)
                self._remove({name: entry for name, entry in was.items() if name not in made})
            finally:
                self._making = None
                for temporary, _ in made.values():
                    temporary.unlink(missing_ok=True)

    def _remove(self, files: Mapping[str, Entry]) -> None:
        """Remove files that were known and are not any more; one that somebody has changed stays."""
        for name, entry in files.items():
            path = self.folder / name
            with suppress(OSError, RunError):
                self._inside(path)
                if not path.is_symlink() and _sum_of(path) == entry.sha256:
                    path.unlink()

    def finish(self, step: str, *made_from: str, version: str = "") -> None:
        """Note that the last file of a step is there; arguments as of `making`."""
        content = self._settled()  # and finished in one go: a reader that waits for the files has the step, too
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        record = Step({name: content.digest(name) for name in made_from}, version or code_version(), now)
        self._save(replace(content, steps={**content.steps, step: record}))

    def _settle(self) -> None:
        """Note of each file that was being replaced whether it is the old one or the new one."""
        content = self._settled()
        if content != self.content:
            self._save(content)

    def _settled(self) -> Content:
        """What it says, with each file that was being replaced decided to be the old one or the new one."""
        content = self.content
        files = dict(content.files)
        for name in [name for name, entry in files.items() if entry.before is not None]:
            entry, path = files[name], self.folder / name
            found = _sum_of(path) if path.is_file() else ""
            if found == entry.before:
                files[name] = replace(entry, sha256=found, before=None)
                if not found:
                    del files[name]
            else:
                files[name] = replace(entry, before=None)
        return replace(content, files=files)

    def _save(self, content: Content) -> None:
        self._writer.check()
        write_bytes(self.folder / FILE, packed(content))
        self._read = (_signature(self.folder / FILE), content)


def _signature(path: Path) -> Any:
    """What tells a changed file from the same one; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _sum_of(path: Path) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
