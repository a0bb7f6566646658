r"""Are the typical tokens of one corpus told apart before those of the other?

`token_similarity` (paper 1, Fig. 7B). With w_s the rows of W_E:

    cos_prontoqa, cos_stories, cos_control    mean of cos(w_s, w_t) over distinct s, t of the list       [-1, 1]
    difference             cos_prontoqa - cos_stories        below 0: PrOntoQA's are more distinct       [-2, 2]
    difference_control     cos_prontoqa - cos_control        the stories' tokens matched to PrOntoQA's   [-2, 2]
    difference_counterpart cos_counterpart - cos_in_range    PrOntoQA's tokens matched to the stories'   [-2, 2]
    *_centred              the same of w_s - (mean over PrOntoQA's + mean over the stories') / 2

cos_counterpart is the mean of w_s' w_t' cos over pairs of distinct PrOntoQA tokens, where w' counts
the stories' tokens that a token is matched to.

The paper: .123 among PrOntoQA tokens, .531 among TinyStories tokens, early in training at small
initialisation. Either corpus weighs half of the centre, else the one with more tokens would lie
nearer to it. Each token is part of the centre: independent directions read a centred cosine of
about -.75 / n_prontoqa and +.25 / n_prontoqa. Compare centred values with the untrained model's,
not with 0.

How it can mislead. Embeddings that tell PrOntoQA's tokens apart and push the stories' one way read
a difference near -.5 (planted). Embeddings that treat all tokens alike, and an *untrained* model's
at any gamma, read 0, with a spread of 1 / sqrt(n(n-1)d/2). But all that every token shares raises
both cosines, and *frequency alone* makes a difference: where frequent tokens went further along a
shared direction, the corpus with the more frequent tokens reads the higher cosine. The permutation
of corpus labels asks only whether lists as different arise by chance. The matched differences rule
frequency out where their mismatch is small, for the tokens that have a match. One of the other sign
says that tokens without a match make the raw one; it does not say that their frequency does.
difference_control has its own null: each token swaps with its match or not. difference_counterpart
has none, and rests on few PrOntoQA tokens (n_counterpart). Centred cosines lose a difference that
lies in the shared mean alone. A token that hardly moved is still orthogonal to all others, so
difference lies above 0 where training was short.

*Means and intervals.* For unit vectors u_i and weights w_i, how often token i is in a list, the
mean over pairs of distinct tokens is

    sum_{i != j} w_i w_j u_i . u_j / sum_{i != j} w_i w_j  =  (|sum w_i u_i|^2 - sum w_i^2) / ((sum
    w_i)^2 - sum w_i^2)

A bootstrap draws tokens with replacement, so w_i is then how often token i was drawn (Efron, 1979;
percentiles). The two lists are drawn independently of each other, the sets of a match as one, in
both directions (Abadie and Spiess, "Robust post-matching inference", 2022). The interval is about
other tokens of the same kind in the same model. It holds the model, its seed, the match and the
centre fixed. Where the tokens' directions are independent, as in an untrained model, the interval
is too wide; where a match gives few tokens most of the weight it is too narrow. Tokens of a text
are not drawn independently either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.embeddings import Embeddings, cosines, token_vectors
from rb_interp.probes.typical import (
    Counts,
    NamedCounts,
    TypicalTokens,
    by_count,
    checked_counts,
    typical_tokens,
    with_corpus_names,
)
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

MATRIX_TOKENS = 60
"""Tokens of each list in the cosine matrices, the most frequent ones."""
DIFFERENCES = {
    "difference": ("prontoqa", "stories"),
    "difference_control": ("prontoqa", "control"),
    "difference_counterpart": ("counterpart", "in_range"),
}
"""Difference -> the lists whose mean cosines it compares, the first less the second."""
LISTS = ("prontoqa", "stories", "control", "in_range", "counterpart")
ENDS = (0.025, 0.975)
"""Percentiles between which an interval over tokens lies."""
UNDEFINED = "a list has fewer than two tokens or no matched ones, or its embeddings are zero."
TokenWeights = Shaped[np.ndarray, "draw token"]
"""How often each typical token, PrOntoQA's and then the stories', counts in a list."""
Centre = Float[np.ndarray, "#draw d_model"]


@checked
@single_threaded
def token_similarity(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    counts: NamedCounts,
    n_draws: int = 500,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Mean cosines of the embeddings of typical tokens, by corpus and matched in frequency.

    Values as in the module's table, the lists' n_prontoqa, n_stories and n_in_range,
    control_mismatch and counterpart_mismatch, and n_counterpart, the effective number of matched
    PrOntoQA tokens, (sum w')^2 / sum w'^2. A list of fewer than two tokens gives nan. Table
    ``token_intervals``: quantity, low, high, the 95 % interval over tokens of each cosine and
    difference. Nulls, side less: corpus labels permuted among typical tokens (difference);
    PrOntoQA's tokens swapped with their matches, each or not (difference_control). Arrays:
    cos_prontoqa_matrix (raw, the SHOWN most frequent), tokens_prontoqa, the ids of its rows, and
    the same of the stories and the control.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: not looked at, since the probe reads weights alone.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two
            corpora of yours by name, each with its ``[d_vocab]``. Their names stand in place of
            prontoqa and stories then.
        n_draws: draws of the bootstrap over tokens; 0 for none.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises TextError for counts of another shape or vocabulary, and for a corpus without tokens.

    >>> from rb_interp import AnchorTask, build_model
    >>> counts = np.zeros((2, 200), dtype=int)
    >>> counts[0, :40], counts[1, 40:] = 50, 50
    >>> model = build_model(AnchorTask(), gamma=0.5)
    >>> token_similarity(model, counts=counts, n_draws=0, n_null=0).values["n_prontoqa"]
    40.0
    """

    def measure(source: ActivationSource) -> Measurement:
        totals = checked_counts(counts, len(model_of(source).W_E))
        token_lists = typical_tokens(totals)
        vectors = token_vectors(source, np.concatenate([token_lists.prontoqa, token_lists.stories]))
        tables = partial(token_intervals, vectors, token_lists, n_draws) if n_draws else None
        return Measurement(
            _values(vectors, token_lists),
            partial(similarity_nulls, vectors, token_lists),
            _arrays(source, totals, token_lists),
            tables=tables,
        )

    reading = read_model("token_similarity", model, measure, untrained, n_null, seed, UNDEFINED)
    return with_corpus_names(reading, counts)


