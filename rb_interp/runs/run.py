"""A run is a folder: one study carried out. It can be stopped, continued, moved, and opened years
later."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.claims import Verdict, Verdicts
from rb_interp.claims.rule import FEWEST
from rb_interp.errors import ArgumentError, ConfigError, RunError, StudyError, nearest, shown
from rb_interp.figures.evidence import Evidence
from rb_interp.models.protocol import HookedModel
from rb_interp.runs import measured
from rb_interp.runs.config import (
    Study,
    StudyConfig,
    check_lr,
    fingerprint,
    from_mapping,
    scale_of,
    stacks,
)
from rb_interp.runs.config import study as find_study
from rb_interp.runs.measured import KEYS, StudyResult
from rb_interp.runs.shared_member import SharedMember, save_member
from rb_interp.runs.store import (
    PROBE,
    REMEDY,
    REPORT,
    RUN,
    SETTINGS,
    START,
    TRAIN,
    RunStore,
    read_run,
    run_record,
    write_file,
)
from rb_interp.runs.sweep import LATE, Sweep, train_sweeps
from rb_interp.settings import differences, plain, to_toml
from rb_interp.training.loop import resolve_device
from rb_interp.training.member_group import Member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SEEDS, SEEDS_A_TIME = 20, 4


class Run:
    """A run folder: what is in it, and the verbs that train, measure, judge and report.

    A copy of the folder without ``checkpoints`` opens and reports as the run does; it trains and
    measures nothing.

    Attributes:
        folder: its path. study, config: the study and its settings, with the seeds that were added.
        metadata: content of ``run.json``. sweeps: its sweeps by name. store: its files, and the
            right to write them.
        batches: the seeds that it began with, and those that were added, as they were trained
            together.

    >>> import tempfile
    >>> import rb_interp as rb
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(folder, rb.study("anchor"), rb.study("anchor").preset("smoke", seeds=(0,)))
    >>> Run.open(folder).config == run.config, list(run.sweeps)
    (True, ['', 'fixed_average'])
    """

    @checked
    def __init__(
        self, folder: Path, study: Study, config: StudyConfig, metadata: dict[str, Any]
    ) -> None:
        self.folder, self.study, self.store = Path(folder), study, RunStore(folder)
        self._take(config, metadata)

    def _take(self, config: StudyConfig, metadata: dict[str, Any]) -> None:
        self.metadata, self._evidence = metadata, None
        self.batches = [config.seeds, *(tuple(seeds) for seeds in metadata["added_seeds"])]
        self.config = replace(config, seeds=tuple(seed for seeds in self.batches for seed in seeds))
        self.sweeps = {
            name: Sweep(
                self.folder / name, name, sweep, self.batches, config.sibling_stages, self.store
            )
            for name, sweep in config.sweeps.items()
        }

    @classmethod
    @checked
    def start(cls, folder: Path | str, study: Study, config: StudyConfig, command: str = "") -> Run:
        """Make the folder, or open it if it holds the same study with the same configuration.

        Raises RunError if the folder holds something else, ConfigError for a configuration of
        another study, and what the task raises if it refuses its settings; nothing is written then.
        """
        if not isinstance(config, kind := study.load("config")):
            raise ConfigError(
                f"study '{study.name}' got {shown(config)}; expected its own {kind.__name__}."
            )
        folder, mark = Path(folder), fingerprint(study.name, config)
        if (folder / RUN).is_file():
            metadata = read_run(folder)
            if metadata["fingerprint"] != mark:
                differing = f"it is of study '{metadata['study']}'"
                if metadata["study"] == study.name:
                    held = from_mapping(type(config), metadata["config"], str(folder / RUN))
                    differing = differences(held, config) or "its task is of another class"
                raise RunError(
                    f"{folder} holds a run with another configuration ({differing}); nothing was "
                    f"changed. Use another "
                    f"--out, or repeat the command that made it to continue it."
                )
            return cls(folder, study, config, metadata)
        check_lr(config)
        study.check_claims(config)
        _prepare(config, config.seeds)
        metadata = run_record(study.name, mark, plain(config), command)
        run = cls(folder, study, config, metadata)
        if folder.is_file() or (
            folder.is_dir() and any(path.name[0] != "." for path in folder.iterdir())
        ):
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
        cls, folder: Path | str, *, config: StudyConfig | None = None, study: Study | None = None
    ) -> Run:
        """Open a run folder; RunError says what is wrong with it.

        Args:
            config: needed if its task is of another class than the study's own.
            study: needed if it is not installed.
        """
        folder, metadata = Path(folder), read_run(Path(folder))
        try:
            study = study or find_study(metadata["study"])
        except StudyError as error:
            raise StudyError(
                f"{error} (or open the run in Python: Run.open(folder, study=STUDY))"
            ) from None
        settings = config or from_mapping(
            study.load("config"), metadata["config"], str(folder / RUN)
        )
        if metadata["fingerprint"] != fingerprint(study.name, settings):
            raise RunError(
                f"{folder / RUN} has another fingerprint than its configuration gives: a task's "
                f"class or the settings "
                f"have changed. Open it with the code that made it, or with Run.open(folder, "
                f"config=...)."
            )
        run = cls(folder, study, settings, metadata)
        run.store.verified(RUN)
        return run

    # -- what it holds

    @property
    def finished(self) -> bool:
        """Whether every sweep is trained to its last step."""
        return self.is_copy or all(sweep.finished for sweep in self.sweeps.values())

    @property
    def is_copy(self) -> bool:
        """Whether the folder is a copy without checkpoints: it opens and reports, and has no
        members."""
        held = any((sweep.folder / "checkpoints").is_dir() for sweep in self.sweeps.values())
        return TRAIN in self.store.steps and not held

    def check_checkpoints(self) -> None:
        """Raise RunError for a copy without checkpoints, which has no members."""
        if self.is_copy:
            raise RunError(
                f"{self.folder} holds tables alone, without checkpoints, so nothing is trained or "
                f"measured there; make "
                f"the run again: rb-interp reproduce --config {self.folder / SETTINGS} --out "
                f"{Path('runs') / self.folder.resolve().name}"
            )

    @property
    def scale(self) -> str:
        """How serious the run is: its preset's name, or ``custom`` if sizes differ from the
        preset's."""
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

    @checked
    def model(
        self, *, gamma: float, seed: int, stage: str | int = "final", sweep: str = ""
    ) -> HookedModel:
        """One member as a TransformerLens model, with exactly the trained weights.

        Args:
            gamma, seed: the member. stage: ``init``, ``final``, a stage that the run kept, or a
                step that it kept.
            sweep: needed if the study has several.

        Warns where the member never came to the stage: its weights are those of the last step then.
        """
        self.check_checkpoints()
        model = self.sweep(sweep).model(gamma=gamma, seed=seed, stage=stage)
        self._reached(Member(gamma, seed), stage, sweep)
        return model

    def _reached(self, member: Member, stage: str | int, sweep: str) -> bool:
        """Whether a member came to a stage; a warning says so to the caller of the method if it
        never did."""
        if not (reached := self.sweep(sweep).reached(stage)[member]):
            told = f"gamma={member.gamma:g}, seed={member.seed} never came to '{stage}'; {LATE}."
            warnings.warn(told, stacklevel=4)
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
    def evidence(self) -> Evidence:
        """Everything that figures and report use; RunError if the run was not measured, or a file
        is damaged."""
        self._check(PROBE)
        record = self.store.steps[PROBE]
        if self._evidence is None or self._evidence[0] != record:
            self._evidence = record, measured.read_evidence(self)
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

    @property
    def report(self) -> Path:
        """The report's page; RunError if it is not written yet, was made from other tables, or is
        damaged."""
        self._check(REPORT)
        return self.store.verified("report.html")

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
            self.store.finish(TRAIN, [*written, "curves.parquet"])

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
            if not measured.measured_already(self):
                self.probe(progress)
            while until_decided and (n := seeds_to_add(self.verdicts, len(self.config.seeds))):
                self.add_seeds(n)
                self.train(progress)
                self.probe(progress)
            self.write_report()
        return self

    @checked
    def add_seeds(self, n: int) -> None:
        """Let the run have ``n`` further seeds, the next whole numbers, to be trained and probed
        with the rest.

        A member does not depend on the others of its stack. So, up to rounding, a run with seeds
        added is the run that had them from the beginning.
        """
        if n < 1:
            raise ArgumentError(f"add_seeds got n={n}; expected a whole number from 1.")
        first = max(self.config.seeds) + 1
        seeds = tuple(range(first, first + n))
        replace(
            self.config, seeds=(*self.config.seeds, *seeds)
        )  # what a configuration refuses is refused now
        _prepare(self.config, seeds)
        metadata = {**self.metadata, "added_seeds": [*self.metadata["added_seeds"], list(seeds)]}
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
                told = f"measure of study '{self.study.name}' returned {shown(result)}; expected StudyResult(readings"
                raise StudyError(f"{told}, tables, arrays), with readings of readings_table.")
            measured.write_measured(self, result)

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
            yield (
                str(stage),
                set,
                probe(models.model, inputs, untrained=models.untrained, **options),
            )

        self.check_checkpoints()
        result = measured.measure_members(self, plan, [self.sweep(sweep).name], progress=False)
        return measured.with_reached(self, result.readings)

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
            place = Path(out).resolve()
            if any((folder / RUN).is_file() for folder in (place, *place.parents)):
                raise RunError(
                    f"{out} is in a folder that holds a run; nothing was changed. Use another "
                    f"--out."
                )
            return write_report(self.study, self.evidence, out)
        with self.writing():
            evidence = self.evidence
            self.store.begin(REPORT)
            page = write_report(self.study, evidence, self.folder)
            figures = [
                f"figures/{id}.{ending}"
                for id in self.study.load("figures")
                for ending in ("svg", "png")
            ]
            self.store.finish(REPORT, ["report.html", *figures])
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
        own, config, circuit, readings = self.sweep(sweep), self.sweep(sweep).config, None, []
        checkpoint = own.checkpoint(stage, gamma, seed)
        if self.store.is_current(PROBE):
            table, find = self.readings, self.study.load("circuits")
            place = {"sweep": sweep, "gamma": gamma, "seed": seed, "stage": str(stage)}
            rows: Any = table[(table[list(place)] == list(place.values())).all(axis=1)]
            readings = rows.drop(columns=["sweep", "gamma", "seed"]).to_dict("records")
            if (
                find is not None and stage == "final" and not sweep
            ):  # of these alone a study names circuits
                circuit = find(StudyResult(self.evidence.readings, self.evidence.tables)).get(
                    (gamma, seed)
                )
        return save_member(
            path,
            model=config.model,
            weights=checkpoint.member(gamma, seed),
            task=config.task,
            data=own.dataset(seed),
            data_seed=config.data_seed_of(seed),
            study=self.study.name,
            gamma=gamma,
            seed=seed,
            stage=str(stage),
            step=checkpoint.step,
            reached=self._reached(Member(gamma, seed), stage, sweep),
            circuit=circuit,
            training=config.train.steps_alone(lr=dict(config.rates).get(gamma, config.train.lr)),
            readings=readings,
            **facts,
        )

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}: study {self.study.name}, {self.scale}, {len(self.config.seeds)} seeds)"


def _versions(step: Mapping[str, Any]) -> str:
    """Device and versions of one step of ``provenance.json``."""
    versions = step.get("versions", {})
    parts = [step.get("device", "")]
    if isinstance(versions, dict):
        parts += [f"{package} {version}" for package, version in versions.items()]
    return ", ".join(filter(None, parts))


def _prepare(config: StudyConfig, seeds: tuple[int, ...]) -> None:
    """Let the tasks that draw their data beforehand do so; what they or the device refuse is
    refused now."""
    for sweep in config.sweeps.values():
        resolve_device(sweep.train.device)
        prepare = getattr(sweep.task, "prepare", None)
        if prepare is not None:
            prepare(tuple(dict.fromkeys(map(sweep.data_seed_of, seeds))))


def seeds_to_add(verdicts: Iterable[Verdict], n_seeds: int) -> int:
    """How many seeds to add so that more claims can be decided: those that are OPEN and about
    seeds."""
    able = any(verdict.outcome == "OPEN" and verdict.unit == "seed" for verdict in verdicts)
    return max(0, min(MOST_SEEDS, max(FEWEST, n_seeds + SEEDS_A_TIME)) - n_seeds) if able else 0
