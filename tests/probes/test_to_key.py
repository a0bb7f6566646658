"""Attention to the key, where a head was planted that carries it, and one that averages."""

import numpy as np
import pytest
import torch
from lens_models import lens_model

from rb_interp.probes import attention_to_key
from rb_interp.tasks import Inputs, Roles


def test_planted_patterns_are_read() -> None:
    rng, n = np.random.default_rng(0), 60
    key = rng.integers(0, 4, (n, 1))
    roles = Roles({"key": key, "anchor": key + np.array([1, 2])})
    model, tokens = lens_model("plain"), rng.integers(0, 30, (n, 6))
    uniform = torch.tril(torch.ones(6, 6)) / torch.arange(1, 7)[:, None]

    def plant(pattern, hook):
        planted = uniform.repeat(n, 4, 1, 1).to(pattern)
        rows = torch.arange(n)
        at, last = torch.as_tensor(key[:, 0]), torch.as_tensor(key[:, 0] + 2)
        planted[rows, 2, last] = 0.0
        planted[rows, 2, last, at] = 1.0  # head 2 carries the key to the last anchor
        return planted

    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        carried = attention_to_key(model, Inputs(tokens, roles=roles), layer=1, head=2)
        averaged = attention_to_key(model, Inputs(tokens, roles=roles), layer=1, head=0)
    assert carried.values["key_from_last_anchor"] == carried.values["key_from_anchor_2"] == 1
    assert carried.nulls["key_from_last_anchor"].p_value(1.0) == pytest.approx(1 / 201)
    assert carried.values["key_from_anchor_1"] == pytest.approx((1 / (key + 2)).mean())
    assert averaged.values["key_from_last_anchor"] == pytest.approx((1 / (key + 3)).mean())
    # a pattern that depends on positions alone: what the null reads is exactly what the head reads
    np.testing.assert_allclose(averaged.nulls["key_from_last_anchor"].draws, (1 / (key + 3)).mean())
    assert carried.n == n
    untrained = attention_to_key(model, Inputs(tokens, roles=roles), layer=1, head=2, untrained=model)
    assert untrained.untrained == pytest.approx(dict(untrained.values))
    assert untrained.untrained["key_from_last_anchor"] < 0.9  # the hook is gone
