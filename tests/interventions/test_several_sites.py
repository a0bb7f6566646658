"""Sites taken together, both directions of a patch, and the sites before the layers and inside the MLP."""

import numpy as np
import pytest
import torch
from interventions.rows import CLEAN, CORRUPTED, ROLES, by_hooks, patched
from probes.lens_models import bridged, hooks_on, lens_model, transformers_model

from rb_interp.errors import ArgumentError, ModelError
from rb_interp.interventions import Site, ablation, patching_effect, patching_matrix
from rb_interp.interventions.ablating import ablate
from rb_interp.interventions.hooking import with_weights
from rb_interp.interventions.patching import default_roles, patch
from rb_interp.models import build_model
from rb_interp.tasks import AnchorTask, Inputs
from rb_interp.tasks.roles import Roles

LAST = torch.full((3,), 5)


def redundant():
    """Two heads that each copy the first token to the last position, in a layer that looks there alone.

    The stream has a coordinate for each of 16 tokens and one for the position 0. The unembedding reads the token, and
    gives the token 0 a half of what one head gives: one head is enough, both make it no righter.
    """
    task = AnchorTask(keys=(1, 3), memory_anchors=(4, 4), reasoning_anchors=(5, 5), masked=(), d_vocab=16, length=6)
    sizes = {"n_layers": 1, "n_heads": 2, "d_model": 17, "d_head": 16, "d_mlp": 2}
    model = build_model(task, gamma=0.5, norm="none", train_biases=True, **sizes)
    held = model.tl_parameters() if hasattr(model, "tl_parameters") else dict(model.named_parameters())
    new = {name: torch.zeros_like(tensor) for name, tensor in held.items()}
    new["embed.W_E"][:, :16] = torch.eye(16)
    new["pos_embed.W_pos"][0, 16] = 1
    new["blocks.0.attn.b_Q"][:, 0] = 1
    new["blocks.0.attn.W_K"][:, 16, 0] = 100  # looks at position 0, whatever stands there
    new["blocks.0.attn.W_V"][:, :16] = torch.eye(16)
    new["blocks.0.attn.W_O"][:, :, :16] = 4 * torch.eye(16)
    new["unembed.W_U"][:15] = torch.eye(16)[:15]
    new["unembed.b_U"][0] = 2.5
    return with_weights(model, new)


def rows_of(first):
    tokens = np.zeros((3, 6), dtype=np.int64)
    tokens[:, 0] = first
    return Inputs(tokens, np.array(first), Roles({"first": np.zeros((3, 1), int), "rest": np.tile([2, 3], (3, 1))}))


def test_heads_that_stand_in_for_each_other_lose_nothing_alone_and_everything_together():
    clean, corrupted = rows_of([1, 2, 3]), rows_of([15, 15, 15])  # 15 is read by nobody: the answer is 0
    corrupted = Inputs(corrupted.tokens, np.zeros(3, int), corrupted.roles)
    sites = ["z.0.0@last"], ["z.0.1@last"], ["z.0.0@last", "z.0.1@last"]
    with redundant() as model:
        found = [ablation(model, clean, some, method="zero", control=clean) for some in sites]
        assert [effect.values.mean() for effect in found] == [0, 0, 1]
        assert (found[2].site, found[2].control.tolist()) == ("z.0.0@last + z.0.1@last", [[0, 0, 0]])
        for direction, name, expected in (("denoise", "recovered", [1, 1, 1]), ("noise", "lost", [0, 0, 1])):
            given = {"direction": direction, "metric": "accuracy"}
            found = [patching_effect(model, clean, corrupted, some, **given) for some in sites]
            assert [effect.values.mean() for effect in found] == expected
            assert {effect.quantity for effect in found} == {name}


def test_several_sites_are_hooks_by_hand_at_once():
    model = lens_model("gpt2", n_layers=2)
    sites, by_hand = ["z.0.2@key", "mlp_out.1@last"], [("z", 0, 2, "key"), ("mlp_out", 1, None, "last")]
    with ablate(model, CLEAN, sites, method="zero"), torch.no_grad():
        found = model(torch.from_numpy(CLEAN.tokens))[:, -1]
    torch.testing.assert_close(found, by_hooks(model, CLEAN, None, by_hand, LAST), atol=1e-5, rtol=1e-5)
    expected = by_hooks(model, CORRUPTED, CLEAN, by_hand, LAST)
    with patch(model, CORRUPTED, CLEAN, sites), torch.no_grad():
        torch.testing.assert_close(model(torch.from_numpy(CORRUPTED.tokens))[:, -1], expected, atol=1e-5, rtol=1e-5)
    for call in (lambda: ablation(model, CLEAN, []), lambda: patching_effect(model, CLEAN, CORRUPTED, [])):
        with pytest.raises(ModelError, match="needs? at least one site, such as 'attn_out.0'; got none"):
            call()
    assert hooks_on(model) == []


