"""Verdicts, runs, studies and interventions as tables for the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rb_interp.claims.rule import OUTCOMES
from rb_interp.errors import RunError, StudyError, printable
from rb_interp.figures.numbers import interval_text, number, share_text

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.claims import Verdicts, Within
    from rb_interp.runs.protocol import Study
    from rb_interp.runs.run import Run
    from rb_interp.runs.sweep import Sweep

COLOURS = {"HOLDS": "green", "FAILS": "red", "OPEN": "yellow", "NOT JUDGED": "dim"}
WIDTH = 100
DESCRIBES = "The grouping is by an outcome, so it describes and does not test."
UNITS = {"logit_diff": "logit difference", "probability": "probability of the clean answer"}


def notes(verdicts: Verdicts) -> Iterator[str]:
    """What a reader must not overlook: verdicts by probes that mislead, of what was not learned, or met untrained."""
    found = {
        "Not calibrated, so nobody knows how often the probe misleads": [
            v.id for v in verdicts if v.calibrated is False and not v.withheld
        ],
        "Withheld, because the probe misleads too often on models whose mechanism is known": [
            v.id for v in verdicts if v.withheld and "the probe misleads" in v.reason
        ],
        "Not judged, because fewer than half of the seeds have learned the mapping": [
            v.id for v in verdicts if v.learned is False and v.outcome == "NOT JUDGED"
        ],
        "Already met by untrained models": [
            v.id for v in verdicts if v.met_at_initialisation and v.outcome == "HOLDS"
        ],
    }
    for v in verdicts:
        if v.first_seed and (v.n_decisive < v.n_seeds or not v.n_seeds):
            words = f"Decided by seeds from {v.first_seed} on alone, since earlier seeds had been read"
            found.setdefault(words, []).append(v.id)
    yield from (f"{words}: {', '.join(ids)}." for words, ids in found.items() if ids)


class Screen:
    """A console that shows a run's words as text: no command to it, and ``?`` for signs that it lacks."""

    def __init__(self, console: Console | None) -> None:
        found = console or Console()
        piped = console is None and not found.is_terminal  # a pipe has no width of its own
        self.console = Console(width=WIDTH) if piped else found

    def text(self, words: str, style: str = "") -> Text:
        """The words as they can be shown here."""
        words = printable(words)
        if not self.console.encoding.lower().startswith("utf"):
            words = words.replace("−", "-").encode("ascii", "replace").decode()
        return Text(words, style)

    def say(self, words: str, style: str = "", width: int | None = None) -> None:
        """A line."""
        self.console.print(self.text(words, style), width=width)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str | Text]], wide: bool = False) -> None:
        """A table whose last column wraps; a ``wide`` one takes the width that there is, 100 columns at most."""
        width = min(self.console.width, WIDTH) if wide else None
        table = Table(box=None, pad_edge=False, header_style="bold", width=width, show_header=any(headings))
        for heading in headings:
            table.add_column(self.text(heading), no_wrap=heading is not headings[-1])
        for row in rows:
            table.add_row(*(self.text(cell) if isinstance(cell, str) else cell for cell in row))
        self.console.print(table)


def effect_text(judged: Any) -> str:
    """Median and range of what was judged."""
    mean, low, high = (math.nan if end is None else end for end in (judged.effect, judged.low, judged.high))
    return interval_text(mean, low, high)


def print_verdicts(verdicts: Verdicts, console: Console | None = None) -> None:
    """Print each claim's outcome, seeds that meet it, effect, untrained value and statement, and what to beware of.

    The table takes 100 columns at most. Without verdicts nothing is printed.
    """
    if not verdicts:
        return
    screen, rows = Screen(console), []
    for verdict in verdicts:
        untrained = number(verdict.untrained) + ("*" if verdict.met_at_initialisation else "")
        head = [verdict.id, Text(verdict.outcome, COLOURS[verdict.outcome]), verdict.met_by, effect_text(verdict)]
        rows.append([*head, untrained, verdict.statement])
    screen.table(["claim", "verdict", "met by", "median [range]", "untrained", "statement"], rows, wide=True)
    starred = "; * met at initialisation" if any(verdict.met_at_initialisation for verdict in verdicts) else ""
    screen.say(counts_text(verdicts) + starred)
    for sentence in notes(verdicts):
        screen.say(sentence, width=min(screen.console.width, WIDTH))


