"""Mean cosines of typical tokens, on planted and random embeddings, and under permutations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
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
from scipy.stats import binomtest, kstest

from rb_interp.errors import TextError
from rb_interp.probes import embedding_rank, next_token
from rb_interp.probes._token_similarity import (
    cosines_by_list,
    full_weights,
    mean_cosines,
    similarity_nulls,
    token_intervals,
    token_similarity,
)
from rb_interp.probes.embeddings import cosines, mean_off_diagonal
from rb_interp.probes.typical import (
    TypicalTokens,
)
from rb_interp.tasks import Inputs

COUNTS = made_counts()
SPREAD = 1 / math.sqrt(len(PRONTOQA) * (len(PRONTOQA) - 1) * D_MODEL / 2)
"""Standard deviation of the mean cosine of so many independent directions."""


def similarity_values(vectors, typical):
    return {
        name: float(draws[0])
        for name, draws in cosines_by_list(vectors, full_weights(typical)).items()
    }


def test_mean_cosine_without_a_matrix_is_that_of_the_matrix():
    rng = np.random.default_rng(0)
    vectors, members, centre = (
        rng.normal(size=(9, 4)),
        rng.random((5, 9)) < 0.6,
        rng.normal(size=(5, 4)),
    )
    found = mean_cosines(vectors, members, centre)
    by_matrix = [
        mean_off_diagonal(cosines((vectors - c)[m])) for m, c in zip(members, centre, strict=True)
    ]
    np.testing.assert_allclose(found, by_matrix)
    assert np.isnan(mean_cosines(vectors, np.eye(9, dtype=bool)[:1], centre[:1])).all()


def test_a_token_counts_as_often_as_its_weight_and_never_against_itself():
    """Weights are copies: the pairs are those of the list with copies, less those of a token with
    its own copy."""
    rng = np.random.default_rng(0)
    vectors, weights, centre = (
        rng.normal(size=(6, 4)),
        np.array([[2, 0, 1, 3, 1, 0]]),
        rng.normal(size=(1, 4)),
    )
    cos = cosines(vectors - centre)
    pairs = [
        (i, j)
        for i in range(6)
        for j in range(6)
        if i != j
        for _ in range(weights[0, i] * weights[0, j])
    ]
    assert mean_cosines(vectors, weights, centre)[0] == pytest.approx(
        np.mean([cos[pair] for pair in pairs])
    )
    assert np.isnan(mean_cosines(vectors, 3 * np.eye(6, dtype=int)[:1], centre)[0])


def test_the_second_direction_weighs_prontoqas_tokens_as_often_as_they_are_matched():
    """By hand: tokens 0 and 1 of PrOntoQA are matched to three and one tokens of the stories, token
    2 to none."""
    vectors = np.random.default_rng(0).normal(size=(8, 4))
    match = {"in_range": np.array([4, 7, 3, 5]), "counterpart": np.array([0, 0, 1, 0])}
    typical = TypicalTokens(np.arange(3), np.arange(3, 8), **match)
    cos, values = cosines(vectors), similarity_values(vectors, typical)
    assert values["cos_counterpart"] == pytest.approx(cos[0, 1])
    assert values["cos_in_range"] == pytest.approx(
        mean_off_diagonal(cos[3:, 3:][np.ix_([0, 1, 2, 4], [0, 1, 2, 4])])
    )
    assert values["difference_counterpart"] == pytest.approx(
        values["cos_counterpart"] - values["cos_in_range"]
    )


def test_intervals_over_tokens_cover_what_other_tokens_of_the_kind_read():
    """Planted lists with one mean direction: the mean cosine of all such tokens is |E u|^2, a
    difference of lists 0."""
    rng, n, repeats = np.random.default_rng(0), 30, 60
    match = {"in_range": np.arange(n, 2 * n), "counterpart": np.repeat(np.arange(n // 2), 2)}
    typical = TypicalTokens(
        np.arange(n), np.arange(n, 3 * n), np.arange(2 * n, 3 * n), 0.0, **match
    )
    many = rng.normal(size=(200_000, 6)) + np.eye(6)[0]
    truth = ((many / np.linalg.norm(many, axis=1, keepdims=True)).mean(0) ** 2).sum()
    planted = {f"cos_{name}": truth for name in ("prontoqa", "stories", "control", "counterpart")}
    planted |= dict.fromkeys(("difference", "difference_control", "difference_counterpart"), 0.0)
    covered = dict.fromkeys(planted, 0)
    for seed in range(repeats):
        vectors = rng.normal(size=(3 * n, 6)) + np.eye(6)[0]
        tables = token_intervals(vectors, typical, 100, seed)
        ends = tables["token_intervals"].set_index("quantity")
        for name, value in planted.items():
            covered[name] += ends["low"][name] <= value <= ends["high"][name]
    for name, count in covered.items():
        assert binomtest(count, repeats, 0.95).pvalue > 0.002, (name, count)


def test_a_token_and_its_match_are_drawn_as_one():
    """Every match is its token's own copy, so no draw tells them apart; drawn on its own it
    would."""
    vectors = np.tile(np.random.default_rng(0).normal(size=(12, 4)) + 1, (2, 1))
    both = np.arange(12, 24)
    typical = TypicalTokens(np.arange(12), both, both, 0.0, both, np.arange(12), 0.0)
    ends = token_intervals(vectors, typical, 50, 0)["token_intervals"].set_index("quantity")
    for name in ("difference_control", "difference_counterpart"):
        np.testing.assert_allclose(ends.loc[name].astype(float), 0, atol=1e-12)
    assert ends["high"]["difference"] > 0.02


def test_one_that_tells_prontoqa_apart_and_not_the_stories():
    W_E = noise()
    W_E[STORIES] += np.ones(D_MODEL) / math.sqrt(D_MODEL)
    reading = token_similarity(Embedded(W_E), counts=COUNTS, untrained=Embedded(noise(1)))
    assert reading.values["cos_stories"] == pytest.approx(
        0.5, abs=0.05
    )  # |mean|^2 / (|mean|^2 + |noise|^2)
    assert abs(reading.values["cos_prontoqa"]) < 5 * SPREAD
    assert (reading.values["difference"] < -0.4, reading.values["difference_control"] < -0.4) == (
        True,
        True,
    )
    assert {p_values(reading)[name] for name in ("difference", "difference_control")} == {1 / 201}
    assert abs(reading.untrained["difference"]) < 5 * SPREAD
    assert (reading.values["n_prontoqa"], reading.values["n_stories"]) == (40, 160)


def test_frequency_alone_makes_a_difference_that_the_control_takes_away():
    reading = token_similarity(Embedded(frequency_alone()), counts=COUNTS)
    assert reading.values["control_mismatch"] == 0
    assert reading.values["difference"] > 0.3
    assert reading.nulls["difference"].draws.max() < 0.2  # labels permuted: no defence
    assert abs(reading.values["difference_control"]) < 0.05
    assert 0.05 < p_values(reading)["difference_control"] < 0.95
    assert reading.values["counterpart_mismatch"] == 0
    assert abs(reading.values["difference_counterpart"]) < 0.05
    ends = reading.tables["token_intervals"].set_index("quantity")
    for name in ("difference_control", "difference_counterpart"):
        assert ends["low"][name] < 0 < ends["high"][name]
    assert ends["low"]["difference"] > 0.2


def test_the_control_is_no_defence_where_it_does_not_match():
    counts = COUNTS.copy()
    counts[1, STORIES] //= 4  # the stories' tokens are rarer now, the embeddings are as before
    W_E = frequency_alone()
    W_E[STORIES] = noise()[STORIES] + (frequency_alone() - noise())[STORIES] / 4
    reading = token_similarity(Embedded(W_E), counts=counts)
    assert reading.values["control_mismatch"] > 1
    assert reading.values["difference_control"] > 0.3


def test_what_all_tokens_share_drops_out_of_the_centred_cosines():
    reading = token_similarity(Embedded(noise() + 3), counts=COUNTS)
    assert (reading.values["cos_prontoqa"] > 0.99, reading.values["cos_stories"] > 0.99) == (
        True,
        True,
    )
    centred = token_similarity(Embedded(noise()), counts=COUNTS).values
    for name in (
        "cos_prontoqa_centred",
        "cos_stories_centred",
        "difference_centred",
        "difference_control_centred",
    ):
        assert reading.values[name] == pytest.approx(centred[name], abs=1e-9)


def test_both_corpora_weigh_the_same_in_the_centre():
    """Two clouds at distance 2: centred on all 200 tokens, the larger would lie nearer, and look
    more spread out."""
    W_E = noise()
    W_E[STORIES] += 2 * np.ones(D_MODEL) / math.sqrt(D_MODEL)
    values = token_similarity(Embedded(W_E), counts=COUNTS).values
    assert values["cos_prontoqa_centred"] == pytest.approx(0.5, abs=0.06)
    assert values["cos_stories_centred"] == pytest.approx(0.5, abs=0.06)


def test_p_values_are_uniform_on_random_embeddings():
    rng, n = np.random.default_rng(0), 80
    typical = TypicalTokens(np.arange(6), np.arange(6, 20), np.array([8, 19, 7, 10, 6, 15]), 0.0)
    found = {name: [] for name in ("difference", "difference_control", "difference_centred")}
    for _ in range(n):
        vectors = rng.standard_normal((20, 5))
        values, nulls = (
            similarity_values(vectors, typical),
            similarity_nulls(vectors, typical, 99, rng),
        )
        for name, values_found in found.items():
            values_found.append(nulls[name].p_value(values[name]))
    for name, p in found.items():
        assert kstest(p, "uniform").statistic < 1.63 / math.sqrt(n) + 1 / 100, name


def test_swapping_a_pair_swaps_two_tokens_and_nothing_else():
    """Of one pair and one other story only four sets exist: the difference with the control is +-0
    of two tokens."""
    typical = TypicalTokens(np.array([0, 1]), np.array([2, 3, 4]), np.array([4, 2]), 0.0)
    vectors = np.random.default_rng(0).standard_normal((5, 3))
    cos = cosines(vectors)
    expected = {
        cos[0, 1] - cos[4, 2],
        cos[4, 1] - cos[0, 2],
        cos[0, 2] - cos[4, 1],
        cos[4, 2] - cos[0, 1],
    }
    draws = similarity_nulls(vectors, typical, 100, np.random.default_rng(0))[
        "difference_control"
    ].draws
    assert set(draws.round(9)) == {round(float(value), 9) for value in expected}


def test_too_few_tokens_give_nan_and_other_vocabularies_an_error():
    counts = np.zeros((2, D_VOCAB), dtype=np.int64)
    counts[0, :3], counts[1, 3] = 500, 1500
    reading = token_similarity(Embedded(noise()), counts=counts)
    missing = {name for name, value in reading.values.items() if math.isnan(value)}
    assert missing == {
        *("cos_stories", "cos_control", "difference", "difference_control", "control_mismatch"),
        *(
            "cos_stories_centred",
            "cos_control_centred",
            "difference_centred",
            "difference_control_centred",
        ),
        *(
            f"{name}{end}"
            for name in ("cos_in_range", "cos_counterpart")
            for end in ("", "_centred")
        ),
        *("difference_counterpart", "difference_counterpart_centred", "counterpart_mismatch"),
    }
    ends = reading.tables["token_intervals"].set_index("quantity")
    assert (set(ends.index[ends["low"].isna()]) - missing, ends["low"]["cos_prontoqa"] < 1) == (
        set(),
        True,
    )
    assert all(math.isnan(row["p_value"]) for row in reading.rows())
    with pytest.raises(TextError, match="got counts of 4 tokens; the model knows 220"):
        token_similarity(Embedded(noise()), counts=counts[:, :4])


def test_two_corpora_of_the_caller_keep_their_names():
    counts, model, text = made_counts(), Embedded(noise()), Inputs(np.arange(60).reshape(6, 10))
    named = {"code": counts[0].tolist(), "prose": torch.from_numpy(counts[1])}
    for probe, inputs in ((token_similarity, None), (embedding_rank, None), (next_token, text)):
        own = probe(model, inputs, counts=counts, untrained=model, n_null=3)
        theirs = probe(model, inputs, counts=named, untrained=model, n_null=3)
        for part in ("values", "untrained", "nulls", "arrays", "notes"):
            words = [
                name.replace("prontoqa", "code").replace("stories", "prose")
                for name in getattr(own, part)
            ]
            assert list(getattr(theirs, part)) == words
        np.testing.assert_array_equal([*theirs.values.values()], [*own.values.values()])
        assert not [
            name
            for name in map(str, (theirs.to_frame(), *theirs.tables.values()))
            if "prontoqa" in name.lower()
        ]
