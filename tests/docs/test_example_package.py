"""A study from another package is found by its entry point and runs whole."""

import sys
from pathlib import Path

import pytest
from own_studies import plugin

from rb_interp.runs import studies
from rb_interp.runs.config import study_names

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

EXAMPLE = Path(__file__).parents[2] / "examples/modular_addition"


@pytest.mark.wide
def test_the_example_runs_by_the_entry_point_that_it_declares(tmp_path, monkeypatch):
    """CI installs the other example with pip, and runs it by its command."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"]["rb_interp.studies"].items()
    plugin(tmp_path, "example", value, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    assert name in study_names()
    run = studies.study(name).run(preset="smoke", out=tmp_path / "run", progress=False)
    found = [
        (verdict.id, verdict.outcome, verdict.n_seeds, verdict.reason) for verdict in run.verdicts
    ]
    assert found == [(f"MA{i}", "OPEN", 2, "seeds: 2, needed: 8") for i in (1, 2, 3)]
    page = run.report.read_text()
    assert "Modular addition: is the rule learned before its exceptions?" in page
    assert "This run has no" not in page
