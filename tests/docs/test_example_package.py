"""A study from another package is found by its entry point, runs whole, and a broken one is told in
one sentence."""

import sys
from pathlib import Path

import pytest

from rb_interp.runs import studies
from rb_interp.runs.config import study_names

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

EXAMPLE = Path(__file__).parents[2] / "examples/modular_addition"


def plugin(folder: Path, name: str, value: str, study: str = "") -> None:
    """A distribution that is installed in a folder, with one study, by default called after it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[rb_interp.studies]\n{study or f'{name}-study'} = {value}\n"
    )


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


def test_a_plugin_that_does_not_load_is_one_sentence_and_stops_no_other(tmp_path, monkeypatch):
    plugin(tmp_path, "broken", "no_such_package.anywhere:STUDY")
    plugin(tmp_path, "leaving", "leaving_study:STUDY")
    (tmp_path / "leaving_study.py").write_text("import sys\nsys.exit('needs a GPU')\n")
    plugin(tmp_path, "fine", "fine_study:STUDY")
    (tmp_path / "fine_study.py").write_text(
        "from rb_interp.runs import Study\n"
        "STUDY = Study('fine-study', 'Fine', 'Is it?', {}, config='a:b', measure='a:b')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = studies.installed_studies()
    assert found["fine-study"] is studies.study("fine-study")
    told = "study 'broken-study' of the distribution 'broken' does not load (ModuleNotFoundError: No module named "
    assert str(found["broken-study"]) == f"{told}'no_such_package'); mend or uninstall it."
    assert "'leaving' does not load (SystemExit: needs a GPU)" in str(found["leaving-study"])
