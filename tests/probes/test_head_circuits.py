"""What weights of heads copy, match and read: by hand, against matrices of full size, and of the zoo's
known induction heads."""

from typing import Any

import numpy as np
import pytest
import torch
from induction import INDUCTION, OTHER, PREVIOUS, known
from lens_models import KINDS, bridged, encoder, lens_model, read_weights, transformers_model
from scipy.stats import binom, ks_2samp, ortho_group
from test_null_calibration import untrained

import rb_interp as rb
from rb_interp.errors import ModelError
from rb_interp.models.architectures import PostNormTransformer
from rb_interp.models.protocol import write_weights
from rb_interp.probes import capture, head_circuits, scan
from rb_interp.tasks import AnchorTask

COMPOSITIONS = ("q_composition", "k_composition", "v_composition")


def arrays(W_OV, n_layers=1, **more):
    """A source of one head whose W_OV is given, in a stream with a coordinate for each token."""
    one = np.eye(len(W_OV))
    given: dict[str, Any] = {"W_V": one, "W_O": W_OV, "W_Q": one, "W_K": one, **more}
    layers: dict[str, Any] = {
        name: np.tile(matrix, (n_layers, 1, 1, 1)) for name, matrix in given.items()
    }
    return rb.from_arrays(W_E=one, W_U=one, **layers)


ONE = np.eye(6)
GIVEN = {"W_E": ONE, **dict.fromkeys(("W_V", "W_Q", "W_K"), ONE[None, None])}


@pytest.mark.parametrize(
    ("W_OV", "copying"),
    [(np.eye(6), 1), (-np.eye(6), -1), (np.roll(np.eye(6), 1, 1), -1 / 5)],
    ids=["identity", "minus identity", "the next token"],
)
def test_copying_by_hand(W_OV, copying):
    """The roots of unity but for 1, which the mean over tokens takes, sum to -1."""
    reading = head_circuits(arrays(W_OV), n_null=20)
    assert reading.values["copying"] == pytest.approx(copying)
    assert np.sort(np.abs(reading.arrays["eigenvalues"])) == pytest.approx([0, 1, 1, 1, 1, 1])
    assert (reading.nulls["copying"].p_value(reading.values["copying"]) == 1 / 21) == (copying == 1)


def test_a_vector_added_to_every_column_of_w_u_changes_nothing():
    """The softmax does not see it, where W_U has fewer tokens than W_E too."""
    W_OV, W_U = np.random.default_rng(0).normal(size=(2, 6, 6))
    plain, moved = (
        head_circuits(rb.from_arrays(**{**GIVEN, "W_O": W_OV[None, None]}, W_U=answers), n_null=0)
        for answers in (W_U[:, :4], W_U[:, :4] + np.arange(6)[:, None])
    )
    assert plain.values["copying"] == pytest.approx(moved.values["copying"])
    assert abs(plain.values["copying"]) > 0.01


def test_random_bases_have_no_sign():
    """The trace of a random rotation is 0 on average; LAPACK's own signs give it a mean."""
    null = head_circuits(arrays(np.eye(6)), n_null=600).nulls["copying"]
    assert abs(null.mean) < 4 * null.sd / 600**0.5


@pytest.mark.lens
def test_draws_are_those_of_heads_with_random_bases():
    """Of one distribution with what the probe reads if the head's weights are turned at random."""
    model, n, rng = untrained(0.5, 3), 150, np.random.default_rng(0)
    reading = head_circuits(model, layer=1, head=1, n_null=n)
    weights = [getattr(model.blocks[1].attn, f"W_{name}").data[1] for name in "VOQK"]
    start = [weight.clone() for weight in weights]
    turned = []
    for _ in range(n):
        for weight, value, turn in zip(weights, start, ortho_group.rvs(64, 4, rng), strict=True):
            turn = torch.from_numpy(turn).float()
            weight.copy_(value @ turn if weight is weights[1] else turn @ value)
        turned.append(head_circuits(model, layer=1, head=1, n_null=0).values)
    for name, null in reading.nulls.items():
        drawn = [values[name] for values in turned]
        assert ks_2samp(null.draws, drawn).pvalue > 0.001, name


