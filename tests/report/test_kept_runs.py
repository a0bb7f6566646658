"""A kept run of results/ is drawn with what it has: its page shows every figure and every
verdict."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report.pages import check_addresses, check_page

from rb_interp.runs.results import summary_table
from rb_interp.runs.run import Run

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.wide
@pytest.mark.parametrize("folder", ["composite_map_quick", "language_quick"])
def test_a_kept_run_has_a_whole_page(folder):
    run = Run.open(RESULTS / folder)
    check_page(run.study, run.evidence)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("folder", "claims"),
    [
        ("anchor_paper_200k", {"A1", "A4", "E2", "E4", "M1", "M3", "M4", "M5", "M7", "M7b", "M8"}),
        ("composite_quick", {"C1", "C2", "F1", "F3", "F8", "D1", "D2", "D4", "K1", "K5"}),
    ],
)
def test_figures_and_tables_beside_a_claim_show_its_number(folder, claims):
    """Whatever was read of the last layer was read of one more, with other values; the tests of
    studies have it in two layers."""
    run = Run.open(RESULTS / folder)
    evidence = run.evidence
    kept = summary_table(evidence.readings)
    np.testing.assert_allclose(kept["median"], evidence.summary["median"], rtol=1e-12)
    last = evidence.readings[evidence.readings["layer"] == 1]
    deeper = last.assign(layer=2.0, value=last["value"] + 7)
    readings = pd.concat([evidence.readings, deeper], ignore_index=True)
    evidence = replace(evidence, readings=readings, summary=summary_table(readings), whole=None)
    assert claims <= check_addresses(run.study, evidence)
