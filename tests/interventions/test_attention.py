"""Forced and blocked attention: exact entropies, exact patterns, and what models written by hand lose."""

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK
from probes.lens_models import hooks_on, lens_model
from scipy.special import entr

from rb_interp.errors import ModelError
from rb_interp.interventions.attention import (
    blocked_attention,
    blocked_edits,
    forced_average,
    forced_pattern,
    pattern_of,
    random_patterns,
    row_entropies,
)
from rb_interp.interventions.hooking import last_logits, with_edits
from rb_interp.models import build_model
from rb_interp.models.reference import reference
from rb_interp.probes._attention import average_operator
from rb_interp.tasks import Inputs, Roles

ROWS = DATA.sample("rsn_train", 30)
INPUTS = DATA.inputs(ROWS)
RNG = np.random.default_rng(0)


def model_of(kind):
    if kind == "post":
        return build_model(TASK, gamma=0.3, norm="post", d_model=16, d_head=8, d_mlp=16, n_heads=4)
    return lens_model(kind, d_vocab=40)


def pattern_in(model, edits, layer):
    """The pattern with which layer ``layer`` computes, seen behind the edits, and what z it gives from the values."""
    seen = {}

    def see(name):
        def keep(activation, hook):
            seen[name] = activation.detach().clone()

        return keep

    names = ("pattern", "v", "z")
    watched = [(f"blocks.{layer}.attn.hook_{name}", see(name)) for name in names]
    with with_edits(model, edits), model.hooks(fwd_hooks=watched), torch.no_grad():
        model(torch.from_numpy(INPUTS.tokens))
    repeated = seen["v"].repeat_interleave(model.cfg.n_heads // seen["v"].shape[2], 2)
    z = torch.einsum("rhqk,rkhd->rqhd", seen["pattern"], repeated)
    torch.testing.assert_close(seen["z"], z, atol=1e-4, rtol=1e-4)
    return seen["pattern"]


def test_random_patterns_have_exactly_the_entropies_asked_for():
    most = np.log(np.arange(1, 10))
    for share in (0.0, 1e-9, 0.1, 0.5, 0.9, 0.999999, 1.0):
        patterns = random_patterns(np.broadcast_to(share * most, (50, 2, 9)), RNG)
        np.testing.assert_allclose(entr(patterns).sum(-1), np.broadcast_to(share * most, (50, 2, 9)), atol=1e-9)
        np.testing.assert_allclose(patterns.sum(-1), 1)
        assert not np.triu(patterns, 1).any()
        distinct = np.unique(patterns.reshape(100, -1).round(6), axis=0)
        assert len(distinct) == (1 if share == 1.0 else 100)
    np.testing.assert_allclose(random_patterns(most, RNG), average_operator(9))


def test_random_patterns_prefer_no_position():
    """The largest entry of the last row is at each of 9 positions equally often: within 4.5 sd of 1/9."""
    patterns = random_patterns(np.broadcast_to(0.6 * np.log(np.arange(1, 10)), (2000, 9)), RNG)
    found = np.bincount(patterns[:, -1].argmax(1), minlength=9) / 2000
    assert np.abs(found - 1 / 9).max() < 4.5 * np.sqrt(8 / 81 / 2000)


def test_entropies_that_no_row_can_have_are_refused():
    for entropies in (np.array([0.0, 0.7]), np.array([0.1, 0.1]), np.array([0.0, -0.1]), np.array([0.0, np.nan])):
        with pytest.raises(
            ModelError, match="query i .from 1. sees i positions, so its entropy lies between 0 and ln i"
        ):
            random_patterns(entropies, RNG)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "gpt2", "grouped", "post"])
