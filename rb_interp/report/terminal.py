"""Verdicts and runs as tables for the terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rb_interp.figures.numbers import interval_text, number

COLOURS = {"HOLDS": "green", "FAILS": "red", "UNDECIDED": "yellow"}
WIDTH = 100
HELD = "; held: it is not good enough, so the verdict is withheld"


def print_verdicts(claims: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print verdict, calibration, effect, seeds that meet it, untrained twin and statement of each claim.

    The table takes 100 columns at most; without claims that need calibration it has no column for it.
    """
    console = console_of(console)
    marks = [calibration_mark(claim) for claim in claims]
    table = Table(width=min(console.width, WIDTH), box=None, pad_edge=False, header_style="bold")
    calibration = ("cal.",) if any(marks) else ()
    for heading in ("claim", "verdict", *calibration, "effect [95 %]", "met by", "untrained"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "met by" else "left")
    table.add_column("statement")
    for claim, mark in zip(claims, marks, strict=True):
        verdict = str(claim["verdict"])
        texts = (_effect(claim), f"{claim['n_meeting']}/{claim['n_seeds']}", _twin(claim), str(claim["statement"]))
        table.add_row(
            Text(str(claim["id"])),
            Text(verdict, COLOURS.get(verdict, "")),
            *(Text(mark) for _ in calibration),
            *(Text(shown(text, console)) for text in texts),
        )
    console.print(table)
    counts = Counter(str(claim["verdict"]) for claim in claims)
    told = ", ".join(f"{counts[name]} {name}" for name in COLOURS)
    starred = "; * met at initialisation" if any(claim.get("met_at_initialisation") for claim in claims) else ""
    console.print(Text(told + starred))
    if any(marks):
        console.print(Text(f"cal.: whether the probe is calibrated{HELD if 'held' in marks else ''}"))


def calibration_mark(claim: Mapping[str, Any]) -> str:
    """``yes``, ``no``, ``held`` where the verdict is withheld, and nothing for claims that need no calibration.

    >>> calibration_mark({"id": "M1", "calibrated": False}), calibration_mark({"id": "A1", "calibrated": None})
    ('no', '')
    """
    if not str(claim["id"]).startswith("M") or claim.get("calibrated") is None:
        return ""
    if claim.get("withheld"):
        return "held"
    return "yes" if claim["calibrated"] else "no"


def print_run(run: Any, console: Console | None = None) -> None:
    """Print what a run folder (a ``study.Run``) holds: settings, how far it is, verdicts, versions."""
    console = console_of(console)
    config, step = run.config, run.step or 0
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    model = config.model
    rows = {
        "folder": str(run.folder),
        "tier": config.tier,
        "members": f"gammas {list(config.gammas)}, seeds {list(config.seeds)}",
        "model": f"{model.n_layers} layers, {model.n_heads} heads, d_model {model.d_model}, norm {model.norm}",
        "progress": f"step {step:,} of {config.train.steps:,}" + (", finished" if run.finished else ""),
        "verdicts": _counts(run.folder / "claims.json"),
        "made": f"{run.about.get('created', '')}  {run.about.get('command', '')}".strip(),
        "versions": ", ".join(f"{name} {version}" for name, version in run.about.get("versions", {}).items()),
    }
    rows |= _text_rows(getattr(run, "text_about", {}))
    for name, text in rows.items():
        table.add_row(name, Text(text))
    console.print(table)


def _text_rows(about: Mapping[str, Any]) -> dict[str, str]:
    """What a run of language models has read, and what stands in for the paper's text; nothing for other runs."""
    if not about:
        return {}
    tokenizer = about["tokenizer"]
    return {
        "text": f"{about['prontoqa']['source']}; {about['stories']['source']}",
        "tokenizer": f"{tokenizer['kind']}, {tokenizer['d_vocab']:,} entries",
        **({"stand-in": " ".join(about["stand_in"])} if about["stand_in"] else {}),
    }


def print_series(series: Any, console: Console | None = None) -> None:
    """Print what the folder of a study of several parts (a ``study.series.Series``) holds."""
    console = console_of(console)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    rows = {
        "folder": str(series.folder),
        "study": f"{series.config.study}, tier {series.config.tier}, seeds {list(series.config.seeds)}",
        **{f"part {name}": _part(run) for name, run in series.parts.items()},
        "verdicts": _counts(series.folder / "claims.json"),
        "made": f"{series.about.get('created', '')}  {series.about.get('command', '')}".strip(),
        "versions": ", ".join(f"{name} {version}" for name, version in series.about.get("versions", {}).items()),
    }
    for name, text in rows.items():
        table.add_row(name, Text(text))
    console.print(table)


def _part(run: Any) -> str:
    config, step = run.config, run.step or 0
    finished = ", finished" if run.finished else ""
    return (
        f"{config.model.architecture}, {config.train.optimiser}, gammas {list(config.gammas)}, "
        f"step {step:,} of {config.train.steps:,}{finished}"
    )


def _counts(path: Any) -> str:
    if not path.exists():
        return "not judged yet"
    counts = Counter(str(claim["verdict"]) for claim in json.loads(path.read_text()))
    return ", ".join(f"{counts[name]} {name}" for name in COLOURS)


def console_of(console: Console | None) -> Console:
    """The given console, or standard output; a pipe has no width of its own and gets WIDTH."""
    if console is not None:
        return console
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH)


def _effect(claim: Mapping[str, Any]) -> str:
    values = [float("nan") if claim.get(name) is None else float(claim[name]) for name in ("effect", "low", "high")]
    return interval_text(*values)


def _twin(claim: Mapping[str, Any]) -> str:
    return number(claim.get("twin")) + ("*" if claim.get("met_at_initialisation") else "")


def shown(text: str, console: Console) -> str:
    """The text as it is, or without what a terminal that is not Unicode could not show."""
    if console.encoding.lower().startswith("utf"):
        return text
    return text.replace("−", "-").encode("ascii", "replace").decode()
