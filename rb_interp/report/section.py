"""The elements of a report, as data. A study fills them, one template shows them, and report.json holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from rb_interp.errors import StudyError, nearest

__all__ = [
    "Cell",
    "Choice",
    "Details",
    "Figure",
    "Heading",
    "Narrative",
    "Paragraph",
    "Row",
    "Section",
    "Table",
    "Terms",
]


@dataclass(frozen=True)
class Paragraph:
    """Text. ``kind`` is ``text``, ``soft`` (small print) or ``warning`` (what a reader must not overlook)."""

    text: str
    kind: Literal["text", "soft", "warning"] = "text"


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: main line. notes: small lines below it.
        verdict: HOLDS, FAILS, OPEN or NOT JUDGED, shown as a badge in front.
        badge: a word in a frame, ``good`` or plain.
        link: id of a place on the page. colour: id of a set of inputs, whose colour marks the cell.
        head: whether this is a heading of its row. number: whether the text is a number or an interval.
        columns, rows: how many it spans.
    """

    text: str = ""
    notes: tuple[str, ...] = ()
    verdict: str = ""
    badge: str = ""
    good: bool = False
    link: str = ""
    colour: str = ""
    head: bool = False
    number: bool = True
    columns: int = 1
    rows: int = 1


@dataclass(frozen=True)
class Row:
    """One row; ``group`` is a heading above it where it differs from the row before, ``group_note`` small beside it."""

    cells: tuple[Cell, ...]
    group: str = ""
    group_note: str = ""


@dataclass(frozen=True)
class Table:
    """A table. ``columns`` are its headings; each row has one cell a column unless cells span several."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    dense: bool = False


@dataclass(frozen=True)
class Choice:
    """Tables behind a switch: the reader sees one at a time, by its word. ``name`` is unique on the page."""

    name: str
    options: Mapping[str, Table]


@dataclass(frozen=True)
class Terms:
    """Terms and their meanings."""

    meanings: Mapping[str, str]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section, with its own place on the page where ``id`` is given."""

    text: str
    id: str = ""


@dataclass(frozen=True)
class Details:
    """Blocks that are closed at first; a click on their line opens them."""

    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Figure:
    """A figure of the study, by its id, with title and caption; it then does not stand among the figures at the end."""

    id: str


Block = Paragraph | Table | Choice | Terms | Heading | Details | Figure


@dataclass(frozen=True)
class Section:
    """A section of the report. ``short`` is its word in the navigation, ``id`` its place on the page."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    short: str = ""


@dataclass(frozen=True)
class Narrative:
    """What a study says of a run, in words and tables.

    Attributes:
        answer: sentences of the answer in short. warnings: what a reader must not overlook, beside what every report
            warns of (few seeds, smoke runs, probes without calibration, claims met by untrained models).
        sections: between the verdicts and the figures, in order.
    """

    answer: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()


def placed_figures(sections: Iterable[Section], known: Collection[str]) -> dict[str, str]:
    """Id of each figure that a section shows -> id of that section.

    Args:
        known: ids of the study's figures.

    Raises StudyError for a figure that the study does not have, or that stands in two places.

    >>> placed_figures([Section("own", "Own", (Paragraph("Look:"), Figure("curves")))], ["bias", "curves"])
    {'curves': 'own'}
    """
    placed: dict[str, str] = {}
    for section in sections:
        for id in _figures(section.blocks):
            if id not in known:
                raise StudyError(f"section '{section.id}' shows the figure '{id}', which is none; {nearest(id, known)}")
            if id in placed:
                raise StudyError(
                    f"figure '{id}' stands in section '{placed[id]}' and again in '{section.id}'; show it once."
                )
            placed[id] = section.id
    return placed


def _figures(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block.id
        elif isinstance(block, Details):
            yield from _figures(block.blocks)
