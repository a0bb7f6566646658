"""A run is a folder: one study carried out. It can be stopped, continued, moved, and opened years later."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import ArgumentError, ConfigError, RunError, shown
from rb_interp.runs.config import StudyConfig, check_lr, fingerprint, from_mapping, scale_of, stacks
from rb_interp.runs.measured import KEYS
from rb_interp.runs.protocol import Study
from rb_interp.runs.registry import study as find_study
from rb_interp.runs.run_folder import RunFolder
from rb_interp.runs.store import (
    FORMAT,
    REPORT,
    RUN,
    SETTINGS,
    START,
    TRAIN,
    check_free,
    holds_run,
    read_run,
    versions,
)
from rb_interp.runs.sweep import train_sweeps
from rb_interp.settings import class_name, differences, plain, to_toml
from rb_interp.training.loop import resolve_device
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.runs.shared_member import SharedMember


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
    @typed
    def start(cls, folder: Path | str, study: Study, config: StudyConfig, command: str = "") -> Run:
        """Make the folder, or open it if it holds the same study with the same configuration.

        Raises RunError if the folder holds something else; nothing is written then. Raises ConfigError for a
        configuration of another study, and what the task raises if it refuses its settings, before there is a folder.
        """
        _check_config(study, config)
        folder, mark = Path(folder), fingerprint(study.name, config)
        if holds_run(folder):
            metadata = read_run(folder)
            if metadata["study"] != study.name:
                raise RunError(
                    f"{folder} holds a run of study '{metadata['study']}', not of '{study.name}'; nothing was changed. "
                    f"Use another --out."
                )
            if metadata["fingerprint"] != mark:
                held = from_mapping(type(config), metadata["config"], str(folder / RUN))
                differing = differences(held, config) or "its task is of another class"
                raise RunError(
                    f"{folder} holds a run with another configuration ({differing}); nothing was changed. Use another "
                    f"--out, or repeat the command that made it to continue it."
                )
            return cls(folder, study, config, metadata)
        check_free(folder)
        config.check_sources()
        check_lr(config)
        _prepare(config, config.seeds)
        metadata = {
            "format": FORMAT,
            "study": study.name,
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": command,
            "fingerprint": mark,
            "scale": scale_of(config),
            "versions": versions(),
            "host": {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
            "tasks": {name: [class_name(s.task), s.task.fingerprint()] for name, s in config.sweeps.items()},
            "config": plain(config),
            "added_seeds": [],
        }
        run = cls(folder, study, config, metadata)
        with run.store.writing():
            check_free(folder)  # another process may have begun there
            run._write_start(metadata)
        return run

    @classmethod
    @typed
    def open(cls, folder: Path | str, *, config: StudyConfig | None = None, study: Study | None = None) -> Run:
        """Open a run folder.

        Args:
            folder: the run folder.
            config: the configuration; needed if its task is of another class than the study's own.
            study: the study; needed if it is not installed.

        Raises RunError, with what is wrong with the folder, and StudyError for a study that is not installed.
        """
        folder = Path(folder)
        metadata = read_run(folder)
        study = study or find_study(metadata["study"])
        if study.name != metadata["study"]:
            raise RunError(
                f"{folder} holds a run of study '{metadata['study']}', not of '{study.name}'; give that study."
            )
        if config is not None:
            _check_config(study, config)
        else:
            config = from_mapping(study.load("config"), metadata["config"], str(folder / RUN))
        assert config is not None
        for name, (kind, _) in metadata["tasks"].items():
            if name not in config.sweeps or class_name(config.sweeps[name].task) != kind:
                raise RunError(
                    f"{folder} was trained on a task of class {kind}, which its study's configuration does not make; "
                    f"open it from Python with Run.open(folder, config=...), giving the configuration with that task."
                )
        mark = fingerprint(study.name, config)
        if metadata["fingerprint"] != mark:
            raise RunError(
                f"{folder / RUN} says fingerprint {metadata['fingerprint']}, its configuration gives {mark}; the "
                f"task's class or the settings have changed since. Open it with the code that made it, or run again."
            )
        run = cls(folder, study, config, metadata)
        run.store.verified(RUN)
        return run

    # -- the verbs that write

    def _write_start(self, metadata: dict[str, Any]) -> None:
        self.store.begin(START)
        self.store.write_json(RUN, metadata)
        config = replace(self.config, seeds=self.batches[0])
        self.store.write(SETTINGS, to_toml(self.study.name, config).encode())
        self.store.finish(START, [RUN, SETTINGS])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder; the verbs take it themselves, and can do so inside.

        Raises RunError while another process or thread has it, if one has added seeds since the run was opened, and for
        a copy without checkpoints.
        """
        self.check_checkpoints()
        with self.store.writing():
            self._check_unchanged()
            if START not in self.store.steps:  # the process that wrote it was killed
                self._write_start(self.metadata)
            yield

    @typed
    def train(self, progress: bool = True) -> None:
        """Train every sweep to its last step, from wherever it stopped.

        Raises RunError if training was finished, and one of its files is not what it was.
        """
        with self.writing():
            for name in self.store.steps.get(TRAIN, {"files": ()})["files"]:
                if (self.folder / name).is_file():
                    self.store.verified(name)
            if self.store.is_current(TRAIN) and self.finished:
                return
            self.store.begin(TRAIN)
            for names in stacks(self.config.sweeps):
                train_sweeps([self.sweeps[name] for name in names], progress)
            self.store.write_table("curves", self.curves, KEYS["curves"].split())
            written = [name for sweep in self.sweeps.values() for name in sweep.written]
            self.store.finish(TRAIN, [*written, "curves.parquet"])

    @typed
    def add_seeds(self, n: int) -> None:
        """Let the run have ``n`` further seeds, the next whole numbers, to be trained and probed with the rest.

        A member does not depend on the others of its stack. So, up to rounding, a run with seeds added is the run that
        had them from the beginning.

        Raises ConfigError for more seeds than a run can have, ArgumentError for none; nothing is changed then.
        """
        if n < 1:
            raise ArgumentError(f"add_seeds got n={n}; expected a whole number from 1.")
        first = max(self.config.seeds) + 1
        seeds = tuple(range(first, first + n))
        replace(self.config, seeds=(*self.config.seeds, *seeds))  # what a configuration refuses is refused now
        _prepare(self.config, seeds)
        metadata = {**self.metadata, "added_seeds": [*self.metadata["added_seeds"], list(seeds)]}
        with self.writing():
            self._write_start(metadata)
            self._take(replace(self.config, seeds=self.batches[0]), metadata)

    @typed
    def probe(self, progress: bool = True) -> None:
        """Measure every member of the trained run and judge its claims; writes tables, arrays and verdicts.

        Raises RunError if training is not finished or a checkpoint is damaged, StudyError if the measurement returns
        other tables than the study declares, or two rows of one key.
        """
        from rb_interp.runs.results import write_measured
        from rb_interp.torch_threads import few_threads

        with self.writing():
            self.store.check(TRAIN)
            measured = few_threads(self.study.load("measure"))(self, progress)
            write_measured(self, measured)

    @typed
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
            sweep: needed if the study has several. options: go to the probe (layer, head, ...).

        Raises RunError for a stage, step or sweep that the run does not have.
        """
        from rb_interp.runs.members import probe_members

        self.check_checkpoints()
        return probe_members(self.sweep(sweep), probe, stage, set, rows, options)

    @typed
    def write_report(self, out: Path | str | None = None) -> Path:
        """Draw the figures and write report.html and report.json, in the run folder or in another; returns the page.

        That of a copy without checkpoints goes to ``runs/`` and its name, if no other folder is given.

        Raises RunError if a file that it is made from is not what it was, and for the folder of another run.
        """
        from rb_interp.report.page import write_report

        if out is None and self.is_copy:
            out = Path("runs") / f"{self.folder.resolve().name}-report"
        if out is not None and Path(out).resolve() != self.folder.resolve():
            place = Path(out).resolve()
            if any(holds_run(folder) for folder in (place, *place.parents)):
                raise RunError(f"{out} is in a folder that holds a run; nothing was changed. Use another --out.")
            return write_report(self.study, self.evidence, out)
        with self.writing():
            evidence = self.evidence
            self.store.begin(REPORT)
            page = write_report(self.study, evidence, self.folder)
            figures = [f"figures/{id}.{ending}" for id in self.study.load("figures") for ending in ("svg", "png")]
            self.store.finish(REPORT, ["report.html", "report.json", *figures])
        return page

    @typed
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
        Face Hub. `from_pretrained` reads it. Circuit and readings are in it if the run is probed.

        Args:
            gamma, seed, stage, sweep: as of `model`.
            path: the folder, which must be new or empty.
            name: by default that of the folder. description: a sentence for the card.
            licence: of the weights, as the Hub spells it; by default that of this package.

        Raises RunError for a member, stage, step or sweep that the run does not have, and for a folder that holds
        something; nothing is changed then.
        """
        from rb_interp.runs.sharing import export

        facts = {"name": name, "description": description, "licence": licence}
        return export(self, path, gamma=gamma, seed=seed, stage=stage, sweep=sweep, **facts)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}: study {self.study.name}, {self.scale}, {len(self.config.seeds)} seeds)"


def _check_config(study: Study, config: StudyConfig) -> None:
    """Raise ConfigError for a configuration of another class than the study's."""
    kind = study.load("config")
    if not isinstance(config, kind):
        raise ConfigError(
            f"study '{study.name}' got {shown(config)}; expected its own {kind.__name__}, as its preset() gives it."
        )


def _prepare(config: StudyConfig, seeds: tuple[int, ...]) -> None:
    """Let the tasks that draw their data beforehand do so; what they or the device refuse is refused now."""
    for sweep in config.sweeps.values():
        resolve_device(sweep.train.device)
        prepare = getattr(sweep.task, "prepare", None)
        if prepare is not None:
            prepare(tuple(dict.fromkeys(map(sweep.data_seed_of, seeds))))
