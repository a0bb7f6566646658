"""Attention from every role to every role, where a head was planted that carries the key, and one that averages."""

import numpy as np
import pytest
import torch
from lens_models import lens_model

from rb_interp.errors import RolesError
from rb_interp.probes import attention_between_roles, attention_by_role
from rb_interp.tasks import Inputs, Roles

pytestmark = pytest.mark.lens
ROLES = ("key", "a1", "a2", "last", "noise")
N = 60
KEY = np.random.default_rng(0).integers(0, 3, (N, 1))
NOISE = np.arange(3) + 3 * (np.arange(3) >= KEY)
INPUTS = Inputs(
    np.random.default_rng(1).integers(0, 30, (N, 6)),
    roles=Roles(
        {"key": KEY, "a1": KEY + 1, "a2": KEY + 2, "last": np.full((N, 1), 5), "noise": NOISE,
         "anchor": KEY + np.array([1, 2])}
    ),
)  # fmt: skip


def plant(pattern, hook):
    even = torch.tril(torch.ones(6, 6)) / torch.arange(1, 7)[:, None]
    planted, rows, key = even.repeat(N, 4, 1, 1).to(pattern), torch.arange(N), torch.from_numpy(KEY[:, 0])
    planted[rows, 2, key + 2] = 0.0
    planted[rows, 2, key + 2, key] = 0.75
    planted[rows, 2, key + 2, key + 1] = 0.25
    return planted


def test_planted_patterns_are_read():
    model = lens_model("plain")
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        carried, averaged = (
            attention_between_roles(model, INPUTS, roles=ROLES, layer=1, head=head, untrained=model) for head in (2, 0)
        )
        by_role = attention_by_role(model, INPUTS, layer=1, head=0, n_null=0).values
    assert (carried.values["a2_to_key"], carried.values["a2_to_a1"], carried.values["a2_to_a2"]) == (0.75, 0.25, 0)
    assert carried.values["a1_to_key"] == pytest.approx((1 / (KEY + 2)).mean())
    for query in ROLES:  # every position has a role
        assert sum(carried.values[f"{query}_to_{key}"] for key in ROLES) == pytest.approx(1)
    assert averaged.values["last_to_key"] == pytest.approx(by_role["key"]) == pytest.approx(1 / 6)
    assert averaged.values["last_to_noise"] == pytest.approx(by_role["noise"])  # without the last position itself
    mean = [1 / (at + 1) for key, noise in zip(KEY[:, 0], NOISE, strict=True) for at in noise if key < at != 5]
    total = [at for noise in NOISE for at in noise if at != 5]
    assert averaged.values["noise_to_key"] == pytest.approx(sum(mean) / len(total))  # a mean over all noise positions
    assert averaged.arrays["attention"][3].sum() == pytest.approx(1)
    assert carried.untrained == pytest.approx(dict(carried.values))


def test_the_null_is_what_a_head_reads_that_looks_at_fixed_positions():
    model = lens_model("plain")
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        found = attention_between_roles(model, INPUTS, roles=ROLES, layer=1, head=2)
        even = attention_between_roles(model, INPUTS, roles=ROLES, layer=1, head=0, n_null=5)
    assert found.nulls["a2_to_key"].p_value(found.values["a2_to_key"]) == pytest.approx(1 / 201)
    for name in ("a1_to_key", "last_to_key"):
        np.testing.assert_allclose(even.nulls[name].draws, even.values[name])


def test_a_role_that_nobody_has_is_undefined_and_says_why():
    model, roles = lens_model("plain"), {**INPUTS.roles.positions, "empty": np.zeros((N, 0), dtype=int)}
    inputs = Inputs(INPUTS.tokens, roles=Roles(roles))
    found = attention_between_roles(model, inputs, roles=("key", "empty"), n_null=0)
    assert np.isnan(found.values["empty_to_key"])
    assert found.notes["empty_to_key"] == "no position has the query's role."
    assert found.values["key_to_empty"] == 0
    with pytest.raises(RolesError, match="name each of them once"):
        attention_between_roles(model, inputs, roles=("key", "key"))
    with pytest.raises(RolesError, match="attention_between_roles needs the role 'anchors'"):
        attention_between_roles(model, inputs, roles=("key", "anchors"))
