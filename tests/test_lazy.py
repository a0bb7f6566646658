"""Public names: found at first use, all of them listed, and known to type checkers."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rb_interp"
LAZY = [path for path in sorted(PACKAGE.rglob("__init__.py")) if "= lazy_package(" in path.read_text()]
TYPED = [path for path in LAZY if path.parent.name != "studies"]
"""A new study is a folder, and no name in general code."""


def package(path):
    return importlib.import_module(".".join(path.relative_to(PACKAGE.parent).parent.parts))


def names_for_checkers(path):
    """Name -> module, of the imports under TYPE_CHECKING; each is of the form that makes a name public."""
    block = next(node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    assert all(alias.asname == alias.name for node in block.body for alias in node.names)
    return {alias.name: node.module for node in block.body for alias in node.names}


@pytest.mark.parametrize("path", TYPED, ids=lambda path: str(path.relative_to(PACKAGE).parent))
def test_names_of_a_package_are_those_that_type_checkers_know(path):
    known, own = names_for_checkers(path), package(path)
    assert sorted(known) == own.__all__
    assert set(own.__all__) <= set(dir(own))
    for name, module in known.items():
        assert getattr(own, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", LAZY, ids=lambda path: str(path.relative_to(PACKAGE).parent))
def test_a_name_that_is_not_there_is_an_attribute_error_that_tells_the_nearest(path):
    own = package(path)
    with pytest.raises(AttributeError, match=f"module '{own.__name__}' has no attribute 'nothing'") as error:
        _ = own.nothing
    assert error.value.obj is own


def public_modules(name="rb_interp"):
    """A package or module, and the public ones inside it; those of a study are its own business."""
    yield name
    module = importlib.import_module(name)
    for found in module.__all__:
        if hasattr(getattr(module, found), "__file__") and name != "rb_interp.studies":
            yield from public_modules(f"{name}.{found}")


PUBLIC = sorted(
    {
        *public_modules(),
        *(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")
          if re.search("^__dir__ = listed", path.read_text(), re.M) and path.stem != "__init__"),
    }
)  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_dir_lists_the_public_names_of_a_module_and_nothing_else(name):
    module = importlib.import_module(name)
    assert [found for found in dir(module) if not found.startswith("__")] == sorted(module.__all__)
    for found in module.__all__:
        inside = getattr(getattr(module, found), "__name__", name)
        assert not hasattr(getattr(module, found), "__file__") or inside == f"{name}.{found}", "no module of others"


def test_packages_are_there_without_another_import():
    code = "import rb_interp as rb\n"
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        name = path.parent.name
        if name not in ("figures", "manifest", "report"):  # parts of the machine; they have no names for users
            code += f"assert rb.{name}.__name__ == 'rb_interp.{name}' and '{name}' in dir(rb)\n"
    code += "assert rb.studies.anchor.ANCHOR.name == 'anchor' and 'anchor' in dir(rb.studies)\n"
    code += "assert rb.models.reference.reference('averager')\nfrom rb_interp import *\nassert AnchorTask\n"
    subprocess.run([sys.executable, "-c", code], check=True)


PACKAGES = sorted(PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.relative_to(PACKAGE).parent))
def test_no_name_of_a_package_hides_a_module(path):
    """Else ``import rb_interp.probes.x as x`` gives a function, and type checkers take the function for a module."""
    own = path.parent
    modules = {found.stem for found in own.glob("*.py")} | {found.parent.name for found in own.glob("*/__init__.py")}
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    inside = ".".join(own.relative_to(PACKAGE.parent).parts)
    names = {alias.asname or alias.name for node in imports if node.module != inside for alias in node.names}
    assert names & modules == set()
