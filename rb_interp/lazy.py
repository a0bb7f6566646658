"""Names that a package finds at first use (PEP 562).

``import rb_interp`` and ``rb-interp --help`` so load no torch, and training loads no TransformerLens.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its names stand once, as the imports that it makes ``if TYPE_CHECKING``.
    """
    module = sys.modules[package]
    block = next(node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If))
    where = {node.names[0].name: node.module for node in block.body if isinstance(node, ast.ImportFrom)}

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'", name=name, obj=module)
        if where[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(str(where[name])), name)

    names = sorted(where)
    return find, lambda: [*names, *(name for name in vars(module) if name.startswith("__"))], names