def _values(vectors: Embeddings, token_lists: TypicalTokens) -> dict[str, float]:
    values = {}
    for name, draws in cosines_by_list(vectors, full_weights(token_lists)).items():
        values[name] = float(draws[0])
    matches = np.bincount(token_lists.counterpart)
    effective = matches.sum() ** 2 / (matches**2).sum() if len(matches) else 0.0
    return {
        **values,
        "n_prontoqa": float(len(token_lists.prontoqa)),
        "n_stories": float(len(token_lists.stories)),
        "control_mismatch": token_lists.mismatch,
        "n_in_range": float(len(token_lists.in_range)),
        "n_counterpart": float(effective),
        "counterpart_mismatch": token_lists.counterpart_mismatch,
    }


def _arrays(
    model: ActivationSource, counts: Counts, token_lists: TypicalTokens
) -> dict[str, np.ndarray]:
    lists = {
        "prontoqa": by_count(token_lists.prontoqa, counts[0]),
        "stories": by_count(token_lists.stories, counts[1]),
        "control": by_count(token_lists.control, counts[1]),
    }
    arrays = {}
    for name, ids in lists.items():
        arrays[f"tokens_{name}"] = ids[:MATRIX_TOKENS]
        arrays[f"cos_{name}_matrix"] = cosines(token_vectors(model, ids[:MATRIX_TOKENS]))
    return arrays


def similarity_nulls(
    vectors: Embeddings, token_lists: TypicalTokens, n_null: int, seed: int
) -> dict[str, Null]:
    """Nulls of four differences; those with the control are nan if it is missing."""
    rng = np.random.default_rng(seed)
    n_first = len(token_lists.prontoqa)
    n = len(vectors)
    lists = full_weights(token_lists)
    permuted = permutations(n_null, n, rng) < n_first
    swap = np.zeros((n_null, n), dtype=bool)
    swap[:, :n_first] = rng.random((n_null, n_first)) < 0.5
    matches = n_first + _positions(token_lists.stories, token_lists.control)
    swap[:, matches] = swap[:, : len(matches)]
    first = (lists["prontoqa"] > 0) ^ swap
    control = (lists["control"] > 0) ^ swap
    by_labels = {"prontoqa": permuted, "stories": ~permuted}
    by_swaps = {"prontoqa": first, "stories": ~first, "control": control}
    labels_null = "corpus labels permuted among typical tokens"
    swaps_null = "PrOntoQA tokens swapped with their matches"
    nulls = {}
    for difference, text, weights in (
        ("difference", labels_null, by_labels),
        ("difference_control", swaps_null, by_swaps),
    ):
        draws = cosines_by_list(vectors, weights)
        for name in (difference, f"{difference}_centred"):
            nulls[name] = Null(text, draws[name], "less")
    return nulls


