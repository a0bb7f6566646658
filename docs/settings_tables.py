"""Tables of all settings for configuration.md, made from the fields when the pages are built."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, field, fields, is_dataclass
from itertools import pairwise
from textwrap import dedent
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from rb_interp.runs.protocol import names, study
from rb_interp.settings import Settings, plain

HEAD = "| name | default | what it may be | meaning |\n|---|---|---|---|\n"


def tables() -> str:
    """One table for each class of settings of every installed study, its own fields alone."""
    found: dict[type, None] = {}
    for name in names():
        for preset in ("quick", "paper"):
            config = study(name).preset(preset)
            for value in (config, *config.sweeps.values()):
                for kind in classes(value):
                    found |= dict.fromkeys(reversed([each for each in kind.__mro__ if own(each)]))
    return "\n\n".join(f"### {kind.__name__}\n\n{HEAD}" + "\n".join(rows(kind)) for kind in found)


def own(kind: type) -> list[str]:
    """Fields that a class of settings has itself, or has another default or bound for."""
    known = {f.name for f in fields(kind)} if is_dataclass(kind) and issubclass(kind, Settings) else set()
    if kind.__name__.startswith("_"):
        return []
    return [name for name in vars(kind).get("__annotations__", {}) if name in known]


def classes(value: Any) -> Iterator[type]:
    """Classes of a value's settings, outer ones first."""
    if isinstance(value, Settings):
        yield type(value)
        for each in fields(value):  # pyright: ignore[reportArgumentType]
            yield from classes(getattr(value, each.name))


def rows(kind: Any) -> Iterator[str]:
    """A row for each field of a class."""
    hints, by_name = get_type_hints(kind, include_extras=True), {f.name: f for f in fields(kind)}
    for name in own(kind):
        told = next(text for each in kind.__mro__ if (text := meanings(each).get(name)))
        cells = (f"`{name}`", default(by_name[name]), bound(hints[name]), " ".join(told.split()))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def default(of: Any) -> str:
    """A field's default as TOML has it; a table of its own is named alone."""
    value = of.default if of.default is not MISSING else of.default_factory()
    if is_dataclass(value) or value is None:
        return "a table" if value is not None else ""
    [text] = plain(_One(value)).values()
    return f"`{str(text).lower() if isinstance(text, bool) else text!r}`"


class _One(Settings):
    value: Any = field()


def bound(hint: Any) -> str:
    """What a value may be, in words."""
    if get_origin(hint) is Annotated:
        inner, *told = get_args(hint)
        limits = {type(each).__name__: each for info in told for each in getattr(info, "metadata", ())}
        if {"Ge", "Le"} <= set(limits):
            kind = "whole number" if inner is int else "number"
            return f"{kind}, {limits['Ge'].ge:,} to {limits['Le'].le:,}".removesuffix(".0")
        keys = (("MinLen", "min_length", "at least"), ("MaxLen", "max_length", "at most"))
        many = [f"{words} {getattr(limits[name], key):,}" for name, key, words in keys if name in limits]
        return ", ".join([bound(inner), *many])
    inner = get_args(hint)
    if get_origin(hint) is tuple:
        return f"list of: {bound(inner[0])}" if Ellipsis in inner else f"[{'; '.join(map(bound, inner))}]"
    if get_origin(hint) is Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if NoneType in inner:
        return f"{bound(inner[0])}, or none"
    return {bool: "true or false", str: "text", Any: "a task"}.get(hint, getattr(hint, "__name__", str(hint)))


def meanings(kind: type) -> dict[str, str]:
    """The texts below the fields of a class."""
    if not own(kind):
        return {}
    [made] = ast.parse(dedent(inspect.getsource(kind))).body
    body = made.body if isinstance(made, ast.ClassDef) else []
    return {
        one.target.id: other.value.value
        for one, other in pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        and isinstance(other, ast.Expr) and isinstance(other.value, ast.Constant)
    }  # fmt: skip
