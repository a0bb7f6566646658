from dataclasses import replace
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import texts
from matplotlib.figure import Figure

from rb_interp.claims import Term, judge
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.kit import SET_COLOURS, SETS, save_figures
from rb_interp.figures.paper_1 import draw_learning
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.anchor.figures import FIGURES, PARTS, draw_attention_by_role

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def evidence(anchor_run):
    return anchor_run.evidence


def test_same_evidence_gives_same_bytes_and_leaves_settings_alone(evidence, tmp_path):
    specs = {"tasks": FIGURES["tasks"]}
    first = save_figures(specs, evidence, tmp_path / "first")
    with matplotlib.rc_context(
        {"font.size": 23, "axes.facecolor": "black", "svg.fonttype": "none"}
    ):
        before = dict(matplotlib.rcParams)
        again = save_figures(specs, evidence, tmp_path / "again")
        assert dict(matplotlib.rcParams) == before
    assert list(first) == list(again) == list(specs)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
    assert len(list((tmp_path / "first").iterdir())) == 2 * len(specs)


def test_a_threshold_is_that_of_the_claim(evidence):
    axes = Figure().subplots()
    kit.threshold(axes, evidence, "M4")
    assert [text.get_text() for text in axes.texts] == ["M4\n≥ .70"]
    assert list(axes.lines[0].get_ydata()) == [0.7, 0.7]


def test_curves_and_their_mean_are_those_of_the_tables(evidence):
    panel = draw_learning(evidence, "A").axes[2]  # the loss at the third rate
    table = evidence.curves[evidence.curves["gamma"] == 0.8]
    for name in SETS:
        seeds = (
            table[table["set"] == name]
            .pivot(index="step", columns="seed", values="loss")
            .to_numpy()
            .T
        )
        mean = evidence.table("curves_summary", gamma=0.8, set=name, quantity="loss")["mean"]
        lines = [line.get_ydata() for line in panel.lines if line.get_color() == SET_COLOURS[name]]
        np.testing.assert_allclose(lines, [*seeds, mean])


def test_the_stage_half_has_a_mark_for_members_that_reached_it_alone(evidence):
    def marks(evidence):
        panel = draw_learning(evidence, "A").axes[2]
        (half,) = [line.get_xdata() for line in panel.lines if line.get_marker() == "v"]
        return len(half)

    curves = evidence.curves
    train = (curves["set"] == "rsn_train") & (curves["gamma"] == 0.8)
    loss = curves["loss"].mask(train, 0.0)
    assert marks(replace(evidence, curves=curves.assign(loss=loss))) == len(evidence.seeds)
    loss = loss.mask(train & (curves["seed"] == evidence.seeds[0]), 9.0)
    assert marks(replace(evidence, curves=curves.assign(loss=loss))) == len(evidence.seeds) - 1


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


def test_seeds_are_drawn_with_the_interval_that_is_given():
    axes = Figure().subplots()
    kit.dots(axes, 1.0, [0.1, 0.2], Interval(5.0, 4.0, 6.0), "red")
    kit.dots(axes, 2.0, [0.3], Interval(0.3, np.nan, np.nan), "red")
    drawn = [list(line.get_ydata()) for line in axes.lines]
    assert drawn == [[0.1, 0.2], [5.0, 5.0], [4.0, 6.0], [0.3], [0.3, 0.3]]


def test_attention_bars_are_the_readings_and_fill_the_unit(evidence):
    axes = draw_attention_by_role(evidence).axes[0]
    bars = np.array([(bar.get_height(), bar.get_y()) for bar in axes.patches]).reshape(
        3, 2, len(PARTS), 2
    )
    heights, bottoms = np.moveaxis(bars, 1, 2).transpose(3, 0, 1, 2)  # gamma, part, seed
    np.testing.assert_allclose(heights.sum(1), 1)
    np.testing.assert_allclose(bottoms[:, 1:], heights.cumsum(1)[:, :-1])
    key = evidence.values(evidence.condition("M7").of)
    np.testing.assert_allclose(heights[2, list(PARTS).index("key")], key)


def test_a_figure_beside_a_claim_shows_its_number_in_deeper_models(evidence):
    """M7 is about L1, and so are its bars, where L2 was read too."""
    rows = evidence.readings[evidence.readings["probe"] == "attention_by_role"]
    deeper = pd.concat([evidence.readings, rows.assign(layer=2, value=rows["value"] / 2)])
    verdicts = judge(deeper, evidence.claims)
    panel, _ = draw_attention_by_role(replace(evidence, readings=deeper)).axes
    keys = [bar.get_height() for bar in panel.patches if bar.get_y() == 0]
    np.testing.assert_allclose(keys[-2:], verdicts["M7"].conditions[0].values)


def test_a_rate_that_was_not_read_leaves_the_others(evidence):
    rest = replace(evidence, readings=evidence.readings[evidence.readings["gamma"] != 0.5])
    axes = draw_attention_by_role(rest).axes[0]
    assert "reasoning inputs, not read at γ = 0.5" in texts(axes.figure)
    assert len(axes.patches) == 2 * 2 * len(PARTS)


def test_undefined_cells_are_hatched_and_not_coloured():
    axes = Figure().subplots()
    image = kit.heat_map(axes, np.array([[1.0, np.nan], [0.5, 1.0]]), write=str)
    assert [patch.get_xy() for patch in axes.patches if patch.get_hatch()] == [(0.5, -0.5)]
    assert image.get_array().mask.tolist() == [[False, True], [False, False]]
    assert sorted(text.get_text() for text in axes.texts) == ["0.5", "1.0", "1.0"]


def test_an_array_is_found_by_layer_and_head_and_only_where_one_fits():
    readings = pd.DataFrame({"probe": "attention", "stage": "final", "layer": [0.0, 1.0]})
    arrays = {
        "0.8/3/final/set/attention.L0.H0/pattern": np.zeros(2),
        "0.8/3/final/set/attention.L1.H0/pattern": np.ones(2),
        "0.8/3/final/set/attention/old": np.ones(2),
        "0.8/3/final//geometry/cosines": np.full(2, 3.0),
    }
    found = SimpleNamespace(arrays=arrays, readings=readings)
    found._array_keys = Evidence._array_keys.func(found)

    def array(quantity="pattern", probe="attention", set="set", **site):
        term = Term(probe, quantity, 0.8, "final", set, **site)
        return Evidence._array(found, term, 3)

    assert array(layer=0).tolist() == [0, 0]
    assert array(layer=1, head=0).tolist() == [1, 1]
    assert [array(layer=2), array(layer=1, head=1), array()] == [None] * 3
    assert array("cosines", "geometry", "").tolist() == [3, 3]
    # a key without a layer is of the only layer that was read
    assert array("old", layer=1) is None
    found.readings = readings.iloc[1:]
    assert array("old", layer=1).tolist() == [1, 1]
    assert array("old", layer=0) is None