def counts_text(verdicts: Verdicts) -> str:
    """How many verdicts have each outcome."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)


def print_within(within: Within, console: Console | None = None) -> None:
    """Print the verdicts within groups of seeds: claims down, groups across, their shares in front."""
    screen = Screen(console)
    rows: list[list[str | Text]] = [
        ["seeds", *(f"{len(g.seeds)}/{g.total}, {share_text(*g.share)}" for g in within.groups)]
    ]
    for line in zip(*(group.verdicts for group in within.groups), strict=True):
        cells = ((v, screen.text(f" {v.met_by}, {number(v.effect)}")) for v in line)
        rows.append([line[0].id, *(Text.assemble((v.outcome, COLOURS[v.outcome]), told) for v, told in cells)])
    screen.say(f"within groups of seeds, by {within.by}: met by, median")
    screen.table(["claim", *(group.name for group in within.groups)], rows, wide=True)
    screen.say(DESCRIBES, width=min(screen.console.width, WIDTH))


def print_run(run: Run, console: Console | None = None) -> None:
    """Print what a run folder holds: settings, how far it is, verdicts, versions."""
    info = run.study.load("info")
    sweeps = {
        f"sweep {name}" if name else "members": _sweep(sweep, run.is_copy) for name, sweep in run.sweeps.items()
    }
    try:
        verdicts = counts_text(run.verdicts) if run.study.load("claims") else ""
    except RunError as error:
        verdicts = str(error)
    rows = {
        "folder": str(run.folder),
        "study": f"{run.study.name}, scale {run.scale}, seeds {list(run.config.seeds)}",
        **sweeps,
        **({} if info is None else info(run)),
        **({"verdicts": verdicts} if verdicts else {}),
        "made": f"{run.metadata['created']}  {run.metadata['command']}".strip(),
        "versions": "; ".join(f"{name} {version}" for name, version in run.made_with.items()),
    }
    Screen(console).table(["", ""], [(Text(name, "bold"), text) for name, text in rows.items()])


def _sweep(sweep: Sweep, is_copy: bool) -> str:
    model, train = sweep.config.model, sweep.config.train
    kind = "" if model.architecture == "transformer" else f"{model.architecture}, {train.optimiser}, "
    size = f"{model.n_layers} layers, {model.n_heads} heads, d_model {model.d_model}, norm {model.norm}"
    progress = f"{train.steps:,} steps; without checkpoints"
    if not is_copy:
        progress = f"step {sweep.step or 0:,} of {train.steps:,}{', finished' if sweep.finished else ''}"
    if not is_copy and sweep.finished:
        came = {stage: [*sweep.reached(stage).values()] for stage in train.stages}
        progress += "".join(f", {stage} reached by {sum(of)} of {len(of)}" for stage, of in came.items())
    return f"gammas {list(sweep.config.gammas)}; {kind}{size}; {progress}"


def print_studies(studies: Mapping[str, Study | StudyError], console: Console | None = None) -> None:
    """Print every study that is installed: its name, its question and its cost, or why it does not load."""
    screen = Screen(console)
    for name, study in studies.items():
        screen.say(name, "bold")
        if isinstance(study, Exception):
            screen.say(f"  {study}", "red")
        else:
            screen.say(f"  {study.question}\n  Cost of {'; '.join(map(': '.join, study.cost.items()))}.")


def print_matrix(table: pd.DataFrame, metric: str = "logit_diff", console: Console | None = None) -> None:
    """Print a patching matrix: components in forward order down, roles across, recovered shares in the cells."""
    screen, member = Screen(console), table.iloc[0]
    differ = {"both": "key and anchors"}.get(member["counterfactual"], member["counterfactual"])
    screen.say(f"recovered {UNITS[metric]}; clean and corrupted inputs differ in {differ}")
    screen.say("1: the cell carries all of the difference, 0: none of it")
    screen.say(f"gamma {member['gamma']:g}, seed {member['seed']}, stage {member['stage']}, n {member['n']}")
    if not member.get("reached", True):
        screen.say("the member never came to this stage; these are its weights at the last step")
    roles, rows = list(dict.fromkeys(table["role"])), []
    for place, cells in table.groupby(["component", "layer"], sort=False):
        component, layer = cast(tuple[str, int], place)
        by_role: dict[str, float] = dict(zip(cells["role"], cells["recovered"].tolist(), strict=True))
        values = [by_role.get(role, math.nan) for role in roles]
        shown = (Text(f"{x:5.2f}" if math.isfinite(x) else "-", "bold" if abs(x) >= 0.5 else "") for x in values)
        rows.append([f"{component}.{int(layer)}", *shown])
    screen.table(["site", *roles], rows)
    widths, controls = (table["high"] - table["low"]).tolist(), table["control"].abs().tolist()
    wide, control = float(np.nanmax(widths)), float(np.nanmax(controls))
    notes = [f"95 % intervals are at most {wide:.2f} wide"] if math.isfinite(wide) else []
    notes += [f"the control's largest cell is {control:.2f}"] if math.isfinite(control) else []
    screen.say("; ".join(notes))
    if not (math.isfinite(wide) and control < 0.5):
        screen.say("The control does as much as cells do: this member hardly tells these inputs apart.")
    if {"noise", "last"} <= set(roles):
        screen.say("noise includes the last position where a noise token stands there")


def print_ablations(means: pd.DataFrame, late: int = 0, console: Console | None = None) -> None:
    """Print the accuracy lost without each component, by gamma, method and set, from `ablation_means`.

    ``late`` counts members that never came to the stage.
    """
    screen, rows = Screen(console), []
    sets, methods = (list(dict.fromkeys(means[name])) for name in ("set", "method"))
    screen.say(f"accuracy lost without a component, stage {means['stage'].iloc[0]}; mean over seeds [95 %]")
    lines = [(method, method, "accuracy_drop") for method in methods]
    lines += [("(had)", methods[0], "before"), ("(control)", methods[0], "control_accuracy_drop")]
    for place, found in means.groupby(["gamma", "component"], sort=False):
        gamma, component = cast(tuple[float, str], place)
        by_set = found.set_index(["method", "quantity", "set"]).sort_index()[["mean", "low", "high"]]
        for name, method, quantity in lines:
            cells = by_set.loc[method, quantity].reindex(sets).to_numpy()
            rows.append([f"{gamma:g}", component, name, *(share_text(*cell) for cell in cells)])
    screen.table(["gamma", "component", "method", *sets], rows)
    if late:
        screen.say(f"{late} members never came to this stage and stand at their last step")
    screen.say("had: accuracy with the component, the most there is to lose")
    screen.say("control: the same component as it is on the same input with other noise")
