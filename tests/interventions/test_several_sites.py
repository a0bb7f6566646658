"""Sites taken together, both directions of a patch, and the sites before the layers and inside the MLP."""

import numpy as np
import pytest
import torch
from interventions.rows import CLEAN, CORRUPTED, ROLES, by_hooks, patched
from probes.lens_models import bridged, hooks_on, lens_model, transformers_model

from rb_interp.errors import ArgumentError, ModelError
from rb_interp.interventions import Site, ablation, patching_effect, patching_matrix
from rb_interp.interventions.ablating import ablate
from rb_interp.interventions.patching import default_roles, patch
from rb_interp.tasks import AnchorTask, Inputs
from rb_interp.tasks.inputs import Roles

LAST = torch.full((3,), 5)


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
