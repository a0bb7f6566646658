"""What an annotation allows, as a `checks.Kind`: numbers, texts, arrays, collections, classes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from rb_interp.checks import Kind, WrongError, has_axes, shown

WORDS = {
    "Inputs": "rb_interp.tasks.Inputs(tokens, labels, roles)",
    "Roles": "rb_interp.tasks.Roles(positions, tokens)",
    "DataFrame": "a pandas DataFrame",
    "Generator": "np.random.default_rng(seed)",
    "dtype": "a dtype of torch, such as torch.float32",
    "ChainInputs": "chain_inputs(examples, tokenizer)",
}
"""Class -> what to give, where its name alone does not say it."""
LISTS = (list, tuple, Sequence, Collection, Iterable, set, frozenset)


def kind_of(hint: Any, *, nan: bool = False, empty: bool = False, within: tuple[float, float] | None = None) -> Any:
    """The kind of an annotation; None where it allows everything."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return None
    if origin is Annotated:
        known = [extra for extra in args[1:] if isinstance(extra, Kind)]
        return known[0] if known else kind_of(args[0], nan=nan, empty=empty, within=within)
    if origin in (Union, UnionType):
        kinds = [kind_of(arg, nan=nan, empty=empty, within=within) for arg in args]
        return None if None in kinds else _any_of(kinds)
    if origin is Literal:
        return Kind(" or ".join(map(repr, args)), _holds(lambda value: isinstance(value, str) and value in args))
    if hint in (None, NoneType):
        return Kind("None", _holds(lambda value: value is None))
    if hasattr(hint, "dim_str"):
        return _array(hint, nan, empty)
    if hint is np.ndarray or _is_tensor(hint):
        return Kind("an array", _array_fit(hint, None, True, True))
    if hint in SIMPLE:
        return _number(hint, nan, within) if hint in (int, float) else SIMPLE[hint]
    if origin is Callable or hint is Callable:
        return _function(args)
    if origin is type:
        return Kind("a class", _holds(lambda value: isinstance(value, type)))
    if (origin or hint) in (Mapping, dict):
        return _mapping(args)
    if (origin or hint) in LISTS:
        return _list_of(origin or hint, args)
    return _instance(hint) if isinstance(hint, type) else None


def _holds(test: Callable[[Any], bool]) -> Callable[[Any, bool], Any]:
    def fit(value: Any, convert: bool) -> Any:
        if not test(value):
            raise WrongError
        return value

    return fit


SIMPLE: dict[Any, Kind] = {
    int: Kind("a whole number", _holds(lambda x: isinstance(x, Integral) and not isinstance(x, bool))),
    float: Kind("a number", _holds(lambda x: isinstance(x, Real) and not isinstance(x, bool))),
    bool: Kind("True or False", _holds(lambda x: isinstance(x, bool | np.bool_))),
    str: Kind("a text", _holds(lambda x: isinstance(x, str))),
    Path: Kind("a path", _holds(lambda x: isinstance(x, os.PathLike) and "\0" not in os.fspath(x))),
}


def _function(args: tuple) -> Kind:
    """Something to be called; with as many arguments as the annotation says, where it says so."""
    if not args or not isinstance(args[0], list):
        return Kind("a function", _holds(callable))

    def takes(value: Any) -> bool:
        if not callable(value):
            return False
        try:
            signature(value).bind(*args[0])
        except TypeError:
            return False
        except ValueError:  # some that are written in C do not say what they take
            pass
        return True

    n = len(args[0])
    return Kind(f"a function of {n} argument{'s' * (n != 1)}", _holds(takes))


