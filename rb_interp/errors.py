"""The one exception family: each message says what was given, what was expected, and what to do
next."""

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class RbInterpError(Exception):
    """Base of every error that this package raises on purpose; its message is `printable`, whatever
    it quotes."""

    def __str__(self) -> str:
        r"""The message.

        >>> print(RunError("a \x1b[2J in the name of a table"))
        a \x1b[2J in the name of a table
        """
        return printable(super().__str__())


class ArgumentError(RbInterpError, TypeError):
    """An argument is of another kind than a function takes, or outside its range."""


class TaskError(RbInterpError):
    """A task's settings contradict each other."""


class RolesError(RbInterpError):
    """A probe asks for a role that the rows at hand do not carry."""


class ModelError(RbInterpError):
    """A model, or the settings to build one, are not what a function needs."""


class ConfigError(RbInterpError):
    """A configuration has an unknown key or a value out of range."""


class TextError(RbInterpError):
    """A text, a tokenizer or a corpus cannot be used."""


class StudyError(RbInterpError):
    """A study is not known, or does not load."""


class RunError(RbInterpError):
    """A run folder cannot be used, continued or written."""


MAX_NAMES = 24
"""Names that a hint lists, at most."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known name, or lists what is known.

    >>> nearest("attn", ["pattern", "attn_out"])
    "did you mean 'attn_out'?"
    >>> nearest("zzz", ["gamma", "seed"])
    'known: gamma, seed'
    >>> nearest("zzz", ["", "seed"])
    "known: '' (no name), seed"
    """
    options = sorted(known)
    close = sorted(
        get_close_matches(str(name), options), key=lambda option: not option.startswith(str(name))
    )
    if close:
        return f"did you mean '{close[0]}'?"
    more = f" and {len(options) - MAX_NAMES} more" if len(options) > MAX_NAMES else ""
    names = [option or "'' (no name)" for option in options[:MAX_NAMES]]
    return f"known: {', '.join(names)}{more}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without a full stop."""
    return (str(error).strip() or "no reason given").splitlines()[0].rstrip(".")


def printable(text: str) -> str:
    r"""A text for a terminal: control characters, which it would obey, are shown as Python writes
    them.

    >>> printable("two\nlines, \x1b[2J")
    'two\nlines, \\x1b[2J'
    """
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf") else repr(c)[1:-1]
        for c in text
    )


def describe(value: Any) -> str:
    """A value as a message shows it: short ones as they are, others by their type.

    >>> describe(-1), describe(object)
    ('-1', "<class 'object'>")
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {list(value.shape)} and type {value.dtype}"
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