def test_a_scan_draws_what_each_head_draws_alone():
    model = untrained(0.5, 3)
    table = scan(head_circuits, model, n_null=19).set_index(["layer", "head", "quantity"])
    for layer, head in np.ndindex(2, model.cfg.n_heads):
        alone = head_circuits(model, layer=layer, head=head, n_null=19)
        for name, null in alone.nulls.items():
            expected = pytest.approx([null.mean, null.sd], nan_ok=True)
            assert [*table.loc[(layer, head, name), ["null_mean", "null_sd"]]] == expected


def test_composition_by_hand():
    """L0 writes the first coordinate from the second; L1's queries read it, and nothing else does."""
    first, second, third = np.eye(6)[:3]
    written, read = np.outer(second, first), np.outer(first, third)
    source = rb.from_arrays(
        W_E=np.eye(6),
        W_U=np.eye(6),
        W_V=np.stack([written[None], np.outer(third, third)[None]]),
        W_O=np.tile(np.eye(6), (2, 1, 1, 1)),
        W_Q=np.tile(read, (2, 1, 1, 1)),
        W_K=np.tile(np.eye(6), (2, 1, 1, 1)),
    )
    reading = head_circuits(source, layer=1, n_null=0)
    assert [reading.values[name] for name in COMPOSITIONS] == pytest.approx([1, 0, 0])
    assert reading.arrays["q_composition"].shape == (1, 1)


def folded(model, norm, offset=0.0):
    """What a norm's output is of the stream, but for its length, [d_model, d_model]."""
    d_model, kind = model.cfg.d_model, model.cfg.normalization_type
    weight = getattr(norm, "w", None)
    gain = torch.ones(d_model) if weight is None else weight.detach() + offset
    centred = np.eye(d_model) - ((kind or "").startswith("LN")) / d_model
    return centred * gain.double().numpy()


def read_by(model, layer):
    """The norm before a layer's attention, or before the unembedding; None for none."""
    if isinstance(model, PostNormTransformer):
        return model.blocks[layer - 1].ln2 if layer else None
    at_end = layer == len(model.blocks)
    return getattr(model, "ln_final", None) if at_end else model.blocks[layer].ln1


def heads(model, layer, offset=0.0):
    """W_OV and W_QK of full size of each head, behind the norm, and what is written less LayerNorm's
    mean."""
    block, norm = model.blocks[layer], read_by(model, layer)
    read = np.eye(model.cfg.d_model) if norm is None else folded(model, norm, offset)
    write = folded(model, getattr(block, "ln1_post", None), offset)
    n_heads = model.cfg.n_heads
    W_Q, W_K, W_V, W_O = (
        getattr(block.attn, f"W_{name}").detach().double().numpy() for name in "QKVO"
    )
    group = np.arange(n_heads) * len(W_K) // n_heads
    return read @ W_V[group] @ W_O @ write, read @ W_Q @ W_K[group].swapaxes(1, 2) @ read.T


def positivity(matrix):
    eigenvalues = np.linalg.eigvals(matrix)
    return eigenvalues.sum().real / np.abs(eigenvalues).sum()


def made(kind):
    """A model of two layers of four heads, every weight of which is away from its default."""
    if kind == "post":
        sizes: dict[str, Any] = {"n_heads": 4, "d_model": 16, "d_head": 4, "d_mlp": 8}
        model: Any = rb.build_model(AnchorTask(), gamma=0.5, norm="post", **sizes)
        rng = torch.Generator().manual_seed(0)
        for weight in model.parameters():
            weight.data += 0.3 * torch.randn(weight.shape, generator=rng)
        return model
    return lens_model(kind, n_layers=2) if kind in KINDS else bridged(transformers_model(kind))


