"""The word lists and story plots, as files that can be edited; each is read once, at its first use."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any


def table_text(name: str) -> str:
    """The text of a file of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def table(name: str) -> dict[str, Any]:
    """A TOML file of this folder as a dict. All callers get the same one, so none may change it.

    >>> table("story_words.toml")["pronouns"]["girl"]
    ['she', 'her', 'her', 'herself']
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(table_text(name))