def _number(hint: type, nan: bool, within: tuple[float, float] | None) -> Kind:
    kind, (low, high) = SIMPLE[hint], within or (-np.inf, np.inf)
    bounds = "" if within is None else f" from {low:,} to {high:,}" if np.isfinite(high) else f" of {low:,} or more"
    if high == 2**63 - 1:
        bounds = " of 0 or more, below 2^63" if low == 0 else " of at most 63 bits"

    def fit(value: Any, convert: bool) -> Any:
        kind.fit(value, convert)
        if not low <= value <= high and not (nan and value != value):
            raise WrongError
        if hint is float:
            try:
                undefined = not np.isfinite(float(value))
            except OverflowError:
                raise WrongError from None
            if undefined and not nan:
                raise WrongError
            if isinstance(value, int) and abs(value) >= 2**63:  # numpy would take it for an object
                return float(value)
        elif not -(2**63) <= value < 2**63:
            raise WrongError
        return value

    return Kind(kind.words + bounds, fit)


def _any_of(kinds: list[Kind]) -> Kind:
    def fit(value: Any, convert: bool) -> Any:
        failure = WrongError()
        for converting in (False, True) if convert else (False,):
            for kind in kinds:
                try:
                    return kind.fit(value, converting)
                except WrongError as wrong:
                    failure = wrong if wrong.text else failure
        raise failure

    shape = next((kind.shape for kind in kinds if kind.shape is not None), None)
    return Kind(" or ".join(dict.fromkeys(kind.words for kind in kinds)), fit, shape)


def _mapping(args: tuple) -> Kind:
    key, item = (kind_of(arg, nan=True, empty=True) for arg in args) if args else (None, None)
    words = "a mapping" + (f", each key {key.words}, each value {item.words}" if key and item else "")

    def fit(value: Any, convert: bool) -> Any:
        if not isinstance(value, Mapping):
            raise WrongError
        _each(value, key, words)
        for name, one in value.items():
            _item(name, one, item)
        if item is None or item.shape is None:
            return value
        return {name: item.fit(one, convert) for name, one in value.items()}

    return Kind(words, fit)


def _item(name: Any, value: Any, kind: Kind | None) -> None:
    """Raise WrongError where what a mapping holds under a name does not fit."""
    if kind is None:
        return
    try:
        kind.fit(value, True)
    except WrongError as wrong:
        text = f"got {{name}}[{shown(name)}]={shown(value)}; expected {kind.words}."
        raise WrongError(wrong.text or text, wrong.kind) from None


def _list_of(origin: Any, args: tuple) -> Kind:
    fixed = origin is tuple and args and args[-1] is not ...
    items = [kind_of(arg, nan=True, empty=True) for arg in args if arg is not ...]
    words = "a list" if not args or None in items else f"a list, each item {items[0].words}"
    if fixed:
        words = f"{len(items)} values: " + ", ".join(item.words if item else "anything" for item in items)

    allowed = {Iterable: Iterable, Collection: Collection, set: Collection, frozenset: Collection}.get(origin, Sequence)

    def fit(given: Any, convert: bool) -> Any:
        value: Any = given
        if hasattr(given, "ndim") and hasattr(given, "dtype"):
            if given.ndim != 1:
                raise WrongError
            value = given.tolist() if _is_tensor(type(given)) else given
        elif isinstance(given, str | bytes | Mapping) or not isinstance(given, allowed):
            raise WrongError
        elif isinstance(given, Iterator):  # what comes out of it can be looked at once
            value = list(given)
        if fixed and len(value) != len(items):
            raise WrongError
        for one, kind in zip(value, items, strict=True) if fixed else ((one, items[0]) for one in value if items):
            _each((one,), kind, words)
        return value

    return Kind(words, fit)


def _each(values: Iterable, kind: Kind | None, words: str) -> None:
    if kind is None:
        return
    for value in values:
        try:
            kind.fit(value, True)
        except WrongError as wrong:
            text = f"got {{name}} with {shown(value)} in it; expected {words}."
            raise WrongError(wrong.text or text, wrong.kind) from None


