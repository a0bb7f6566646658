"""Plots say what the numbers say: each mark stands where its number is, and what has no place is
marked."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.errors import ArgumentError
from rb_interp.interventions.effect import Effect, hypotheses_table
from rb_interp.interventions.matrix import Matrix
from rb_interp.plots import Point, attention, heads, learning_curves, points
from rb_interp.statistics.intervals import t_interval
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

DRAWS = np.linspace(0, 1, 201)
READING = Reading(
    "uniformity", {"tv": 0.1, "entropy": 0.9}, 0, 1, {"tv": 0.3}, {"tv": Null("even", DRAWS)}, n=7
)


@pytest.fixture(autouse=True)
def settings():
    """No plot changes a setting of matplotlib, or leaves a figure that nobody asked for."""
    before = dict(matplotlib.rcParams), len(pyplot.get_fignums())
    yield
    assert before == (dict(matplotlib.rcParams), len(pyplot.get_fignums()))


@pytest.fixture
def ax():
    return Figure().subplots()


def dots(axes):
    """Legend name -> the places of dots, as pairs."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def bars(axes):
    """Ends of every horizontal bar."""
    return [
        segment[:, 0].round(3).tolist()
        for lines in axes.collections
        for segment in lines.get_segments()
        if len(segment)
    ]


def test_a_reading_is_drawn_beside_its_untrained_model_and_its_null(ax):
    assert READING.plot(ax) is ax
    found = dots(ax)
    assert found["value"] == [[0.1, 0], [0.9, 1]]
    assert found["untrained"][0] == [0.3, 0]
    assert np.isnan(found["untrained"][1][0])
    assert bars(ax)[0] == [0.025, 0.975]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["tv", "entropy"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first quantity is on top


def test_what_is_no_axes_is_refused():
    with pytest.raises(ArgumentError, match="got ax=.*; expected Axes of matplotlib"):
        READING.plot(Figure())  # type: ignore


def test_numbers_without_a_place_are_marked_and_large_ones_leave_room_for_small_ones(ax):
    Reading("p", {"a": np.nan, "b": np.inf, "c": -np.inf, "d": 0.5, "e": 40.0}).plot(ax)
    found = dots(ax)
    assert {name: [y for _, y in found[name]] for name in ("infinite", "minus infinity")} == {
        **{"infinite": [1], "minus infinity": [2]}
    }
    assert [(text.get_text(), text.get_position()[1]) for text in ax.texts] == [("undefined", 0)]
    assert ax.get_xscale() == "symlog"


def test_an_effect_is_drawn_with_its_interval_and_its_control(ax):
    values, control = np.linspace(0, 1, 20), np.linspace(-1, 1, 60).reshape(3, 20)
    effect = Effect("swap", "z.0@key", "recovered", values, control, "noise redrawn")
    effect.plot(ax)
    assert dots(ax)["effect, 95 % interval over rows"] == [[pytest.approx(0.5), 0]]
    assert dots(ax)["control: noise redrawn"] == [[pytest.approx(0), 0]]
    _, low, high = t_interval(values)
    assert [round(low, 3), round(high, 3)] in bars(ax)
    lone = Effect(
        "swap", "z.0@key", "recovered", values[:1], control[:0, :1], ""
    )  # of one row the interval is the line
    lone.plot(axes := Figure().subplots())
    assert [line.get_marker() for line in axes.lines if line.get_color() == "C0"] == ["o", "<", ">"]


def test_a_matrix_marks_what_is_undefined_and_what_is_beyond_its_colours(ax):
    ones = np.ones(3)
    patched = np.array([[[0.5, 3.0], [np.nan, -0.25]]])[..., None] * ones
    axes = {"component": ("z",), "layer": (0, 1), "role": ("key", "last")}
    found = Matrix(axes, "logit_diff", ones, 0 * ones, patched, patched / 2)
    found.plot(ax)
    shown = ax.images[0].get_array()
    assert shown.filled(9.0).tolist() == [[0.5, 3.0], [9.0, -0.25]]
    rectangles = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [patch.get_xy() for patch in rectangles if patch.get_hatch()] == [(-0.5, 0.5)]
    framed = [patch for patch in rectangles if not patch.get_fill()]
    assert [np.round(patch.get_xy()).tolist() for patch in framed] == [[1, 0]]
    assert len(rectangles) == 1 + 1 + 3  # three squares of the control
    assert [text.get_text() for text in ax.texts] == ["0.50", "3.00", "-0.25"]
    assert ax.images[0].colorbar.extend == "max"


def test_an_axis_of_one_entry_is_in_the_title_and_positions_have_the_token_that_rows_share(ax):
    axes = {"component": ("z",), "layer": (0, 3), "head": (0, 1), "position": ("0", "1")}
    ones = np.ones(2)
    patched = np.zeros((1, 2, 2, 2, 2))
    matrix = Matrix(axes, "loss", ones, 0 * ones, patched, None, tokens=["<bos>", ""])
    matrix.plot(ax)
    assert ax.get_title() == "patching, z, n = 2"
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "L0 H0",
        "L0 H1",
        "L3 H0",
        "L3 H1",
    ]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0 <bos>", "1"]
    assert ax.get_ylabel() == "layer, head"


