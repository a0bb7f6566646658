"""What a run folder holds: its study and settings, its sweeps, and the tables that were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from rb_interp.arguments import checked
from rb_interp.errors import RunError, nearest
from rb_interp.runs.config import StudyConfig, scale_of
from rb_interp.runs.definition import StudyDefinition
from rb_interp.runs.results import KEYS
from rb_interp.runs.sweep import Sweep
from rb_interp.store import PROBE, REMEDY, REPORT, SETTINGS, TRAIN, RunStore, read_run


class RunFolder:
    """A run as its folder shows it. `Run` adds the verbs that write.

    A copy of the folder without ``checkpoints`` opens and reports as the run does; it trains and
    measures nothing.

    Attributes:
        folder: its path. study, config: the study and its settings, with the seeds that were added.
        metadata: content of ``run.json``. sweeps: its sweeps by name. store: its files, and the
            right to write them.
        batches: the seeds that it began with, and those that were added, as they were trained
            together.
    """

    @checked
    def __init__(
        self,
        folder: Path,
        study: StudyDefinition,
        config: StudyConfig,
        metadata: dict[str, Any],
    ) -> None:
        self.folder = Path(folder)
        self.study = study
        self.store = RunStore(folder)
        self._take(config, metadata)

    def _take(self, config: StudyConfig, metadata: dict[str, Any]) -> None:
        """Take over settings as they are without added seeds, and the content of ``run.json``."""
        self.metadata = metadata
        self.batches = [config.seeds, *(tuple(seeds) for seeds in metadata["added_seeds"])]
        all_seeds = tuple(seed for seeds in self.batches for seed in seeds)
        self.config = replace(config, seeds=all_seeds)
        self.sweeps = {}
        for name, sweep in config.sweeps.items():
            folder = self.folder / name
            siblings = config.sibling_stages
            self.sweeps[name] = Sweep(folder, name, sweep, self.batches, siblings, self.store)

    @property
    def finished(self) -> bool:
        """Whether every sweep is trained to its last step."""
        return self.is_copy or all(sweep.finished for sweep in self.sweeps.values())

    @property
    def is_copy(self) -> bool:
        """Whether the folder is a copy without checkpoints: it opens and reports, and has no
        members."""
        folders = [sweep.folder / "checkpoints" for sweep in self.sweeps.values()]
        return TRAIN in self.store.steps and not any(folder.is_dir() for folder in folders)

    def check_checkpoints(self) -> None:
        """Raise RunError for a copy without checkpoints, which has no members."""
        if self.is_copy:
            raise RunError(
                f"{self.folder} holds tables alone, without checkpoints, so nothing is trained or "
                f"measured there; make the run again: rb-interp reproduce --config "
                f"{self.folder / SETTINGS} --out {Path('runs') / self.folder.resolve().name}"
            )

    @property
    def scale(self) -> str:
        """How serious the run is: its preset, or ``custom`` if sizes differ from the preset's."""
        return scale_of(self.config)

    @property
    def calibration(self) -> Any:
        """Error rates of the study's probes for these models, a ``claims.Calibration``; None if it
        has none."""
        find = self.study.load("calibration")
        return None if find is None else find(self.config)

    @checked
    def sweep(self, name: str = "") -> Sweep:
        """A sweep by its name; RunError for an unknown one. A study with a single sweep needs no
        name."""
        if name not in self.sweeps:
            raise RunError(
                f"this run has no sweep '{name}'; give sweep='...' (--sweep): "
                f"{nearest(name, self.sweeps)}"
            )
        return self.sweeps[name]

    @property
    def curves(self) -> pd.DataFrame:
        """Learning curves of every sweep so far: sweep, gamma, seed, step, set, loss (nats),
        accuracy."""
        if self.is_copy:
            return self.table("curves")
        tables = [sweep.curves().assign(sweep=name) for name, sweep in self.sweeps.items()]
        table = pd.concat(tables, ignore_index=True)
        table.insert(0, "sweep", table.pop("sweep"))
        return table

    @property
    def made_with(self) -> dict[str, str]:
        """Part -> version of what made the run: packages, or its steps where ``provenance.json``
        tells of each.

        A run whose parts were made elsewhere and joined keeps that file; `metadata` is of the join
        alone then.
        """
        path = self.folder / "provenance.json"
        if not path.is_file():
            return {**self.metadata["host"], **self.metadata["versions"]}
        steps = self.store.read_json(path.name)
        if not isinstance(steps, dict):
            raise RunError(f"{path} is damaged: it does not tell of each step. {REMEDY}")
        return {name: _versions(step) for name, step in steps.items() if isinstance(step, dict)}

    @property
    def table_keys(self) -> dict[str, str]:
        """Table -> the columns that tell its rows apart, with spaces between."""
        return {**KEYS, **self.study.load("tables")}

    def _check(self, step: str) -> None:
        """Raise RunError if the files of a step are not those of this run as it was opened."""
        if read_run(self.folder) != self.metadata:
            raise RunError(
                f"{self.folder} has been changed since it was opened; open it again, then continue."
            )
        self.store.check(step)

    @checked
    def table(self, name: str) -> pd.DataFrame:
        """Read ``name.parquet``; RunError if it is not there, is damaged, or was made from other
        checkpoints."""
        if name not in self.table_keys:
            raise RunError(
                f"study '{self.study.name}' has no table '{name}'; {nearest(name, self.table_keys)}"
            )
        self._check(TRAIN if name == "curves" else PROBE)
        return self.store.read_table(name)

    @property
    def readings(self) -> pd.DataFrame:
        """The readings of all probes, as a table."""
        return self.table("readings")

    @property
    def report(self) -> Path:
        """The report's page; RunError if it is not written yet, was made from other tables, or is
        damaged."""
        self._check(REPORT)
        return self.store.verified("report.html")


def _versions(step: Mapping[str, Any]) -> str:
    """Device and versions of one step of ``provenance.json``."""
    versions = step.get("versions", {})
    parts = [step.get("device", "")]
    if isinstance(versions, dict):
        parts += [f"{package} {version}" for package, version in versions.items()]
    return ", ".join(filter(None, parts))
