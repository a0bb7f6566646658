"""How many threads torch uses: one in every probe and intervention, unless the caller asks for more.

A small model gains nothing from a second thread. Two threads that wait for each other on a busy machine cost much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")
_wanted: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """A context in which torch, and each probe and intervention, uses n threads; the caller's number comes back.

    Use it around the calls on a large model.

    >>> with threads(2):
    ...     torch.get_num_threads()
    2
    """
    before, token = torch.get_num_threads(), _wanted.set(n)
    torch.set_num_threads(n)
    try:
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
