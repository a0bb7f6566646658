"""Shares of variance by hand, under their null, and on models."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from lens_models import lens_model

from rb_interp.errors import RolesError
from rb_interp.probes import from_arrays
from rb_interp.probes.variance import (
    ROUNDING,
    omega_squared,
    omega_squared_draws,
    position_outputs,
    row_groupings,
    variance_explained,
)
from rb_interp.tasks import Inputs, Roles

K, S, REPEATS = 10, 8, 5
KEY = np.repeat(np.arange(K), S * REPEATS)
SUM = np.tile(np.arange(S), K * REPEATS)
BALANCED = {"key": KEY, "anchor_sum": SUM, "key_and_sum": S * KEY + SUM}


def shares(vectors: np.ndarray) -> dict[str, float]:
    """What the balanced groupings explain of some vectors, one a row."""
    source = from_arrays(
        **dict.fromkeys(("resid_pre", "attn_out", "resid_post"), vectors[None, :, None]),
        attn_only=True,
    )
    found = variance_explained(
        source, Inputs(np.zeros((len(vectors), 1), int)), groupings=BALANCED, n_null=0
    )
    return {
        name.split(":")[1]: share
        for name, share in found.values.items()
        if name.startswith("attn_out")
    }


def closed_form(between: float, n: int, k: int) -> float:
    within = (1 - between) / (n - k)
    return (between - (k - 1) * within) / (1 + within)


def test_groupings_of_one_s_own_at_a_role_s_position() -> None:
    """The embedding of the first token is a function of that token, and its label by name says the
    same."""
    model, rng = lens_model("plain"), np.random.default_rng(0)
    tokens = rng.integers(0, 4, (80, 5))
    tokens[:, 0] = 7
    names = np.array(["a", "b", "c", "d"])[tokens[:, 1]]
    inputs = Inputs(tokens, roles=Roles({"verb": np.ones((80, 1), dtype=int)}))
    labels = {"verb": names, "coin": rng.integers(0, 2, 80)}
    found = variance_explained(model, inputs, groupings=labels, role="verb", untrained=model)
    assert found.values["resid_pre.0:verb"] == pytest.approx(1)
    assert abs(found.values["resid_pre.0:coin"]) < 0.1
    assert found.nulls["resid_pre.0:verb"].p_value(1.0) == pytest.approx(1 / 201)
    assert {name.split(":")[1] for name in found.values} == {"verb", "coin"}
    assert dict(found.untrained) == dict(found.values)
    last = variance_explained(model, inputs, groupings=labels, n_null=0).values
    assert last["resid_pre.0:verb"] < 0.3
    with pytest.raises(
        RolesError,
        match=r"grouping 'verb' with an array of shape \[3\] .*; expected a name and one",
    ):
        variance_explained(model, inputs, groupings={"verb": [1, 2, 3]})


def test_omega_squared_by_hand() -> None:
    # mean (3, 1), SS_total 32; group means (1, 0) and (5, 2), SS_within 12, SS_between 20,
    # MS_within 12 / 2
    vectors = np.array([[0.0, 0], [2, 0], [4, 0], [6, 4]])
    assert omega_squared(vectors, np.array([7, 7, 3, 3])) == pytest.approx(
        (20 - 6) / (32 + 6), abs=1e-15
    )


def test_additive_table_splits_into_key_and_sum() -> None:
    rng = np.random.default_rng(0)
    f, g = rng.standard_normal((K, 6)), 2 * rng.standard_normal((S, 6))
    found = shares(f[KEY] + g[SUM] + 100)
    of_key = f.var(0).sum() / (f.var(0).sum() + g.var(0).sum())
    n = len(KEY)
    assert found["key"] == pytest.approx(closed_form(of_key, n, K), abs=1e-12)
    assert found["anchor_sum"] == pytest.approx(closed_form(1 - of_key, n, S), abs=1e-12)
    assert found["key_and_sum"] == pytest.approx(1, abs=1e-12)
    assert abs(found["interaction"]) < K / (n - K)  # what the adjustment for groups takes off


def test_pure_key_and_pure_interaction() -> None:
    of_key = shares(np.random.default_rng(1).standard_normal((K, 3))[KEY])
    assert of_key["key"] == pytest.approx(1, abs=1e-12)
    assert of_key["anchor_sum"] == pytest.approx(closed_form(0, len(KEY), S), abs=1e-12)
    exclusive_or = shares(((KEY + SUM) % 2)[:, None] * [1.0, -2.0])
    assert exclusive_or["interaction"] == pytest.approx(1, abs=(K + S) / (len(KEY) - K))


def test_null_draws_are_omega_squared_of_permuted_labels() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((50, 7)) * 1e-5 + 1e-3  # the scale of an untrained model
    permuted = rng.permuted(np.tile(rng.integers(0, 3, 50), (20, 1)), axis=1)
    expected = [omega_squared(vectors, labels) for labels in permuted]
    np.testing.assert_allclose(
        omega_squared_draws(vectors, permuted, np.float32), expected, atol=ROUNDING
    )


def test_p_values_are_uniform_under_the_null() -> None:
    rng = np.random.default_rng(4)
    labels, p = np.tile(np.arange(5), 8), []
    for _ in range(150):
        vectors = rng.standard_normal((40, 3))
        draws = (
            omega_squared_draws(vectors, rng.permuted(np.tile(labels, (99, 1)), axis=1), np.float32)
            + ROUNDING
        )
        p.append((1 + (draws >= omega_squared(vectors, labels)).sum()) / 100)
    distance = np.abs(np.sort(p) - np.arange(1, 151) / 150).max()
    assert (
        distance < 1.95 / math.sqrt(150) + 0.01
    )  # Kolmogorov-Smirnov at .001, and the grid of p-values


@pytest.mark.parametrize(
    ("vectors", "labels"),
    [
        (np.full((4, 2), 0.1), [0, 0, 1, 1]),  # constant
        (1e3 + 1e-10 * np.arange(4.0)[:, None], [0, 0, 1, 1]),  # constant but for rounding
        (np.eye(4), [0, 0, 0, 0]),  # one group
        (np.eye(4), [0, 1, 2, 3]),  # a group for every row
        (np.full((4, 2), np.nan), [0, 0, 1, 1]),  # diverged
    ],
)
def test_what_nothing_defines_is_nan(vectors: np.ndarray, labels: list[int]) -> None:
    assert math.isnan(omega_squared(vectors, np.array(labels)))
    assert np.isnan(omega_squared_draws(vectors, np.array([labels, labels]))).all()


def test_groupings_are_read_off_tokens_and_roles() -> None:
    tokens = np.array([[50, 1, 4, 60], [60, 50, 4, 1], [60, 51, 2, 3]])
    roles = Roles({"key": np.array([[0], [1], [1]]), "anchor": np.array([[1, 2], [2, 3], [2, 3]])})
    found = row_groupings(Inputs(tokens, roles=roles))
    assert found["key"].tolist() == [50, 50, 51]
    assert found["anchor_sum"].tolist() == [5, 5, 5]
    assert found["anchor_2"].tolist() == [4, 1, 3]
    assert len(set(found["anchors"].tolist())) == 3
    assert found["key_and_sum"][0] == found["key_and_sum"][1] != found["key_and_sum"][2]


def rows_with_the_key_last() -> tuple[np.ndarray, Roles]:
    tokens = np.random.default_rng(5).integers(0, 30, (200, 6))
    tokens[:, 5] = 20 + tokens[:, 5] % 4
    return tokens, Roles({"key": np.full((200, 1), 5), "anchor": np.tile([2, 3], (200, 1))})


def test_every_component_of_a_foreign_model() -> None:
    model, (tokens, roles) = lens_model("folded"), rows_with_the_key_last()
    reading = variance_explained(model, Inputs(tokens, roles=roles), untrained=model, n_null=20)
    components = list(dict.fromkeys(name.split(":")[0] for name in reading.values))
    sublayers = [f"{out}.{layer}" for layer in range(4) for out in ("attn_out", "mlp_out")]
    assert components == ["resid_pre.0", *sublayers, "resid_post.3"]
    assert reading.values["resid_pre.0:key"] == pytest.approx(
        1, abs=1e-6
    )  # embedding and position fix it
    assert reading.nulls["resid_pre.0:key"].p_value(1.0) == pytest.approx(1 / 21)
    assert reading.untrained == pytest.approx(dict(reading.values))
    name = "blocks.2.hook_attn_out"
    _, cache = model.run_with_cache(torch.as_tensor(tokens))
    last = cache[name][:, -1].detach().double().numpy()
    assert reading.values["attn_out.2:anchor_1"] == pytest.approx(
        omega_squared(last, tokens[:, 2]), abs=1e-6
    )
    alone = variance_explained(model, Inputs(tokens, roles=roles), layer=2, n_null=0)
    assert alone.values["attn_out.2:anchor_1"] == pytest.approx(
        reading.values["attn_out.2:anchor_1"], abs=1e-12
    )
    assert alone.nulls == {}


def test_heads_add_up_to_the_attention_output() -> None:
    model = lens_model("plain", d_vocab=40)
    tokens = np.random.default_rng(0).integers(0, 40, (6, 5))
    whole = position_outputs(model, Inputs(tokens), 2)["attn_out.2"]
    heads = [
        position_outputs(model, Inputs(tokens), 2, head)["attn_out.2"]
        for head in range(model.cfg.n_heads)
    ]
    bias = model.b_O[2].detach().double().numpy()
    np.testing.assert_allclose(sum(heads) + bias, whole, rtol=1e-4, atol=1e-5)
