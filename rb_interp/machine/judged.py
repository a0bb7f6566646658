"""The verdicts of a run as files of its folder: of its claims, within its groups of seeds, and of its causal checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.files import write_bytes
from rb_interp.machine.measured import Measured

if TYPE_CHECKING:
    from rb_interp.claims import Within
    from rb_interp.machine.run import Run

VERDICTS, WITHIN, CHECKS = "verdicts.json", "verdicts_within.json", "checks.json"


def write_verdicts(run: Run, measured: Measured) -> None:
    """Judge what was measured, and write the verdicts; those of the claims last, for a run has them when it is judged.

    The study's causal checks need the table ``effects``.
    """
    from rb_interp.claims import judge, judge_checks

    checks, within = run.study.load("checks"), judged_within(run, measured)
    if checks:
        effects, siblings = measured.tables["effects"], run.config.sibling_stages
        causes = judge_checks(measured.readings, effects, checks, sibling_stages=siblings, **_told(run))
        _write(run.folder / CHECKS, [check.to_json() for check in causes])
    if within is not None:
        _write(run.folder / WITHIN, within.to_json())
    verdicts = judge(measured.readings, run.study.load("claims"), standings=_standings(run), **_told(run))
    _write(run.folder / VERDICTS, verdicts.to_json())


def read_verdicts(run: Run, measured: Measured) -> dict[str, Any]:
    """The verdicts that were written, as `Evidence` has them: ``verdicts``, ``within``, ``checks``.

    A run that was judged before its study had groups is judged within them now. Raises OSError, ValueError, KeyError or
    TypeError where a file is missing or damaged.
    """
    from rb_interp.claims import CheckedCause, Verdicts, Within

    checks, within = run.folder / CHECKS, run.folder / WITHIN
    return {
        "verdicts": Verdicts.from_json(_read(run.folder / VERDICTS)),
        "within": Within.from_json(_read(within)) if within.exists() else judged_within(run, measured),
        "checks": [CheckedCause.from_json(row) for row in _read(checks)] if checks.exists() else [],
    }


def judged_within(run: Run, measured: Measured) -> Within | None:
    """Judge claims within the study's groups of seeds; None where it has no groups."""
    from rb_interp.claims import judge_within

    groups = run.study.load("groups")
    if groups is None:
        return None
    return judge_within(measured.readings, groups(measured), standings=_standings(run), **_told(run))


def _told(run: Run) -> dict[str, Any]:
    """What every verdict of this run is told."""
    diverged = [(name, m.gamma, m.seed) for name, sweep in run.sweeps.items() for m in sweep.diverged]
    return {"scale": run.scale, "diverged": diverged}


def _standings(run: Run) -> Any:
    return {} if run.calibration is None else run.calibration.standings


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _write(path: Path, content: Any) -> None:
    write_bytes(path, json.dumps(content, indent=1, allow_nan=False).encode())
