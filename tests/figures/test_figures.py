import re
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

from rb_interp.figures.curves import mean_band
from rb_interp.figures.learning import draw_bias, draw_learning
from rb_interp.figures.panels import heat_map, over_seeds, seeds_at, written
from rb_interp.figures.save import draw, render, save_figures, settle
from rb_interp.figures.spec import on_sweep
from rb_interp.figures.style import SET_COLOURS, SETS
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.anchor.claims import CLAIMS, LEARNED_ORDER, SECOND
from rb_interp.studies.anchor.figures import FIGURES
from rb_interp.studies.anchor.figures.first_layer import PARTS, draw_attention_by_role
from rb_interp.studies.anchor.figures.tasks import rows_to_show
from rb_interp.tasks import AnchorTask

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def evidence():
    return make_evidence(seeds=3)


def test_same_evidence_gives_same_bytes_and_leaves_settings_alone(evidence, tmp_path):
    specs = [spec for spec in FIGURES if spec.id in ("bias", "circuits")]
    first = save_figures(specs, evidence, tmp_path / "first")
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "black", "svg.fonttype": "none"}):
        before = dict(matplotlib.rcParams)
        again = save_figures(specs, evidence, tmp_path / "again")
        assert dict(matplotlib.rcParams) == before
    assert list(first) == list(again) == [spec.id for spec in specs]
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


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_a_run_without_readings_gives_sentences_instead_of_a_crash(spec, evidence):
    bare = replace(evidence, readings=evidence.readings[:0], summary=evidence.summary[:0], arrays={}, tables={})
    said = texts(draw(spec, bare))
    assert spec.id == "tasks" or "no " in said.lower()


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_every_figure_is_drawn_whole_and_its_caption_says_what_would_refute_each_claim(spec, evidence):
    said = texts(draw(spec, evidence))
    assert "This run has no" not in said
    assert not re.search(r"layer \d|twin|placebo|nan\b", said)
    caption = spec.caption(evidence)
    assert len(caption.would_refute) > 60
    assert [claim for claim in spec.claims if claim not in caption.would_refute] == []
    assert not re.search(r"layer \d|twin|placebo|nan\b|n/a", str(caption))


def test_every_claim_about_members_is_on_a_figure():
    on_figures, claims = {claim for spec in FIGURES for claim in spec.claims}, {claim.id for claim in CLAIMS}
    second = {claim.id for claim in (*LEARNED_ORDER, *SECOND)}  # their figure is that of the claim beside
    assert claims - {"I1"} - second <= on_figures <= claims


def test_thresholds_and_means_are_read_from_the_evidence(evidence):
    assert (written(evidence, "M4"), written(evidence, "M1", word="mean")) == ("M4: ≥ .70", "M1: mean ≤ .10")
    shifted = evidence.summary.assign(median=7.0, lowest=6.0, highest=8.0)
    assert over_seeds(replace(evidence, summary=shifted), "geometry", "theory", 0.8) == "7.00 [6.00, 8.00]"
    assert over_seeds(evidence, "geometry", "unheard_of", 0.8) == "n/a"


def test_curves_and_their_mean_are_those_of_the_tables(evidence):
    panel = draw_learning(evidence).axes[2]  # the loss at the third rate
    table = evidence.curves[evidence.curves["gamma"] == 0.8]
    for name in SETS:
        seeds = table[table["set"] == name].pivot(index="step", columns="seed", values="loss").to_numpy().T
        mean = evidence.table("curves_summary", gamma=0.8, set=name, quantity="loss")["mean"]
        lines = [line.get_ydata() for line in panel.lines if line.get_color() == SET_COLOURS[name]]
        np.testing.assert_allclose(lines, [*seeds, mean])


