"""Figures of the anchor study draw what its readings say."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from drawing import texts

from rb_interp.claims import judge
from rb_interp.studies.anchor.figures import PARTS, draw_attention_by_role

pytestmark = pytest.mark.wide


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
