"""Public names: they import their module at first use, so that importing a package stays cheap, and alone are listed.

A package writes each name twice: in the mapping that `lazy_package` takes, and as an import under ``TYPE_CHECKING``,
which is all that a type checker sees. A test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple


class LazyPackage(NamedTuple):
    """The ``__getattr__`` and ``__dir__`` of a package (PEP 562), and its ``__all__``."""

    find: Callable[[str], Any]
    listed: Callable[[], list[str]]
    names: list[str]


def lazy_package(package: str, names_of: Mapping[str, Sequence[str]], modules: Sequence[str] = ()) -> LazyPackage:
    """What a package needs whose names are found in its modules, at first use.

    Args:
        package: its ``__name__``. names_of: module inside it -> the public names that are found there.
        modules: modules and packages inside it that are public names themselves.
    """
    where = {name: module for module, found in names_of.items() for name in found}
    inside = set(modules)
    names = sorted(inside.union(where))

    def find(name: str) -> Any:
        if name in inside:
            return import_module(f"{package}.{name}")
        if name not in where:
            reason = f"module '{package}' has no attribute '{name}'"
            raise AttributeError(reason, name=name, obj=sys.modules[package])
        return getattr(import_module(f"{package}.{where[name]}"), name)

    return LazyPackage(find, listed(package), names)


def listed(module: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module: the names of its ``__all__``, and no name that it imports for itself.

    Args:
        module: its ``__name__``.
    """

    def names() -> list[str]:
        found = vars(sys.modules[module])
        own = (name for name in found if name.startswith("__") and name.endswith("__"))
        return sorted({*found["__all__"], *own})

    return names
