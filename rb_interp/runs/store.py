"""The files of a folder: whole or absent, written by one process at a time, each step with what it was made from.

    run.json     what the run is: format, study, configuration, versions
    steps.json   step -> made_from, version, finished, files (name -> SHA-256)

A step stands in ``steps.json`` once its last file is there, with a digest of the files of the step before. `begin`
takes it out before a file is replaced. So a process may be killed anywhere: a step is then finished, or made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from rb_interp import __version__
from rb_interp.errors import RunError, StudyError, first_line

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "rb_interp run 5"
RUN, SETTINGS, STEPS, LOCK = "run.json", "config.toml", "steps.json", ".lock"
START, TRAIN, PROBE, REPORT = ORDER = ("start", "train", "probe", "report")
"""The steps of a run: its configuration; checkpoints and curves; tables and verdicts; figures and page."""
PACKAGES = ("torch", "transformer-lens", "numpy", "scipy", "pandas", "matplotlib")


def write_file(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write a file whole or not at all: a temporary file beside it is moved into place.

    Args:
        content: the bytes, or a function that fills the temporary file.

    Raises RunError if the file cannot be written; what was there before is untouched then.

    >>> place = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_file(place, b"done")
    >>> place.read_text(), len(list(place.parent.iterdir()))
    ('done', 1)
    """
    path, temporary = Path(path), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        content(temporary) if callable(content) else temporary.write_bytes(content)
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:  # a full disk may arrive as either
        raise RunError(
            f"{path} could not be written ({error}); what was there before is untouched. Free some space or choose "
            f"another folder, then run the same command: it continues."
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


class Store:
    """The files of a folder, by names relative to it, and the right to write them.

    Whoever writes a folder in one process shares one store: its lock can be entered again, that of another store not.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._lock = FileLock(self.folder / LOCK, timeout=0)
        self._compared: dict[str, str] = {}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder, until the process ends at the latest.

        Raises RunError while another process or thread has it.
        """
        try:
            if not self._lock.is_locked:
                self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise RunError(
                f"{self.folder} is being written by another process; nothing was changed. Wait until it ends, or give "
                f"another folder."
            ) from None
        except OSError as error:
            raise RunError(f"{self.folder} could not be written ({error}); choose another folder.") from None
        try:
            if self._lock.lock_counter == 1:  # what a killed process left, here and as safetensors names it
                for left in (path for pattern in (".*.tmp", ".tmp??????") for path in self.folder.rglob(pattern)):
                    left.unlink(missing_ok=True)
            yield
        finally:
            self._lock.release()

    def write(self, name: str, content: bytes | Callable[[Path], object]) -> None:
        """Write a file as `write_file` does."""
        write_file(self.folder / name, content)

    def write_json(self, name: str, content: Any) -> None:
        """Write plain data as JSON; ValueError for NaN and infinity."""
        self.write(name, json.dumps(content, indent=1, allow_nan=False).encode())

    def write_table(self, name: str, table: pd.DataFrame, keys: Sequence[str]) -> None:
        """Write ``name.parquet``; StudyError if two rows agree in all keys, which would leave claims open."""
        twice = table.duplicated(list(keys))
        if twice.any():
            place = ", ".join(f"{key} = {table.loc[twice, key].iloc[0]}" for key in keys)
            raise StudyError(f"the table '{name}' has two rows with {place}; measure each once.")
        self.write(f"{name}.parquet", lambda path: table.to_parquet(path, index=False))

    def read_json(self, name: str) -> Any:
        """The content of a JSON file; raises as `verified`."""
        return json.loads(self.verified(name).read_text(encoding="utf-8"))

    def read_table(self, name: str) -> pd.DataFrame:
        """The table in ``name.parquet``; raises as `verified`."""
        import pandas as pd

        return pd.read_parquet(self.verified(f"{name}.parquet"))

    def verified(self, name: str) -> Path:
        """The path of a file, whose SHA-256 is compared when it is first asked for.

        Raises RunError if the file is missing, or is not what it was when its step was finished.
        """
        path = self.folder / name
        for step, record in self.steps.items():
            wanted = record["files"].get(name)
            if wanted and self._compared.get(name) != wanted and path.is_file():
                if _sha256(path) != wanted:
                    raise RunError(
                        f"{path} is damaged, or something else has changed it: its SHA-256 is not the one in {STEPS}. "
                        f"Put a sound copy of it back, or remove it and make it again: {self.command(step)}"
                    )
                self._compared[name] = wanted
        if not path.is_file():
            raise RunError(f"{path} is not there. Put a copy of it back, or repeat the command that made it.")
        return path

    @property
    def steps(self) -> dict[str, Any]:
        """What ``steps.json`` says now: a record of each finished step."""
        path = self.folder / STEPS
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def begin(self, step: str) -> None:
        """Take a step out of ``steps.json``, before its first file is replaced."""
        if step in self.steps:
            self.write_json(STEPS, {name: record for name, record in self.steps.items() if name != step})

    def finish(self, step: str, names: Iterable[str], version: str = "") -> None:
        """Note that a step is finished: its files, when, by which code, and from which files of the step before."""
        made_from = next((_digest(self.steps.get(one)) for one, then in pairwise(ORDER) if then == step), "")
        files = {name: _sha256(self.folder / name) for name in sorted(names)}
        finished = datetime.now(timezone.utc).isoformat(timespec="seconds")
        record = {"made_from": made_from, "version": version or code_version(), "finished": finished, "files": files}
        self.write_json(STEPS, {**self.steps, step: record})
        self._compared |= files

    def check(self, step: str) -> None:
        """Raise RunError if a step, or one before it, is not finished, or was made from files that have changed."""
        steps = self.steps
        for before, now in pairwise(ORDER[: ORDER.index(step) + 1]):
            if now not in steps:
                raise RunError(f"{self.folder} has no finished {now} yet; this makes it: {self.command(now)}")
            if steps[now]["made_from"] != _digest(steps.get(before)):
                raise RunError(
                    f"{self.folder}: its {now} was made from another {before} than the one that is there now; this "
                    f"makes it again: {self.command(now)}"
                )

    def is_current(self, step: str) -> bool:
        """Whether `check` accepts a step, and all of its own files are there."""
        try:
            self.check(step)
        except RunError:
            return False
        return all((self.folder / name).is_file() for name in self.steps[step]["files"])

    def command(self, step: str) -> str:
        """The command that carries out a step."""
        if step in (PROBE, REPORT):
            return f"rb-interp {step} {self.folder}"
        return f"rb-interp train --config {self.folder / SETTINGS} --out {self.folder}"


def holds_run(folder: Path) -> bool:
    """Whether a folder is a run folder, readable or not."""
    return os.path.isfile(Path(folder) / RUN)


def read_run(folder: Path) -> dict[str, Any]:
    """The content of ``run.json``; RunError if the folder is no run folder, or has another format."""
    path = Path(folder) / RUN
    if not holds_run(folder):
        made = "Make one with 'rb-interp reproduce' or 'rb-interp train'."
        raise RunError(f"{folder} is not a run folder: it has no {RUN}. {made}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        format = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} does not say what a run is ({first_line(error)}); put a sound copy back.") from None
    if format != FORMAT:
        raise RunError(
            f"{path} has the format {format!r}; this version reads {FORMAT!r}. Make the run again with 'rb-interp "
            f"reproduce', or open it with the version of rb_interp that wrote it."
        )
    return content


def check_free(folder: Path) -> None:
    """Raise RunError if a folder holds something; names that begin with a dot are what a killed process left."""
    if os.path.exists(folder) and not (os.path.isdir(folder) and all(n.startswith(".") for n in os.listdir(folder))):
        raise RunError(f"{folder} holds something else than this run; nothing was changed. Give another folder.")


def versions() -> dict[str, str]:
    """Installed versions of what results depend on."""
    found = {"rb-interp": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


@cache
def code_version(*folders: Path) -> str:
    """The version of this package with a checksum of its source, and of the source in further folders."""
    total = hashlib.sha256()
    for folder in (Path(__file__).parents[1], *folders):
        for path in sorted(folder.rglob("*.py")):
            total.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return f"{__version__}+{total.hexdigest()[:8]}"


def _digest(record: Mapping[str, Any] | None) -> str:
    """A checksum over all files of a finished step; "" if it is not finished."""
    return "" if record is None else hashlib.sha256(json.dumps(record["files"], sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            total.update(block)
    return total.hexdigest()
