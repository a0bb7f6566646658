"""A figure of a report: a name, a drawing, and a caption with what would refute the claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rb_interp.figures.evidence import Evidence

__all__ = ["Caption", "FigureSpec", "on_sweep"]


Shown = TypeVar("Shown")


@dataclass(frozen=True)
class Caption:
    """What a figure shows in this run, and what would have refuted the claim."""

    seen: str
    would_refute: str

    def __str__(self) -> str:
        return f"{self.seen} Would refute: {self.would_refute}"


@dataclass(frozen=True)
class FigureSpec:
    """One figure.

    Attributes:
        id: file name without its ending. title: heading in the report.
        draw: Evidence -> Figure. caption: Evidence -> Caption.
        claims: ids of the claims that it bears on.

    Where ``draw`` or ``caption`` raises MissingEvidenceError, the figure is that sentence.
    """

    id: str
    title: str
    draw: Callable[[Evidence], Figure]
    caption: Callable[[Evidence], Caption]
    claims: tuple[str, ...] = ()


def on_sweep(sweep: str, shown: Callable[..., Shown], **options: Any) -> Callable[[Evidence], Shown]:
    """A drawing or a caption of a single sweep, for a study of several.

    Args:
        sweep: its name. shown: takes the sweep's evidence and ``options``.
    """
    return lambda evidence: shown(evidence.sweep(sweep), **options)