def _instance(hint: type) -> Kind:
    name = hint.__name__
    if getattr(hint, "_is_protocol", False):
        asked = [member for member in (*vars(hint), *hint.__annotations__) if not member.startswith("_")]
        words = f"an object with {', '.join(asked)}, as rb_interp's {name} has"
        return Kind(words, _holds(lambda value: all(hasattr(value, member) for member in asked)))
    words = WORDS.get(name, f"{'an' if name[:1].upper() in 'AEIOU' else 'a'} {name}")

    def fit(value: Any, convert: bool) -> Any:
        if isinstance(value, hint):
            return value
        if isinstance(value, Mapping):
            names = ", ".join(shown(key) for key in list(value)[:3])
            raise WrongError(f"got {{name}}=a mapping of {names or 'nothing'}; expected {words}.")
        raise WrongError

    return Kind(words, fit)


def name_among(*names: str) -> Kind:
    """The kind of a text that a function looks up among some names itself; of anything else this tells the names."""
    return Kind(f"a name: {' or '.join(map(repr, names))}", SIMPLE[str].fit)


LETTERS = {"float": "fiu", "int": "iu", "bool": "b", "number": "fiu", "any": "fiubUSM"}
NAMES = {
    "float": "of numbers",
    "int": "of whole numbers",
    "bool": "of True and False",
    "number": "of numbers",
    "any": "",
}


def _array(hint: Any, nan: bool, empty: bool) -> Kind:
    content, axes = _content(hint.dtypes), tuple(hint.dim_str.split())
    what = "a tensor" if _is_tensor(hint.array_type) else "an array"
    more = "" if nan or content not in ("float", "number") else ", all of them finite"
    more += "" if empty else ", not empty"
    words = " ".join(filter(None, (what, NAMES.get(content), f"of shape [{', '.join(axes)}]"))) + more
    fit = _array_fit(hint.array_type, content, nan, empty)

    def shaped(value: Any, convert: bool) -> Any:
        value = fit(value, convert)
        if not has_axes(tuple(value.shape), axes, {}):
            raise WrongError
        return value

    return Kind(words, shaped, axes)


def _content(dtypes: Any) -> str:
    names = [str(name) for name in dtypes] if isinstance(dtypes, Sequence) else []
    found = [word for word in ("float", "int", "bool") if any(name.startswith((word, f"u{word}")) for name in names)]
    return "any" if not found or len(found) == 3 else "number" if len(found) == 2 else found[0]


def _array_fit(wanted: Any, content: str | None, nan: bool, empty: bool) -> Callable[[Any, bool], Any]:
    """An array of the wanted library; ``content`` None leaves what it holds alone."""

    def fit(value: Any, convert: bool) -> Any:
        if not isinstance(value, wanted):
            if not convert:
                raise WrongError
            value = _converted(value, wanted)
        letter = _letter(value)
        if letter not in LETTERS[content or "any"]:
            if not (value.size == 0 if wanted is np.ndarray else value.numel() == 0):
                raise WrongError
            value = value.astype(np.int64) if wanted is np.ndarray else value.long()
        if content == "float" and letter in "iu":
            value = value.astype(np.float64) if wanted is np.ndarray else value.double()
        if not empty and 0 in value.shape:
            raise WrongError
        if not nan and letter == "f" and not _finite(value):
            raise WrongError
        return value

    return fit


def _converted(value: Any, wanted: Any) -> Any:
    """A list, an array or a tensor as the wanted one of the two."""
    if _is_tensor(type(value)):
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if not isinstance(value, np.ndarray | list | tuple):
        raise WrongError
    try:
        array = np.asarray(value)
        if wanted is np.ndarray:
            return array
        import torch

        return torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError, OverflowError):
        raise WrongError from None


def _letter(value: Any) -> str:
    """numpy's letter for what an array or a tensor holds."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind
    if value.dtype.is_floating_point:
        return "f"
    return "c" if value.dtype.is_complex else "b" if str(value.dtype) == "torch.bool" else "i"


def _finite(value: Any) -> bool:
    return bool(np.isfinite(value).all() if isinstance(value, np.ndarray) else value.isfinite().all())


def _is_tensor(hint: Any) -> bool:
    """Whether a class is torch's Tensor, or one of its subclasses; torch is not imported for the question."""
    return isinstance(hint, type) and any(f"{c.__module__}.{c.__name__}" == "torch.Tensor" for c in hint.__mro__)
