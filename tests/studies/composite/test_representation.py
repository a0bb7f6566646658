"""What vectors stand for and how complex weights are: codes that are planted, hand-written models,
tables made by hand, and untrained models."""

from __future__ import annotations

import numpy as np
import pytest
from planted import INFERENTIAL, L1, SHIFTS, SYMMETRIC, V, planted
from reference_models import EQUAL, ORDERED, UNIT, reference_model

from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.probes.variance import omega_squared
from rb_interp.studies.composite.flow import inferential_rows
from rb_interp.studies.composite.representation import (
    ANSWERS_OF,
    KEYS,
    NOISES,
    draw_grid,
    has_grid,
    read_complexity,
    read_grid,
    read_shares,
)
from rb_interp.studies.composite.task import CompositeTask

pytestmark = pytest.mark.wide

TASK = CompositeTask(n_sequences=1600)
DATA = TASK.dataset(seed=0)
SIZES = ModelConfig(d_model=16, d_head=8, d_mlp=16, norm="post")


@pytest.mark.parametrize(
    ("task", "at"), [(TASK, 2), (CompositeTask.preset("smoke"), 1)], ids=["9", "6"]
)
def test_the_grid_has_every_inferential_pair_with_every_key_and_the_same_noise(task, at):
    grid = draw_grid(task.dataset(0))
    assert set(grid.pairs) == {(a, b) for a in range(1, 5) for b in range(1, 5)} - {(3, 4), (4, 3)}
    tokens = grid.inputs.tokens.reshape(14, NOISES, 11, task.length)
    for pair, of_pair in zip(grid.pairs, tokens, strict=True):
        assert (of_pair[..., at] == KEYS).all()
        assert (of_pair[..., at + 1 : at + 3] == pair).all()
    others = np.delete(tokens, [at, at + 1, at + 2], -1)
    assert (others == others[:1, :, :1]).all()
    assert len(np.unique(others[0, :, 0], axis=0)) == NOISES
    assert others.min() >= task.items[0]
    keys, first, second = (grid.inputs.tokens[:, at + i] for i in range(3))
    np.testing.assert_array_equal(grid.steps, keys + SHIFTS[first - 1])
    np.testing.assert_array_equal(grid.inputs.labels, grid.steps + SHIFTS[second - 1])
    targets = grid.inputs.labels[grid.cells(ANSWERS_OF)]
    assert [(one[0, ..., 0] == one[0, ..., 1]).sum() for one in targets] == [
        5,
        8,
    ]  # x - 4 = y + 2, and x + 6 = y + 3
    for place, role in ((0, "key"), (1, "a1"), (2, "a2")):
        assert (grid.inputs.roles.position(role) == at + place).all()


def test_a_grid_needs_its_keys_pairs_and_anchors():
    assert has_grid(DATA)
    assert has_grid(TASK.both_unseen().dataset(0))
    assert not has_grid(CompositeTask(items=(31, 99), n_sequences=1600).dataset(0))
    assert not has_grid(
        CompositeTask(
            shifts=(5, 1, -2), exceptions=(), held_out=((3, 2),), n_sequences=900
        ).dataset(0)
    )
    exceptional = CompositeTask(exceptions=(((3, 4), -6), ((2, 2), 0)), n_sequences=1600)
    assert not has_grid(exceptional.dataset(0))


def test_a_code_of_the_target_reads_1_and_0_and_a_code_of_each_row_near_0_for_both():
    with planted(TASK, INFERENTIAL) as model:
        answers, steps, *_ = read_grid(model, DATA)
        shares = read_shares(model, DATA)
    for reading in (answers, steps):
        assert [reading.values[name] for name in ("equal", "different")] == pytest.approx(
            [1, 0], abs=1e-6
        )
    assert shares[1].values["answer"] == pytest.approx(1)
    assert shares[0].values["pair"] == pytest.approx(1)
    assert shares[0].values["order"] > 0.2
    with planted(TASK, SYMMETRIC) as model:
        answers, steps, *_ = read_grid(model, DATA)
        shares = read_shares(model, DATA)
    for reading in (answers, steps):
        assert [reading.values[name] for name in ("equal", "different")] == pytest.approx(
            [0, 0], abs=0.08
        )
    assert shares[1].values["answer"] < 0.3
    assert shares[0].values["unordered_pair"] == pytest.approx(1)
    assert shares[0].values["order"] == pytest.approx(0, abs=1e-9)


