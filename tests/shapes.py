"""What checks shapes while testing: beartype, on all functions but those that are made within a call.

A check of such a one would be written anew at each call, 2 ms each, and made the tests half as long again.
"""

from collections.abc import Callable

from beartype import beartype


def checked(function: Callable) -> Callable:
    """The function with its shapes checked, or as it is where another function makes it."""
    return function if "<locals>" in function.__qualname__ else beartype(function)