def test_a_mean_stands_where_most_seeds_do_and_its_band_is_cut():
    seeds = pd.DataFrame({0: [1.0, 2.0, np.nan], 1: [1.0, 4.0, np.nan], 2: [1.0, 6.0, 5.0]}, index=[0, 10, 15])
    means = pd.DataFrame({"mean": [1.0, 4.0, 5.0], "low": [1.0, -1.0, np.nan], "high": [1.0, 9.0, np.nan]})
    axes = Figure().subplots()
    mean_band(axes, seeds, means.assign(n=[3, 3, 1]).set_axis([0, 10, 15]), "red", limits=(0.0, 8.0))
    assert [list(line.get_xdata()) for line in axes.lines] == [[0, 10], [0, 10], [0, 10, 15], [0, 10]]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 8.0)


def test_seeds_are_drawn_with_the_interval_that_is_given():
    axes = Figure().subplots()
    seeds_at(axes, 1.0, [0.1, 0.2], Interval(5.0, 4.0, 6.0), "red")
    seeds_at(axes, 2.0, [0.3], Interval(0.3, np.nan, np.nan), "red")
    drawn = [list(line.get_ydata()) for line in axes.lines]
    assert drawn == [[0.1, 0.2], [5.0, 5.0], [4.0, 6.0], [0.3], [0.3, 0.3]]


def test_bias_panels_show_every_seed_and_the_median(evidence):
    for axes, quantity in zip(draw_bias(evidence, family="A").axes, ("bias", "bias_test"), strict=True):
        drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
        for gamma in evidence.gammas:
            values = evidence.values("learning_order", quantity, gamma).to_numpy()
            assert any(len(y) == len(values) and np.allclose(y, values) for y in drawn)
            assert any(len(y) == 2 and np.allclose(y, np.median(values)) for y in drawn)


def test_attention_bars_are_the_readings_and_fill_the_unit(evidence):
    axes = draw_attention_by_role(evidence).axes[0]
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(3, len(PARTS), 3)  # gamma, part, seed
    np.testing.assert_allclose(heights.sum(1), 1)
    bottoms = np.array([bar.get_y() for bar in axes.patches]).reshape(heights.shape)
    np.testing.assert_allclose(bottoms[:, 1:], heights.cumsum(1)[:, :-1])
    key = evidence.values("attention_by_role", "key", 0.8, set="rsn_train")
    np.testing.assert_allclose(heights[2, list(PARTS).index("key")], key)


def test_undefined_cells_are_hatched_and_not_coloured():
    axes = Figure().subplots()
    image = heat_map(axes, np.array([[1.0, np.nan], [0.5, 1.0]]), write=str)
    assert [patch.get_xy() for patch in axes.patches if patch.get_hatch()] == [(0.5, -0.5)]
    assert image.get_array().mask.tolist() == [[False, True], [False, False]]
    assert sorted(text.get_text() for text in axes.texts) == ["0.5", "1.0", "1.0"]


def test_a_figure_of_one_sweep_sees_that_sweep_alone(evidence):
    twice = {"a": evidence.config, "b": evidence.config}
    both = [table.assign(sweep=name) for name in twice for table in [evidence.curves]]
    tables = {"drift": pd.DataFrame({"sweep": ["a", "b", "b"], "r2": [1.0, 2.0, 3.0]})}
    config = type("Config", (), {"sweeps": twice})()
    several = replace(evidence, config=config, curves=pd.concat(both), tables=tables)
    shown = on_sweep(
        "b", lambda sweep, factor: (len(sweep.curves), factor * sweep.table("drift")["r2"].max()), factor=2
    )
    assert shown(several) == (len(evidence.curves), 6.0)


def test_sample_rows_show_one_combination_at_two_places():
    data = AnchorTask.preset("smoke").dataset(0)
    shown = rows_to_show(data)
    assert [kind for kind, _ in shown] == ["mem", "mem", "rsn_train", "rsn_train", "rsn_test"]
    for first, second in (shown[:2], shown[2:4]):
        rows = [first[1], second[1]]
        positions = data.key_position[rows]
        assert positions[0] != positions[1]
        assert len(set(data.labels[rows])) == len(set(data.tokens[rows, positions])) == 1
