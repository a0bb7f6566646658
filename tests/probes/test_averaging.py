"""Distance from the average operator: by hand, under the null, and on a model with uniform attention."""

import numpy as np
import pytest
import torch
from lens_models import lens_model
from scipy.stats import kstest

from rb_interp.errors import ModelError
from rb_interp.models.build import build_model
from rb_interp.probes import uniformity, weight_rank
from rb_interp.probes.averaging import average_operator, simplex_null, summarise, uniformity_of_heads
from rb_interp.statistics.nulls import dirichlet_rows
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.inputs import Inputs


def test_average_operator_reads_zero():
    values, arrays = summarise(np.tile(average_operator(9), (3, 1, 1)))
    assert values == pytest.approx({"tv": 0.0, "max_deviation": 0.0, "entropy": 1.0}, abs=1e-12)
    np.testing.assert_allclose(arrays["mean_pattern"], average_operator(9))


def test_small_pattern_by_hand():
    """Row 2: |.9 - .5| / 2 + |.1 - .5| / 2 = .4; row 3 looks at itself: 1 - 1/3. The mean leaves row 1 out."""
    first = np.array([[1.0, 0, 0], [0.9, 0.1, 0], [0, 0, 1.0]])
    values, arrays = summarise(np.stack([first, average_operator(3)]))
    np.testing.assert_allclose(arrays["tv_per_row"], [0.4 / 2, (2 / 3) / 2])
    assert values["tv"] == pytest.approx((0.4 + 2 / 3) / 4)
    assert values["max_deviation"] == pytest.approx(2 / 3)
    h = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1)) / np.log(2)
    assert values["entropy"] == pytest.approx((h + 0 + 1 + 1) / 4)


def test_distance_is_taken_on_each_input_not_on_the_mean_pattern():
    """Two inputs that look at opposite positions average to uniform, and are not uniform."""
    patterns = np.array([[[1.0, 0], [1, 0]], [[1, 0], [0, 1]]])
    assert summarise(patterns)[0]["tv"] == 0.5


def test_p_values_are_uniform_under_the_null():
    n, length, rng = 300, 6, np.random.default_rng(0)
    p_values = []
    for draw in range(n):
        pattern = np.zeros((1, length, length))
        for i in range(1, length + 1):
            pattern[0, i - 1, :i] = dirichlet_rows(1, i, rng)[0]
        p_values.append(simplex_null(length, 200, draw).p_value(summarise(pattern)[0]["tv"]))
    assert kstest(p_values, "uniform").statistic < 1.63 / np.sqrt(n) + 1 / 201  # 1 % point, and the steps of 1/201


def test_model_without_query_weights_attends_uniformly_and_the_untrained_model_does_not():
    model, untrained = lens_model("plain"), lens_model("plain", seed=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".q." in name or "_Q" in name:
                parameter.zero_()
    tokens = np.random.default_rng(0).integers(0, 30, (20, 9))
    reading = uniformity(model, Inputs(tokens), layer=2, head=3, untrained=untrained)
    assert reading.values["tv"] < 1e-6
    assert reading.values == pytest.approx({"tv": 0, "max_deviation": 0, "entropy": 1}, abs=1e-5)
    assert reading.untrained["tv"] > 0.05
    row = reading.rows()[0]
    assert (row["layer"], row["head"], row["n"], row["p_value"]) == (2, 3, 20, 1 / 201)
    assert row["null_mean"] == pytest.approx(np.mean([(1 - 1 / i) ** i for i in range(2, 10)]), abs=0.02)


def test_all_heads_at_once_read_what_each_reads_alone():
    model = build_model(AnchorTask(), gamma=0.4, n_layers=3, n_heads=2, d_head=8, seed=1)
    tokens = AnchorTask().dataset(0).tokens[:20]
    found = uniformity_of_heads(model, Inputs(tokens), layers=(0, 2))
    assert [(reading.layer, reading.head) for reading in found] == [(0, 0), (0, 1), (2, 0), (2, 1)]
    for reading in found:
        alone = uniformity(model, Inputs(tokens), layer=reading.layer, head=reading.head, n_null=0)
        assert reading.values == pytest.approx(alone.values, rel=1e-12)
        np.testing.assert_allclose(reading.arrays["tv_per_row"], alone.arrays["tv_per_row"], rtol=1e-12)
    short = tokens[:, :5]  # what stands behind the end of a row is no query, and a causal query does not see it
    counted = np.arange(tokens.shape[1])[None] < np.full((len(tokens), 1), 5)
    for filled, cut in zip(
        uniformity_of_heads(model, Inputs(tokens), layers=(1,), counted=counted),
        uniformity_of_heads(model, Inputs(short), layers=(1,)),
        strict=True,
    ):
        assert filled.values == pytest.approx(cut.values, abs=1e-6)


def test_a_diverged_model_is_refused_where_its_attention_is_undefined_and_noted_elsewhere():
    task = AnchorTask()
    data, model = task.dataset(seed=0), build_model(task, gamma=0.5)
    inputs = data.inputs(data.sample("rsn_train", 5))
    with torch.no_grad():
        model.blocks[0].attn.W_Q.fill_(torch.nan)
    with pytest.raises(ModelError, match="got a model whose weights are not all finite"):
        uniformity(model, inputs)
    reading = weight_rank(model, inputs)
    assert reading.notes == {"stable_rank_W_QK": "the model's weights are not all finite: its training has diverged."}
    assert "has diverged" in reading._repr_html_()