def test_matrices_have_the_first_pair_s_keys_down_and_the_drawn_cells_are_those_of_the_figure():
    def angle(number):
        vectors = np.zeros((len(number), 256))
        vectors[:, 0], vectors[:, 1] = np.cos(number / 20), np.sin(number / 20)
        return vectors

    codes = {
        L1: lambda key, a, b: angle(key + SHIFTS[a] + SHIFTS[b]),
        V: lambda key, a, b: angle(key + SHIFTS[a]),
    }
    with planted(TASK, codes) as model:
        answers, steps, *_ = read_grid(model, DATA)
    down, across = KEYS[:, None], KEYS[None]
    expected = {"3_3:2_2": down - across - 6, "1_2:1_3": down - across + 3}
    for name, apart in expected.items():
        np.testing.assert_allclose(answers.arrays[name], np.cos(apart / 20), atol=1e-5)
    drawn = [*expected["3_3:2_2"][down > across], *expected["1_2:1_3"][down < across]]
    drawn = np.array([each for each in drawn if each])
    assert answers.values["different_drawn"] == pytest.approx(np.cos(drawn / 20).mean(), abs=1e-5)
    apart = {"1:2": 4, "2:3": 3, "1:3": 7, "3:4": 6}
    for name, shift in apart.items():
        np.testing.assert_allclose(
            steps.arrays[name], np.cos((down - across + shift) / 20), atol=1e-5
        )
    everything = np.concatenate([(down - across + shift).ravel() for shift in apart.values()])
    assert (everything == 0).sum() == 24
    assert steps.values["different"] == pytest.approx(
        np.cos(everything[everything != 0] / 20).mean(), abs=1e-5
    )


@pytest.mark.parametrize(("flow", "shares"), [("via_last", EQUAL), ("via_anchors", ORDERED)])
def test_shares_of_hand_written_flows_are_those_of_what_they_put_at_the_last_position(flow, shares):
    """The last token's own number, and what each layer has brought: shares of both anchors, the
    key's number.

    One more direction holds minus the sum of them all, for the LayerNorm.
    """
    model = reference_model(DATA, flow, "symmetric", shares)
    rows = inferential_rows(DATA)
    gathered = np.eye(4)[DATA.pairs[rows] - 1].transpose(0, 2, 1) @ shares
    own, key = UNIT * DATA.tokens[rows, -1:], UNIT * DATA.keys[rows, None]
    if flow == "via_last":
        held = [np.hstack([own, gathered]), np.hstack([own, gathered, key])]
    else:
        held = [np.hstack([own, own]), np.hstack([own, own, gathered, key])]
    number = DATA.pairs[rows] @ [5, 1]
    unordered = np.sort(DATA.pairs[rows], 1) @ [5, 1]
    for reading, parts in zip(read_shares(model, DATA), held, strict=True):
        vectors = np.hstack([parts, -parts.sum(1, keepdims=True)])
        of = {
            "answer": DATA.labels[rows],
            "key": DATA.keys[rows],
            "pair": number,
            "unordered_pair": unordered,
        }
        expected = {name: omega_squared(vectors, labels) for name, labels in of.items()}
        assert {name: reading.values[name] for name in of} == pytest.approx(expected, abs=0.01)
        assert reading.n == len(rows)


def test_an_untrained_model_reads_1_for_both_and_explains_nothing_of_rows_with_other_noise():
    untrained = build_model(TASK, gamma=0.8, config=SIZES)
    answers = read_grid(
        reference_model(DATA, "via_last", "symmetric", EQUAL), DATA, untrained=untrained
    )[0]
    assert min(answers.untrained["equal"], answers.untrained["different"]) > 0.99
    assert abs(answers.untrained["difference"]) < 0.01
    for reading in read_shares(untrained, DATA):
        assert max(map(abs, reading.values.values())) < 0.05


def test_complexity_of_a_hand_written_model_and_of_an_untrained_one():
    """The known model keeps each token's number on one line, so its items need one direction, and
    no twin does."""
    task = CompositeTask(n_sequences=1600, evaluation_rows=100)
    data = task.dataset(0)
    known = reference_model(data, "via_anchors", "inferential")
    untrained = build_model(
        task, gamma=0.5, config=ModelConfig(d_model=64, d_head=32, d_mlp=64, norm="post")
    )
    true = {(one.probe, one.layer): one for one in read_complexity(known, data, untrained)}
    twin = {(one.probe, one.layer): one for one in read_complexity(untrained, data, untrained)}
    items, other = true["lattice", None].values, twin["lattice", None].values
    assert items["participation"] == pytest.approx(1)
    assert items["pc_order"] == pytest.approx(1)
    assert items["nearest"] < 0.1
    assert other["participation"] == pytest.approx(79 * 64 / 143, rel=0.1)
    assert other["participation_ratio"] == 1
    assert other["pc_order"] < 0.5
    at = "condensation", 0
    assert twin[at].values["share_abs_W_Q"] == 0
    assert twin[at].values["groups_W_Q"] == 32
    spectra = twin["weight_spectra", 0].values
    assert spectra["participation_W_Q"] == pytest.approx(64 * 32 / 96, rel=0.1)
    assert true["weight_spectra", 0].values["participation_W_Q"] < 3