@pytest.mark.lens
@pytest.mark.parametrize("kind", [*KINDS, "post", "Gemma2", "GPTNeoX"])
def test_numbers_are_those_of_matrices_of_full_size(kind):
    """Vocabulary by vocabulary, whatever the norm and however queries are grouped."""
    model = made(kind)
    offset = float(kind == "Gemma2")  # which stores a norm's weight less 1
    reading = head_circuits(model, layer=1, head=2, n_null=0)
    W_E, W_U = (getattr(model, name).detach().double().numpy() for name in ("W_E", "W_U"))
    E = W_E - W_E.mean(0)
    (W_OV, W_QK), (before, looks) = heads(model, 1, offset), heads(model, 0, offset)
    out = folded(model, read_by(model, len(model.blocks)), offset)
    expected = {"copying": positivity(E @ W_OV[2] @ out @ W_U)}
    of_earlier = {
        "q_composition": before @ W_QK[2],
        "k_composition": before @ W_QK[2].T,
        "v_composition": before @ W_OV[2],
    }
    for name, products in of_earlier.items():
        of = W_OV[2] if name == "v_composition" else W_QK[2]
        shares = np.linalg.norm(products, axis=(1, 2)) / np.linalg.norm(before, axis=(1, 2))
        expected[name] = (shares / np.linalg.norm(of)).max()
    if model.cfg.positional_embedding_type == "rotary":
        turned = ("previous_token", "induction", *COMPOSITIONS[:2])
        assert {name for name, value in reading.values.items() if np.isnan(value)} == {*turned}
        assert reading.notes.keys() == {*turned}
        expected = {name: expected[name] for name in ("copying", "v_composition")}
    else:
        scans = scan(head_circuits, model, layers=[0], n_null=0)
        best = int(scans[scans.quantity == "previous_token"].value.argmax())
        expected["induction"] = positivity(E @ W_QK[2] @ before[best].T @ E.T)
        assert looks.shape == (4, 16, 16)
    assert {name: reading.values[name] for name in expected} == pytest.approx(expected, abs=1e-4)


@pytest.mark.lens
@pytest.mark.parametrize(
    ("kind", "settings"),
    [("plain", {}), ("plain", {"use_attn_scale": False}), ("gpt2", {}), ("folded", {})],
)
def test_previous_token_is_the_attention_of_a_model_with_one_token(kind, settings):
    """Positions of equal length, no biases: then LayerNorm's scale is one number."""
    model = lens_model(kind, **settings)
    weights = {
        name: torch.zeros_like(value) if ".b" in name else value
        for name, value in read_weights(model).items()
    }
    positions = torch.tensor([[1.0, -1.0]]) * torch.eye(12, 8)[..., None]
    positions[8:] = -positions[:4]
    weights["pos_embed.W_pos"] = 3 * positions.reshape(12, 16)
    weights["embed.W_E"] = torch.zeros(30, 16)
    write_weights(model, weights)
    hook = "blocks.0.attn.hook_pattern"
    pattern = capture(model, np.zeros((1, 12), int), [hook])[hook][0].double().numpy()
    expected = np.diagonal(pattern, -1, 1, 2).mean(1)
    found = scan(head_circuits, model, layers=[0], n_null=0).query("quantity == 'previous_token'")
    assert np.ptp(expected) > 0.02
    assert found.value.to_numpy() == pytest.approx(expected, abs=1e-4)


@pytest.mark.lens
def test_previous_token_by_hand_in_a_window_and_behind_no_norm():
    """Post-norm has none before L0, which reads the mean over coordinates too."""
    local = lens_model("plain", use_local_attn=True, attn_types=["local"] * 4, window_size=3)
    post = made("post")
    post.pos_embed.W_pos.data += torch.linspace(-2, 2, 9)[:, None]
    for model in (local, post):
        x = (model.W_E.mean(0) + model.W_pos).detach().double()
        W_Q, W_K = (getattr(model.blocks[0].attn, name)[2].double() for name in ("W_Q", "W_K"))
        hook = "blocks.0.attn.hook_pattern"
        seen = capture(model, np.zeros((1, len(x)), int), [hook])[hook][0, 2] > 0
        pattern = (x @ W_Q @ (x @ W_K).T / 2).where(seen, -torch.inf).softmax(-1)
        found = head_circuits(model, head=2, n_null=0).values["previous_token"]
        assert found == pytest.approx(pattern.diagonal(-1).mean().item(), abs=1e-5)


@pytest.mark.lens
def test_embeddings_are_read_behind_a_norm_of_their_own():
    bloom, other = lens_model("gpt2", post_embedding_ln=True), lens_model("gpt2")
    if not hasattr(bloom.embed, "ln"):
        pytest.skip("this generation of TransformerLens builds no such model from a configuration")
    weights = read_weights(bloom)
    normalised = bloom.embed.ln(bloom.W_E[:, None])[:, 0].detach()
    shared = {name: weights[name] for name in read_weights(other)}
    write_weights(other, shared | {"embed.W_E": normalised})
    found, same = (head_circuits(model, layer=1, n_null=0).values for model in (bloom, other))
    assert found == pytest.approx(same, abs=1e-5)


