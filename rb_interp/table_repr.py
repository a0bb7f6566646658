"""Results and rows that hold arrays or tables: one line in a list, a table for ``print`` and in a
notebook; and what the axis of a number is called."""

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
ATTENTION = "share of attention"
UNITS = {
    **dict.fromkeys(("attention_by_role", "attention", "attention_to_key"), ATTENTION),
    "uniformity": "total variation distance, or share",
    "variance_explained": "share of variance explained",
    "value_alignment": "cosine or share; ratio of singular values",
    "geometry": "cosine, ratio, or number of dimensions",
    **dict.fromkeys(("cosines_by_target", "token_similarity"), "cosine"),
    **dict.fromkeys(("condensation", "next_token"), "cosine, correlation, share, or a count"),
    "head_circuits": "score, or share of attention",
    **dict.fromkeys(("embedding_rank", "weight_rank"), "number of directions, or share"),
    "weight_spectra": "number of directions",
    **dict.fromkeys(("label_range", "chain", "chain_accuracy"), "share, or loss (nats)"),
    "lattice": "cosine, share, or number of dimensions",
    "logit_lens": "rank (tokens), probability, or logit difference (nats)",
    "lost": "share lost",
    "moved_as_predicted": "share of rows that answer as predicted",
    "recovered": "share recovered",
    "loss": "loss (nats)",
    "accuracy": "accuracy (share of rows)",
}
"""Probe, or quantity of an effect or a curve -> what an axis of its numbers is called."""
METRICS = {
    **dict.fromkeys(("loss", "logit", "logit_diff"), "nats"),
    "kl": "nats, of the KL divergence",
    "probability": "in [0, 1]",
    "accuracy": "share of rows",
    "rank": "tokens that are likelier",
}
"""Metric -> its unit."""


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


def unit_of(quantity: str) -> str:
    """What an axis of an effect is called.

    >>> unit_of("logit_diff_drop"), unit_of("recovered"), unit_of("own_change")
    ('drop of logit_diff (nats)', 'share recovered', 'change of own')
    """
    metric, _, way = quantity.rpartition("_")
    if way not in ("increase", "drop", "change"):
        return UNITS.get(quantity, quantity)
    return f"{way} of {metric}" + (f" ({METRICS[metric]})" if metric in METRICS else "")
