"""Forced patterns: exact entropies, what a layer then computes with, and models written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from interventions.rows import DATA, model_of
from probes.lens_models import hooks_on, lens_model
from scipy.special import entr

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.edits import last_logits, with_edits
from rb_interp.interventions.patterns import (
    blocked_attention,
    blocked_edits,
    control_positions,
    draw_positions,
    forced_average,
    forced_pattern,
    pattern_of,
    random_patterns,
)
from rb_interp.models.reference import reference
from rb_interp.probes.activations import capture
from rb_interp.tasks import Inputs, Roles

ROWS = DATA.sample("rsn_train", 30)


INPUTS = DATA.inputs(ROWS)


RNG, AVERAGE = np.random.default_rng(0), np.tri(9) / np.arange(1, 10)[:, None]


def pattern_in(model, edits, layer):
    """The pattern with which a layer computes, seen behind the edits; z is what it gives from the
    values."""
    with with_edits(model, edits):
        names = [f"blocks.{layer}.attn.hook_{name}" for name in ("pattern", "v", "z")]
        pattern, v, z = map(capture(model, INPUTS.tokens, names).get, names)
    repeated = v.repeat_interleave(model.cfg.n_heads // v.shape[2], 2)
    torch.testing.assert_close(
        z, torch.einsum("rhqk,rkhd->rqhd", pattern, repeated), atol=1e-4, rtol=1e-4
    )
    return pattern


def test_random_patterns_have_exactly_the_entropies_asked_for():
    most = np.log(np.arange(1, 10))
    for share in (0.0, 1e-9, 0.1, 0.5, 0.9, 0.999999, 1.0):
        patterns = random_patterns(np.broadcast_to(share * most, (50, 2, 9)), RNG)
        np.testing.assert_allclose(
            entr(patterns).sum(-1), np.broadcast_to(share * most, (50, 2, 9)), atol=1e-9
        )
        np.testing.assert_allclose(patterns.sum(-1), 1)
        assert not np.triu(patterns, 1).any()
        distinct = np.unique(patterns.reshape(100, -1).round(6), axis=0)
        assert len(distinct) == (1 if share == 1.0 else 100)
    np.testing.assert_allclose(random_patterns(most, RNG), AVERAGE)


def test_entropies_that_no_row_can_have_are_refused():
    for entropies in (np.array([0.0, 0.7]), np.array([0.0, -0.1]), np.array([0.0, np.nan])):
        with pytest.raises(
            ModelError, match="sees i positions, so its entropy lies between 0 and ln i"
        ):
            random_patterns(entropies, RNG)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["grouped", "post"])
def test_a_forced_pattern_is_what_the_layer_computes_with(kind, monkeypatch):
    model = model_of(kind)
    heads, clean = model.cfg.n_heads, pattern_in(model, [], 1)
    own = torch.as_tensor(
        random_patterns(np.broadcast_to(0.5 * np.log(np.arange(1, 10)), (30, heads, 9)), RNG)
    )
    for pattern in (AVERAGE, own[0], own[:, :1], own):
        wanted = torch.as_tensor(pattern).to(clean).expand_as(clean)
        torch.testing.assert_close(
            pattern_in(model, forced_pattern(model, pattern, layer=1), 1), wanted
        )
        found = pattern_in(model, forced_pattern(model, pattern, layer=1, head=2), 1)
        torch.testing.assert_close(found[:, 2], wanted[:, 2])
        for other in (0, 1, 3):
            torch.testing.assert_close(found[:, other], clean[:, other])
    same = last_logits(model, INPUTS.tokens, forced_pattern(model, clean, layer=1))
    torch.testing.assert_close(same, last_logits(model, INPUTS.tokens), atol=1e-4, rtol=1e-4)
    whole = last_logits(model, INPUTS.tokens, forced_pattern(model, own, layer=1))
    monkeypatch.setattr("rb_interp.models.structure.PASS_ROWS", 7)
    small = last_logits(model, INPUTS.tokens, forced_pattern(model, own, layer=1))
    torch.testing.assert_close(small, whole, atol=1e-4, rtol=1e-4)
    assert hooks_on(model) == []


def test_a_model_that_averages_loses_nothing_and_its_control_does():
    """M10 on a model that meets it: forcing 1/i changes nothing, and as random a pattern as a
    trained one's does."""
    averager = reference("averager")
    model, data = averager.model(), averager.task.dataset(0)
    sample = data.inputs(data.sample("rsn_train", 40))
    effect = forced_average(model, sample, 0.8 * np.log(np.arange(1, 10)), n_draws=8)
    assert np.abs(effect.values).max() < 1e-4
    assert effect.control.shape == (8, 40)
    assert effect.control.mean() > 0.2
    assert effect.p_value == 1
    again, other = (
        forced_average(model, sample, 0.8 * np.log(np.arange(1, 10)), n_draws=2, seed=s).control
        for s in (0, 1)
    )
    np.testing.assert_array_equal(effect.control[:2], again)
    assert (again != other).any()


