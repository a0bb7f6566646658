"""Swaps and the number line: exact on any model, and on models written by hand what was built."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK, Added, Shifted, model_of
from probes.lens_models import read_weights

from rb_interp.errors import TaskError
from rb_interp.interventions import swaps as module
from rb_interp.interventions.edits import replaced
from rb_interp.interventions.swaps import key_and_sum, permuted_number_line
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "circuit", "key", "total"),
    [
        ("averager", "average-then-key", 1, 1),
        ("carrier", "key-to-anchors", 1, 1),
        ("averager", "key-to-anchors", 0, None),
        ("carrier", "average-then-key", 0, 0),
    ],
)
def test_models_written_by_hand_carry_key_and_sum_where_their_circuit_does(
    name, circuit, key, total
):
    """The averager's anchors bring their own sum too, save where one of them stands last and sees
    itself."""
    model = reference(name)
    found = key_and_sum(model.model(), model.task.dataset(0), circuit=circuit, n=100)
    sites = {
        "average-then-key": ("attn_out.1@last", "attn_out.0@last"),
        "key-to-anchors": ("attn_out.0@anchor", "resid_pre.0@anchor; held: attn_out.0"),
    }
    assert (found.key.site, found.sum.site) == sites[circuit]
    assert len(found.key.values) == 100
    assert found.key.values.mean() == pytest.approx(key, abs=0.05)
    assert total is None or found.sum.values.mean() == pytest.approx(total, abs=0.05)
    assert not any(effect.control.any() for effect in found)


def test_pairs_differ_in_key_and_sum_and_no_row_is_used_twice():
    found, data = reference("carrier"), reference("carrier").task.dataset(0)
    for same_position in (False, True):
        base, source = module._pairs(found.model(), data, 150, "rsn_train", same_position, seed=0)
        assert len({*base, *source}) == 300
        keys, sums = (
            (lambda rows: data.tokens[rows, data.key_position[rows]]),
            data.anchor_positions,
        )
        assert (keys(base) != keys(source)).all()
        total = [
            np.take_along_axis(data.tokens[rows], sums[rows], 1).sum(1) for rows in (base, source)
        ]
        assert (total[0] != total[1]).all()
        assert (data.set[[*base, *source]] == 1).all()
        assert (data.key_position[base] == data.key_position[source]).all() == same_position
        assert len(set(data.key_position[base])) == 7  # every position, not the first ones


def test_a_model_without_right_answers_reads_nan(monkeypatch):
    monkeypatch.setattr(module, "most_likely", lambda model, tokens: np.full(len(tokens), -1))
    model = build_model(TASK, gamma=0.8)
    swaps = [
        swap for circuit in module.CARRIERS for swap in key_and_sum(model, DATA, circuit=circuit)
    ]
    line = permuted_number_line(model, DATA, n_draws=2)
    for effect in (*swaps, line):
        assert effect.summary()["n"] == 0
        assert np.isnan(effect.summary()["effect"])
    assert line.control.shape == (2, 0)


REFUSED = {
    "memory has no sum": (TASK, "mem", r"needs rows whose answer is key \+ sum"),
    "other labels": (Shifted(**vars(TASK)), "rsn_train", r"needs rows whose answer is key \+ sum"),
    "some other labels": (Shifted(**vars(TASK)), "train", r"needs rows whose answer is key \+ sum"),
    "other anchors": (Added(**vars(TASK)), "mem", "has rows without reasoning anchors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_whose_answer_is_another_one_are_refused(case):
    task, set, why = REFUSED[case]
    for call in (permuted_number_line, key_and_sum)[: 1 if "anchors" in why else 2]:
        with pytest.raises(TaskError, match=rf"set='{set}'.* {why}"):
            call(model_of("plain"), task.dataset(0), set=set)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "gpt2", "post"])
def test_an_anchor_takes_another_s_coordinate_and_the_control_moves_as_far(kind, monkeypatch):
    model, direction, seen = model_of(kind), np.random.default_rng(0).standard_normal(16), []
    before, unit, anchors = (
        read_weights(model),
        direction / np.linalg.norm(direction),
        TASK.tokens("reasoning_anchor"),
    )

    @contextmanager
    def spy(weight, value):
        with replaced(weight, value):
            seen.append(model.W_E.detach().double().numpy().copy())
            yield

    monkeypatch.setattr(module, "replaced", spy)
    assert (
        permuted_number_line(model, DATA, direction=direction, n_draws=3, n=40).control.shape[0]
        == 3
    )
    old, new = before["embed.W_E"].double().numpy(), seen[0]
    np.testing.assert_allclose(new[anchors] @ unit, (old[anchors] @ unit)[::-1], atol=1e-5)
    rest = np.eye(16) - np.outer(unit, unit)
    np.testing.assert_allclose(new[anchors] @ rest, old[anchors] @ rest, atol=1e-5)
    for moved in seen:
        np.testing.assert_array_equal(np.delete(moved, anchors, 0), np.delete(old, anchors, 0))
    np.testing.assert_allclose(
        [np.linalg.norm(moved - old) for moved in seen], np.linalg.norm(new - old), rtol=1e-4
    )
    assert len(seen) == 4
    assert all(torch.equal(tensor, before[name]) for name, tensor in read_weights(model).items())


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "direction", "share"),
    [("averager", "value", 1), ("carrier", "component", 1), ("carrier", "value", 0)],
)
def test_models_written_by_hand_count_an_anchor_as_where_it_stands_on_their_line(
    name, direction, share
):
    """The averager's values read its line first; the carrier's values read keys, and a later layer
    the anchors."""
    found = reference(name)
    model, data = found.model(), found.task.dataset(0)
    effect = permuted_number_line(model, data, direction=direction, n_draws=3)
    assert effect.summary()["effect"] == share
    rows = data.sample(
        "rsn_train", 300
    )  # reversal moves 11 .. 15 to 15 .. 11: an answer of sum 26 stays
    sums = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1).sum(1)
    assert len(effect.values) == (sums != 26).sum() > 200
    across = np.linalg.svd(model.W_V[0, 0].detach().double().numpy())[0][:, -1]
    assert not permuted_number_line(model, data, direction=across, n_draws=3).values.any()
