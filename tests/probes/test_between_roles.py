"""Attention from every role to every role, where a head was planted that carries the key, and one that averages."""

import numpy as np
import pytest
import torch
from induction import INDUCTION, PREVIOUS, known, rows
from lens_models import lens_model

from rb_interp.errors import RolesError
from rb_interp.probes import attention, attention_by_role
from rb_interp.probes._attention import excess, random_excess
from rb_interp.tasks import Inputs, Roles

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
            attention(model, INPUTS, query=ROLES, to=ROLES, layer=1, head=head, untrained=model) for head in (2, 0)
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
    assert carried.untrained == pytest.approx(dict(carried.values), nan_ok=True)


def test_last_is_the_last_position_where_no_role_has_that_name():
    model, bare = lens_model("plain"), Roles({"key": INPUTS.roles.position("key")})
    named, found = (
        attention(model, Inputs(INPUTS.tokens, roles=roles), query="last", to=["key", "last"]).values
        for roles in (INPUTS.roles, bare)
    )
    assert found == pytest.approx(dict(named))
    own = Roles({"key": bare.position("key"), "last": bare.position("key")})
    found, wanted = (
        attention(model, Inputs(INPUTS.tokens, roles=own), query=query, to="key").values[f"{query}_to_key"]
        for query in ("last", "key")
    )
    assert found == wanted  # a role of that name is the caller's own


def test_the_null_is_what_a_head_reads_that_looks_at_fixed_positions():
    model = lens_model("plain")
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        found = attention(model, INPUTS, query=ROLES, to=ROLES, layer=1, head=2)
        even = attention(model, INPUTS, query=ROLES, to=ROLES, layer=1, head=0, n_null=5)
    assert found.nulls["a2_to_key"].p_value(found.values["a2_to_key"]) == pytest.approx(1 / 201)
    for name in ("a1_to_key", "last_to_key"):
        np.testing.assert_allclose(even.nulls[name].draws, even.values[name])


def test_a_role_that_nobody_has_is_undefined_and_says_why():
    model, roles = lens_model("plain"), {**INPUTS.roles.positions, "empty": np.zeros((N, 0), dtype=int)}
    inputs = Inputs(INPUTS.tokens, roles=Roles(roles))
    found = attention(model, inputs, query=("key", "empty"), to=("key", "empty"), n_null=0)
    assert np.isnan(found.values["empty_to_key"])
    assert found.notes["empty_to_key"].startswith("no position has the query's role")
    assert found.values["key_to_empty"] == 0
    with pytest.raises(RolesError, match="name each of them once"):
        attention(model, inputs, to=("key", "key"))
    with pytest.raises(RolesError, match="attention needs the role 'anchors'"):
        attention(model, inputs, to=("key", "anchors"))


@pytest.mark.parametrize(
    ("query", "to", "heads"), [("second", "first", {PREVIOUS}), ("query", "second", set(INDUCTION))], ids=str
)
def test_the_excess_finds_the_heads_that_are_known(query, to, heads):
    """The roles of another row tell nothing of a previous-token head; attention drawn at random by position does."""

    def table(model, layer, head):
        return attention(model, rows(), query=query, to=to, layer=layer, head=head).to_frame().set_index("quantity")

    own, over = f"{query}_to_{to}", f"{query}_to_{to}_excess"
    found = {(layer, head): table(known().model, layer, head) for layer in range(2) for head in range(2)}
    assert {at for at in found if found[at].value[over] > 0.7} == heads
    assert max(found[at].value[over] for at in found.keys() - heads) < 0.2
    assert all(found[at].p_value[over] == pytest.approx(1 / 201) for at in heads)
    if query == "second":
        assert min(found[at].p_value[over] for at in found.keys() - heads) > 0.1
        assert found[PREVIOUS].p_value[own] > 0.1
    for at in heads:
        before = table(known().untrained, *at)
        assert before.value[over] < 0.1 < before.p_value[over]


def test_an_excess_by_hand():
    """The last of three positions gives .7, .1 and .2; the query at 0 sees nothing else and does not count."""
    pattern = np.array([[[1, 0, 0], [0.5, 0.5, 0], [0.7, 0.1, 0.2]]])
    looking, first = np.array([[True, False, True]]), np.array([[True, False, False]])
    assert excess(pattern, looking, first) == pytest.approx(0.7 - 0.15)
    assert excess(pattern, looking, ~first) != excess(pattern, looking, ~first)  # two of three positions: no choice
    draws = random_excess(looking, first, 4000, 0)  # a = Beta(1, 2) has mean 1/3; a - (1 - a) / 2 has 0
    assert abs(draws.mean()) < 4 * draws.std() / 4000**0.5
    assert draws.std() == pytest.approx(1.5 * (1 / 18) ** 0.5, rel=0.05)
