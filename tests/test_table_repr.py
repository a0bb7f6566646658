"""Results with arrays: a line in a list, a table for print and in a notebook."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from rb_interp.table_repr import WIDTH, TableRepr


@dataclass(frozen=True, eq=False, repr=False)
class Curve(TableRepr):
    name: str
    losses: object


class Listed(Curve):
    def table_view(self):
        return "<a> at 3 steps", pd.DataFrame(self.losses), ["a & b"]


def test_a_line_has_the_type_and_shape_of_arrays_and_the_first_entries_of_long_lists():
    curve = Curve("a", {"x": np.zeros((2, 3)), "y": torch.ones(4)})
    assert repr(curve) == "Curve(name='a', losses={'x': float64[2, 3], 'y': float32[4]})"
    assert str(curve) == repr(curve)
    assert repr(Curve("a", np.array(["u"]))) == "Curve(name='a', losses=str[1])"
    nested = repr(Curve("b", [curve] * 50))
    assert nested.count("Curve(name='a'") == 6
    assert nested.endswith("...])")
    assert curve._repr_html_().startswith("<p>Curve(name=&#x27;a&#x27;")


def test_a_table_has_its_caption_numbers_and_notes():
    listed = Listed("a", {"loss": [0.123456, np.nan], "step": [1, 20]})
    caption, *lines, note = str(listed).splitlines()
    assert (caption, note) == ("<a> at 3 steps", "a & b")
    assert [line.split() for line in lines] == [["loss", "step"], ["0.1235", "1"], ["20"]]
    page = listed._repr_html_()
    assert page.startswith("<p>&lt;a&gt; at 3 steps</p>")
    assert page.endswith("<p>a &amp; b</p>")
    assert "<td>0.1235</td>" in page
    wide = Listed("b", {f"a column of {i}": [i] for i in range(20)})
    assert max(map(len, str(wide).splitlines())) <= WIDTH