def test_the_average_beside_patterns_of_others():
    """Its control is what forcing each pattern costs: nothing for the model's own, the effect for
    the average."""
    model, other = model_of("plain"), lens_model("plain", seed=1, d_vocab=40)
    own, theirs = (pattern_of(found, INPUTS.tokens, layer=1) for found in (model, other))
    effect = forced_average(model, INPUTS, beside=[own, theirs, AVERAGE], layer=1)
    assert (effect.control.shape, effect.control_name) == (
        (3, 30),
        "pattern of another model on the same inputs",
    )
    assert np.abs(effect.control[0]).max() < 1e-4
    np.testing.assert_allclose(
        effect.control[1], forced_average(model, INPUTS, pattern=theirs, layer=1).values
    )
    np.testing.assert_allclose(effect.control[2], effect.values)
    assert np.abs(effect.values).max() > 0.01
    with pytest.raises(ModelError, match="patterns of 30 rows for 7 rows"):
        forced_average(model, INPUTS.take(range(7)), pattern=theirs, layer=1)
    of_heads = np.linspace(0.2, 0.8, 4)[:, None] * np.log(np.arange(1, 10))
    of_head, given = (
        forced_average(model, INPUTS, entropies, layer=1, head=2, n_draws=2).control
        for entropies in (of_heads, of_heads[2])
    )
    np.testing.assert_array_equal(of_head, given)
    one = forced_average(
        model, INPUTS, 0.5 * np.log(np.arange(1, 10)), pattern=own, layer=1, head=1, n_draws=2
    )
    assert (one.site, np.abs(one.values).max() < 1e-4, np.abs(one.control).max() > 0.01) == (
        "pattern.1.1",
        True,
        True,
    )


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["grouped", "post"])
def test_blocked_attention_is_0_and_the_rest_sums_to_1(kind):
    model = model_of(kind)
    clean = pattern_in(model, [], 1)
    anchors, key, rows = (
        INPUTS.roles.position("anchor"),
        INPUTS.roles.position("key"),
        np.arange(30),
    )
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
    found = pattern_in(
        model,
        [*forced_pattern(model, one, layer=1), *blocked_edits(model, last, first, layer=1)],
        1,
    )
    assert found[:, :, 8].tolist() == torch.tensor([0.0, *[1 / 8] * 8]).expand(30, 4, 9).tolist()
    with pytest.raises(
        ModelError, match="in L1 a query sees nothing but what is blocked; choose a later query"
    ):
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
        sample = data.inputs(data.sample("rsn_train", 50))
        effect = blocked_attention(
            model.model(), sample, layer=layer, query=query, key=key, metric="accuracy", n_draws=4
        )
        assert effect.values.mean() > 0.75 if needed else not effect.values.any()
        assert effect.control.shape == (4, 50)
        assert not effect.control.any()


def test_the_control_blocks_noise_that_the_query_sees():
    last, noise = np.full((30, 1), 8), INPUTS.roles.position("noise")
    drawn = np.concatenate(
        [draw_positions(noise, last, noise > last, 1, RNG) for _ in range(200)], 1
    )
    for row in range(30):
        assert set(drawn[row]) == set(noise[row]) - {8}
    anchors = INPUTS.roles.position("anchor")
    before = (noise < anchors[:, -1:]).sum(1) >= 2
    drawn = draw_positions(noise, anchors, noise > anchors[:, -1:], 2, RNG)
    assert (drawn[before] < anchors[before, -1:]).all()
    assert all(len(set(row)) == 2 for row in drawn)
    key = INPUTS.roles.position("key")
    assert (control_positions(INPUTS, last, key) == noise).all()
    assert (control_positions(INPUTS, last, noise[:, :2]) == noise[:, 2:]).all()
    with pytest.raises(RolesError, match="rows have 0 others"):
        control_positions(INPUTS, last, noise)
    other = control_positions(Inputs(INPUTS.tokens, roles=Roles({"key": key})), last, key)
    assert [sorted(row) for row in other] == [
        sorted({*range(8)} - {at})[: other.shape[1]] for at in key[:, 0]
    ]
