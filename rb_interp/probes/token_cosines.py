r"""Mean cosines among tokens of several lists, and their intervals over tokens, by resampling tokens.

For unit vectors u_i and weights w_i, how often token i is in a list, the mean over pairs of distinct tokens is

    sum_{i != j} w_i w_j u_i . u_j / sum_{i != j} w_i w_j  =  (|sum w_i u_i|^2 - sum w_i^2) / ((sum w_i)^2 - sum w_i^2)

A bootstrap draws tokens with replacement, so w_i is then how often token i was drawn (Efron, 1979; percentiles). The
sets of a match are drawn as one (Abadie and Spiess, "Robust post-matching inference", 2022).

How it can mislead. The interval is about other tokens of the same kind in the same model. It holds the model, its seed,
the match and the centre of centred cosines fixed. Where the tokens' directions are independent, as in an untrained
model, the mean cosine has no first-order term and the interval is too wide. Where a match gives few tokens most of the
weight, there are few to draw from and it is too narrow. Tokens of a text are not drawn independently either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Integer, Shaped

from rb_interp.probes.token_typing import Typical

DIFFERENCES = {
    "difference": ("prontoqa", "stories"),
    "difference_control": ("prontoqa", "control"),
    "difference_counterpart": ("counterpart", "in_range"),
}
"""Difference -> the lists whose mean cosines it compares, the first less the second."""
LISTS = ("prontoqa", "stories", "control", "in_range", "counterpart")

Vectors = Float[np.ndarray, "token d_model"]
Weights = Shaped[np.ndarray, "draw token"]


def token_intervals(
    vectors: Vectors, typical: Typical, n_draws: int, rng: np.random.Generator, confidence: float = 0.95
) -> pd.DataFrame:
    """Bootstrap interval over tokens (percentiles) of each cosine and difference: quantity, low, high.

    Tokens are drawn and not pairs of tokens: a token drawn twice counts twice in each of its pairs, and never makes a
    pair with itself. (`scipy.stats.bootstrap` gives a statistic the drawn values alone, so it would pair a token with
    itself at a cosine of 1.) The two lists are drawn independently of each other. A PrOntoQA token and its matches are
    drawn as one, in both directions. Draws without a pair are left out; the ends are nan where there are no others.

    Args:
        vectors: those of ``typical.prontoqa``, then of ``typical.stories``.
        n_draws, rng: how many draws, and where they come from.
        confidence: coverage, in (0, 1).
    """
    found = cosines_by_group(vectors, resampled(typical, n_draws, rng), centre_of(vectors, group_weights(typical)))
    tail = (1 - confidence) / 2
    rows = []
    for name, draws in found.items():
        finite = draws[np.isfinite(draws)]
        rows.append((name, *(np.quantile(finite, (tail, 1 - tail)) if len(finite) else (math.nan, math.nan))))
    return pd.DataFrame(rows, columns=["quantity", "low", "high"])


def group_weights(typical: Typical) -> dict[str, Weights]:
    """How much each typical token, PrOntoQA's and then the stories', counts in each list: one draw."""
    return _weights(typical, np.ones((1, len(typical.prontoqa)), int), np.ones((1, len(typical.stories)), int))


def resampled(typical: Typical, n_draws: int, rng: np.random.Generator) -> dict[str, Weights]:
    """The same where both lists of tokens are drawn anew, with replacement."""
    sizes = len(typical.prontoqa), len(typical.stories)
    return _weights(typical, *(rng.multinomial(n, np.full(n, 1 / n), n_draws) for n in sizes))


def _weights(
    typical: Typical, first: Integer[np.ndarray, "draw first"], others: Integer[np.ndarray, "draw other"]
) -> dict[str, Weights]:
    """Weights of each list, given how often each token of either corpus is drawn."""
    n_first, n = first.shape[1], first.shape[1] + others.shape[1]
    found = {name: np.zeros((len(first), n), dtype=np.int64) for name in LISTS}
    found["prontoqa"][:, :n_first] = first
    found["stories"][:, n_first:] = others
    found["control"][:, control_places(typical)] = first[:, : len(typical.control)]
    partner = places(typical.prontoqa, typical.counterpart)
    found["counterpart"][:, :n_first] = first * np.bincount(partner, minlength=n_first)
    found["in_range"][:, n_first + places(typical.stories, typical.in_range)] = first[:, partner]
    return found


def places(tokens: Int[np.ndarray, " token"], wanted: Int[np.ndarray, " wanted"]) -> Int[np.ndarray, " wanted"]:
    """Where each wanted token stands in a list of distinct tokens.

    >>> places(np.array([7, 2, 5]), np.array([5, 7, 5])).tolist()
    [2, 0, 2]
    """
    place = {token: at for at, token in enumerate(tokens.tolist())}
    return np.array([place[token] for token in wanted.tolist()], dtype=np.int64)


def control_places(typical: Typical) -> np.ndarray:
    """Where each control token stands among PrOntoQA's and then the stories' typical tokens."""
    return len(typical.prontoqa) + places(typical.stories, typical.control)


def mean_cosines(
    vectors: Vectors, weights: Weights, centre: Float[np.ndarray, "#draw d_model"]
) -> Float[np.ndarray, " draw"]:
    """Mean cosine over pairs of distinct tokens, seen from each draw's centre, in [-1, 1]; nan for fewer than two.

    A pair weighs the product of its tokens' weights. Unit vectors u_i with weights w_i have the mean (|sum w_i u_i|^2 -
    sum w_i^2) / ((sum w_i)^2 - sum w_i^2), so no matrix of cosines is made.

    >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> mean_cosines(vectors, np.array([[1, 1, 1], [1, 2, 2]]), np.zeros((2, 2))).round(6).tolist()
    [0.333333, 0.25]
    """
    squared = (vectors**2).sum(1) - 2 * centre @ vectors.T + (centre**2).sum(1, keepdims=True)
    norms = np.sqrt(np.where(squared > 0, squared, np.nan))
    scaled = np.where(weights > 0, weights / norms, 0.0)
    total = scaled @ vectors - scaled.sum(1, keepdims=True) * centre
    own = (weights * weights).sum(1)
    pairs = weights.sum(1) ** 2 - own
    return ((total**2).sum(1) - own) / np.where(pairs > 0, pairs, np.nan)


def cosines_by_group(
    vectors: Vectors, groups: Mapping[str, Weights], centre: Float[np.ndarray, "#draw d_model"] | None = None
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Quantity -> one number per draw, for the given lists and the differences between them.

    Args:
        groups: list -> how often each token is in it, ``prontoqa`` and ``stories`` among them.
        centre: what the centred cosines are seen from; None for the centre of each draw.
    """
    found = {}
    centre = centre_of(vectors, groups) if centre is None else centre
    for ending, middle in (("", np.zeros_like(centre)), ("_centred", centre)):
        cos = {name: mean_cosines(vectors, weights, middle) for name, weights in groups.items()}
        found |= {f"cos_{name}{ending}": draws for name, draws in cos.items()}
        for name, (one, other) in DIFFERENCES.items():
            if one in cos and other in cos:
                found[f"{name}{ending}"] = cos[one] - cos[other]
    return found


def centre_of(vectors: Vectors, groups: Mapping[str, Weights]) -> Float[np.ndarray, "draw d_model"]:
    """(Mean over PrOntoQA's tokens + mean over the stories') / 2 of each draw; nan where either has none."""
    return (_means(vectors, groups["prontoqa"]) + _means(vectors, groups["stories"])) / 2


def _means(vectors: Vectors, weights: Weights) -> Float[np.ndarray, "draw d_model"]:
    n = weights.sum(1, keepdims=True)
    return weights.astype(np.float64) @ vectors / np.where(n > 0, n, np.nan)
