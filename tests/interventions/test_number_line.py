"""Anchors that change places on a line: moved exactly, counted as defined, exact on a model written by hand."""

import numpy as np
import pytest
import torch
from interventions.other_answers import Added, Shifted
from interventions.rows import DATA, TASK
from probes.lens_models import lens_model

from rb_interp.errors import TaskError
from rb_interp.interventions import interchanging as module
from rb_interp.interventions.hooking import last_logits
from rb_interp.interventions.interchanging import permuted_number_line
from rb_interp.models import build_model
from rb_interp.models.generations import read_weights
from rb_interp.models.reference import reference
from rb_interp.probes.embeddings import token_vectors

ANCHORS = TASK.tokens("reasoning_anchor")
RNG = np.random.default_rng(0)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "gpt2", "post"])
def test_a_token_takes_another_s_coordinate_and_keeps_the_rest(kind):
    post = kind == "post"
    model = build_model(TASK, gamma=0.3, norm="post", d_model=16) if post else lens_model(kind, d_vocab=40)
    before, direction = read_weights(model), RNG.standard_normal(16)
    order, unit = np.array([2, 0, 1, 3]), direction / np.linalg.norm(direction)
    logits = last_logits(model, DATA.tokens)
    change = module.moves(token_vectors(model, ANCHORS), order, direction)
    with module._moved(model, ANCHORS, change):
        new = model.W_E.detach().double().numpy()
        changed = (last_logits(model, DATA.tokens) - logits).abs().amax(1).numpy() > 1e-4
    old = before["embed.W_E"].double().numpy()
    np.testing.assert_allclose(new[ANCHORS] @ unit, (old[ANCHORS] @ unit)[order], atol=1e-5)
    rest = np.eye(16) - np.outer(unit, unit)
    np.testing.assert_allclose(new[ANCHORS] @ rest, old[ANCHORS] @ rest, atol=1e-5)
    np.testing.assert_array_equal(np.delete(new, ANCHORS, 0), np.delete(old, ANCHORS, 0))
    assert not changed[DATA.rows("mem")].any()
    assert changed[DATA.rows("rsn_train")].mean() > 0.5
    with pytest.raises(KeyError), module._moved(model, ANCHORS, change):
        raise KeyError("inside")
    assert all(torch.equal(tensor, before[name]) for name, tensor in read_weights(model).items())


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "direction", "share"),
    [("averager", "value", 1), ("carrier", "component", 1), ("carrier", "value", 0)],
)
def test_models_written_by_hand_count_an_anchor_as_where_it_stands_on_their_line(name, direction, share):
    """The averager's values read its line first; the carrier's values read keys, and a later layer the anchors."""
    found = reference(name)
    model, data = found.model(), found.task.dataset(0)
    effect = permuted_number_line(model, data, direction=direction, n_draws=3)
    assert effect.summary()["effect"] == share
    assert len(effect.values) > 200
    across = np.linalg.svd(model.W_V[0, 0].detach().double().numpy())[0][:, -1]
    assert not permuted_number_line(model, data, direction=across, n_draws=3).values.any()


def test_inputs_that_count_are_right_and_to_change(monkeypatch):
    """Reversal moves 11 .. 15 to 15 .. 11: the answer is to change by 2 x (2 x 13 - sum), nowhere by 0."""
    averager = reference("averager")
    model, data = averager.model(), averager.task.dataset(0)
    rows = data.sample("rsn_train", 300)
    sums = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1).sum(1)
    assert len(permuted_number_line(model, data, n_draws=1).values) == (sums != 26).sum()
    right, predicted = data.labels[rows], (data.labels[rows] + 2 * (26 - sums))[sums != 26]
    with monkeypatch.context() as patched:
        patched.setattr(module, "most_likely", lambda model, tokens: right if len(tokens) == 300 else predicted)
        assert permuted_number_line(model, data, n_draws=1).values.all()
    wrong = build_model(averager.task, gamma=0.8)
    few = permuted_number_line(wrong, data, n=20, n_draws=2)
    assert few.control.shape == (2, len(few.values))
    monkeypatch.setattr(module, "most_likely", lambda model, tokens: np.full(len(tokens), -1))
    none = permuted_number_line(model, data, n_draws=2)
    assert none.control.shape == (2, 0)
    assert np.isnan(none.summary()["effect"])
    assert none.summary()["n"] == 0


def test_the_control_moves_embeddings_as_far(monkeypatch):
    model, seen = reference("averager").model(), []
    real, old = module.with_weights, model.W_E.detach().double().clone()

    def spy(model, weights):
        seen.append((weights["embed.W_E"].double() - old).norm().item())
        return real(model, weights)

    monkeypatch.setattr(module, "with_weights", spy)
    effect = permuted_number_line(model, reference("averager").task.dataset(0), n=50, n_draws=5)
    assert effect.control.shape[0] == 5
    assert len(seen) == 6
    np.testing.assert_allclose(seen, seen[0], rtol=1e-4)


def test_rows_whose_answer_is_another_one_are_refused():
    model, shifted, added = lens_model("plain", d_vocab=40), Shifted(**vars(TASK)), Added(**vars(TASK))
    for data, set, why in ((DATA, "mem", "needs rows"), (shifted.dataset(0), "rsn_train", "needs rows"),
                           (added.dataset(0), "mem", "has rows without reasoning anchors")):  # fmt: skip
        with pytest.raises(TaskError, match=f"set='{set}'.* {why}"):
            permuted_number_line(model, data, set=set)
