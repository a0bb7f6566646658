"""Ranks of the embeddings of lists of tokens, planted and random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from language_text import (
    D_MODEL,
    D_VOCAB,
    PRONTOQA,
    STORIES,
    Embedded,
    frequency_alone,
    made_counts,
    noise,
    p_values,
)

from rb_interp.probes.embeddings import gaussian_participations, participation
from rb_interp.probes.language import _swapped, embedding_rank

COUNTS = made_counts()


def test_planted_ranks_are_read():
    """PrOntoQA's tokens in three directions of one size each, the stories' everywhere."""
    W_E, rng = noise(), np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((D_MODEL, 3)))[0].T
    W_E[PRONTOQA] = np.linalg.qr(rng.standard_normal((len(PRONTOQA), 3)))[0] @ basis
    reading = embedding_rank(Embedded(W_E), counts=COUNTS, untrained=Embedded(noise(2)))
    assert reading.values["share_3_prontoqa"] == pytest.approx(1)
    assert 2.9 < reading.values["participation_prontoqa"] <= 3 + 1e-9
    assert reading.values["participation_ratio_prontoqa"] < 0.2
    assert reading.values["participation_ratio_stories"] == pytest.approx(1, abs=0.05)
    assert reading.values["participation_difference"] < -10
    p = p_values(reading)
    names = ("participation_prontoqa", "participation_ratio_prontoqa", "participation_difference")
    assert [p[name] for name in names] == [1 / 201] * 3
    assert p["participation_stories"] > 0.02
    assert reading.nulls["participation_ratio_stories"].draws.mean() == pytest.approx(1, abs=0.05)


def test_independent_directions_read_chance_which_depends_on_the_number_of_tokens():
    model = Embedded(noise())
    reading = embedding_rank(model, counts=COUNTS, untrained=model)
    sizes = {
        "prontoqa": len(PRONTOQA),
        "stories": len(STORIES),
        "control": len(PRONTOQA),
        "all": D_VOCAB,
    }
    for name, n in sizes.items():
        assert reading.values[f"participation_{name}"] == pytest.approx(
            n * D_MODEL / (n + D_MODEL), rel=0.08
        )
        assert reading.values[f"participation_ratio_{name}"] == 1
        assert 0.005 < p_values(reading)[f"participation_{name}"] < 1


def test_frequency_alone_lowers_the_dimension_of_all_and_tells_no_corpora_apart():
    reading = embedding_rank(Embedded(frequency_alone()), counts=COUNTS)
    assert reading.values["share_1_all"] > 0.2
    assert p_values(reading)["participation_all"] == 1 / 201
    assert 0.05 < p_values(reading)["participation_difference"] < 0.95
    assert (
        abs(reading.values["participation_difference"]) < 3
    )  # the stories' list is longer and reads 9 more
    assert math.isnan(reading.values["participation_ratio_all"])


def test_gaussian_participations_are_those_of_gaussian_vectors():
    rng, n = np.random.default_rng(0), 400
    for tokens, d_model in ((12, 30), (30, 12)):
        drawn = gaussian_participations(n, tokens, d_model, rng)
        made = np.array([participation(rng.standard_normal((tokens, d_model))) for _ in range(n)])
        error = math.sqrt((drawn.var() + made.var()) / n)
        assert abs(drawn.mean() - made.mean()) < 4 * error
        assert drawn.std() == pytest.approx(made.std(), rel=0.15)
    assert np.isnan(gaussian_participations(3, 1, 5, rng)).all()


def test_a_swap_exchanges_matched_tokens():
    """With two tokens a list has one direction: swapped or not, both lists read 1 and differ by
    0."""
    first, control = np.eye(4)[:3], np.vstack([np.eye(4)[:2], [[5.0, 5, 0, 0]]])
    swap = np.random.default_rng(0).random((50, 3)) < 0.5
    draws = _swapped(first, control, ~swap) - _swapped(first, control, swap)
    whole = participation(first) - participation(control)
    assert set(np.abs(draws).round(9)) == {round(abs(whole), 9)}
    assert {-1, 1} == set(np.sign(draws))


def test_a_list_of_one_token_has_no_dimension():
    counts = np.zeros((2, D_VOCAB), dtype=np.int64)
    counts[0, 0], counts[1, 3:5] = 500, 500
    reading = embedding_rank(Embedded(noise()), counts=counts, untrained=Embedded(noise(1)))
    for name in ("participation_prontoqa", "share_1_prontoqa"):
        assert math.isnan(reading.values[name])
    assert reading.values["participation_stories"] == pytest.approx(1)
    assert math.isnan(p_values(reading)["participation_prontoqa"])
