"""Files that are there whole or as they were before."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from rb_interp.errors import RunError


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes whole or not at all; RunError as in ``write_whole``."""
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def check_place(path: Path, folder: bool = False) -> None:
    """Raise RunError where a file, or files in a folder, could not be written. Asked before work, it leaves nothing.

    >>> check_place(Path(tempfile.gettempdir()) / "new" / "table.csv")
    >>> check_place(Path(os.devnull) / "report", folder=True)
    Traceback (most recent call last):
    rb_interp.errors.RunError: /dev/null/report cannot be written (/dev/null: Not a directory); nothing was done. Give a
    place that can be written.
    """
    place = path if folder else path.parent
    while not os.path.lexists(place):
        place = place.parent
    try:
        if not folder and path.exists() and not path.is_file():
            raise OSError(0, "a folder or a device", str(path))
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise RunError(
            f"{path} cannot be written ({place}: {error.strerror}); nothing was done. Give a place that can be written."
        ) from None


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it into place.

    Raises RunError where that fails; what was there before is untouched, and nothing else is left behind.

    >>> place = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_whole(place, lambda temporary: temporary.write_text("done"))
    >>> place.read_text(), len(list(place.parent.iterdir()))
    ('done', 1)
    """
    put(fill(path, write), path)


def fill(path: Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, for `put`; RunError as in ``write_whole``."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        return temporary
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _not_written(path, error) from None
        raise


def put(temporary: Path, path: Path) -> None:
    """Move a temporary file into place; RunError as in ``write_whole``."""
    try:
        os.replace(temporary, path)
        _settle(path.parent)
    except OSError as error:
        raise _not_written(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def _not_written(path: Path, error: OSError) -> RunError:
    if isinstance(error, FileExistsError | NotADirectoryError) and not path.parent.is_dir():
        return RunError(f"{path.parent} is a file, where a folder should be; move it away, then run the same command.")
    return RunError(
        f"{path} could not be written ({error}); what was there before is untouched. "
        f"Free some space or choose a writable --out, then run the same command: it continues."
    )


def _settle(folder: Path) -> None:
    """Let the system write down a renaming before another one, so that a power cut keeps their order."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