def token_intervals(
    vectors: Embeddings, token_lists: TypicalTokens, n_draws: int, seed: int
) -> dict[str, pd.DataFrame]:
    """Table ``token_intervals``: bootstrap interval over tokens of each cosine and difference.

    Draws without a pair are left out.
    """
    rng = np.random.default_rng(seed)
    resampled = []
    for tokens in (token_lists.prontoqa, token_lists.stories):
        n = len(tokens)
        draws = np.zeros((n_draws, 0), dtype=int)
        if n:
            draws = rng.multinomial(n, np.full(n, 1 / n), n_draws)
        resampled.append(draws)
    lists = _list_weights(token_lists, *resampled)
    centre = centre_of(vectors, full_weights(token_lists))
    rows = []
    for name, draws in cosines_by_list(vectors, lists, centre).items():
        finite = draws[np.isfinite(draws)]
        low, high = np.quantile(finite, ENDS) if len(finite) else (math.nan, math.nan)
        rows.append((name, low, high))
    return {"token_intervals": pd.DataFrame(rows, columns=["quantity", "low", "high"])}


def full_weights(token_lists: TypicalTokens) -> dict[str, TokenWeights]:
    """The weights of each list with every token drawn once."""
    first = np.ones((1, len(token_lists.prontoqa)), int)
    second = np.ones((1, len(token_lists.stories)), int)
    return _list_weights(token_lists, first, second)


def _list_weights(
    token_lists: TypicalTokens,
    first: Shaped[np.ndarray, "draw first"],
    second: Shaped[np.ndarray, "draw second"],
) -> dict[str, TokenWeights]:
    """Weights of each list, given how often each token of either corpus is drawn."""
    n_first = first.shape[1]
    n = n_first + second.shape[1]
    control = n_first + _positions(token_lists.stories, token_lists.control)
    in_range = n_first + _positions(token_lists.stories, token_lists.in_range)
    partner = _positions(token_lists.prontoqa, token_lists.counterpart)
    weights = {name: np.zeros((len(first), n), dtype=np.int64) for name in LISTS}
    weights["prontoqa"][:, :n_first] = first
    weights["stories"][:, n_first:] = second
    weights["control"][:, control] = first[:, : len(control)]
    weights["counterpart"][:, :n_first] = first * np.bincount(partner, minlength=n_first)
    weights["in_range"][:, in_range] = first[:, partner]
    return weights


def _positions(
    tokens: Int[np.ndarray, " token"], targets: Int[np.ndarray, " target"]
) -> Int[np.ndarray, " target"]:
    """The position of each wanted token in a list of distinct tokens."""
    order = np.argsort(tokens)
    return order[np.searchsorted(tokens, targets, sorter=order)]


def cosines_by_list(
    vectors: Embeddings, lists: Mapping[str, TokenWeights], centre: Centre | None = None
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Quantity -> one number per draw, for the given lists and their differences.

    Args:
        centre: what centred cosines are seen from; by default each draw's own centre.
    """
    if centre is None:
        centre = centre_of(vectors, lists)
    result = {}
    for ending, origin in (("", np.zeros_like(centre)), ("_centred", centre)):
        cos = {name: mean_cosines(vectors, weights, origin) for name, weights in lists.items()}
        result |= {f"cos_{name}{ending}": draws for name, draws in cos.items()}
        for name, (first, second) in DIFFERENCES.items():
            if first in cos and second in cos:
                result[f"{name}{ending}"] = cos[first] - cos[second]
    return result


def centre_of(
    vectors: Embeddings, lists: Mapping[str, TokenWeights]
) -> Float[np.ndarray, "draw d_model"]:
    """Mean of both corpora's mean vectors, of each draw; nan if either has no token."""
    means = []
    for name in ("prontoqa", "stories"):
        weights = lists[name].astype(np.float64)
        size = weights.sum(1, keepdims=True)
        means.append(weights @ vectors / np.where(size > 0, size, np.nan))
    return (means[0] + means[1]) / 2


def mean_cosines(
    vectors: Embeddings, weights: TokenWeights, centre: Centre
) -> Float[np.ndarray, " draw"]:
    """Mean cosine over pairs of distinct tokens, seen from each draw's centre, in [-1, 1].

    nan for fewer than two tokens.
    """
    squared = (vectors**2).sum(1) - 2 * centre @ vectors.T + (centre**2).sum(1, keepdims=True)
    norms = np.sqrt(np.where(squared > 0, squared, np.nan))
    scaled = np.where(weights > 0, weights / norms, 0.0)
    total = scaled @ vectors - scaled.sum(1, keepdims=True) * centre
    itself = (weights * weights).sum(1)
    pairs = weights.sum(1) ** 2 - itself
    return ((total**2).sum(1) - itself) / np.where(pairs > 0, pairs, np.nan)
