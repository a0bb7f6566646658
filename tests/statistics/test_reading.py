"""A reading's table and what a notebook shows of it; p-values by hand."""

from dataclasses import replace

import numpy as np
import pytest

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
COLUMNS = ["probe", "layer", "head", "quantity", "value", "untrained", "null", "null_mean", "null_sd", "p_value", "n"]


def test_the_table_has_one_row_per_quantity():
    table = READING.to_frame()
    assert table.columns.tolist() == [*COLUMNS, "note"]
    assert [*READING.rows()[0]] == COLUMNS  # what a run keeps
    assert table["quantity"].tolist() == ["tv", "entropy"]
    row = table.iloc[0]
    assert (row["untrained"], row["null_mean"], row["p_value"], row["n"]) == (0.5, 0.2, 2 / 3, 7)
    assert table.iloc[1][["untrained", "null_mean", "p_value"]].isna().all()


def test_a_notebook_shows_caption_and_table():
    html = READING._repr_html_()
    assert html.startswith("<p>uniformity, L0, head 1, n = 7</p>")
    assert "a &lt; b" in html
    assert html.count("<tr") == 3


def test_print_shows_every_column_and_note_within_the_width():
    nan = replace(READING, values={"tv": 0.2, "a_quantity_with_a_long_name": np.nan}, notes={"tv": "why"})
    wide = {
        "tv": Null("patterns of other heads, drawn with the entropy that this one has, at the same place", np.ones(2))
    }
    for reading in (nan, replace(nan, nulls=wide)):
        lines = str(reading).splitlines()
        assert (lines[0], lines[-1]) == ("uniformity, L0, head 1, n = 7", "tv: why")
        assert max(map(len, lines)) <= 120
        words = str(reading).split()
        assert all(words.count(name) == 1 for name in ("value", "untrained", "null", "null_mean", "null_sd", "p_value"))
        assert {"0.2", "0.5"} <= set(words)
        assert "None" not in words
    assert repr(nan) == "Reading(uniformity, L0, head 1, n=7: tv=0.2, a_quantity_with_a_long_name=nan)"


@pytest.mark.parametrize(("side", "p"), [("greater", 5 / 6), ("less", 4 / 6)])
def test_draws_that_equal_the_value_count_as_extreme(side, p):
    null = Null("drawn", np.array([3.0, 1.0, 4.0, 2.0, 2.0]), side)
    assert null.p_value(2.0) == p
    assert Reading("a", {"x": 2.0}, nulls={"x": null}).to_frame().p_value[0] == p
    assert np.isnan(null.p_value(np.nan))
    assert np.isnan(Null("drawn", np.array([1.0, np.nan]), side).p_value(0.0))
