"""Models that are not causal decoders built by the book: what they see, have and hold is asked of
them."""

import warnings

import numpy as np
import pytest
import torch
from probes.lens_models import SIZES, _away_from_default, hooks_on, lens_model

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions import (
    attribution_matrix,
    blocked_attention,
    forced_average,
    patching_matrix,
    path_matrix,
    subspace_effect,
)
from rb_interp.interventions.ablating import ablation, patch
from rb_interp.interventions.edits import last_logits, with_edits
from rb_interp.interventions.patterns import blocked_edits, random_patterns
from rb_interp.interventions.swaps import interchange
from rb_interp.models.structure import visible
from rb_interp.probes import attention, from_arrays, uniformity
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

lens = pytest.importorskip("transformer_lens")
if not hasattr(lens, "HookedTransformer"):
    pytest.skip("models of TransformerLens 3", allow_module_level=True)

N, LENGTH = 12, 8
RNG = np.random.default_rng(3)
TOKENS, LABELS = RNG.integers(0, 30, (N, LENGTH)), RNG.integers(0, 30, N)
ROLES = Roles({"cls": np.zeros((N, 1), int), "key": np.full((N, 1), 5), "mid": np.full((N, 1), 3)})
ROWS = Inputs(TOKENS, LABELS, ROLES)
OTHER = Inputs(
    np.where(np.arange(LENGTH) == 5, (TOKENS + 7) % 30, TOKENS), (LABELS + 1) % 30, ROLES
)
GIVEN = {"act_fn": "gelu", "normalization_type": "LN", "device": "cpu"}


def model_of(kind, cls="HookedTransformer", **settings):
    sizes = {**SIZES, "n_layers": 2, **GIVEN, **settings}
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = getattr(lens, cls)(lens.HookedTransformerConfig(**sizes))
    return _away_from_default(model, kind)


BIDIRECTIONAL = model_of(0, attention_dir="bidirectional")
LOCAL = model_of(1, use_local_attn=True, window_size=3, attn_types=["local", "global"])


def loss(logits, at):
    return torch.nn.functional.cross_entropy(logits[:, at], torch.tensor(LABELS), reduction="none")


@pytest.mark.parametrize("model", [BIDIRECTIONAL, LOCAL], ids=["bidirectional", "local"])
def test_what_a_query_sees_is_asked_of_the_model(model):
    """A pattern is above 0 exactly there; scores at -inf, the average over it, and entropies up to
    its logarithm."""
    tokens = torch.tensor(TOKENS)
    _, cache = model.run_with_cache(tokens)
    for layer in (0, 1):
        assert np.array_equal(
            visible(model, layer, LENGTH), (cache["pattern", layer] > 0).all(0).all(0).numpy()
        )
    for query, at in (("cls", 0), ("key", 5)):
        if model is LOCAL and query == "cls":
            continue

        def shut(scores, hook, at=at):
            scores = scores.clone()
            scores[:, :, at, 3] = -torch.inf
            return scores

        with torch.no_grad():
            hooked = model.run_with_hooks(
                tokens, fwd_hooks=[("blocks.0.attn.hook_attn_scores", shut)]
            )
            own = (loss(hooked, at) - loss(model(tokens), at)).numpy()
        found = blocked_attention(
            model, ROWS, layer=0, query=query, key="mid", answer_at=query, n_draws=3
        )
        np.testing.assert_allclose(found.values, own, atol=1e-4)
        assert "control" not in found.notes
        assert np.abs(found.control).max() > 1e-4
    seen = visible(model, 0, LENGTH)
    even = torch.tensor(seen / seen.sum(1, keepdims=True)).float()

    def force(pattern, hook):
        return even.expand_as(pattern)

    with torch.no_grad():
        own = loss(
            model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.attn.hook_pattern", force)]), -1
        )
    found = forced_average(model, ROWS, np.log(seen.sum(1)) / 2, n_draws=2)
    assert found.after == pytest.approx(own.mean().item(), abs=1e-4)
    source = from_arrays(pattern=even.expand(1, N, 4, LENGTH, LENGTH))
    source.model = model  # which says what a query sees
    values = uniformity(source, ROWS).values | attention(source, ROWS, query="key", to="mid").values
    assert (values["tv"], values["key_to_mid_excess"]) == pytest.approx((0, 0), abs=1e-6)
    drawn = random_patterns(np.log(seen.sum(1)), np.random.default_rng(0), seen)
    np.testing.assert_allclose(drawn, even.numpy(), atol=1e-4)


def test_a_path_that_no_position_can_take_is_nan():
    """Held attention carries nothing from one position to another, and a causal one nothing to an
    earlier one."""
    model, senders = model_of(2, n_layers=3), ["z.0@mid", "v.0@key", "embed@key"]
    receivers = ["v.1@key", "z.1@mid", "resid_post.1@last", "z.2@mid"]
    causal = path_matrix(model, ROWS, OTHER, senders, receivers)
    missing = [[True, False, True, True], [False, True, False, True], [False, True, True, True]]
    assert np.isnan(causal.values).tolist() == missing
    assert (
        causal.notes["embed@key -> z.1@mid"]
        == "no path: no position of the receiver sees one of the sender."
    )
    assert (
        causal.notes["z.0@mid -> z.2@mid"]
        == "no path: the answer sees no position of the receiver."
    )
    # what layer 0 shows to position 5 the last one sees in layer 1, where attention is not local
    far = path_matrix(LOCAL, ROWS, OTHER, ["v.0@mid"], ["z.1@last"])
    assert np.isfinite(far.values).all()
    both = path_matrix(BIDIRECTIONAL, ROWS, OTHER, senders, receivers[:3], answer_at="mid")
    assert np.isnan(both.values).tolist() == [
        [True, False, True],
        [False, False, True],
        [False, False, True],
    ]
    cells = patching_matrix(
        model, ROWS, OTHER, components=("z",), roles=("mid", "key", "last"), answer_at=-2
    )
    assert np.isnan(cells.values[0]).tolist() == [[False, False, True]] * 3


