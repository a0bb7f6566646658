"""A run is a folder: one study carried out. It can be stopped, continued, moved, and opened years later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rb_interp.bounds import LISTS, check_path
from rb_interp.checks import checked, shown
from rb_interp.errors import ConfigError, RunError, StudyError, nearest
from rb_interp.machine.config import (
    StudyConfig,
    check_lr,
    differences,
    fingerprint,
    from_mapping,
    scale_of,
    stacks,
    type_of,
)
from rb_interp.machine.keep import has_checkpoints, making
from rb_interp.machine.limits import check_affordable
from rb_interp.machine.metadata import check_free, holds_run, manifest_of, read_metadata, write_metadata, write_toml
from rb_interp.machine.protocol import Study
from rb_interp.machine.registry import study as find_study
from rb_interp.machine.sweep import Sweep, train_sweeps
from rb_interp.manifest import PROBE, REPORT, START, TRAIN, Manifest
from rb_interp.training.store import REMEDY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from rb_interp.claims import Verdicts
    from rb_interp.figures.evidence import Evidence
    from rb_interp.models.protocol import HookedModel


class Run:
    """A run folder that exists.

    >>> import tempfile
    >>> import rb_interp as rb
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(folder, rb.study("anchor"), rb.study("anchor").preset("smoke", seeds=(0,)))
    >>> Run.open(folder).config == run.config, list(run.sweeps)
    (True, ['', 'fixed_average'])

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
        }
        if self.kept:
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

    @classmethod
    @checked
    def start(
        cls, folder: Path | str, study: Study, config: StudyConfig, command: str = "", *, yes: bool = False
    ) -> Run:
        """Make the folder, or open it where it holds the same study with the same configuration.

        Raises RunError where it holds something else; nothing is changed then. Where the task refuses its settings, or
        `limits` finds more than there is, no folder is made. ``yes`` agrees to long work. Raises ConfigError for a
        configuration of another study.
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
        check_affordable(config, folder, yes)
        _prepare(config, config.seeds)
        manifest = Manifest(folder, fingerprint(study.name, config))
        with manifest.writing():
            if not holds_run(folder):  # since it was looked at
                return cls(folder, study, config, write_metadata(manifest, study.name, config, command))
        return cls.start(folder, study, config, command, yes=yes)

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
            if name not in config.sweeps or type_of(config.sweeps[name].task) != kind:
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

    @checked
    def keep(self, folder: Path | str) -> Path:
        """Copy what was measured into a new folder, without checkpoints; it is opened like a run, and not trained.

        Raises RunError where the run is not measured from what is there now, or a file is damaged, and for a folder
        that holds something; nothing is written then.
        """
        from rb_interp.machine.keep import keep

        keep(self, Path(folder))
        return Path(folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder, see `one_writer`; what writes it takes it itself, and can do so inside.

        Raises RunError while another process, or another thread, has it, and where one has added seeds since the run
        was opened.
        """
        self.check_checkpoints()
        with self.manifest.writing():
            self._check_unchanged()
            yield

    def _check_unchanged(self) -> None:
        if read_metadata(self.folder) != self.metadata:
            raise RunError(f"{self.folder} has been changed since it was opened; open it again, then continue.")

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
            write_toml(self.manifest, self.study.name, replace(self.config, seeds=self.batches[0]))
            for names in stacks(self.config.sweeps):
                spent = train_sweeps([self.sweeps[name] for name in names], progress)
                name = f"{names[0] or 'main'} to {names[-1]}" if names[1:] else names[0]
                seconds |= {f"{name}: {what}" if name else what: value for what, value in spent.items()}
            if not whole or not self.manifest.finished(TRAIN):
                self.write_table("curves", self.curves, TRAIN)
                self.manifest.finish(TRAIN, START)
        return seconds

    @checked(n=(LISTS["seeds"].low, LISTS["seeds"].high))
    def add_seeds(self, n: int, *, yes: bool = False) -> None:
        """Let the run have ``n`` further seeds, the next whole numbers, to be trained and probed with the rest.

        A member does not depend on the others of its stack. So, up to rounding, a run with seeds added is the run that
        had them from the beginning.

        Raises ConfigError for more seeds than a run can have, and, as `start` does, for more memory or disk than there
        is, and for long work unless ``yes`` agrees to it; nothing is changed then.
        """
        first = max(self.config.seeds) + 1
        seeds = tuple(range(first, first + n))
        replace(self.config, seeds=(*self.config.seeds, *seeds))  # what a configuration refuses is refused now
        check_affordable(self.config, self.folder, yes, seeds)
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
        from rb_interp.machine.record import write_measured
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
        from rb_interp.machine.members import probe_members

        self.check_checkpoints()
        return probe_members(self.sweep(sweep), probe, stage, set, rows, options)

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
            busy = self.manifest.writer
            makes = f"wait until {busy} has made it" if busy else f"'rb-interp {step} {self.folder}' makes it"
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
        config, out = quote(str(self.folder / "config.toml")), quote(str(self.folder))
        return f"rb-interp train {self.study.name} --config {config} --out {out}"

    def verify(self) -> dict[str, str]:
        """File or step -> what is wrong with it: damaged, missing, or made from other files. Reads all files."""
        found = self.manifest.problems()
        for step in (PROBE, REPORT):
            if self.manifest.outdated(step):
                found[step] = str(self._outdated(step))
        return found

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
            return write_report(self.study, self._evidence_of_sound_files(), out)
        with self.writing():
            evidence = self._evidence_of_sound_files()
            with self.manifest.making(REPORT, PROBE):
                return write_report(
                    self.study, evidence, self.folder, lambda path, b: self.manifest.write_bytes(path, b, REPORT)
                )

    def _evidence_of_sound_files(self) -> Evidence:
        """The evidence, where every file that it was made from is what it was; else RunError."""
        for step in (TRAIN, PROBE):
            self.manifest.check_step(step)
        return self.evidence

    @property
    def calibration(self) -> Any:
        """Error rates of the study's probes for these models, a ``claims.Calibration``; None where it has none."""
        find = self.study.load("calibration")
        return None if find is None else find(self.config)

    @property
    def curves(self) -> pd.DataFrame:
        """Learning curves of every sweep so far: sweep, gamma, seed, step, set, loss (nats), accuracy."""
        import pandas as pd

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
        from rb_interp.machine.judged import read_outcomes

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
        from rb_interp.machine.record import read_evidence

        def read() -> Evidence:
            self.check_trained()
            self.check_current(PROBE)
            return read_evidence(self)

        made = self.manifest.made(PROBE)
        if self._evidence is None or self._evidence[0] != made:
            self._evidence = made, self.manifest.steady(PROBE, read)
        return self._evidence[1]

    @checked
    def table(self, name: str) -> pd.DataFrame:
        """Read ``name.parquet``.

        Raises RunError where it is not there yet, is damaged, or was made from other checkpoints than those of now, and
        where the study has no such table.
        """
        from rb_interp.machine.record import read_table, step_of
        from rb_interp.machine.schema import EVERY_STUDY

        known = (*EVERY_STUDY, *self.study.load("tables"))
        if name not in known:
            raise RunError(f"study '{self.study.name}' has no table '{name}'; {nearest(name, known)}")
        return self.manifest.steady(step_of(name), lambda: read_table(self, name))

    @checked
    def write_table(self, name: str, table: pd.DataFrame, step: str) -> None:
        """Write ``name.parquet`` whole or not at all.

        Args:
            name: of the table. table: its content. step: the step of the run that it belongs to, see `manifest`.

        Raises RunError for a step that there is not.
        """
        if step not in (TRAIN, PROBE):
            raise RunError(f"a table of the step {shown(step)} cannot be written; give '{TRAIN}' or '{PROBE}'.")
        path = self.folder / f"{name}.parquet"
        self.manifest.write(path, lambda temporary: table.to_parquet(temporary, index=False), step)

    def _write_json(self, name: str, content: Any, step: str) -> None:
        written = json.dumps(content, indent=1, allow_nan=False).encode()
        self.manifest.write_bytes(self.folder / f"{name}.json", written, step)

    def _forget(self) -> None:
        self._evidence = None

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
