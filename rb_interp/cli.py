"""Command line: ``rb-interp reproduce | train | probe | report | patch | ablate | info | studies | ...``."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import subcommand

from rb_interp import __version__
from rb_interp.bounds import GAMMA, SEEDS, check_bound, check_path
from rb_interp.errors import ConfigError, RbInterpError, StudyError, first_line, nearest, printable
from rb_interp.flag_errors import in_one_sentence, too_many
from rb_interp.flags import DESCRIPTIONS, ON_RUNS, REGISTRY, study_command, without_study
from rb_interp.runs.registry import DEFAULT, installed_studies, names, study
from rb_interp.runs.store import read_run, write_file

HELP = {"-h", "--help", "--tyro-print-completion", "--tyro-write-completion"}
"""Flags that stand without a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C or SIGTERM."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt, as Ctrl-C does
        _open_streams()
    try:
        if argv is None:
            _check_environment()
        _carry_out(arguments)
        sys.stdout.flush()  # what cannot be printed is told here, not while Python ends
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return _status(error)


def _carry_out(arguments: list[str]) -> None:
    if arguments == ["--version"]:
        print(f"rb-interp {__version__}")
        return
    command = parse(arguments)
    COMMANDS[arguments[0]](command, shlex.join(["rb-interp", *arguments]))


def _status(error: BaseException) -> int:
    """The exit status of an error, after a sentence about it; what is no error of ours is raised again."""
    if isinstance(error, RbInterpError):
        _say(f"rb-interp: {error}")
        return 2
    if isinstance(error, KeyboardInterrupt):
        _say("\nrb-interp: stopped; the same command goes on from what is saved.")
        return 130
    if isinstance(error, OSError) and error.filename is None:  # of a stream, for files are named
        reads = not isinstance(error, BrokenPipeError)  # else nobody does any more
        if reads:
            _say(f"rb-interp: what it prints cannot be written ({error.strerror}); send it to another place.")
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 2 if reads else 1
    raise error


def _say(sentence: str) -> None:
    """Print a sentence on a line of its own: progress bars that an error left open end their lines first."""
    from tqdm import tqdm

    with suppress(OSError):
        for bar in tuple(getattr(tqdm, "_instances", ())):
            bar.close()
        print(printable(sentence), file=sys.stderr)


def _open_streams() -> None:
    """Let closed streams lead nowhere, so that no file of a run gets their number, and print whatever can be."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _check_environment() -> None:
    """Raise ConfigError where tqdm cannot use what the environment tells it: it would fail where it is imported."""
    os.environ["MPLBACKEND"] = "agg"  # figures go to files, and matplotlib refuses a backend that it does not know
    variables = [name for name in os.environ if name.upper().startswith("TQDM_")]
    if not variables:
        return
    try:
        from tqdm import tqdm

        tqdm(total=1, file=io.StringIO()).close()
    except Exception as error:
        for name in variables:
            del os.environ[name]
        reason = first_line(error)
        raise ConfigError(
            f"progress bars cannot use {', '.join(variables)} of the environment ({reason}); unset it."
        ) from None


def parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments stand for. A study is loaded only where its settings are the command's flags."""
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"an argument is no text here ({sys.getfilesystemencoding()}); give names in UTF-8, or set LC_ALL=C.UTF-8."
        ) from None
    word = arguments[0] if arguments else ""
    if word and not word.startswith("-") and word not in COMMANDS:
        raise ConfigError(f"there is no command '{word}'; {nearest(word, COMMANDS)}")
    if word not in COMMANDS and not HELP.intersection(arguments):
        first = f"{word} stands where a command is expected" if word else "a command is missing"
        raise ConfigError(f"{first}: {', '.join(COMMANDS)}; 'rb-interp --help' says what they do.")
    kinds = {command: without_study(command) for command in DESCRIPTIONS} | ON_RUNS
    choices: dict[str, Any] = {command: Annotated[kind, subcommand(command)] for command, kind in kinds.items()}
    name, given, help = None, kinds.get(word), f"rb-interp {word} --help"
    if word in DESCRIPTIONS:
        name, start = starting_point(arguments[1:])
        kind, given = study_command(word, name, start)
        choices[word] = Annotated[kind, subcommand(word, default=given)]
        help = f"rb-interp {word} {name} --help"
    text = "What initialisation does to the circuit a transformer learns: train, probe, judge, show."
    union: Any = reduce(or_, choices.values())

    def read() -> Any:
        return tyro.cli(union, args=list(arguments), prog="rb-interp", description=text, registry=REGISTRY)

    command = in_one_sentence(read, arguments[1:], given, help)
    if name is not None and command.study != name:
        if command.study not in names():
            raise too_many(arguments[1:], given, help)
        raise StudyError(f"'{command.study}' stands behind the flags; name the study first: rb-interp {word} STUDY ...")
    return command


