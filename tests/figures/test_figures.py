from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import texts
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox
from synthetic_evidence import make_evidence

from rb_interp.figures import kit
from rb_interp.figures.paper_1 import draw_learning
from rb_interp.figures.style import SET_COLOURS, SETS, render, save_figures, settle
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.anchor.figures import FIGURES, PARTS, draw_attention_by_role, rows_to_show
from rb_interp.tasks import AnchorTask

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def evidence():
    return make_evidence()


def test_same_evidence_gives_same_bytes_and_leaves_settings_alone(evidence, tmp_path):
    specs = {name: FIGURES[name] for name in ("variance_explained",)}
    first = save_figures(specs, evidence, tmp_path / "first")
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "black", "svg.fonttype": "none"}):
        before = dict(matplotlib.rcParams)
        again = save_figures(specs, evidence, tmp_path / "again")
        assert dict(matplotlib.rcParams) == before
    assert list(first) == list(again) == list(specs)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
    assert len(list((tmp_path / "first").iterdir())) == 2 * len(specs)


def test_the_last_bits_of_a_layout_do_not_reach_the_file(monkeypatch):
    """The layout's solver gives other ones where it works elsewhere in memory."""

    def drawn(last_bits):
        figure = Figure(layout="constrained")
        left, right = figure.subfigures(1, 2)
        for axes in (*left.subfigures(2, 1)[0].subplots(1, 2), right.subplots()):
            axes.imshow(np.eye(3))
        execute = ConstrainedLayoutEngine.execute

        def moved(engine, figure):
            execute(engine, figure)
            for part in (left, right, *left.subfigs):
                part.bbox_relative.set_points(part.bbox_relative.get_points() + last_bits)
            for axes in figure.axes:
                axes.set_position(Bbox(axes.get_position(original=True).get_points() + last_bits))

        with monkeypatch.context() as patch:
            patch.setattr(ConstrainedLayoutEngine, "execute", moved)
            settle(figure)
        return render(figure, "svg")

    assert drawn(0.0) == drawn(1e-15) != drawn(1e-3)


def test_a_threshold_is_that_of_the_claim(evidence):
    axes = Figure().subplots()
    kit.threshold(axes, evidence, "M4")
    assert [text.get_text() for text in axes.texts] == ["M4\n≥ .70"]
    assert list(axes.lines[0].get_ydata()) == [0.7, 0.7]


def test_curves_and_their_mean_are_those_of_the_tables(evidence):
    panel = draw_learning(evidence, "A").axes[2]  # the loss at the third rate
    table = evidence.curves[evidence.curves["gamma"] == 0.8]
    for name in SETS:
        seeds = table[table["set"] == name].pivot(index="step", columns="seed", values="loss").to_numpy().T
        mean = evidence.table("curves_summary", gamma=0.8, set=name, quantity="loss")["mean"]
        lines = [line.get_ydata() for line in panel.lines if line.get_color() == SET_COLOURS[name]]
        np.testing.assert_allclose(lines, [*seeds, mean])


def test_a_mean_stands_where_most_seeds_do_and_its_band_is_cut():
    rows = pd.DataFrame({"step": [0, 10] * 3 + [15], "seed": [0, 0, 1, 1, 2, 2, 2], "x": [1.0, 2, 1, 4, 1, 6, 5]})
    means = pd.DataFrame({"mean": [1.0, 4.0, 5.0], "low": [1.0, -1.0, np.nan], "high": [1.0, 9.0, np.nan]})
    axes = Figure().subplots()
    kit.band(axes, rows, "x", means.assign(n=[3, 3, 1], step=[0, 10, 15]), "red", limits=(0.0, 8.0))
    assert [list(line.get_xdata()) for line in axes.lines] == [[0, 10], [0, 10], [0, 10, 15], [0, 10]]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 8.0)


def test_seeds_are_drawn_with_the_interval_that_is_given():
    axes = Figure().subplots()
    kit.dots(axes, 1.0, [0.1, 0.2], Interval(5.0, 4.0, 6.0), "red")
    kit.dots(axes, 2.0, [0.3], Interval(0.3, np.nan, np.nan), "red")
    drawn = [list(line.get_ydata()) for line in axes.lines]
    assert drawn == [[0.1, 0.2], [5.0, 5.0], [4.0, 6.0], [0.3], [0.3, 0.3]]


def test_attention_bars_are_the_readings_and_fill_the_unit(evidence):
    axes = draw_attention_by_role(evidence).axes[0]
    bars = np.array([(bar.get_height(), bar.get_y()) for bar in axes.patches]).reshape(3, 5, len(PARTS), 2)
    heights, bottoms = np.moveaxis(bars, 1, 2).transpose(3, 0, 1, 2)  # gamma, part, seed
    np.testing.assert_allclose(heights.sum(1), 1)
    np.testing.assert_allclose(bottoms[:, 1:], heights.cumsum(1)[:, :-1])
    key = evidence.values("attention_by_role", "key", 0.8, set="rsn_train")
    np.testing.assert_allclose(heights[2, list(PARTS).index("key")], key)


def test_a_rate_that_was_not_read_leaves_the_others(evidence):
    rest = replace(evidence, readings=evidence.readings[evidence.readings["gamma"] != 0.5])
    axes = draw_attention_by_role(rest).axes[0]
    assert "reasoning inputs, not read at γ = 0.5" in texts(axes.figure)
    assert len(axes.patches) == 2 * 5 * len(PARTS)


def test_words_in_a_margin_do_not_lie_over_each_other():
    axes = Figure().subplots()
    axes.plot([0, 1], [0, 1])
    kit.margin(axes, {"b": 0.5, "a": 0.49, "c": 0.9})
    heights = [text.xy[1] for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]
    assert min(np.diff(heights)) > 0.08


def test_undefined_cells_are_hatched_and_not_coloured():
    axes = Figure().subplots()
    image = kit.heat_map(axes, np.array([[1.0, np.nan], [0.5, 1.0]]), write=str)
    assert [patch.get_xy() for patch in axes.patches if patch.get_hatch()] == [(0.5, -0.5)]
    assert image.get_array().mask.tolist() == [[False, True], [False, False]]
    assert sorted(text.get_text() for text in axes.texts) == ["0.5", "1.0", "1.0"]


def test_sample_rows_show_one_combination_at_two_places():
    data = AnchorTask.preset("smoke").dataset(0)
    shown = rows_to_show(data)
    assert [kind for kind, _ in shown] == ["mem", "mem", "rsn_train", "rsn_train", "rsn_test"]
    for first, second in (shown[:2], shown[2:4]):
        rows = [first[1], second[1]]
        positions = data.key_position[rows]
        assert positions[0] != positions[1]
        assert len(set(data.labels[rows])) == len(set(data.tokens[rows, positions])) == 1
