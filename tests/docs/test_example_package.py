"""A study from another package is found by its entry point, runs whole, and a broken one is told in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rb_interp.runs import protocol

pytestmark = pytest.mark.wide

ROOT = Path(__file__).parents[2]
RUN = """
import json, sys
from rb_interp.runs.protocol import names, study
found = study("modular-addition")
loaded = sorted(name for name in sys.modules if name.startswith("rb_interp.studies."))
run = found.run(preset="smoke", out="run", progress=False)
verdicts = run.verdicts.to_frame()[["id", "outcome", "n_seeds", "reason"]].values.tolist()
after = sorted(name for name in sys.modules if name.startswith("rb_interp.studies."))
print(json.dumps({"names": names(), "loaded": loaded, "after": after, "verdicts": verdicts}))
"""


def plugin(folder: Path, name: str, value: str, study: str = "") -> None:
    """A distribution that is installed in a folder, with one study, by default called after it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[rb_interp.studies]\n{study or f'{name}-study'} = {value}\n")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The example, installed by pip into a folder of its own, from a copy."""
    place = tmp_path_factory.mktemp("example")
    copy = place / "source"
    for path in (ROOT / "examples/modular_addition").rglob("*.*"):
        if path.suffix in (".py", ".toml", ".md", ".jinja"):
            (copy / path.relative_to(ROOT / "examples/modular_addition")).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(ROOT / "examples/modular_addition")).write_bytes(path.read_bytes())
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(place / "target")]
    done = subprocess.run([sys.executable, "-m", "pip", "install", *options, str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / "target"


def test_the_example_runs_from_another_folder_and_imports_no_other_study(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert "modular-addition" in told["names"]
    assert told["loaded"] == told["after"] == []
    assert told["verdicts"] == [[f"MA{i}", "OPEN", 2, "seeds: 2, needed: 8"] for i in (1, 2, 3)]
    page = (tmp_path / "run/report.html").read_text()
    for text in ("Modular addition: is the rule learned before its exceptions?", "Order, circles and attention", "MA3"):
        assert text in page
    drawn = (tmp_path / "run/figures/modular_addition.svg").read_text()
    assert "This run has no" not in page
    assert drawn.count("<path") > 50  # three panels with dots, not a sentence


def test_a_plugin_that_does_not_load_is_one_sentence_and_stops_no_other(tmp_path, monkeypatch):
    plugin(tmp_path, "broken", "no_such_package.anywhere:STUDY")
    plugin(tmp_path, "leaving", "leaving_study:STUDY")
    (tmp_path / "leaving_study.py").write_text("import sys\nsys.exit('needs a GPU')\n")
    plugin(tmp_path, "fine", "fine_study:STUDY")
    (tmp_path / "fine_study.py").write_text(
        "from rb_interp.runs.protocol import Study\n"
        "STUDY = Study('fine-study', 'Fine', 'Is it?', {}, config='a:b', measure='a:b')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = protocol.installed_studies()
    assert found["fine-study"] is protocol.study("fine-study")
    told = "study 'broken-study' of the distribution 'broken' does not load (ModuleNotFoundError: No module named "
    assert str(found["broken-study"]) == f"{told}'no_such_package'); mend or uninstall it."
    assert "'leaving' does not load (SystemExit: needs a GPU)" in str(found["leaving-study"])
    with pytest.raises(protocol.StudyError, match="of the distribution 'broken' does not load"):
        protocol.study("broken-study")
