"""JSON that somebody else may have written: read within bounds, and told in one sentence where it is none."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import RunError, first_line

if TYPE_CHECKING:
    from rb_interp.manifest import Manifest

MOST_BYTES = 100_000_000
DEEPEST = 50
"""Lists within lists, at most; a run has about ten."""
MOST_DIGITS = 1000
TOO_DEEP = f"more than {DEEPEST} lists or objects within each other"


def json_of(content: bytes | str) -> Any:
    r"""What a JSON text says, with ``?`` in place of half characters, which no file and no page can hold.

    Raises ValueError for other text, for what is not UTF-8, and for more than 50 lists or objects within each other.

    >>> json_of(b'{"a": ["\\ud800", 1]}')
    {'a': ['?', 1]}
    """
    text = content.decode() if isinstance(content, bytes) else content
    try:
        found = json.loads(text, parse_int=_whole)
        if "\\ud" in text.lower():
            found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if _is_deep(found):
        raise ValueError(TOO_DEEP)
    return found


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _is_deep(found: Any) -> bool:
    level = [found]
    for _ in range(DEEPEST + 1):
        held = [one for one in level if isinstance(one, dict | list)]
        level = [item for one in held for item in (one.values() if isinstance(one, dict) else one)]
    return bool(held)


def bounded_bytes(path: Path) -> bytes:
    """The content of a small file; ValueError for what is no file or has more than 100 MB, OSError as of reading."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is a folder or a device, where a file should be")
    check_size(path)
    return path.read_bytes()


def check_size(path: Path) -> None:
    """Raise ValueError where a file has more than 100 MB."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"it has {size:,} bytes; expected at most {MOST_BYTES:,}")


def read_json(manifest: Manifest, path: Path, step: str = "") -> Any:
    """The content of a JSON file of a run; RunError as of `Manifest.read`, and for what `json_of` does not take."""
    remedy = manifest.remedy(manifest.name(path), step)
    try:
        if path.is_file():
            check_size(path)
        return json_of(manifest.read(path, step))
    except ValueError as error:
        raise RunError(f"{path} cannot be read as JSON ({first_line(error)}). {remedy}") from None
