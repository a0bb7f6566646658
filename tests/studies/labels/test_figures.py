"""Figures of the label study draw speeds, ranges and the judged seeds."""

import pytest
from drawing import drawn, texts
from report.pages import check_page

from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.figures import draw_label_range, draw_label_speed

pytestmark = pytest.mark.wide

RANGES = ((22, 31), (22, 41), (22, 51), (22, 61))


def test_figures_draw_speeds_ranges_and_the_judged_seeds(measured):
    check_page(LABELS, measured)
    loss, _, index = draw_label_speed(measured).axes
    for sweep, rows in (
        ("keys", "mem"),
        ("near_sum", "mem"),
        ("keys", "rsn_train"),
        ("near_sum", "rsn_train"),
    ):
        curves = measured.curves[
            (measured.curves["sweep"] == sweep) & (measured.curves["set"] == rows)
        ]
        assert drawn(loss, curves.pivot(index="step", columns="seed", values="loss").mean(axis=1))
    values = measured.readings.query("probe == 'label_speed' and quantity == 'bias'")[
        "value"
    ].to_numpy()
    assert drawn(index, values)
    assert drawn(index, [0.05, 0.05])
    assert drawn(index, [values.mean()] * 2)
    assert "R1" in texts(index.figure)
    *groups, inside = draw_label_range(measured).axes
    for axes, group in zip(groups, (1, 2, 3, 4), strict=True):
        rows = measured.tables["outputs"].query("group == @group")
        assert drawn(
            axes, rows.pivot(index="label", columns="seed", values="probability").mean(axis=1)
        )
        (span,) = axes.patches
        low, high = RANGES[group - 1]
        assert (span.get_x(), span.get_x() + span.get_width()) == (low - 0.5, high + 0.5)
    readings = measured.readings.query("quantity == 'lowest_inside'")
    marks = {tuple(line.get_xydata()[0]) for line in inside.lines if line.get_marker() == "v"}
    assert marks == {*zip(readings["step"], readings["value"], strict=True)}
    assert drawn(inside, [0.9, 0.9])
    assert drawn(inside, [25 / 48] * 2)  # (1 + 1/2 + 1/3 + 1/4) / 4, what the pooled labels give
