"""Blocked edges: no attention to what is blocked, and models written by hand that lose their answer."""

import numpy as np
import pytest
import torch
from interventions.rows import DATA, model_of
from probes.lens_models import hooks_on

from rb_interp.errors import ModelError
from rb_interp.interventions.blocked_edges import (
    blocked_attention,
    blocked_edits,
    control_positions,
    draw_positions,
)
from rb_interp.interventions.edits import last_logits, with_edits
from rb_interp.interventions.patterns import forced_pattern
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
    other = control_positions(Inputs(INPUTS.tokens, roles=Roles({"key": key})), last, key)
    assert [sorted(row) for row in other] == [
        sorted({*range(8)} - {at})[: other.shape[1]] for at in key[:, 0]
    ]
