"""What ``manifest.json`` says: files with their checksums, steps with what they were made from. Written and read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rb_interp import __version__
from rb_interp.bounds import check_path
from rb_interp.checks import shown
from rb_interp.errors import ConfigError, RunError, first_line
from rb_interp.json_files import bounded_bytes, json_of

FILE, FORMAT = "manifest.json", "rb_interp manifest 1"


@dataclass(frozen=True)
class Entry:
    """A file: its checksum (SHA-256), the step that it belongs to, and the version of the code that wrote it.

    ``before`` is the checksum of the file that it replaces, while it is being replaced; "" where there was none.
    """

    sha256: str
    step: str
    version: str
    before: str | None = None


@dataclass(frozen=True)
class Step:
    """A step that is finished: when, by which version of the code, and digests of the steps that it was made from."""

    made_from: dict[str, str]
    version: str
    finished: str


Making = tuple[Step | None, str]
"""The record of a step, None where it is not finished, and a digest of its files; a new making changes them."""


@dataclass(frozen=True)
class Content:
    """What a manifest says. ``fingerprint`` is that of the configuration."""

    fingerprint: str = ""
    files: dict[str, Entry] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)

    def digest(self, step: str) -> str:
        """A checksum over all files of a step."""
        lines = sorted(f"{name} {entry.sha256}\n" for name, entry in self.files.items() if entry.step == step)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def made(self, step: str) -> Making:
        """What was made last of a step."""
        return self.steps.get(step), self.digest(step)

    def moving(self, step: str) -> bool:
        """Whether the files of a step are being moved into place, or a writer was killed while they were."""
        return step not in self.steps and any(
            entry.step == step and entry.before is not None for entry in self.files.values()
        )


def packed(content: Content) -> bytes:
    """The bytes of the file, with a checksum of their own."""
    plain = {"format": FORMAT, **asdict(content)}
    return json.dumps({"sha256": hashlib.sha256(_canonical(plain)).hexdigest(), **plain}, indent=1).encode()


def parsed(path: Path) -> Content:
    """What a manifest says; RunError with a sentence where it is damaged, too large or of another format."""
    try:
        if not real(path).is_relative_to(real(path.parent)):
            raise ValueError("it is a link that leads out of its folder")
        text = json_of(bounded_bytes(path))
        if text["format"] != FORMAT:
            raise RunError(f"{path} has the format {shown(text['format'])}; this version reads {FORMAT!r}.")
        if hashlib.sha256(_canonical({k: v for k, v in text.items() if k != "sha256"})).hexdigest() != text["sha256"]:
            raise ValueError("its own checksum is another one")
        files = {str(name): Entry(**entry) for name, entry in text["files"].items()}
        steps = {str(name): Step(**step) for name, step in text["steps"].items()}
        for name, entry in files.items():
            check_path("the file", name)
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError("it names files outside its folder")
            if Path(name).as_posix() != name or name == ".":
                raise ValueError(f"it names a file {shown(name)}; expected a path such as figures/a.svg")
            _check_texts(entry.sha256, entry.step, entry.version, "" if entry.before is None else entry.before)
        for step in steps.values():
            _check_texts(step.version, step.finished, *step.made_from.values())
        _check_order(steps)
        return Content(str(text["fingerprint"]), files, steps)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise RunError(
            f"{path} is damaged ({first_line(error)}), so nothing in its folder can be trusted. Put a sound copy of "
            f"it back; where there is none, move the folder away and run again."
        ) from None


def _check_texts(*values: Any) -> None:
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise ValueError(f"it has {shown(wrong[0])}, where a text should be")


def _check_order(steps: Mapping[str, Step]) -> None:
    """Raise ValueError where a step was made from itself, by way of others or at once."""
    left = dict(steps)
    while first := [name for name, step in left.items() if not left.keys() & step.made_from.keys()]:
        for name in first:
            del left[name]
    if left:
        raise ValueError(f"it says that steps were made from one another: {', '.join(map(shown, sorted(left)))}")


def _canonical(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, sort_keys=True).encode()


@cache
def code_version(*folders: Path) -> str:
    """The version of this package with a checksum of its source, and of the source in further folders."""
    total = hashlib.sha256()
    for folder in (Path(__file__).parents[1], *folders):
        for path in sorted(folder.rglob("*.py")):
            total.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return f"{__version__}+{total.hexdigest()[:8]}"


def real(path: Path) -> Path:
    """A path without links; of links in a circle as far as they can be followed, where `Path.resolve` raises."""
    return Path(os.path.realpath(path))
