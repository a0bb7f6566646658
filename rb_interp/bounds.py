"""The bounds of settings, with unit and reason; and the check that each class of settings calls.

A class has the bounds of its own settings in ``BOUNDS``, whoever wrote it; here stand those of the library's classes.
docs/configuration.md lists the bounds of every setting of every study.

A bound keeps out what nothing can be made of: a number that no tensor, file name or loop can hold. Relations between
settings stand with their classes.

Nothing heavy is imported here: the command line reads settings before it imports torch or numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from reprlib import Repr
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rb_interp.errors import ConfigError, RbInterpError, nearest

LONGEST_PATH, LONGEST_NAME = 4096, 255
"""Bytes of a path and of each name in it, as in the usual file systems."""
_TEXT = f"without control characters, with at most {LONGEST_NAME} bytes between slashes"


@dataclass(frozen=True)
class Bound:
    """Lowest and highest value of a number, or of each number of a list, both inclusive.

    >>> print(Bound(1, 4, "anchors", "Eq. (1) is tried for these"))
    1 to 4 anchors (Eq. (1) is tried for these)
    """

    low: float
    high: float
    unit: str
    why: str

    def __str__(self) -> str:
        return f"{self.low:,} to {self.high:,}{' ' if self.unit else ''}{self.unit} ({self.why})"


STEPS = 99_999_999
WHOLE = 2**31 - 1
SIZE = 1_000_000
_HELD = "more fits no machine"
_FLAT = "beyond it a float32 can hold no result"
GAMMA = Bound(0, 20, "", "above 20 every weight starts at 0 in float32")
SEEDS = Bound(0, WHOLE, "", "what random generators take")
_RATE = Bound(0, 1000, "", _FLAT)
_ROWS = Bound(1, WHOLE, "rows", "all rows where there are fewer")
_READ = Bound(1, 100_000_000, "rows", "all rows where there are fewer")

MODEL = {
    "n_layers": Bound(1, 1000, "layers", "each has tensors of its own"),
    "n_heads": Bound(1, 10_000, "heads", _HELD),
    "d_model": Bound(1, SIZE, "numbers", _HELD),
    "d_head": Bound(1, SIZE, "numbers", _HELD),
    "d_mlp": Bound(1, SIZE, "numbers", _HELD),
    "layer_norm_eps": Bound(0, 1, "", "added to a variance near 1"),
    "uniform_layers": Bound(0, 999, "", "layers of the model"),
}
GAMMAS: dict[str, Bound] = dict.fromkeys(("embedding", "qk", "vo", "mlp", "unembedding"), GAMMA)
TRAIN = {
    "steps": Bound(1, STEPS, "steps", "names of checkpoints have eight digits"),
    "batch_size": _ROWS,
    "lr": _RATE,
    "lr_final": _RATE,
    "warmup": Bound(0, STEPS, "steps", "0 for no warm-up"),
    "schedule_steps": Bound(0, STEPS, "steps", "0 for as many as training has"),
    "betas": Bound(0, 0.999999, "", "a decay rate of 1 would forget nothing"),
    "eps": Bound(0, 1, "", "added to a root near the gradient"),
    "weight_decay": Bound(0, 1000, "", "0 for none"),
    "clip": Bound(0, 1_000_000_000, "", "largest norm, 0 for no clipping"),
    "workers": Bound(0, 1024, "threads", "0 for one on each core"),
    "eval_every": Bound(1, STEPS, "steps", "as many as training has, at most"),
    "eval_rows": _READ,
    "n_checkpoints": Bound(0, 10_000, "files", "more fits no disk"),
    "keep_at": Bound(0, 1, "", "shares of the steps"),
    "save_every": Bound(0, 1_000_000_000, "seconds", "about 32 years"),
    "micro_batch": Bound(0, WHOLE, "rows", "0 for a whole batch"),
}
_TOKENS = Bound(0, SIZE - 1, "", "token ids, below d_vocab")
ANCHOR_TASK = {
    "q": Bound(1, 4, "anchors", "combinations of more are too many to list"),
    "length": Bound(2, 100_000, "positions", _HELD),
    "keys": _TOKENS,
    "memory_anchors": _TOKENS,
    "reasoning_anchors": _TOKENS,
    "masked": _TOKENS,
    "d_vocab": Bound(1, SIZE, "tokens", _HELD),
    "n_sequences": Bound(1, 1_000_000_000, "rows", _HELD),
    "label_ranges": _TOKENS,
    "memory_share": Bound(0, 1, "", "a share of the rows"),
}
TEXT = {
    "hops": Bound(1, 8, "steps", "ten concepts make no longer chain"),
    "sequences": Bound(1, 100_000_000, "rows", _HELD),
    "held_out": Bound(1, 100_000_000, "rows", _HELD),
    "answers": Bound(1, 10_000_000, "examples", _HELD),
    "d_vocab": Bound(257, SIZE, "entries", "at least 256 bytes and the end of a document"),
    "n_ctx": Bound(2, 100_000, "tokens", _HELD),
}
SWEEP = {
    "gammas": GAMMA,
    "rates": Bound(0, 1000, "", "gammas and learning rates"),
    "data_seed": SEEDS,
}
_WIDTHS = Bound(1, 20_000, "numbers", "a square matrix of it takes 3.2 GB")
STUDY = {
    "seeds": SEEDS,
    "probe_rows": _READ,
    "n_null": Bound(0, 100_000, "draws", "0 for none"),
    "n_init": Bound(1, SIZE, "models", "each is drawn and read"),
}
"""Settings of a study beside its sweeps; one that has none of a name does without it."""
SCALING = {
    "d_models": _WIDTHS,
    "gammas": GAMMA,
    "lemma_d_models": _WIDTHS,
    "lemma_gammas": GAMMA,
    "n_init": Bound(1, SIZE, "models", "each is drawn and read"),
}
LISTS = {
    "seeds": Bound(1, 10_000, "seeds", "each is a model for each gamma, and run.json names each"),
    "gammas": Bound(1, 1000, "gammas", "each is a model for each seed"),
}
"""How many numbers some lists have. A list without a bound of its own has at most ``SIZE``."""


def check(settings: Any, error: type[RbInterpError], names: Mapping[str, Iterable[str]] = {}) -> None:
    """Check a dataclass of settings, and store each value in its plain kind: lists as tuples, numpy's numbers as ours.

    Every field must be of the kind that its annotation says, and every number within the bound that its class, or a
    class that it is made from, has for it in ``BOUNDS``. A class calls this at the start of ``__post_init__``.

    Args:
        settings: the dataclass, frozen or not. error: what to raise. names: known names of its texts, by field.

    Raises ``error``, with the setting's value and what is expected.

    >>> from rb_interp.training.config import TrainConfig
    >>> TrainConfig(steps=0)
    Traceback (most recent call last):
    rb_interp.errors.ConfigError: steps=0; expected 1 to 99,999,999 steps (names of checkpoints have eight digits).
    """
    hints, bounds = _hints(type(settings)), bounds_of(type(settings))
    for field in fields(settings):
        check_length(field.name, getattr(settings, field.name), error)
        value = converted(getattr(settings, field.name), hints.get(field.name, Any), f"{field.name}=", error)
        object.__setattr__(settings, field.name, value)
        if field.name in bounds:
            check_bound(field.name, value, bounds[field.name], error)
        if field.name in names and value not in (known := tuple(names[field.name])):
            raise error(f"{field.name}={value_text(value)} is not known; {nearest(value, known)}")


@lru_cache(maxsize=256)
def bounds_of(kind: type) -> Mapping[str, Bound]:
    """Field -> its bound, as a class of settings and the classes that it is made from have them in ``BOUNDS``."""
    return {name: bound for each in reversed(kind.__mro__) for name, bound in vars(each).get("BOUNDS", {}).items()}


def check_bound(name: str, value: Any, bound: Bound, error: type[RbInterpError] = ConfigError) -> None:
    """Raise ``error`` where a number, or one of a list, lies outside a bound; None passes."""
    if not all(bound.low <= number <= bound.high for number in _numbers(value)):
        raise error(f"{name}={value_text(value)}; expected {bound}.")


def check_length(name: str, value: Any, error: type[RbInterpError] = ConfigError) -> None:
    """Raise ``error`` where a list has another length than LISTS says. It is not walked through; no list passes.

    >>> check_length("seeds", range(10**30))
    Traceback (most recent call last):
    rb_interp.errors.ConfigError: seeds=range(0, 1000000000000000000000000000000); expected 1 to 10,000 seeds (each is
    a model for each gamma, and run.json names each).
    """
    bound = LISTS.get(name)
    if bound is not None and (n := _length(value)) is not None and not bound.low <= n <= bound.high:
        raise error(f"{name}={value_text(value)}; expected {bound}.")


def _length(value: Any) -> float | None:
    """How many entries a list, a range or an array has; None of anything else."""
    if not isinstance(value, list | tuple | range) and not getattr(value, "shape", ()):
        return None
    try:
        return len(value)
    except OverflowError:  # of a range beyond 2**63
        return float("inf")


def _numbers(value: Any) -> list[float]:
    if isinstance(value, tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, int | float) else []


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except NameError:  # a class within a function may name kinds that are not to be found
        return {}


class _WrongKindError(Exception):
    """A value is not of the kind that is expected; or, in words, which part of it is not."""


def converted(value: Any, hint: Any, where: str, error: type[RbInterpError] = ConfigError) -> Any:
    """A value as its annotation wants it: lists become tuples, whole numbers pass as floats, numpy's become ours.

    Args:
        where: what stands before the value in a message, such as ``steps=``. error: what to raise.

    >>> converted([1, 2], tuple[float, ...], "gammas="), converted([[1, 2]], tuple[tuple[int, int], ...], "ranges=")
    ((1.0, 2.0), ((1, 2),))
    """
    try:
        return _as_kind(value, hint)
    except _WrongKindError as wrong:
        raise error(f"{where}{value_text(value)}; expected {kind_in_words(hint)}{wrong}.") from None


def _as_kind(value: Any, hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _as_kind(value, next(kind for kind in inner if kind is not type(None)))
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, hint):
            raise _WrongKindError
        return value
    if origin is not tuple and hint not in (int, float, bool, str):
        return value
    value = value.tolist() if hasattr(value, "tolist") else value  # arrays, and numbers of numpy
    if origin is tuple:
        return _as_tuple(value, inner)
    if hint is str and type(value) is str and not _unusable(value):
        return value
    if hint is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise _WrongKindError from None
    if type(value) is not hint or hint is str:
        raise _WrongKindError
    return value


def _as_tuple(value: Any, inner: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple | range):
        raise _WrongKindError
    if (_length(value) or 0) > SIZE:
        raise _WrongKindError(f", of at most {SIZE:,}")
    many = len(inner) == 2 and inner[1] is Ellipsis
    if not many and len(value) != len(inner):
        raise _WrongKindError
    kinds = inner[:1] * len(value) if many else inner
    return tuple(_as_kind(item, kind) for item, kind in zip(value, kinds, strict=True))


def kind_in_words(hint: Any, many: bool = False) -> str:
    """What an annotation asks for.

    >>> kind_in_words(tuple[int, int]), kind_in_words(tuple[tuple[int, ...], ...]), kind_in_words(float | None)
    ('a pair of whole numbers', 'a list of lists of whole numbers', 'a number, or none')
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return kind_in_words(next(kind for kind in inner if kind is not type(None)), many) + ", or none"
    if origin is tuple:
        pair = inner[1] is not Ellipsis
        found = f"{'pair' if pair else 'list'}{'s' if many else ''} of {kind_in_words(inner[0], True)}"
        return found if many else f"a {found}"
    words = {
        int: ("a whole number", "whole numbers"),
        float: ("a number", "numbers"),
        bool: ("true or false", "true or false"),
        str: (f"a text {_TEXT}", f"texts {_TEXT}"),
    }
    return words[hint][many] if hint in words else f"a {getattr(hint, '__name__', hint)}"