def test_joined_sites_stand_in_the_figure_and_long_ones_are_counted():
    heads = [f"z.0.{number}@anchor" for number in range(12)]
    axes = {"sender": [" + ".join(heads), "embed@key"], "receiver": ["q.1.0 + k.1.0 + v.1.0"]}
    ones = np.ones(2)
    matrix = Matrix(axes, "logit_diff", ones, 0 * ones, np.ones((2, 1, 2)), None)
    ax = matrix.plot()
    senders, receivers = ax.get_yticklabels(), ax.get_xticklabels()
    assert senders[0].get_text() == "12 sites:\nz.0.0@anchor ...\nz.0.11@anchor"
    assert receivers[0].get_text() == "q.1.0 + k.1.0 +\nv.1.0"
    assert "12 sites: z.0.0@anchor ... z.0.11@anchor" in str(matrix)
    assert matrix.to_frame()["sender"][0] == axes["sender"][0]
    ax.figure.canvas.draw()
    bar = ax.images[0].colorbar.ax.yaxis.label
    for text in (*senders, *receivers, ax.xaxis.label, ax.yaxis.label, bar):
        box = text.get_window_extent()
        assert ax.figure.bbox.count_contains([box.min, box.max]) == 2
    pyplot.close(ax.figure)


def test_each_hypothesis_has_a_line_with_the_largest_of_its_controls(ax):
    predicted, untouched = np.array([[3], [4]]).repeat(10, 1), np.zeros(10, int)
    answers = {
        "share": np.array([[3] * 9 + [7]]),
        "noise_redrawn": np.array([[4] * 2 + [0] * 8]),
        "self": untouched[None],
    }
    table = hypotheses_table(["key", "sum"], predicted, untouched, answers)
    none = np.zeros((0, 10))
    Effect("swap", "v.1", "moved_as_predicted", untouched, none, "", hypotheses=table).plot(ax)
    names = ["key", "sum", "untouched", "other"]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    found = dots(ax)
    assert found["share, 95 % interval over pairs"] == [[0.9, 0], [0, 1], [0, 2], [0.1, 3]]
    assert found["largest of the controls"] == [[0, 0], [0.2, 1], [1, 2], [0, 3]]
    assert [0.555, 0.997] in bars(ax)


def test_heads_of_ablations_are_drawn_beside_their_control(ax):
    """Other components have no cell; several methods would have several numbers in one."""
    rows = {"component": ["attn_out.0", "z.0.0", "z.0.1"], "method": "mean", "layer": 0}
    numbers = {"accuracy_drop": [0.9, 0.1, 0.3], "control_accuracy_drop": [0, 0, 0.2]}
    table = pd.DataFrame({**rows, "head": pd.array([None, 0, 1], "Int64"), **numbers})
    heads(table, "accuracy_drop", ax)
    assert ax.images[0].get_array().tolist() == [[0.1, 0.3]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1"]
    assert ax.get_title() == "mean ablation\n(small square: control)"
    assert ax.images[0].colorbar.ax.get_ylabel() == "drop of accuracy (share of rows)"
    several = pd.concat([table, table.assign(method="zero")])
    with pytest.raises(ArgumentError, match=r"several rows for a head.*'method'\] == 'mean'"):
        heads(several, "accuracy_drop")
    with pytest.raises(ArgumentError, match="without the column 'head'"):
        heads(table.drop(columns="head"), "accuracy_drop")


def test_heads_of_matrices_are_drawn_too(ax):
    direct = {"site": ["embed", "z.0.0", "z.0.1", "z.1.0", "z.1.1"], "effect": [9, 1, 2, 3, 4]}
    heads(pd.DataFrame({**direct, "control": 0.0}), "effect", ax)
    assert ax.images[0].get_array().tolist() == [[1, 2], [3, 4]]
    assert ax.get_title() == "direct effects\n(small square: control)"
    patched = {"component": "z", "layer": [0, 0], "head": [0, 1], "role": "all"}
    drawn = heads(pd.DataFrame({**patched, "recovered": [0.5, 1.0]}), "recovered")
    assert drawn.images[0].get_array().tolist() == [[0.5, 1.0]]
    assert drawn.get_title() == "matrix"
    pyplot.close(drawn.figure)


def test_direct_effects_are_called_so(ax):
    numbers = np.zeros((1, 2))
    given = ({"site": ["embed"]}, "logit", np.ones(2), np.zeros(2), numbers, None)
    Matrix(*given, direction="direct", method="direct effects").plot(ax)
    assert ax.get_title() == "direct effects, n = 2"


def test_learning_curves_have_a_mean_over_seeds(ax):
    rows = [
        (0.8, seed, step, "mem", 5.0 - step / 100 + seed) for seed in range(3) for step in (0, 100)
    ]
    learning_curves(pd.DataFrame(rows, columns=["gamma", "seed", "step", "set", "loss"]), ax=ax)
    assert dots(ax)["mem, γ = 0.8"] == [[0, 6.0], [100, 5.0]]
    assert len(ax.lines) == 4
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.ymin, band.ymax) == (
        pytest.approx(t_interval([4.0, 5, 6])[1]),
        pytest.approx(t_interval([5.0, 6, 7])[2]),
    )


