"""A run is a folder: one study carried out. It can be stopped, continued, moved, and opened years later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.bounds import LISTS, check_path
from rb_interp.checks import checked, shown
from rb_interp.errors import ConfigError, RunError
from rb_interp.files import check_place
from rb_interp.manifest import PROBE, REPORT, START, TRAIN, Manifest
from rb_interp.runs.config import StudyConfig, check_lr, differences, fingerprint, from_mapping, stacks
from rb_interp.runs.metadata import check_free, holds_run, read_metadata, write_metadata
from rb_interp.runs.protocol import Study
from rb_interp.runs.registry import study as find_study
from rb_interp.runs.run_folder import RunFolder
from rb_interp.runs.sweep import train_sweeps
from rb_interp.tasks.fingerprints import class_name

if TYPE_CHECKING:
    import pandas as pd


class Run(RunFolder):
    """A run folder that exists, with the verbs of a run; see `RunFolder` for what it reads back.

    >>> import tempfile
    >>> import rb_interp as rb
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(folder, rb.study("anchor"), rb.study("anchor").preset("smoke", seeds=(0,)))
    >>> Run.open(folder).config == run.config, list(run.sweeps)
    (True, ['', 'fixed_average'])
    """

    @classmethod
    @checked
    def start(cls, folder: Path | str, study: Study, config: StudyConfig, command: str = "") -> Run:
        """Make the folder, or open it where it holds the same study with the same configuration.

        Raises RunError where it holds something else; nothing is changed then. Where the task refuses its settings, no
        folder is made. Raises ConfigError for a configuration of another study.
        """
        check_path("the run folder", folder)
        _check_config(study, config)
        folder = Path(folder)
        if holds_run(folder):
            metadata = read_metadata(folder)
            if metadata["study"] != study.name:
                raise RunError(
                    f"{folder} holds a run of study '{metadata['study']}', not of '{study.name}'; nothing was changed. "
                    f"Use another --out."
                )
            if metadata["fingerprint"] != fingerprint(study.name, config):
                held = from_mapping(type(config), metadata["config"], str(folder / "run.json"))
                differing = differences(held, config) or "its task is of another class"
                raise RunError(
                    f"{folder} holds a run with another configuration ({differing}); nothing was changed. Use another "
                    f"--out, or repeat the command that made it to continue it."
                )
            return cls(folder, study, config, metadata)
        check_free(folder)
        check_lr(config)
        _prepare(config, config.seeds)
        manifest = Manifest(folder, fingerprint(study.name, config))
        with manifest.writing():
            if not holds_run(folder):  # since it was looked at
                return cls(folder, study, config, write_metadata(manifest, study.name, config, command))
        return cls.start(folder, study, config, command)

    @classmethod
    @checked
    def open(cls, folder: Path | str, *, config: StudyConfig | None = None, study: Study | None = None) -> Run:
        """Open a run folder.

        Args:
            folder: the run folder.
            config: the configuration; needed where its task is of another class than the study's own.
            study: the study; needed where it is not installed.

        Raises RunError, with what is wrong with the folder, and StudyError for a study that is not installed.
        """
        check_path("the run folder", folder)
        folder = Path(folder)
        metadata = read_metadata(folder)
        study = study or find_study(metadata["study"])
        if study.name != metadata["study"]:
            raise RunError(
                f"{folder} holds a run of study '{metadata['study']}', not of '{study.name}'; give that study."
            )
        if config is not None:
            _check_config(study, config)
        else:
            config = from_mapping(study.load("config"), metadata["config"], str(folder / "run.json"))
        assert config is not None
        for name, (kind, _) in metadata["tasks"].items():
            if name not in config.sweeps or class_name(config.sweeps[name].task) != kind:
                raise RunError(
                    f"{folder} was trained on a task of class {kind}, which its study's configuration does not make; "
                    f"open it from Python with Run.open(folder, config=...), giving the configuration with that task."
                )
        if metadata["fingerprint"] != fingerprint(study.name, config):
            raise RunError(
                f"{folder / 'run.json'} says fingerprint {metadata['fingerprint']}, its configuration gives "
                f"{fingerprint(study.name, config)}; the task's class or the settings have changed since it was made. "
                f"Open it with the code that made it, or move it away and run again."
            )
        return cls(folder, study, config, metadata)

    @checked
    def keep(self, folder: Path | str) -> Path:
        """Copy what was measured into a new folder, without checkpoints; it is opened like a run, and not trained.

        Raises RunError where the run is not measured from what is there now, or a file is damaged, and for a folder
        that holds something; nothing is written then.
        """
        from rb_interp.runs.keep import keep

        keep(self, Path(folder))
        return Path(folder)

    @checked
    def train(self, progress: bool = True) -> dict[str, float]:
        """Train every sweep to its last step, from wherever it stopped; seconds by sweep and kind of work.

        Raises RunError where training was finished, and one of its files is not what it was.
        """
        seconds = {}
        with self.writing():
            whole = self.manifest.finished(TRAIN) and self.finished  # the study's code may have a sweep more now
            if whole:
                self.manifest.check_step(TRAIN)
            for names in stacks(self.config.sweeps):
                spent = train_sweeps([self.sweeps[name] for name in names], progress)
                name = f"{names[0] or 'main'} to {names[-1]}" if names[1:] else names[0]
                seconds |= {f"{name}: {what}" if name else what: value for what, value in spent.items()}
            if not whole or not self.manifest.finished(TRAIN):
                self.write_table("curves", self.curves)
                self.manifest.finish(TRAIN, START)
        return seconds

    @checked(n=(LISTS["seeds"].low, LISTS["seeds"].high))
    def add_seeds(self, n: int) -> None:
        """Let the run have ``n`` further seeds, the next whole numbers, to be trained and probed with the rest.

        A member does not depend on the others of its stack. So, up to rounding, a run with seeds added is the run that
        had them from the beginning.

        Raises ConfigError for more seeds than a run can have; nothing is changed then.
        """
        first = max(self.config.seeds) + 1
        seeds = tuple(range(first, first + n))
        replace(self.config, seeds=(*self.config.seeds, *seeds))  # what a configuration refuses is refused now
        _prepare(self.config, seeds)
        metadata = {**self.metadata, "added_seeds": [*self.metadata["added_seeds"], list(seeds)]}
        with self.writing():
            self._write_json("run", metadata, START)
        self._forget()
        self._take(replace(self.config, seeds=self.batches[0]), metadata)

    @checked
    def probe(self, progress: bool = True) -> None:
        """Measure every member of the trained run and judge its claims; writes tables, arrays and verdicts.

        Raises RunError where training is not finished, or a checkpoint is missing or broken, StudyError where the
        measurement returns other tables than the study declares.
        """
        from rb_interp.runs.record import write_measured
        from rb_interp.torch_threads import few_threads

        with self.writing():
            self.check_trained()
            self.manifest.check_step(TRAIN)
            write_measured(self, few_threads(self.study.load("measure"))(self, progress))
        self._forget()

    @checked
    def probe_members(
        self,
        probe: Callable[..., Any],
        *,
        stage: str | int = "final",
        set: str = "train",
        sweep: str = "",
        rows: int = 1000,
        **options: Any,
    ) -> pd.DataFrame:
        """Readings of one probe on every member of a sweep, as a table.

        Args:
            probe: ``probe(model, inputs, untrained=..., **options) -> Reading``.
            stage: a stage or a step that the run kept. set: the inputs that the probe sees, ``rows`` of them at most.
            sweep: needed where the study has several. options: go to the probe (layer, head, ...).

        Raises RunError for a stage, step or sweep that the run does not have.
        """
        from rb_interp.runs.members import probe_members

        self.check_checkpoints()
        return probe_members(self.sweep(sweep), probe, stage, set, rows, options)

    @checked
    def write_report(self, out: Path | str | None = None) -> Path:
        """Draw the figures and write report.html and report.json, in the run folder or in another; returns the page.

        That of a kept result goes to ``runs/`` and its name, where no other folder is given.

        Raises RunError where a file that it is made from is not what it was, and for the folder of another run.
        """
        from rb_interp.report.write import write_report

        if out is None and self.kept:
            out = Path("runs") / f"{self.folder.resolve().name}-report"

        if out is not None:
            check_path("the folder of the report", out)
        if out is not None and Path(out).resolve() != self.folder.resolve():
            place = Path(out).resolve()
            if any(holds_run(folder) for folder in (place, *place.parents)):
                raise RunError(f"{out} is in a folder that holds a run; nothing was changed. Use another --out.")
            check_place(place, folder=True)
            return write_report(self.study, self._evidence_of_sound_files(), out)
        with self.writing():
            evidence = self._evidence_of_sound_files()
            with self.manifest.making(REPORT, PROBE):
                return write_report(
                    self.study, evidence, self.folder, lambda path, b: self.manifest.write_bytes(path, b, REPORT)
                )

    @checked(nan=True)
    def timed(self, steps: dict[str, Callable[[], Any]], seconds: dict[str, float]) -> None:
        """Carry out steps, and write their seconds to ``timing.json``."""
        started = time.monotonic()
        with self.writing():
            for name, step in steps.items():
                before = time.monotonic()
                found = step()
                seconds |= found if isinstance(found, dict) else {name: time.monotonic() - before}
            seconds["total"] = time.monotonic() - started
            self._write_json("timing", seconds, "timing")

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}: study {self.study.name}, {self.scale}, {len(self.config.seeds)} seeds)"

    def _repr_html_(self) -> str:
        from rb_interp.report.terminal import run_rows

        rows = "".join(f"<tr><th>{escape(n)}</th><td>{escape(text)}</td></tr>" for n, text in run_rows(self).items())
        return f"<table>{rows}</table>"


def _check_config(study: Study, config: StudyConfig) -> None:
    """Raise ConfigError for a configuration of another class than the study's."""
    kind = study.load("config")
    if not isinstance(config, kind):
        raise ConfigError(
            f"study '{study.name}' got {shown(config)}; expected its own {kind.__name__}, as its preset() gives it."
        )


def _prepare(config: StudyConfig, seeds: tuple[int, ...]) -> None:
    """Let the tasks that draw their data beforehand do so; what they refuse, they refuse now."""
    for sweep in config.sweeps.values():
        prepare = getattr(sweep.task, "prepare", None)
        if prepare is not None:
            prepare(tuple(dict.fromkeys(map(sweep.data_seed_of, seeds))))
