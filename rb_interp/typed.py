"""Arguments of public calls are checked against their annotations, by jaxtyping and beartype."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import reduce, wraps
from typing import Any, Literal, TypeVar, get_args, get_origin

from rb_interp.errors import ArgumentError, ModelError, nearest, shown

F = TypeVar("F", bound=Callable)


def typed(function: F) -> F:
    """The same function; of a class, its ``__init__``. ArgumentError for what does not fit an annotation.

    Numpy's numbers count as Python's. A list, an array or a tensor becomes the one of these that the annotation says.

    >>> @typed
    ... def half(n: int) -> float:
    ...     return n / 2
    >>> half("4")
    Traceback (most recent call last):
    rb_interp.errors.ArgumentError: half got n='4'; expected int.
    """
    if isinstance(function, type):
        made: Any = function
        made.__init__ = typed(made.__init__)
        return made
    signature = inspect.signature(function)
    name = function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")
    hints: dict[str, Any] | None = None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        from beartype.door import is_bearable
        from jaxtyping import jaxtyped

        nonlocal hints
        hints = _hints(function) if hints is None else hints
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            known = [one for one in signature.parameters if one != "self"]
            said = f" has no argument {unknown[1]}=; {nearest(unknown[1], known)}" if unknown else f": {error}."
            raise ArgumentError(name + said) from None
        floats: dict[str, Any] = {}
        with jaxtyped("context"):  # an axis has one size in all arguments
            for argument, value in given.arguments.items():
                hint, arrays, conf = hints.get(argument, (object, {}, None))
                if arrays or hasattr(value, "item"):
                    value = given.arguments[argument] = _converted(value, arrays)
                try:
                    fits = not conf or is_bearable(value, hint, conf=conf)
                except ModelError as error:  # of a model, which says itself what it misses
                    raise ModelError(f"{name} {error}") from None
                if not fits:
                    literal = " or ".join(map(repr, get_args(hint))) if get_origin(hint) is Literal else ""
                    said = literal or signature.parameters[argument].annotation
                    if get_args(hint) and str(said).isidentifier():  # a name of ours for a union
                        said = re.sub(r"\b(\w+\.)+", "", str(hint))
                    raise ArgumentError(f"{name} got {argument}={shown(value)}; expected {said}.")
                if hasattr(value, "numel") and value.is_floating_point():
                    floats[argument] = value
        if len(floats) > 1:  # tensors of one call have the widest of their types
            import torch

            widest = reduce(torch.promote_types, (x.dtype for x in floats.values()))
            given.arguments.update({argument: x.to(widest) for argument, x in floats.items()})
        return function(*given.args, **given.kwargs)

    return call  # type: ignore[return-value]


def as_array(value: Any) -> Any:
    """A list, an array or a tensor as an array of numpy; ArgumentError for rows of several lengths."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"got {shown(value)}; expected an array, all rows of one length.") from None


def _hints(function: Callable) -> dict[str, Any]:
    """Argument -> its annotation, the libraries of arrays in there by name, and what beartype takes for numbers."""
    import numpy as np
    from beartype import BeartypeConf, FrozenDict

    numbers = FrozenDict({int: int | np.integer, float: float | int | np.integer | np.floating, bool: bool | np.bool_})
    conf, hints, names = BeartypeConf(hint_overrides=numbers), {}, inspect.unwrap(function).__globals__
    for argument in inspect.signature(function).parameters.values():
        hint, arrays = argument.annotation, {}
        if hint is argument.empty or argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        with suppress(NameError):  # a name that the module imports for type checkers alone
            hint = eval(hint, names) if isinstance(hint, str) else hint
            if isinstance(hint, TypeVar):
                continue
            for kind in (hint, *get_args(hint)):
                library = getattr(getattr(kind, "array_type", kind), "__name__", "")
                library = "list" if get_origin(kind) in (list, tuple, Sequence, Collection, Iterable) else library
                if library in ("list", "ndarray", "Tensor"):
                    arrays.setdefault(library, kind)
            hints[argument.name] = hint, arrays, conf
    return hints


def _converted(value: Any, kinds: dict[str, Any]) -> Any:
    """A list, array or tensor as one of the kinds, whole numbers as floats where an annotation asks for these.

    One number of numpy becomes Python's.
    """
    name = type(value).__name__
    if getattr(value, "shape", None) == () and name not in ("ndarray", "Tensor", "Parameter"):
        return value.item()
    given = "Tensor" if hasattr(value, "detach") else "list" if name == "tuple" else name
    if not kinds or given not in ("list", "ndarray", "Tensor"):
        return value
    wanted = given if given in kinds else next(iter(kinds))
    if wanted == "list":
        return value if given == "list" or value.ndim != 1 else value.tolist()
    if wanted != given:
        try:
            value = as_array(value)
        except ArgumentError:
            return value
    dtypes = getattr(kinds[wanted], "dtypes", ())
    floats = isinstance(dtypes, tuple) and "float32" in dtypes and "int32" not in dtypes
    if wanted == "ndarray":
        return value.astype(float) if floats and value.dtype.kind in "iu" else value
    import torch

    value = torch.as_tensor(value)
    return value.double() if floats and not value.is_floating_point() and value.dtype != torch.bool else value