def starting_point(arguments: Sequence[str]) -> tuple[str, Any]:
    """The study that comes first, and the configuration that its flags change: of --config, of --preset, or quick."""
    from rb_interp.runs.config import from_mapping, read_toml

    # Flags and their defaults come from the study and its starting point, and tyro wants them before it reads a word.
    # Its own presets (``extras.overridable_config_cli``) would be subcommands, with every study loaded to make them.
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--preset", nargs="?")
    early.add_argument("--config", type=Path, nargs="?")
    early.add_argument("--out", type=Path, nargs="?")
    given, _ = early.parse_known_args(list(arguments))
    for flag, path in (("--config", given.config), ("--out", given.out)):
        if path is not None:
            check_path(flag, path)
    name = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if given.config is None:
        name = name or DEFAULT
        return name, study(name).preset(given.preset or "quick")
    held = read_toml(given.config)
    asked = str(held.get("study", DEFAULT))
    if name not in (None, asked):
        raise ConfigError(f"study '{name}' and {given.config} (study '{asked}') disagree; give one of them.")
    config = from_mapping(study(asked).load("config"), held, str(given.config))
    if given.preset not in (None, config.preset):
        raise ConfigError(
            f"--preset {given.preset} and {given.config} (preset '{config.preset}') disagree; give one of them."
        )
    return asked, config


def _start(command: Any, line: str) -> Any:
    from rb_interp.runs.reproduction import default_folder
    from rb_interp.runs.run import Run

    chosen = study(command.study)
    folder = command.out or default_folder(chosen, command.settings)
    run = Run.start(folder, chosen, command.settings, line)
    print(f"run folder: {folder}", file=sys.stderr)
    for sentence in notes(chosen, command.settings):
        print(sentence, file=sys.stderr)
    return run


def notes(study: Any, config: Any) -> list[str]:
    """Sentences that a study adds to its runs, for instance about stand-ins for data."""
    note = study.load("train_note")
    return [] if note is None else note(config)


def _reproduce(command: Any, line: str) -> None:
    from rb_interp.runs.reproduction import finish

    if command.settings.preset == "quick":
        print(f"cost of the preset quick: {study(command.study).cost}", file=sys.stderr)
    run = _start(command, line)
    finish(run, until_decided=command.until_decided)
    _show_verdicts(run)
    print(f"report: {run.report}")


def _train(command: Any, line: str) -> None:
    run = _start(command, line)
    run.train()
    print(f"trained; next: rb-interp probe {run.folder}")


def _probe(command: Any, line: str) -> None:
    run = _open(command.run)
    run.probe()
    _show_verdicts(run)
    print(f"next: rb-interp report {run.folder}")


def _report(command: Any, line: str) -> None:
    print(_open(command.run).write_report(command.out))


def _info(command: Any, line: str) -> None:
    run = _open(command.run)
    from rb_interp.report.terminal import print_run

    print_run(run)


def _studies(command: Any, line: str) -> None:
    from rb_interp.report.terminal import print_studies

    print_studies(installed_studies())


def _patch(command: Any, line: str) -> None:
    from rb_interp.report.interventions import print_matrix
    from rb_interp.runs.intervene import patch_member

    check_table(command.out)
    _check_member(command.gamma, command.seed or 0)
    run = _open(command.run)
    seed = run.config.seeds[0] if command.seed is None else command.seed
    given = {"components": command.components, "roles": command.roles}
    table = patch_member(
        run, gamma=command.gamma, seed=seed, stage=_stage(command.stage), sweep=command.sweep, corrupt=command.corrupt,
        set=command.set, pairs=command.pairs, metric=command.metric,
        **{name: value for name, value in given.items() if value},
    )  # fmt: skip
    print_matrix(table, command.metric)
    _save(table, command.out)


def _ablate(command: Any, line: str) -> None:
    from rb_interp.report.interventions import print_ablations
    from rb_interp.runs.intervene import ablate_members, ablation_means

    check_table(command.out)
    table = ablate_members(
        _open(command.run), command.sites, gammas=command.gammas, stage=_stage(command.stage), sweep=command.sweep,
        methods=command.methods, n=command.n,
    )  # fmt: skip
    print_ablations(ablation_means(table))
    _save(table, command.out)


COMMANDS: dict[str, Callable[[Any, str], None]] = {
    **{"reproduce": _reproduce, "train": _train, "probe": _probe, "report": _report, "info": _info, "patch": _patch},
    **{"ablate": _ablate, "studies": _studies},
}


def _check_member(gamma: float, seed: int) -> None:
    """Raise ConfigError for flags that no member of any run has."""
    check_bound("--gamma", gamma, GAMMA)
    check_bound("--seed", seed, SEEDS)


def check_table(out: Path | None) -> None:
    """Raise ConfigError where ``--out`` is a folder or no CSV file. Commands call it before any work is done."""
    if out is not None and (out.is_dir() or out.suffix != ".csv"):
        raise ConfigError(f"--out {out}: the table is written as CSV; name a file that ends in .csv.")
    if out is not None:
        check_path("--out", out)


def _open(folder: Path) -> Any:
    read_run(folder)  # a folder that is no run is refused before torch and the studies are imported
    from rb_interp.runs.run import Run

    return Run.open(folder)


def _stage(text: str) -> str | int:
    """A stage by name, or a step."""
    return int(text) if text.isdecimal() and len(text) < 19 else text


def _save(table: Any, out: Path | None) -> None:
    if out is not None:
        write_file(out, table.to_csv(index=False).encode())
        print(f"table: {out}")


def _show_verdicts(run: Any) -> None:
    from rb_interp.report.terminal import print_verdicts, print_within

    print_verdicts(run.verdicts)
    within = run.evidence.within
    if within is not None and within.groups:
        print_within(within)
    for sentence in notes(run.study, run.config):
        print(sentence)
