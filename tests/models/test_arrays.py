"""Plain arrays in place of a model: every probe reads them, and what is missing or does not fit is
named."""

import numpy as np
import pandas as pd
import pytest
import torch
from lens_models import lens_model
from probe_cases import CASES, INPUTS, LAYERS, LENGTH

from rb_interp import probes
from rb_interp.errors import ModelError
from rb_interp.probes.embeddings import token_embeddings
from rb_interp.tasks import Inputs

TOKENS = np.random.default_rng(0).integers(0, 30, (7, 9))
BY_LAYER = ("pattern", "z", "resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")


EVEN = np.tile(np.tri(9) / np.arange(1, 10)[:, None], (7, 4, 1, 1))
"""Patterns of four heads that attend evenly."""


def arrays_of(model) -> dict:
    """Everything under its short name, as numpy arrays, from plain run_with_cache and weights."""
    with torch.no_grad():
        logits, cache = model.run_with_cache(torch.from_numpy(INPUTS.tokens))
        found = {
            name: np.stack([cache[name, layer].numpy() for layer in range(LAYERS)])
            for name in BY_LAYER
        }
        weights = ("W_E", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")
        found |= {name: getattr(model, name).detach().numpy() for name in weights}
    read = [token_embeddings(model, np.arange(30), LENGTH, layer, 0) for layer in range(LAYERS)]
    return {**found, "logits": logits.numpy(), "token_inputs": np.stack(read)}


@pytest.fixture(scope="module")
def both():
    model, untrained = (lens_model("gpt2", seed, n_layers=LAYERS) for seed in (0, 1))
    sources = [probes.from_arrays(**arrays_of(one)) for one in (model, untrained)]
    return (model, untrained), sources


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"head_circuits"}))
def test_every_probe_reads_arrays_as_it_reads_the_model(name, both):
    """Arrays have no norms and no positions, which `head_circuits` reads: it has a test of its own."""
    (model, untrained), (source, before) = both
    probe, options = getattr(probes, name), {"n_null": 5, **CASES[name]}
    expected = probe(model, INPUTS, untrained=untrained, **options)
    found = probe(source, INPUTS, untrained=before, **options)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-9, atol=1e-12)
    assert found.notes == expected.notes
    for key, array in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[key], array, rtol=1e-6, atol=1e-9)


@pytest.mark.lens
def test_full_names_layers_in_a_mapping_tensors_and_a_cache_of_one_s_own_do_as_well(both):
    (model, _), _ = both
    arrays = arrays_of(model)
    expected = probes.uniformity(model, INPUTS, layer=1).values
    pattern = torch.from_numpy(arrays["pattern"][1])
    for given in (
        {"blocks.1.attn.hook_pattern": pattern},
        {("pattern", 1): pattern},
        {"pattern": {1: pattern}},
        dict(model.run_with_cache(torch.from_numpy(INPUTS.tokens))[1].cache_dict),
    ):
        assert probes.uniformity(probes.from_arrays(given), INPUTS, layer=1).values == expected


def test_an_embedding_alone_is_a_model_without_attention():
    W_E = np.random.default_rng(0).standard_normal((30, 8))
    found = probes.geometry(probes.from_arrays(W_E=W_E), INPUTS, n_null=0)
    low = W_E[:6] / np.linalg.norm(W_E[:6], axis=1, keepdims=True)
    assert found.values["cos_low"] == pytest.approx((low @ low.T)[np.triu_indices(6, 1)].mean())


def test_residuals_alone_do_where_no_head_is_read(both):
    (model, _), _ = both
    arrays = arrays_of(model)
    source = probes.from_arrays(
        {name: arrays[name] for name in ("resid_pre", "attn_out", "mlp_out", "resid_post")}
    )
    parts = {"first token": INPUTS.tokens[:, 0] % 2}
    found, expected = (
        probes.variance_explained(one, INPUTS, groupings=parts, n_null=0) for one in (source, model)
    )
    assert found.values == pytest.approx(dict(expected.values), abs=1e-6)
    with pytest.raises(ModelError, match="no 'blocks.0.attn.hook_pattern'"):
        probes.uniformity(source, INPUTS)


@pytest.mark.parametrize(
    ("leave_out", "name", "message"),
    [
        (
            "pattern",
            "uniformity",
            r"no 'blocks.1.attn.hook_pattern' \[row, head, query, key\]; add it to from_arrays",
        ),
        (
            "token_inputs",
            "value_alignment",
            r"no 'blocks.1.token_inputs' \[d_vocab, d_model\]; add it",
        ),
    ],
)
def test_what_is_missing_is_named(leave_out, name, message, both):
    arrays = {key: value for key, value in arrays_of(both[0][0]).items() if key != leave_out}
    with pytest.raises(ModelError, match=message):
        getattr(probes, name)(probes.from_arrays(arrays), INPUTS, **CASES[name])


def test_arrays_are_shown_by_their_names(both):
    assert repr(both[1][0]).startswith("Arrays(2 layers: W_E, W_K, ")


def test_what_does_not_fit_is_refused(both):
    source = both[1][0]
    with pytest.raises(
        ModelError, match="rows that sum to 4 to 4; expected attention after its softmax"
    ):
        probes.from_arrays(pattern=np.ones((1, 2, 3, 4, 4)))
    with pytest.raises(ModelError, match=r"of shape \[30, 4, 9, 9\] and the rows are \[3, 9\]"):
        probes.uniformity(source, INPUTS.take(np.arange(3)))


@pytest.mark.parametrize(
    "other",
    [
        {"z": [np.ones((7, 9, 2, 3))]},
        {"W_O": [np.ones((2, 3, 5))]},
        {"pattern": [EVEN, EVEN[:, :2]]},
    ],
)
def test_arrays_of_models_with_other_numbers_of_heads_are_refused(other):
    """Whichever comes first, in one layer or in another; values that heads share are fewer, and
    fit."""
    for given in ({"pattern": [EVEN]} | other, other | {"W_Q": [np.ones((4, 5, 3))]}):
        with pytest.raises(ModelError, match="from_arrays got 4 heads, and other numbers in"):
            probes.from_arrays(given)
    source = probes.from_arrays(v=[np.ones((7, 9, 2, 3))], W_V=[np.ones((2, 5, 3))], pattern=[EVEN])
    assert probes.uniformity(source, Inputs(TOKENS), head=3, n_null=0).values[
        "tv"
    ] == pytest.approx(0)


def test_attention_of_no_layer_is_refused_and_says_why():
    """As a model of transformers gives it unless its attention is computed in plain steps."""
    with pytest.raises(
        ModelError, match="from_arrays got pattern of no layer; .* attn_implementation='eager'"
    ):
        probes.from_arrays(pattern=())


def test_an_unembedding_is_taken_and_what_is_not_is_not_asked_for():
    """Nobody is sent to from_arrays for what it does not know."""
    W_U = np.ones((5, 7))
    source = probes.from_arrays(W_E=np.ones((7, 5)), W_U=W_U)
    assert source.W_U.tolist() == W_U.tolist()
    with pytest.raises(ModelError, match=r"no 'unembed.W_U' \[d_model, d_vocab\]; add it to"):
        _ = probes.from_arrays(W_E=np.ones((7, 5))).W_U
    with pytest.raises(
        ModelError, match="arrays in place of a model have no 'W_pos', only pattern"
    ):
        _ = source.W_pos
    with pytest.raises(ModelError, match="from_arrays does not know 'W_pos'"):
        probes.from_arrays(W_pos=np.ones((3, 5)))
