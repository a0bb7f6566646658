"""Learning curves are those of the tables."""

from dataclasses import replace

import numpy as np
import pytest

from rb_interp.figures.kit import SET_COLOURS, SETS
from rb_interp.figures.paper_1 import draw_learning

pytestmark = pytest.mark.wide


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
