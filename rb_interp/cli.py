"""Command line: ``rb-interp reproduce | train | probe | report | patch | ablate | sweep | studies |
info``."""

import argparse
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro
from tyro.conf import AvoidSubcommands, OmitArgPrefixes, Positional, Suppress, arg, subcommand
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from rb_interp import __version__, runs
from rb_interp.errors import ConfigError, RbInterpError, RunError, TaskError, nearest, printable
from rb_interp.store import read_run, write_file
from rb_interp.sweep_commands import ON_JOBS, StartJobs

DEFAULT = "anchor"
"""The study that is meant where none is named."""
REGISTRY = ConstructorRegistry()


@REGISTRY.primitive_rule
def combinations(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Lists of lists of whole numbers: ``--masked 11,13 13,11``."""
    if get_origin(info.type) is not tuple or get_args(get_args(info.type)[0])[1:] != (Ellipsis,):
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="A,B",
        instance_from_str=lambda texts: tuple(tuple(map(int, word.split(","))) for word in texts),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(map(str, combination)) for combination in value],
    )


@dataclass(frozen=True)
class Train:
    """Train a study's models only (does not need transformer_lens)."""

    study: Positional[str] = DEFAULT
    """Study; 'rb-interp studies' lists them."""
    config: Path | None = None
    """TOML file with a preset and what differs from it."""
    out: Path | None = None
    """Run folder; by default runs/ and the names of study and preset. A run of the same settings
    continues."""
    settings: Suppress[Any] = None
    """The study's configuration: `parse` makes flags of its fields."""

    def start(self, line: str) -> Any:
        """The run, made or opened."""
        study = runs.study(self.study)
        folder = self.out or study.folder(self.settings)
        run = runs.Run.start(folder, study, self.settings, line)
        print(f"run folder: {folder}", *_notes(run), sep="\n", file=sys.stderr)
        return run

    def __call__(self, line: str) -> None:
        run = self.start(line)
        run.train()
        print(f"trained; next: rb-interp probe {run.folder}")


@dataclass(frozen=True)
class Reproduce(Train):
    """Train a study's models, probe them, judge the claims, and write report.html."""

    until_decided: bool = False
    """Add seeds until no claim about them is OPEN, up to 20 seeds."""

    def __call__(self, line: str) -> None:
        config = self.settings
        steps = sum(
            len(sweep.gammas) * len(config.seeds) * sweep.train.steps
            for sweep in config.sweeps.values()
        )
        known = runs.study(self.study).cost.get(config.preset, "its time was not measured")
        print(
            f"cost of the preset {config.preset}: {known}; {steps:,} steps of members here",
            file=sys.stderr,
        )
        run = self.start(line)
        run.reproduce(until_decided=self.until_decided)
        _show_verdicts(run)
        print(f"report: {run.report}")


@dataclass(frozen=True)
class OnRun:
    """A command on a run folder."""

    run: Positional[Path]
    """Run folder."""

    def open(self) -> Any:
        """The run."""
        read_run(
            self.run
        )  # a folder that is no run is refused before torch and the studies are imported
        return runs.Run.open(self.run)


@dataclass(frozen=True)
class Probe(OnRun):
    """Probe a finished run and judge the claims."""

    def __call__(self, line: str) -> None:
        run = self.open()
        run.probe()
        _show_verdicts(run)
        print(f"next: rb-interp report {run.folder}")


@dataclass(frozen=True)
class Report(OnRun):
    """Draw the figures of a probed run and write report.html."""

    out: Path | None = None
    """Folder to write them to; by default the run folder."""

    def __call__(self, line: str) -> None:
        print(self.open().write_report(self.out))


@dataclass(frozen=True)
class OnMembers(OnRun):
    """A command on members of a run."""

    stage: str = "final"
    """init, final, a stage of the study such as half, or a step that was kept."""
    sweep: str = ""
    """Sweep, in a study of several."""
    out: Path | None = None
    """CSV file to write the table to."""

    def open_sweep(self) -> tuple[Any, Any]:
        """The run and its sweep."""
        run = self.open()
        run.check_checkpoints()
        sweep = run.sweep(self.sweep)
        if not sweep.finished:
            steps = sweep.checkpoint_steps
            print(
                f"training is not finished; checkpoints are there of the steps {steps}.",
                file=sys.stderr,
            )
        return run, sweep


@dataclass(frozen=True)
class Patch(OnMembers):
    """Patch one member: what does each component carry at each role, where two inputs differ in one
    thing?"""

    gamma: float = 0.8
    """Initialisation rate of the member."""
    seed: int | None = None
    """Seed of the member; the run's first by default."""
    corrupt: str = "key"
    """What clean and corrupted inputs differ in, such as key, anchors or both."""
    set: str | None = None
    """Set of the clean inputs, such as mem, rsn_train or rsn_test; by default the last that the
    task trains on."""
    pairs: int = 64
    """Pairs of inputs."""
    components: tuple[str, ...] = ()
    """Such as resid_pre attn_out mlp_out q k v z pattern; those that the model has by default."""
    roles: tuple[str, ...] = ()
    """Such as key first_anchor last_anchor anchor noise last; those of the task and last by
    default."""
    metric: str = "logit_diff"
    """logit_diff, logit, probability, loss, accuracy, rank or kl."""

    def __call__(self, line: str) -> None:
        from rb_interp.interventions.patching import patching_matrix
        from rb_interp.training.member_group import Member

        run, sweep = self.open_sweep()
        seed = run.config.seeds[0] if self.seed is None else self.seed
        task = sweep.config.task
        if not hasattr(task, "counterfactual"):
            raise TaskError(
                f"{type(task).__name__} has no counterfactual(data, rows, change, seed); add it."
            )
        stage = _stage(self.stage)
        model = sweep.model(gamma=self.gamma, seed=seed, stage=stage)
        data = sweep.dataset(seed)
        rows = data.sample(self.set or task.train_sets[-1], self.pairs)
        corrupted = task.counterfactual(data, rows, self.corrupt)
        noise = task.counterfactual(data, rows, "noise")
        matrix = patching_matrix(
            model,
            data.inputs(rows),
            corrupted,
            components=self.components or None,
            roles=self.roles or None,
            metric=self.metric,
            control=corrupted.with_tokens_of(noise, "noise"),
        )
        labels = {
            "gamma": self.gamma,
            "seed": seed,
            "stage": self.stage,
            "counterfactual": self.corrupt,
        }
        reached = sweep.reached(stage)[Member(self.gamma, seed)]
        table = matrix.to_frame().assign(**labels, reached=reached)
        print(
            f"share of the {self.metric} recovered: 1 where a cell carries all of the difference, "
            f"0 where none of it; roles overlap: the last position counts under its other role too"
        )
        texts = [f"{name} {value}" for name, value in labels.items()]
        print(", ".join([*texts, f"n {table['n'].iloc[0]}"]))
        if not reached:
            print("the member never came to this stage; these are its weights at the last step")
        shares = table.pivot_table(
            "recovered", ["component", "layer"], "role", sort=False, dropna=False
        )
        print(shares.to_string(float_format="{:.2f}".format, na_rep="-"))
        print(f"largest cell of the control: {table['control'].abs().max():.2f}")
        _save(table, self.out)


@dataclass(frozen=True)
class Ablate(OnMembers):
    """Ablate components of all members: how much accuracy does each set lose without each?"""

    sites: tuple[str, ...] = ()
    """Such as attn_out.0 or z.1.0@key; the output of each sublayer by default."""
    gammas: tuple[float, ...] = ()
    """Initialisation rates of the members; all by default."""
    methods: tuple[Literal["zero", "mean", "resample"], ...] = ("zero", "mean", "resample")
    """What stands in the component's place."""
    n: int = 300
    """Inputs of each set, at most."""

    def __call__(self, line: str) -> None:
        import pandas as pd

        from rb_interp.interventions.ablating import ablations
        from rb_interp.runs.measurement import map_members
        from rb_interp.statistics.intervals import over_seeds

        _, sweep = self.open_sweep()
        task = sweep.config.task
        known = sweep.config.gammas
        stage = _stage(self.stage)
        reached = sweep.reached(stage)
        if not {*self.gammas} <= {*known}:
            raise RunError(f"gammas={list(self.gammas)}; this run has the gammas {list(known)}.")
        sites = list(self.sites)
        if not sites:
            for layer in range(sweep.config.model.n_layers):
                sites += [f"attn_out.{layer}", f"mlp_out.{layer}"]

        def read(models: Any, member: Any) -> Any:
            models.load(member, stage)
            data = sweep.dataset(member.seed)
            labels = {"gamma": member.gamma, "seed": member.seed, "stage": self.stage}
            tables = []
            for name in task.sets:
                rows = data.sample(name, self.n)
                if len(rows) < 2:
                    continue
                noise = None
                if hasattr(task, "counterfactual"):
                    noise = task.counterfactual(data, rows, "noise")
                losses = ablations(
                    models.model, data.inputs(rows), sites, control=noise, methods=self.methods
                )
                tables.append(losses.assign(set=name, **labels, reached=reached[member]))
            return pd.concat(tables)

        members = [member for member in sweep.members if member.gamma in (self.gammas or known)]
        table = pd.concat(map_members(sweep, members, read, desc="ablating"), ignore_index=True)
        by = ["gamma", "stage", "set", "component", "method"]
        table_with_before = table.assign(before=table["accuracy"] + table["accuracy_drop"])
        quantities = ["accuracy_drop", "control_accuracy_drop", "before"]
        means = over_seeds(table_with_before, by, quantities)
        ends = means[["mean", "low", "high"]].to_numpy()
        means = means.assign(text=["{:.2f} [{:.2f}, {:.2f}]".format(*row) for row in ends])
        print(f"accuracy lost without a component, stage {self.stage}; mean over seeds [95 %]")
        rows = ["gamma", "component", "method", "quantity"]
        print(means.pivot_table("text", rows, "set", aggfunc="first", sort=False).to_string())
        n_late = sum(not reached[member] for member in members)
        if n_late:
            print(f"{n_late} members never came to this stage and stand at their last step")
        _save(table, self.out)


@dataclass(frozen=True)
class Studies:
    """List the studies that are installed, with their question and cost."""

    def __call__(self, line: str) -> None:
        from rb_interp.runs.studies import installed_studies
        from rb_interp.runs.terminal import print_studies

        print_studies(installed_studies())


@dataclass(frozen=True)
class Info(OnRun):
    """Say what a run folder holds: configuration, members, checkpoints, verdicts."""

    def __call__(self, line: str) -> None:
        run = self.open()
        from rb_interp.runs.terminal import print_run

        print_run(run)


COMMANDS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (Reproduce, Train, Probe, Report, Patch, Ablate, Studies, Info)
}
COMMANDS["sweep"] = StartJobs


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C or
    SIGTERM."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    os.environ["MPLBACKEND"] = "agg"  # figures go to files
    if argv is None:
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # raises KeyboardInterrupt, as Ctrl-C does
    try:
        if arguments == ["--version"]:
            print(f"rb-interp {__version__}")
        else:
            parse(arguments)(shlex.join(["rb-interp", *arguments]))
        return 0
    except RbInterpError as error:
        print(printable(f"rb-interp: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nrb-interp: stopped; the same command goes on from what is saved.", file=sys.stderr)
        return 130


def parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments stand for. A study is loaded only where its settings are the
    command's flags."""
    word = arguments[0] if arguments else ""
    flags = list(arguments[1:])
    if not word.startswith("-") and word not in COMMANDS:
        raise ConfigError(f"there is no command '{word}'; {nearest(word, COMMANDS)}")
    if word not in COMMANDS:
        text = "What initialisation does to the circuit a transformer learns: train, probe, judge, show."
        union: Any = reduce(
            or_, (Annotated[kind, subcommand(name)] for name, kind in COMMANDS.items())
        )
        return tyro.cli(union, args=[word], prog="rb-interp", description=text)
    kind = COMMANDS[word]
    if word == "sweep" and flags and flags[0] in ON_JOBS:
        word = f"sweep {flags[0]}"
        kind = ON_JOBS[flags.pop(0)]
    options: dict[str, Any] = {"prog": f"rb-interp {word}", "registry": REGISTRY}
    if word in ("reproduce", "train"):
        name, start = starting_point(flags)
        settings: Any = AvoidSubcommands[
            Annotated[type(start), arg(name="")]
        ]  # a sweep may be None in a preset
        if "" in start.sweeps:  # train.steps, as in a file, is the flag --steps
            settings = OmitArgPrefixes[settings]
            flags = [re.sub(r"^--(task|model|train)\.(gammas\.)?", "--", word) for word in flags]
        command: Any = make_dataclass(
            kind.__name__, [("settings", settings, start)], bases=(kind,), frozen=True
        )
        command.__doc__ = kind.__doc__
        options["default"] = command(study=name)
        kind = command
    return tyro.cli(kind, args=flags, **options)


def starting_point(arguments: Sequence[str]) -> tuple[str, Any]:
    """The study that comes first, and the configuration that its flags change: of --config, of
    --preset, or quick."""
    from rb_interp.settings import read_toml

    # Flags and their defaults come from the study and its starting point, and tyro wants them
    # before it reads a word.
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--preset", nargs="?")
    early.add_argument("--config", type=Path, nargs="?")
    options, _ = early.parse_known_args(list(arguments))
    name = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if options.config is None:
        name = name or DEFAULT
        return name, runs.study(name).preset(options.preset or "quick")
    content = read_toml(options.config)
    study_name = str(content.get("study", DEFAULT))
    kind = runs.study(study_name).load("config")
    config = runs.config.from_mapping(kind, content, str(options.config))
    if name not in (None, study_name) or options.preset not in (None, config.preset):
        raise ConfigError(
            f"{options.config} says study '{study_name}' and preset '{config.preset}', the command says "
            f"another; give one."
        )
    return study_name, config


def _notes(run: Any) -> list[str]:
    """Sentences that a study adds to its runs, for instance about stand-ins for data."""
    note = run.study.load("train_note")
    return [] if note is None else note(run.config)


def _stage(text: str) -> str | int:
    """A stage by name, or a step."""
    return int(text) if text.isdecimal() else text


def _save(table: Any, out: Path | None) -> None:
    if out is not None:
        write_file(out, table.to_csv(index=False).encode())
        print(f"table: {out}")


def _show_verdicts(run: Any) -> None:
    from rb_interp.runs.terminal import print_verdicts

    print_verdicts(run.verdicts)
    note = run.evidence.unreached()
    if note:
        print(note)
    for sentence in _notes(run):
        print(sentence)
