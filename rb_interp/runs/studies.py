"""Studies, and how one is carried out: what is installed, by name, and `Study.run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.arguments import checked
from rb_interp.errors import StudyError
from rb_interp.runs.config import StudyConfig, StudyDefinition, find_study, study_names

if TYPE_CHECKING:
    from rb_interp.runs.run import Run


@dataclass(frozen=True, eq=False, repr=False)
class Study(StudyDefinition):
    """A study: a `StudyDefinition`, whose fields it has, and how it is carried out.

    ``help(rb_interp.runs.config.StudyDefinition)`` says what each field means.
    """

    @checked
    def run(
        self,
        *,
        preset: str = "quick",
        config: StudyConfig | None = None,
        out: Path | str | None = None,
        progress: bool = True,
        until_decided: bool = False,
        **changes: Any,
    ) -> Run:
        """Train, measure, judge and report, continuing where an earlier call was stopped; returns
        the run.

        Args:
            preset: sizes to start from. changes: fields of the configuration to replace, such as
                ``seeds=(0,)``.
            config: a whole configuration instead of both.
            out: the run folder; by default ``runs/`` and the names of study and preset.
            until_decided: add seeds until no claim about them is OPEN, up to 20 seeds.
        """
        from rb_interp.runs.run import Run  # with torch, which the names of studies do without

        config = config or self.preset(preset, **changes)
        run = Run.start(out or self.folder(config), self, config)
        return run.reproduce(progress, until_decided)


@checked
def study(name: str) -> Study:
    """A study by its name; no other study is imported.

    >>> study("anchor").name
    'anchor'

    Raises StudyError for an unknown name, and if a study does not load (naming its distribution).
    """
    return find_study(name, Study)


def installed_studies() -> dict[str, Study | StudyError]:
    """Every installed study by its name, or the reason why it does not load."""
    studies: dict[str, Study | StudyError] = {}
    for name in study_names():
        try:
            studies[name] = study(name)
        except StudyError as error:
            studies[name] = error
    return studies
