"""The API pages list every public name once."""

import re
from importlib import import_module
from pathlib import Path

import rb_interp

PAGE = Path(__file__).parents[2] / "docs/api.md"
BLOCK = re.compile(r"^\.\. currentmodule:: (\S+)\n\.\. autosummary::\n(?:   :.*\n)+\n((?:   \w+\n)+)", re.M)


def listed() -> dict[str, list[str]]:
    """Package -> the names that its section lists."""
    return {package: names.split() for package, names in BLOCK.findall(PAGE.read_text("utf-8"))}


def public(package: str) -> set[str]:
    """Functions and classes; modules have pages of their own, and constants have no docstring."""
    module = import_module(package)
    return {name for name in module.__all__ if callable(getattr(module, name))}


def test_each_package_lists_its_public_names():
    found = listed()
    top = found.pop("rb_interp")
    assert set(found) >= {"rb_interp.probes", "rb_interp.interventions", "rb_interp.machine"}
    for package, names in found.items():
        assert sorted(set(names)) == names, f"{package}: in alphabetical order, each once"
        assert set(names) == public(package), f"docs/api.md lists other names than {package}.__all__"
    elsewhere = [getattr(import_module(package), name) for package, names in found.items() for name in names]
    missing = {name for name in public("rb_interp") if not any(getattr(rb_interp, name) is one for one in elsewhere)}
    assert set(top) == missing, "the first section lists the names that no package below has"
