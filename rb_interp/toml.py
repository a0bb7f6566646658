"""A configuration as TOML text, to be saved and run again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rb_interp.errors import ConfigError


def to_toml(config: Mapping[str, Any]) -> str:
    """Write a nested dict as TOML; None is left out, since TOML has no such value and it stands for a default.

    Raises ConfigError for a value that is no number, string, list or dict.

    >>> print(to_toml({"seeds": [0, 1], "task": {"q": 2, "name": None}}), end="")
    seeds = [0, 1]
    <BLANKLINE>
    [task]
    q = 2
    """
    return "\n".join(_lines(config, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {k: v for k, v in table.items() if v is not None and not isinstance(v, Mapping)}
    nested = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    lines = [f"{_key(key)} = {_value(value, (*path, key))}" for key, value in plain.items()]
    if path and lines:
        lines = ["", f"[{'.'.join(map(_key, path))}]", *lines]
    for key, value in nested.items():
        lines += _lines(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else json.dumps(str(key))


def _value(value: Any, path: tuple[str, ...]) -> str:
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()  # a numpy number
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item, path) for item in value)}]"
    if isinstance(value, Mapping):
        inside = (f"{_key(k)} = {_value(v, (*path, k))}" for k, v in value.items() if v is not None)
        return f"{{ {', '.join(inside)} }}"
    raise ConfigError(
        f"{'.'.join(path)} is a {type(value).__name__}, which TOML cannot hold; give a number, string, list or dict."
    )
