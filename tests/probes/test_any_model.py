"""Every probe on models that somebody else trained: many layers and heads, no rb_interp in how they
are built."""

import lens_models
import numpy as np
import pytest
import torch
from lens_models import bridged, encoder, lens_model, transformers_model

from rb_interp.errors import ModelError
from rb_interp.interventions import patching_matrix
from rb_interp.interventions.subspaces import token_basis
from rb_interp.models.structure import visible
from rb_interp.probes import (
    attention_by_role,
    captured,
    geometry,
    scan,
    uniformity,
    value_alignment,
    variance_explained,
    weight_rank,
    weight_spectra,
)
from rb_interp.probes.activations import capture
from rb_interp.probes.embeddings import cosines, mean_off_diagonal, token_embeddings
from rb_interp.probes.values import value_matrix
from rb_interp.tasks import AnchorTask, Inputs
from rb_interp.tasks.inputs import Roles

TASK = AnchorTask(
    length=9,
    keys=(11, 20),
    memory_anchors=(1, 3),
    reasoning_anchors=(5, 8),
    masked=(),
    d_vocab=40,
    n_sequences=400,
)
DATA = TASK.dataset(0)
ROWS = DATA.rows("rsn_train")


class Nothing(torch.nn.Module):
    """What stands in the place of attention and writes nothing."""

    def forward(self, **given):
        return torch.zeros_like(given["query_input"])


BY_HEAD = (uniformity, value_alignment, attention_by_role)


@pytest.mark.lens
@pytest.mark.parametrize("family", ["Qwen3", "Gemma2"])
def test_a_bridged_model_without_biases_is_read_as_transformers_computes_it(family):
    """Against transformers' own modules: what attention is given for each token, and what the last
    head's W_V is."""
    theirs = transformers_model(family)
    layer = theirs.model.layers[0]
    with torch.no_grad():
        read = (
            layer.input_layernorm(theirs.get_input_embeddings()(torch.arange(30))).double().numpy()
        )
    W_V = (
        layer.self_attn.v_proj.weight.detach().double().T.numpy()[:, 4:]
    )  # of the second group's four dimensions
    model, inputs = (
        bridged(theirs),
        Inputs(np.zeros((1, 5), dtype=int), roles=Roles(tokens={"all": np.arange(30)})),
    )
    assert token_embeddings(model, np.arange(30), 5, 0, 3) == pytest.approx(read, abs=1e-4)
    assert np.array_equal(value_matrix(model, head=3), W_V)
    singular = np.linalg.svd(W_V)[1]
    found = value_alignment(model, inputs, head=3, n_null=0).values
    assert found["spectrum_ratio"] == pytest.approx(singular[0] / singular[1])
    assert geometry(model, inputs, head=3, n_null=0).values["cos_all"] == pytest.approx(
        mean_off_diagonal(cosines(read)), abs=1e-4
    )


@pytest.mark.lens
def test_what_a_model_has_is_asked_of_each_layer():
    """The middle one of three layers has no attention, as in a model of several kinds of layers."""
    model = lens_model("gpt2", n_layers=3, d_vocab=40)
    if not hasattr(model, "setup"):
        pytest.skip("a module of a bridge of TransformerLens 4 is not taken off")
    model.blocks[1].attn, model.blocks[1].hook_attn_out = Nothing(), torch.nn.Identity()
    model.setup()
    inputs = DATA.inputs(ROWS)
    for probe in (*BY_HEAD, weight_rank, weight_spectra):
        with pytest.raises(
            ModelError, match=r"got layer=1; this model has attention in the layers \[0, 2\] alone"
        ):
            probe(model, inputs, layer=1)
    assert sorted(set(scan(uniformity, model, inputs, n_null=0).layer)) == [0, 2]
    assert [*captured(model, inputs.tokens).cache_dict] == [
        f"blocks.{at}.attn.hook_pattern" for at in (0, 2)
    ]
    outputs = {"attn_out.0", "mlp_out.0", "mlp_out.1", "attn_out.2", "mlp_out.2"}
    for head in (None, 1):
        values = variance_explained(
            model, inputs, head=head, groupings={"a": ROWS % 2}, n_null=0
        ).values
        assert {name.split(":")[0] for name in values} - {"resid_pre.0", "resid_post.2"} == outputs


