"""``run.json``: what a run folder is, which study and configuration made it, and with which versions."""

from __future__ import annotations

import json
import platform
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from rb_interp import __version__
from rb_interp.errors import RunError
from rb_interp.files import write_whole
from rb_interp.machine.config import StudyConfig, fingerprint, plain, scale_of, to_toml, type_of
from rb_interp.one_writer import LOCK, WRITER

FORMAT = "rb_interp run 3"
FILE = "run.json"
KEYS = (
    "format",
    "study",
    "created",
    "command",
    "fingerprint",
    "scale",
    "versions",
    "host",
    "tasks",
    "config",
    "added_seeds",
)
PACKAGES = ("torch", "transformer-lens", "numpy", "scipy", "pandas", "matplotlib")


def write_metadata(folder: Path, study: str, config: StudyConfig, command: str) -> dict[str, Any]:
    """Write ``run.json`` and the configuration as TOML into a new run folder; returns the content of ``run.json``."""
    metadata = {
        "format": FORMAT,
        "study": study,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "fingerprint": fingerprint(study, config),
        "scale": scale_of(config),
        "versions": versions(),
        "host": {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
        "tasks": {name: [type_of(s.task), s.task.fingerprint()] for name, s in config.sweeps.items()},
        "config": plain(config),
        "added_seeds": [],
    }
    write_whole(folder / FILE, lambda file: file.write_text(json.dumps(metadata, indent=1)))
    write_toml(folder, study, config)
    return read_metadata(folder)


def write_toml(folder: Path, study: str, config: StudyConfig) -> None:
    """Write the configuration as ``config.toml``, where it is not there yet."""
    path = folder / "config.toml"
    if not path.exists():
        write_whole(path, lambda file: file.write_text(to_toml(study, config)))


def read_metadata(folder: Path) -> dict[str, Any]:
    """Read ``run.json``; RunError where the folder is no run, is damaged, or has another format."""
    path = folder / FILE
    try:
        metadata = json.loads(path.read_text())
        if metadata.get("format") != FORMAT:
            raise RunError(
                f"{path} has the format {metadata.get('format')!r}; this version reads {FORMAT!r}. Make the run again "
                f"with 'rb-interp reproduce', or open it with the version of rb_interp that wrote it."
            )
        return {key: metadata[key] for key in KEYS}
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(
            f"{folder} is not a run folder: it has no {FILE}. Make one with 'rb-interp reproduce' or 'rb-interp train'."
        ) from None
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise RunError(
            f"{path} cannot be read ({error!r}); it is damaged. Move the folder away and run again."
        ) from None


def holds_run(folder: Path) -> bool:
    """Whether a folder is a run folder, readable or not."""
    return (folder / FILE).exists()


def check_free(folder: Path) -> None:
    """Raise RunError where a folder holds other files: a new run is never mixed with them."""
    if folder.exists() and (not folder.is_dir() or not _leftovers(folder)):
        raise RunError(f"{folder} exists and is not a run of rb_interp; nothing was changed. Use another --out.")


def _leftovers(folder: Path) -> bool:
    """Whether a folder holds nothing but what a process leaves that was killed at its start."""
    return all(path.name in (LOCK, WRITER) or path.name.startswith(f".{FILE}.") for path in folder.iterdir())


def versions() -> dict[str, str]:
    """Installed versions of what results depend on."""
    found = {"rb-interp": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