def test_a_forced_pattern_is_what_the_layer_computes_with(kind):
    model = model_of(kind)
    heads, clean = model.cfg.n_heads, pattern_in(model, [], 1)
    own = torch.as_tensor(random_patterns(np.broadcast_to(0.5 * np.log(np.arange(1, 10)), (30, heads, 9)), RNG))
    for pattern in (average_operator(9), own[0], own[:, :1], own):
        wanted = torch.as_tensor(pattern).to(clean).expand_as(clean)
        torch.testing.assert_close(pattern_in(model, forced_pattern(model, pattern, layer=1), 1), wanted)
        found = pattern_in(model, forced_pattern(model, pattern, layer=1, head=2), 1)
        torch.testing.assert_close(found[:, 2], wanted[:, 2])
        for other in (0, 1, 3):
            torch.testing.assert_close(found[:, other], clean[:, other])
    same = last_logits(model, INPUTS.tokens, forced_pattern(model, clean, layer=1))
    torch.testing.assert_close(same, last_logits(model, INPUTS.tokens), atol=1e-4, rtol=1e-4)
    small = last_logits(model, INPUTS.tokens, forced_pattern(model, own, layer=1), batch=7)
    torch.testing.assert_close(
        small, last_logits(model, INPUTS.tokens, forced_pattern(model, own, layer=1)), atol=1e-4, rtol=1e-4
    )
    assert hooks_on(model) == []


def test_entropies_by_row_and_head():
    model = model_of("gpt2")
    average = forced_pattern(model, average_operator(9), layer=2, head=3)
    with with_edits(model, average):
        entropies = row_entropies(model, INPUTS.tokens, layer=2)
    assert entropies.shape == (4, 9)
    np.testing.assert_allclose(entropies[3], np.log(np.arange(1, 10)), atol=1e-6)
    assert (entropies[:3, 1:] < np.log(np.arange(2, 10)) - 1e-4).any(1).all()


def test_a_model_that_averages_loses_nothing_and_its_control_does():
    """M10 on a model that meets it: forcing 1/i changes nothing, and as random a pattern as a trained one's does."""
    averager = reference("averager")
    model, data = averager.model(), averager.task.dataset(0)
    sample = data.inputs(data.sample("rsn_train", 100))
    effect = forced_average(model, sample, 0.8 * np.log(np.arange(1, 10)))
    assert np.abs(effect.values).max() < 1e-4
    assert effect.control.shape == (20, 100)
    assert effect.control.mean() > 0.2
    assert effect.p_value == 1
    draws = [
        forced_average(model, sample, 0.8 * np.log(np.arange(1, 10)), n_draws=2, seed=s).control for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_the_average_beside_patterns_of_others():
    """Its control is what forcing each pattern costs: nothing for the model's own, the effect for the average."""
    model, other = model_of("plain"), lens_model("plain", seed=1, d_vocab=40)
    own, theirs = (pattern_of(found, INPUTS.tokens, layer=1) for found in (model, other))
    effect = forced_average(model, INPUTS, beside=[own, theirs, average_operator(9)], layer=1)
    assert (effect.control.shape, effect.control_name) == ((3, 30), "pattern of another model on the same inputs")
    assert np.abs(effect.control[0]).max() < 1e-4
    np.testing.assert_allclose(effect.control[1], forced_average(model, INPUTS, pattern=theirs, layer=1).values)
    np.testing.assert_allclose(effect.control[2], effect.values)
    assert np.abs(effect.values).max() > 0.01


def test_another_model_s_attention():
    model, other = model_of("gpt2"), lens_model("gpt2", seed=1, d_vocab=40)
    entropies = row_entropies(model, INPUTS.tokens, layer=2)
    own = forced_average(
        model, INPUTS, entropies, pattern=pattern_of(model, INPUTS.tokens, layer=2), layer=2, n_draws=2
    )
    assert np.abs(own.values).max() < 1e-4
    assert np.abs(own.control).max() > 0.01
    effect = forced_average(model, INPUTS, pattern=pattern_of(other, INPUTS.tokens, layer=2), layer=2, head=1)
    assert effect.site == "pattern.2.1"
    wanted = pattern_in(other, [], 2)
    found = last_logits(model, INPUTS.tokens, forced_pattern(model, wanted, layer=2, head=1)).double().numpy()
    before = last_logits(model, INPUTS.tokens).double().numpy()
    logp = [
        x - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) - x.max(1, keepdims=True)
        for x in (before, found)
    ]
    lost = (logp[0] - logp[1])[np.arange(30), INPUTS.labels]
    np.testing.assert_allclose(effect.values, lost, atol=1e-4)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "grouped", "post"])
