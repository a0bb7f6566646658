"""Figures and captions of the label study draw what its tables say."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from studies.labels.synthetic_labels import bare, make_labels, with_readings

from rb_interp.figures.save import draw
from rb_interp.studies.labels.answer import answer, never_learned, pooled_by_group, times_never_learned
from rb_interp.studies.labels.claims import CLAIMS
from rb_interp.studies.labels.figures import FIGURES
from rb_interp.studies.labels.figures.label_range import draw_label_range
from rb_interp.studies.labels.figures.label_speed import draw_label_speed

pytestmark = pytest.mark.wide

EVERY = pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)


@pytest.fixture(scope="module")
def labels():
    return make_labels()


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ").replace("\xa0", " ")


def heights(axes) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]


def drawn(axes, values) -> bool:
    return any(len(y) == len(values) and np.allclose(y, values) for y in heights(axes))


def test_every_claim_is_on_a_figure_and_refutable_in_its_caption(labels):
    assert {claim for spec in FIGURES for claim in spec.claims} == {claim.id for claim in CLAIMS}
    for spec in FIGURES:
        caption = spec.caption(labels)
        assert all(claim in caption.would_refute for claim in spec.claims)
        assert not [word for word in ("nan", "n/a", "None", "{") if word in str(caption)]


@EVERY
def test_a_run_without_readings_gives_sentences(spec, labels):
    figure = draw(spec, bare(labels))
    figure.draw_without_rendering()
    assert "no table “" in texts(figure)
    assert not [word for word in ("nan", "None") if word in str(spec.caption(bare(labels)))]


@EVERY
def test_bands_need_three_seeds(spec, labels):
    assert any(axes.collections for axes in spec.draw(labels).axes)
    assert not any(axes.collections for axes in spec.draw(make_labels(2)).axes)
    spec.draw(make_labels(1)).draw_without_rendering()
    assert "nan" not in str(spec.caption(make_labels(1)))


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
    assert pooled_by_group(labels) == pytest.approx({1: 25 / 48, 2: 19 / 24, 3: 15 / 16, 4: 1})
    readings = labels.readings.query("quantity == 'lowest_inside'").set_index("seed")["value"]
    marks = {tuple(line.get_xydata()[0]) for line in inside.lines if line.get_marker() == "v"}
    assert marks == {(1200 + 150 * seed, value) for seed, value in readings.items()}
    assert drawn(inside, [0.9, 0.9])
    assert any(np.allclose(y, 25 / 48) for y in heights(inside) if len(y) == 2)  # (1 + 1/2 + 1/3 + 1/4) / 4


@pytest.mark.parametrize("mean", [math.inf, math.nan])
def test_a_count_that_is_no_number_is_none(labels, mean):
    facts = labels.tables["label_facts"].copy()
    facts.loc[facts["quantity"].isin(["never_learned", "rsn_train_lower"]), "mean"] = mean
    changed = replace(labels, tables={**labels.tables, "label_facts": facts})
    assert times_never_learned(changed) == (0, 0)
    assert "it is lower beside mem2" in " ".join(answer(labels))
    assert "beside mem1" not in " ".join(answer(changed))


def test_memory_that_was_never_learned_is_said(labels):
    assert never_learned(labels) == ""
    readings = labels.readings.copy()
    readings.loc[(readings["stage"] == "before_memory") & (readings["seed"] < 2), "step"] = 6000
    found = never_learned(with_readings(labels, readings))
    assert found == "Memory was not learned in some of these runs: R2 is read at the last step in 2 of 3 seeds."