def test_positions_outside_the_rows_are_refused_in_one_sentence():
    model = model_of(3)
    outside = r"role 'key' has 12 rows, at positions .* the positions 0 to 7"
    beyond = np.full((N, 1), 9)
    with pytest.raises(RolesError, match=outside):
        Inputs(TOKENS, LABELS, Roles({"key": beyond}))
    absent = np.where(np.arange(N) % 2, 3, -1)[:, None]  # some rows lack the role
    rows = Inputs(TOKENS, LABELS, Roles({"key": absent}))
    for call in (
        lambda: blocked_attention(model, rows, layer=0, n_draws=0),
        lambda: ablation(model, rows, "z.0@key"),
        lambda: ablation(model, rows, "z.0", answer_at="key"),
        lambda: patching_matrix(model, rows, OTHER, roles=["key"]),
    ):
        with pytest.raises(RolesError, match=outside):
            call()
    for at in (absent, beyond):
        edits = blocked_edits(model, np.full((N, 1), 7), at, layer=0)
        with (
            pytest.raises(ModelError, match="outside the rows, which have 0 to 7"),
            with_edits(model, edits),
        ):
            model(torch.tensor(TOKENS))


def test_frozen_weights_and_those_made_in_inference_mode_give_the_same_numbers():
    model, given = model_of(4), {"components": ("pos_embed", "z"), "roles": ("all", "key")}
    moved = Roles({**ROLES.positions, "key": np.full((N, 1), 4)})
    pair = ROWS, Inputs(OTHER.tokens, OTHER.labels, moved)
    expected = attribution_matrix(model, *pair, **given).values
    basis = np.eye(16)[:, :2]
    cost = subspace_effect(model, ROWS, basis, n_draws=0).values
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    np.testing.assert_allclose(
        attribution_matrix(model, *pair, **given).values, expected, rtol=1e-4, atol=1e-7
    )
    with torch.inference_mode():
        made = model_of(4)
    np.testing.assert_allclose(
        attribution_matrix(made, *pair, **given).values, expected, rtol=1e-4, atol=1e-7
    )
    before = {name: value.clone() for name, value in made.state_dict().items()}
    np.testing.assert_allclose(
        subspace_effect(made, ROWS, basis, n_draws=0).values, cost, atol=1e-5
    )
    assert all(torch.equal(value, made.state_dict()[name]) for name, value in before.items())


def test_an_encoder_s_attribution_begins_where_its_blocks_do():
    model = model_of(5, "HookedEncoder", attention_dir="bidirectional")
    with torch.no_grad():
        for parameter in model.parameters():  # some are not initialised
            parameter.copy_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            )
    given = {"components": ("resid_post",), "layers": (1,), "roles": ("last",)}
    exact, fast = (
        call(model, ROWS, OTHER, **given) for call in (patching_matrix, attribution_matrix)
    )
    assert exact.values.item() == pytest.approx(1, abs=1e-4)
    assert np.isfinite(fast.values).all()
    assert np.isfinite(attribution_matrix(model, ROWS, OTHER).values).all()


def test_what_a_model_has_is_asked_of_each_layer():
    model = model_of(6)
    model.blocks[0].hook_resid_mid = None  # as a model whose first layer has no such place
    del model.hook_dict["blocks.0.hook_resid_mid"]
    del model.blocks[0].hook_resid_mid
    model.blocks[0].hook_resid_mid = lambda value: value
    for call in (patching_matrix, attribution_matrix):
        found = call(model, ROWS, OTHER, components=("resid_mid", "z"), roles=("key",))
        assert np.isnan(found.values[0, :, 0]).tolist() == [True, False]
        assert found.notes["resid_mid of L0"] == "no cells: this layer has no such hook."
    with pytest.raises(
        ModelError, match="site 'resid_mid.0' is not in this model, .* which has there resid_pre, "
    ):
        ablation(model, ROWS, "resid_mid.0")


def test_hooks_may_be_reset_while_an_edit_is_under_way():
    model = model_of(7)

    def metric(logits, clean, corrupted):
        model.reset_hooks()
        return logits[:, 0]

    with patch(model, ROWS, OTHER, "resid_pre.1@key"):
        model.reset_hooks()
    assert np.isfinite(
        patching_matrix(model, ROWS, OTHER, metric=metric, components=("z",)).values
    ).all()
    assert hooks_on(model) == []


def test_weights_that_only_the_source_reads_may_not_be_nan():
    """The rows that run are answered; what is taken from the others is no number."""
    model = lens_model("gpt2", n_layers=2)
    tokens, other = TOKENS % 29, np.where(np.arange(LENGTH) == 5, 29, TOKENS % 29)
    with torch.no_grad():
        model.W_E[29] = torch.nan
    base, source = Inputs(tokens, LABELS, ROLES), Inputs(other, LABELS, ROLES)
    assert last_logits(model, tokens).isfinite().all()
    for call in (
        lambda: interchange(model, base, source, "z.0@key", LABELS, control=OTHER),
        lambda: ablation(model, base, "z.0@key", control=source),
    ):
        with pytest.raises(
            ModelError, match="logits are not all finite, so its training has diverged"
        ):
            call()
