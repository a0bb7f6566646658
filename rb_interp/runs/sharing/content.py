"""``config.json`` of a shared member: what it is, written and read.

Somebody else may have written it. So every value is of the kind that is expected, sizes are within the bounds of
settings, and nothing in it is a path or is imported by its name (``task``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rb_interp.checks import KnownFields, shown
from rb_interp.errors import ConfigError, RbInterpError, RunError, first_line
from rb_interp.models.config import ModelConfig
from rb_interp.runs.sharing.circuit import Circuit
from rb_interp.settings import Gamma, Seed, Size, fitted, overlay, plain

FORMAT = "rb_interp member 1"
FILE, WEIGHTS, UNTRAINED, CARD = "config.json", "model.safetensors", "untrained.safetensors", "README.md"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
DTYPES = ("float32", "float64")
LONGEST_TEXT = 2000
DRAWN, STORED, NONE = "drawn", "stored", "none"
_NUMBERS = {
    "d_vocab": Size,
    "n_ctx": Size,
    "data_seed": Seed,
    "step": Seed,
    "gamma": Gamma | None,
    "seed": Seed | None,
}


@dataclass(frozen=True)
class TaskTold:
    """What a file says of a task: class and settings, and the study whose installation brings that class.

    Attributes:
        kind: ``module:qualname``. fingerprint: of class and settings. settings: plain data.
        study: name of a study that trains tasks of this class; "" where there is none.
        sources: settings that name files of whoever trained the member; they are left out.
    """

    kind: str
    fingerprint: str
    settings: Mapping[str, Any]
    study: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Content(KnownFields):
    """What ``config.json`` says of a member.

    Attributes:
        name: lower-case letters, digits, dots and dashes. description: a sentence about it.
        model, d_vocab, n_ctx, dtype: what the weights are.
        task: what it was trained on. data_seed: of the rows that it learned.
        gamma, seed: of its initialisation; both None for weights that no scheme has drawn.
        stage, step: where in training it stands.
        untrained: ``drawn`` (from scheme, gamma and seed), ``stored``, or ``none``. checksum: of the untrained weights.
        training: settings of the training. circuit: None where it was not named.
        accuracy: set -> share of its rows that are answered rightly. readings: rows of a table of readings.
        licence: of the weights. versions: of what made it.
    """

    name: str
    model: ModelConfig
    d_vocab: int
    n_ctx: int
    task: TaskTold
    dtype: str = "float32"
    description: str = ""
    data_seed: int = 0
    gamma: float | None = None
    seed: int | None = None
    stage: str = "final"
    step: int = 0
    untrained: str = NONE
    checksum: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    circuit: Circuit | None = None
    accuracy: Mapping[str, float] = field(default_factory=dict)
    readings: Sequence[Mapping[str, Any]] = ()
    licence: str = "mit"
    versions: Mapping[str, str] = field(default_factory=dict)


def check_name(name: Any) -> None:
    """Raise RunError for what is no name of a member, and so no name of a folder.

    >>> check_name("../elsewhere")
    Traceback (most recent call last):
    rb_interp.errors.RunError: member='../elsewhere' is no name of a member; expected up to 64 lower-case letters,
    digits, dots, dashes and underscores.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RunError(
            f"member={shown(name)} is no name of a member; expected up to 64 lower-case letters, digits, dots, dashes "
            f"and underscores."
        )


def packed(content: Content) -> bytes:
    """The bytes of the file; NaN and infinity are null there."""
    told = {"format": FORMAT, **asdict(content)}
    told["model"] = plain(content.model)
    return json.dumps(_finite(told), indent=1, allow_nan=False, ensure_ascii=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def parsed(path: Path, held: bytes) -> Content:
    """What a file says; RunError with a sentence where it is no description of a member."""
    try:
        told = json.loads(held)
        if told["format"] != FORMAT:
            raise RunError(f"{path} has the format {shown(told['format'])}; this version reads '{FORMAT}'.")
        return _content({key: value for key, value in told.items() if key != "format"})
    except RunError:
        raise
    except (RbInterpError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"no '{error.args[0]}'" if isinstance(error, KeyError) else first_line(error)
        raise RunError(f"{path} does not say what a member is ({reason}); get a sound copy of its folder.") from None


def _content(told: Mapping[str, Any]) -> Content:
    texts = ("name", "dtype", "description", "stage", "untrained", "checksum", "licence")
    given = {name: fitted(told[name], hint, name) for name, hint in _NUMBERS.items() if name in told}
    given |= {name: _text(told, name) for name in texts if name in told}
    content = Content(
        **given,
        model=overlay(ModelConfig(), told["model"], "model"),
        task=_task(told["task"]),
        training=_mapping(told, "training"),
        circuit=None if told.get("circuit") is None else _circuit(told["circuit"]),
        accuracy=_numbers(_mapping(told, "accuracy")),
        readings=_rows(told.get("readings", [])),
        versions={key: str(value) for key, value in _mapping(told, "versions").items()},
    )
    check_name(content.name)
    for name, known in (("dtype", DTYPES), ("untrained", (DRAWN, STORED, NONE))):
        if getattr(content, name) not in known:
            raise ConfigError(f"{name}={shown(getattr(content, name))}; expected one of {', '.join(known)}")
    if content.untrained == DRAWN and content.seed is None:
        raise ConfigError("its untrained weights are drawn by a seed, and it has none")
    unknown = set(told) - {f.name for f in fields(Content)}
    if unknown:
        raise ConfigError(f"unknown key {shown(sorted(unknown)[0])}")
    return content


def _task(told: Any) -> TaskTold:
    texts = {name: _text(told, name) for name in ("kind", "fingerprint", "study")}
    sources = fitted(told["sources"], tuple[str, ...], "task.sources")
    return TaskTold(**texts, settings=_mapping(told, "settings"), sources=sources)


def _circuit(told: Any) -> Circuit:
    texts = {name: _text(told, name) for name in ("name", "by", "rule")}
    return Circuit(**texts, shares=_numbers(_mapping(told, "shares")))


def _text(told: Any, name: str) -> str:
    if not isinstance(told[name], str) or len(told[name]) > LONGEST_TEXT:
        raise ConfigError(f"{name}={shown(told[name])}; expected a text of at most {LONGEST_TEXT:,} characters")
    return told[name]


def _mapping(told: Any, name: str) -> dict[str, Any]:
    found = told.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{name}={shown(found)}; expected an object")
    return found


def _numbers(told: Mapping[str, Any]) -> dict[str, float]:
    return {name: math.nan if value is None else fitted(value, float, name) for name, value in told.items()}


def _rows(told: Any) -> list[dict[str, Any]]:
    plain_kinds = (str, int, float, type(None))
    if not isinstance(told, list) or not all(isinstance(row, dict) for row in told):
        raise ConfigError(f"readings={shown(told)}; expected a list of rows")
    if not all(isinstance(value, plain_kinds) for row in told for value in row.values()):
        raise ConfigError("readings hold something else than texts and numbers")
    return told