@pytest.mark.parametrize("layer", [0, 1])
def test_an_encoder_s_embedding_is_read_as_it_enters_the_first_layer(layer):
    """BERT normalises the sum of its three embeddings, before any layer."""
    model = encoder()
    with torch.no_grad():
        every = model.W_E[:, None] + model.W_pos[:5] + model.embed.token_type_embed.W_token_type[0]
        normal = torch.nn.functional.layer_norm(
            every, (16,), model.embed.ln.w, model.embed.ln.b, model.cfg.eps
        )
    expected = normal.double().mean(1).numpy()
    assert token_embeddings(model, np.arange(30), 5, layer, 3) == pytest.approx(expected, abs=1e-5)
    inputs = Inputs(np.zeros((1, 5), dtype=int), roles=Roles(tokens={"all": np.arange(30)}))
    assert geometry(model, inputs, layer=layer, n_null=0).values["cos_all"] == pytest.approx(
        mean_off_diagonal(cosines(expected)), abs=1e-5
    )


@pytest.mark.lens
@pytest.mark.parametrize("setting", ["use_split_qkv_input", "use_attn_in"])
@pytest.mark.parametrize("kind", ["grouped", "GPTNeoX"])
def test_an_own_input_of_each_head_changes_no_number(kind, setting):
    model = bridged(transformers_model(kind)) if kind == "GPTNeoX" else lens_model(kind, n_layers=2)
    roles = Roles({"key": np.array([[0], [2], [1]])}, {"all": np.arange(30)})
    tokens = np.random.default_rng(0).integers(0, 30, (2, 3, 6))
    first, second = (Inputs(rows, np.arange(3) + i, roles) for i, rows in enumerate(tokens))

    def numbers():
        readings = [
            probe(model, first, layer=1, head=3, n_null=0)
            for probe in (value_alignment, geometry, uniformity)
        ]
        found = [
            *(list(reading.values.values()) for reading in readings),
            token_basis(model, first, "all"),
        ]
        components = ("resid_pre", "q", "v", "z", "mlp_out")
        matrix = patching_matrix(model, first, second, components=components, roles=("key", "last"))
        return [*found, matrix.values.ravel()]

    before = numbers()
    try:
        getattr(model, f"set_{setting}")(True)
    except (NotImplementedError, AssertionError):
        pytest.skip("TransformerLens does not give this kind of model such inputs")
    for old, new in zip(before, numbers(), strict=True):
        assert new == pytest.approx(old, abs=1e-4, nan_ok=True)


@pytest.mark.lens
@pytest.mark.parametrize(
    "probe", [*BY_HEAD, variance_explained, geometry], ids=lambda probe: probe.__name__
)
def test_the_order_of_rows_changes_nothing(probe):
    model = lens_model("gpt2", d_vocab=40)
    shuffled = np.random.default_rng(0).permutation(ROWS)
    first = probe(model, DATA.inputs(ROWS), n_null=0).values
    second = probe(model, DATA.inputs(shuffled), n_null=0).values
    assert first == pytest.approx(second, rel=1e-5, abs=1e-7, nan_ok=True)


@pytest.mark.lens
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        *(
            (name, {"num_key_value_heads": 2, "sliding_window": 3})
            for name in ("Gemma2", "Mistral")
        ),
        ("Bert", {}),
    ],
)
def test_what_a_query_sees_in_a_model_of_transformers(family, settings, monkeypatch):
    """A sliding window, or every position in an encoder, whose bridge says that it is causal."""
    monkeypatch.setitem(lens_models.TRANSFORMERS, family, settings)
    model, tokens = bridged(transformers_model(family)), torch.arange(18).reshape(2, 9)
    for layer in range(2):
        hook = f"blocks.{layer}.attn.hook_pattern"
        seen = (capture(model, tokens, [hook])[hook] > 0).all(0).all(0).numpy()
        assert np.array_equal(visible(model, layer, 9), seen)
