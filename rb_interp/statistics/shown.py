"""Results that have a table, which a notebook shows, and ``print`` with all its columns."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from rb_interp.arrays import WithArrays

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 120
"""Characters of a line of text, at most; columns that do not fit stand below the others."""
NUMBER = "{:.4g}".format


class Shown(NamedTuple):
    """What is shown of a result: its table, a caption above it, and notes below."""

    caption: str
    table: pd.DataFrame
    notes: Sequence[str] = ()


class WithTable(WithArrays):
    """A record whose ``shown()`` is what a notebook and ``print`` show; in a list it is its ``repr``, one line."""

    def shown(self) -> Shown:
        """Caption, table and notes."""
        raise NotImplementedError

    def __str__(self) -> str:
        caption, table, notes = self.shown()
        text = table.to_string(index=False, na_rep="", float_format=NUMBER, line_width=WIDTH)
        return "\n".join([caption, *(line.rstrip() for line in text.splitlines()), *notes])

    def _repr_html_(self) -> str:
        caption, table, notes = self.shown()
        told = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f"<p>{escape(caption)}</p>\n{table.to_html(index=False, na_rep='', float_format=NUMBER)}{told}"
