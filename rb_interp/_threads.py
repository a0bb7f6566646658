"""How many threads torch and numpy use in a probe or an intervention.

One, unless the caller asks for more. A small model gains nothing from a second thread. Two threads
that wait for each other on a busy machine cost much: numpy's products and decompositions of a
200 x 64 matrix take 10 to 300 times longer there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_n_threads: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """A context in which torch, numpy, and each probe and intervention, use n threads; the caller's
    numbers come back.

    Use it around the calls on a large model. Numpy's number is that of the whole process: with
    contexts in several threads of one's own, the first of them sets it.

    >>> import torch
    >>> with threads(2):
    ...     torch.get_num_threads()
    2
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    token = _n_threads.set(n)
    try:
        with _libraries().limit(limits=n):
            yield
    finally:
        torch.set_num_threads(before)
        _n_threads.reset(token)


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """The same function with one thread, or as many as the context ``threads(n)`` around the call
    allows."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threads(_n_threads.get()):
            return function(*args, **kwargs)

    return limited


@cache
def _libraries() -> Any:
    import numpy  # noqa: F401  (its BLAS has to be there when libraries are looked for)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