def test_blocked_attention_is_0_and_the_rest_sums_to_1(kind):
    model = model_of(kind)
    clean = pattern_in(model, [], 1)
    anchors, key, rows = INPUTS.roles.position("anchor"), INPUTS.roles.position("key"), np.arange(30)
    for head in (None, 1):
        found = pattern_in(model, blocked_edits(model, anchors, key, layer=1, head=head), 1)
        expected = clean.clone()
        for row in rows:
            for query in anchors[row]:
                for h in range(model.cfg.n_heads) if head is None else (head,):
                    expected[row, h, query, key[row]] = 0
                    expected[row, h, query] /= expected[row, h, query].sum()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert hooks_on(model) == []


def test_a_query_that_saw_only_what_is_blocked_attends_evenly_to_the_rest():
    model = model_of("plain")
    one = torch.zeros(9, 9)
    one[:, 0] = 1
    first, last = np.zeros((30, 1), int), np.full((30, 1), 8)
    found = pattern_in(model, [*forced_pattern(model, one, layer=1), *blocked_edits(model, last, first, layer=1)], 1)
    assert found[:, :, 8].tolist() == torch.tensor([0.0, *[1 / 8] * 8]).expand(30, 4, 9).tolist()
    with pytest.raises(ModelError, match="in L1 a query sees nothing but what is blocked; choose a later query"):
        last_logits(model, INPUTS.tokens, blocked_edits(model, first, first, layer=1))
    assert hooks_on(model) == []


def test_models_written_by_hand_lose_the_answer_where_their_circuit_is_cut():
    for name, layer, query, key, needed in (
        ("averager", 1, "last", "key", True),
        ("averager", 1, "last", "anchor", False),
        ("carrier", 0, "anchor", "key", True),
        ("carrier", 1, "last", "key", False),
    ):
        model = reference(name)
        data = model.task.dataset(0)
        sample = data.inputs(data.sample("rsn_train", 100))
        effect = blocked_attention(model.model(), sample, layer=layer, query=query, key=key, metric="accuracy")
        assert 1 / (1 + len(effect.control)) < 0.05
        assert effect.values.mean() > 0.75 if needed else not effect.values.any()
        assert effect.control.shape == (20, 100)
        assert not effect.control.any()


def test_the_control_blocks_noise_that_the_query_sees():
    from rb_interp.interventions.attention import _noise, _some

    last, noise = np.full((30, 1), 8), INPUTS.roles.position("noise")
    drawn = np.concatenate([_some(noise, last, 1, RNG) for _ in range(200)], 1)
    for row in range(30):
        assert set(drawn[row]) == set(noise[row]) - {8}
    anchors = INPUTS.roles.position("anchor")
    before = (noise < anchors[:, -1:]).sum(1) >= 2
    drawn = _some(noise, anchors, 2, RNG)
    assert (drawn[before] < anchors[before, -1:]).all()
    assert all(len(set(row)) == 2 for row in drawn)
    key = INPUTS.roles.position("key")
    assert (_noise(INPUTS, last, key) == noise).all()
    other = _noise(Inputs(INPUTS.tokens, roles=Roles({"key": key})), last, key)  # neither the last position nor the key
    assert [sorted(row) for row in other] == [sorted({*range(8)} - {at})[: other.shape[1]] for at in key[:, 0]]
