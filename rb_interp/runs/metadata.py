"""``run.json``: what a run folder is, which study and configuration made it, and with which versions."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone
from glob import glob
from importlib import metadata
from pathlib import Path
from typing import Any

from rb_interp import __version__
from rb_interp.errors import RunError
from rb_interp.json_files import bounded_bytes, json_of, read_json
from rb_interp.manifest import FILE as MANIFEST
from rb_interp.manifest import START, Manifest
from rb_interp.one_writer import LOCK, WRITER
from rb_interp.runs.config import StudyConfig, fingerprint, plain, scale_of, to_toml
from rb_interp.tasks.fingerprints import class_name

FORMAT = "rb_interp run 4"
FILE, SETTINGS = "run.json", "config.toml"
KEYS = {
    **dict.fromkeys(("format", "study", "created", "command", "fingerprint", "scale"), str),
    **dict.fromkeys(("versions", "host", "tasks", "config"), dict),
    "added_seeds": list,
}
WITHIN = {
    "added_seeds": lambda added: all(_is_list_of(seeds, int) for seeds in added),
    "tasks": lambda tasks: all(_is_list_of(task, str) and len(task) == 2 for task in tasks.values()),
}
"""Key -> whether what its value holds is of the right kind."""
OTHER_FORMAT = (
    "{path} has the format {format!r}; this version reads '" + FORMAT + "'. Make the run again with 'rb-interp "
    "reproduce', or open it with the version of rb_interp that wrote it."
)
PACKAGES = ("torch", "transformer-lens", "numpy", "scipy", "pandas", "matplotlib")


def manifest_of(folder: Path) -> Manifest:
    """The manifest of a run folder, before its study is known."""
    what = "Put a sound copy of it back; where there is none, move the folder away and run again."
    again = f"'rb-interp report {folder}' writes it again from {FILE} where it is missing; move a damaged one away."
    return Manifest(folder, remedies={START: what, SETTINGS: again})


def write_metadata(manifest: Manifest, study: str, config: StudyConfig, command: str) -> dict[str, Any]:
    """Write ``run.json`` and the configuration as TOML into a new run folder; returns the content of ``run.json``."""
    folder = manifest.folder
    metadata = {
        "format": FORMAT,
        "study": study,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "fingerprint": fingerprint(study, config),
        "scale": scale_of(config),
        "versions": versions(),
        "host": {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
        "tasks": {name: [class_name(s.task), s.task.fingerprint()] for name, s in config.sweeps.items()},
        "config": plain(config),
        "added_seeds": [],
    }
    manifest.write_bytes(folder / FILE, json.dumps(metadata, indent=1).encode(), START)
    write_toml(manifest, study, config)
    return read_metadata(folder)


def write_toml(manifest: Manifest, study: str, config: StudyConfig) -> None:
    """Write the configuration as ``config.toml``, where it is not there yet."""
    path = manifest.folder / SETTINGS
    if not manifest.holds(path):
        manifest.write_bytes(path, to_toml(study, config).encode(), START)


def check_settings(path: Path) -> None:
    """Raise RunError where a file of settings, or what it is a link to, is a run folder's and is not what it was."""
    path = Path(os.path.realpath(path)) if os.path.islink(path) else path  # pathlib asks for rights that may lack
    if path.name == SETTINGS and holds_run(path.parent):
        manifest = manifest_of(path.parent)
        manifest.remedies[SETTINGS] += " For other settings, change a copy of it in another folder."
        manifest.check(path)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Read ``run.json``; RunError where the folder is no run, is damaged, or has another format."""
    path, manifest = folder / FILE, manifest_of(folder)
    if not manifest.content.files:
        raise RunError(_no_run(path))
    try:
        metadata = read_json(manifest, path)
        if metadata["format"] != FORMAT:
            raise RunError(OTHER_FORMAT.format(path=path, format=metadata["format"]))
        wrong = [key for key, kind in KEYS.items() if not isinstance(metadata[key], kind)]
        wrong = wrong or [key for key, fits in WITHIN.items() if not fits(metadata[key])]
        if wrong:
            raise ValueError(f"wrong: {', '.join(wrong)}")
        return {key: metadata[key] for key in KEYS}
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} does not say what a run is ({error!r}). Move the folder away and run again.") from None


def _is_list_of(found: Any, kind: type) -> bool:
    return isinstance(found, list) and bool(found) and all(type(one) is kind for one in found)


def _no_run(path: Path) -> str:
    """What is wrong with a folder that has no manifest."""
    if not os.path.exists(path):
        inside = sorted(os.path.dirname(found) for found in glob(f"*/{FILE}", root_dir=path.parent))
        made = "Make one with 'rb-interp reproduce' or 'rb-interp train'."
        todo = f"Give one of the runs in it, such as {path.parent / inside[0]}." if inside else made
        return f"{path.parent} is not a run folder: it has no {FILE}. {todo}"
    try:
        format = json_of(bounded_bytes(path))["format"]
    except (OSError, ValueError, KeyError, TypeError):
        format = FORMAT
    if format == FORMAT:
        return f"{path.parent / MANIFEST} is missing. Put it back, or move the folder away and run again."
    return OTHER_FORMAT.format(path=path, format=format)


def holds_run(folder: Path) -> bool:
    """Whether a folder is a run folder, readable or not."""
    return os.path.exists(folder / FILE)  # pathlib's own raises for a path that is too long


def check_free(folder: Path) -> None:
    """Raise RunError where a folder holds other files, or a run that lost run.json: a new run is never beside them."""
    taken = os.path.exists(folder) and (not folder.is_dir() or not _leftovers(folder))
    if taken and not holds_run(folder):  # somebody may have begun one since it was looked at
        if folder.is_dir() and manifest_of(folder).content.files:
            read_metadata(folder)  # says what to do about a run whose run.json is lost
        raise RunError(f"{folder} exists and is not a run of rb_interp; nothing was changed. Give another folder.")


def _leftovers(folder: Path) -> bool:
    """Whether a folder holds nothing but what a process makes at its start, which may have been killed."""
    names = (LOCK, WRITER, MANIFEST)
    temporary = tuple(f".{name}." for name in (FILE, WRITER, MANIFEST))
    return all(path.name in names or path.name.startswith(temporary) for path in folder.iterdir())


def versions() -> dict[str, str]:
    """Installed versions of what results depend on."""
    found = {"rb-interp": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
