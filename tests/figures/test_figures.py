import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic_evidence import make_evidence

from rb_interp.claims import CLAIMS
from rb_interp.figures.bias import draw_bias
from rb_interp.figures.composition import draw_composition
from rb_interp.figures.criteria import THRESHOLDS
from rb_interp.figures.learning import draw_learning
from rb_interp.figures.panels import heat_map
from rb_interp.figures.registry import FIGURES
from rb_interp.figures.routing import PARTS, draw_routing
from rb_interp.figures.save import save_figures
from rb_interp.figures.style import SET_COLOURS, SETS
from rb_interp.figures.tasks import rows_to_show
from rb_interp.tasks import AnchorTask

ABOUT_SMALL = {"first_layer", "composition", "cosines", "pca", "theory", "orthogonality"}


@pytest.fixture(scope="module")
def evidence():
    return make_evidence(seeds=3)


@pytest.fixture(scope="module")
def saved(evidence, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    return folder, save_figures(evidence, folder)


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ").replace("\xa0", " ")


def test_same_evidence_gives_same_bytes_and_leaves_settings_alone(evidence, saved, tmp_path):
    folder, paths = saved
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "black", "svg.fonttype": "none"}):
        before = dict(matplotlib.rcParams)
        again = save_figures(make_evidence(seeds=3), tmp_path)
        assert dict(matplotlib.rcParams) == before
    assert list(paths) == list(again) == [spec.id for spec in FIGURES]
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name
    assert len(list(folder.iterdir())) == 2 * len(FIGURES)


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_a_run_without_the_small_initialisation_says_so(spec):
    evidence = make_evidence(gammas=(0.3,), seeds=1)
    figure = spec.draw(evidence)
    assert ("has no member at γ = 0.8" in texts(figure)) == (spec.id in ABOUT_SMALL)
    figure.draw_without_rendering()
    assert "nan" not in str(spec.caption(evidence))


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_a_run_without_readings_gives_sentences_instead_of_a_crash(spec):
    evidence = make_evidence(seeds=1)
    nothing = {"arrays": {}, "tables": {}, "causes": []}
    bare = replace(evidence, readings=evidence.readings.iloc[:0], circuits=evidence.circuits.iloc[:0], **nothing)
    figure = spec.draw(bare)
    assert spec.id in ("tasks", "learning") or "No " in texts(figure) or "no " in texts(figure)
    figure.draw_without_rendering()
    assert str(spec.caption(bare))


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_caption_says_for_each_claim_what_would_refute_it(spec, evidence):
    caption = spec.caption(evidence)
    assert "Would refute: " in str(caption)
    assert len(caption.would_refute) > 60
    for claim in spec.claims:
        assert claim in caption.would_refute
    assert "nan" not in str(caption)
    assert "n/a" not in str(caption)


def test_every_claim_about_members_is_on_a_figure():
    on_figures = {claim for spec in FIGURES for claim in spec.claims}
    assert {claim.id for claim in CLAIMS} - {"I1"} == on_figures


def test_drawn_thresholds_are_the_claims_own():
    own = {claim.id: {abs(part.threshold) for part in claim.parts} for claim in CLAIMS}
    for claim, threshold in THRESHOLDS.items():
        assert threshold in own[claim], claim


def test_curves_and_their_mean_are_those_of_the_table(evidence):
    panel = draw_learning(evidence).axes[2]  # the loss at the third rate
    table = evidence.curves[evidence.curves["gamma"] == 0.8]
    for name in SETS:
        expected = table[table["set"] == name].pivot(index="step", columns="seed", values="loss").to_numpy().T
        lines = [line.get_ydata() for line in panel.lines if line.get_color() == SET_COLOURS[name]]
        np.testing.assert_allclose(lines, [*expected, expected.mean(0)])


def test_bias_panels_show_every_seed_and_the_mean(evidence):
    for axes, quantity in zip(draw_bias(evidence).axes, ("bias", "bias_test"), strict=True):
        for gamma in evidence.gammas:
            values = evidence.values("learning_order", quantity, gamma).to_numpy()
            drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
            assert any(len(y) == len(values) and np.allclose(y, values) for y in drawn)
            assert any(len(y) == 2 and np.allclose(y, values.mean()) for y in drawn)


def test_routing_bars_are_the_readings_and_fill_the_unit(evidence):
    axes = draw_routing(evidence).axes[0]
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(3, len(PARTS), 3)  # gamma, part, seed
    np.testing.assert_allclose(heights.sum(1), 1)
    bottoms = np.array([bar.get_y() for bar in axes.patches]).reshape(heights.shape)
    np.testing.assert_allclose(bottoms[:, 1:], heights.cumsum(1)[:, :-1])
    key = evidence.values("routing", "key", 0.8, rows="rsn_train")
    np.testing.assert_allclose(heights[2, list(PARTS).index("key")], key)


def test_composition_cells_hold_the_mean_over_seeds(evidence):
    figure = draw_composition(evidence)
    value = evidence.values("composition", "attn_out.1:key", 0.8, rows="rsn_train").mean()
    row = [label.get_text() for label in figure.axes[0].get_yticklabels()].index("layer 2:\nattention output")
    at = [text.get_text() for text in figure.axes[0].texts if round(text.get_position()[1]) == row]
    assert at[0] == f"{value:.2f}"


def test_undefined_cells_are_hatched_and_not_coloured():
    axes = Figure().subplots()
    image = heat_map(axes, np.array([[1.0, np.nan], [0.5, 1.0]]), write=str)
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


def test_importing_figures_and_report_loads_no_plotting_and_no_tables():
    code = (
        "import sys, rb_interp.figures, rb_interp.report; print({'matplotlib', 'pandas', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
