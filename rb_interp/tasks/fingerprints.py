"""What a task is, in twelve hex digits: its class and its settings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from rb_interp.checks import checked, shown
from rb_interp.errors import TaskError


@checked
def fingerprint(task: Any) -> str:
    """Twelve hex digits that two dataclasses share exactly when class and settings are the same.

    The class counts as ``module:qualname``, so a subclass differs from its parent. Fields with ``compare=False`` do not
    count.

    Raises TaskError for what is no dataclass, and for a setting that is no plain data.

    >>> from rb_interp.tasks import AnchorTask
    >>> [fingerprint(AnchorTask()) == fingerprint(other) for other in (AnchorTask(q=2), AnchorTask(length=6))]
    [True, False]
    """
    if not is_dataclass(task) or isinstance(task, type):
        raise TaskError(f"{shown(task)} is no instance of a dataclass; write a fingerprint() of its own.")
    return hashlib.sha256(json.dumps(_plain(task, ""), sort_keys=True).encode()).hexdigest()[:12]


def class_name(value: Any) -> str:
    """``module:qualname`` of a value's class."""
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _plain(value: Any, name: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        settings = {f.name: _plain(getattr(value, f.name), f"{name}.{f.name}") for f in fields(value) if f.compare}
        return {"class": class_name(value), "settings": settings}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TaskError(
        f"the setting '{name[1:]}' is a {type(value).__name__}, which is no plain data; give numbers, texts, lists, "
        f"mappings or dataclasses, or mark the field with field(compare=False)."
    )
