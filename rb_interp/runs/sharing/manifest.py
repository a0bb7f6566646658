"""``manifest.json`` of a shared member: which member it is, and the SHA-256 of each of its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rb_interp.errors import RunError, first_line
from rb_interp.runs.store import write_file

FILE = "manifest.json"


def real(path: Path) -> Path:
    """A path without links."""
    return Path(os.path.realpath(path))


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a member's manifest says; RunError if it is missing or damaged, or leads out of its folder."""
    if not real(folder / FILE).is_relative_to(real(folder)):
        raise RunError(f"{folder / FILE} is a link that leads out of its folder; get a sound copy of the folder.")
    try:
        content = json.loads((folder / FILE).read_bytes())
        return {"fingerprint": content["fingerprint"], "files": dict(content["files"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder / FILE} is damaged ({first_line(error)}); get a sound copy of the folder.") from None


def write_manifest(folder: Path, fingerprint: str, files: Mapping[str, bytes]) -> None:
    """Write the manifest of files."""
    sums = {name: {"sha256": hashlib.sha256(held).hexdigest()} for name, held in files.items()}
    content = {"format": "rb_interp manifest 1", "fingerprint": fingerprint, "files": sums}
    write_file(folder / FILE, json.dumps(content, indent=1).encode())


def read_file(path: Path) -> bytes:
    """The content of a member's file; RunError if it is missing, is not what it was, or leads out of its folder."""
    entry = read_manifest(path.parent)["files"].get(path.name)
    if entry is None or not path.is_file():
        raise RunError(f"{path} is not there yet; get a sound copy of the folder.")
    if not real(path).is_relative_to(real(path.parent)):
        raise RunError(f"{path} is a link that leads out of its folder; get a sound copy of the folder.")
    held = path.read_bytes()
    if hashlib.sha256(held).hexdigest() != entry["sha256"]:
        raise RunError(f"{path} is damaged, or something else has changed it; get a sound copy of the folder.")
    return held
