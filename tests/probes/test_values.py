"""Value alignment: planted matrices, centring by hand, the null, which embedding is read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lens_models import lens_model, read_weights
from scipy.stats import kstest

from rb_interp.models.protocol import write_weights
from rb_interp.probes import from_arrays, value_alignment
from rb_interp.probes.embeddings import token_embeddings
from rb_interp.probes.values import value_matrix, value_svd
from rb_interp.tasks.inputs import Inputs

N, EVEN = 60, np.tri(9) / np.arange(1, 10)[:, None]

TOKENS = np.zeros((2, 6), int)
CONTRAST = ("reasoning", "memory")


def alignment(W_V: np.ndarray, vectors: dict, W_O=None, n_null: int = 0, seed: int = 0, **options):
    """The reading of one head with this W_V, on groups with these embeddings."""
    ids = np.split(
        np.arange(sum(map(len, vectors.values()))), np.cumsum([*map(len, vectors.values())])[:-1]
    )
    rows, W_O = (
        np.concatenate([*vectors.values()]),
        np.eye(*W_V.shape[::-1]) if W_O is None else W_O,
    )
    source = from_arrays(W_V=W_V[None, None], W_O=W_O[None, None], token_inputs=rows)
    options = {"contrast": CONTRAST, "groups": dict(zip(vectors, ids, strict=True)), **options}
    return value_alignment(source, Inputs(TOKENS), n_null=n_null, seed=seed, **options)


def test_planted_rank_one_value_matrix():
    """W_V = a b^T with a along the reasoning anchors: 1 with them, 0 with the orthogonal memory
    anchors and keys."""
    e = np.eye(6)
    vectors = {
        "key": np.array([e[1], -e[1]]),
        "memory": np.array([e[2], -2 * e[2]]) + e[2] / 2,
        "reasoning": np.array([3 * e[0], -3 * e[0]]),
    }
    found = alignment(np.outer(e[0], [0.6, 0.0, 0.8]), vectors, k=1)
    values, arrays = found.values, found.arrays
    ones = (
        "cos_reasoning",
        "cos_gap",
        "cos_reasoning_within",
        "cos_reasoning_raw",
        "subspace_reasoning",
    )
    zeros = (
        "cos_memory",
        "cos_key",
        "cos_memory_within",
        "cos_memory_raw",
        "cos_key_raw",
        "subspace_memory",
    )
    assert {name: values[name] for name in ones} == pytest.approx(dict.fromkeys(ones, 1.0))
    assert {name: values[name] for name in zeros} == pytest.approx(
        dict.fromkeys(zeros, 0.0), abs=1e-12
    )
    assert values["spectrum_ratio"] > 1e12
    np.testing.assert_allclose(arrays["cosines"], [[0, 0, 0, 0, 1, -1]], atol=1e-12)


def test_signs_and_order_of_singular_vectors_do_not_matter():
    """u and -u are the same singular vector: the reading of -W_V is that of W_V, and reasoning
    anchors lie ahead."""
    rng = np.random.default_rng(0)
    vectors = {
        name: rng.standard_normal((m, 12))
        for name, m in (("key", 8), ("memory", 4), ("reasoning", 4))
    }
    W_V = rng.standard_normal((12, 6))
    found, flipped = (alignment(matrix, vectors) for matrix in (W_V, -W_V[:, ::-1]))
    of_W_V = [name for name in found.values if not name.startswith("ov_")]
    assert [found.values[name] for name in of_W_V] == pytest.approx(
        [flipped.values[name] for name in of_W_V]
    )
    np.testing.assert_allclose(found.arrays["cosines"], flipped.arrays["cosines"], atol=1e-12)
    assert (found.arrays["cosines"][:, -4:].mean(1) >= 0).all()


def test_centring_by_hand():
    """What all tokens share counts in the raw cosine and not in the centred one; anchors have a
    mean of their own."""
    shared, x, y = 10 * np.eye(4)[3], np.eye(4)[0], np.eye(4)[1]
    vectors = {
        "key": np.array([shared - 2 * x]),
        "memory": np.array([shared]),
        "reasoning": np.array([shared + 2 * x]),
    }
    values = alignment(np.outer(x, [1.0, 0]) + np.outer(y, [0, 0.5]), vectors, k=2).values
    assert values["spectrum_ratio"] == pytest.approx(2)
    assert values["cos_reasoning_raw"] == pytest.approx(2 / np.sqrt(104))
    assert (values["cos_reasoning"], values["cos_memory"], values["cos_key"]) == pytest.approx(
        (1, 0, 1)
    )
    assert values["cos_memory_within"] == pytest.approx(
        1
    )  # the two anchors lie at -x and +x from their own mean


@pytest.mark.wide
def test_p_values_are_uniform_for_a_random_value_matrix():
    n, rng = 60, np.random.default_rng(0)
    vectors = {
        name: rng.standard_normal((m, 12)) + 1
        for name, m in (("key", 8), ("memory", 4), ("reasoning", 4))
    }
    names = ("spectrum_ratio", "cos_reasoning", "cos_gap", "cos_memory_raw", "subspace_key")
    p_values = {name: [] for name in names}
    for seed in range(n):
        found = alignment(rng.standard_normal((12, 6)), vectors, n_null=99, seed=seed, k=2)
        for name in names:
            p_values[name].append(found.nulls[name].p_value(found.values[name]))
    for name in names:
        assert kstest(p_values[name], "uniform").statistic < 1.63 / np.sqrt(n) + 1 / 100, name


@pytest.mark.parametrize("layer", [0, 2])
def test_residual_stream_readers_give_the_embedding_matrix(layer):
    model = lens_model("plain")
    found = token_embeddings(model, np.array([5, 7]), 6, layer, 1)
    np.testing.assert_array_equal(found, model.W_E[[5, 7]].detach().double().numpy())


def test_pre_norm_reads_the_normalised_embedding():
    """By hand: LayerNorm, with its weight and bias, of W_E[t] + W_pos[p], averaged over p."""
    model = lens_model("gpt2")
    W_E, W_pos = model.W_E.detach().double(), model.W_pos.detach().double()
    named = {
        name: p.detach().double()
        for name, p in model.named_parameters()
        if "0" in name and "ln1" in name
    }
    weight = next(p for name, p in named.items() if name.endswith((".w", ".weight")))
    bias = next(p for name, p in named.items() if name.endswith((".b", ".bias")))
    expected = torch.nn.functional.layer_norm(
        W_E[[5, 7], None] + W_pos[None, :6], (16,), weight, bias, 1e-5
    ).mean(1)
    assert not torch.allclose(weight, torch.ones(16).double())
    assert bias.abs().max() > 0.1
    np.testing.assert_allclose(
        token_embeddings(model, np.array([5, 7]), 6, 0, 1), expected.numpy(), atol=1e-5
    )


def test_a_head_without_values_reads_what_the_others_read():
    model = lens_model("gpt2")
    read = token_embeddings(model, np.array([5, 7]), 6, 0, 1)
    weights = read_weights(model)
    for name in ("blocks.0.attn.W_V", "blocks.0.attn.b_V"):
        weights[name][1] = 0
    write_weights(model, weights)
    np.testing.assert_allclose(token_embeddings(model, np.array([5, 7]), 6, 0, 1), read)


def test_one_group_has_nothing_to_contrast_and_every_quantity_has_a_null():
    model, untrained = lens_model("plain"), lens_model("plain", seed=1)
    found = value_alignment(
        model, Inputs(TOKENS), groups={"hour": [3, 4]}, n_null=2, untrained=untrained
    )
    alone = ["spectrum_ratio", "cos_hour", "cos_hour_raw", "subspace_hour"]
    assert list(found.values) == [*alone, *(f"ov_{name}" for name in alone)]
    assert found.nulls.keys() == found.values.keys() == found.untrained.keys()


@pytest.mark.parametrize("kind", ["plain", "grouped"])
def test_the_ov_matrix_has_the_spectrum_and_the_directions_of_the_product(kind):
    model = lens_model(kind)
    for head in (0, 3):
        W_V, W_O = (
            value_matrix(model, layer=1, head=head),
            model.W_O[1, head].detach().double().numpy(),
        )
        U, S, _ = np.linalg.svd(W_V @ W_O)
        found = value_svd(W_V, W_O)[1]
        np.testing.assert_allclose(found[1], S[:4], rtol=1e-5)
        np.testing.assert_allclose(np.abs((found[0] * U[:, :4]).sum(0)), 1, rtol=1e-5)


def test_what_the_head_passes_on_decides_between_directions_that_it_reads_alike():
    """W_V reads two directions alike; W_O lets three times as much of the second through."""
    e = np.eye(6)
    W_O = np.diag([1.0, 3]) @ np.eye(2, 6)
    values = alignment(
        e[:, :2],
        {"reasoning": e[[0, 0]] * [[1], [-1]], "memory": e[[1, 1]] * [[1], [-1]]},
        W_O,
        k=1,
    ).values
    ov = {
        name: values[f"ov_{name}"]
        for name in ("spectrum_ratio", "cos_memory", "cos_reasoning", "cos_gap")
    }
    assert ov == pytest.approx(
        {"spectrum_ratio": 3, "cos_memory": 1, "cos_reasoning": 0, "cos_gap": -1}
    )
    assert values["spectrum_ratio"] == pytest.approx(1)
