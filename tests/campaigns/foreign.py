"""Somebody else's run: files that were changed by hand, with a manifest that agrees with them.

A case changes one thing in a table, a JSON file, an array or a checkpoint of a finished run and writes it as the run
itself would; or it changes what the manifest says, with its checksum; or it puts a link, a pipe, a folder or a huge
file in the place of a file. It asks for the report with one of the study's figures, what the terminal prints, or what a
notebook shows. Either there is an answer, in which no string of the run is more than text, or one sentence. Nothing
changes in the folder, and nothing is made outside of the place of the report.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save_file

from campaigns.harness import Ended, Outcome, command, forked
from campaigns.tiny_runs import RUN, at, make_small, making, settings

LONG, SHORT = 1000, 8
STUDIES = ("anchor", "labels", "language", "emb-mlp")
TAG, ESCAPE = "<script>alert(1)</script>", "\x1b[2J\x1b]0;x\x07"
HALF = "a\ud800b"
DEEP = 100_000
"""Lists within each other in the place of a value."""
HUGE = 5 * 2**30
"""Bytes of a file that takes no room on the disk."""
TEXTS = (
    *(TAG, f'"><img src=x onerror=alert(1)>{TAG}', r"$\frac{1}{$", "$$", "[red]x[/]", "[/", ESCAPE, "a\0b", "\u202eb"),
    *("x" * 20_000, "", "nan", "../../../../tmp/x", "a\nb\rc", "{{ 7 * 7 }}", "%s %d {0}"),
)
NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -1.0, 0.0, 0.5, 2.0**62)
PLAIN = (HALF, DEEP, None, True, -1, 0, 10**30, 1e308, "", [], {}, [[]], {"a": 1}, *TEXTS)
Rng = np.random.Generator


@dataclass
class Prepared:
    """Finished runs. ``figures``: study -> all its figures, of which the runs themselves were made with one."""

    place: Path
    figures: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)


def prepare(folder: Path) -> Prepared:
    """Make the runs."""
    prepared = Prepared(folder)
    for study in STUDIES:
        prepared.figures[study] = tuple(_value(study).load("figures"))
    make_small()
    for study in STUDIES:
        toml = folder / f"{study}.toml"
        toml.write_text(settings(study))
        (folder / study).mkdir()
        ended = forked(at(folder / study, making(study, toml, "reproduce")), 600.0)
        assert ended.status == 0, ended.err
        run = folder / study / RUN
        found = (path.relative_to(run) for path in sorted(run.rglob("*")) if path.suffix in CHANGES)
        prepared.files[study] = [str(path) for path in found if path.name not in ("manifest.json", "report.json")]
    return prepared


def _value(study: str) -> Any:
    return getattr(_module(study), study.replace("-", "_").upper())


def _module(study: str) -> Any:
    return import_module(f"rb_interp.studies.{study.replace('-', '_')}")


def case(number: int, prepared: Prepared, folder: Path) -> Outcome:
    """One change, one question."""
    rng = np.random.default_rng(number)
    study = STUDIES[number % len(STUDIES)]
    shutil.copytree(prepared.place / study, folder, dirs_exist_ok=True)
    name, said = _changed(folder / RUN, prepared.files[study], rng)
    before = _state(folder / RUN)
    asked = str(rng.choice(list(ASKED), p=[0.55, 0.15, 0.15, 0.15]))
    figures = prepared.figures[study]
    figure = figures[rng.integers(len(figures))]
    ended = forked(at(folder, partial(ASKED[asked], study, figure)), 120.0)
    end, detail = _judged(ended, folder, before)
    of = f"{figure.id}: " if asked == "report" else ""
    return Outcome(asked, end, f"{study}, {name}: {said[:80]!r}: {of}{detail}")


def _changed(run: Path, names: list[str], rng: Rng) -> tuple[str, str]:
    """Change one thing in a run folder: the file's name, and what was done to it."""
    kind = rng.random()
    if kind < 0.15:
        return "manifest.json", _change_manifest(run / "manifest.json", rng)
    if kind < 0.3:
        name = "manifest.json" if rng.random() < 0.3 else str(rng.choice(names))
        return name, _replaced(run, name, rng)
    tables = [name for name in names if name.endswith(".parquet")]
    name = str(rng.choice(tables if rng.random() < 0.5 else names))
    said = CHANGES[(run / name).suffix](run / name, rng)
    _as_if_written(run, name)
    return name, said


