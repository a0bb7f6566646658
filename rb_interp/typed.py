"""Arguments of public calls are checked against their annotations, by jaxtyping and beartype."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, get_args

from rb_interp.errors import ArgumentError, ModelError, shown

F = TypeVar("F", bound=Callable)


def typed(function: F) -> F:
    """The same function; of a class, its ``__init__``. ArgumentError for what does not fit an annotation.

    Numpy's numbers count as Python's, whole numbers as decimals, and lists and tensors as arrays.

    >>> @typed
    ... def half(n: int) -> float:
    ...     return n / 2
    >>> half("4")
    Traceback (most recent call last):
    rb_interp.errors.ArgumentError: half got n='4'; expected int.
    """
    if isinstance(function, type):
        function.__init__ = typed(function.__init__)
        return function  # pyright: ignore[reportReturnType] (the class that came)
    signature = inspect.signature(function)
    asker = function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        from beartype import BeartypeConf
        from beartype.door import is_bearable
        from jaxtyping import jaxtyped

        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{asker}: {error}; it takes {', '.join(signature.parameters)}.") from None
        values, conf = given.arguments, BeartypeConf(is_pep484_tower=True)
        with jaxtyped("context"):  # an axis has one size in all arguments
            for name, (hint, array) in _hints(function).items():
                value = values.get(name)
                try:
                    if array and (isinstance(value, list | tuple) or hasattr(value, "detach")):
                        values[name] = as_array(value)
                    elif getattr(value, "shape", None) == () and not hasattr(value, "detach"):
                        values[name] = value.item()  # type: ignore[union-attr] (a number of numpy's)
                    if name in values and not is_bearable(values[name], hint, conf=conf):
                        said = re.sub(r"\b(\w+\.)+", "", inspect.formatannotation(hint))
                        raise ArgumentError(f"got {name}={shown(value)}; expected {said}.")
                except (ArgumentError, ModelError) as error:  # a model says itself what it misses
                    raise type(error)(f"{asker} {error}") from None
        return function(*given.args, **given.kwargs)

    return call  # type: ignore[return-value]


@cache
def _hints(function: Callable) -> dict[str, tuple[Any, bool]]:
    """Argument -> its annotation, and whether it is an array."""
    import numpy as np

    names, hints = dict(inspect.unwrap(function).__globals__), {}
    for one in inspect.signature(function).parameters.values():
        hint = function.__annotations__.get(one.name)  # a probe's own arguments are checked by themselves
        if hint is None or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        try:
            hint = eval(hint, names) if isinstance(hint, str) else hint
        except NameError:  # a name that the module imports for type checkers alone
            source = ast.parse(inspect.getsource(sys.modules[function.__module__]))
            imports = next(node.body for node in source.body if isinstance(node, ast.If))
            exec(compile(ast.Module(imports, []), "", "exec"), names)
            hint = eval(hint, names)
        hints[one.name] = hint, np.ndarray in [getattr(kind, "array_type", kind) for kind in (hint, *get_args(hint))]
    return hints


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
