"""What vectors stand for and how complex weights are: codes that are planted, hand-written models,
tables made by hand, and untrained models."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from planted import INFERENTIAL, L1, SHIFTS, SYMMETRIC, V, planted
from reference_models import EQUAL, ORDERED, UNIT, reference_model
from table_columns import COLUMNS, table_of

from rb_interp.claims import judge
from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.probes.variance import omega_squared
from rb_interp.runs.results import readings_table
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.claims import CLAIMS
from rb_interp.studies.composite.flow import inferential_rows
from rb_interp.studies.composite.phase import final_rows
from rb_interp.studies.composite.representation import (
    ANSWERS_OF,
    KEYS,
    NOISES,
    complexity_contrast,
    draw_grid,
    growth,
    growth_order,
    has_grid,
    phase_by_complexity,
    read_complexity,
    read_grid,
    read_shares,
)
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.training.member_group import Member

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


BY_ID = {claim.id: claim for claim in CLAIMS}
NAMES = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")


def verdict(id: str, several):
    """The verdict on readings, or on those of several members."""
    readings = (
        several
        if isinstance(several, pd.DataFrame)
        else readings_table(final_rows(list(several), 9))
    )
    (found,) = judge(readings, [BY_ID[id]])
    return found


def spectra(numbers) -> pd.DataFrame:
    """Readings ``weight_spectra``: (gamma, seed, layer, matrix, its participation ratio, the
    untrained model's)."""
    return readings_table(
        final_rows(
            [
                (
                    gamma,
                    seed,
                    "",
                    Reading(
                        "weight_spectra",
                        {f"participation_{name}": now},
                        layer,
                        untrained={f"participation_{name}": first},
                    ),
                )
                for gamma, seed, layer, name, now, first in numbers
            ],
            9,
        )
    )


def matrices(participation) -> pd.DataFrame:
    """Spectra of members (gamma, seed), each number given by ``participation(gamma, seed,
    number)``."""
    return spectra(
        (gamma, seed, number // 6, NAMES[number % 6], participation(gamma, seed, number), 20.0)
        for gamma, seed, number in product((0.5, 0.8), range(8), range(12))
    )


MEMBERS = [Member(gamma, seed) for seed in range(8) for gamma in (0.5, 0.8)]


def condensed_queries(at: dict[float, float]) -> pd.DataFrame:
    """Readings of models whose first layer has that share of its queries' neurons on one line, half
    of them reversed.

    Every other layer, and every other matrix, is as it was drawn.
    """
    task, config = (
        CompositeTask.preset("smoke"),
        ModelConfig(d_model=64, d_head=32, d_mlp=16, norm="post"),
    )
    data, rows = task.dataset(0), []
    for gamma, share in at.items():
        models = [build_model(task, gamma=gamma, config=config) for _ in range(2)]
        queries, n = models[0].blocks[0].attn.W_Q.data[0], round(32 * share)
        queries[:, :n] = queries[:, :1] * torch.tensor([1.0, -1.0]).repeat(16)[:n]
        found = read_complexity(models[0], data, models[1], n_null=2)
        rows += final_rows(
            [(gamma, seed, "", reading) for reading in found for seed in range(8)], 9
        )
    return readings_table(rows)


def test_k1_asks_for_neurons_on_one_line_in_the_first_layer_s_queries():
    found = verdict("K1", condensed_queries({0.8: 0.75, 0.5: 0.0}))
    assert (found.outcome, found.untrained) == ("HOLDS", 0)
    assert found.effect == pytest.approx(24 * 23 / (32 * 31), abs=1e-6)
    assert [one.effect for one in found.context] == pytest.approx([24 * 11 / (32 * 31), 0.0])


@pytest.mark.parametrize(("lower", "outcome"), [(10, "HOLDS"), (9, "FAILS")])
def test_k2_counts_matrices_of_a_seed(lower, outcome):
    table = matrices(lambda gamma, seed, number: 10.0 if gamma == 0.8 and number < lower else 14.5)
    found = verdict("K2", complexity_contrast(table, MEMBERS))
    assert (found.outcome, found.effect, found.untrained) == (outcome, lower, 0)


def test_k2_counts_a_diverged_member_as_not_met():
    table = matrices(lambda gamma, seed, number: 1.0 if gamma == 0.8 else 2.0)
    table = table.loc[(table["gamma"] != 0.5) | (table["seed"] != 3)]
    found = verdict("K2", complexity_contrast(table, MEMBERS))
    assert dict(zip(found.seeds, found.met, strict=True)) == {seed: seed != 3 for seed in range(8)}
    assert not list(
        complexity_contrast(table, [member for member in MEMBERS if member.gamma == 0.8])
    )


def eigenvalues(steps, gamma: float = 0.8) -> pd.DataFrame:
    """Five eigenvalues that jump from 0 to 5, 4, ... at the given steps, of eight seeds; and a
    sixth that is small."""
    times = range(0, 60, 10)
    rows = [
        {
            "gamma": gamma,
            "seed": seed,
            "step": t,
            "rank": rank,
            "eigenvalue": (6.0 - rank) * (t >= at),
        }
        for seed, t, (rank, at) in product(range(8), times, enumerate((*steps, 0), 1))
    ]
    return table_of(COLUMNS["composite"]["eigenvalues"], rows)


@pytest.mark.parametrize(
    ("steps", "order", "outcome"),
    [((10, 30, 20, 40, 50), 0.9, "HOLDS"), ((50, 40, 30, 20, 10), -1, "FAILS")],
)
def test_k4_asks_whether_the_largest_eigenvalue_is_the_first(steps, order, outcome):
    assert growth(eigenvalues(steps)).query("seed == 0")["half_step"].to_list() == list(steps)
    found = verdict("K4", growth_order(eigenvalues(steps)))
    assert (found.outcome, found.effect) == (outcome, pytest.approx(order))


def members_of(phases: dict[float, str], numbers) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Spectra and phases: a letter a seed (i, s, m, u), and PR of L0's W_Q by phase, gamma and
    seed."""
    words = {"i": "inferential", "s": "symmetric", "m": "mixed", "u": "unfit"}
    rows = [
        (gamma, seed, words[x]) for gamma, text in phases.items() for seed, x in enumerate(text)
    ]
    found = spectra((g, s, 0, "W_Q", numbers(phase, g, s), 30.0 + s) for g, s, phase in rows)
    return found, pd.DataFrame(rows, columns=["gamma", "seed", "phase"])


def test_k8_compares_members_of_one_gamma_alone():
    """Inferential members have the higher number within each gamma; between gammas they would have
    the lower one."""
    found = members_of(
        {0.5: "ssssi", 0.8: "iiiis"},
        lambda phase, g, s: 100 * (g == 0.5) + 10 * (phase[0] == "i") + s,
    )
    ((*_, reading),) = phase_by_complexity(*found)
    assert (reading.values["auc"], reading.values["auc:low"], reading.n) == (0, 0, 8)
    assert reading.untrained == {"auc": 0.5}


@pytest.mark.parametrize(
    ("inferential", "symmetric", "outcome"), [(3, 5, "HOLDS"), (5, 3, "FAILS"), (5, 5, "FAILS")]
)
def test_k8_by_hand(inferential, symmetric, outcome):
    pr = {"inferential": inferential, "symmetric": symmetric, "mixed": 1, "unfit": 1}
    found = members_of({0.5: "is" * 10 + "mu", 0.8: "is" * 10}, lambda phase, g, s: pr[phase])
    judged = verdict("K8", phase_by_complexity(*found))
    assert (judged.outcome, judged.unit) == (outcome, "interval")
    assert judged.effect == {"HOLDS": 1.0}.get(outcome, 0.5 if inferential == symmetric else 0.0)


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
