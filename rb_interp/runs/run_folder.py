"""What a run folder holds, read back and compared: curves, tables, verdicts, figures, and members as models.

Nothing here trains or measures; see ``run`` for that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import RunError, StudyError, nearest
from rb_interp.runs.config import StudyConfig, scale_of
from rb_interp.runs.measured import KEYS
from rb_interp.runs.protocol import Study
from rb_interp.runs.store import PROBE, REPORT, SETTINGS, TRAIN, Store, read_run
from rb_interp.runs.sweep import Sweep
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from rb_interp.claims import Verdicts
    from rb_interp.figures.evidence import Evidence
    from rb_interp.models.protocol import HookedModel


class RunFolder:
    """A run folder, and what is in it.

    A copy of the folder without ``checkpoints`` opens and reports as the run does; it trains and measures nothing.

    Attributes:
        folder: its path. study, config: the study and its settings, with the seeds that were added.
        metadata: content of ``run.json``. sweeps: its sweeps by name. store: its files, and the right to write them.
        batches: the seeds that it began with, and those that were added, as they were trained together.
    """

    @typed
    def __init__(self, folder: Path, study: Study, config: StudyConfig, metadata: dict[str, Any]) -> None:
        self.folder, self.study, self.store = Path(folder), study, Store(folder)
        self._take(config, metadata)

    def _take(self, config: StudyConfig, metadata: dict[str, Any]) -> None:
        self.metadata, self._evidence = metadata, (None, None)
        self.batches = [config.seeds, *(tuple(seeds) for seeds in metadata["added_seeds"])]
        self.config = replace(config, seeds=tuple(seed for seeds in self.batches for seed in seeds))
        self.sweeps = {
            name: Sweep(self.folder / name, name, sweep, self.batches, config.sibling_stages, self.store)
            for name, sweep in config.sweeps.items()
        }

    @property
    def has_checkpoints(self) -> bool:
        """Whether weights of members are there; False before training, and in a copy without them."""
        return any((sweep.folder / "checkpoints").is_dir() for sweep in self.sweeps.values())

    @property
    def finished(self) -> bool:
        """Whether every sweep is trained to its last step."""
        return self.is_copy or all(sweep.finished for sweep in self.sweeps.values())

    @property
    def is_copy(self) -> bool:
        """Whether the folder is a copy without checkpoints: it opens and reports, and has no members."""
        return TRAIN in self.store.steps and not self.has_checkpoints

    def check_checkpoints(self) -> None:
        """Raise RunError for a copy without checkpoints, which has no members."""
        if self.is_copy:
            raise RunError(
                f"{self.folder} holds tables alone, without checkpoints, so nothing is trained or measured there; make "
                f"the run again: rb-interp reproduce --config {self.folder / SETTINGS} --out "
                f"{Path('runs') / self.folder.resolve().name}"
            )

    def _check_unchanged(self) -> None:
        if read_run(self.folder) != self.metadata:
            raise RunError(f"{self.folder} has been changed since it was opened; open it again, then continue.")

    @property
    def scale(self) -> str:
        """How serious the run is: its preset's name, or ``custom`` if sizes differ from the preset's."""
        return scale_of(self.config)

    @property
    def calibration(self) -> Any:
        """Error rates of the study's probes for these models, a ``claims.Calibration``; None if it has none."""
        find = self.study.load("calibration")
        return None if find is None else find(self.config)

    @typed
    def sweep(self, name: str = "") -> Sweep:
        """A sweep by its name. A study with a single sweep needs no name.

        Raises RunError if the name is not one of the run's sweeps.
        """
        if name in self.sweeps:
            return self.sweeps[name]
        if not name:
            raise RunError(f"this run has several sweeps; name one of them: sweep='{next(iter(self.sweeps))}', ...")
        raise RunError(f"this run has no sweep '{name}'; {nearest(name, self.sweeps)}")

    @typed
    def model(self, *, gamma: float, seed: int, stage: str | int = "final", sweep: str = "") -> HookedModel:
        """One member as a TransformerLens model, with exactly the trained weights.

        Args:
            gamma, seed: the member. stage: ``init``, ``final``, a stage that the run kept, or a step that it kept.
            sweep: needed if the study has several.

        Raises RunError for a member, stage, step or sweep that the run does not have.
        """
        self.check_checkpoints()
        return self.sweep(sweep).model(gamma=gamma, seed=seed, stage=stage)

    @typed
    def figure(self, name: str) -> Figure:
        """A figure of the study, drawn from this run; StudyError for an unknown name."""
        from rb_interp.figures.save import draw

        drawings = self.study.load("figures")
        if name not in drawings:
            raise StudyError(f"study '{self.study.name}' has no figure '{name}'; {nearest(name, drawings)}")
        return draw(drawings[name], self.evidence)

    @property
    def curves(self) -> pd.DataFrame:
        """Learning curves of every sweep so far: sweep, gamma, seed, step, set, loss (nats), accuracy."""
        import pandas as pd

        if self.is_copy:
            return self.table("curves")
        tables = [sweep.curves().assign(sweep=name) for name, sweep in self.sweeps.items()]
        table = pd.concat(tables, ignore_index=True)
        table.insert(0, "sweep", table.pop("sweep"))
        return table

    @property
    def table_keys(self) -> dict[str, str]:
        """Table -> the columns that tell its rows apart, with spaces between."""
        return {**KEYS, **self.study.load("tables")}

    @typed
    def table(self, name: str) -> pd.DataFrame:
        """Read ``name.parquet``.

        Raises RunError if the table is not there yet, is damaged, or was made from other checkpoints than those of now,
        and if the study has no such table.
        """
        if name not in self.table_keys:
            raise RunError(f"study '{self.study.name}' has no table '{name}'; {nearest(name, self.table_keys)}")
        self._check_unchanged()
        self.store.check(TRAIN if name == "curves" else PROBE)
        return self.store.read_table(name)

    @property
    def readings(self) -> pd.DataFrame:
        """The readings of all probes, as a table."""
        return self.table("readings")

    @property
    def verdicts(self) -> Verdicts:
        """What was decided of each claim."""
        return self.evidence.verdicts

    @property
    def verdicts_within(self) -> dict[str, Verdicts]:
        """Group of seeds -> what was decided within it, the largest group first; empty in a study without groups."""
        within = self.evidence.within
        return {} if within is None else {group.name: group.verdicts for group in within.groups}

    @property
    def report(self) -> Path:
        """The report's page; RunError if it is not written yet, was made from other tables, or is damaged."""
        self._check_unchanged()
        self.store.check(REPORT)
        return self.store.verified("report.html")

    @property
    def evidence(self) -> Evidence:
        """Everything that figures and report use; RunError if the run was not measured, or a file is damaged."""
        from rb_interp.runs.results import read_evidence

        self._check_unchanged()
        self.store.check(PROBE)
        record, (read, evidence) = self.store.steps[PROBE], self._evidence
        if evidence is None or read != record:
            evidence = read_evidence(self)
            self._evidence = record, evidence
        return evidence