def _unusable(text: str) -> bool:
    """Whether a text can be no name and no path: it holds control characters, half a character, or is too long."""
    if any(ord(letter) < 32 or 0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        return True
    return len(text.encode()) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in text.split("/"))


def check_path(name: str, path: Any) -> None:
    """Raise ConfigError where no file or folder can have a path: NUL bytes, names that are too long.

    >>> check_path("--out", "runs/\\0")
    Traceback (most recent call last):
    rb_interp.errors.ConfigError: --out='runs/\\x00' can be no path; give one without control characters, with at
    most 255 bytes between slashes.
    """
    if _unusable(str(path)):
        sign = "=" if name.startswith("-") else " "
        raise ConfigError(f"{name}{sign}{value_text(str(path))} can be no path; give one {_TEXT}.")


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother, self.maxlong, self.maxlevel = 80, 80, 40, 3
        self.maxtuple = self.maxlist = self.maxdict = 8

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 4096 else "a number of more than 1,000 digits"


def value_text(value: Any) -> str:
    """A value in a message, as Python writes it, and short; tuples as lists.

    >>> value_text((1, (2, 3))), value_text("a" * 200)[:6] + "..."
    ('[1, [2, 3]]', "'aaaaa...")
    """
    return _Short().repr(_as_list(value))


def _as_list(value: Any) -> Any:
    if isinstance(value, range):
        return value
    if (_length(value) or 0) > _Short().maxlist:
        value = value[: _Short().maxlist + 1]  # of the others no more is shown than that they are there
    value = value.tolist() if hasattr(value, "tolist") else value
    return [_as_list(item) for item in value] if isinstance(value, tuple) else value
