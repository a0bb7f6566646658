"""What checks shapes while testing: jaxtyping and beartype, on annotations that name a shape.

jaxtyping's own hook checks every function and its parameters twice, and it writes the check of one
that is made within a call anew at each call. That made the tests half as long again.
"""

import ast
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import isgeneratorfunction
from types import CodeType

from beartype import beartype
from jaxtyping import jaxtyped

KINDS = ("Bool[", "Float[", "Int[", "Shaped[")


def checked(function: Callable) -> Callable:
    """The function with the shapes of its arguments and its result checked, or a generator as it
    is."""
    if isgeneratorfunction(function):  # its arguments would be checked within its caller's sizes
        return function
    words = function.__annotations__
    function.__annotations__ = {
        name: word for name, word in words.items() if _names_a_shape(str(word))
    }
    by_argument = any("{" in str(word) for word in words.values())  # an axis that an argument gives
    wrap = partial(jaxtyped, typechecker=None) if by_argument else _in_context
    found = wrap(beartype(function))
    function.__annotations__ = found.__annotations__ = words
    return found


def _in_context(function: Callable) -> Callable:
    """The function with sizes of its own, without binding its arguments at each call."""

    @wraps(function)
    def in_context(*args: object, **options: object) -> object:
        with jaxtyped("context"):
            return function(*args, **options)

    return in_context


def _names_a_shape(words: str) -> bool:
    return any(kind in words for kind in KINDS)


def _decorator(words: str, node: ast.AST) -> ast.AST:
    return ast.copy_location(ast.parse(words, mode="eval").body, node)


class _Decorated(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if _names_a_shape(ast.unparse(node.args) + ast.unparse(node.returns or ast.Constant(None))):
            node.decorator_list.append(_decorator("__import__('shapes').checked", node))
        return node  # functions that are made within it stay as they are

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        fields = [
            ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)
        ]
        if _names_a_shape(" ".join(fields)):
            words = "__import__('jaxtyping').jaxtyped(typechecker=__import__('beartype').beartype)"
            node.decorator_list.insert(0, _decorator(words, node))
        return self.generic_visit(node)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = _Decorated().visit(ast.parse(self.get_data(self.path)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class Finder:
    """Stands first in ``sys.meta_path`` and loads the modules of these names with checks."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = {*modules}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in self.modules else None
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
