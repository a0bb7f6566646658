"""The verdicts of a run as files of its folder: of its claims, within its groups of seeds, and of its causal checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rb_interp import json_files
from rb_interp.errors import ArgumentError, RunError, first_line
from rb_interp.manifest import PROBE
from rb_interp.runs.measured import Measured

if TYPE_CHECKING:
    from rb_interp.claims import Within
    from rb_interp.runs.run_folder import RunFolder

VERDICTS, WITHIN, CHECKS = "verdicts.json", "verdicts_within.json", "checks.json"


def write_verdicts(run: RunFolder, measured: Measured) -> None:
    """Judge what was measured, and write the verdicts; those of the claims last, for a run has them when it is judged.

    The study's causal checks need the table ``effects``.
    """
    from rb_interp.claims import judge, judge_checks

    checks, within = run.study.load("checks"), judged_within(run, measured)
    if checks:
        effects, siblings = measured.tables["effects"], run.config.sibling_stages
        causes = judge_checks(measured.readings, effects, checks, sibling_stages=siblings, **_context(run))
        _write(run, CHECKS, [check.to_json() for check in causes])
    if within is not None:
        _write(run, WITHIN, within.to_json())
    verdicts = judge(measured.readings, run.study.load("claims"), standings=_standings(run), **_context(run))
    _write(run, VERDICTS, verdicts.to_json())


def read_verdicts(run: RunFolder, measured: Measured) -> dict[str, Any]:
    """The verdicts that were written, as `Evidence` has them: ``verdicts``, ``within``, ``checks``.

    A run that was judged before its study had groups is judged within them now. Raises RunError where a file is missing
    or damaged, ValueError, KeyError or TypeError where it holds something else.
    """
    from rb_interp.claims import CheckedCause, Verdicts, Within

    files = run.manifest.content.files
    return {
        "verdicts": Verdicts.from_json(read_json(run, VERDICTS)),
        "within": Within.from_json(read_json(run, WITHIN)) if WITHIN in files else judged_within(run, measured),
        "checks": [CheckedCause.from_json(row) for row in read_json(run, CHECKS)] if CHECKS in files else [],
    }


def read_outcomes(run: RunFolder) -> list[str]:
    """The outcome of each claim; RunError where the file is missing, damaged or holds something else."""
    from rb_interp.claims import Verdicts

    try:
        return [verdict.outcome for verdict in Verdicts.from_json(read_json(run, VERDICTS))]
    except ArgumentError as error:
        raise RunError(
            f"{run.folder / VERDICTS}: {first_line(error)}; 'rb-interp probe {run.folder}' makes it again."
        ) from None


def judged_within(run: RunFolder, measured: Measured) -> Within | None:
    """Judge claims within the study's groups of seeds; None where it has no groups."""
    from rb_interp.claims import judge_within

    groups = run.study.load("groups")
    if groups is None:
        return None
    return judge_within(measured.readings, groups(measured), standings=_standings(run), **_context(run))


def _context(run: RunFolder) -> dict[str, Any]:
    """What every verdict of this run needs besides its readings."""
    diverged = [(name, m.gamma, m.seed) for name, sweep in run.sweeps.items() for m in sweep.diverged]
    return {"scale": run.scale, "diverged": diverged}


def _standings(run: RunFolder) -> Any:
    return {} if run.calibration is None else run.calibration.standings


def read_json(run: RunFolder, name: str) -> Any:
    """The content of a JSON file of a judged run; raises as `json_files.read_json`."""
    return json_files.read_json(run.manifest, run.folder / name, PROBE)


def _write(run: RunFolder, name: str, content: Any) -> None:
    written = json.dumps(content, indent=1, allow_nan=False).encode()
    run.manifest.write_bytes(run.folder / name, written, PROBE)
