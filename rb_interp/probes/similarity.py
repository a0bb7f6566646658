r"""Are the tokens of the reasoning corpus told apart before those of the stories?  (paper 1, Fig. 7B)

With w_s the rows of W_E and the typical tokens of ``tokens``:

    cos_prontoqa, cos_stories, cos_control    mean of cos(w_s, w_t) over distinct s, t of the list       [-1, 1]
    difference             cos_prontoqa - cos_stories        below 0: PrOntoQA's are more distinct       [-2, 2]
    difference_control     cos_prontoqa - cos_control        the stories' tokens matched to PrOntoQA's   [-2, 2]
    difference_counterpart cos_counterpart - cos_in_range    PrOntoQA's tokens matched to the stories'   [-2, 2]
    *_centred              the same of w_s - (mean over PrOntoQA's + mean over the stories') / 2

cos_counterpart is the mean of w_s' w_t' cos over pairs of distinct PrOntoQA tokens, where w' counts the stories' tokens
that a token is matched to.

The paper: .123 among PrOntoQA tokens, .531 among TinyStories tokens, early in training at small initialisation. Either
corpus weighs half of the centre, else the one with more tokens would lie nearer to it and look more spread out. Each
token is part of the centre, the more so the fewer its list has: independent directions read a centred cosine of about
-.75 / n_prontoqa and +.25 / n_prontoqa, a centred difference of -1 / n_prontoqa (-.013 for 73 tokens). Compare centred
values with the untrained model's, not with 0.

How it can mislead. Embeddings that tell PrOntoQA's tokens apart and push the stories' one way read a difference near
-.5 (planted). Embeddings that treat all tokens alike, and an *untrained* model's at any gamma, read 0: independent
directions have cosine 0, with a spread of 1 / sqrt(n(n-1)d/2). But all that every token shares raises both cosines, and
*frequency alone* makes a difference: an embedding leaves its initial direction with its token's frequency (Eq. 5), so
where frequent tokens went further along a shared direction, the corpus with the more frequent tokens reads the higher
cosine, whatever its tokens mean. The permutation of corpus labels does not rule this out, since frequencies go with the
labels: it asks only whether lists as different arise by chance. The matched differences rule it out where their
mismatch is small, for the tokens that have a match: most of the stories' are rarer than all of PrOntoQA's, and no match
says anything of them. A matched difference of the other sign says that tokens without a match make the raw one; it does
not say that their frequency does. difference_control has its own null: each token swaps with its match or not.
difference_counterpart has none, and rests on few PrOntoQA tokens (n_counterpart). Raw cosines near 1 follow from a
shared mean. Read the centred ones too; they lose a difference that lies in the shared mean alone. Most typical tokens
of the stories are rare, and a token that hardly moved is still orthogonal to all others. Then their mean cosine reads 0
and difference lies above 0, because training was short. Which evaluation is early depends on how often one evaluates:
the pooled loss falls by a fifth in the first dozen steps.

*Means and intervals.* For unit vectors u_i and weights w_i, how often token i is in a list, the mean over pairs of
distinct tokens is

    sum_{i != j} w_i w_j u_i . u_j / sum_{i != j} w_i w_j  =  (|sum w_i u_i|^2 - sum w_i^2) / ((sum w_i)^2 - sum w_i^2)

A bootstrap draws tokens with replacement, so w_i is then how often token i was drawn (Efron, 1979; percentiles): a
token drawn twice counts twice in each of its pairs, and never makes a pair with itself. The two lists are drawn
independently of each other. The sets of a match are drawn as one, in both directions (Abadie and Spiess, "Robust
post-matching inference", 2022). The interval is about other tokens of the same kind in the same model. It holds the
model, its seed, the match and the centre of centred cosines fixed. Where the tokens' directions are independent, as in
an untrained model, the mean cosine has no first-order term and the interval is too wide. Where a match gives few tokens
most of the weight, there are few to draw from and it is too narrow. Tokens of a text are not drawn independently
either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Integer, Shaped
from torch import Tensor

from rb_interp.probes._probe import Found, embedding, probe
from rb_interp.probes.capturing import float64
from rb_interp.probes.embeddings import Vectors
from rb_interp.probes.tokens import NamedCounts, Typical, checked_counts, typical_tokens
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null

SHOWN = 60
"""Tokens of each list in the cosine matrices, the most frequent ones."""
DIFFERENCES = {
    "difference": ("prontoqa", "stories"),
    "difference_control": ("prontoqa", "control"),
    "difference_counterpart": ("counterpart", "in_range"),
}
"""Difference -> the lists whose mean cosines it compares, the first less the second."""
LISTS = ("prontoqa", "stories", "control", "in_range", "counterpart")
Weights = Shaped[np.ndarray, "draw token"]


@probe(embedding, "a list has fewer than two tokens or no matched ones, or its embeddings are zero.", place={})
def token_similarity(W_E: Tensor, *, n_draws: int = 500, counts: NamedCounts) -> Found:
    """Mean cosines of the embeddings of typical tokens, by corpus and matched in frequency in both directions.

    Values as in the module's table, n_prontoqa, n_stories, control_mismatch and counterpart_mismatch (mean distance
    of matched counts in ln), n_in_range (the stories' tokens that are as frequent as PrOntoQA's) and n_counterpart
    (the effective number of PrOntoQA tokens matched to them, (sum w')^2 / sum w'^2). A list of fewer than two
    tokens gives nan, a missing control (fewer typical tokens in the stories than in PrOntoQA) too. Table
    ``token_intervals``: quantity, low, high, the interval over tokens of each cosine and difference. Nulls, side
    less: corpus labels permuted among typical tokens (difference, difference_centred); PrOntoQA's tokens swapped
    with their matches, each or not (difference_control, difference_control_centred). Arrays: cos_prontoqa_matrix,
    cos_stories_matrix, cos_control_matrix (raw, the SHOWN most frequent, in descending order of their count in
    their own corpus) and tokens_prontoqa, tokens_stories, tokens_control, the ids of their rows.

    Args:
        n_draws: draws of the bootstrap over tokens; 0 for none.

    Raises:
        TextError: for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    totals, words = checked_counts(counts, len(W_E))
    typical = typical_tokens(totals)
    vectors = float64(W_E[np.concatenate([typical.prontoqa, typical.stories])])
    weights = np.bincount(typical.counterpart)
    sizes = {
        "n_prontoqa": float(len(typical.prontoqa)),
        "n_stories": float(len(typical.stories)),
        "control_mismatch": typical.mismatch,
        "n_in_range": float(len(typical.in_range)),
        "n_counterpart": float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0,
        "counterpart_mismatch": typical.counterpart_mismatch,
    }

    def arrays() -> dict[str, np.ndarray]:
        result = {}
        for corpus, name in zip((0, 1, 1), LISTS, strict=False):
            ids = getattr(typical, name)
            shown = ids[np.argsort(-totals[corpus, ids].astype(np.int64), kind="stable")][:SHOWN]
            result |= {f"tokens_{name}": shown, f"cos_{name}_matrix": cosines(float64(W_E[shown]))}
        return result

    def tables(seed: int) -> dict[str, pd.DataFrame]:
        intervals = token_intervals(vectors, typical, n_draws, np.random.default_rng(seed)) if n_draws else None
        return {} if intervals is None else {"token_intervals": intervals}

    return Found(
        {**similarity_values(vectors, typical), **sizes},
        lambda n_null, seed: similarity_nulls(vectors, typical, n_null, np.random.default_rng(seed)),
        arrays,
        tables=tables,
        words=words,
    )


def similarity_values(vectors: Vectors, typical: Typical) -> dict[str, float]:
    """Every cosine and difference of the module's table; ``vectors`` are those of ``prontoqa``, then of ``stories``."""
    return {name: float(draws[0]) for name, draws in cosines_by_group(vectors, group_weights(typical)).items()}


def similarity_nulls(vectors: Vectors, typical: Typical, n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    """Nulls of four differences; those with the control are nan where it is missing."""
    n_first, n = len(typical.prontoqa), len(vectors)
    permuted = permutations(n_null, n, rng) < n_first
    groups = group_weights(typical)
    first, control = groups["prontoqa"] > 0, groups["control"] > 0
    swap = np.zeros((n_null, n), dtype=bool)
    swap[:, :n_first] = rng.random((n_null, n_first)) < 0.5
    swap[:, n_first + _places(typical.stories, typical.control)] = swap[:, : control.sum()]
    first, control = first ^ swap, control ^ swap
    drawn = {
        "difference": ("corpus labels permuted among typical tokens", {"prontoqa": permuted, "stories": ~permuted}),
        "difference_control": (
            "PrOntoQA tokens swapped with their matches",
            {"prontoqa": first, "stories": ~first, "control": control},
        ),
    }
    nulls = {}
    for start, (said, lists) in drawn.items():
        draws = cosines_by_group(vectors, lists)
        nulls |= {name: Null(said, draws[name], "less") for name in (start, f"{start}_centred")}
    return nulls


def token_intervals(
    vectors: Vectors, typical: Typical, n_draws: int, rng: np.random.Generator, confidence: float = 0.95
) -> pd.DataFrame:
    """Bootstrap interval over tokens (percentiles) of each cosine and difference: quantity, low, high.

    Draws without a pair are left out; the ends are nan where there are no others.

    Args:
        vectors: those of ``typical.prontoqa``, then of ``typical.stories``.
        n_draws, rng: how many draws, and where they come from.
        confidence: coverage, in (0, 1).
    """
    sizes = len(typical.prontoqa), len(typical.stories)
    resampled = _weights(typical, *(rng.multinomial(n, np.full(n, 1 / n), n_draws) for n in sizes))
    tail, rows = (1 - confidence) / 2, []
    for name, draws in cosines_by_group(vectors, resampled, centre_of(vectors, group_weights(typical))).items():
        finite = draws[np.isfinite(draws)]
        rows.append((name, *(np.quantile(finite, (tail, 1 - tail)) if len(finite) else (math.nan, math.nan))))
    return pd.DataFrame(rows, columns=["quantity", "low", "high"])


def group_weights(typical: Typical) -> dict[str, Weights]:
    """How much each typical token, PrOntoQA's and then the stories', counts in each list: one draw."""
    return _weights(typical, np.ones((1, len(typical.prontoqa)), int), np.ones((1, len(typical.stories)), int))


def _weights(
    typical: Typical, first: Integer[np.ndarray, "draw first"], others: Integer[np.ndarray, "draw other"]
) -> dict[str, Weights]:
    """Weights of each list, given how often each token of either corpus is drawn."""
    n_first, n = first.shape[1], first.shape[1] + others.shape[1]
    weights = {name: np.zeros((len(first), n), dtype=np.int64) for name in LISTS}
    weights["prontoqa"][:, :n_first] = first
    weights["stories"][:, n_first:] = others
    weights["control"][:, n_first + _places(typical.stories, typical.control)] = first[:, : len(typical.control)]
    partner = _places(typical.prontoqa, typical.counterpart)
    weights["counterpart"][:, :n_first] = first * np.bincount(partner, minlength=n_first)
    weights["in_range"][:, n_first + _places(typical.stories, typical.in_range)] = first[:, partner]
    return weights


def _places(tokens: Int[np.ndarray, " token"], wanted: Int[np.ndarray, " wanted"]) -> Int[np.ndarray, " wanted"]:
    """Where each wanted token stands in a list of distinct tokens."""
    order = np.argsort(tokens)
    return order[np.searchsorted(tokens, wanted, sorter=order)]


def mean_cosines(
    vectors: Vectors, weights: Weights, centre: Float[np.ndarray, "#draw d_model"]
) -> Float[np.ndarray, " draw"]:
    """Mean cosine over pairs of distinct tokens, seen from each draw's centre, in [-1, 1]; nan for fewer than two.

    A pair weighs the product of its tokens' weights. No matrix of cosines is made, see the module's formula.
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
    result = {}
    centre = centre_of(vectors, groups) if centre is None else centre
    for ending, middle in (("", np.zeros_like(centre)), ("_centred", centre)):
        cos = {name: mean_cosines(vectors, weights, middle) for name, weights in groups.items()}
        result |= {f"cos_{name}{ending}": draws for name, draws in cos.items()}
        for name, (one, other) in DIFFERENCES.items():
            if one in cos and other in cos:
                result[f"{name}{ending}"] = cos[one] - cos[other]
    return result


def centre_of(vectors: Vectors, groups: Mapping[str, Weights]) -> Float[np.ndarray, "draw d_model"]:
    """(Mean over PrOntoQA's tokens + mean over the stories') / 2 of each draw; nan where either has none."""
    lists = [groups[name].astype(np.float64) for name in ("prontoqa", "stories")]
    sizes = [weights.sum(1, keepdims=True) for weights in lists]
    first, second = (w @ vectors / np.where(n > 0, n, np.nan) for w, n in zip(lists, sizes, strict=True))
    return (first + second) / 2
