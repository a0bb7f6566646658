"""A kept run of results/ is drawn with what it has: its page shows every figure and every
verdict."""

from pathlib import Path

import pytest
from report.pages import check_page

from rb_interp.runs.run import Run


@pytest.mark.wide
def test_a_kept_run_has_a_whole_page():
    run = Run.open(Path(__file__).parents[2] / "results/composite_map_quick")
    check_page(run.study, run.evidence)
