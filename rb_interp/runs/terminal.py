"""Verdicts, runs and studies as tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rb_interp.claims.rule import OUTCOMES
from rb_interp.claims.verdict import effect_text, notes
from rb_interp.errors import RunError, StudyError, printable
from rb_interp.statistics.intervals import number

if TYPE_CHECKING:
    from rb_interp.claims import Verdicts
    from rb_interp.runs.run import Run
    from rb_interp.runs.studies import Study
    from rb_interp.runs.sweep import Sweep

COLOURS = {"HOLDS": "green", "FAILS": "red", "OPEN": "yellow", "NOT JUDGED": "dim"}
WIDTH = 100


class Screen:
    """A console that shows a run's words as text: no command to it, and ``?`` for signs that it
    lacks."""

    def __init__(self, console: Console | None) -> None:
        self.console = console or Console()
        if console is None and not self.console.is_terminal:  # a pipe has no width of its own
            self.console = Console(width=WIDTH)

    def text(self, sentence: str, style: str = "") -> Text:
        """The words as they can be shown here."""
        sentence = printable(sentence)
        if not self.console.encoding.lower().startswith("utf"):
            sentence = sentence.replace("−", "-").encode("ascii", "replace").decode()
        return Text(sentence, style)

    def say(self, sentence: str, style: str = "", width: int | None = None) -> None:
        """A line."""
        self.console.print(self.text(sentence, style), width=width)

    def table(
        self, headings: Sequence[str], rows: Iterable[Sequence[str | Text]], wide: bool = False
    ) -> None:
        """A table whose last column wraps; a ``wide`` one takes the width that there is, 100
        columns at most."""
        width = min(self.console.width, WIDTH) if wide else None
        table = Table(
            box=None, pad_edge=False, header_style="bold", width=width, show_header=any(headings)
        )
        for heading in headings:
            table.add_column(self.text(heading), no_wrap=heading is not headings[-1])
        for row in rows:
            table.add_row(*(self.text(cell) if isinstance(cell, str) else cell for cell in row))
        self.console.print(table)


def print_verdicts(verdicts: Verdicts, console: Console | None = None) -> None:
    """Print each claim's outcome, seeds that meet it, effect, untrained value and statement, and
    what to beware of."""
    if not verdicts:
        return
    screen = Screen(console)
    rows = []
    note = ""
    for verdict in verdicts:
        untrained = number(verdict.untrained)
        if verdict.met_at_initialisation:
            untrained += "*"
            note = "; * met at initialisation"
        outcome = Text(verdict.outcome, COLOURS[verdict.outcome])
        effect = effect_text(verdict)
        rows.append([verdict.id, outcome, verdict.met_by, effect, untrained, verdict.statement])
    headings = ["claim", "verdict", "met by", "median [range]", "untrained", "statement"]
    screen.table(headings, rows, wide=True)
    screen.say(counts_text(verdicts) + note)
    for sentence in notes(verdicts):
        screen.say(sentence, width=min(screen.console.width, WIDTH))


def counts_text(verdicts: Verdicts) -> str:
    """How many verdicts have each outcome."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)


def print_run(run: Run, console: Console | None = None) -> None:
    """Print what a run folder holds: settings, how far it is, verdicts, versions."""
    config = run.config
    rows = {
        "folder": str(run.folder),
        "study": f"{run.study.name}, scale {run.scale}, seeds {list(config.seeds)}",
    }
    for name, sweep in run.sweeps.items():
        rows[f"sweep {name}" if name else "members"] = _sweep(sweep, run.is_copy)
    if run.study.load("claims"):
        try:
            rows["verdicts"] = counts_text(run.verdicts)
        except RunError as error:
            rows["verdicts"] = str(error)
    made = run.metadata
    rows["made"] = f"{made['created']}  {made['command']}  {made.get('note', '')}".strip()
    versions = [f"{name} {version}" for name, version in run.made_with.items()]
    rows["versions"] = "; ".join(versions)
    Screen(console).table(["", ""], [(Text(name, "bold"), text) for name, text in rows.items()])


def _sweep(sweep: Sweep, is_copy: bool) -> str:
    model = sweep.config.model
    train = sweep.config.train
    size = (
        f"{model.n_layers} layers, {model.n_heads} heads, d_model {model.d_model}, norm "
        f"{model.norm}"
    )
    if model.architecture != "transformer":
        size = f"{model.architecture}, {train.optimiser}, {size}"
    parts = [f"gammas {list(sweep.config.gammas)}", size]
    if is_copy:
        parts.append(f"{train.steps:,} steps; without checkpoints")
        return "; ".join(parts)
    progress = [f"step {sweep.step or 0:,} of {train.steps:,}"]
    if sweep.finished:
        progress.append("finished")
        for stage in train.stages:
            reached = sweep.reached(stage).values()
            progress.append(f"{stage} reached by {sum(reached)} of {len(reached)}")
    parts.append(", ".join(progress))
    return "; ".join(parts)


def print_studies(
    studies: Mapping[str, Study | StudyError], console: Console | None = None
) -> None:
    """Print every study that is installed: its name, its question and its cost, or why it does not
    load."""
    screen = Screen(console)
    for name, study in studies.items():
        screen.say(name, "bold")
        if isinstance(study, Exception):
            screen.say(f"  {study}", "red")
        else:
            costs = "; ".join(f"{preset}: {cost}" for preset, cost in study.cost.items())
            screen.say(f"  {study.question}\n  Cost of {costs}.")
