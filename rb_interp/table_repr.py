"""Results and rows that hold arrays or tables: one line in a list, a table for ``print`` and in a
notebook."""

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


class TableRepr:
    """What a dataclass with arrays inherits; it is declared with ``eq=False, repr=False``.

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Curve(TableRepr):
    ...     name: str
    ...     loss: np.ndarray
    >>> Curve("a", np.arange(9))
    Curve(name='a', loss=int64[9])
    """

    def table_view(self) -> tuple[str, pd.DataFrame, Sequence[str]] | None:
        """Caption, table and notes that ``print`` and a notebook show; None for what is shown in a
        line."""
        return None

    def __repr__(self) -> str:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={short_repr(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({values})"

    def __str__(self) -> str:
        view = self.table_view()
        if view is None:
            return repr(self)
        caption, table, notes = view
        text = table.to_string(index=False, na_rep="", float_format=NUMBER, line_width=WIDTH)
        return "\n".join([caption, *(line.rstrip() for line in text.splitlines()), *notes])

    def _repr_html_(self) -> str:
        view = self.table_view()
        if view is None:
            return f"<p>{escape(repr(self))}</p>"
        caption, table, notes = view
        page = table.to_html(index=False, na_rep="", float_format=NUMBER)
        paragraphs = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f"<p>{escape(caption)}</p>\n{page}{paragraphs}"


class _ShortRepr(reprlib.Repr):
    """A value in a few words: arrays by type and shape, long lists and mappings by their first
    entries."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, TableRepr) or not getattr(x, "shape", ()):
            return repr(x) if isinstance(x, TableRepr) else super().repr1(x, level)
        dtype = getattr(x, "dtype", "table")
        kind = "str" if getattr(dtype, "kind", "") == "U" else str(dtype).removeprefix("torch.")
        return f"{kind}{list(x.shape)}"


_short = _ShortRepr()
_short.maxother = 100
_short.maxstring = 100
short_repr = _short.repr
