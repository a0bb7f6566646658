"""A cache of a model's activations is read as the model is."""

import numpy as np
import pytest
import torch
from lens_models import lens_model

from rb_interp.errors import ModelError
from rb_interp.interventions import ablation, blocked_attention, patching_matrix, routes
from rb_interp.probes import (
    attention_between_roles,
    attention_by_role,
    attention_to_key,
    captured,
    geometry,
    scan,
    uniformity,
    value_alignment,
    variance_explained,
    weight_rank,
)
from rb_interp.tasks import Inputs
from rb_interp.tasks.roles import Roles

pytestmark = pytest.mark.lens
KEY = np.arange(30)[:, None] % 6
INPUTS = Inputs(
    np.random.default_rng(0).integers(0, 30, (30, 9)), roles=Roles({"key": KEY, "anchor": KEY + np.arange(1, 3)})
)
PLACES = (
    (attention_between_roles, {"layer": 1, "head": 2, "roles": ("key", "anchor")}),
    (uniformity, {"layer": 1, "head": 2}),
    (attention_to_key, {"layer": 1, "head": 2}),
    (attention_by_role, {"layer": 3, "head": 1}),
    (variance_explained, {}),
    (variance_explained, {"layer": 2, "head": 3}),
)


@pytest.mark.parametrize(("probe", "where"), PLACES)
def test_probes_read_the_same_from_a_cache(probe, where):
    """Ours, and the one that TransformerLens gives; the untrained model's too."""
    model, untrained = lens_model("gpt2"), lens_model("gpt2", seed=1)
    expected = probe(model, INPUTS, untrained=untrained, n_null=20, **where).table()
    with torch.no_grad():
        own = model.run_with_cache(torch.from_numpy(INPUTS.tokens))[1]
    ours = captured(untrained, INPUTS.tokens, [hook for hook in own if hook in untrained.hook_dict])
    found = probe(own, INPUTS, untrained=ours, n_null=20, **where).table()
    assert found.equals(expected)


def test_a_cache_that_does_not_fit_is_refused():
    model = lens_model("gpt2")
    cache = captured(model, INPUTS.tokens, ["blocks.1.attn.hook_pattern"])
    with pytest.raises(ModelError, match=r"no 'blocks.0.attn.hook_pattern'; .* you mean 'blocks.1.attn.hook_pattern'"):
        uniformity(cache, INPUTS)
    with pytest.raises(ModelError, match=r"of shape \[30, 4, 9, 9\] and the rows are \[3, 9\]; give"):
        uniformity(cache, INPUTS.take(np.arange(3)), layer=1)
    with pytest.raises(ModelError, match="uniformity got layer=7; this model has 4 layers"):
        uniformity(cache, INPUTS, layer=7)


def test_a_scan_reads_a_cache_once_captured():
    model = lens_model("gpt2")
    cache = captured(model, INPUTS.tokens, [f"blocks.{layer}.attn.hook_pattern" for layer in range(4)])
    assert scan(uniformity, cache, INPUTS, n_null=5).equals(scan(uniformity, model, INPUTS, n_null=5))


@pytest.mark.parametrize("probe", [value_alignment, geometry, weight_rank])
def test_probes_of_weights_ask_for_the_model(probe):
    cache = captured(lens_model("gpt2"), INPUTS.tokens, ["blocks.1.attn.hook_pattern"])
    with pytest.raises(ModelError, match=f"{probe.__name__} got an ActivationCache and needs a model; pass cache"):
        probe(cache, INPUTS)


@pytest.mark.parametrize(
    "work",
    [
        lambda model: patching_matrix(model, INPUTS, INPUTS),
        lambda model: routes(model, INPUTS, {"key": INPUTS}),
        lambda model: blocked_attention(model, INPUTS, layer=0),
        lambda model: ablation(model, INPUTS, "z.0"),
        lambda model: uniformity(model, INPUTS),
    ],
)
def test_what_is_no_model_is_named(work):
    cache = captured(lens_model("gpt2"), INPUTS.tokens, ["blocks.1.attn.hook_pattern"])
    for given, message in (("gpt2", "got an object of type str; pass a HookedTransformer"), (cache, "cache")):
        with pytest.raises(ModelError, match=message):
            work(given)
