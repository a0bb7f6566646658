"""A tiny study has the columns that its pages promise.

Tables without training follow their formulas.
"""

import math

import numpy as np
import pandas as pd
import pytest
from table_columns import check_run

from rb_interp.studies.emb_mlp.measure import errors_over_seeds, lemma_1_reached

pytestmark = pytest.mark.wide


def test_readings_and_tables_have_their_columns(run):
    check_run(run)


def test_statistics_without_training_follow_their_formulas(run):
    widths = pd.DataFrame(
        {
            "gamma": 0.5,
            "d_model": [100, 100, 400, 400],
            "error": [1, 4, 3, 27],
            "size": [2, 2, 3, 9],
        }
    )
    found = errors_over_seeds(widths)
    assert found["mean"].tolist() == pytest.approx([2, 9])  # geometric
    assert found["by_eq_13"].tolist() == pytest.approx([2, 2 * 4**0.5])
    assert found["relative"].tolist() == pytest.approx([1.25, 2])
    low = {16: [0.96, 0.5, 0.96], 64: [0.1, 0.96, 0.97], 256: [0.1, 0.2, 0.94]}
    rows = [
        (g, d, v, 0.05)
        for d, values in low.items()
        for g, v in zip((0.3, 0.5, 0.8), values, strict=True)
    ]
    reached = lemma_1_reached(pd.DataFrame(rows, columns=["gamma", "d_model", "low", "tolerance"]))
    np.testing.assert_equal(reached["gamma"].tolist(), [0.8, 0.5, math.nan])
    table = run.table("label_distributions").query("group == 'memory_anchor'")
    first, second = (
        table[table.token == t].sort_values("label").empirical.to_numpy() - 1 / 80 for t in (1, 2)
    )
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    pairs = run.table("label_cosines").query("group == 'memory_anchor' and labels == 'empirical'")
    assert pairs.query("token == 1 and other == 2").cos.tolist() == pytest.approx([cosine])
    means = run.table("label_cosines_summary").set_index(["group", "labels"])["mean"]
    off = pairs[pairs.token != pairs.other].cos
    assert means["memory_anchor", "empirical"] == pytest.approx(off.mean())
    assert means["memory_anchor", "population"] == pytest.approx(1)
