"""The API page, which is made from the public names, lists whatever the documents import."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Annotated

ROOT = Path(__file__).parents[2]
ALIAS = (
    type(Annotated[int, "a bound"]),
    type(tuple[int, ...]),
)  # types of settings; docs/configuration.md has them
BLOCK = re.compile(
    r"^\.\. currentmodule:: (\S+)\n\.\. autosummary::\n(?:   :.*\n)+\n((?:   \w+\n)+)", re.M
)
IMPORT = re.compile(r"^(?:>>> )?(from rb_interp[\w.]* import (?:\([^)]*\)|.*))", re.M)


def listed() -> dict[str, list[str]]:
    """Package or module -> the names that its section lists."""
    return {
        name: names.split()
        for name, names in BLOCK.findall((ROOT / "docs/api.md").read_text("utf-8"))
    }


def test_what_the_documents_import_is_listed():
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/notebooks").glob("*.py"),
    ]
    pages += (ROOT / "examples").rglob("*.py")
    known = {
        id(getattr(import_module(package), name))
        for package, names in listed().items()
        for name in names
    }
    lines = {line for page in pages for line in IMPORT.findall(page.read_text("utf-8"))}
    assert len(lines) > 30
    for node in (ast.parse(line).body[0] for line in lines):
        assert isinstance(node, ast.ImportFrom)
        for name in (
            alias.name
            for alias in node.names
            if not str(node.module).startswith("rb_interp.studies")
        ):
            found = getattr(import_module(str(node.module)), name)
            assert not callable(found) or isinstance(found, ALIAS) or id(found) in known, (
                f"docs/api.md lacks {node.module}.{name}"
            )
