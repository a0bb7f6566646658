"""Notebooks run from nothing as the scripts that they are, on the generation that the pages are not built with.

Not the one of a study: golden tests train and probe one there.
"""

import runpy
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path for path in (ROOT / "docs/notebooks").glob("*.py") if path.stem != "study")


@pytest.mark.skipif(version("transformer-lens").startswith("3."), reason="building the pages runs them")
@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
