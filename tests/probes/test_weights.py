"""Condensation and spectra of matrices made by hand, and of a model."""

import numpy as np
import pytest
from lens_models import lens_model

from rb_interp.errors import ArgumentError, ModelError
from rb_interp.probes import condensation, lattice, weight_rank, weight_spectra
from rb_interp.probes.embeddings import cosines
from rb_interp.probes.weights import (
    condensed_shares,
    cosine_groups,
    gaussian_shares,
    layer_matrices,
    spectrum,
)


def in_two_directions(n: int) -> np.ndarray:
    """n columns, the first half one direction and the rest another, orthogonal one, lengths
    unequal."""
    first, second = np.eye(6)[:2]
    return np.stack([(i + 1) * (first if i < n // 2 else second) for i in range(n)], 1)


@pytest.mark.parametrize(
    ("matrix", "signed", "both", "groups"),
    [
        (in_two_directions(8), 12 / 28, 12 / 28, 2),  # 2 * (4 choose 2) of (8 choose 2)
        (np.eye(8), 0, 0, 8),
        (np.outer(np.arange(1, 6), np.ones(8)), 1, 1, 1),
        (np.outer(np.arange(1, 6), [1.0, 1, 1, 1, -1, -1, -1, -1]), 12 / 28, 1, 2),
    ],
    ids=["two groups", "identity", "rank one", "rank one, both signs"],
)
def test_condensation_of_matrices_by_hand(matrix, signed, both, groups):
    cos = cosines(matrix.T)
    assert [*condensed_shares(cos).values()][:2] == pytest.approx([signed, both])
    found = cosine_groups(cos)
    assert found.max() + 1 == groups
    assert (np.bincount(found)[:-1] >= np.bincount(found)[1:]).all()  # by size


def test_a_neuron_of_zeros_counts_in_no_pair():
    matrix = np.concatenate([in_two_directions(8), np.zeros((6, 1))], 1)
    assert condensed_shares(cosines(matrix.T)) == pytest.approx(
        dict.fromkeys(("share", "share_abs", "abs_cos"), 12 / 28)
    )
    assert cosine_groups(cosines(matrix.T)).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert np.isnan([*condensed_shares(cosines(np.zeros((3, 4)))).values()]).all()


def test_the_null_has_mean_and_spread_of_gaussian_matrices():
    """In three dimensions a cosine is uniform, so P(|cos| > .7) = .3; the variance is that of
    independent pairs."""
    rng, n = np.random.default_rng(0), 2000
    real = [condensed_shares(cosines(matrix)) for matrix in rng.standard_normal((n, 12, 3))]
    for name, p in {"share": 0.15, "share_abs": 0.3}.items():
        shares = [of[name] for of in real]
        draws, error = gaussian_shares((3, 12), n, rng)[name].draws, np.sqrt(p * (1 - p) / 66 / n)
        assert np.mean(shares) == pytest.approx(p, abs=4 * error)
        assert np.mean(draws) == pytest.approx(p, abs=4 * error)
        assert np.var(draws) / np.var(shares) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(
    ("matrix", "participation", "stable"),
    [
        (in_two_directions(2), 25 / 17, 5 / 4),
        (np.eye(8), 8, 8),
        (np.outer(np.arange(1, 6), np.ones(8)), 1, 1),
    ],
    ids=["lengths 1 and 2", "identity", "rank one"],
)
def test_spectra_of_matrices_by_hand(matrix, participation, stable):
    assert spectrum(matrix)[:2] == pytest.approx((participation, stable))
    assert np.isnan(spectrum(0 * matrix)[:2]).all()


def test_a_random_matrix_has_the_participation_that_the_docstring_names():
    matrix = np.random.default_rng(0).standard_normal((320, 160))
    assert spectrum(matrix)[0] == pytest.approx(320 * 160 / 480, rel=0.02)


@pytest.mark.parametrize("kind", ["plain", "gpt2", "rotary", "grouped"])
def test_matrices_are_those_of_the_model_heads_joined(kind):
    model, untrained = (lens_model(kind, seed) for seed in (0, 1))
    found = layer_matrices(model, 1)
    assert {name: found[name].shape for name in ("W_Q", "W_O", "W_in", "W_out")} == {
        "W_Q": (16, 16),
        "W_O": (16, 16),
        "W_in": (16, 32),
        "W_out": (32, 16),
    }
    head = model.blocks[1].attn.W_Q[2].detach().double().numpy()
    np.testing.assert_array_equal(found["W_Q"][:, 8:12], head)
    np.testing.assert_array_equal(
        found["W_O"][8:12], model.blocks[1].attn.W_O[2].detach().double().numpy()
    )
    chosen: dict = {"matrices": ("W_Q", "W_V", "W_out")}
    for probe, options in ((weight_spectra, {}), (condensation, chosen)):
        reading = probe(model, layer=1, untrained=untrained, **options)
        assert reading.layer == 1
        assert np.isfinite([*reading.values.values(), *reading.untrained.values()]).all()
        assert probe(untrained, layer=1, **options).values == dict(reading.untrained)
    assert np.isfinite(
        list(lattice(model, tokens=range(5, 25), n_null=5).values.values())[:-1]
    ).all()


def test_a_matrix_with_one_number_missing_has_no_shares():
    model = lens_model("gpt2")
    model.blocks[1].attn.W_V.data[0, 0, 0] = np.nan
    found = condensation(model, layer=1, matrices=("W_V",), n_null=0)
    assert np.isnan([*found.values.values()]).all()
    assert "not all finite" in found.notes["share_W_V"]


@pytest.mark.parametrize("kind", ["gpt2", "grouped"])
def test_stable_ranks_of_products_are_those_of_the_full_matrices(kind: str):
    model = lens_model(kind)
    reading = weight_rank(model, layer=1, untrained=lens_model(kind, seed=1))
    attn = model.blocks[1].attn
    W_Q, W_K, W_V, W_O = (getattr(attn, f"W_{name}").detach().double().numpy() for name in "QKVO")
    full = {"stable_rank_W_QK": [], "stable_rank_W_OV": []}
    for head in range(4):
        full["stable_rank_W_QK"].append(spectrum(W_Q[head] @ W_K[head * len(W_K) // 4].T)[1])
        full["stable_rank_W_OV"].append(spectrum(W_V[head * len(W_V) // 4] @ W_O[head])[1])
    for name, ranks in full.items():
        assert reading.values[name] == pytest.approx(np.mean(ranks))
        assert reading.values[name] != pytest.approx(reading.untrained[name])
    W_in = model.blocks[1].mlp.W_in.detach().double().numpy()
    assert reading.values["stable_rank_W_in"] == pytest.approx(
        (W_in**2).sum() / np.linalg.norm(W_in, 2) ** 2
    )
    assert (reading.probe, reading.layer) == ("weight_rank", 1)
    with pytest.raises(ModelError, match="weight_rank got layer=4; this model has 4 layers"):
        weight_rank(model, layer=4)


@pytest.mark.parametrize("name", ["W_X", "W_in"])
def test_a_matrix_that_a_layer_does_not_have_is_named(name):
    model = lens_model("gpt2", attn_only=name == "W_in")
    with pytest.raises(ArgumentError, match=f"condensation got the matrix '{name}', which this"):
        condensation(model, matrices=("W_Q", name))
