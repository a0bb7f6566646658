"""Verdicts, runs and studies as tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rb_interp.claims.verdict import OUTCOMES
from rb_interp.errors import RunError, printable
from rb_interp.figures.numbers import interval_text, number, share_text

if TYPE_CHECKING:
    from rb_interp.claims import Verdict, Verdicts, Within
    from rb_interp.runs.registry import InstalledStudy
    from rb_interp.runs.run import Run
    from rb_interp.runs.sweep import Sweep

COLOURS = {"HOLDS": "green", "FAILS": "red", "OPEN": "yellow", "NOT JUDGED": "dim"}
WIDTH = 100
DESCRIBES = "The grouping is by an outcome, so it describes and does not test."
HELD = "; held: it is not good enough, so the verdict is withheld"


def calibration_mark(verdict: Verdict) -> str:
    """``yes``, ``no``, ``held`` where the outcome is withheld, and nothing for claims that need no calibration."""
    if verdict.calibrated is None:
        return ""
    return "held" if verdict.withheld else "yes" if verdict.calibrated else "no"


def not_learned(verdicts: Verdicts) -> list[Verdict]:
    """Those that are not judged and ask for a mapping that fewer than half of the seeds have learned."""
    return [verdict for verdict in verdicts if verdict.learned is False and verdict.outcome == "NOT JUDGED"]


def read_before(verdicts: Verdicts) -> dict[int, list[str]]:
    """Claims whose criterion is younger than the reading of some of the seeds, by the first seed that decides."""
    found: dict[int, list[str]] = {}
    for verdict in verdicts:
        if verdict.first_seed and (verdict.n_decisive < verdict.n_seeds or not verdict.n_seeds):
            found.setdefault(verdict.first_seed, []).append(verdict.id)
    return found


def print_verdicts(verdicts: Verdicts, console: Console | None = None) -> None:
    """Print each claim's outcome, calibration, seeds that meet it, effect, untrained value and statement.

    The table takes 100 columns at most; without claims that need calibration it has no column for it. Without verdicts
    nothing is printed.
    """
    if not verdicts:
        return
    console = console_of(console)
    marks = [calibration_mark(verdict) for verdict in verdicts]
    table = Table(width=min(console.width, WIDTH), box=None, pad_edge=False, header_style="bold")
    calibration = ("cal.",) if any(marks) else ()
    for heading in ("claim", "verdict", *calibration, "met by", "median [range]", "untrained"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "met by" else "left")
    table.add_column("statement")
    for verdict, mark in zip(verdicts, marks, strict=True):
        ends = (float("nan") if value is None else value for value in (verdict.effect, verdict.low, verdict.high))
        untrained = number(verdict.untrained) + ("*" if verdict.met_at_initialisation else "")
        texts = (verdict.met_by, interval_text(*ends), untrained, verdict.statement)
        table.add_row(
            Text(printable(verdict.id)),
            Text(verdict.outcome, COLOURS[verdict.outcome]),
            *(Text(mark) for _ in calibration),
            *(Text(for_console(text, console)) for text in texts),
        )
    console.print(table)
    counts = Counter(verdict.outcome for verdict in verdicts)
    starred = "; * met at initialisation" if any(verdict.met_at_initialisation for verdict in verdicts) else ""
    console.print(Text(", ".join(f"{counts[name]} {name}" for name in OUTCOMES) + starred))
    if unlearned := not_learned(verdicts):
        console.print(
            Text(f"not learned by half of the seeds, so not judged: {printable(', '.join(v.id for v in unlearned))}")
        )
    for first_seed, named in read_before(verdicts).items():
        console.print(Text(f"decided by seeds from {first_seed} on alone: {printable(', '.join(named))}"))
    if any(marks):
        console.print(Text(f"cal.: whether the probe is calibrated{HELD if 'held' in marks else ''}"))


def print_within(within: Within, console: Console | None = None) -> None:
    """Print the verdicts within groups of seeds: claims down, groups across, their shares in front."""
    console = console_of(console)
    table = Table(width=min(console.width, WIDTH), box=None, pad_edge=False, header_style="bold")
    for heading in ("claim", *(group.name for group in within.groups)):
        table.add_column(Text(printable(heading)))
    shares = (f"{len(g.seeds)}/{g.total}, {share_text(g.share, g.low, g.high)}" for g in within.groups)
    table.add_row("seeds", *(Text(for_console(share, console)) for share in shares))
    for line in zip(*(group.verdicts for group in within.groups), strict=True):
        table.add_row(Text(printable(line[0].id)), *(_within_cell(verdict, console) for verdict in line))
    console.print(Text(printable(f"within groups of seeds, by {within.by}: met by, median")))
    console.print(table)
    console.print(Text(DESCRIBES), width=min(console.width, WIDTH))


def _within_cell(verdict: Verdict, console: Console) -> Text:
    numbers = f" {verdict.met_by}, {number(verdict.effect)}"
    return Text.assemble((verdict.outcome, COLOURS[verdict.outcome]), for_console(numbers, console))


def print_run(run: Run, console: Console | None = None) -> None:
    """Print what a run folder holds: settings, how far it is, verdicts, versions."""
    _print_rows(run_rows(run), console_of(console))


def run_rows(run: Run) -> dict[str, str]:
    """What a run folder holds, by heading."""
    info = run.study.load("info")
    sweeps = {f"sweep {name}" if name else "members": _sweep(sweep, run.is_copy) for name, sweep in run.sweeps.items()}
    return {
        "folder": str(run.folder),
        "study": f"{run.study.name}, scale {run.scale}, seeds {list(run.config.seeds)}",
        **sweeps,
        **({} if info is None else info(run)),
        **({"verdicts": _counts(run)} if run.study.load("claims") else {}),
        "made": f"{run.metadata['created']}  {run.metadata['command']}".strip(),
        "versions": ", ".join(f"{name} {version}" for name, version in run.metadata["versions"].items()),
    }


def _sweep(sweep: Sweep, is_copy: bool) -> str:
    model, train = sweep.config.model, sweep.config.train
    kind = "" if model.architecture == "transformer" else f"{model.architecture}, {train.optimiser}, "
    size = f"{model.n_layers} layers, {model.n_heads} heads, d_model {model.d_model}, norm {model.norm}"
    progress = f"{train.steps:,} steps; without checkpoints"
    if not is_copy:
        progress = f"step {sweep.step or 0:,} of {train.steps:,}{', finished' if sweep.finished else ''}"
    return f"gammas {list(sweep.config.gammas)}; {kind}{size}; {progress}"


def _counts(run: Run) -> str:
    try:
        counts = Counter(verdict.outcome for verdict in run.verdicts)
    except RunError as error:
        return str(error)
    return ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)


def print_studies(studies: Iterable[InstalledStudy], console: Console | None = None) -> None:
    """Print every study that is installed: its name, where it comes from, its question and its cost."""
    console = console_of(console)
    for found in studies:
        console.print(Text(found.name, "bold"), Text(f"({found.distribution})", "dim"))
        if (study := found.study) is None:
            console.print(Text(f"  {found.problem}", "red"))
        else:
            console.print(Text(f"  {study.question}\n  Cost of {'; '.join(map(': '.join, study.cost.items()))}."))


def _print_rows(rows: Mapping[str, str], console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows.items():
        table.add_row(Text(name), Text(printable(text)))
    console.print(table)


def console_of(console: Console | None) -> Console:
    """The given console, or standard output; a pipe has no width of its own and gets WIDTH."""
    if console is not None:
        return console
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH)


def for_console(text: str, console: Console) -> str:
    """The text, `printable`; a terminal without Unicode gets ``?`` for the signs that it lacks."""
    text = printable(text)
    if console.encoding.lower().startswith("utf"):
        return text
    return text.replace("−", "-").encode("ascii", "replace").decode()
