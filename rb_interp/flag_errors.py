"""One sentence about flags that cannot be read, in place of the box that the parser of the command line prints."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from rb_interp.bounds import kind_in_words, value_text
from rb_interp.errors import ConfigError, first_line

NO_FLAGS = {"run": "the run folder", "study": "the study", "to": "the new folder"}
"""Fields of a command that are words without a flag."""


def in_one_sentence(read: Callable[[], Any], words: Sequence[str], command: Any, help: str) -> Any:
    """What ``read`` makes of the words after a command; ConfigError with a sentence where its parser refuses them.

    Args:
        read: calls the parser. It prints a box and exits where it cannot read the words.
        words: what stands behind the command. command: its dataclass, or one that holds its defaults.
        help: the command line that lists all flags.
    """
    output = io.StringIO()
    try:
        with redirect_stderr(output):
            return read()
    except AssertionError as error:  # as of a shell whose completion the parser cannot print
        raise ConfigError(f"{first_line(error).rstrip('.')}. '{help}' lists all flags.") from None
    except SystemExit as stop:
        if not stop.code:
            raise
        box = output.getvalue()
        output = io.StringIO()
    finally:
        if output.getvalue():
            sys.stderr.write(output.getvalue())
    raise ConfigError(f"{_wrong(box, list(words), flags_of(command), command)} '{help}' lists all.")


def too_many(words: Sequence[str], command: Any, help: str) -> ConfigError:
    """The error where a word was taken for a study's name, and stands behind a flag that takes no more words."""
    return ConfigError(f"{_wrong('', list(words), flags_of(command), command)} '{help}' lists all.")


def flags_of(command: Any, at: str = "--", short: bool = False) -> dict[str, Any]:
    """Flag -> the annotation of its value.

    Args:
        command: a dataclass, or its class. at: what stands before the names. short: whether inner names stand alone.

    >>> from rb_interp.flags import Ablate
    >>> list(flags_of(Ablate))[:3], flags_of(Ablate)["--n"]
    (['--sites', '--gammas', '--stage'], <class 'int'>)
    """
    hints, found = get_type_hints(command if isinstance(command, type) else type(command)), {}
    for field in fields(command):
        value, name = getattr(command, field.name, None), field.name.replace("_", "-")
        if is_dataclass(value) and not isinstance(value, type):
            alone = short or (field.name == "settings" and "" in getattr(value, "sweeps", ()))
            inner = at if alone or field.name == "settings" else f"{at}{name}."
            found |= flags_of(value, inner, alone)
        elif field.name not in NO_FLAGS:
            found[f"{at}{name}"] = hints[field.name]
            if hints[field.name] is bool:
                found[f"{at}no-{name}"] = bool
    return found


def _wrong(box: str, words: list[str], flags: Mapping[str, Any], command: Any) -> str:
    """What is wrong with the words, as a sentence that ends in a full stop or a question mark."""
    given = _given(words)
    for flag in given:
        if flag not in flags:
            return f"there is no flag {value_text(flag)}{_hint(flag, flags)}"
    text = re.sub(r"\x1b\[[0-9;]*m|[^!-~]", "", box).split("Argumenthelptext")[0]
    named = [flag for flag in given if flag in text]
    named = named or [flag for flag, values in given.items() if len(values) > _most(flags[flag])]
    if named and "Missingfrom" not in text:
        flag = min(named, key=lambda flag: (text.find(flag), -len(flag)))
        got = value_text(" ".join(given[flag])) if given[flag] else "nothing"
        return f"{flag} got {got}; expected {_expected(flag, flags[flag])}."
    if "Missingfrom" not in text:
        return f"there is no place for {value_text(words[-1])}."
    places = [name for name in NO_FLAGS if name in {field.name for field in fields(command)}]
    if places:
        stood = len(list(takewhile(lambda word: not _is_flag(word), words)))
        return f"{NO_FLAGS[places[min(stood, len(places) - 1)]]} is missing."
    return f"the flags cannot be read ({' '.join(re.sub(r'[^ -~]', ' ', box).split())})."


def _given(words: Iterable[str]) -> dict[str, list[str]]:
    """Flag -> the words behind it."""
    found: dict[str, list[str]] = {}
    flag = None
    for word in words:
        if _is_flag(word):
            name, equals, value = word.partition("=")
            flag = name.replace("_", "-")
            found[flag] = [value] if equals else []
        elif flag is not None:
            found[flag].append(word)
    return found


def _is_flag(word: str) -> bool:
    """Whether a word is a flag, not a number below 0."""
    if not word.startswith("-"):
        return False
    with suppress(ValueError):
        float(word)
        return False
    return True


def _hint(flag: str, flags: Iterable[str]) -> str:
    """The nearest known flag; else the one whose last word is nearest."""
    last = {name.lstrip("-").split(".")[-1]: name for name in reversed(list(flags))}
    own = flag.lstrip("-").split(".")[-1]
    close = [] if own in last and "." not in flag else get_close_matches(flag, list(flags), n=1)
    close = close or [last[name] for name in get_close_matches(own, last, n=1)]
    return f"; did you mean '{close[0]}'?" if close else "."


def _most(hint: Any) -> float:
    """How many words a flag takes at most."""
    inner = get_args(hint)
    if hint is bool:
        return 0
    if get_origin(hint) is not tuple:
        return 1
    return float("inf") if Ellipsis in inner else len(inner)


def _expected(flag: str, hint: Any) -> str:
    """What a flag takes, in words."""
    if hint is bool:
        yes = re.sub(r"(--|\.)no-(?=[^.]*$)", r"\1", flag)
        no = re.sub(r"(--|\.)(?=[^.]*$)", r"\1no-", yes)
        return f"no value: {yes} says yes, {no} says no"
    if Path in (hint, *get_args(hint)):
        return "a path"
    kind = kind_in_words(hint).replace("none", "None").split(" without ")[0]
    many = get_origin(hint) is tuple
    lists = many and get_args(get_args(hint)[0])[1:] == (Ellipsis,)
    return f"{kind}{', such as 11,13 13,11' if lists else ', with spaces between them' if many else ''}"