@pytest.mark.lens
def test_norms_behind_the_sublayers_are_refused():
    olmo = lens_model("rotary", original_architecture="Olmo2ForCausalLM")
    with pytest.raises(ModelError, match="has its norms behind its sublayers"):
        head_circuits(olmo)


@pytest.mark.parametrize(("shift", "share"), [(1, 1), (0, 0)])
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_a_previous_token_head_by_hand(norm, shift, share):
    """Each position asks for the one before, or for itself."""
    model = rb.build_model(AnchorTask(), gamma=0.8, norm=norm)
    W_pos, W_Q = torch.eye(9, 64), torch.zeros(1, 64, 32)
    W_Q[0, :9, :9] = 500 * torch.eye(9)
    W_K = torch.zeros(1, 64, 32)
    W_K[0, torch.arange(9 - shift), torch.arange(shift, 9)] = 1
    by_hand = {"pos_embed.W_pos": W_pos}
    by_hand |= {"blocks.0.attn.W_Q": W_Q, "blocks.0.attn.W_K": W_K}
    write_weights(model, read_weights(model) | by_hand)
    reading = head_circuits(model, n_null=20)
    assert reading.values["previous_token"] == pytest.approx(share, abs=0.05)
    assert (reading.to_frame().p_value[1] == 1 / 21) == bool(share)


def test_the_zoo_s_induction_heads_are_told_from_others():
    found = scan(head_circuits, known().model, untrained=known().untrained, n_null=39)
    table = found.set_index(["layer", "head", "quantity"])
    value, p = table.value, table.p_value
    assert value[(*PREVIOUS, "previous_token")] > 0.25
    assert value[(*OTHER, "previous_token")] < 0.12
    for layer, head in INDUCTION:
        for name in ("copying", "induction", "k_composition"):
            assert p[layer, head, name] == 1 / 40
        assert min(value[layer, head, "copying"], value[layer, head, "induction"]) > 0.95
        assert p[layer, head, "q_composition"] > 0.5
        k = head_circuits(known().model, layer=layer, head=head, n_null=0).arrays["k_composition"]
        assert np.unravel_index(k.argmax(), k.shape) == PREVIOUS
    assert table.untrained.loc[1].drop(index="previous_token", level=1).abs().max() < 0.4
    assert found.note[found.layer == 0].str.contains("no earlier layer has heads").sum() == 8


@pytest.mark.parametrize(
    "make", [encoder, lambda: architecture("emb_mlp"), lambda: architecture("one_layer")]
)
def test_what_has_no_such_circuits_is_refused(make):
    with pytest.raises(ModelError, match="head_circuits (reads W_U|looks at layers)"):
        head_circuits(make())


def architecture(name):
    config = rb.ModelConfig(architecture=name, n_layers=1, act="tanh", d_model=200)
    return rb.build_model(AnchorTask(), gamma=0.8, config=config)


def test_arrays_that_are_missing_are_named():
    with pytest.raises(ModelError, match=r"no 'blocks.0.attn.W_Q' .*; add it to from_arrays"):
        head_circuits(
            rb.from_arrays(
                W_E=np.eye(4), W_U=np.eye(4), W_V=np.ones((1, 1, 4, 2)), W_O=np.ones((1, 1, 2, 4))
            )
        )


@pytest.mark.wide
@pytest.mark.lens
def test_p_of_untrained_models_is_small_in_five_of_a_hundred():
    """300 heads, with 19 draws each: the smallest p has a chance of .05."""
    tables = [scan(head_circuits, untrained(0.5, seed), n_null=19, seed=seed) for seed in range(40)]
    for name in tables[0].quantity.unique():
        p = np.concatenate([table.p_value[table.quantity == name] for table in tables])
        p = p[np.isfinite(p)]
        low, high = binom.interval(0.999, len(p), 0.05)
        assert low <= (p <= 0.05).sum() <= high, name