def _change_manifest(path: Path, rng: Rng) -> str:
    """Another value in the manifest; where that is possible, with the checksum of the whole."""
    said = _change_json(path, rng)
    with suppress(ValueError, RecursionError, AttributeError):
        content = json.loads(path.read_text())
        content.pop("sha256", None)
        own = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({"sha256": own, **content}, indent=1))
    return said


def _replaced(run: Path, name: str, rng: Rng) -> str:
    """Something that is no plain file of the folder in the place of a file."""
    path, way = run / name, str(rng.choice(["pipe", "link", "own link", "loop", "zeros", "folder", "huge", "nothing"]))
    held = path.read_bytes()
    path.unlink()
    if way == "pipe":
        os.mkfifo(path)
    elif way in ("link", "own link"):
        target = (run / "held" if way == "own link" else run.parent / "away").absolute()
        target.write_bytes(held)
        path.symlink_to(target)
    elif way in ("loop", "zeros"):
        path.symlink_to(path.absolute() if way == "loop" else "/dev/zero")
    elif way == "folder":
        path.mkdir()
    elif way == "huge":
        with open(path, "wb") as file:
            file.truncate(HUGE)
    return way


def _state(folder: Path) -> dict[str, Any]:
    """What is in a folder: for each name its kind, its size, and a digest of its first 10 MB; of a link, its target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        told, held = path.lstat(), ""
        if path.is_symlink():
            held = os.readlink(path)
        elif path.is_file():
            with open(path, "rb") as file:
                held = hashlib.sha256(file.read(10_000_000)).hexdigest()
        found[str(path.relative_to(folder))] = (told.st_mode, told.st_size if path.is_file() else 0, held)
    return found


def _as_if_written(run: Path, name: str) -> None:
    from rb_interp.manifest import START, Manifest

    manifest, content = Manifest(run), (run / name).read_bytes()
    entry = manifest.content.files.get(name)
    manifest.write_bytes(run / name, content, START if entry is None else entry.step)
    for step, record in manifest.content.steps.items():
        manifest.finish(step, *record.made_from, version=record.version)


def _judged(ended: Ended, folder: Path, before: dict[str, Any]) -> tuple[str, str]:
    if ended.failure:
        return ended.failure, ended.err.strip()[-700:]
    if _state(folder / RUN) != before:
        return "lost", "the run folder has changed"
    if {path.name for path in folder.iterdir()} - {RUN, "away", "elsewhere"}:
        return "lost", f"made {sorted(path.name for path in folder.iterdir())}"
    pages = [path.read_text() for path in folder.glob("elsewhere/*.html")]
    if any(TAG in text or "<img src=x" in text for text in (*pages, ended.out.partition("<table")[2])):
        return "silent", "a string of the run is a tag of the page"
    if "\x1b[2J" in ended.out + ended.err or "\x07" in ended.out + ended.err:
        return "silent", "a string of the run reaches the terminal as a command"
    if ended.status == 2:
        return ("sentence", "") if ended.sentence else ("traceback", ended.err[-300:])
    return "equal", ""


def _report(study: str, figure: Any) -> int:
    setattr(_module(study), study.replace("-", "_").upper(), replace(_value(study), figures=(figure,)))
    return command("report", RUN, "--out", "elsewhere")()


def _shown(study: str, figure: Any) -> int:
    """What a notebook shows of the run, its verdicts and its readings."""
    import sys

    from rb_interp.errors import RbInterpError
    from rb_interp.runs.run import Run

    try:
        run = Run.open(RUN)
        print("<table>", run._repr_html_(), run.verdicts._repr_html_())
        for verdicts in run.verdicts_within.values():
            print(verdicts._repr_html_())
        repr(run), repr(run.verdicts), run.outcomes, run.readings
    except RbInterpError as error:
        print(f"rb-interp: {error}", file=sys.stderr)
        return 2
    return 0


ASKED: dict[str, Callable[[str, Any], int]] = {
    "report": _report,
    "info": lambda study, figure: command("info", RUN)(),
    "notebook": _shown,
    "verify": lambda study, figure: min(command("verify", RUN)(), 2),
}


def _one(options: Any, rng: Rng) -> Any:
    return options[rng.integers(len(options))]


def _change_table(path: Path, rng: Rng) -> str:
    table = pd.read_parquet(path)
    texts = [name for name in table if table[name].dtype == object or pd.api.types.is_string_dtype(table[name])]
    numbers = [name for name in table if pd.api.types.is_numeric_dtype(table[name])]
    kind = str(rng.choice(["text", "text", "texts", "number", "number", "numbers", "column", "rows"]))
    if kind.startswith("text") and texts and len(table):
        column, new = _one(texts, rng), _one(TEXTS, rng)
        table[column] = table[column].astype(object)
        there = table[column].unique()
        table.loc[table[column] == _one(there, rng) if kind == "text" else slice(None), column] = new
        said = f"{kind} {column}: {new[:30]!r}"
    elif kind.startswith("number") and numbers and len(table):
        column, new = _one(numbers, rng), _one(NUMBERS, rng)
        if np.isfinite(new) and float(new).is_integer() and table[column].dtype.kind in "iu":
            new = int(np.clip(new, -(2**62), 2**62))
        elif table[column].dtype.kind != "b":
            table[column] = table[column].astype(float)
        else:
            new = bool(rng.integers(2))
        table.loc[rng.integers(len(table)) if kind == "number" else slice(None), column] = new
        said = f"{kind} {column}: {new}"
    elif kind == "rows":
        way = str(rng.choice(["none", "first", "twice", "order", "some"]))
        order = rng.permutation(len(table))
        table = {
            "none": table[:0], "first": table[:1], "twice": pd.concat([table, table]), "order": table.iloc[order],
            "some": table.iloc[np.sort(order[: len(table) // 2])],
        }[way]  # fmt: skip
        said = f"rows: {way}"
    else:
        column, way = _one(list(table), rng), str(rng.choice(["renamed", "dropped", "as text", "nothing", "as list"]))
        if way in ("renamed", "dropped"):
            table = table.rename(columns={column: "x"}) if way == "renamed" else table.drop(columns=column)
        else:
            table[column] = {"as text": table[column].astype(str), "nothing": None}.get(way, [[1]] * len(table))
        said = f"column {column}: {way}"
    table.to_parquet(path, index=False)
    return said


def _change_json(path: Path, rng: Rng) -> str:
    content = json.loads(path.read_text())
    holder, key, way = content, None, []
    while isinstance(holder, dict | list) and len(holder):
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = _one(list(keys), rng)
        way.append(str(key))
        if not isinstance(holder[key], dict | list) or not len(holder[key]) or rng.random() < 0.15:
            break
        holder = holder[key]
    new = _one(PLAIN, rng)
    if key is None:
        content = new
    elif rng.random() < 0.15:
        del holder[key]
        new = "deleted"
    else:
        holder[key] = new
    text = json.dumps(content)
    path.write_text(text if new != DEEP else text.replace(str(DEEP), "[" * DEEP + "]" * DEEP))
    return f"{'.'.join(way)}: {str(new)[:30]!r}"


def _change_arrays(path: Path, rng: Rng) -> str:
    with safe_open(path, framework="np") as held:
        metadata = held.metadata()
        arrays = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118 (it is no mapping)
    if not arrays:
        return "nothing"
    name, way = (
        _one(sorted(arrays), rng),
        str(rng.choice(["empty", "nan", "whole", "flat", "dropped", "huge", "named"])),
    )
    array = arrays.pop(name)
    if way == "named":
        name = _one(TEXTS[:12], rng)
    if way != "dropped":
        arrays[name] = {
            "empty": array[..., :0] if array.ndim else array, "nan": np.full(array.shape, np.nan, np.float32),
            "whole": np.ones(array.shape, np.int64), "flat": array.reshape(-1), "huge": np.full(array.shape, 1e308),
        }.get(way, array)  # fmt: skip
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata)
    return f"{name[:40]}: {way}"


def _change_text(path: Path, rng: Rng) -> str:
    held = path.read_text()
    lines = held.splitlines()
    at = int(rng.integers(len(lines)))
    new = _one(TEXTS, rng)
    lines[at] = f"{lines[at].partition('=')[0]}= {json.dumps(new)}"
    path.write_text("\n".join(lines))
    return lines[at][:60]


CHANGES: dict[str, Callable[[Path, Rng], str]] = {
    ".parquet": _change_table,
    ".json": _change_json,
    ".safetensors": _change_arrays,
    ".toml": _change_text,
}
