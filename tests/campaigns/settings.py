"""Settings drawn at random, by file, by flags and from Python: one sentence and no run folder, or training begins.

Each case takes a study at its smallest preset, with one seed where it allows that and two steps, and changes one to
three settings: to a usual value, to one at a border, to one that is huge or tiny, to another kind or length, or to a
name that nobody knows. Good ends: refused in one sentence with nothing written; or the first step of training was
taken. What takes longer than ``LIMIT`` seconds has hung, unless training has begun (its first evaluation), or it has
said how long it draws rows. The case may take 8 GiB.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.harness import Ended, Outcome, command, forked

LONG, SHORT = 2000, 24
LIMIT, QUICK, SLOW = 20.0, 2.0, 6.0
"""Seconds until a case has hung; until a sentence comes at most, of the processor's time, as the case measures it
itself, which does not depend on what else runs; and by the clock, while others use the machine."""
ROOM = 8 * 2**30
TOOK = "took "
STUDIES = (
    "anchor", "emb-mlp", "labels", "language", "crossed-seeds", "composite", "composite-map", "addition-and-scan",
)  # fmt: skip
WAYS = ("file", "flags", "python")
WHOLE = (0, 1, 2, 3, 7, 100, 4096, 10**5, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**30, -1, -(2**63))
SHARES = (0.0, 0.5, 1.0, 1e-3, 1e-300, 1e30, 1e300, -1.0, -1e-9, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    " ",
    "a\0b",
    "\n",
    "../..",
    "nowhere",
    "ü" * 300,
    "x" * 5000,
    "💥",
    "cuda:99",
    "meta",
    "hub:",
    "quik",
    "None",
)
OTHER = (None, True, False, "many", "3", [], [1], [1, 2, 3], [[1]], {}, {"a": 1}, 0.5, 3, b"x", object())
NAMES = ("stpes", "d_modle", "seedz", "", "a b", "ü", "__class__", "model.model")


def prepare(folder: Path) -> dict[str, list[tuple[str, Any]]]:
    """The settings of each study: path and value."""
    import rb_interp as rb

    return {name: _leaves(rb.study(name).preset("smoke")) for name in STUDIES}


def case(number: int, prepared: Any, folder: Path) -> Outcome:
    """Draw changes and the way in which they arrive, and see how it ends."""
    rng = np.random.default_rng(number)
    study, way = STUDIES[number % len(STUDIES)], WAYS[int(rng.integers(len(WAYS)))]
    known = prepared[study]
    tiny = {
        path: value for path, value in known if path.endswith(("train.steps", "train.save_every")) or path == "seeds"
    }
    changes = {}
    for _ in range(1 + int(rng.integers(3)) * int(rng.integers(2))):
        path, value = known[int(rng.integers(len(known)))]
        if rng.random() < 0.04:
            path = str(rng.choice(NAMES))
        changes[path] = _changed(rng, value, way)
    out = folder / "run"
    work = {"file": _by_file, "flags": _by_flags, "python": _by_python}[way](study, {**tiny, **changes}, folder, out)
    ended = forked(_limited(work), LIMIT)
    end = _end(ended, out)
    detail = "" if end in ("equal", "sentence") else f"{study} {changes!r:.300} {ended.seconds:.0f} s {_last(ended)}"
    return Outcome(way, end, detail)


def _end(ended: Ended, out: Path) -> str:
    if "first step" in ended.out:
        return "equal"
    if ended.hung and ("training has begun" in ended.out or "drawing the rows of all seeds" in ended.err):
        return "equal"  # it is on its way, behind a progress bar, or has said how long it draws
    if ended.failure or ended.status == 0:
        return ended.failure or "silent"
    if not ended.sentence:
        return "traceback"
    if out.exists():
        return "lost"
    took = float(ended.out.rsplit(TOOK, 1)[-1])
    return "sentence" if took < QUICK and ended.seconds < SLOW else "hang"


def _last(ended: Ended) -> str:
    lines = [line for line in ended.err.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _limited(work: Callable[[], int]) -> Callable[[], int]:
    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_DATA, (ROOM, ROOM))
        _stop_at_the_first_step()
        before = time.process_time()
        try:
            return work()
        finally:
            os.write(1, f"{TOOK}{time.process_time() - before:.3f}\n".encode())

    return limited


def _stop_at_the_first_step() -> None:
    from rb_interp.training.loop import Training
    from rb_interp.training.member_group import MemberGroup

    advance, evaluate = MemberGroup.advance, Training._evaluate

    def begun(training: Training, *given: object) -> None:
        os.write(1, b"training has begun\n")
        evaluate(training, *given)

    def first(group: MemberGroup, steps: int) -> None:
        advance(group, 1)
        os.write(1, b"first step\n")
        os._exit(0)

    MemberGroup.advance, Training._evaluate = first, begun


def _by_file(study: str, changes: dict[str, Any], folder: Path, out: Path) -> Callable[[], int]:
    file = folder / "study.toml"
    nested: dict[str, Any] = {}
    for path, value in changes.items():
        _put(nested, path.split("."), value)
    file.write_text(
        f'study = "{study}"\npreset = "smoke"\n' + _toml(nested), encoding="utf-8", errors="surrogateescape"
    )
    return command("train", "--config", file, "--out", out)


def _by_flags(study: str, changes: dict[str, Any], folder: Path, out: Path) -> Callable[[], int]:
    single = study in ("anchor", "language")
    words: list[str] = []
    for path, value in changes.items():
        name = path.rsplit(".", 1)[-1] if single else path
        words.append("--" + name.replace("_", "-"))
        words += [_word(item) for item in value] if isinstance(value, list | tuple) else [_word(value)]
    return command("train", study, "--preset", "smoke", *words, "--out", str(out))


def _by_python(study: str, changes: dict[str, Any], folder: Path, out: Path) -> Callable[[], int]:
    def work() -> int:
        import rb_interp as rb
        from rb_interp.runs.reproduction import start

        try:
            config = rb.study(study).preset("smoke")
            nested: dict[str, Any] = {}
            for path, value in changes.items():
                _put(nested, path.split("."), value)
            start(
                rb.study(study), rb.study(study).preset(**{"preset": "smoke", **_replaced(config, nested)}), out
            ).train(progress=False)
        except rb.RbInterpError as error:
            print(f"rb-interp: {error}", file=sys.stderr)
            return 2
        except TypeError as error:  # Python's own for a word that a class does not know
            if "unexpected keyword argument" not in str(error):
                raise
            print(f"rb-interp: {error}", file=sys.stderr)
            return 2
        return 0

    return work


def _replaced(config: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Fields by name, tables of settings made anew; all of a table at once, as one would write it."""
    made = {}
    for name, value in changes.items():
        current = getattr(config, name, None)
        inside = isinstance(value, dict) and is_dataclass(current) and not isinstance(value, Given)
        made[name] = replace(current, **_replaced(current, value)) if inside else value
    return made


