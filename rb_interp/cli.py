"""Command line: ``rb-interp reproduce | train | probe | patch | ablate | calibrate | report | init | info``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import tyro
from tyro.conf import subcommand

from rb_interp import __version__
from rb_interp.errors import ConfigError, RbInterpError, nearest
from rb_interp.flags import (
    ANCHOR,
    Ablate,
    Calibrate,
    Info,
    Init,
    InitLanguage,
    LanguageSweep,
    Parts,
    Patch,
    Probe,
    Report,
    Reproduce,
    ReproduceLanguage,
    ReproduceParts,
    StudyFlags,
    Sweep,
    Train,
    TrainLanguage,
    TrainParts,
)
from rb_interp.study.config import StudyConfig
from rb_interp.study.language_config import LANGUAGE, LanguageConfig, default_language_folder
from rb_interp.study.series_config import STUDIES, SeriesConfig, load_study


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
    start = starting_point(arguments)
    kinds = {
        **_sweeps(arguments, start),
        "probe": (Probe, None),
        "patch": (Patch, None),
        "ablate": (Ablate, None),
        "calibrate": (Calibrate, None),
        "report": (Report, None),
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


def _sweeps(
    arguments: Sequence[str], start: StudyConfig | SeriesConfig | LanguageConfig
) -> dict[str, tuple[type, Any]]:
    """The commands whose flags depend on the study, each with what its flags start from."""
    if isinstance(start, LanguageConfig):
        commands = {"reproduce": ReproduceLanguage, "train": TrainLanguage, "init": InitLanguage}
        return {name: (kind, kind(start)) for name, kind in commands.items()}
    if isinstance(start, SeriesConfig):
        check_series_flags(arguments, start.study)
        given = (start.study, start.seeds, start.preset)
        sweeps = {"reproduce": (ReproduceParts, ReproduceParts(*given)), "train": (TrainParts, TrainParts(*given))}
        return {**sweeps, "init": (Init, Init(StudyFlags.of(StudyConfig.from_preset())))}
    base = StudyFlags.of(start)
    return {"reproduce": (Reproduce, Reproduce(base)), "train": (Train, Train(base)), "init": (Init, Init(base))}


def check_series_flags(arguments: Sequence[str], study: str) -> None:
    """Raise ConfigError for a flag that only the anchor study has."""
    known = ("--study", "--preset", "--seeds", "--out", "--config", "--help")
    for flag in (argument.split("=")[0] for argument in arguments if argument.startswith("--")):
        if flag not in known:
            raise ConfigError(
                f"study '{study}' has several parts and no {flag}; it takes {', '.join(known[:-1])}. Set it for each "
                f"part in a TOML file and give that as --config."
            )


def starting_point(arguments: Sequence[str]) -> StudyConfig | SeriesConfig | LanguageConfig:
    """Configuration that --config, --study or --preset names; the remaining flags change it."""
    file, preset, study = (_value(arguments, flag) for flag in ("--config", "--preset", "--study"))
    if file is not None:
        base = load_study(Path(file))
        held = LANGUAGE if isinstance(base, LanguageConfig) else getattr(base, "study", ANCHOR)
        for flag, given, has in (("preset", preset, base.preset), ("study", study, held)):
            if given not in (None, has):
                raise ConfigError(f"--{flag} {given} and {file} ({flag} {has}) disagree; give one of them.")
        return base
    if study in (None, ANCHOR):
        return StudyConfig.from_preset(preset or "quick")
    if study == LANGUAGE:
        return LanguageConfig.from_preset(preset or "quick")
    if study not in STUDIES:
        raise ConfigError(f"there is no study '{study}'; {nearest(study, (ANCHOR, LANGUAGE, *STUDIES))}")
    return SeriesConfig.from_preset(study, preset or "quick")


def _value(arguments: Sequence[str], flag: str) -> str | None:
    for position, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
        if argument == flag and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def run_command(command: Any, line: str) -> int:
    """Carry a parsed command out."""
    if isinstance(command, Parts):
        return _parts(command, line)
    if isinstance(command, LanguageSweep):
        return _language(command, line)
    if isinstance(command, Reproduce):
        return _reproduce(command, line)
    if isinstance(command, Train):
        return _train(command, line)
    if isinstance(command, Init | InitLanguage):
        return _init(command)
    commands = {Probe: _probe, Patch: _patch, Ablate: _ablate, Calibrate: _calibrate, Report: _report, Info: _info}
    return commands[type(command)](command)


def _parts(command: Parts, line: str) -> int:
    from rb_interp.study.series import Series, default_series_folder, reproduce_series

    base = SeriesConfig.from_preset(command.study, command.preset)
    held = base if command.config is None else load_study(command.config)
    config = (held if isinstance(held, SeriesConfig) else base).with_seeds(command.seeds)
    folder = command.out or default_series_folder(config)
    print(f"study folder: {folder}", file=sys.stderr)
    if isinstance(command, ReproduceParts):
        _show_verdicts(reproduce_series(config, folder, command=line))
        return 0
    Series.start(folder, config, line).train()
    print(f"trained; next: rb-interp probe {folder}")
    return 0


def _language(command: LanguageSweep, line: str) -> int:
    from rb_interp.study.language import reproduce_language
    from rb_interp.study.language_run import LanguageRun
    from rb_interp.text.data import text_about
    from rb_interp.training.loop import resolve_device

    config = command.sweep
    folder = command.out or default_language_folder(config)
    print(f"run folder: {folder}", file=sys.stderr)
    for sentence in text_about(config.text)["stand_in"]:
        print(sentence, file=sys.stderr)
    if isinstance(command, ReproduceLanguage):
        _show_verdicts(reproduce_language(config, folder, command=line))
        return 0
    resolve_device(config.train.device)
    run = LanguageRun.start(folder, config, line)
    run.train()
    print(f"trained to step {run.step}; next: rb-interp probe {folder}")
    return 0


def _reproduce(command: Sweep, line: str) -> int:
    from rb_interp.study.study import default_folder, reproduce

    folder = command.out or default_folder(command.sweep.config)
    print(f"run folder: {folder}", file=sys.stderr)
    _show_verdicts(reproduce(command.sweep.config, folder, command=line))
    return 0


def _train(command: Sweep, line: str) -> int:
    from rb_interp.study.run import Run
    from rb_interp.study.study import default_folder
    from rb_interp.training.loop import resolve_device

    resolve_device(command.sweep.train.device)
    folder = command.out or default_folder(command.sweep.config)
    print(f"run folder: {folder}", file=sys.stderr)
    run = Run.start(folder, command.sweep.config, line)
    run.train()
    print(f"trained to step {run.step}; next: rb-interp probe {folder}")
    return 0


def _probe(command: Probe) -> int:
    from rb_interp.study.about import is_series
    from rb_interp.study.language import probe_language
    from rb_interp.study.language_run import LanguageRun, is_language
    from rb_interp.study.run import Run
    from rb_interp.study.series import Series, probe_series
    from rb_interp.study.study import probe_run

    if is_series(command.run):
        probe_series(held := Series.open(command.run))
    elif is_language(command.run):
        probe_language(held := LanguageRun.open(command.run))
    else:
        probe_run(held := Run.open(command.run))
    _show_verdicts(held, report=False)
    return 0


def _patch(command: Patch) -> int:
    from rb_interp.report.interventions import print_matrix
    from rb_interp.study.explore import patch_member
    from rb_interp.study.run import Run

    check_table(command.out)
    run = Run.open(command.run)
    seed = run.config.seeds[0] if command.seed is None else command.seed
    given = {"components": command.components, "roles": command.roles}
    table = patch_member(
        run, command.gamma, seed, stage=_stage(command.stage), change=command.change, rows=command.rows,
        pairs=command.pairs, metric=command.metric, **{name: value for name, value in given.items() if value},
    )  # fmt: skip
    print_matrix(table, command.metric)
    return _saved(table, command.out)


def _ablate(command: Ablate) -> int:
    from rb_interp.report.interventions import print_ablations
    from rb_interp.study.explore import ablate_members
    from rb_interp.study.run import Run
    from rb_interp.study.threads import one_thread

    check_table(command.out)
    with one_thread():
        table = ablate_members(
            Run.open(command.run), command.sites, gammas=command.gammas, stage=_stage(command.stage),
            methods=command.methods, n=command.n,
        )  # fmt: skip
    print_ablations(table)
    return _saved(table, command.out)


def _calibrate(command: Calibrate) -> int:
    from rb_interp.study.calibrate import calibrate, print_rates, write_tables
    from rb_interp.study.threads import one_thread

    print(f"tables: {command.out}", file=sys.stderr)
    with one_thread():
        copies = calibrate(folder=command.out)
    print_rates(write_tables(copies, command.out))
    return 0


def check_table(out: Path | None) -> None:
    """Raise ConfigError, before any work is done, where a table would go over what is no table."""
    if out is not None and (out.is_dir() or out.suffix != ".csv"):
        raise ConfigError(f"--out {out}: the table is written as CSV; name a file that ends in .csv.")


def _stage(text: str) -> str | int:
    """A stage by name, or a step."""
    return int(text) if text.isdigit() else text


def _saved(table: Any, out: Path | None) -> int:
    from rb_interp.files import write_bytes

    if out is not None:
        write_bytes(out, table.to_csv(index=False).encode())
        print(f"table: {out}")
    return 0


def _report(command: Report) -> int:
    from rb_interp.study.about import is_series
    from rb_interp.study.language import report_language
    from rb_interp.study.language_run import LanguageRun, is_language
    from rb_interp.study.run import Run
    from rb_interp.study.series import Series, report_series
    from rb_interp.study.study import report_run

    if is_series(command.run):
        print(report_series(Series.open(command.run)))
    elif is_language(command.run):
        print(report_language(LanguageRun.open(command.run)))
    else:
        print(report_run(Run.open(command.run)))
    return 0


def _init(command: Init | InitLanguage) -> int:
    from rb_interp.models.table import initialisation_table

    if isinstance(command, Init):
        sizes = command.sweep.config.task
    else:
        sizes = SimpleNamespace(d_vocab=command.sweep.text.d_vocab, length=command.sweep.text.n_ctx)
    table = initialisation_table(sizes, command.sweep.model, command.gamma, command.seed)
    print(table.to_string(index=False, float_format="{:.4g}".format))
    return 0


def _info(command: Info) -> int:
    from rb_interp.report.terminal import print_run, print_series
    from rb_interp.study.about import is_series
    from rb_interp.study.language_run import LanguageRun, is_language
    from rb_interp.study.run import Run
    from rb_interp.study.series import Series

    if is_series(command.run):
        print_series(Series.open(command.run))
    elif is_language(command.run):
        print_run(LanguageRun.open(command.run))
    else:
        print_run(Run.open(command.run))
    return 0


def _show_verdicts(run: Any, report: bool = True) -> None:
    import json

    from rb_interp.report.terminal import print_verdicts

    print_verdicts(json.loads((run.folder / "claims.json").read_text()))
    for sentence in getattr(run, "text_about", {}).get("stand_in", ()):
        print(sentence)
    print(f"report: {run.folder / 'report.html'}" if report else f"next: rb-interp report {run.folder}")


if __name__ == "__main__":
    sys.exit(main())
