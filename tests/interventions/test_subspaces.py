"""Subspaces of the values: exact projections, controls of the same size, and models written by hand."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from interventions.rows import DATA, model_of
from probes.lens_models import read_weights

from rb_interp.errors import ModelError
from rb_interp.interventions import subspaces as module
from rb_interp.interventions.edits import last_logits
from rb_interp.interventions.subspaces import (
    Match,
    leading,
    matched_spans,
    span,
    subspace_effect,
    token_basis,
    with_subspace,
)
from rb_interp.models.protocol import live_tensors
from rb_interp.models.reference import reference
from rb_interp.probes.embeddings import token_embeddings
from rb_interp.probes.values import value_matrix
from rb_interp.statistics.nulls import random_subspaces

ROWS = DATA.sample("rsn_train", 30)


INPUTS = DATA.inputs(ROWS)


RNG, AVERAGE = np.random.default_rng(0), np.tri(9) / np.arange(1, 10)[:, None]


def test_spans_by_hand():
    vectors = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1e-3]])
    basis = span(vectors)
    np.testing.assert_allclose(
        basis @ basis.T, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], atol=1e-12
    )
    np.testing.assert_allclose(np.abs(basis[:, 0]), [0.5**0.5, 0.5**0.5, 0], atol=1e-12)
    with pytest.raises(ModelError, match="these vectors span nothing"):
        span(np.zeros((2, 3)))
    W_V = np.diag([1.0, 5.0, 2.0])[:, [2, 0, 1]]
    np.testing.assert_allclose(np.abs(leading(W_V, k=2)), [[0, 0], [1, 0], [0, 1]], atol=1e-12)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["gpt2", "post"])
def test_a_subspace_is_gone_or_alone_in_one_head_or_all_and_back_afterwards(kind):
    model, basis = model_of(kind), random_subspaces(1, 16, 3, RNG)[0]
    before, logits = read_weights(model), last_logits(model, INPUTS.tokens)
    for head in (None, 2):
        with with_subspace(model, basis, layer=1, head=head):
            gone = live_tensors(model)["blocks.1.attn.W_V"].clone()
            assert (last_logits(model, INPUTS.tokens) - logits).abs().max() > 1e-4
        with with_subspace(model, basis, complement=True, layer=1, head=head):
            alone = live_tensors(model)["blocks.1.attn.W_V"].clone()
        old, inside = before["blocks.1.attn.W_V"].double(), torch.tensor(basis @ basis.T)
        for h in range(4):
            if head in (None, h):
                torch.testing.assert_close(
                    gone[h].double(), old[h] - inside @ old[h], atol=1e-6, rtol=1e-5
                )
                torch.testing.assert_close(alone[h].double(), inside @ old[h], atol=1e-6, rtol=1e-5)
            else:
                torch.testing.assert_close(gone[h].double(), old[h], rtol=0, atol=0)
                torch.testing.assert_close(alone[h].double(), old[h], rtol=0, atol=0)
    with pytest.raises(KeyError), with_subspace(model, basis):
        raise KeyError("inside")
    assert all(torch.equal(tensor, before[name]) for name, tensor in read_weights(model).items())


@pytest.mark.parametrize("keep", [False, True])
def test_the_control_changes_as_much(monkeypatch, keep):
    """Every change, or every matrix that is left, has the norm of the effect's own, head by
    head."""
    model, seen = model_of("gpt2"), []
    real = module._with_values

    @contextmanager
    def spy(*args):
        with real(*args):
            seen.append(live_tensors(model)["blocks.1.attn.W_V"].detach().double().clone())
            yield

    monkeypatch.setattr(module, "_with_values", spy)
    old = live_tensors(model)["blocks.1.attn.W_V"].detach().double().clone()
    basis = random_subspaces(1, 16, 2, RNG)[0]
    effect = subspace_effect(model, INPUTS, basis, complement=keep, layer=1, n_draws=4)
    assert (effect.site, effect.control.shape) == ("W_V.1", (4, 30))
    norms = torch.stack([(new if keep else old - new).norm(dim=(1, 2)) for new in seen])
    assert len(norms) == 5
    torch.testing.assert_close(norms, norms[:1].expand_as(norms), rtol=1e-5, atol=1e-6)
    ranks = [
        torch.linalg.matrix_rank((new if keep else old - new)[0], rtol=1e-4).item() for new in seen
    ]
    assert ranks == [2] * 5


def test_a_model_that_averages_reads_the_anchors_subspace_and_nothing_else():
    """Its values need two directions, number and presence of an anchor; the anchors' span (not
    centred) holds both."""
    averager = reference("averager")
    model, data = averager.model(), averager.task.dataset(0)
    sample = data.inputs(data.sample("rsn_train", 60))
    first, both = (leading(value_matrix(model), k=k) for k in (1, 2))
    anchors = span(token_embeddings(model, sample.roles.group("reasoning_anchor"), 9, 0, 0))
    for basis in (first, both, anchors):
        gone = subspace_effect(
            model, sample, basis, metric="accuracy", n_draws=8 if basis is first else 1
        )
        assert gone.values.mean() > 0.75
        assert basis is not first or gone.control.mean() < 0.75
    for basis in (both, anchors):
        alone = subspace_effect(model, sample, basis, complement=True, metric="accuracy", n_draws=3)
        assert not alone.values.any()
        assert alone.control.mean() > 0.75
    for other in random_subspaces(
        3, model.cfg.d_model, 1, np.random.default_rng(1)
    ):  # not scaled up to the same norm
        with with_subspace(model, other):
            assert (
                last_logits(model, sample.tokens).argmax(1).numpy() == sample.labels
            ).mean() > 0.9
    assert not subspace_effect(
        model, sample, first, layer=1, metric="accuracy", n_draws=1
    ).values.any()


def test_controls_that_match_lie_in_the_embedding_and_change_as_much():
    """Spans of keys lie in that of all keys, directions in that of all tokens, and one's own span
    costs the same."""
    model = model_of("gpt2")
    every = token_basis(model, INPUTS, "key")
    keys, lines = (
        matched_spans(model, INPUTS, k, group=group, n_draws=4)
        for k, group in ((3, "key"), (1, None))
    )
    used = np.concatenate(list(INPUTS.roles.tokens.values()))
    whole = token_basis(model, INPUTS, used)
    for bases, around, k in ((keys.bases, every, 3), (lines.bases, whole, 1)):
        assert [basis.shape for basis in bases] == [(16, k)] * 4
        assert all(np.allclose(around @ (around.T @ basis), basis, atol=1e-6) for basis in bases)
        assert len({round(float(np.abs(basis).sum()), 9) for basis in bases}) == 4
    (all_keys,) = matched_spans(model, INPUTS, 10, group="key", n_draws=1).bases
    np.testing.assert_allclose(all_keys @ all_keys.T, every @ every.T, atol=1e-6)
    own = token_basis(model, INPUTS, "reasoning_anchor")
    effect = subspace_effect(model, INPUTS, own, match=Match("the same span", [own, *keys.bases]))
    np.testing.assert_allclose(effect.control[0], effect.values, atol=1e-5)
    assert np.abs(effect.control[1:] - effect.values).max() > 1e-3
    assert effect.control_name == "the same span, change of the same norm"


@pytest.mark.parametrize("kind", ["plain", "gpt2"])
def test_a_group_s_span_is_that_of_what_the_head_reads(kind):
    """Without LayerNorm W_E itself; with it, whatever enters: centred vectors lie in the span, both
    ways."""
    model, roles = model_of(kind), INPUTS.roles
    vectors = {name: token_embeddings(model, ids, 9, 0, 1) for name, ids in roles.tokens.items()}
    mean = np.concatenate(list(vectors.values())).mean(0)
    basis, group = (
        token_basis(model, INPUTS, "reasoning_anchor", head=1),
        vectors["reasoning_anchor"] - mean,
    )
    assert basis.shape == (16, 4)
    np.testing.assert_allclose(basis @ basis.T @ group.T, group.T, atol=1e-8)
    if kind == "plain":
        np.testing.assert_array_equal(vectors["key"], model.W_E.detach().double().numpy()[11:21])


def test_a_basis_of_another_width_is_refused_in_a_sentence():
    basis = random_subspaces(1, 10, 2, RNG)[0]
    with pytest.raises(ModelError, match=r"basis has 10 coordinates; this model has d_model=16"):
        subspace_effect(model_of("plain"), INPUTS, basis)
