"""A run is a folder: one study carried out. It can be stopped, continued, moved, and opened years
later."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.claims import Verdicts
from rb_interp.errors import ArgumentError, ConfigError, RunError, StudyError, describe, nearest
from rb_interp.figures.evidence import Evidence
from rb_interp.models.protocol import HookedModel
from rb_interp.runs import measurement
from rb_interp.runs.config import (
    StudyConfig,
    StudyDefinition,
    check_lr,
    find_study,
    fingerprint,
    from_mapping,
    stacks,
)
from rb_interp.runs.results import KEYS, RunFolder, StudyResult, with_reached
from rb_interp.runs.shared_member import SharedMember
from rb_interp.runs.sharing import save_member
from rb_interp.runs.sweep import LATE, train_sweeps
from rb_interp.settings import differences, plain, to_toml
from rb_interp.store import (
    PROBE,
    REPORT,
    RUN,
    SETTINGS,
    START,
    TRAIN,
    read_run,
    run_record,
    write_file,
)
from rb_interp.training.loop import resolve_device
from rb_interp.training.member_group import Member

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(RunFolder):
    """A run folder: what is in it, and the verbs that train, measure, judge and report.

    `RunFolder` describes what it holds.

    >>> import tempfile
    >>> import rb_interp as rb
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(folder, rb.study("anchor"), rb.study("anchor").preset("smoke", seeds=(0,)))
    >>> Run.open(folder).config == run.config, list(run.sweeps)
    (True, ['', 'fixed_average'])
    """

    def _take(self, config: StudyConfig, metadata: dict[str, Any]) -> None:
        super()._take(config, metadata)
        self._evidence: tuple[Any, Evidence] | None = None

    @classmethod
    @checked
    def start(
        cls, folder: Path | str, study: StudyDefinition, config: StudyConfig, command: str = ""
    ) -> Run:
        """Make the folder, or open it if it holds the same study with the same configuration.

        Raises RunError if the folder holds something else, ConfigError for a configuration of
        another study, and what the task raises if it refuses its settings; nothing is written then.
        """
        kind = study.load("config")
        if not isinstance(config, kind):
            raise ConfigError(
                f"study '{study.name}' got {describe(config)}; expected its own {kind.__name__}."
            )
        folder = Path(folder)
        mark = fingerprint(study.name, config)
        if (folder / RUN).is_file():
            metadata = read_run(folder)
            if metadata["fingerprint"] != mark:
                difference = f"it is of study '{metadata['study']}'"
                if metadata["study"] == study.name:
                    existing = from_mapping(type(config), metadata["config"], str(folder / RUN))
                    difference = differences(existing, config) or "its task is of another class"
                raise RunError(
                    f"{folder} holds a run with another configuration ({difference}); nothing was "
                    f"changed. Use another --out, or repeat the command that made it to continue "
                    f"it."
                )
            return cls(folder, study, config, metadata)
        check_lr(config)
        study.check_claims(config)
        _prepare(config, config.seeds)
        metadata = run_record(study.name, mark, plain(config), command)
        run = cls(folder, study, config, metadata)
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        if folder.is_file() or not all(name.startswith(".") for name in names):
            raise RunError(
                f"{folder} holds something else than this run; nothing was changed. Give another "
                f"folder."
            )
        with run.store.writing():
            run._write_start(metadata)
        return run

    @classmethod
    @checked
    def open(
        cls,
        folder: Path | str,
        *,
        config: StudyConfig | None = None,
        study: StudyDefinition | None = None,
    ) -> Run:
        """Open a run folder; RunError says what is wrong with it.

        Args:
            config: needed if its task is of another class than the study's own.
            study: needed if it is not installed.
        """
        folder = Path(folder)
        metadata = read_run(folder)
        try:
            study = study or find_study(metadata["study"])
        except StudyError as error:
            raise StudyError(
                f"{error} (or open the run in Python: Run.open(folder, study=STUDY))"
            ) from None
        source = str(folder / RUN)
        settings = config or from_mapping(study.load("config"), metadata["config"], source)
        if metadata["fingerprint"] != fingerprint(study.name, settings):
            raise RunError(
                f"{source} has another fingerprint than its configuration gives: a task's "
                f"class or the settings have changed. Open it with the code that made it, or with "
                f"Run.open(folder, config=...)."
            )
        run = cls(folder, study, settings, metadata)
        run.store.verified(RUN)
        return run

    @checked
    def model(
        self, *, gamma: float, seed: int, stage: str | int = "final", sweep: str = ""
    ) -> HookedModel:
        """One member as a TransformerLens model, with exactly the trained weights.

        Args:
            gamma, seed: the member. stage: ``init``, ``final``, a stage that the run kept, or a
                step that it kept.
            sweep: needed if the study has several.

        Warns if the member never came to the stage: its weights are those of the last step then.
        """
        self.check_checkpoints()
        model = self.sweep(sweep).model(gamma=gamma, seed=seed, stage=stage)
        self._reached(Member(gamma, seed), stage, sweep)
        return model

    def _reached(self, member: Member, stage: str | int, sweep: str) -> bool:
        """Whether a member came to a stage; a warning says so to the caller of the method if it
        never did."""
        reached = self.sweep(sweep).reached(stage)[member]
        if not reached:
            message = f"gamma={member.gamma:g}, seed={member.seed} never came to '{stage}'; {LATE}."
            warnings.warn(message, stacklevel=4)
        return reached

    @checked
    def figure(self, name: str) -> Figure:
        """A figure of the study, drawn from this run; StudyError for an unknown name."""
        from rb_interp.figures.kit import draw

        drawings = self.study.load("figures")
        if name not in drawings:
            raise StudyError(
                f"study '{self.study.name}' has no figure '{name}'; {nearest(name, drawings)}"
            )
        return draw(drawings[name], self.evidence)

    @property
    def evidence(self) -> Evidence:
        """Everything that figures and report use; RunError if the run was not measured, or a file
        is damaged."""
        self._check(PROBE)
        record = self.store.steps[PROBE]
        if self._evidence is None or self._evidence[0] != record:
            self._evidence = (record, measurement.read_evidence(self))
        return self._evidence[1]

    @property
    def verdicts(self) -> Verdicts:
        """What was decided of each claim."""
        return self.evidence.verdicts

    @property
    def verdicts_within(self) -> dict[str, Verdicts]:
        """Group of seeds -> what was decided within it, the largest group first; empty in a study
        without groups."""
        within = self.evidence.within
        return {} if within is None else {group.name: group.verdicts for group in within.groups}

    # -- the verbs that write

    def _write_start(self, metadata: dict[str, Any]) -> None:
        self.store.begin(START)
        self.store.write_json(RUN, metadata)
        config = replace(self.config, seeds=self.batches[0])
        write_file(self.folder / SETTINGS, to_toml(self.study.name, config).encode())
        self.store.finish(START, [RUN, SETTINGS])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write the folder; the verbs take it themselves, and can do so inside.

        Raises RunError while another process has it, if one has added seeds since, and for a copy
        without checkpoints.
        """
        self.check_checkpoints()
        with self.store.writing():
            self._check(START)
            if START not in self.store.steps:  # the process that wrote it was killed
                self._write_start(self.metadata)
            yield

    @checked
    def train(self, progress: bool = True) -> None:
        """Train every sweep to its last step, from wherever it stopped; RunError for a file that is
        not what it was."""
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
            replays = {name: sweep.replays for name, sweep in self.sweeps.items()}
            self.store.finish(TRAIN, [*written, "curves.parquet"], cuda_graph_replays=replays)

    @checked
    def reproduce(self, progress: bool = True, until_decided: bool = False) -> Run:
        """Train, measure, judge and report, from wherever an earlier call was stopped; returns the
        run.

        What was measured already, from the same checkpoints and by the same code, is not measured
        again. With ``until_decided`` seeds are added, four at a time and up to 20, as long as a
        claim about seeds is OPEN.
        """
        with self.writing():
            self.train(progress)
            if not measurement.is_measured(self):
                self.probe(progress)
            while until_decided:
                n = measurement.seeds_to_add(self.verdicts, len(self.config.seeds))
                if n == 0:
                    break
                self.add_seeds(n)
                self.train(progress)
                self.probe(progress)
            self.write_report()
        return self

    @checked
    def add_seeds(self, n: int) -> None:
        """Let the run have ``n`` further seeds, the next whole numbers.

        Up to rounding, a run with seeds added is the run that had them from the beginning.
        """
        if n < 1:
            raise ArgumentError(f"add_seeds got n={n}; expected a whole number from 1.")
        first = max(self.config.seeds) + 1
        self.add_batches([tuple(range(first, first + n))])

    def add_batches(self, batches: Sequence[tuple[int, ...]]) -> None:
        """Let the run have further seeds, those of a batch to be trained together."""
        seeds = tuple(seed for batch in batches for seed in batch)
        replace(self.config, seeds=(*self.config.seeds, *seeds))  # refused now, if ever
        _prepare(self.config, seeds)
        added = [*self.metadata["added_seeds"], *map(list, batches)]
        metadata = {**self.metadata, "added_seeds": added}
        with self.writing():
            self._write_start(metadata)
            self._take(replace(self.config, seeds=self.batches[0]), metadata)

    @checked
    def probe(self, progress: bool = True) -> None:
        """Measure every member of the trained run and judge its claims; writes tables, arrays and
        verdicts.

        Raises RunError if training is not finished, StudyError if the measurement returns other
        tables than declared.
        """
        with self.writing():
            self.store.check(TRAIN)
            result = single_threaded(self.study.load("measure"))(self, progress)
            if not isinstance(result, StudyResult):
                raise StudyError(
                    f"measure of study '{self.study.name}' returned {describe(result)}; expected "
                    f"StudyResult(readings, tables, arrays), with readings of readings_table."
                )
            measurement.write_result(self, result)

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
            stage: a stage or a step that the run kept. set: the inputs that the probe sees,
                ``rows`` of them at most.
            sweep: needed if the study has several. options: go to the probe (layer, head, ...).
        """

        def plan(models: Any, member: Any) -> Iterator[tuple[str, str, Any]]:
            models.load(member, stage)
            data = models.sweep.dataset(member.seed)
            inputs = data.inputs(data.sample(set, rows))
            reading = probe(models.model, inputs, untrained=models.untrained, **options)
            yield str(stage), set, reading

        self.check_checkpoints()
        result = measurement.measure_members(self, plan, [self.sweep(sweep).name], progress=False)
        return with_reached(self.sweeps, result.readings)

    @checked
    def write_report(self, out: Path | str | None = None) -> Path:
        """Draw the figures and write report.html, in the run folder or in another; returns the
        page.

        That of a copy without checkpoints goes to ``runs/`` and its name, if no other folder is
        given.
        """
        from rb_interp.report.page import write_report

        if out is None and self.is_copy:
            out = Path("runs") / f"{self.folder.resolve().name}-report"
        if out is not None and Path(out).resolve() != self.folder.resolve():
            target = Path(out).resolve()
            if any((folder / RUN).is_file() for folder in (target, *target.parents)):
                raise RunError(
                    f"{out} is in a folder that holds a run; nothing was changed. Use another "
                    f"--out."
                )
            return write_report(self.study, self.evidence, out)
        with self.writing():
            evidence = self.evidence
            self.store.begin(REPORT)
            page = write_report(self.study, evidence, self.folder)
            files = ["report.html"]
            for id in self.study.load("figures"):
                files += [f"figures/{id}.svg", f"figures/{id}.png"]
            self.store.finish(REPORT, files)
        return page

    @checked
    def export(
        self,
        *,
        gamma: float,
        seed: int,
        path: Path | str,
        stage: str | int = "final",
        sweep: str = "",
        **facts: str,
    ) -> SharedMember:
        """Write one member into a folder of its own, to share it: weights, what it learned, and
        what was measured.

        `from_pretrained` reads it. Circuit and readings are in it if the run is probed.

        Args:
            gamma, seed, stage, sweep: as of `model`, which warns alike.
            path, facts: as of `save_member`; of the latter ``name``, ``description`` and
                ``licence``.
        """
        self.check_checkpoints()
        source = self.sweep(sweep)
        config = source.config
        checkpoint = source.checkpoint(stage, gamma, seed)
        circuit = None
        readings: list[dict[str, Any]] = []
        if self.store.is_current(PROBE):
            table = self.readings
            labels = {"sweep": sweep, "gamma": gamma, "seed": seed, "stage": str(stage)}
            rows: Any = table[(table[list(labels)] == list(labels.values())).all(axis=1)]
            readings = rows.drop(columns=["sweep", "gamma", "seed"]).to_dict("records")
            find_circuits = self.study.load("circuits")
            # A study names circuits of its main sweep at the last step alone.
            if find_circuits is not None and stage == "final" and not sweep:
                result = StudyResult(self.evidence.readings, self.evidence.tables)
                circuit = find_circuits(result).get((gamma, seed))
        lr = dict(config.rates).get(gamma, config.train.lr)
        return save_member(
            path,
            model=config.model,
            weights=checkpoint.member(gamma, seed),
            task=config.task,
            data=source.dataset(seed),
            data_seed=config.data_seed_of(seed),
            study=self.study.name,
            gamma=gamma,
            seed=seed,
            stage=str(stage),
            step=checkpoint.step,
            reached=self._reached(Member(gamma, seed), stage, sweep),
            circuit=circuit,
            training=config.train.steps_alone(lr=lr),
            readings=readings,
            **facts,
        )

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}: study {self.study.name}, {self.scale}, {len(self.config.seeds)} seeds)"


def _prepare(config: StudyConfig, seeds: tuple[int, ...]) -> None:
    """Let the tasks that draw their data beforehand do so; what they or the device refuse is
    refused now."""
    for sweep in config.sweeps.values():
        resolve_device(sweep.train.device)
        prepare = getattr(sweep.task, "prepare", None)
        if prepare is not None:
            prepare(tuple(dict.fromkeys(map(sweep.data_seed_of, seeds))))