def test_a_mean_is_of_steps_that_most_seeds_have(ax):
    kept = {0: (0, 100, 200), 1: (0, 200), 2: (0, 200)}  # one seed was read more often
    rows = [(0.8, seed, step, "mem", seed) for seed, steps in kept.items() for step in steps]
    learning_curves(pd.DataFrame(rows, columns=["gamma", "seed", "step", "set", "loss"]), ax=ax)
    assert dots(ax)["mem, γ = 0.8"] == [[0, 1], [200, 1]]
    assert ax.lines[1].get_ydata().tolist() == [1, 1, 1]  # a thin line has no gap


def test_a_wide_null_stays_in_the_picture_beside_an_infinite_end(ax):
    row = Point(
        "one", 1.0, null=np.linspace(-6, 6, 99), beside=0.5, beside_low=-np.inf, beside_high=2.0
    )
    points(ax, [row], "nats", "title", beside="control", mixed=False)
    low, high = ax.get_xlim()
    assert low < -5
    assert high > 5


def test_curves_of_several_sweeps_and_unknown_columns_are_refused_in_a_sentence():
    rows = [(sweep, 0.8, 0, 0, "mem", 5.0) for sweep in ("", "fixed")]
    curves = pd.DataFrame(rows, columns=["sweep", "gamma", "seed", "step", "set", "loss"])
    with pytest.raises(ArgumentError, match=r"sweeps \['', 'fixed'\].*curves\['sweep'\] == ''"):
        learning_curves(curves)
    with pytest.raises(ArgumentError, match="without the column 'accuracy'; known: gamma, loss"):
        learning_curves(curves, "accuracy")
    with pytest.raises(ArgumentError, match="heads got 3; expected a DataFrame"):
        heads(3, "tv")  # type: ignore


PATTERN = np.stack([np.eye(3), np.tri(3) / [[1], [2], [3]]])
PLACES = {"bos": [[0], [0]], "name": [[1], [1]], "other": [[2], [1]], "none": [[-1], [-1]]}
ROWS = Inputs(
    np.array([[4, 5, 6], [4, 7, 8]]),
    roles=Roles(PLACES),
    vocabulary={4: "<s>", 5: "Ann", 7: "Mary"},
)


@pytest.mark.parametrize(
    ("row", "labels", "numbers"),
    [
        (None, ["0 <s>", "1 name", "2"], "1.00 0.25 0.75 0.17 0.17 0.67"),
        (1, ["0 <s>", "1 Mary", "2 8"], "1.00 0.50 0.50 0.33 0.33 0.33"),
    ],
)
def test_a_head_s_pattern_is_drawn_with_tokens_where_it_may_look(row, labels, numbers, ax):
    """Cells that a query may not see have no number."""
    attention(PATTERN, ROWS, row=row, ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == labels
    assert " ".join(text.get_text() for text in ax.texts) == numbers


def test_a_pattern_of_other_rows_is_refused():
    for pattern, row in ((PATTERN[:1], None), (PATTERN, 2), (PATTERN, -1), (PATTERN[0], 0)):
        with pytest.raises(ArgumentError, match="of one head, and a row of it"):
            attention(pattern, ROWS, row=row)
