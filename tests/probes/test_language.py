"""Next-token distributions against embeddings: planted, random, untrained, and under frequency
alone."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from language_text import Embedded, p_values

from rb_interp.errors import TextError
from rb_interp.probes.embeddings import cosines, pairs, pearson, spearman
from rb_interp.probes.language import banded_orders, next_token, permuted_correlations, successors
from rb_interp.tasks import Inputs

D_VOCAB, D_MODEL, HALF = 90, 24, 40


def made_rows(seed: int = 0) -> SimpleNamespace:
    """Two corpora of 40 tokens each and 10 shared ones; what follows a token depends on its class
    of five."""
    rng = np.random.default_rng(seed)
    tables = []
    for first in (0, HALF):
        odds = (
            rng.gamma(0.3, size=(8, D_VOCAB))
            / np.arange(1, D_VOCAB + 1)[np.argsort(rng.random(D_VOCAB))] ** 0.3
        )
        odds[:, HALF - first : 2 * HALF - first] = 0  # no token of the other corpus
        tables.append((odds / odds.sum(1, keepdims=True)).cumsum(1))
    tokens = np.zeros((160, 121), dtype=np.int32)
    for row, table in enumerate(np.repeat(np.arange(2), 80)):
        for at in range(1, 121):
            tokens[row, at] = np.searchsorted(tables[table][tokens[row, at - 1] % 8], rng.random())
    return SimpleNamespace(tokens=np.minimum(tokens, D_VOCAB - 1), lengths=np.full(160, 121))


ROWS = made_rows()
INPUTS = Inputs(ROWS.tokens)
COUNTS = np.stack(
    [np.bincount(part[:, 1:].ravel(), minlength=D_VOCAB) for part in np.split(ROWS.tokens, 2)]
)
ALL_TOKENS = successors(ROWS.tokens, ROWS.lengths, np.arange(D_VOCAB), D_VOCAB).toarray()
P = ALL_TOKENS / np.maximum(ALL_TOKENS.sum(1, keepdims=True), 1)


def noise(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((D_VOCAB, D_MODEL))


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
    image = (P - 1 / D_VOCAB) @ np.random.default_rng(3).standard_normal((D_VOCAB, D_MODEL))
    reading = next_token(
        Embedded(image + 0.01 * noise()),
        INPUTS,
        counts=COUNTS,
        lengths=ROWS.lengths,
        untrained=Embedded(noise(1)),
    )
    assert reading.values["n_prontoqa"] > 20
    for name in ("prontoqa", "stories", "all"):
        assert reading.values[f"pearson_{name}"] > 0.7
        for kind in ("spearman", "pearson", "spearman_centred"):
            assert reading.values[f"{kind}_{name}"] > 0.5
            assert abs(reading.untrained[f"{kind}_{name}"]) < 0.2
            assert p_values(reading)[f"{kind}_{name}"] == 1 / 201
    ids = reading.arrays["tokens_stories"]
    sides = (cosines(side[ids] - side[ids].mean(0)) for side in (P, image + 0.01 * noise()))
    assert reading.values["spearman_centred_stories"] == pytest.approx(spearman(*map(pairs, sides)))
    assert reading.n == 160
    assert (np.diff(COUNTS[0][reading.arrays["tokens_prontoqa"]]) <= 0).all()


def test_frequency_and_corpus_alone_are_what_the_null_says():
    """Embeddings that know their token's corpus and frequency: above 0 over all pairs, and no more
    than the null."""
    place = np.zeros((D_VOCAB, D_MODEL))
    for corpus in (0, 1):
        place[COUNTS[corpus] > COUNTS[1 - corpus], corpus] = 3
    place[:, 2] = 3 * np.log1p(COUNTS.sum(0)) / np.log(COUNTS.max())
    reading = next_token(Embedded(noise() + place), INPUTS, counts=COUNTS, lengths=ROWS.lengths)
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
        next_token(Embedded(noise()), INPUTS, counts=COUNTS, lengths=ROWS.lengths[:1])


def test_too_few_tokens_give_nan():
    counts = np.zeros_like(COUNTS)
    counts[0, :2], counts[1, 40:70] = 300, 20
    reading = next_token(Embedded(noise()), INPUTS, counts=counts, lengths=ROWS.lengths)
    assert math.isnan(reading.values["spearman_prontoqa"])
    assert math.isnan(p_values(reading)["spearman_prontoqa"])
    assert reading.notes["spearman_prontoqa"].startswith("the list has fewer than three tokens")
    assert "spearman_stories" not in reading.notes
    assert np.isfinite(reading.values["spearman_stories"])
    assert (reading.values["n_prontoqa"], reading.values["n_stories"]) == (2, 30)
