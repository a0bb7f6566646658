"""The API pages list every public name once, and whatever the documents import."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Annotated

import rb_interp

ROOT = Path(__file__).parents[2]
ALIAS = type(Annotated[int, "a bound"]), type(tuple[int, ...])  # types of settings; docs/configuration.md has them
BLOCK = re.compile(r"^\.\. currentmodule:: (\S+)\n\.\. autosummary::\n(?:   :.*\n)+\n((?:   \w+\n)+)", re.M)
IMPORT = re.compile(r"^(?:>>> )?(from rb_interp[\w.]* import (?:\([^)]*\)|.*))", re.M)


def listed() -> dict[str, list[str]]:
    """Package or module -> the names that its section lists."""
    return {name: names.split() for name, names in BLOCK.findall((ROOT / "docs/api.md").read_text("utf-8"))}


def public(package: str) -> set[str]:
    """Functions and classes; modules have sections of their own, and constants have no docstring."""
    module = import_module(package)
    return {name for name in module.__all__ if callable(getattr(module, name))}


def inside(package: str) -> set[str]:
    """Public modules inside a package, and inside those."""
    module = import_module(package)
    within = {
        f"{package}.{name}" for name in getattr(module, "__all__", ()) if hasattr(getattr(module, name), "__file__")
    }
    return within.union(*map(inside, within - {"rb_interp.studies"})) - {"rb_interp.studies"}


def test_each_package_and_module_lists_its_public_names():
    found = listed()
    top = found.pop("rb_interp")
    for package in inside("rb_interp") | set(found):
        above, names = found.get(package.rpartition(".")[0], []), found.get(package, [])
        assert sorted(set(names)) == names, f"{package}: in alphabetical order, each once"
        assert set(names) == public(package) - set(above), f"docs/api.md lists other names than {package}.__all__"
    elsewhere = [getattr(import_module(package), name) for package, names in found.items() for name in names]
    assert len(elsewhere) == len({id(one) for one in elsewhere}), "nothing is listed twice"
    missing = {name for name in public("rb_interp") if not any(getattr(rb_interp, name) is one for one in elsewhere)}
    assert set(top) == missing, "the first section lists the names that no package below has"


def test_what_the_documents_import_is_listed():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/notebooks").glob("*.py")]
    pages += (ROOT / "examples").rglob("*.py")
    known = {id(getattr(import_module(package), name)) for package, names in listed().items() for name in names}
    lines = {line for page in pages for line in IMPORT.findall(page.read_text("utf-8"))}
    assert len(lines) > 30
    for node in (ast.parse(line).body[0] for line in lines):
        assert isinstance(node, ast.ImportFrom)
        for name in (alias.name for alias in node.names if not str(node.module).startswith("rb_interp.studies")):
            found = getattr(import_module(str(node.module)), name)
            assert not callable(found) or isinstance(found, ALIAS) or id(found) in known, (
                f"docs/api.md lacks {node.module}.{name}"
            )
