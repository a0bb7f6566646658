"""Dataclasses that hold arrays or tables: compared by what they hold, and shown in a line.

Python compares the fields of two dataclasses as tuples, which fails for arrays: their ``==`` is an array. It prints
every array in full. A class that inherits from `WithArrays` does neither, and so do the classes that inherit from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line answers without numpy
    import numpy as np

SMALL = 4
"""A vector of so few numbers, and as many entries of a list or a mapping, are shown as they are."""
WIDE = 100
"""Characters of one value, at most."""


class WithArrays:
    """A dataclass that holds arrays, tensors or tables.

    Two are equal where they are of one class and all that they hold is equal; NaN equals NaN. The hash rests on
    numbers, texts and tuples of them, so it may be used in sets and as a key.

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Curve(WithArrays):
    ...     name: str
    ...     loss: np.ndarray
    >>> Curve("a", np.arange(9)) == Curve("a", np.arange(9)), len({Curve("a", np.arange(9)), Curve("a", np.ones(9))})
    (True, 2)
    >>> Curve("a", np.arange(9))
    Curve(name='a', loss=int64[9])
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("__eq__", "__hash__", "__repr__"):  # a dataclass leaves what its class defines
            if name not in vars(cls):
                setattr(cls, name, getattr(cls, name))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(alike(getattr(self, f.name), getattr(other, f.name)) for f in _fields(self) if f.compare)

    def __hash__(self) -> int:
        return hash((type(self), *(value for f in _fields(self) if _plain(value := getattr(self, f.name)))))

    def __repr__(self) -> str:
        told = (f"{f.name}={brief(value)}" for f in _fields(self) if not _left_out(f, value := getattr(self, f.name)))
        return f"{type(self).__name__}({', '.join(told)})"

    def _repr_html_(self) -> str:
        told = ((f.name, brief(getattr(self, f.name))) for f in _fields(self) if f.repr)
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in told)
        return f"<p>{escape(type(self).__name__)}</p>\n<table>{rows}</table>"


def _fields(record: Any) -> tuple[Field, ...]:
    return fields(record)


def _plain(value: Any) -> bool:
    """Whether equal values have equal hashes; of floats NaN is equal here, and has another hash each time."""
    if isinstance(value, tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, int | str)


def _left_out(field: Field, value: Any) -> bool:
    """Whether a value is not shown: one that is the default."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return not field.repr or (default is not MISSING and alike(value, default))


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal: numbers, arrays, tensors, tables, and lists and mappings of them.

    >>> import numpy as np
    >>> alike({"a": [np.array([1.0, np.nan])]}, {"a": [np.array([1.0, np.nan])]}), alike(np.ones(2), np.ones(3))
    (True, False)
    """
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(alike, one, other))
    if hasattr(one, "equals") and type(one) is type(other):
        table: Any = one  # of pandas
        return bool(table.equals(other))
    if hasattr(one, "shape") or hasattr(other, "shape"):
        one, other = _array(one), _array(other)
        if one.shape != other.shape:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    return bool(one == other or (one != one and other != other))


def _array(value: Any) -> np.ndarray:
    """A tensor or anything else as an array."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value  # numpy has no such type
    return np.asarray(value)


def brief(value: Any) -> str:
    """A value in a few words: arrays by type and shape, long lists and mappings by their first entries.

    >>> import numpy as np
    >>> brief({"key": np.zeros((200, 1))}), brief(np.array([0.5, 1 / 3])), brief(list(range(9)))
    ("{'key': float64[200, 1]}", '[0.5, 0.3333]', '[0, 1, 2, 3, ... 5 more]')
    """
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return brief(value.item())
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "columns") and hasattr(value, "shape"):
        return f"table of {value.shape[0]} rows, {value.shape[1]} columns"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if len(value.shape) == 1 and 0 < value.shape[0] <= SMALL:
            return f"[{', '.join(map(brief, value.tolist()))}]"
        kind = "str" if getattr(value.dtype, "kind", "") == "U" else str(value.dtype).removeprefix("torch.")
        return f"{kind}{list(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(_some([f"{key!r}: {brief(item)}" for key, item in _first(value.items())], value)) + "}"
    if type(value) in (list, tuple):
        start, end = "[]" if isinstance(value, list) else "()"
        told = ", ".join(_some([brief(item) for item in _first(value)], value))
        return f"{start}{told}{',' if len(value) == 1 and start == '(' else ''}{end}"
    text = repr(value)
    if len(text) <= WIDE or isinstance(value, WithArrays):
        return text
    return f"{text[: WIDE - 3]}..." if isinstance(value, str | bytes) else f"{type(value).__name__}(...)"


def _first(values: Any) -> list[Any]:
    return [item for item, _ in zip(values, range(SMALL), strict=False)]


def _some(told: list[str], values: Any) -> list[str]:
    """Entries that are shown, and how many are not."""
    return told if len(values) <= SMALL else [*told, f"... {len(values) - SMALL} more"]
