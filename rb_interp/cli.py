"""Command line: ``rb-interp reproduce | train | probe | report | init | info``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional, subcommand
from tyro.constructors import PrimitiveConstructorSpec

from rb_interp import __version__
from rb_interp.errors import ConfigError, RbInterpError, nearest
from rb_interp.study.config import StudyConfig, load_config
from rb_interp.tasks import AnchorTask

COMBINATIONS = PrimitiveConstructorSpec(
    nargs="*",
    metavar="A,B",
    instance_from_str=lambda words: tuple(tuple(int(part) for part in word.split(",")) for word in words),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda value: [",".join(map(str, combination)) for combination in value],
)
"""How anchor combinations are written on the command line: ``--masked 11,13 13,11``."""


@dataclass(frozen=True)
class TaskFlags(AnchorTask):
    masked: Annotated[tuple[tuple[int, ...], ...], COMBINATIONS] = AnchorTask.masked


TaskFlags.__doc__ = AnchorTask.__doc__


@dataclass(frozen=True)
class StudyFlags(StudyConfig):
    task: TaskFlags = field(default_factory=TaskFlags)

    @staticmethod
    def of(config: StudyConfig) -> StudyFlags:
        return StudyFlags(**{**shallow(config), "task": TaskFlags(**shallow(config.task))})

    @property
    def config(self) -> StudyConfig:
        return StudyConfig(**{**shallow(self), "task": AnchorTask(**shallow(self.task))})


StudyFlags.__doc__ = StudyConfig.__doc__


def shallow(config: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, inner dataclasses as they are."""
    return {f.name: getattr(config, f.name) for f in fields(config)}


@dataclass(frozen=True)
class Sweep:
    """What to run. --config and --preset set what the other flags start from."""

    study: OmitArgPrefixes[StudyFlags]
    out: Path | None = None
    """Run folder; by default runs/ and the preset's name. An existing run of the same configuration is continued."""
    config: Path | None = None
    """TOML file with a preset and what differs from it."""


@dataclass(frozen=True)
class Reproduce(Sweep):
    """Train the gamma sweep, probe it, judge the claims, and write report.html."""


@dataclass(frozen=True)
class Train(Sweep):
    """Train the gamma sweep only (does not need transformer_lens)."""


@dataclass(frozen=True)
class Probe:
    """Probe a finished run and judge the claims."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Report:
    """Draw the figures of a probed run and write report.html and report.json."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Info:
    """Say what a run folder holds: configuration, members, checkpoints, verdicts."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Init:
    """Print each parameter's shape, d_in, intended and measured standard deviation."""

    study: OmitArgPrefixes[StudyFlags]
    gamma: float = 0.8
    """Initialisation rate."""
    seed: int = 0
    """Seed of the draws."""
    config: Path | None = None
    """TOML file with a preset and what differs from it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 done, 2 bad input, 130 stopped by Ctrl-C)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"rb-interp {__version__}")
        return 0
    try:
        command = parse(arguments)
        return run_command(command, shlex.join(["rb-interp", *arguments]))
    except RbInterpError as error:
        print(f"rb-interp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nrb-interp: stopped; the same command continues from the last saved step.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments stand for."""
    base = StudyFlags.of(starting_point(arguments))
    kinds = {
        "reproduce": (Reproduce, Reproduce(base)),
        "train": (Train, Train(base)),
        "probe": (Probe, None),
        "report": (Report, None),
        "init": (Init, Init(base)),
        "info": (Info, None),
    }
    choices = [
        Annotated[kind, subcommand(name) if default is None else subcommand(name, default=default)]
        for name, (kind, default) in kinds.items()
    ]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in kinds:
        raise ConfigError(f"there is no command '{arguments[0]}'; {nearest(arguments[0], kinds)}")
    union = choices[0]
    for choice in choices[1:]:
        union = union | choice  # type: ignore
    text = "What initialisation does to the circuit a transformer learns: train, probe, judge, show."
    return tyro.cli(union, args=list(arguments), prog="rb-interp", description=text)  # type: ignore


def starting_point(arguments: Sequence[str]) -> StudyConfig:
    """Configuration that --config or --preset names; the remaining flags change it."""
    file, preset = _value(arguments, "--config"), _value(arguments, "--preset")
    if file is not None:
        base = load_config(Path(file))
        if preset not in (None, base.preset):
            raise ConfigError(f"--preset {preset} and {file} (preset {base.preset}) disagree; give one of them.")
        return base
    return StudyConfig.from_preset(preset or "quick")


def _value(arguments: Sequence[str], flag: str) -> str | None:
    for position, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
        if argument == flag and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def run_command(command: Any, line: str) -> int:
    """Carry a parsed command out."""
    if isinstance(command, Reproduce):
        return _reproduce(command, line)
    if isinstance(command, Train):
        return _train(command, line)
    if isinstance(command, Init):
        return _init(command)
    return {Probe: _probe, Report: _report, Info: _info}[type(command)](command)


def _reproduce(command: Sweep, line: str) -> int:
    from rb_interp.study.study import default_folder, reproduce

    folder = command.out or default_folder(command.study.config)
    print(f"run folder: {folder}", file=sys.stderr)
    _show_verdicts(reproduce(command.study.config, folder, command=line))
    return 0


def _train(command: Sweep, line: str) -> int:
    from rb_interp.study.run import Run
    from rb_interp.study.study import default_folder
    from rb_interp.training.members import resolve_device

    resolve_device(command.study.train.device)
    folder = command.out or default_folder(command.study.config)
    print(f"run folder: {folder}", file=sys.stderr)
    run = Run.start(folder, command.study.config, line)
    run.train()
    print(f"trained to step {run.step}; next: rb-interp probe {folder}")
    return 0


def _probe(command: Probe) -> int:
    from rb_interp.study.run import Run
    from rb_interp.study.study import probe_run

    run = Run.open(command.run)
    probe_run(run)
    _show_verdicts(run, report=False)
    return 0


def _report(command: Report) -> int:
    from rb_interp.study.run import Run
    from rb_interp.study.study import report_run

    print(report_run(Run.open(command.run)))
    return 0


def _init(command: Init) -> int:
    from rb_interp.models.table import initialisation_table

    table = initialisation_table(command.study.config.task, command.study.model, command.gamma, command.seed)
    print(table.to_string(index=False, float_format="{:.4g}".format))
    return 0


def _info(command: Info) -> int:
    from rb_interp.report.terminal import print_run
    from rb_interp.study.run import Run

    print_run(Run.open(command.run))
    return 0


def _show_verdicts(run: Any, report: bool = True) -> None:
    import json

    from rb_interp.report.terminal import print_verdicts

    print_verdicts(json.loads((run.folder / "claims.json").read_text()))
    print(f"report: {run.folder / 'report.html'}" if report else f"next: rb-interp report {run.folder}")


if __name__ == "__main__":
    sys.exit(main())
