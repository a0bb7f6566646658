"""Figures of the Emb-MLP study draw what its tables say."""

from dataclasses import replace

import numpy as np
import pytest
from drawing import drawn, texts

from rb_interp.figures.save import draw
from rb_interp.figures.style import gamma_colour
from rb_interp.studies.emb_mlp.claims import CLAIMS
from rb_interp.studies.emb_mlp.drift import FLOOR
from rb_interp.studies.emb_mlp.figures import FIGURES
from rb_interp.studies.emb_mlp.figures.along_training import ROWS
from rb_interp.studies.emb_mlp.figures.common import SWEEPS
from rb_interp.studies.emb_mlp.figures.scaling import draw_inner_products, draw_lemma_1

pytestmark = pytest.mark.wide

SPECS = {spec.id: spec for spec in FIGURES}
EVERY = pytest.mark.parametrize("spec", FIGURES, ids=list(SPECS))


def test_every_claim_is_on_one_of_the_figures():
    assert {claim for spec in FIGURES for claim in spec.claims} == {claim.id for claim in CLAIMS}
    assert len(SPECS) == 12


@EVERY
def test_captions_say_what_would_refute_and_show_no_raw_values(spec, evidence):
    caption = spec.caption(evidence)
    assert len(caption.would_refute) > 60
    for claim in spec.claims:
        assert claim in caption.would_refute
    for word in ("nan", "n/a", "None", "{"):
        assert word not in str(caption)


@EVERY
def test_a_run_without_tables_and_readings_gives_sentences(spec, evidence):
    bare = replace(evidence, tables={}, arrays={}, readings=evidence.readings.iloc[:0])
    figure = draw(spec, bare)
    assert "no " in texts(figure).lower()


def test_agreement_lines_are_the_tables_cut_at_the_floor(evidence):
    panels = np.array(draw(SPECS["agreement"], evidence).axes).reshape(len(ROWS), len(SWEEPS))
    below = 0
    for line, (column, prediction) in zip(panels, ROWS, strict=True):
        for axes, sweep in zip(line, SWEEPS, strict=True):
            for gamma in evidence.sweep(sweep).gammas:
                where = {"sweep": sweep, "gamma": gamma, "group": "anchor", "prediction": prediction}
                rows = evidence.table("drift", **where).query("step > 0")
                table = rows.pivot(index="step", columns="seed", values=column)
                below += int((table < FLOOR).to_numpy().sum())
                cut, colour = np.maximum(table, FLOOR), gamma_colour(gamma, evidence.gammas)
                lines = [line for line in axes.lines if colour in (line.get_color(), line.get_markerfacecolor())]
                data = [(line.get_xdata(), line.get_ydata()) for line in lines]
                for seed in cut:
                    values = cut[seed].dropna()
                    assert any(np.array_equal(x, values.index) and np.allclose(y, values) for x, y in data)
                mean = cut.dropna().mean(axis=1)
                assert any(np.array_equal(x, mean.index) and np.allclose(y, mean) for x, y in data)
                for seed, step in rows[rows.leaving].set_index("seed").step.items():
                    assert any(np.allclose(y, cut.loc[step, seed]) for x, y in data if len(x) == 1 and x[0] == step)
    assert below > 20  # the floor was put to the test


def test_r2_at_leaving_shows_every_seed_and_its_interval(evidence):
    panels = draw(SPECS["drift_r2"], evidence).axes
    for axes, sweep in zip(panels, SWEEPS, strict=True):
        own = evidence.sweep(sweep)
        values = own.values("drift", "r2", 0.8, stage="leaving", set="anchor")
        assert drawn(axes, values)
        assert drawn(axes, own.interval("drift", "r2", 0.8, stage="leaving", set="anchor")[1:])
    mean, level = (evidence.sweep("descent").values("drift", "r2", 0.8, stage="leaving", set="anchor").mean(), 0.9)
    assert drawn(panels[0], [level] * 2)
    assert drawn(panels[0], [mean - 0.2] * 2)
    assert "mean −" in texts(panels[0].figure)  # at gamma .3, below the panel


def test_flow_error_and_lemma_are_their_tables(evidence):
    cosine = draw(SPECS["value_flow"], evidence).axes[0]
    rows = evidence.table("value_flow", sweep="one_layer", gamma=0.3).query("step > 0")
    assert drawn(cosine, rows.pivot(index="step", columns="seed", values="cos").dropna().mean(axis=1))
    errors, slopes = draw_inner_products(evidence).axes
    table = evidence.table("inner_products", gamma=0.3).pivot(index="d_model", columns="seed", values="error")
    mean = np.exp(np.log(table).mean(axis=1)).to_numpy()
    assert drawn(errors, mean)
    assert drawn(errors, mean[0] * np.array([1, 1.5]) ** 0.7)  # slope 1 - gamma from the same first point
    assert drawn(slopes, evidence.table("exponents", gamma=0.3)["exponent"].to_numpy())
    assert drawn(slopes, [0.7, 0.2])
    axes, lemma = draw_lemma_1(evidence).axes[0], evidence.table("lemma_1").sort_values(["d_model", "gamma"])
    assert drawn(axes, lemma[lemma.d_model == 16]["share"].to_numpy())
    ends = np.concatenate([[s[:, 1] for s in lines.get_segments()] for lines in axes.collections])
    np.testing.assert_allclose(ends, lemma[["low", "high"]].to_numpy())
