"""Arguments are checked where the user calls: a decorator reads the annotations and refuses what does not fit them.

``random_directions(-1, 4, rng)`` says "random_directions got n_draws=-1; expected a whole number from 0 to 100,000."
Kinds come from the annotations, which are read once, at the first call. Ranges of numbers come from the argument's name
(`RANGES`). Lists, arrays and tensors stand for each other where nothing is lost; a function sees what its annotation
says. A check takes a few microseconds.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial, wraps
from inspect import Parameter, signature, unwrap
from typing import Any, NamedTuple, TypeVar, overload

from rb_interp.errors import ArgumentError, nearest

F = TypeVar("F", bound=Callable)

MOST = 100_000
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("seed", "data_seed"), (0, 2**63 - 1)),
    **dict.fromkeys(("n_null", "n_draws", "draws"), (0, MOST)),
    **dict.fromkeys(("n", "successes", "step", "min_count", "token"), (0, 10**8)),
    **dict.fromkeys(("rows", "columns", "outer", "inner", "dim", "length", "n_coordinates"), (1, MOST)),
    **dict.fromkeys(("d_model", "d_head", "d_mlp"), (1, MOST)),
    "d_vocab": (0, 10**6),
    **dict.fromkeys(("k", "top", "batch"), (1, 10**8)),
    **dict.fromkeys(("accuracy", "confidence"), (0, 1)),
    "min_ratio": (0, float("inf")),
}
"""Argument -> its least and its largest value, wherever an argument of this name is one number."""


class WrongError(Exception):
    """A value does not fit. ``text``: what is wrong, where the kind's own words do not say it; ``kind``: the error."""

    def __init__(self, text: str = "", kind: type[Exception] = ArgumentError) -> None:
        self.text, self.kind = text, kind


class Kind(NamedTuple):
    """What an argument may be: in words, and ``fit(value, convert)``, which gives the value or raises WrongError.

    ``shape``: the names of an array's axes, which mean the same sizes in all arrays of a call; else None.
    """

    words: str
    fit: Callable[[Any, bool], Any]
    shape: tuple[str, ...] | None = None


@overload
def checked(function: F, /) -> F: ...
@overload
def checked(*, nan: bool = False, empty: bool = False, **ranges: tuple[float, float]) -> Callable[[F], F]: ...
def checked(function: Any = None, /, *, nan: bool = False, empty: bool = False, **ranges: tuple[float, float]) -> Any:
    """The same function, whose arguments are checked against its annotations; of a dataclass, those of its fields.

    Args:
        nan: whether numbers and arrays of numbers may hold NaN and infinity. empty: whether arrays may be empty.
        ranges: of arguments of this function, in place of those of RANGES.

    The function raises ArgumentError, which is an RbInterpError and a TypeError.

    >>> @checked
    ... def half(n: int) -> float:
    ...     return n / 2
    >>> half("4")
    Traceback (most recent call last):
    rb_interp.errors.ArgumentError: half got n='4'; expected a whole number from 0 to 100,000,000.
    """
    if function is None:
        return partial(checked, nan=nan, empty=empty, **ranges)
    if isinstance(function, type):
        made: Any = function
        made.__init__ = checked(nan=nan, empty=empty, **ranges)(made.__init__)
        return function
    plan: _Plan | None = None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal plan
        if plan is None:
            plan = _Plan(function, nan, empty, {**RANGES, **ranges})
        args, kwargs = plan.fitted(args, kwargs)
        try:
            return function(*args, **kwargs)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
                raise
            raise ArgumentError(f"{plan.asker} needs more memory than there is; give smaller sizes.") from None

    return call


class KnownFields:
    """A dataclass of this kind tells which name it does not know, which one it lacks, and how many values it takes.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size(KnownFields):
    ...     width: int = 1
    >>> Size(widht=2)
    Traceback (most recent call last):
    rb_interp.errors.ArgumentError: Size has no argument widht=; did you mean 'width'?
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance, where the names are those of its fields; else ArgumentError."""
        taken = [field for field in fields(cls) if field.init]  # pyright: ignore[reportArgumentType]
        known = [field.name for field in taken]
        for name in kwargs:
            if name not in known:
                raise ArgumentError(f"{cls.__name__} has no argument {name}=; {nearest(name, known)}")
        if len(args) > len(known):
            raise ArgumentError(f"{cls.__name__} got {shown(args[len(known)])} more than it takes.")
        needed = [field.name for field in taken[len(args) :] if field.default is field.default_factory is MISSING]
        if not set(needed) <= set(kwargs):
            lacks = ", ".join(f"{name}=" for name in needed if name not in kwargs)
            raise ArgumentError(f"{cls.__name__} got no {lacks}; give each of them.")
        return super().__new__(cls)