class Given(dict):
    """A mapping that is itself the value of a setting."""


def _put(nested: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = nested.setdefault(name, {})
        if not isinstance(inner, dict) or isinstance(inner, Given):
            return
        nested = inner
    nested[path[-1]] = Given(value) if isinstance(value, dict) else value


def _leaves(config: Any, at: str = "") -> list[tuple[str, Any]]:
    """Paths of all settings with their values in the preset; few steps, and as few seeds as the study takes."""
    found = []
    for field in fields(config):
        value, path = getattr(config, field.name), f"{at}{field.name}"
        if is_dataclass(value):
            found += _leaves(value, f"{path}.")
        elif path == "seeds":
            found.append((path, value[:2] if hasattr(config, "data_seeds") else value[:1]))
        elif field.name == "save_every":
            found.append((path, 1e6))
        else:
            found.append((path, 2 if field.name == "steps" else value))
    return found


def _changed(rng: np.random.Generator, value: Any, way: str) -> Any:
    """Another value of a setting, or something that it cannot be."""
    if rng.random() < 0.2:
        return _one(rng, OTHER)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        chosen = _one(rng, (*WHOLE, value, value + 1, 2 * value, max(1, value // 2), 10 * value, 1000 * value))
        return np.int64(chosen) if way == "python" and abs(chosen) < 2**62 and rng.random() < 0.2 else chosen
    if isinstance(value, float):
        return _one(rng, (*SHARES, value, value / 2, 2 * value, 1, 0))
    if isinstance(value, str):
        return _one(rng, (*TEXTS, value, value.upper(), value + "x"))
    if isinstance(value, tuple):
        items = list(value) or [1]
        return _one(
            rng, ([], items, items[::-1], items * 2, [*items, items[0]], items[:1], [_changed(rng, items[0], way)] * 2,
                  [_changed(rng, item, way) for item in items])
        )  # fmt: skip
    return _one(rng, OTHER)


def _one(rng: np.random.Generator, options: tuple) -> Any:
    return options[int(rng.integers(len(options)))]


def _word(value: Any) -> str:
    """A value on the command line. A word there holds no NUL byte where a shell wrote it; from Python it may."""
    if isinstance(value, list | tuple):
        return ",".join(map(_word, value))
    return str(value)


def _toml(nested: dict[str, Any], at: str = "") -> str:
    plain = {name: value for name, value in nested.items() if not isinstance(value, dict) or isinstance(value, Given)}
    lines = [f"{_key(name)} = {_written(value)}\n" for name, value in plain.items() if value is not None]
    for name, value in nested.items():
        if name not in plain:
            lines.append(f"[{at}{_key(name)}]\n" + _toml(value, f"{at}{_key(name)}."))
    return "".join(lines)


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").isalnum() else _written(name)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in value) + '"'
    return repr(value)
