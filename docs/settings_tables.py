"""Tables of all settings for configuration.md, made from the fields when the pages are built."""

import ast
import inspect
import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import TypeAdapter

from rb_interp.runs.config import study_names
from rb_interp.runs.studies import study
from rb_interp.settings import Settings

HEAD = "| name | default | what it may be | meaning |\n|---|---|---|---|\n"
LENGTHS = {"minItems": "at least", "maxItems": "at most"}


def tables() -> str:
    """One table for each class of settings of every installed study: its own fields, and those that
    it changes."""
    found: dict[type, None] = {}
    for name in study_names():
        for preset in ("quick", "paper"):
            config = study(name).preset(preset)
            for value in (config, *config.sweeps.values()):
                for kind in classes(value):
                    found |= dict.fromkeys(reversed([each for each in kind.__mro__ if own(each)]))
    return "\n\n".join(f"### {kind.__name__}\n\n{HEAD}" + "\n".join(rows(kind)) for kind in found)


def classes(value: Any) -> Iterator[type]:
    """Classes of a value's settings, outer ones first."""
    if isinstance(value, Settings):
        yield type(value)
        for each in fields(value):
            yield from classes(getattr(value, each.name))


def own(kind: type) -> list[str]:
    """Fields that a class of settings has itself, or has another default or bound for."""
    if not issubclass(kind, Settings) or kind is Settings or kind.__name__.startswith("_"):
        return []
    known = {each.name for each in fields(kind)}
    return [name for name in vars(kind).get("__annotations__", {}) if name in known]


def rows(kind: type) -> Iterator[str]:
    """A row for each field of a class."""
    specs = TypeAdapter(kind).json_schema()["properties"]
    for name in own(kind):
        meaning = next(text for each in kind.__mro__[:-2] if (text := meanings(each).get(name)))
        given = specs[name].get("default", {})
        default = (
            "a table"
            if isinstance(given, dict)
            else ""
            if given is None
            else f"`{json.dumps(given)}`"
        )
        cells = (f"`{name}`", default, bound(specs[name]), " ".join(meaning.split()))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def bound(spec: dict[str, Any]) -> str:
    """What a value may be, in words."""
    match spec:
        case {"enum": values}:
            return ", ".join(f"`{each}`" for each in values)
        case {"anyOf": kinds}:
            return ", or ".join(map(bound, kinds))
        case {"$ref": place}:
            return place.rpartition("/")[2]
        case {"minimum": low, "maximum": high, "type": kind}:
            return f"{'whole number' if kind == 'integer' else 'number'}, {low:,} to {high:,}".removesuffix(
                ".0"
            )
        case {"prefixItems": items}:
            return f"[{'; '.join(map(bound, items))}]"
        case {"items": item}:
            limits = (f", {word} {spec[key]:,}" for key, word in LENGTHS.items() if key in spec)
            return f"list of: {bound(item)}" + "".join(limits)
    return {"string": "text", "boolean": "true or false", "null": "none"}.get(
        spec.get("type", ""), "a task"
    )


def meanings(kind: type) -> dict[str, str]:
    """The texts below the fields of a class."""
    [made] = ast.parse(dedent(inspect.getsource(kind))).body
    return {
        one.target.id: other.value.value
        for one, other in pairwise(made.body)
        if isinstance(one, ast.AnnAssign) and isinstance(other, ast.Expr)
    }
