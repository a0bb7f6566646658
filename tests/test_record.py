"""Values that hold arrays are shown in a line, and results as a table."""

import numpy as np
import pandas as pd
import pytest
import torch

from rb_interp.interventions.effect import Effect, Matrix
from rb_interp.record import BRIEF, Record
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks import Dataset, Inputs, Roles

ROWS = np.arange(12.0)
ROLES = Roles({"<b>": np.full((12, 1), 1)}, {"key": np.arange(3)}, np.array(["mem"] * 12), task="<i>")
NULL = Null("<b>", np.append(ROWS, np.nan))
INPUTS = Inputs(np.arange(24).reshape(12, 2), np.arange(12), ROLES)
CELLS = ROWS.reshape(1, 2, 2, 3)
TABLES = {"skills": pd.DataFrame({"hops": [1, 2], "accuracy": [0.5, 1.0]})}
SOME = [
    ROLES,
    NULL,
    INPUTS,
    Reading("p", {"a": np.nan, "<b>": 1.0}, 0, nulls={"a": NULL}, arrays={"pattern": ROWS}, tables=TABLES),
    Effect("<b>", "z.0", "recovered", ROWS, ROWS[None], "noise redrawn"),
    Matrix({"c": ["z"], "layer": [0, 1], "role": ["<b>", "last"]}, "loss", ROWS[:3], ROWS[:3] + 1, CELLS, None),
    Dataset(0, np.zeros((1, 3), int), np.zeros(1, int), np.zeros(1, int), ("a",), ("a",), {"key": np.ones((1, 1))}),
]  # fmt: skip


@pytest.mark.parametrize("one", SOME, ids=lambda one: type(one).__name__)
def test_values_are_shown_in_a_line_and_names_of_the_caller_stay_in_their_cell(one):
    assert "\n" not in repr(one)
    assert len(repr(one)) < 500
    html = one._repr_html_()
    assert html.startswith("<p>")
    assert "<b>" not in html
    assert "<i>" not in html


def test_a_table_has_four_digits_and_its_notes_stand_below():
    class Told(Record):
        def shown(self):
            return "c", pd.DataFrame({"x": [1.23456]}), ["<b>"]

    assert [line.strip() for line in str(Told()).splitlines()] == ["c", "x", "1.235", "<b>"]
    assert Told()._repr_html_().endswith("<p>&lt;b&gt;</p>")
    assert BRIEF.repr(torch.ones(2)) == "float32[2]"
