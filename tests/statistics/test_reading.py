"""A reading's table and what a notebook shows of it; p-values by hand."""

import numpy as np
import pytest

from rb_interp.errors import ArgumentError
from rb_interp.probes import Null, Reading

READING = Reading(
    "uniformity",
    {"tv": 0.2, "entropy": 0.9},
    0,
    1,
    {"tv": 0.5},
    {"tv": Null("a < b", np.array([0.1, 0.3]), "less")},
    n=7,
)
COLUMNS = [
    "probe",
    "layer",
    "head",
    "quantity",
    "value",
    "untrained",
    "null",
    "null_mean",
    "null_sd",
    "p_value",
    "n",
]


def test_the_table_has_one_row_per_quantity():
    table = READING.to_frame()
    assert table.columns.tolist() == [*COLUMNS, "note"]
    assert [*READING.rows()[0]] == COLUMNS  # what a run keeps
    assert table["quantity"].tolist() == ["tv", "entropy"]
    row = table.iloc[0]
    assert (row["untrained"], row["null_mean"], row["p_value"], row["n"]) == (0.5, 0.2, 2 / 3, 7)
    assert table.iloc[1][["untrained", "null_mean", "p_value"]].isna().all()


def test_a_sum_of_the_same_numbers_in_another_order_counts_as_extreme():
    two, one = 0.1 + (0.2 + 0.3), (0.1 + 0.2) + 0.3
    assert one > two
    assert Null("reordered", np.array([two])).p_value(one) == 1
    assert Null("reordered", np.array([one]), "less").p_value(two) == 1


@pytest.mark.parametrize(("side", "p"), [("greater", 5 / 6), ("less", 4 / 6)])
def test_draws_that_equal_the_value_count_as_extreme(side, p):
    null = Null("drawn", np.array([3.0, 1.0, 4.0, 2.0, 2.0]), side)
    assert null.p_value(2.0) == p
    assert Reading("a", {"x": 2.0}, nulls={"x": null}).to_frame().p_value[0] == p
    assert np.isnan(null.p_value(np.nan))
    endless = Null("drawn", np.array([1.0, np.inf]), side)
    assert endless.p_value(np.inf) == (2 / 3 if side == "greater" else 1)
    assert np.isnan(Null("drawn", np.array([1.0, np.nan]), side).p_value(0.0))


def test_the_mean_pattern_is_a_heat_map():
    pattern = np.array([[1.0, 0.0], [0.25, 0.75]])
    ax = Reading("uniformity", {"tv": 0.2}, arrays={"mean_pattern": pattern}).plot(
        quantity="mean_pattern"
    )
    drawn = ax.images[0].get_array()
    np.testing.assert_array_equal(drawn.filled(np.nan), [[1.0, np.nan], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("quantity", "hint"), [("probabilty", "did you mean 'probability'"), ("mean_pattern", "known")]
)
def test_a_quantity_that_a_reading_has_not_is_no_empty_figure(quantity, hint):
    reading = Reading("logit_lens", {"resid_pre.0:rank": 3.0, "resid_pre.0:probability": 0.1})
    with pytest.raises(ArgumentError, match=f"plot got quantity='{quantity}'; {hint}"):
        reading.plot(quantity=quantity)
