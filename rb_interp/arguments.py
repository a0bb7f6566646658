"""Arguments of public calls, converted and checked as their annotations say, by jaxtyping and
beartype."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from beartype import BeartypeConf
from beartype.door import is_bearable
from jaxtyping import Float, jaxtyped

from rb_interp.errors import ArgumentError, ModelError, describe

F = TypeVar("F", bound=Callable)
FLOATS = getattr(Float, "dtypes", None)
INT_IS_FLOAT = BeartypeConf(is_pep484_tower=True)
SEQUENCES = {list, tuple, Sequence, Collection, Iterable}
WORDS_OF = {Mapping: "a mapping, such as a dict", Callable: "a function"}
WHOLE_NUMBERS = (int, Sequence[int], Iterable[int], Collection[int])


class ParameterHint(NamedTuple):
    """A parameter of a function: its annotation, and what its arguments are converted to."""

    hint: Any
    arrays: dict[Any, bool]
    """Sequence and classes of arrays in the annotation -> whether it asks for floats."""
    refuses_masks: bool
    """Whether it takes whole numbers but not True and False, which would count as 1 and 0."""


def checked(function: F) -> F:
    """The same function, or a class with its ``__init__``, of which each call checks its arguments.

    Numbers of numpy count as Python's, whole numbers as decimals. A list, an array or a tensor is
    converted to the one of these in the annotation. Tensors of one call get the widest of their
    dtypes. Raises ArgumentError for what does not fit an annotation, and for a negative number of
    things (``n_``).

    >>> @checked
    ... def half(n: int) -> float:
    ...     return n / 2
    >>> half("4")
    Traceback (most recent call last):
    rb_interp.errors.ArgumentError: half got n='4'; expected int.
    """
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)
        return function  # pyright: ignore[reportReturnType] (the class that came)
    signature = inspect.signature(function)
    caller = function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            names = [
                f"{name}=" if parameter.kind is parameter.KEYWORD_ONLY else name
                for name, parameter in signature.parameters.items()
            ]
            raise ArgumentError(f"{caller}: {error}; it takes {', '.join(names)}.") from None
        values = bound.arguments
        floats = []
        with jaxtyped("context"):  # an axis has one size in all arguments
            for name, (hint, arrays, refuses_masks) in parameter_hints(function).items():
                if name not in values:
                    continue
                value = values[name]
                convertible = hasattr(value, "item") or (arrays and isinstance(value, list | tuple))
                try:
                    if arrays.get(type(value), convertible):
                        value = values[name] = _converted(value, arrays)
                    items = value if isinstance(value, list | tuple) else (value,)
                    is_mask = refuses_masks and bool in map(type, items)
                    if name.startswith("n_") and isinstance(value, int) and value < 0:
                        raise ArgumentError(f"got {name}={value}; expected 0 or more.")
                    if is_mask or not is_bearable(value, hint, conf=INT_IS_FLOAT):
                        expected = in_words(hint)
                        raise ArgumentError(f"got {name}={describe(value)}; expected {expected}.")
                except (ArgumentError, ModelError) as error:  # a model says what it lacks
                    raise type(error)(f"{caller} {error}") from None
                if hasattr(value, "detach") and value.is_floating_point():
                    floats.append(name)
        if len(floats) > 1:
            widest = max((values[name].dtype for name in floats), key=lambda dtype: dtype.itemsize)
            for name in floats:
                values[name] = values[name].to(widest)
        return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


def in_words(hint: Any) -> str:
    """What an annotation asks for, as a person says it.

    >>> in_words(Sequence[int] | None), in_words(Literal["mean", "zero"])
    ('a list of int or None', "'mean' or 'zero'")
    >>> in_words(Float[np.ndarray, "row d"])
    'float numbers of shape [row d]'
    """
    origin = get_origin(hint)
    kinds = get_args(hint)
    if hint is NoneType:
        return "None"
    if origin is Literal:
        return " or ".join(map(repr, kinds))
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, kinds)))
    if hasattr(hint, "dim_str"):
        return f"{hint.__name__.partition('[')[0].lower()} numbers of shape [{hint.dim_str}]"
    if origin in SEQUENCES:
        return f"a list of {in_words(kinds[0])}"
    if origin in WORDS_OF:
        return WORDS_OF[origin]
    name = getattr(hint, "__name__", str(hint))
    if is_dataclass(hint):
        name += f"({', '.join(field.name for field in fields(hint))})"
    return name


@cache
def parameter_hints(function: Callable) -> dict[str, ParameterHint]:
    """The annotated parameters of a function by name, without ``*args`` and ``**kwargs``."""
    annotations = {}
    for name, parameter in inspect.signature(function).parameters.items():
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name in function.__annotations__ and not several:
            annotations[name] = function.__annotations__[name]
    names = inspect.unwrap(function).__globals__
    holder = SimpleNamespace(__annotations__=annotations)  # without the annotation of the result
    hints = get_type_hints(holder, names, include_extras=True)
    return {name: _parameter_hint(hint) for name, hint in hints.items()}


def _parameter_hint(hint: Any) -> ParameterHint:
    kinds = (hint, *get_args(hint))
    arrays: dict[Any, bool] = {}
    for kind in kinds:
        array = getattr(kind, "array_type", kind)
        if get_origin(kind) in SEQUENCES:
            arrays[Sequence] = False
        elif getattr(array, "__name__", "") in ("ndarray", "Tensor"):
            arrays.setdefault(array, getattr(kind, "dtypes", None) == FLOATS)
    whole_numbers = any(kind in WHOLE_NUMBERS for kind in kinds)
    return ParameterHint(hint, arrays, whole_numbers and bool not in kinds)


def _converted(value: Any, arrays: dict[Any, bool]) -> Any:
    """A number of numpy as Python's; a list, array or tensor as one of the classes."""
    if isinstance(value, np.generic) or (np.ndarray is type(value) and value.ndim == 0):
        return value.item()
    kind = Sequence if type(value) in (list, tuple) else type(value)
    if not arrays or not (kind in (Sequence, np.ndarray) or hasattr(value, "detach")):
        return value
    target = kind if kind in arrays else next(iter(arrays))
    if target is Sequence:
        return value if kind is Sequence or value.ndim != 1 else value.tolist()
    if not isinstance(value, target):
        value = as_array(value)
        if target is not np.ndarray:
            import torch

            value = torch.as_tensor(value)
    if arrays[target] and "int" in str(value.dtype):
        value = value.double() if hasattr(value, "detach") else value.astype(float)
    return value


def as_array(value: Any) -> Any:
    """A list, an array or a tensor as an array of numpy.

    Raises ArgumentError for rows of several lengths.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):
            value = value.float()
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        message = f"got {describe(value)}; expected an array, all rows of one length."
        raise ArgumentError(message) from None
