"""The file in which a folder says what it is: ``run.json`` of a run, ``series.json`` of a study of several parts."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from rb_interp import __version__
from rb_interp.errors import RunError
from rb_interp.files import write_whole

KEYS = ("format", "created", "command", "fingerprint", "tier", "versions", "host", "config")
SERIES = "series.json"
PACKAGES = ("torch", "transformer-lens", "numpy", "scipy", "pandas", "matplotlib")


def write_about(path: Path, format: str, config: Any, plain: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Write what a new folder is, and beside it the configuration as TOML; returns what was written.

    ``config`` has ``fingerprint``, ``tier`` and ``to_toml``; ``plain`` is the same as nested plain data.
    """
    about = {
        "format": format,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "fingerprint": config.fingerprint,
        "tier": config.tier,
        "versions": versions(),
        "host": {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
        "config": json.loads(json.dumps(plain)),
    }
    write_whole(path, lambda file: file.write_text(json.dumps(about, indent=1)))
    write_whole(path.parent / "config.toml", lambda file: file.write_text(config.to_toml()))
    return about


def read_about(path: Path, format: str, kind: str, make: str) -> dict[str, Any]:
    """Read what a folder is; RunError where it is no ``kind`` (which the command ``make`` makes), or damaged."""
    try:
        about = json.loads(path.read_text())
        if about.get("format") != format:
            raise RunError(
                f"{path} is not a {kind} of this version (format {about.get('format')!r}, expected {format!r})."
            )
        return {key: about[key] for key in KEYS}
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(
            f"{path.parent} is not a {kind} folder: it has no {path.name}. Make one with '{make}'."
        ) from None
    except (OSError, json.JSONDecodeError, KeyError, AttributeError) as error:
        raise RunError(
            f"{path} cannot be read ({error!r}); it is damaged. Move the folder away and run again."
        ) from None


def is_series(folder: Path | str) -> bool:
    """Whether a folder holds a study of several parts."""
    return (Path(folder) / SERIES).exists()


def check_free(folder: Path, about: str, kind: str) -> None:
    """Raise RunError where a folder holds something that a new one would stand beside."""
    if folder.exists() and (not folder.is_dir() or not leftovers(folder, about)):
        raise RunError(f"{folder} exists and is not a {kind} of rb_interp; nothing was changed. Use another --out.")


def leftovers(folder: Path, about: str) -> bool:
    """Whether a folder holds nothing but temporary files of one that was killed before it began."""
    return all(path.name.startswith(f".{about}.") for path in folder.iterdir())


def versions() -> dict[str, str]:
    """Installed versions of what results depend on."""
    found = {"rb-interp": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
