"""Claims of the installed studies are about what their study reads."""

from pathlib import Path

import pandas as pd
import pytest

from rb_interp.runs.config import names, study

ROOT = Path(__file__).parents[2]
KEPT = {"composite": "composite_quick", "composite-map": "composite_map_quick"}
"""Study -> its kept run, whose readings are those of more than the preset ``smoke``."""
LARGER = {
    "anchor": {("uniformity", "tv_change_eps_1e-12"), ("uniformity", "tv_change_eps_1.01e-8")},
    "composite": {("phase_by_complexity", "auc")},
    "composite-map": {("map", "order"), ("map", "fit_rise")},
}
"""Study -> what its claims ask for that those readings lack: it needs more rates or seeds; nothing
reads U4 yet."""


@pytest.mark.parametrize("name", names())
def test_every_term_of_a_claim_is_a_quantity_that_the_study_reads(name):
    """A misspelt one is seen here, and not after all training, as a claim that is NOT JUDGED."""
    asked = study(name)
    tables = [ROOT / f"tests/golden/smoke_{name}.parquet"]
    tables += [ROOT / "results" / KEPT[name] / "readings.parquet"] if name in KEPT else []
    read = set().union(
        *(pd.read_parquet(table).groupby(["probe", "quantity"]).groups for table in tables)
    )
    claims = [*asked.load("claims"), *(check.check for check in asked.load("checks"))]
    terms = {
        (term.probe, term.quantity) for claim in claims for term in (*claim.terms, *claim.context)
    }
    assert terms - read == LARGER.get(name, set())
