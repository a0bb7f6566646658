"""The files of a folder: whole or absent, written by one process at a time, each step with what it
was made from.

    run.json     what the run is: format, study, configuration, versions
    steps.json   step -> made_from, version, finished, files (name -> SHA-256)

A step stands in ``steps.json`` once its last file is there, with a digest of the files of the step
before. `begin` takes it out before a file is replaced. So a process may be killed anywhere: a step
is then finished, or made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from rb_interp import __version__
from rb_interp.errors import RunError, StudyError

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = Path(__file__).parent
FORMAT = "rb_interp run 5"
RUN = "run.json"
SETTINGS = "config.toml"
STEPS = "steps.json"
UNFINISHED = ".rb_interp-unfinished-"
"""What the name of a folder begins with in which a file is being written."""
START, TRAIN, PROBE, REPORT = ORDER = ("start", "train", "probe", "report")
"""The steps of a run: its configuration; checkpoints and curves; tables and verdicts; figures and
page."""
REMEDY = "Put a sound copy of it back, or remove it and repeat the command that made the run."
RECORD = {
    "study": str,
    "created": str,
    "command": str,
    "fingerprint": str,
    "versions": dict,
    "host": dict,
    "config": dict,
    "added_seeds": list,
}
"""Key of ``run.json`` -> type of its value."""
BEFORE: dict[str, str] = dict(zip(ORDER[1:], ORDER, strict=False))


def write_file(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write a file whole or not at all: it is filled in a folder beside it and moved into place.

    ``content`` is the bytes, or a function that fills the path which it is given. Raises RunError
    if the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_file(path, b"done")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('done', 1)
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            prefix=UNFINISHED, dir=path.parent, ignore_cleanup_errors=True
        ) as folder:
            unfinished = Path(folder) / path.name
            if callable(content):
                content(unfinished)
            else:
                unfinished.write_bytes(content)
            os.replace(unfinished, path)
    except (OSError, SafetensorError) as error:  # a full disk may arrive as either
        raise RunError(
            f"{path} could not be written ({error}); what was there before is untouched. Free some "
            f"space, then run the same command: it continues."
        ) from None


class RunStore:
    """The files of a folder, by names relative to it, and the right to write them.

    Whoever writes a folder in one process shares one store: its lock can be entered again, that of
    another store not.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._lock = FileLock(self.folder / ".lock", timeout=0)
        self._compared: dict[str, str] = {}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder; RunError while another process or thread has it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except OSError as error:
            reason = f"is not writable ({error})"
            if isinstance(error, Timeout):
                reason = "is being written by another process"
            raise RunError(
                f"{self.folder} {reason}; nothing was changed. Wait, or give another folder."
            ) from None
        try:
            if self._lock.lock_counter == 1:
                # what `write_file` of a killed process left
                for leftover in self.folder.rglob(f"{UNFINISHED}????????"):
                    if leftover.is_dir() and not leftover.is_symlink():
                        rmtree(leftover, ignore_errors=True)
            yield
        finally:
            self._lock.release()

    def write_json(self, name: str, content: Any) -> None:
        """Write plain data as JSON; ValueError for NaN and infinity."""
        write_file(self.folder / name, json.dumps(content, indent=1, allow_nan=False).encode())

    def write_table(self, name: str, table: pd.DataFrame, keys: Sequence[str]) -> None:
        """Write ``name.parquet``; StudyError if two rows agree in all keys, which would leave
        claims open."""
        repeated: Any = table[table.duplicated(list(keys))]
        if len(repeated):
            key_values = ", ".join(f"{key} = {repeated[key].iloc[0]}" for key in keys)
            raise StudyError(
                f"the table '{name}' has two rows with {key_values}; measure each once."
            )
        path = self.folder / f"{name}.parquet"
        write_file(path, lambda unfinished: table.to_parquet(unfinished, index=False))

    def read_json(self, name: str) -> Any:
        """The content of a JSON file; raises as `verified`, and RunError if it is not JSON."""
        return _json(self.verified(name))

    def read_table(self, name: str) -> pd.DataFrame:
        """The table in ``name.parquet``; raises as `verified`."""
        import pandas as pd

        return pd.read_parquet(self.verified(f"{name}.parquet"))

    def verified(self, name: str) -> Path:
        """The path of a file, whose SHA-256 is compared when it is first asked for.

        Raises RunError if the file is missing, or is not what it was when its step was finished.
        """
        path = self.folder / name
        if not path.is_file():
            raise RunError(
                f"{path} is not there. Put a copy of it back, or repeat the command that made it."
            )
        for step, record in self.steps.items():
            expected = record["files"].get(name)
            if expected is None or self._compared.get(name) == expected:
                continue
            if _sha256(path) != expected:
                raise RunError(
                    f"{path} is damaged, or something else has changed it: its SHA-256 is not the "
                    f"one in {STEPS}. Put a sound copy of it back, or remove it and make it again: "
                    f"{self.command(step)}"
                )
            self._compared[name] = expected
        return path

    @property
    def steps(self) -> dict[str, Any]:
        """What ``steps.json`` says now: a record of each finished step.

        Raises RunError if it says something else.
        """
        path = self.folder / STEPS
        if not path.is_file():
            return {}
        steps = _json(path)
        if not isinstance(steps, dict) or not all(map(_is_record, steps.values())):
            raise RunError(f"{path} is damaged: it does not say which steps are finished. {REMEDY}")
        return steps

    def begin(self, step: str) -> None:
        """Take a step out of ``steps.json``, before its first file is replaced."""
        steps = self.steps
        if steps.pop(step, None) is not None:
            self.write_json(STEPS, steps)

    def finish(self, step: str, names: Iterable[str], version: str = "", **facts: Any) -> None:
        """Note that a step is finished: its files, when, by which code, from which files of the
        step before, and further plain data."""
        files = {name: _sha256(self.folder / name) for name in sorted(names)}
        steps = self.steps
        steps[step] = {
            "made_from": _digest(steps.get(BEFORE.get(step, ""))),
            "version": version or code_version(),
            "finished": _now(),
            **facts,
            "files": files,
        }
        self.write_json(STEPS, steps)
        self._compared |= files

    def check(self, step: str) -> None:
        """Raise RunError if a step, or one before it, is not finished, or was made from files that
        have changed."""
        steps = self.steps
        for name in ORDER[1 : ORDER.index(step) + 1]:
            before = BEFORE[name]
            again = self.command(name)
            if name not in steps:
                raise RunError(f"{self.folder} has no finished {name} yet; this makes it: {again}")
            if steps[name]["made_from"] != _digest(steps.get(before)):
                raise RunError(
                    f"{self.folder}: its {name} was made from another {before}; this makes it "
                    f"again: {again}"
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


def read_run(folder: Path) -> dict[str, Any]:
    """The content of ``run.json``; RunError if the folder is no run folder, or has another
    format."""
    path = Path(folder) / RUN
    if not path.is_file():
        raise RunError(
            f"{folder} is not a run folder: it has no {RUN}. 'rb-interp reproduce' makes one; those "
            f"of a sweep are in its folder runs."
        )
    try:
        content = _json(path)
    except RunError:
        content = {}
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RunError(
            f"{path} is not of the format {FORMAT!r}, which this version reads; make the run again."
        )
    for key, kind in RECORD.items():
        if not isinstance(content.get(key), kind):
            raise RunError(f"{path} is damaged: its '{key}' is missing. {REMEDY}")
    return content


def _json(path: Path) -> Any:
    """The content of a JSON file; RunError if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is damaged: it is not JSON ({error}). {REMEDY}") from None


def _is_record(record: Any) -> bool:
    """Whether ``steps.json`` has such a record of a step."""
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
        return False
    texts = (record.get("made_from"), record.get("version"), *record["files"].values())
    return all(isinstance(text, str) for text in texts)


def run_record(
    study: str, fingerprint: str, config: Mapping[str, Any], command: str
) -> dict[str, Any]:
    """What ``run.json`` says of a run that begins now."""
    host = {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    return {
        "format": FORMAT,
        "study": study,
        "created": _now(),
        "command": command,
        "fingerprint": fingerprint,
        "versions": versions(),
        "host": host,
        "config": config,
        "added_seeds": [],
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Installed versions of what results depend on; those that are not installed are left out."""
    installed = {"rb-interp": __version__}
    for package in ("torch", "transformer-lens", "numpy", "scipy", "pandas", "matplotlib"):
        with suppress(metadata.PackageNotFoundError):  # training needs not all of them
            installed[package] = metadata.version(package)
    return installed


@cache
def code_version(*sources: Path) -> str:
    """The version of this package with a checksum of its source, and of the source in further
    files and folders."""
    total = hashlib.sha256()
    for source in (PACKAGE, *sources):
        for path in [source] if source.is_file() else sorted(source.rglob("*.py")):
            total.update(f"{path.relative_to(source).as_posix()}\n".encode())
            total.update(path.read_bytes())
    return f"{__version__}+{total.hexdigest()[:8]}"


def _digest(record: Mapping[str, Any] | None) -> str:
    """A checksum over all files of a finished step; "" if it is not finished."""
    if record is None:
        return ""
    files = json.dumps(record["files"], sort_keys=True)
    return hashlib.sha256(files.encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
