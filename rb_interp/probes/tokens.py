r"""Which tokens are typical of which of two corpora, and are those of one told apart before those
of the other?

The paper compares "PrOntoQA tokens" with "TinyStories tokens" (paper 1, Fig. 7B) and does not say
which those are. Here, with c_A(s) the count of token s among the training targets of corpus A, N_A
their total, V = d_vocab and f_A(s) = (c_A(s) + 1) / (N_A + V), a token is typical of A where

    c_A(s) >= 20    and    f_A(s) / f_B(s) >= 10

With c(s) the count in both corpora together (r_s of Prop. 1 is c / N), frequencies are matched in
both directions:

    control        for each PrOntoQA token another typical token of the stories, one to one, such that the sum of
                   |ln c(s) - ln c(s')| is smallest
    counterpart    for each typical token of the stories in range, the PrOntoQA token of smallest |ln c(s) - ln c(s')|,
                   which may serve several times; in range: min c <= c(s) <= max c over PrOntoQA's
                   typical tokens

How it can mislead. The limit of 20 is there because a ratio of 10 between smaller counts arises by
chance. PrOntoQA repeats a few dozen words, so its typical tokens are more frequent than most of the
stories': an embedding moves with its token's frequency (Eq. 5), and without the control a
comparison of corpora is one of frequencies. The control is only as good as ``mismatch``, the mean
|ln| that is left: at .1 matched pairs differ by 10 %, at .7 by a factor of two, which is no control
any more. Most typical tokens of the stories are rarer than every one of PrOntoQA's: neither direction
says anything of them. In the second one, few PrOntoQA tokens carry most of the weight.

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
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from rb_interp.arguments import as_array, checked
from rb_interp.errors import TextError, shown
from rb_interp.probes._probe import Found, embedding, probe
from rb_interp.probes.activations import float64
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null
from rb_interp.text.settings import CORPORA

MIN_COUNT = 20
"""A typical token occurs at least as often as this in its own corpus."""
MIN_RATIO = 10.0
"""A typical token is at least this many times as frequent in its own corpus as in the other,
smoothed."""
Counts = np.ndarray
"""Integers ``[2, d_vocab]``, PrOntoQA first; ``checked_counts`` explains it."""
NamedCounts = Counts | Mapping[str, Any]
"""The same, or two corpora by the caller's names, each with its ``[d_vocab]`` counts, that of the
rules first."""
NO_TOKEN = np.array([], dtype=np.int64)
RESERVED = ("control", "all", "in_range", "counterpart")
SHOWN = 60
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
Vectors = Float[np.ndarray, "token d_model"]
Weights = Shaped[np.ndarray, "draw token"]
"""How often each typical token, PrOntoQA's and then the stories', counts in a list."""


class Typical(NamedTuple):
    """Token ids typical of both corpora, each list by descending count in its own corpus, and their
    matches.

    Attributes:
        control: of the stories' ids, the one matched to each of ``prontoqa``; empty where the
            stories have fewer.
        mismatch, counterpart_mismatch: mean |ln ratio| of the counts of matched tokens, 0 or more;
            nan without any.
        in_range: of the stories' ids, those as frequent as PrOntoQA's (none rarer or more frequent
            than all of these).
        counterpart: of ``prontoqa``'s ids, the nearest in frequency to each of ``in_range``, in its
            order; ids repeat.
    """

    prontoqa: Int[np.ndarray, " prontoqa"]
    stories: Int[np.ndarray, " stories"]
    control: Int[np.ndarray, " control"] = NO_TOKEN
    mismatch: float = math.nan
    in_range: Int[np.ndarray, " in_range"] = NO_TOKEN
    counterpart: Int[np.ndarray, " in_range"] = NO_TOKEN
    counterpart_mismatch: float = math.nan


@checked
def typical_tokens(counts: Counts) -> Typical:
    """Typical tokens of two corpora, matched in frequency in both directions, from their token
    counts.

    Args:
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first.

    Raises TextError for counts of another shape, and for a corpus without tokens.

    >>> counts = np.array([[90, 50, 0, 0, 0, 60], [0, 0, 80, 20, 52, 60]])
    >>> typical = typical_tokens(counts)
    >>> typical.prontoqa.tolist(), typical.stories.tolist(), typical.control.tolist()
    ([0, 1], [2, 4, 3], [2, 4])
    >>> typical.in_range.tolist(), typical.counterpart.tolist()  # token 3 is rarer than both of PrOntoQA's
    ([2, 4], [0, 1])
    """
    checked_counts(counts)
    ratio, lists, totals = frequency_ratio(counts), [], counts.sum(0)
    for own, typical in zip(counts, (ratio >= MIN_RATIO, ratio <= 1 / MIN_RATIO), strict=True):
        ids = np.flatnonzero(typical & (own >= MIN_COUNT))
        lists.append(ids[np.argsort(-own[ids].astype(np.int64), kind="stable")])
    return Typical._make([*lists, *matched(totals, *lists), *nearest(totals, *lists)])


def frequency_ratio(counts: Counts) -> Float[np.ndarray, " d_vocab"]:
    """Smoothed frequency in PrOntoQA over that in the stories, above 0; 1 for a token that neither
    has."""
    smoothed = (counts + 1) / (counts.sum(1, keepdims=True) + counts.shape[1])
    return smoothed[0] / smoothed[1]


@checked
def token_table(counts: Counts, texts: Sequence[str]) -> list[dict]:
    """One row for each typical token: token, text, corpus, count_prontoqa, count_stories, ratio,
    control, counterpart.

    ``ratio`` is the smoothed frequency in its own corpus over that in the other, at least
    MIN_RATIO; ``control`` says whether the token is matched to a PrOntoQA token, ``counterpart`` to
    how many tokens of the stories a PrOntoQA token is matched; ``texts[id]`` is how a token is
    shown. Raises TextError as `typical_tokens` does.
    """
    typical, ratio = typical_tokens(counts), frequency_ratio(counts)
    control, counterpart = set(typical.control.tolist()), Counter(typical.counterpart.tolist())
    return [
        {
            "token": token,
            "text": texts[token],
            "corpus": corpus,
            "count_prontoqa": int(counts[0, token]),
            "count_stories": int(counts[1, token]),
            "ratio": float(ratio[token] if corpus == CORPORA[0] else 1 / ratio[token]),
            "control": token in control,
            "counterpart": counterpart[token],
        }
        for corpus in CORPORA
        for token in getattr(typical, corpus).tolist()
    ]


def checked_counts(
    counts: NamedCounts, d_vocab: int | None = None
) -> tuple[Counts, dict[str, str]]:
    """Counts ``[2, d_vocab]``, and what stands in place of the package's names of corpora;
    TextError for others."""
    names = tuple(CORPORA)
    if isinstance(counts, Mapping):
        names = tuple(counts)
        if len(names) != 2 or not all(
            isinstance(name, str) and name and name not in RESERVED for name in names
        ):
            raise TextError(
                f"got counts of {', '.join(map(shown, names)) or 'no corpus'}; expected those of "
                f"two corpora by name, "
                f"none of them called {', '.join(RESERVED)}."
            )
        both = [as_array(one) for one in counts.values()]
        counts = np.stack(both) if both[0].shape == both[1].shape else np.zeros(0)
    if (
        counts.ndim != 2
        or len(counts) != 2
        or not np.issubdtype(counts.dtype, np.integer)
        or (counts < 0).any()
    ):
        raise TextError(
            f"got token counts of shape {list(counts.shape)} and type {counts.dtype}; expected "
            f"integers [2, d_vocab], "
            f"0 or more, PrOntoQA first, such as text_data().counts, or two corpora by name, each "
            f"with [d_vocab]."
        )
    for corpus, total in zip(names, counts.sum(1).tolist(), strict=True):
        if total == 0:
            raise TextError(
                f"the counts hold no token of '{corpus}'; typical tokens need text of both corpora."
            )
    if d_vocab not in (None, counts.shape[1]):
        raise TextError(
            f"got counts of {counts.shape[1]} tokens; the model knows {d_vocab}. Give those of its "
            f"own text."
        )
    words = {
        "prontoqa": names[0],
        "stories": names[1],
        "PrOntoQA": names[0],
        "the stories": names[1],
    }
    return counts, words if names != CORPORA else {}


def matched(
    totals: Int[np.ndarray, " d_vocab"],
    wanted: Int[np.ndarray, " wanted"],
    offered: Int[np.ndarray, " offered"],
) -> tuple[Int[np.ndarray, " control"], float]:
    """An offered token for each wanted one, none twice, and the mean |ln ratio| of counts; none and
    nan for too few."""
    from scipy.optimize import linear_sum_assignment

    if not 0 < len(wanted) <= len(offered):
        return NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[wanted])[:, None] - np.log(totals[offered]))
    rows, columns = linear_sum_assignment(cost)
    return offered[columns], float(cost[rows, columns].mean())


def nearest(
    totals: Int[np.ndarray, " d_vocab"],
    offered: Int[np.ndarray, " offered"],
    wanted: Int[np.ndarray, " wanted"],
) -> tuple[Int[np.ndarray, " in_range"], Int[np.ndarray, " in_range"], float]:
    """Wanted tokens within the range of the offered ones' counts, the nearest offered one of each,
    mean |ln ratio|."""
    counts = totals[offered]
    low, high = (counts.min(), counts.max()) if len(counts) else (1, 0)
    within = wanted[(totals[wanted] >= low) & (totals[wanted] <= high)]
    if not len(within):
        return NO_TOKEN, NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[within])[:, None] - np.log(counts))
    return within, offered[cost.argmin(1)], float(cost.min(1).mean())


@probe(
    embedding,
    "a list has fewer than two tokens or no matched ones, or its embeddings are zero.",
    place={},
)
def token_similarity(W_E: Tensor, *, n_draws: int = 500, counts: NamedCounts) -> Found:
    """Mean cosines of the embeddings of typical tokens, by corpus and matched in frequency in both
    directions.

    Values as in the module's table, the lists' n_prontoqa, n_stories and n_in_range,
    control_mismatch and counterpart_mismatch, and n_counterpart, the effective number of matched
    PrOntoQA tokens, (sum w')^2 / sum w'^2. A list of fewer than two tokens gives nan. Table
    ``token_intervals``: quantity, low, high, the 95 % interval over tokens of each cosine and
    difference. Nulls, side less: corpus labels permuted among typical tokens (difference);
    PrOntoQA's tokens swapped with their matches, each or not (difference_control). Arrays:
    cos_prontoqa_matrix (raw, the SHOWN most frequent), tokens_prontoqa, the ids of its rows, and
    the same of the stories and the control.

    Args:
        n_draws: draws of the bootstrap over tokens; 0 for none.

    Raises TextError for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    totals, words = checked_counts(counts, len(W_E))
    typical = typical_tokens(totals)
    vectors = float64(W_E[np.concatenate([typical.prontoqa, typical.stories])])
    matches = np.bincount(typical.counterpart)
    values = {
        name: float(draws[0]) for name, draws in cosines_by_list(vectors, once(typical)).items()
    } | {
        "n_prontoqa": float(len(typical.prontoqa)),
        "n_stories": float(len(typical.stories)),
        "control_mismatch": typical.mismatch,
        "n_in_range": float(len(typical.in_range)),
        "n_counterpart": float(matches.sum() ** 2 / (matches**2).sum()) if len(matches) else 0.0,
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
        return {
            "token_intervals": token_intervals(
                vectors, typical, n_draws, np.random.default_rng(seed)
            )
        }

    return Found(
        values,
        lambda n_null, seed: similarity_nulls(
            vectors, typical, n_null, np.random.default_rng(seed)
        ),
        arrays,
        tables=tables if n_draws else None,
        words=words,
    )


def similarity_nulls(
    vectors: Vectors, typical: Typical, n_null: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Nulls of four differences; those with the control are nan where it is missing."""
    n_first, n = len(typical.prontoqa), len(vectors)
    permuted, lists = permutations(n_null, n, rng) < n_first, once(typical)
    first, control = lists["prontoqa"] > 0, lists["control"] > 0
    swap = np.zeros((n_null, n), dtype=bool)
    swap[:, :n_first] = rng.random((n_null, n_first)) < 0.5
    swap[:, n_first + _places(typical.stories, typical.control)] = swap[:, : control.sum()]
    swapped = {"prontoqa": first ^ swap, "stories": ~(first ^ swap), "control": control ^ swap}
    nulls = {}
    for start, said, drawn in (
        (
            "difference",
            "corpus labels permuted among typical tokens",
            {"prontoqa": permuted, "stories": ~permuted},
        ),
        ("difference_control", "PrOntoQA tokens swapped with their matches", swapped),
    ):
        draws = cosines_by_list(vectors, drawn)
        nulls |= {name: Null(said, draws[name], "less") for name in (start, f"{start}_centred")}
    return nulls


def token_intervals(
    vectors: Vectors, typical: Typical, n_draws: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Bootstrap interval over tokens of each cosine and difference, of the draws that have a
    pair."""
    sizes = len(typical.prontoqa), len(typical.stories)
    resampled = _weights(typical, *(rng.multinomial(n, np.full(n, 1 / n), n_draws) for n in sizes))
    rows = []
    for name, draws in cosines_by_list(
        vectors, resampled, centre_of(vectors, once(typical))
    ).items():
        finite = draws[np.isfinite(draws)]
        rows.append((name, *(np.quantile(finite, ENDS) if len(finite) else (math.nan, math.nan))))
    return pd.DataFrame(rows, columns=["quantity", "low", "high"])


def once(typical: Typical) -> dict[str, Weights]:
    """The weights of each list where every token is drawn once."""
    return _weights(
        typical, *(np.ones((1, len(of)), int) for of in (typical.prontoqa, typical.stories))
    )


def _weights(
    typical: Typical,
    first: Shaped[np.ndarray, "draw first"],
    others: Shaped[np.ndarray, "draw other"],
) -> dict[str, Weights]:
    """Weights of each list, given how often each token of either corpus is drawn."""
    n_first, n = first.shape[1], first.shape[1] + others.shape[1]
    weights = {name: np.zeros((len(first), n), dtype=np.int64) for name in LISTS}
    weights["prontoqa"][:, :n_first] = first
    weights["stories"][:, n_first:] = others
    weights["control"][:, n_first + _places(typical.stories, typical.control)] = first[
        :, : len(typical.control)
    ]
    partner = _places(typical.prontoqa, typical.counterpart)
    weights["counterpart"][:, :n_first] = first * np.bincount(partner, minlength=n_first)
    weights["in_range"][:, n_first + _places(typical.stories, typical.in_range)] = first[:, partner]
    return weights


def _places(
    tokens: Int[np.ndarray, " token"], wanted: Int[np.ndarray, " wanted"]
) -> Int[np.ndarray, " wanted"]:
    """Where each wanted token stands in a list of distinct tokens."""
    order = np.argsort(tokens)
    return order[np.searchsorted(tokens, wanted, sorter=order)]


def cosines_by_list(
    vectors: Vectors,
    lists: Mapping[str, Weights],
    centre: Float[np.ndarray, "#draw d_model"] | None = None,
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Quantity -> one number per draw, for the given lists and their differences, seen from each
    draw's own centre."""
    result, centre = {}, centre_of(vectors, lists) if centre is None else centre
    for ending, middle in (("", np.zeros_like(centre)), ("_centred", centre)):
        cos = {name: mean_cosines(vectors, weights, middle) for name, weights in lists.items()}
        result |= {f"cos_{name}{ending}": draws for name, draws in cos.items()}
        for name, (one, other) in DIFFERENCES.items():
            if one in cos and other in cos:
                result[f"{name}{ending}"] = cos[one] - cos[other]
    return result


def centre_of(vectors: Vectors, lists: Mapping[str, Weights]) -> Float[np.ndarray, "draw d_model"]:
    """(Mean over PrOntoQA's tokens + mean over the stories') / 2 of each draw; nan where either has
    none."""
    both = [lists[name].astype(np.float64) for name in ("prontoqa", "stories")]
    sizes = [weights.sum(1, keepdims=True) for weights in both]
    first, second = (
        w @ vectors / np.where(n > 0, n, np.nan) for w, n in zip(both, sizes, strict=True)
    )
    return (first + second) / 2


def mean_cosines(
    vectors: Vectors, weights: Weights, centre: Float[np.ndarray, "#draw d_model"]
) -> Float[np.ndarray, " draw"]:
    """Mean cosine over pairs of distinct tokens, seen from each draw's centre, in [-1, 1]; nan for
    fewer than two."""
    squared = (vectors**2).sum(1) - 2 * centre @ vectors.T + (centre**2).sum(1, keepdims=True)
    norms = np.sqrt(np.where(squared > 0, squared, np.nan))
    scaled = np.where(weights > 0, weights / norms, 0.0)
    total = scaled @ vectors - scaled.sum(1, keepdims=True) * centre
    own = (weights * weights).sum(1)
    pairs = weights.sum(1) ** 2 - own
    return ((total**2).sum(1) - own) / np.where(pairs > 0, pairs, np.nan)
