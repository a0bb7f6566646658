"""The kept runs of results/: every figure draws from them, and their pages show every figure and every verdict."""

from pathlib import Path

import pytest
from report.pages import check_page

from rb_interp.runs.run import Run

pytestmark = pytest.mark.wide

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", ["addition_and_scan_quick", "composite_quick", "composite_map_quick"])
def test_a_kept_run_has_a_whole_page(name, tmp_path):
    run = Run.open(RESULTS / name)
    check_page(run.study, run.evidence, tmp_path)