_REST = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class _Plan:
    """The kinds of a function's arguments."""

    def __init__(self, function: Callable, nan: bool, empty: bool, ranges: Mapping[str, tuple[float, float]]) -> None:
        from rb_interp.kinds import kind_of

        name = function.__qualname__.rpartition("<locals>.")[2]
        self.asker = name.removesuffix(".__init__")
        names = _Names(unwrap(function).__globals__)
        self.kinds: dict[str, Kind] = {}
        parameters = signature(function).parameters.values()
        self.positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.required = {p.name for p in parameters if p.default is p.empty and p.kind in _NAMED}
        self.open = {p.kind for p in parameters if p.kind in _REST}
        for parameter in parameters:
            hint = parameter.annotation
            if parameter.kind in _REST or hint is Parameter.empty:
                continue
            hint = eval(hint, {}, names) if isinstance(hint, str) else hint
            kind = kind_of(hint, nan=nan, empty=empty, within=ranges.get(parameter.name))
            if kind is not None:
                self.kinds[parameter.name] = kind
        self.shaped = {name: kind.shape for name, kind in self.kinds.items() if kind.shape is not None}

    def fitted(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the function takes them."""
        self.check_names(args, kwargs)
        placed = [self.fit(name, value) for name, value in zip(self.positional, args, strict=False)]
        named = {name: self.fit(name, value) for name, value in kwargs.items()}
        if self.shaped:
            given = {**dict(zip(self.positional, placed, strict=False)), **named}
            self.check_shapes(given)
            widest = _widest(given)
            placed = [widest.get(name, value) for name, value in zip(self.positional, placed, strict=False)]
            named |= {name: value for name, value in widest.items() if name in named}
        return (*placed, *args[len(placed) :]), named

    def check_names(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Raise ArgumentError for a name that is not known, one that is missing, and values without a name."""
        names = [name for name in self.named if name not in ("self", "cls")]
        for name in kwargs if Parameter.VAR_KEYWORD not in self.open else ():
            if name not in self.named:
                raise ArgumentError(f"{self.asker} has no argument {name}=; {nearest(name, names)}")
        if len(args) > len(self.positional) and Parameter.VAR_POSITIONAL not in self.open:
            extra = shown(args[len(self.positional)])
            further = ", ".join(f"{name}=" for name in names if name not in self.positional)
            more = f"without a name; from there on give names: {further}." if further else "more than it takes."
            raise ArgumentError(f"{self.asker} got {extra} {more}")
        missing = self.required.difference(kwargs, self.positional[: len(args)])
        if missing:
            lacks = ", ".join(f"{name}=" for name in self.named if name in missing)
            raise ArgumentError(f"{self.asker} got no {lacks}; give each of them.")

    def fit(self, name: str, value: Any) -> Any:
        """One argument as the function takes it."""
        kind = self.kinds.get(name)
        if kind is None:
            return value
        try:
            return kind.fit(value, True)
        except WrongError as wrong:
            text = wrong.text or f"got {name}={shown(value)}; expected {kind.words}."
            error = wrong.kind(f"{self.asker} {text.replace('{name}', name)}")
        raise error

    def check_shapes(self, given: Mapping[str, Any]) -> None:
        """Raise ArgumentError where sizes of the same name differ between arrays."""
        arrays = {name: given[name] for name in self.shaped if hasattr(given.get(name), "shape")}
        known: dict[str, Any] = {}
        if not all(has_axes(tuple(value.shape), self.shaped[name], known) for name, value in arrays.items()):
            sizes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            wanted = ", ".join(f"{name} [{', '.join(self.shaped[name])}]" for name in arrays)
            raise ArgumentError(f"{self.asker} got {sizes}; expected {wanted}.")


def _widest(given: Mapping[str, Any]) -> dict[str, Any]:
    """The floating tensors among some arguments, all with the widest of their types, where these differ."""
    tensors = {name: value for name, value in given.items() if hasattr(value, "numel") and value.is_floating_point()}
    if len({value.dtype for value in tensors.values()}) < 2:
        return {}
    import torch

    first, *others = (value.dtype for value in tensors.values())
    for other in others:
        first = torch.promote_types(first, other)
    return {name: value.to(first) for name, value in tensors.items()}


class _Names(dict):
    """The names of a module, and a stand-in for what it imports for type checkers alone."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else _Stand(name, (), {})


class _Stand(type):
    """A class that is known by its name alone."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or name == "dim_str":
            raise AttributeError(name)
        return _Stand(name, (), {})

    def __instancecheck__(cls, value: Any) -> bool:
        return any(base.__name__ == cls.__name__ for base in type(value).__mro__)


def has_axes(shape: tuple[int, ...], axes: tuple[str, ...], known: dict[str, Any]) -> bool:
    """Whether a shape has the axes that jaxtyping's words name; sizes of names are looked up in ``known``, and kept.

    >>> known = {}
    >>> has_axes((2, 5, 3), ("*member", "token", "d_model"), known), known
    (True, {'token': 5, 'd_model': 3, '*member': (2,)})
    >>> has_axes((4, 3), ("row", "d_model"), known), has_axes((4, 2), ("row", "d_model"), known)
    (True, False)
    """
    many = [at for at, axis in enumerate(axes) if axis.startswith(("*", "..."))]
    extra = len(shape) - len(axes) + len(many)
    if extra < 0 or (extra and not many):
        return False
    if not many:
        return all(_has_size(size, axis, known) for size, axis in zip(shape, axes, strict=True))
    at = many[0]
    single = (*zip(shape[:at], axes[:at], strict=True), *zip(shape[at + extra :], axes[at + 1 :], strict=True))
    fits = all(_has_size(size, axis, known) for size, axis in single)
    if axes[at] == "..." or axes[at].startswith("*#"):  # anything, or what broadcasts
        return fits
    return fits and known.setdefault(axes[at], shape[at : at + extra]) == shape[at : at + extra]


def _has_size(size: int, axis: str, known: dict[str, Any]) -> bool:
    if axis.isdigit():
        return size == int(axis)
    return not axis.isidentifier() or known.setdefault(axis, size) == size  # what is reckoned is left to the function


def shown(value: Any) -> str:
    """A value as a message shows it: short ones as they are, others by their type.

    >>> shown(-1), shown(object)
    ('-1', 'the class object')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {list(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    plain = value is None or isinstance(value, bool | int | float | complex | str | bytes)
    if plain or (isinstance(value, list | tuple | dict | set) and all(x is None or len(str(x)) < 20 for x in value)):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of many digits"
        return text if len(text) <= 60 else f"{text[:40]}..."
    name = type(value).__name__
    return f"{'an' if name[:1].upper() in 'AEIOU' else 'a'} {name}"
