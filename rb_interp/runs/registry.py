"""The installed studies: found by the entry-point group ``rb_interp.studies``, and loaded one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from rb_interp.errors import StudyError, first_line, nearest
from rb_interp.runs.protocol import GROUP, Study, distribution
from rb_interp.typed import typed

DEFAULT = "anchor"
"""The study that is meant where none is named."""


@dataclass(frozen=True)
class InstalledStudy:
    """A study in a listing: its name, its distribution, and the study, or the reason why it does not load."""

    name: str
    distribution: str
    study: Study | None
    problem: str = ""


def names() -> list[str]:
    """Names of all studies that are installed, sorted; no study is imported."""
    return sorted(_points())


@typed
def study(name: str) -> Study:
    """A study by its name; no other study is imported.

    >>> study("anchor").name
    'anchor'

    Raises:
        StudyError: for an unknown name, and where a study does not load (naming its distribution).
    """
    points = _points()
    if name not in points:
        raise StudyError(f"no study '{name}' is installed; {nearest(name, points)}")
    found = _load(name, *points[name])
    if found.study is None:
        raise StudyError(found.problem)
    return found.study


def installed_studies() -> list[InstalledStudy]:
    """Every installed study. Where one does not load, its entry says why, and the others are listed all the same."""
    return [_load(name, *found) for name, found in sorted(_points().items())]


def _points() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


def _load(name: str, point: EntryPoint, *others: EntryPoint) -> InstalledStudy:
    brought = distribution(point)
    if others:
        every = ", ".join(sorted({brought, *map(distribution, others)}))
        problem = f"several distributions bring a study '{name}' ({every}); uninstall all but one."
        return InstalledStudy(name, every, None, problem)
    try:
        found = point.load()
    except (Exception, SystemExit) as error:  # a plugin may fail in any way; the others go on
        reason = f"{type(error).__name__}: {first_line(error)}"
        problem = f"study '{name}' of the distribution '{brought}' does not load ({reason}); "
        return InstalledStudy(name, brought, None, problem + f"mend or uninstall '{brought}'.")
    if not isinstance(found, Study):
        problem = f"study '{name}' of the distribution '{brought}' is a {type(found).__name__}; expected a Study. "
        return InstalledStudy(name, brought, None, problem + f"Mend '{point.value}' there.")
    if found.name != name:
        problem = f"study '{name}' of the distribution '{brought}' calls itself '{found.name}'; give it one name in "
        return InstalledStudy(name, brought, None, problem + "its entry point and in its Study.")
    return InstalledStudy(name, brought, found)
