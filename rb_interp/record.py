"""Results and rows that hold arrays or tables: one line in a list, a table for ``print`` and in a notebook."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line answers without pandas
    import pandas as pd

WIDTH = 120
"""Characters of a line of text, at most; columns that do not fit stand below the others."""
NUMBER = "{:.4g}".format


class Record:
    """What a dataclass with arrays inherits; it is declared with ``eq=False, repr=False``.

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Curve(Record):
    ...     name: str
    ...     loss: np.ndarray
    >>> Curve("a", np.arange(9))
    Curve(name='a', loss=int64[9])
    """

    def shown(self) -> tuple[str, pd.DataFrame, Sequence[str]] | None:
        """Caption, table and notes that ``print`` and a notebook show; None for what is shown in a line."""
        return None

    def __repr__(self) -> str:
        told = (f"{field.name}={BRIEF.repr(getattr(self, field.name))}" for field in fields(self))  # type: ignore
        return f"{type(self).__name__}({', '.join(told)})"

    def __str__(self) -> str:
        if (shown := self.shown()) is None:
            return repr(self)
        caption, table, notes = shown
        text = table.to_string(index=False, na_rep="", float_format=NUMBER, line_width=WIDTH)
        return "\n".join([caption, *(line.rstrip() for line in text.splitlines()), *notes])

    def _repr_html_(self) -> str:
        if (shown := self.shown()) is None:
            return f"<p>{escape(repr(self))}</p>"
        caption, table, notes = shown
        told = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f"<p>{escape(caption)}</p>\n{table.to_html(index=False, na_rep='', float_format=NUMBER)}{told}"


class _Brief(reprlib.Repr):
    """A value in a few words: arrays by type and shape, long lists and mappings by their first entries."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Record) or not getattr(x, "shape", ()):
            return repr(x) if isinstance(x, Record) else super().repr1(x, level)
        dtype = getattr(x, "dtype", "table")
        kind = "str" if getattr(dtype, "kind", "") == "U" else str(dtype).removeprefix("torch.")
        return f"{kind}{list(x.shape)}"


BRIEF = _Brief()
BRIEF.maxother = BRIEF.maxstring = 100
