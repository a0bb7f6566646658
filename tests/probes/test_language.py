"""Next-token distributions against embeddings, and ranks of the embeddings of lists of tokens:
planted, random, untrained, and under frequency alone."""

from __future__ import annotations

import math
from types import SimpleNamespace

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

from rb_interp.errors import TextError
from rb_interp.probes.embeddings import cosines, pairs, participation, pearson, spearman
from rb_interp.probes.language import (
    _swapped,
    banded_orders,
    embedding_rank,
    next_token,
    permuted_correlations,
    successors,
)
from rb_interp.tasks import Inputs

N_TOKENS, WIDTH, HALF = 90, 24, 40


def made_rows(seed: int = 0) -> SimpleNamespace:
    """Two corpora of 40 tokens each and 10 shared ones; what follows a token depends on its class
    of five."""
    rng = np.random.default_rng(seed)
    tables = []
    for first in (0, HALF):
        odds = (
            rng.gamma(0.3, size=(8, N_TOKENS))
            / np.arange(1, N_TOKENS + 1)[np.argsort(rng.random(N_TOKENS))] ** 0.3
        )
        odds[:, HALF - first : 2 * HALF - first] = 0  # no token of the other corpus
        tables.append((odds / odds.sum(1, keepdims=True)).cumsum(1))
    tokens = np.zeros((160, 121), dtype=np.int32)
    for row, table in enumerate(np.repeat(np.arange(2), 80)):
        for at in range(1, 121):
            tokens[row, at] = np.searchsorted(tables[table][tokens[row, at - 1] % 8], rng.random())
    return SimpleNamespace(tokens=np.minimum(tokens, N_TOKENS - 1), lengths=np.full(160, 121))


ROWS = made_rows()
INPUTS = Inputs(ROWS.tokens)
NEXT_COUNTS = np.stack(
    [np.bincount(part[:, 1:].ravel(), minlength=N_TOKENS) for part in np.split(ROWS.tokens, 2)]
)
ALL_TOKENS = successors(ROWS.tokens, ROWS.lengths, np.arange(N_TOKENS), N_TOKENS).toarray()
P = ALL_TOKENS / np.maximum(ALL_TOKENS.sum(1, keepdims=True), 1)


def random_vectors(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((N_TOKENS, WIDTH))


def test_padding_and_the_last_token_follow_nothing():
    tokens = np.array([[4, 1, 4, 2, 4, 3]], dtype=np.uint16)
    found = successors(tokens, np.array([4]), np.array([4, 2]), 5).toarray()
    assert found.tolist() == [
        [0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]  # the third 4 is filling, and 2 ends the text


def test_permuted_correlations_are_those_of_permuted_matrices():
    rng = np.random.default_rng(0)
    x, y = (m + m.T for m in rng.normal(size=(2, 7, 7)))
    orders = rng.permuted(np.tile(np.arange(7), (5, 1)), axis=1)
    expected = [pearson(pairs(x[np.ix_(order, order)]), pairs(y)) for order in orders]
    np.testing.assert_allclose(permuted_correlations(x, y, orders), expected)


def test_the_null_moves_tokens_among_neighbours_of_their_own_list_and_everywhere_there():
    orders = banded_orders(13, 30, 500, np.random.default_rng(0), band=5)
    bands = np.array([*np.repeat([0, 1], 5), 2, 2, 2, *np.repeat([3, 4, 5], 5), 6, 6])
    assert (bands[orders] == bands).all()
    assert (np.sort(orders, axis=1) == np.arange(30)).all()
    for token in range(13):
        assert set(orders[:, token]) == set(np.flatnonzero(bands == bands[token]))


def test_embeddings_that_are_an_image_of_what_follows_are_found():
    image = (P - 1 / N_TOKENS) @ np.random.default_rng(3).standard_normal((N_TOKENS, WIDTH))
    reading = next_token(
        Embedded(image + 0.01 * random_vectors()),
        INPUTS,
        counts=NEXT_COUNTS,
        lengths=ROWS.lengths,
        untrained=Embedded(random_vectors(1)),
    )
    assert reading.values["n_prontoqa"] > 20
    for name in ("prontoqa", "stories", "all"):
        assert reading.values[f"pearson_{name}"] > 0.7
        for kind in ("spearman", "pearson", "spearman_centred"):
            assert reading.values[f"{kind}_{name}"] > 0.5
            assert abs(reading.untrained[f"{kind}_{name}"]) < 0.2
            assert p_values(reading)[f"{kind}_{name}"] == 1 / 201
    ids = reading.arrays["tokens_stories"]
    sides = (
        cosines(side[ids] - side[ids].mean(0)) for side in (P, image + 0.01 * random_vectors())
    )
    assert reading.values["spearman_centred_stories"] == pytest.approx(spearman(*map(pairs, sides)))
    assert reading.n == 160
    assert (np.diff(NEXT_COUNTS[0][reading.arrays["tokens_prontoqa"]]) <= 0).all()


def test_frequency_and_corpus_alone_are_what_the_null_says():
    """Embeddings that know their token's corpus and frequency: above 0 over all pairs, and no more
    than the null."""
    place = np.zeros((N_TOKENS, WIDTH))
    for corpus in (0, 1):
        place[NEXT_COUNTS[corpus] > NEXT_COUNTS[1 - corpus], corpus] = 3
    place[:, 2] = 3 * np.log1p(NEXT_COUNTS.sum(0)) / np.log(NEXT_COUNTS.max())
    reading = next_token(
        Embedded(random_vectors() + place), INPUTS, counts=NEXT_COUNTS, lengths=ROWS.lengths
    )
    assert reading.values["spearman_all"] > 0.15
    row = next(row for row in reading.rows() if row["quantity"] == "spearman_all")
    assert row["null_mean"] > 0.15
    for name in ("spearman_prontoqa", "spearman_stories", "spearman_all"):
        assert 0.02 < p_values(reading)[name] < 0.98


def test_there_is_a_length_for_each_row():
    with pytest.raises(
        TextError,
        match=f"got 1 lengths for {len(INPUTS.tokens)} rows of text; give one for each row",
    ):
        next_token(Embedded(random_vectors()), INPUTS, counts=NEXT_COUNTS, lengths=ROWS.lengths[:1])


def test_too_few_tokens_give_nan():
    counts = np.zeros_like(NEXT_COUNTS)
    counts[0, :2], counts[1, 40:70] = 300, 20
    reading = next_token(Embedded(random_vectors()), INPUTS, counts=counts, lengths=ROWS.lengths)
    assert math.isnan(reading.values["spearman_prontoqa"])
    assert math.isnan(p_values(reading)["spearman_prontoqa"])
    assert reading.notes["spearman_prontoqa"].startswith("the list has fewer than three tokens")
    assert "spearman_stories" not in reading.notes
    assert np.isfinite(reading.values["spearman_stories"])
    assert (reading.values["n_prontoqa"], reading.values["n_stories"]) == (2, 30)


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
