"""Cosines by target and ranges of labels, on vectors and outputs made by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from lens_models import hooks_on, lens_model

from rb_interp.errors import ModelError
from rb_interp.probes import captured, cosines_by_target, from_arrays
from rb_interp.probes.labels import label_range, pooled_inside
from rb_interp.tasks import Inputs, Roles

HOOK = "blocks.1.hook_resid_mid"
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 30, (60, 6))
TARGETS = np.arange(60) % 5
PLACE = RNG.integers(0, 6, (60, 1))
INPUTS = Inputs(TOKENS, TARGETS, Roles({"here": PLACE}))


def planted(vectors: np.ndarray, role: bool = False):
    """Activations of a model with the given vectors at the last position, or at the role's, and
    noise elsewhere."""
    cache = captured(lens_model("plain"), TOKENS, [HOOK])
    held = torch.randn(60, 6, vectors.shape[1], generator=torch.Generator().manual_seed(0)).double()
    at = PLACE[:, 0] if role else np.full(60, 5)
    held[torch.arange(60), torch.as_tensor(at)] = torch.as_tensor(vectors).double()
    cache.cache_dict[HOOK] = held
    return cache


@pytest.mark.parametrize("role", [None, "here"])
def test_vectors_of_the_target_read_1_and_0_those_of_each_row_alone_the_same_and_a_shared_one_hides_both(
    role,
):
    of_target, of_row = np.eye(64)[TARGETS] * np.arange(1, 61)[:, None], np.eye(64)[:60]
    found = {
        name: cosines_by_target(planted(each, bool(role)), INPUTS, hook=HOOK, role=role, n_null=100)
        for name, each in {
            "target": of_target,
            "row": of_row,
            "shared": of_row + 50 * np.eye(64)[63],
        }.items()
    }
    exact = {
        name: [reading.values[x] for x in ("equal", "different")] for name, reading in found.items()
    }
    assert exact["target"] == pytest.approx([1, 0])
    assert exact["row"] == pytest.approx([0, 0])
    assert exact["shared"] == pytest.approx([1, 1], abs=1e-3)
    assert found["shared"].values["centred_equal"] == pytest.approx(-1 / 59)
    assert found["target"].nulls["difference"].p_value(1.0) == pytest.approx(1 / 101)
    assert abs(found["row"].nulls["difference"].draws).max() < 1e-9


def test_rows_are_centred_with_those_of_their_own_number():
    half, of_target = np.arange(60) // 30, RNG.standard_normal((5, 64))[TARGETS]
    shared = 50 * np.eye(64)[half]
    plain, loud = (
        cosines_by_target(planted(each), INPUTS, hook=HOOK, within=half, n_null=0).values
        for each in (of_target, of_target + shared)
    )
    centred = [name for name in plain if name.startswith("centred")]
    assert [loud[name] for name in centred] == pytest.approx([plain[name] for name in centred])
    assert loud["centred_equal"] == pytest.approx(1)
    together = cosines_by_target(planted(of_target + shared), INPUTS, hook=HOOK, n_null=0).values
    assert together["centred_equal"] < 0.5


def test_pairs_and_targets_that_are_given_are_those_that_count():
    vectors = np.array([[1.0, 0], [0, 1], [1, 1], [-1, 0]] * 15)
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 2]])
    reading = cosines_by_target(
        planted(vectors),
        INPUTS,
        hook=HOOK,
        targets=np.array([7, 7, 8, 7] * 15),
        pairs=pairs,
        n_null=0,
    )
    np.testing.assert_allclose(reading.arrays["cosines"], [0, 0.5**0.5, -1, 0.5**0.5], atol=1e-12)
    assert [reading.values[x] for x in ("equal", "different")] == pytest.approx([-0.5, 0.5**0.5])
    reading = cosines_by_target(
        planted(vectors), INPUTS, hook=HOOK, targets=np.zeros(60, int), pairs=pairs, n_null=0
    )
    assert reading.values["equal"] == pytest.approx(-1 / 4 + 2**0.5 / 4)
    assert np.isnan(reading.values["different"])
    assert "no pair of rows has equal targets" in reading.notes["different"]


@pytest.mark.parametrize("kind", ["gpt2", "grouped"])
def test_heads_are_one_vector_and_nothing_is_left_behind(kind):
    model, untrained = (lens_model(kind, seed) for seed in (0, 1))
    reading = cosines_by_target(
        model, INPUTS, hook="blocks.1.attn.hook_v", role="here", untrained=untrained, n_null=20
    )
    _, cache = model.run_with_cache(torch.as_tensor(TOKENS))
    v = cache["blocks.1.attn.hook_v"][torch.arange(60), torch.as_tensor(PLACE[:, 0])].flatten(1)
    by_torch = torch.nn.functional.cosine_similarity(v[:, None], v[None], dim=-1).detach().numpy()
    first, second = np.triu_indices(60, 1)
    np.testing.assert_allclose(reading.arrays["cosines"], by_torch[first, second], atol=1e-5)
    assert reading.untrained["equal"] != reading.values["equal"]
    assert hooks_on(model) == hooks_on(untrained) == []
    short = Inputs(TOKENS[:, : model.cfg.n_heads], INPUTS.labels)  # a head stands in no position
    with pytest.raises(ModelError, match="hook_pattern"):
        cosines_by_target(model, short, hook="blocks.1.attn.hook_pattern")


PAPER = tuple((30, 29 + 20 * i) for i in (1, 2, 3, 4))


def uniform(*ranges: tuple[int, int], d_vocab: int = 200) -> np.ndarray:
    """Output distribution of each group: uniform on its range."""
    table = np.full((len(ranges), d_vocab), 1e-30)
    for row, (low, high) in zip(table, ranges, strict=True):
        row[low : high + 1] = 1 / (high - low + 1)
    return table


def told(table: np.ndarray, untrained: np.ndarray | None = None, label: int = 35):
    """The reading of a model that answers ``table[group]`` at the last position; two inputs of each
    group."""
    groups = np.repeat(np.arange(4), 2)
    sources = []
    for each in (table, table if untrained is None else untrained):
        logits = 100 * np.random.default_rng(0).random((8, 2, 200))  # rubbish that must not be read
        logits[:, -1] = np.log(each[groups]) + 3  # a constant that the softmax takes away
        sources.append(from_arrays(logits=logits))
    inputs = Inputs(np.zeros((8, 2), int), np.full(8, label))
    return label_range(sources[0], inputs, groups=groups, ranges=PAPER, untrained=sources[1])


def test_pooled_is_what_the_paper_s_ranges_give_by_counting():
    """Each label's weight in the pool, counted one by one: 1/4 (1/20 + 1/40 + 1/60 + 1/80) for the
    first twenty."""
    pool = {label: Fraction(0) for label in range(30, 110)}
    for low, high in PAPER:
        for label in range(low, high + 1):
            pool[label] += Fraction(1, 4 * (high - low + 1))
    assert sum(pool.values()) == 1
    by_hand = [float(sum(pool[label] for label in range(low, high + 1))) for low, high in PAPER]
    assert by_hand[0] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4) == pytest.approx(25 / 48)
    np.testing.assert_allclose(pooled_inside(PAPER), by_hand)
    np.testing.assert_allclose(
        pooled_inside([(0, 9), (20, 29)]), [0.5, 0.5]
    )  # ranges that share nothing


def test_models_that_know_the_ranges_the_pooled_labels_or_nothing():
    reading = told(uniform(*PAPER), untrained=uniform(*[(0, 199)] * 4), label=109)
    assert reading.values["lowest_inside"] == pytest.approx(1)
    assert (
        reading.values["accuracy"] == 0
    )  # each distribution is flat, its first label is the answer
    assert [reading.untrained[f"inside_{g}"] for g in (1, 2, 3, 4)] == pytest.approx(
        [0.1, 0.2, 0.3, 0.4]
    )
    pooled = told(np.tile(uniform(*PAPER).mean(0), (4, 1)))
    np.testing.assert_allclose(pooled.arrays["inside"], pooled_inside(PAPER))
    assert (
        pooled.values["lowest_inside"]
        == pytest.approx(pooled.values["pooled"])
        == pytest.approx(25 / 48)
    )


def test_the_lowest_group_counts_and_the_last_position_is_told():
    table = uniform(*PAPER)
    table[2] = uniform((80, 99))[0]  # ten of twenty labels lie above 89
    reading = told(table)
    assert reading.values["lowest_inside"] == reading.values["inside_3"] == pytest.approx(0.5)
    np.testing.assert_allclose(reading.arrays["outputs"], table, atol=1e-12)
    assert reading.n == 8
