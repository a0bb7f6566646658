"""Public names: found at first use where they load torch, all of them listed, and known to type checkers."""

import subprocess
import sys
from pathlib import Path

import pytest

import rb_interp as rb

PACKAGE = Path(__file__).parents[1] / "rb_interp"
PUBLIC = [rb, *(getattr(rb, name) for name in rb.__all__ if hasattr(getattr(rb, name), "__path__"))]


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_another_one_is_an_attribute_error(package):
    for name in getattr(package, "__all__", ()):
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'") as error:
        _ = package.nothing
    assert error.value.obj is package


@pytest.mark.parametrize("package", [rb, rb.models, rb.runs, rb.training], ids=lambda package: package.__name__)
def test_dir_lists_the_public_names_and_nothing_else(package):
    assert [name for name in dir(package) if not name.startswith("__")] == sorted(package.__all__)


def test_packages_are_there_without_another_import():
    code = "import sys\nimport rb_interp as rb\n"
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        name = path.parent.name
        if name not in ("figures", "report"):  # parts of the machine; they have no names for users
            code += f"assert rb.{name}.__name__ == 'rb_interp.{name}' and '{name}' in dir(rb)\n"
    code += "assert rb.models.reference.reference('averager')\nfrom rb_interp import *\nassert AnchorTask\n"
    subprocess.run([sys.executable, "-c", code], check=True)
