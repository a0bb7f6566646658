"""Geometry: Theorem 1 in closed form, arcs and lines by hand, random vectors, nulls, and a model's
W_E."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from lens_models import lens_model
from scipy.stats import kstest

from rb_interp.probes import from_arrays, geometry
from rb_interp.probes.embeddings import (
    cosines,
    expected_abs_cos,
)
from rb_interp.theory.theorem_1 import theorem_1_embeddings

TOKENS = {"key": np.arange(20, 32), "memory": np.arange(1, 5), "reasoning": np.arange(10, 18)}
OPTIONS: dict[str, Any] = {"clusters": ("memory", "reasoning"), "ordered": ("key", "reasoning")}


def of_rows(W_E: np.ndarray, groups=TOKENS, n_null: int = 0, seed: int = 0):
    """The reading of an embedding matrix."""
    return geometry(from_arrays(W_E=W_E), groups=groups, n_null=n_null, seed=seed, **OPTIONS)


def test_theorem_1_in_closed_form() -> None:
    # sums over a fine grid are integrals: |bump|^2 = sqrt(6 pi), sum of bump = sqrt(12 pi)
    k, d = np.arange(6), 200
    inner = math.sqrt(6 * math.pi) * np.exp(-(k**2) / 24) - 2 * math.sqrt(12 * math.pi) / d + 1 / d
    found = cosines(theorem_1_embeddings(15 + k, d, "reasoning"))[0]
    np.testing.assert_allclose(found, inner / inner[0], atol=1e-9)
    np.testing.assert_allclose(
        found[1:], [0.959, 0.845, 0.683, 0.507, 0.344], atol=1e-3
    )  # the paper's picture
    difference = theorem_1_embeddings(k, d, "key") - theorem_1_embeddings(k, d, "reasoning")
    np.testing.assert_allclose(difference, 1 / d, atol=1e-15)


def test_p_of_participation_is_uniform_for_vectors_of_unlike_lengths():
    rng, p_values = np.random.default_rng(0), []
    for seed in range(60):
        lengths = np.exp(rng.standard_normal(40))[:, None]
        found = of_rows(lengths * rng.standard_normal((40, 48)), n_null=59, seed=seed)
        p_values.append(found.nulls["participation"].p_value(found.values["participation"]))
    assert kstest(p_values, "uniform").statistic < 1.63 / np.sqrt(60) + 1 / 60  # 1 % point


def test_theorem_1_reads_itself_as_perfect() -> None:
    groups = {"key": np.arange(60, 80), "memory": np.arange(4), "reasoning": np.arange(40, 48)}
    W_E = np.zeros((200, 200))
    W_E[40:48] = theorem_1_embeddings(groups["reasoning"], 200, "reasoning")
    W_E[60:80] = theorem_1_embeddings(groups["key"], 200, "key")
    W_E[:4] = theorem_1_embeddings(np.full(4, 100), 200, "key")
    found = of_rows(W_E, groups, 99, seed=2)
    values, nulls = found.values, found.nulls
    assert values["order_rho"] == pytest.approx(-1, abs=1e-12)
    assert values["theory"] == pytest.approx(1, abs=1e-12)
    assert values["cos_memory"] == pytest.approx(1, abs=1e-12)
    for name in ("order_rho", "theory", "abs_cos", "cos_memory"):
        assert nulls[name].p_value(values[name]) == pytest.approx(0.01), (
            name
        )  # every null knows its side


def test_number_line_by_hand() -> None:
    # token s at (s, 1) up to scale: one dimension once centred; cos of 3 reasoning anchors from
    # their angles
    tokens = {
        "key": np.array([5, 6, 7]),
        "memory": np.array([3, 4]),
        "reasoning": np.array([0, 1, 2]),
    }
    values = of_rows(np.stack([np.arange(8.0), np.ones(8)], 1), tokens).values
    assert values["participation"] == pytest.approx(1)
    assert values["pc1_key"] == values["pc1_reasoning"] == values["own_pc1_key"] == pytest.approx(1)
    pairs = [1 / math.sqrt(2), 1 / math.sqrt(5), 3 / math.sqrt(10)]  # cos of (0, 1), (0, 2), (1, 2)
    assert values["cos_reasoning"] == pytest.approx(np.mean(pairs))
    assert values["cos_memory"] == pytest.approx(13 / math.sqrt(10 * 17))
    # |s - t| is 1, 2, 1 with ranks 1.5, 3, 1.5; cos has ranks 2, 1, 3: Spearman -1.5 / sqrt(1.5 *
    # 2)
    assert values["order_rho"] == pytest.approx(-1.5 / math.sqrt(3))


def test_pooled_component_may_miss_what_a_group_orders_by() -> None:
    W_E = np.zeros((40, 3))
    W_E[TOKENS["key"], 0] = 0.1 * TOKENS["key"] - 2.5
    W_E[TOKENS["memory"], 1] = [30, -30, 30, -30]
    W_E[TOKENS["reasoning"], 2] = 0.2
    values = of_rows(W_E).values
    assert values["own_pc1_key"] == pytest.approx(1)
    assert not values["pc1_key"] > 0.9


def test_random_vectors_have_the_expected_cosine() -> None:
    assert expected_abs_cos(2) == pytest.approx(2 / math.pi)
    assert expected_abs_cos(3) == pytest.approx(1 / 2)
    groups = {
        "key": np.arange(100),
        "memory": np.arange(100, 110),
        "reasoning": np.arange(110, 120),
    }
    values = of_rows(np.random.default_rng(0).standard_normal((120, 64)), groups).values
    # cosines of distinct pairs are independent two by two; the sd of |cos| is .756 of its mean
    assert values["abs_cos_ratio"] == pytest.approx(1, abs=4 * 0.756 / math.sqrt(120 * 119 / 2))


@pytest.mark.wide
def test_p_values_are_uniform_under_the_nulls() -> None:
    rng, n = np.random.default_rng(1), 80
    names = ("order_rho", "theory", "pc1_key", "pc1_reasoning", "abs_cos", "cos_memory")
    p: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(n):
        found = of_rows(rng.standard_normal((40, 12)), n_null=99, seed=seed)
        for name in names:
            p[name].append(found.nulls[name].p_value(found.values[name]))
    for name in names:
        distance = np.abs(np.sort(p[name]) - np.arange(1, n + 1) / n).max()
        assert distance < 1.95 / math.sqrt(n) + 0.02, name  # Kolmogorov-Smirnov at .001, and ties


def test_what_nothing_defines_is_nan() -> None:
    alone = {**TOKENS, "memory": np.array([3]), "reasoning": np.array([], dtype=int)}
    for W_E in (np.ones((40, 4)), np.full((40, 4), np.nan)):
        for groups in (TOKENS, alone):
            found = of_rows(W_E, groups, 3)
            assert np.isnan(
                [found.values[name] for name in ("order_rho", "pc1_key", "participation")]
            ).all()
            assert set(found.nulls) >= {"order_rho", "cos_memory"}
            assert found.arrays["pca"].shape == (sum(map(len, groups.values())), 3)


def test_participation_is_compared_with_the_untrained_model_s() -> None:
    model, untrained = (lens_model("plain", seed=seed, d_vocab=40) for seed in (0, 1))
    reading = geometry(model, groups=TOKENS, untrained=untrained, n_null=20, **OPTIONS)
    expected, before = (of_rows(m.W_E.detach().double().numpy()).values for m in (model, untrained))
    ratio = expected["participation"] / before["participation"]
    assert dict(reading.values) == pytest.approx({**expected, "participation_ratio": ratio})
    assert dict(reading.untrained) == pytest.approx({**before, "participation_ratio": 1.0})
    assert math.isnan(geometry(model, groups=TOKENS, n_null=0).values["participation_ratio"])


ORDER = {
    "order_rho",
    "theory",
    *(f"{kind}_{name}" for kind in ("pc1", "own_pc1") for name in TOKENS),
}


def test_order_is_read_where_the_caller_gives_numbers() -> None:
    """The embedding is a line by other numbers than the ids; without numbers nothing is said of
    order."""
    model, rng = lens_model("plain", d_vocab=40), np.random.default_rng(0)
    hidden = rng.permutation(8) * 0.5
    with torch.no_grad():
        model.W_E[TOKENS["reasoning"]] = 4 * torch.eye(16)[0] + torch.outer(
            torch.tensor(hidden).float(), torch.eye(16)[1]
        )
    nothing = geometry(model, groups=TOKENS, n_null=5)
    assert not ORDER & set(nothing.values)
    assert not ORDER & set(nothing.nulls)
    assert {"cos_memory", "participation"} <= set(nothing.values)
    assert "pca_theory" not in nothing.arrays
    found = geometry(model, groups=TOKENS, values={"reasoning": hidden}, n_null=500)
    assert found.values["own_pc1_reasoning"] == pytest.approx(1)
    assert found.values["order_rho"] < -0.9
    assert found.nulls["order_rho"].p_value(found.values["order_rho"]) < 0.01
    assert "theory" not in found.values  # Eq. (14) is about whole numbers
    assert "pc1_key" not in found.values
    whole = geometry(
        model, groups=TOKENS, values={"reasoning": TOKENS["reasoning"]}, n_null=0
    ).values
    assert dict(whole) == pytest.approx(
        geometry(model, groups=TOKENS, ordered=("reasoning",), n_null=0).values, nan_ok=True
    )


def test_every_null_of_random_vectors_holds_the_values_of_random_vectors() -> None:
    rng = np.random.default_rng(3)
    values = [of_rows(rng.standard_normal((40, 12))).values for _ in range(60)]
    nulls = of_rows(rng.standard_normal((40, 12)), n_null=300).nulls
    for name in (
        "abs_cos_ratio",
        "cos_reasoning",
        "own_pc1_key",
        "own_pc1_reasoning",
        "participation",
    ):
        found, draws = np.array([v[name] for v in values]), nulls[name].draws
        error = math.sqrt(found.var() / len(found) + draws.var() / len(draws))
        tolerance = 5 * error + (
            0.04 * draws.mean() if name == "participation" else 0
        )  # unit length costs a little
        assert abs(found.mean() - draws.mean()) < tolerance, name
