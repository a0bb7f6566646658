"""Fuzzed calls of every public callable: valid arguments, of which one or two are replaced by wrong ones.

A call may give a result of the same kind, with every number finite or with the reason why it is not, or raise
RbInterpError or TypeError in one sentence of ours. Everything else is a failure.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import resource
import traceback
import warnings
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from campaigns.calls_arguments import GROUPS, made, make_run
from campaigns.calls_on_runs import owner
from campaigns.harness import Outcome, forked
from campaigns.wrong_values import spoilt, wrong_values

LONG, SHORT = 2000, 60
LIMIT, ROOM = 60.0, 4 * 2**30
"""Seconds of a call, and bytes that it may take beyond what there was."""
NAMES = [(module, name) for module, calls in GROUPS.items() for name in calls]
MARK = "\ncampaign-result: "


def prepare(folder: Path) -> SimpleNamespace:
    """What the calls are about; the run is made in a process of its own."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("RB_INTERP_CACHE", str(folder / "cache"))
    ended = forked(lambda: make_run(folder / "run"), limit=600)
    assert ended.status == 0, ended.err
    return made(folder / "run")


def case(number: int, prepared: SimpleNamespace, folder: Path) -> Outcome:
    """One call."""
    module, name = NAMES[number % len(NAMES)]
    ended = forked(lambda: print(MARK + json.dumps(_called(number, prepared, module, name))), LIMIT)
    if ended.hung or MARK not in ended.out:
        return Outcome(module, "hang" if ended.hung else "traceback", f"{name}: {ended.err[-900:]}")
    return Outcome(module, *json.loads(ended.out.rsplit(MARK, 1)[1]))


def _called(number: int, p: SimpleNamespace, module: str, name: str) -> tuple[str, str]:
    warnings.simplefilter("ignore")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    os.chdir(p.files)
    rng = np.random.default_rng(number)
    called = found(p, module, name)
    valid = GROUPS[module][name](p)
    given, said = dict(valid), []
    for argument in _chosen(list(valid), number, rng):
        pool = spoilt(valid[argument], p, rng) if rng.random() < 0.5 else wrong_values(p)
        chosen = pool[int(rng.integers(len(pool)))]
        if isinstance(chosen, partial):  # may be refused where it is made
            chosen, end = _made(chosen)
            if end:
                return end
        given[argument] = chosen
        said.append(f"{argument}={_short(given[argument])}")
    text = f"{name}({', '.join(said)})"
    end, detail = _end(called, given, valid)
    return end, f"{text}: {detail}"


def _made(make: partial) -> tuple[Any, tuple[str, str] | None]:
    """A value, or how the call that makes it ended."""
    from rb_interp.errors import RbInterpError

    try:
        return make(), None
    except RbInterpError as error:
        return None, ("sentence", f"made: {error}")
    except Exception as error:
        return None, ("traceback", f"made: {type(error).__name__}: {_raised(error)}")


def _chosen(names: list[str], number: int, rng: np.random.Generator) -> list[str]:
    """One argument, now and then two; every argument in its turn."""
    if not names:
        return []
    first = names[number // len(NAMES) % len(names)]
    others = [name for name in names if name != first]
    return [first, str(rng.choice(others))] if others and rng.random() < 0.2 else [first]


def found(p: SimpleNamespace, module: str, name: str) -> Any:
    """The callable of that name; a method is bound."""
    if "." in name:
        return getattr(owner(p, name), name.split(".")[1])
    return getattr(import_module(module), name)


def _end(called: Any, given: dict, valid: dict) -> tuple[str, str]:
    from rb_interp.errors import RbInterpError

    try:
        result = _result(called, given)
    except RbInterpError as error:
        text = str(error)
        return ("sentence", text) if _is_sentence(text) else ("traceback", f"no sentence: {text!r}")
    except TypeError as error:
        return ("sentence" if _is_ours(error) else "traceback"), f"TypeError: {_raised(error)}"
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {_raised(error)}"
    expected = _result(called, valid)
    unsaid = not isinstance(called, type) and _undefined(result) and not _reason(called, result)
    if unsaid and (_is_reading(result) or _undefined(expected) < _undefined(result)):
        return "silent", f"{_undefined(result)} numbers are not finite, and nothing says why"
    parts = any(isinstance(value, slice) for value in given.values())  # a part of a list is a list
    if not parts and not _same_kind(result, expected):
        return "silent", f"gave a {type(result).__name__}"
    return "equal", ""


def _result(called: Any, given: dict) -> Any:
    result = called(**given)
    if isinstance(result, AbstractContextManager) and not isinstance(result, torch.nn.Module):
        with result:
            return None
    return result


def _same_kind(result: Any, valid: Any) -> bool:
    numbers = (bool, int, float, np.generic)
    return (
        type(result) is type(valid) or all(isinstance(x, numbers) for x in (result, valid)) or None in (result, valid)
    )


def _is_sentence(text: str) -> bool:
    return bool(text) and "\n" not in text.strip() and len(text) < 1000 and "Error" not in text


def _is_ours(error: TypeError) -> bool:
    """Whether a TypeError is one of ours, or Python's own about the names of the arguments of this very call."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    binding = any(word in str(error) for word in ("unexpected keyword argument", "missing", "positional argument"))
    if binding and last.filename == __file__:
        return True
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return "rb_interp/" in last.filename and line.startswith("raise") and _is_sentence(str(error))


def _raised(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    own = [
        f for f in traceback.extract_tb(error.__traceback__) if "rb_interp/" in f.filename and "tests" not in f.filename
    ]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else f"{Path(last.filename).name}:{last.lineno}"
    return f"{str(error)[:160]!r} at {place}"


def _undefined(value: Any, depth: int = 0) -> int:
    """How many numbers of a result are not finite."""
    if depth > 5 or value is None or isinstance(value, str | bytes | bool | int | torch.nn.Module):
        return 0
    if isinstance(value, float | np.floating):
        return int(not np.isfinite(value))
    if isinstance(value, torch.Tensor):
        return int((~value.isfinite()).sum()) if value.is_floating_point() else 0
    if isinstance(value, np.ndarray):
        return int((~np.isfinite(value)).sum()) if value.dtype.kind in "fc" else 0
    if isinstance(value, pd.DataFrame):
        return int((~np.isfinite(value.select_dtypes("number").astype(float))).to_numpy().sum())
    if isinstance(value, dict):
        return sum(_undefined(item, depth + 1) for item in value.values())
    if isinstance(value, list | tuple | set):
        return sum(_undefined(item, depth + 1) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(_undefined(getattr(value, f.name), depth + 1) for f in fields(value))
    return 0


def _reason(called: Any, result: Any) -> bool:
    """Whether something says why: a reading's notes, or the documentation of what gives plain numbers."""
    if _is_reading(result):
        notes = getattr(result, "notes", {})
        return all(name in notes for name, value in result.values.items() if not np.isfinite(value))
    return "nan" in _documented(called).lower()


def _is_reading(result: Any) -> bool:
    return type(result).__name__ == "Reading"


@cache
def _documented(called: Any) -> str:
    return inspect.getdoc(called) or ""


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray | torch.Tensor):
        return f"<{type(value).__name__} {list(value.shape)} {value.dtype}>"
    text = repr(value) if isinstance(value, int | float | str | bytes | list | tuple | dict | None) else ""
    return text if text and len(text) < 60 else f"<{type(value).__name__}>"
