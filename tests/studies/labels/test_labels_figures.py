"""Figures of the label study draw what its tables say."""

import numpy as np
import pytest
from drawing import drawn, texts
from report.pages import check_page
from studies.labels.synthetic_labels import make_labels

from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.figures import draw_label_range, draw_label_speed

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def labels():
    return make_labels()


def heights(axes) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]


def test_the_page_shows_every_figure_and_every_verdict(labels, tmp_path):
    check_page(LABELS, labels, tmp_path)


def test_speeds_of_both_mappings_and_their_index(labels):
    loss, _, index = draw_label_speed(labels).axes
    for sweep, rows in (("keys", "mem"), ("near_sum", "mem"), ("keys", "rsn_train"), ("near_sum", "rsn_train")):
        curves = labels.curves[(labels.curves["sweep"] == sweep) & (labels.curves["set"] == rows)]
        assert drawn(loss, curves.pivot(index="step", columns="seed", values="loss").mean(axis=1))
    values = labels.readings.query("probe == 'label_speed' and quantity == 'bias'")["value"].to_numpy()
    assert drawn(index, values)
    assert drawn(index, [0.05, 0.05])
    assert drawn(index, [values.mean()] * 2)
    assert "R1: ≥ .05" in texts(index.figure)


def test_outputs_ranges_and_the_judged_seeds(labels):
    *groups, inside = draw_label_range(labels).axes
    for axes, group in zip(groups, (1, 2, 3, 4), strict=True):
        rows = labels.tables["outputs"].query("group == @group")
        assert drawn(axes, rows.pivot(index="label", columns="seed", values="probability").mean(axis=1))
        (span,) = axes.patches
        assert (span.get_x(), span.get_x() + span.get_width()) == (29.5, 29.5 + 20 * group)
    table = labels.tables["in_range"].query("group == 2").pivot(index="step", columns="seed", values="inside").dropna()
    assert drawn(inside, table.loc[1:].mean(axis=1))
    readings = labels.readings.query("quantity == 'lowest_inside'").set_index("seed")["value"]
    marks = {tuple(line.get_xydata()[0]) for line in inside.lines if line.get_marker() == "v"}
    assert marks == {(1200 + 150 * seed, value) for seed, value in readings.items()}
    assert drawn(inside, [0.9, 0.9])
    assert any(np.allclose(y, 25 / 48) for y in heights(inside) if len(y) == 2)  # (1 + 1/2 + 1/3 + 1/4) / 4
