"""Figures of the Emb-MLP study draw what its tables say."""

import numpy as np
import pytest
from drawing import drawn
from report.pages import check_page

from rb_interp.figures.kit import gamma_colour
from rb_interp.studies.emb_mlp import EMB_MLP
from rb_interp.studies.emb_mlp.drift import FLOOR
from rb_interp.studies.emb_mlp.figures import (
    AGREEMENT,
    SWEEPS,
    draw_agreement,
    draw_scaling,
    draw_value_flow,
)

pytestmark = pytest.mark.wide


def test_the_page_shows_every_figure_and_every_verdict(evidence):
    check_page(EMB_MLP, evidence)


def test_agreement_lines_are_the_tables_cut_at_the_floor(evidence):
    panels = np.array(draw_agreement(evidence).axes).reshape(len(AGREEMENT), len(SWEEPS))
    below = 0
    for line, (column, prediction) in zip(panels, AGREEMENT, strict=True):
        for axes, sweep in zip(line, SWEEPS, strict=True):
            for gamma in evidence.sweep(sweep).gammas:
                where = {
                    "sweep": sweep,
                    "gamma": gamma,
                    "group": "anchor",
                    "prediction": prediction,
                }
                rows = evidence.table("drift", **where).query("step > 0")
                table = rows.pivot(index="step", columns="seed", values=column)
                below += int((table < FLOOR).to_numpy().sum())
                cut, colour = np.maximum(table, FLOOR), gamma_colour(gamma, evidence.gammas)
                lines = [
                    line
                    for line in axes.lines
                    if colour in (line.get_color(), line.get_markerfacecolor())
                ]
                data = [(line.get_xdata(), line.get_ydata()) for line in lines]
                for seed in cut:
                    values = cut[seed].dropna()
                    assert any(
                        np.array_equal(x, values.index) and np.allclose(y, values) for x, y in data
                    )
                mean = cut.dropna().mean(axis=1)
                assert any(np.array_equal(x, mean.index) and np.allclose(y, mean) for x, y in data)
                marks = rows[rows.leaving]
                assert any(
                    np.array_equal(x, marks.step) and np.allclose(y, marks[column].clip(FLOOR))
                    for x, y in data
                )
    assert below > 20  # the floor was put to the test


def test_flow_error_and_lemma_are_their_tables(evidence):
    cosine = draw_value_flow(evidence).axes[0]
    rows = evidence.table("value_flow", sweep="one_layer", gamma=0.3).query("step > 0")
    assert drawn(
        cosine, rows.pivot(index="step", columns="seed", values="cos").dropna().mean(axis=1)
    )
    errors, slopes, axes = draw_scaling(evidence).axes
    table = evidence.table("inner_products", gamma=0.3).pivot(
        index="d_model", columns="seed", values="error"
    )
    mean = np.exp(np.log(table).mean(axis=1)).to_numpy()
    assert drawn(errors, mean)
    assert drawn(
        errors, mean[0] * np.array([1, 1.5, 2]) ** 0.7
    )  # slope 1 - gamma from the same first point
    assert drawn(slopes, evidence.table("exponents", gamma=0.3)["exponent"].to_numpy())
    assert drawn(slopes, [0.7, 0.5, 0.2, 0])
    lemma = evidence.table("lemma_1").sort_values(["d_model", "gamma"])
    assert drawn(axes, lemma[lemma.d_model == 16]["share"].to_numpy())
    ends = np.concatenate([[s[:, 1] for s in lines.get_segments()] for lines in axes.collections])
    np.testing.assert_allclose(ends, lemma[["low", "high"]].to_numpy())
