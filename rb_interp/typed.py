"""What public calls share: arguments checked against annotations by jaxtyping and beartype, and few threads.

A probe or an intervention uses one thread, unless the caller asks for more. A small model gains nothing from a second
thread. Two threads that wait for each other on a busy machine cost much: numpy's products and decompositions of a
200 x 64 matrix take 10 to 300 times longer there.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from rb_interp.errors import ArgumentError, ModelError, shown

F = TypeVar("F", bound=Callable)
P = ParamSpec("P")
R = TypeVar("R")
_wanted: ContextVar[int] = ContextVar("threads", default=1)


def typed(function: F) -> F:
    """The same function; of a class, its ``__init__``. ArgumentError for what does not fit an annotation.

    Numpy's numbers count as Python's, whole numbers as decimals. A list, an array or a tensor becomes the one of these
    that the annotation says.

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
        values, floats, conf = given.arguments, [], BeartypeConf(is_pep484_tower=True)
        with jaxtyped("context"):  # an axis has one size in all arguments
            for name, (hint, kinds) in _hints(function).items():
                if name not in values:
                    continue
                try:
                    sized = kinds and hasattr(values[name], "__len__") and not isinstance(values[name], str)
                    if kinds.get(type(values[name]), sized or hasattr(values[name], "item")):
                        values[name] = _converted(values[name], kinds)
                    if hasattr(values[name], "numel") and values[name].is_floating_point():
                        floats.append(name)
                    mask = isinstance(values[name], bool | list | tuple) and _is_mask(values[name], hint)
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
        hint, kinds = function.__annotations__.get(one.name), {}  # a probe checks its own arguments by itself
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
    """Whether True or False stands where whole numbers are asked for; Python takes them for 1 and 0."""
    wanted = {hint, *get_args(hint)} if type(value) is bool or bool in map(type, value) else set()
    return bool not in wanted and bool(wanted & {int, Sequence[int], Iterable[int], Collection[int]})


def _converted(value: Any, kinds: dict[type, bool]) -> Any:
    """A list, array or tensor as one of the kinds, whole numbers as floats where an annotation asks for these."""
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
    return value if isinstance(value, wanted) else sys.modules["torch"].as_tensor(value)  # an annotation loaded it


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


@contextmanager
def threads(n: int) -> Iterator[None]:
    """A context in which torch, numpy, and each probe and intervention, use n threads; the caller's numbers come back.

    Use it around the calls on a large model. Numpy's number is that of the whole process: with contexts in several
    threads of one's own, the first of them sets it.

    >>> import torch
    >>> with threads(2):
    ...     torch.get_num_threads()
    2
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    token = _wanted.set(n)
    try:
        with _libraries().limit(limits=n):
            yield
    finally:
        torch.set_num_threads(before)
        _wanted.reset(token)


def few_threads(function: Callable[P, R]) -> Callable[P, R]:
    """The same function with one thread, or as many as the context ``threads(n)`` around the call allows."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threads(_wanted.get()):
            return function(*args, **kwargs)

    return limited


@cache
def _libraries() -> Any:
    import numpy  # noqa: F401  (its BLAS has to be there when libraries are looked for)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
