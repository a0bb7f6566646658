"""One writer at a time: a lock on a folder, held by a process, that ends with it.

The lock is the operating system's, on the file ``.lock`` (through filelock: flock, and its like on Windows). It goes
with its process, however that ends; so no lock is left behind, and the file itself means nothing. Readers do not ask
for it. ``.writer.json`` says who holds it, for the sentence that a second writer gets.

What it does not cover. Over NFS, Linux asks the server for the lock, and two hosts exclude each other where its lock
service runs; a mount with ``local_lock=flock`` or ``nolock`` excludes processes of one host alone. Somebody who changes
files by other means is not kept from it.
"""

from __future__ import annotations

import json
import os
import platform
import stat
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rb_interp.errors import RunError
from rb_interp.files import write_bytes
from rb_interp.json_files import bounded_bytes, json_of

LOCK, WRITER = ".lock", ".writer.json"
TEMPORARY = (".*.????????.tmp", ".tmp??????")
"""Names of temporary files: ours, and those that safetensors makes beside them."""


class OneWriter:
    """The right to write a folder, as a context; it can be entered again inside, in the same thread.

    Temporary files that an earlier writer left are removed where it is entered first: nobody else writes then.

    Args:
        folder: what is written; made where it is not there. parts: folders in it that have such files too, themselves
            and in their own folders.

    Raises RunError where another process, or another thread, holds the lock, and where there can be none.
    """

    def __init__(self, folder: Path, parts: Iterable[Path] = ()) -> None:
        self.folder, self.parts = Path(folder), tuple(parts)
        self._locks: dict[int, FileLock] = {}
        self._place: tuple[int, int] | None = None

    @property
    def _lock(self) -> FileLock:
        """The lock of this process. One that was forked has its own: filelock refuses that of its parent.

        The parent's object is kept, for an object that goes may let go of the lock that both processes hold.
        """
        own = os.getpid()
        if own not in self._locks:
            self._locks[own] = FileLock(self.folder / LOCK, timeout=0)
        return self._locks[own]

    def __enter__(self) -> OneWriter:
        lock = self.folder / LOCK
        if os.path.lexists(lock) and not stat.S_ISREG(lock.lstat().st_mode):
            raise RunError(
                f"{lock} is a link, a folder or a device, where an empty file should be; nothing was changed. Remove "
                f"it, then run the same command."
            )
        try:
            if not self._lock.is_locked:
                self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise RunError(
                f"{self.folder} is being written by {self._who()}; nothing was changed. Wait until that ends, or "
                f"give another folder."
            ) from None
        except (OSError, NotImplementedError) as error:
            raise RunError(
                f"{self.folder} could not be written ({error}); what was there before is untouched. Choose a "
                f"folder that can be written."
            ) from None
        if self._lock.lock_counter == 1:
            self._place = _place(self.folder / LOCK)
            try:
                self._begin()
            except BaseException:
                self._lock.release()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock.lock_counter == 1 and _place(self.folder / LOCK) == self._place:
            (self.folder / WRITER).unlink(missing_ok=True)
        self._lock.release()

    def check(self) -> None:
        """Raise RunError where the lock that is held is not the folder's any more: it was moved, or made anew."""
        if self._lock.is_locked and _place(self.folder / LOCK) != self._place:
            raise RunError(
                f"{self.folder} was moved or removed, or its {LOCK} was, while this process wrote it; nothing more is "
                f"written. Run the same command again, on the folder where it is now."
            )

    def _begin(self) -> None:
        own = Path(os.path.realpath(self.folder))
        parts = [place for part in self.parts for place in (part, *part.glob("*/"))]
        inside = [self.folder, *(place for place in parts if Path(os.path.realpath(place)).is_relative_to(own))]
        for path in [path for place in inside for pattern in TEMPORARY for path in place.glob(pattern)]:
            path.unlink(missing_ok=True)
        held = {"host": platform.node(), "process": os.getpid(), "since": datetime.now().isoformat(" ", "seconds")}
        write_bytes(self.folder / WRITER, json.dumps(held).encode())

    @property
    def held(self) -> bool:
        """Whether it is entered now."""
        return self._lock.is_locked

    @property
    def holder(self) -> str:
        """Who writes the folder, in words; "" where nobody does. One killed on another host is named until the next."""
        held = self._writer_file()
        gone = held.get("host") == platform.node() and not _runs(held["process"])
        return "" if gone or not (self.folder / WRITER).exists() else self._who()

    def _who(self) -> str:
        held = self._writer_file()
        return f"process {held['process']} on {held['host']}, since {held['since']}" if held else "another process"

    def _writer_file(self) -> dict[str, Any]:
        """What a writer says of itself; nothing where it has just begun, or just ended."""
        try:
            held = json_of(bounded_bytes(self.folder / WRITER))
            return {"host": str(held["host"]), "process": int(held["process"]), "since": str(held["since"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _runs(process: int) -> bool:
    """Whether a process of this host runs; taken for granted where asking would end it."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _place(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None where there is none."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
