"""Uniformity: distances by hand, the null, models without query weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lens_models import lens_model
from scipy.stats import kstest

from rb_interp.probes import from_arrays, uniformity
from rb_interp.statistics.nulls import dirichlet_rows
from rb_interp.tasks.inputs import Inputs

N, EVEN = 60, np.tri(9) / np.arange(1, 10)[:, None]


def of_pattern(patterns):
    """One head's patterns ``[row, query, key]`` as a source."""
    return from_arrays(pattern=np.asarray(patterns, dtype=float)[None, :, None])


def averaged(patterns, **options):
    return uniformity(
        of_pattern(patterns), Inputs(np.zeros(np.shape(patterns)[:2], int)), **options
    )


def test_distances_from_an_average_by_hand():
    """Row 2: |.9 - .5| / 2 + |.1 - .5| / 2 = .4; row 3 looks at itself: 1 - 1/3. The mean leaves
    row 1 out."""
    nothing = averaged(np.tile(EVEN, (3, 1, 1)), n_null=0)
    assert nothing.values == pytest.approx(
        {"tv": 0.0, "max_deviation": 0.0, "entropy": 1.0}, abs=1e-12
    )
    np.testing.assert_allclose(nothing.arrays["mean_pattern"], EVEN)
    found = averaged([[[1.0, 0, 0], [0.9, 0.1, 0], [0, 0, 1.0]], EVEN[:3, :3]], n_null=0)
    np.testing.assert_allclose(found.arrays["tv_per_row"], [0.4 / 2, (2 / 3) / 2])
    assert found.values["tv"] == pytest.approx((0.4 + 2 / 3) / 4)
    assert found.values["max_deviation"] == pytest.approx(2 / 3)
    h = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1)) / np.log(2)
    assert found.values["entropy"] == pytest.approx((h + 0 + 1 + 1) / 4)
    queries = np.array([[True, True, True], [False, False, True]])  # the second begins late
    late = averaged([EVEN[:3, :3], np.eye(3)], n_null=0, queries=queries)
    even_and_late = [[1, 0, 0], [0.5, 0.5, 0], [1 / 6, 1 / 6, 2 / 3]]
    np.testing.assert_allclose(late.arrays["mean_pattern"], even_and_late)
    opposite = averaged(
        [[[1.0, 0], [1, 0]], [[1, 0], [0, 1]]], n_null=0
    )  # their mean is uniform, and they are not
    assert opposite.values["tv"] == 0.5


@pytest.mark.parametrize("n_queries", [3, 6])
def test_p_values_are_uniform_under_the_null_of_an_average(n_queries):
    """Also of some queries alone."""
    n, length, rng, p_values = 150, 6, np.random.default_rng(0), []
    for seed in range(n):
        pattern = np.zeros((1, length, length))
        for i in range(1, length + 1):
            pattern[0, i - 1, :i] = dirichlet_rows(1, i, rng)[0]
        found = averaged(pattern, seed=seed, queries=np.arange(length)[None] < n_queries)
        p_values.append(found.nulls["tv"].p_value(found.values["tv"]))
    assert (
        kstest(p_values, "uniform").statistic < 1.63 / np.sqrt(n) + 1 / 201
    )  # 1 % point, and the steps of 1/201


def test_model_without_query_weights_attends_uniformly_and_the_untrained_model_does_not():
    model, untrained = lens_model("plain"), lens_model("plain", seed=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".q." in name or "_Q" in name:
                parameter.zero_()
    tokens = np.random.default_rng(0).integers(0, 30, (20, 9))
    reading = uniformity(model, Inputs(tokens), layer=2, head=3, untrained=untrained)
    assert reading.values == pytest.approx({"tv": 0, "max_deviation": 0, "entropy": 1}, abs=1e-5)
    assert reading.untrained["tv"] > 0.05
    row = reading.rows()[0]
    assert (row["layer"], row["head"], row["n"], row["p_value"]) == (2, 3, 20, 1 / 201)
    assert row["null_mean"] == pytest.approx(
        np.mean([(1 - 1 / i) ** i for i in range(2, 10)]), abs=0.02
    )
    # what stands behind the end of a row is no query, and a causal query does not see it
    counted = np.tile(np.arange(9) < 5, (20, 1))
    filled = uniformity(untrained, Inputs(tokens), layer=1, queries=counted, n_null=0)
    cut = uniformity(untrained, Inputs(tokens[:, :5]), layer=1, n_null=0)
    assert filled.values == pytest.approx(cut.values, abs=1e-6)
