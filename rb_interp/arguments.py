"""Arguments of public calls, checked against their annotations by jaxtyping and beartype."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, wraps
from typing import Any, TypeVar, get_args, get_origin

from rb_interp.errors import ArgumentError, ModelError, shown

F = TypeVar("F", bound=Callable)


def checked(function: F) -> F:
    """The same function; of a class, its ``__init__``. ArgumentError for what does not fit an
    annotation.

    Numpy's numbers count as Python's, whole numbers as decimals. A list, an array or a tensor
    becomes the one of these that the annotation says.

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
    asker = function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        from beartype import BeartypeConf
        from beartype.door import is_bearable
        from jaxtyping import jaxtyped

        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"{asker}: {error}; it takes {', '.join(signature.parameters)}."
            ) from None
        values, floats, conf = given.arguments, [], BeartypeConf(is_pep484_tower=True)
        with jaxtyped("context"):  # an axis has one size in all arguments
            for name, (hint, kinds) in _hints(function).items():
                if name not in values:
                    continue
                try:
                    sized = (
                        kinds
                        and hasattr(values[name], "__len__")
                        and not isinstance(values[name], str)
                    )
                    if kinds.get(type(values[name]), sized or hasattr(values[name], "item")):
                        values[name] = _converted(values[name], kinds)
                    if hasattr(values[name], "numel") and values[name].is_floating_point():
                        floats.append(name)
                    mask = isinstance(values[name], bool | list | tuple) and _is_mask(
                        values[name], hint
                    )
                    if mask or not is_bearable(values[name], hint, conf=conf):
                        said = re.sub(r"\b(\w+\.)+", "", inspect.formatannotation(hint))
                        raise ArgumentError(f"got {name}={shown(values[name])}; expected {said}.")
                except (ArgumentError, ModelError) as error:  # a model says itself what it misses
                    raise type(error)(f"{asker} {error}") from None
        if len(floats) > 1:  # tensors of one call have the widest of their types
            widest = max((values[name].dtype for name in floats), key=lambda dtype: dtype.itemsize)
            values.update({name: values[name].to(widest) for name in floats})
        return function(*given.args, **given.kwargs)

    return call  # type: ignore[return-value]


@cache
def _hints(function: Callable) -> dict[str, tuple[Any, dict[type, bool]]]:
    """Argument -> its annotation, and the classes of arrays in it, True for one of floats."""
    from jaxtyping import Float

    names, hints = dict(inspect.unwrap(function).__globals__), {}
    for one in inspect.signature(function).parameters.values():
        hint, kinds = (
            function.__annotations__.get(one.name),
            {},
        )  # a probe checks its own arguments by itself
        if hint is None or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        try:
            hint = eval(hint, names) if isinstance(hint, str) else hint
        except NameError:  # a name that the module imports for type checkers alone
            source = ast.parse(inspect.getsource(sys.modules[function.__module__]))
            imports = next(node.body for node in source.body if isinstance(node, ast.If))
            exec(compile(ast.Module(imports, []), "", "exec"), names)
            hint = eval(hint, names)
        for kind in (hint, *get_args(hint)):
            sequence = get_origin(kind) in (list, tuple, Sequence, Collection, Iterable)
            array = list if sequence else getattr(kind, "array_type", kind)
            if getattr(array, "__name__", "") in ("list", "ndarray", "Tensor"):
                kinds.setdefault(array, getattr(kind, "dtypes", None) == getattr(Float, "dtypes"))  # noqa: B009
        hints[one.name] = hint, kinds
    return hints


def _is_mask(value: Any, hint: Any) -> bool:
    """Whether True or False stands where whole numbers are asked for; Python takes them for 1 and
    0."""
    wanted = {hint, *get_args(hint)} if type(value) is bool or bool in map(type, value) else set()
    return bool not in wanted and bool(
        wanted & {int, Sequence[int], Iterable[int], Collection[int]}
    )


def _converted(value: Any, kinds: dict[type, bool]) -> Any:
    """A list, array or tensor as one of the kinds, whole numbers as floats where an annotation asks
    for these."""
    if getattr(value, "shape", None) == () and not hasattr(value, "detach"):
        return value.item()  # a number of numpy's
    tensor = hasattr(value, "detach")
    given = list if type(value) is tuple else sys.modules["torch"].Tensor if tensor else type(value)
    if not kinds or not (given is list or hasattr(value, "detach") or given.__name__ == "ndarray"):
        return value
    wanted = given if given in kinds else next(iter(kinds))
    if wanted is list:
        return value if isinstance(value, list | tuple) or value.ndim != 1 else value.tolist()
    value = value if issubclass(given, wanted) else as_array(value)
    if kinds[wanted] and "int" in str(value.dtype):
        value = value.double() if hasattr(value, "detach") else value.astype(float)
    return (
        value if isinstance(value, wanted) else sys.modules["torch"].as_tensor(value)
    )  # an annotation loaded it


def as_array(value: Any) -> Any:
    """A list, an array or a tensor as an array of numpy; ArgumentError for rows of several
    lengths."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(
            f"got {shown(value)}; expected an array, all rows of one length."
        ) from None
