"""Arguments of public calls are checked against their annotations, by jaxtyping and beartype."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial, wraps
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
        function.__init__ = typed(function.__init__)
        return function  # pyright: ignore[reportReturnType] (the class that came)
    signature = inspect.signature(function)
    name = function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        from jaxtyping import jaxtyped

        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            known = [one for one in signature.parameters if one != "self"]
            said = f" has no argument {unknown[1]}=; {nearest(unknown[1], known)}" if unknown else f": {error}."
            raise ArgumentError(name + said) from None
        values = given.arguments
        with jaxtyped("context"):  # an axis has one size in all arguments
            for argument, (hint, arrays, fits) in _hints(function).items():
                if argument not in values:
                    continue
                try:
                    if arrays or hasattr(values[argument], "item"):
                        values[argument] = _converted(values[argument], arrays)
                    if not fits(values[argument]):
                        literal = " or ".join(map(repr, get_args(hint))) if get_origin(hint) is Literal else ""
                        said = literal or re.sub(r"\b(\w+\.)+", "", inspect.formatannotation(hint))
                        raise ArgumentError(f"got {argument}={shown(values[argument])}; expected {said}.")
                except (ArgumentError, ModelError) as error:  # a model says itself what it misses
                    raise type(error)(f"{name} {error}") from None
        floats = {argument: x for argument, x in values.items() if hasattr(x, "numel") and x.is_floating_point()}
        if len(floats) > 1:  # tensors of one call have the widest of their types
            widest = max((x.dtype for x in floats.values()), key=lambda dtype: dtype.itemsize)
            values.update({argument: x.to(widest) for argument, x in floats.items()})
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


@cache
def _hints(function: Callable) -> dict[str, tuple[Any, dict[type, bool], Callable[[Any], bool]]]:
    """Argument -> its annotation; the classes of arrays in it, True for one of floats; whether a value fits."""
    import numpy as np
    from beartype import BeartypeConf, FrozenDict
    from beartype.door import is_bearable
    from jaxtyping import Float

    numbers = FrozenDict({int: int | np.integer, float: float | int | np.integer | np.floating, bool: bool | np.bool_})
    conf, hints, names = BeartypeConf(hint_overrides=numbers), {}, dict(inspect.unwrap(function).__globals__)
    for argument in inspect.signature(function).parameters.values():
        hint, arrays = argument.annotation, {}
        if hint is argument.empty or argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        if isinstance(hint, str):
            try:
                hint = eval(hint, names)
            except NameError:  # a name that the module imports for type checkers alone
                source = ast.parse(inspect.getsource(sys.modules[function.__module__]))
                imports = next(node.body for node in source.body if isinstance(node, ast.If))
                exec(compile(ast.Module(imports, []), "", "exec"), names)
                hint = eval(hint, names)
        hint = getattr(hint, "__bound__", hint)
        for kind in (hint, *get_args(hint)):
            sequence = get_origin(kind) in (list, tuple, Sequence, Collection, Iterable)
            array = list if sequence else getattr(kind, "array_type", kind)
            if getattr(array, "__name__", "") in ("list", "ndarray", "Tensor"):
                arrays.setdefault(array, getattr(kind, "dtypes", None) == getattr(Float, "dtypes"))  # noqa: B009
        hints[argument.name] = hint, arrays, partial(is_bearable, hint=hint, conf=conf)
    return hints


def _converted(value: Any, kinds: dict[type, bool]) -> Any:
    """A list, array or tensor as one of the kinds, whole numbers as floats where an annotation asks for these.

    One number of numpy becomes Python's.
    """
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    given = list if type(value) is tuple else type(value)
    if not kinds or not (issubclass(given, list | np.ndarray) or hasattr(value, "detach")):
        return value
    wanted = next((kind for kind in kinds if issubclass(given, kind)), next(iter(kinds)))
    if wanted is list:
        return value if isinstance(value, list | tuple) or value.ndim != 1 else value.tolist()
    value = value if issubclass(given, wanted) else as_array(value)
    if kinds[wanted] and "int" in str(value.dtype):
        value = value.astype(float) if isinstance(value, np.ndarray) else value.double()
    return value if isinstance(value, wanted) else sys.modules["torch"].as_tensor(value)  # an annotation has loaded it
