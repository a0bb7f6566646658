"""What a run folder holds, read back and checked: curves, tables, verdicts, figures, and members as models.

Nothing here trains or measures; see ``run`` for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rb_interp.checks import checked
from rb_interp.errors import RunError, StudyError, nearest
from rb_interp.manifest import PROBE, REPORT, TRAIN, Manifest
from rb_interp.runs.config import StudyConfig, scale_of
from rb_interp.runs.keep import has_checkpoints, making
from rb_interp.runs.metadata import FILE, SETTINGS, manifest_of, read_metadata, write_toml
from rb_interp.runs.protocol import Study
from rb_interp.runs.sweep import Sweep
from rb_interp.training.store import REMEDY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from rb_interp.claims import Verdicts
    from rb_interp.figures.evidence import Evidence
    from rb_interp.models.protocol import HookedModel
    from rb_interp.runs.schema import TableSchema
    from rb_interp.runs.sharing.member import SharedMember


@checked
class RunFolder:
    """A run folder, and what is in it.

    Attributes:
        folder: its path. study, config: the study and its settings, with the seeds that were added.
        metadata: content of ``run.json``. sweeps: its sweeps by name.
        batches: the seeds that it began with, and those that were added, as they were trained together.
    """

    def __init__(self, folder: Path, study: Study, config: StudyConfig, metadata: dict[str, Any]) -> None:
        self.folder, self.study = Path(folder), study
        places = [self.folder / name / "checkpoints" for name in config.sweeps]
        self.manifest = Manifest(self.folder, metadata["fingerprint"], parts=[self.folder / "figures", *places])
        self.manifest.remedies = {
            **manifest_of(self.folder).remedies,
            TRAIN: REMEDY.format(command=f"'{self._train_command}'"),
            **{step: f"Run 'rb-interp {step} {self.folder}' to make it." for step in (PROBE, REPORT)},
            "timing.json": f"Nothing rests on it; '{self._command('reproduce')}' writes it anew.",
        }
        if self.kept:
            self.manifest.remedies[SETTINGS] = f"Put a sound copy of it back; {FILE} holds the same settings."
            again = f"Put a sound copy of it back, or make the run again: {self._train_command}"
            self.manifest.remedies |= dict.fromkeys((TRAIN, PROBE), again)
        self._evidence: tuple[Any, Evidence] | None = None
        self._take(config, metadata)

    def _take(self, config: StudyConfig, metadata: dict[str, Any]) -> None:
        self.metadata = metadata
        self.batches = [config.seeds, *(tuple(seeds) for seeds in metadata["added_seeds"])]
        self.config = replace(config, seeds=tuple(seed for seeds in self.batches for seed in seeds))
        self.sweeps = {
            name: Sweep(self.folder / name, name, sweep, self.batches, config.sibling_stages, self.manifest)
            for name, sweep in config.sweeps.items()
        }

    @property
    def scale(self) -> str:
        """How serious the run is: its preset's name, or ``custom`` where sizes differ from the preset's."""
        return scale_of(self.config)

    @checked
    def sweep(self, name: str = "") -> Sweep:
        """A sweep by its name. A study with a single sweep needs no name.

        Raises RunError where the name is not one of the run's sweeps.
        """
        if name in self.sweeps:
            return self.sweeps[name]
        if not name:
            raise RunError(f"this run has several sweeps; name one of them: sweep='{next(iter(self.sweeps))}', ...")
        raise RunError(f"this run has no sweep '{name}'; {nearest(name, self.sweeps)}")

    @property
    def kept(self) -> bool:
        """Whether the folder is a kept result: what was measured, without checkpoints, see `keep`."""
        return TRAIN in self.manifest.content.steps and not has_checkpoints(self.manifest)

    @property
    def finished(self) -> bool:
        """Whether every sweep is trained to its last step."""
        return self.kept or all(sweep.finished for sweep in self.sweeps.values())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder, see `one_writer`; what writes it takes it itself, and can do so inside.

        Raises RunError while another process, or another thread, has it, and where one has added seeds since the run
        was opened.
        """
        self.check_checkpoints()
        with self.manifest.writing():
            self._check_unchanged()
            write_toml(self.manifest, self.study.name, replace(self.config, seeds=self.batches[0]))
            yield

    def _check_unchanged(self) -> None:
        if read_metadata(self.folder) != self.metadata:
            raise RunError(f"{self.folder} has been changed since it was opened; open it again, then continue.")

    def check_checkpoints(self) -> None:
        """Raise RunError for a kept result, which has no members."""
        if self.kept:
            raise RunError(
                f"{self.folder} keeps tables alone, without checkpoints, so nothing is trained or measured there; make "
                f"the run again: {self._train_command}"
            )

    def check_trained(self) -> None:
        """Raise RunError where a sweep is not trained to its last step, or a file of training is not there."""
        if self.kept:
            return
        for sweep in self.sweeps.values():
            if not sweep.finished:
                at, steps = sweep.step or 0, sweep.config.train.steps
                stands = f"stands at step {at} of {steps}" if at < steps else "lacks a checkpoint that it had"
                raise RunError(f"{sweep.folder} {stands}; finish it first: {self._train_command}")
        if not self.manifest.finished(TRAIN):
            raise RunError(
                f"{self.folder} lacks the last files of its training; finish it first: {self._train_command}"
            )

    def check_current(self, step: str) -> None:
        """Raise RunError where a step (``probe``, ``report``) was not carried out on what is there now."""
        self._check_unchanged()
        if self.manifest.outdated(step):
            raise self._outdated(step)
        if step not in self.manifest.content.steps:
            busy = "" if self.manifest.held else self.manifest.writer
            makes = f"wait until {busy} has made it" if busy else f"'rb-interp {step} {self.folder}' makes it"
            if self.kept:
                makes += f", in runs/{self.folder.resolve().name}-{step}"
            raise RunError(f"{self.folder} has no finished {step} yet; {makes}.")

    def _outdated(self, step: str) -> RunError:
        return RunError(
            f"{self.folder}: its {step} was made from other files than those that are there now; 'rb-interp {step} "
            f"{self.folder}' makes it again."
        )

    @property
    def _train_command(self) -> str:
        if self.kept:
            return making(self.study.name, self.folder)
        return self._command("train")

    def _command(self, verb: str) -> str:
        """A command that goes on with this run."""
        config, out = quote(str(self.folder / SETTINGS)), quote(str(self.folder))
        return f"rb-interp {verb} {self.study.name} --config {config} --out {out}"

    @checked
    def verify(self) -> dict[str, str]:
        """File or step -> what is wrong with it: damaged, missing, or made from other files. Reads all files."""
        found = self.manifest.problems()
        for step in (PROBE, REPORT):
            if self.manifest.outdated(step):
                found[step] = str(self._outdated(step))
        return found

    @property
    def calibration(self) -> Any:
        """Error rates of the study's probes for these models, a ``claims.Calibration``; None where it has none."""
        find = self.study.load("calibration")
        return None if find is None else find(self.config)

    @property
    def curves(self) -> pd.DataFrame:
        """Learning curves of every sweep so far: sweep, gamma, seed, step, set, loss (nats), accuracy."""
        import pandas as pd

        if self.kept:
            return self.table("curves")
        tables = [sweep.curves().assign(sweep=name) for name, sweep in self.sweeps.items()]
        table = pd.concat(tables, ignore_index=True)
        table.insert(0, "sweep", table.pop("sweep"))
        return table

    @property
    def readings(self) -> pd.DataFrame:
        """The readings of all probes, as a table."""
        return self.table("readings")

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each claim, without the rest of what was measured; raises as `verdicts` does."""
        from rb_interp.runs.judged import read_outcomes

        def read() -> list[str]:
            self.check_current(PROBE)
            return read_outcomes(self)

        return self.manifest.steady(PROBE, read)

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
        """The report's page; RunError where it is not written yet, was made from other tables, or is damaged."""
        page = self.folder / "report.html"

        def read() -> Path:
            self.check_current(REPORT)
            self.manifest.check(page, REPORT)
            return page

        return self.manifest.steady(REPORT, read)

    @checked
    def model(self, *, gamma: float, seed: int, stage: str | int = "final", sweep: str = "") -> HookedModel:
        """One member as a TransformerLens model, with exactly the trained weights.

        Args:
            gamma, seed: the member. stage: ``init``, ``final``, a stage that the run kept, or a step that it kept.
            sweep: needed where the study has several.

        Raises RunError for a member, stage, step or sweep that the run does not have.
        """
        self.check_checkpoints()
        return self.sweep(sweep).model(gamma=gamma, seed=seed, stage=stage)

    @checked
    def export(
        self,
        *,
        gamma: float,
        seed: int,
        path: Path | str,
        stage: str | int = "final",
        sweep: str = "",
        name: str = "",
        description: str = "",
        licence: str = "mit",
    ) -> SharedMember:
        """Write one member into a folder of its own, to share it: weights, what it learned, and what was measured.

        The folder holds ``model.safetensors``, ``config.json`` and ``README.md``, a card in the form of the Hugging
        Face Hub. `from_pretrained` reads it. It is written whole or not at all, and read back before this returns.
        Circuit and readings are in it where the run is probed.

        Args:
            gamma, seed, stage, sweep: as of `model`.
            path: the folder: a new one, or one that holds this member already.
            name: by default that of the folder. description: a sentence for the card.
            licence: of the weights, as the Hub spells it; by default that of this package.

        Raises RunError for a member, stage, step or sweep that the run does not have, and for a folder that holds
        something else; nothing is changed then.
        """
        from rb_interp.runs.sharing.export import export

        facts = {"name": name, "description": description, "licence": licence}
        return export(self, Path(path), gamma=gamma, seed=seed, stage=stage, sweep=sweep, **facts)

    @checked
    def figure(self, name: str) -> Figure:
        """A figure of the study, drawn from this run; StudyError for an unknown name."""
        from rb_interp.figures.save import draw

        specs = {spec.id: spec for spec in self.study.load("figures")}
        if name not in specs:
            raise StudyError(f"study '{self.study.name}' has no figure '{name}'; {nearest(name, specs)}")
        return draw(specs[name], self.evidence)

    @property
    def evidence(self) -> Evidence:
        """Everything that figures and report use; RunError where the run was not measured, or a file is damaged."""
        from rb_interp.runs.record import read_evidence

        def read() -> Evidence:
            self.check_trained()
            self.check_current(PROBE)
            return read_evidence(self)

        made = self.manifest.made(PROBE)
        if self._evidence is None or self._evidence[0] != made:
            self._evidence = made, self.manifest.steady(PROBE, read)
        return self._evidence[1]

    def _evidence_of_sound_files(self) -> Evidence:
        """The evidence, where every file that it was made from is what it was; else RunError."""
        for step in (TRAIN, PROBE):
            self.manifest.check_step(step)
        return self.evidence

    @checked
    def table(self, name: str) -> pd.DataFrame:
        """Read ``name.parquet``.

        Raises RunError where it is not there yet, is damaged, or was made from other checkpoints than those of now, and
        where the study has no such table.
        """
        from rb_interp.runs.record import read_table, step_of

        self._schema(name)
        return self.manifest.steady(step_of(name), lambda: read_table(self, name))

    @checked
    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write ``name.parquet`` whole or not at all, as a file of the step that makes it.

        Raises RunError where the study has no such table, and for one with other columns, types or a row twice.
        """
        from rb_interp.runs.record import step_of

        fault = self._schema(name).fault(table)
        if fault:
            raise RunError(f"the table '{name}' {fault}; nothing was written. Give it as the study declares it.")
        path = self.folder / f"{name}.parquet"
        self.manifest.write(path, lambda temporary: table.to_parquet(temporary, index=False), step_of(name))

    def _schema(self, name: str) -> TableSchema:
        """Columns of a table; RunError where the study has no such table."""
        from rb_interp.runs.record import declared

        known = declared(self)
        if name not in known:
            raise RunError(f"study '{self.study.name}' has no table '{name}'; {nearest(name, known)}")
        return known[name]

    def _write_json(self, name: str, content: Any, step: str) -> None:
        written = json.dumps(content, indent=1, allow_nan=False).encode()
        self.manifest.write_bytes(self.folder / f"{name}.json", written, step)

    def _forget(self) -> None:
        self._evidence = None
