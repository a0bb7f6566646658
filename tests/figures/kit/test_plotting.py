"""Marks, bands, thresholds and heat maps stand where their numbers are."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from rb_interp.figures import kit
from rb_interp.statistics.intervals import Interval

pytestmark = pytest.mark.wide


def test_a_threshold_is_that_of_the_claim(evidence):
    axes = Figure().subplots()
    kit.threshold(axes, evidence, "M4")
    assert [text.get_text() for text in axes.texts] == ["M4\n≥ .70"]
    assert list(axes.lines[0].get_ydata()) == [0.7, 0.7]


def test_a_mean_stands_where_most_seeds_do_and_its_band_is_cut():
    rows = pd.DataFrame(
        {"step": [0, 10] * 3 + [15], "seed": [0, 0, 1, 1, 2, 2, 2], "x": [1.0, 2, 1, 4, 1, 6, 5]}
    )
    means = pd.DataFrame(
        {"mean": [1.0, 4.0, 5.0], "low": [1.0, -1.0, np.nan], "high": [1.0, 9.0, np.nan]}
    )
    axes = Figure().subplots()
    kit.band(axes, rows, "x", means.assign(n=[3, 3, 1], step=[0, 10, 15]), "red", limits=(0.0, 8.0))
    assert [list(line.get_xdata()) for line in axes.lines] == [
        [0, 10],
        [0, 10],
        [0, 10, 15],
        [0, 10],
    ]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 8.0)
    axes = Figure().subplots()
    kit.band(axes, rows, "x", means.assign(n=[3, 2, 1], step=[0, 10, 15]), "red")
    assert list(axes.lines[-1].get_xdata()) == [0, 10]  # one seed of three diverged


def test_seeds_are_drawn_with_the_interval_that_is_given():
    axes = Figure().subplots()
    kit.dots(axes, 1.0, [0.1, 0.2], Interval(5.0, 4.0, 6.0), "red")
    kit.dots(axes, 2.0, [0.3], Interval(0.3, np.nan, np.nan), "red")
    drawn = [list(line.get_ydata()) for line in axes.lines]
    assert drawn == [[0.1, 0.2], [5.0, 5.0], [4.0, 6.0], [0.3], [0.3, 0.3]]


def test_undefined_cells_are_hatched_and_not_coloured():
    axes = Figure().subplots()
    image = kit.heat_map(axes, np.array([[1.0, np.nan], [0.5, 1.0]]), write=str)
    assert [patch.get_xy() for patch in axes.patches if patch.get_hatch()] == [(0.5, -0.5)]
    assert image.get_array().mask.tolist() == [[False, True], [False, False]]
    assert sorted(text.get_text() for text in axes.texts) == ["0.5", "1.0", "1.0"]
