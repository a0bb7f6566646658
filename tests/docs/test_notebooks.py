"""Each notebook runs from nothing as the script that it is, on the generation that the pages are not built with."""

import runpy
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.py"))


@pytest.mark.skipif(version("transformer-lens").startswith("3."), reason="building the pages runs them")
@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
