"""A cache of a model's activations is read as the model is."""

import numpy as np
import pandas as pd
import pytest
import torch
from lens_models import lens_model

from rb_interp.probes import (
    attention,
    attention_by_role,
    attention_to_key,
    geometry,
    scan,
    uniformity,
    value_alignment,
    variance_explained,
)
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

KEY = np.arange(30)[:, None] % 6
INPUTS = Inputs(
    np.random.default_rng(0).integers(0, 30, (30, 9)),
    roles=Roles({"key": KEY, "anchor": KEY + np.arange(1, 3)}, {"low": np.arange(6), "high": np.arange(9, 14)}),
)


def passes(model, work):
    """How often a model runs through its first block while something is done."""
    seen = []
    with model.hooks(fwd_hooks=[("blocks.0.hook_resid_pre", lambda value, hook: seen.append(1))]):
        found = work()
    return len(seen), found


@pytest.mark.parametrize(
    ("probe", "options", "most"),
    [
        (uniformity, {}, 1),
        (attention_by_role, {}, 1),
        (attention_to_key, {}, 1),
        (attention, {"query": "anchor"}, 1),
        (value_alignment, {}, 1),
        (geometry, {}, 1),
        (variance_explained, {}, 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_scan_takes_one_pass_and_gives_the_numbers_of_single_calls(probe, options, most):
    """Of the model, of the untrained one too, and of a cache; heads and layers in any order."""
    model, untrained = (lens_model("gpt2", seed, n_layers=2) for seed in (0, 1))
    options = {"n_null": 5, **options}
    count, found = passes(model, lambda: scan(probe, model, INPUTS, untrained=untrained, **options))
    assert count <= most
    single = [
        probe(model, INPUTS, layer=layer, head=head, untrained=untrained, **options)
        .to_frame()
        .assign(layer=layer, head=head)  # a reading of the embedding has none of its own
        for layer in range(2)
        for head in range(4)
    ]
    pd.testing.assert_frame_equal(found, pd.concat(single, ignore_index=True), check_exact=True)
    backwards = scan(probe, model, INPUTS, layers=[1, 0], heads=[2], untrained=untrained, **options)
    pd.testing.assert_frame_equal(backwards, pd.concat([single[6], single[2]], ignore_index=True), check_exact=True)
    with torch.no_grad():
        cache = model.run_with_cache(torch.from_numpy(INPUTS.tokens))[1]
    again = passes(model, lambda: scan(probe, cache, INPUTS, untrained=untrained, **options))
    assert again[0] == (probe in (value_alignment, geometry))  # they see tokens through LayerNorm, one row a token
    pd.testing.assert_frame_equal(again[1], found, check_exact=True)


def test_a_scan_without_room_takes_more_passes_and_gives_the_same(monkeypatch):
    from rb_interp.probes import _probe

    model = lens_model("gpt2")
    once = scan(uniformity, model, INPUTS, n_null=5)
    monkeypatch.setattr(_probe, "ROOM", 1)
    count, found = passes(model, lambda: scan(uniformity, model, INPUTS, n_null=5))
    assert count == 4
    assert found.equals(once)