def test_noising_is_denoising_with_the_rows_exchanged():
    """Corrupted cells in clean rows: the same runs, of which the share lost is what the exchange recovers."""
    model, order = lens_model("gpt2", n_layers=2), [1, 2, 0]
    control = Inputs(CLEAN.tokens[order], CLEAN.labels[order], ROLES.take(np.array(order)))
    noise = patching_matrix(model, CLEAN, CORRUPTED, direction="noise", control=control)
    exchanged = patching_matrix(model, CORRUPTED, CLEAN, control=control)
    np.testing.assert_allclose(noise.values, exchanged.values, atol=1e-5)
    np.testing.assert_allclose(noise.control, exchanged.control, atol=1e-5)
    np.testing.assert_allclose(noise.clean, -exchanged.corrupted, atol=1e-5)
    for mine, other in zip(noise.ends, exchanged.ends, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-3)
    assert "lost" in noise.to_frame().columns
    assert "share of the logit_diff lost, n = 3" in noise._repr_html_()
    logits = by_hooks(model, CLEAN, CORRUPTED, [("z", 1, None, "key")], LAST).double().numpy()
    rows, cell = np.arange(3), noise.cell("z", 1, "key")
    np.testing.assert_allclose(
        noise.patched[cell], logits[rows, CLEAN.labels] - logits[rows, CORRUPTED.labels], atol=1e-4
    )
    with pytest.raises(ArgumentError, match="direction='noising'; expected Literal"):
        patching_matrix(model, CLEAN, CORRUPTED, direction="noising")


def test_a_matrix_has_the_callers_own_roles():
    own = Roles({"subject": [[0]] * 3, "verb": [[2]] * 3})
    pair = [Inputs(rows.tokens, rows.labels, own) for rows in (CLEAN, CORRUPTED)]
    assert patching_matrix(lens_model("plain", n_layers=1), *pair).axes["role"] == ("subject", "verb", "last")
    task = AnchorTask()
    data = task.dataset(0)
    assert default_roles(data.inputs(np.arange(2))) == ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
    fewer = Inputs(CLEAN.tokens, CLEAN.labels, Roles({"verb": [[2]] * 3}))
    assert default_roles(pair[0], fewer) == ("verb", "last")


MODELS = {
    "gpt2": lambda: lens_model("gpt2", n_layers=2),
    "rotary": lambda: lens_model("rotary", n_layers=2),
    "Gemma2": lambda: bridged(transformers_model("Gemma2")),
    "side by side": lambda: bridged(transformers_model("GPTNeoX")),
}


@pytest.mark.lens
@pytest.mark.parametrize("kind", MODELS)
def test_embeddings_and_neurons_are_hooks_by_hand(kind):
    model = MODELS[kind]()
    sites = {"embed@key": ("hook_embed", 0, None, "key"), "mlp_post.0@key": ("mlp_post", 0, None, "key")}
    sites |= {"mlp_post.1.7@last": ("mlp_post", 1, 7, "last"), "mlp_post.0.31@key": ("mlp_post", 0, 31, "key")}
    if kind == "gpt2":
        sites["pos_embed@key"] = ("hook_pos_embed", 0, None, "key")
    else:
        with pytest.raises(ModelError, match="'pos_embed@key' is not in this model"):
            ablation(model, CLEAN, "pos_embed@key")
    changed = []
    for text, by_hand in sites.items():
        assert str(Site.parse(text)) == text
        expected = by_hooks(model, CORRUPTED, CLEAN, [by_hand], LAST)
        torch.testing.assert_close(patched(model, CORRUPTED, CLEAN, text), expected, atol=1e-4, rtol=1e-4)
        with ablate(model, CLEAN, text, method="zero"), torch.no_grad():
            found = model(torch.from_numpy(CLEAN.tokens))[:, -1]
        torch.testing.assert_close(found, by_hooks(model, CLEAN, None, [by_hand], LAST), atol=1e-4, rtol=1e-4)
        changed.append((expected - by_hooks(model, CORRUPTED, CLEAN, [], LAST)).abs().max())
    assert sum(change > 1e-3 for change in changed) >= 3  # the same position has the same embedding in all rows
    components = ["mlp_post", "embed", "z"]
    matrix = patching_matrix(model, CLEAN, CORRUPTED, components=components, roles=("key", "last"))
    for place, by_hand in (((0, 0, 0), ("mlp_post", 0)), ((0, 1, 1), ("mlp_post", 1)), ((1, 0, 0), ("hook_embed", 0))):
        expected = by_hooks(model, CORRUPTED, CLEAN, [(*by_hand, None, ("key", "last")[place[2]])], LAST)
        expected = (expected[np.arange(3), CLEAN.labels] - expected[np.arange(3), CORRUPTED.labels]).numpy()
        np.testing.assert_allclose(matrix.patched[place], expected, atol=1e-4 * np.abs(expected).max() + 1e-5)
    assert np.isnan(matrix.patched[1, 1]).all()
    assert np.isfinite(matrix.patched[[0, 2]]).all()
    assert matrix.notes["embed"] == "stands before the first layer, and has cells in layer 0 alone."
