r"""Do token embeddings of two corpora use few directions, and do they take the shape of what follows their tokens?

`embedding_rank` (paper 1, "low rank"; paper 2, Figs. 12 and 13). With l_1 >= l_2 >= ... the spectrum of the centred
covariance of a list of embeddings, n of them in d_model dimensions:

    participation_g      (sum l)^2 / sum l^2                        effective number of directions, [1, min(n - 1, d)]
    share_k_g            (l_1 + .. + l_k) / sum l    for k = 1, 3, 10                                        (0, 1]
    participation_ratio_g      participation_g / the untrained model's; nan without an untrained model               > 0
    participation_difference   participation_prontoqa - participation_control, both of as many tokens

for the lists g of ``tokens``: prontoqa, stories, control, and all, every token with 20 occurrences in the two corpora
together.

How it can mislead. A model of low rank reads a participation of a few and share_3 near 1; one that is not, and an
*untrained* one at any gamma, reads that of independent directions, about n d / (n + d), and share_k a little over k /
d. That depends on n: a hundred tokens read 56 in 128 dimensions and a thousand 113 with nothing learned. So never
compare corpora directly: use participation_ratio or, with the frequencies matched as well, participation_difference,
whose null swaps matched tokens. One direction along which frequent tokens differ from rare ones lowers every
participation without any structure (Eq. 5: an embedding moves with its token's frequency), most of all in ``all``.
Small initialisation reads low for a second reason. The first few directions that are learned soon outweigh a small
start, but a large start hides them. So a low rank says how far a model has moved from its start. It does not say what
the model has learned.

`next_token` (paper 1, Prop. 1, Eqs. 5 to 8). Under small initialisation an embedding first moves as dw_s / dt = r_s
(P^s - u) W^(2)T W^(1)T (Eq. 5), P^s the labels' distribution where s occurs, u = 1 / d_vocab. In next-token prediction
s has a label at each of its occurrences; what it alone decides is the token after it, so here

    P^s_i = share of the occurrences of s in training text that token i follows

and over all pairs of the most frequent typical tokens s, s' (``tokens``, at most 200 of each corpus) of the list
g = prontoqa, stories or all

    spearman_g, pearson_g            correlation of cos(P^s - u, P^s' - u) with cos(w_s, w_s')                [-1, 1]
    spearman_centred_g               Spearman's, P^s and w_s both less their mean over g                     [-1, 1]

How it can mislead. Embeddings that are their start plus a random linear image of P^s - u read Pearson's .92 to .95 and
Spearman's .37 to .73; random ones and an *untrained* model read 0. But *frequency* works on both sides: counts of a
rare token are few, so its P^s is ragged and its cosines low, and its embedding has hardly left its start, so its
cosines are low too. And tokens of one corpus are followed by that corpus, which makes ``all`` positive as soon as the
corpora are told apart. Hence the null: tokens permuted among ten neighbours in frequency of their own corpus, which
keeps both; what a reading adds to its null's mean is about the tokens themselves. In PrOntoQA neighbours in frequency
have one role (the ten concepts), so the null is severe: a small model after 400 steps read .72 beside a null of .36.
Correlation does not say how the shape came about: tokens that share successors share meaning, and every model that
predicts well would tie them. Eq. (5) speaks of the first steps alone. The correlation can be perfect with a W that
keeps one direction of P^s only: see embedding_rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from rb_interp.errors import TextError
from rb_interp.probes._probe import Found, embedding, probe
from rb_interp.probes.capturing import Source, float64
from rb_interp.probes.embeddings import TIES, Vectors
from rb_interp.probes.tokens import MIN_COUNT, NamedCounts, checked_counts, typical_tokens
from rb_interp.probes.vectors import (
    cosines,
    gaussian_participations,
    pairs,
    participation,
    pearson,
    principal_components,
    ranked_pairs,
    spearman,
)
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs
from rb_interp.text.task import CORPORA

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LEADING = (1, 3, 10)
"""Numbers of leading directions whose share of the variance is read."""
MOST = 200
"""Typical tokens of each corpus, at most: the most frequent, whose P^s is known best."""
BAND = 10
"""The null of next_token permutes tokens among as many neighbours in frequency."""
UNDEFINED = {
    "participation_ratio": "no untrained model was given, or the list has fewer than two tokens.",
    "": "the list has fewer than two tokens (a control has none where the stories have fewer than PrOntoQA), or its "
    "embeddings are all the same.",
}
Gram = Float[np.ndarray, "token token"]


@probe(embedding, UNDEFINED, place={})
def embedding_rank(W_E: Tensor, *, untrained: Source | None = None, counts: NamedCounts) -> Found:
    """Effective dimension of the embeddings of each list of tokens.

    Values as in the module's table; a list of fewer than two tokens gives nan. Nulls, side less: independent Gaussian
    vectors (participation_g, and participation_ratio_g beside an untrained model), matched tokens swapped between
    PrOntoQA and the control (participation_difference). Arrays: spectrum_prontoqa and so on, each component's share of
    the variance, and spectrum_untrained_prontoqa and so on beside an untrained model.

    Raises:
        TextError: for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    totals, words = checked_counts(counts, len(W_E))
    typical = typical_tokens(totals)
    ids = {name: getattr(typical, name) for name in ("prontoqa", "stories", "control")}
    ids["all"] = np.flatnonzero(totals.sum(0) >= MIN_COUNT)
    vectors = {name: float64(W_E[tokens]) for name, tokens in ids.items()}

    def arrays() -> dict[str, np.ndarray]:
        start = (
            {name: float64(embedding(untrained)[tokens]) for name, tokens in ids.items()}
            if untrained is not None
            else {}
        )
        both = vectors | {f"untrained_{name}": rows for name, rows in start.items()}
        return {f"spectrum_{name}": principal_components(rows)[1] for name, rows in both.items()}

    values = rank_values(vectors)
    return Found(values, lambda n, seed: rank_nulls(vectors, n, np.random.default_rng(seed)), arrays, words=words)


def rank_values(vectors: Mapping[str, Vectors]) -> dict[str, float]:
    """The table's quantities of every list of embeddings (participation_ratio_g: nan)."""
    values = {}
    for name, rows in vectors.items():
        share = principal_components(rows)[1]
        values[f"participation_{name}"] = participation(rows) if len(rows) else math.nan
        values[f"participation_ratio_{name}"] = math.nan
        values |= {f"share_{k}_{name}": float(share[:k].sum()) if share.any() else math.nan for k in LEADING}
    values["participation_difference"] = values["participation_prontoqa"] - values["participation_control"]
    return values


def rank_nulls(vectors: Mapping[str, Vectors], n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    """Nulls of the participations: independent Gaussian vectors, and swaps of PrOntoQA's tokens with the control."""
    nulls = {}
    for name, rows in vectors.items():
        drawn = Null("random vectors", gaussian_participations(n_null, len(rows), rows.shape[1], rng), "less")
        nulls |= {f"participation_{name}": drawn, f"participation_ratio_{name}": drawn}
    first, control = vectors["prontoqa"], vectors["control"]
    draws = np.full(n_null, np.nan)
    if len(control) > 1:
        swap = rng.random((n_null, len(first))) < 0.5
        draws = _swapped(first, control, ~swap) - _swapped(first, control, swap)
    return nulls | {"participation_difference": Null("PrOntoQA tokens swapped with their matches", draws, "less")}


def _swapped(first: Vectors, control: Vectors, take: Bool[np.ndarray, "draw token"]) -> Float[np.ndarray, " draw"]:
    """Participation of the vectors that each draw takes of ``first``, the others being their matches."""
    draws = np.empty(len(take))
    for draw, chosen in enumerate(take):
        rows = np.where(chosen[:, None], first, control)
        centred = rows - rows.mean(0)
        gram = centred @ centred.T if len(rows) < rows.shape[1] else centred.T @ centred  # both have the same spectrum
        size = (gram**2).sum()
        draws[draw] = np.trace(gram) ** 2 / size if size > 0 else np.nan
    return draws


@probe(embedding, "the list has fewer than three tokens with a successor, or nothing varies among them.", place={})
def next_token(
    W_E: Tensor, inputs: Inputs, *, counts: NamedCounts, lengths: Int[np.ndarray, " row"] | None = None
) -> Found:
    """How well the next-token distributions of typical tokens predict the geometry of their embeddings.

    Values as in the module's table, and n_prontoqa, n_stories, the tokens of each list; a list of fewer than three
    tokens gives nan. Null of every correlation: tokens permuted among neighbours in frequency. ``n`` is the number of
    rows of text. Arrays: tokens_prontoqa, tokens_stories, by descending count.

    Args:
        inputs: training text, such as ``Inputs(text_data().train.tokens)``.
        lengths: ``[row]``, how many tokens of each row are text, where rows are filled up. By default all.

    Raises:
        TextError: for counts of another shape or vocabulary, a corpus without tokens, tokens beyond the counts, and
            lengths of other rows.
    """
    totals, words = checked_counts(counts, len(W_E))
    tokens = inputs.tokens
    lengths = np.full(len(tokens), tokens.shape[1]) if lengths is None else lengths
    if len(lengths) != len(tokens):
        raise TextError(f"got {len(lengths)} lengths for {len(tokens)} rows of text; give one for each row.")
    typical = typical_tokens(totals)
    ids = np.concatenate([getattr(typical, name)[:MOST] for name in CORPORA])
    followers = successors(tokens, lengths, ids, totals.shape[1])
    known = np.flatnonzero(np.diff(followers.indptr))
    ids, labels = ids[known], label_products(followers[known], totals.shape[1])
    first, vectors = int(np.isin(ids, typical.prontoqa).sum()), float64(W_E[ids])
    values = {}
    for name, _, x, y in _sides(labels, vectors, first):
        correlation = spearman if "spearman" in name else pearson
        values[name] = math.nan if x is None or y is None else float(correlation(pairs(x), pairs(y)))

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        orders, drawn = banded_orders(first, len(ids), n_null, np.random.default_rng(seed)), {}
        for name, block, x, y in _sides(labels, vectors, first):
            draws = np.full(n_null, np.nan)
            if x is not None and y is not None:
                x, y = (ranked_pairs(x), ranked_pairs(y)) if "spearman" in name else (x, y)
                draws = permuted_correlations(x, y, orders[:, block] - (block.start or 0))
            drawn[name] = Null(f"tokens permuted among {BAND} neighbours in frequency", draws)
        return drawn

    sizes = {"n_prontoqa": float(first), "n_stories": float(len(ids) - first)}
    arrays = {"tokens_prontoqa": ids[:first], "tokens_stories": ids[first:]}
    return Found({**values, **sizes}, nulls, arrays, len(tokens), words=words)


def successors(
    tokens: Integer[np.ndarray, "row pos"],
    lengths: Int[np.ndarray, " row"],
    ids: Int[np.ndarray, " token"],
    d_vocab: int,
) -> csr_array:
    """How often each of the tokens ``ids`` is followed by each token, sparse ``[token, d_vocab]``.

    ``lengths`` says how many tokens of each row are real. Raises TextError for tokens beyond ``d_vocab``.
    """
    from scipy.sparse import coo_array

    if tokens.max() >= d_vocab:
        raise TextError(f"the rows hold token {tokens.max()}; the counts know 0 to {d_vocab - 1}. Use one tokenizer.")
    place = np.full(d_vocab, -1)
    place[ids] = np.arange(len(ids))
    real = np.arange(1, tokens.shape[1]) < np.asarray(lengths)[:, None]
    at, following = place[tokens[:, :-1][real]], tokens[:, 1:][real].astype(np.int64)
    wanted = at >= 0
    entries = (np.ones(int(wanted.sum())), (at[wanted], following[wanted]))
    return coo_array(entries, shape=(len(ids), d_vocab)).tocsr()


def label_products(followers: csr_array, d_vocab: int) -> Gram:
    """Inner products of P^s - u, from how often each token follows s; P^s . P^s' - 1 / d_vocab, as both sum to 1."""
    totals = np.asarray(followers.sum(1))
    return (followers @ followers.T).toarray() / totals[:, None] / totals - 1 / d_vocab


def banded_orders(
    n_first: int, n: int, n_null: int, rng: np.random.Generator, band: int = BAND
) -> Int[np.ndarray, "draw token"]:
    """Permutations that move tokens among ``band`` neighbours of their own list, the first being ``n_first`` long."""
    at = np.arange(n)
    bands = np.where(at < n_first, at // band, n + (at - n_first) // band)
    return np.argsort(bands + rng.random((n_null, n)), axis=1)


def permuted_correlations(x: Gram, y: Gram, orders: Int[np.ndarray, "draw token"]) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation over pairs of tokens after permuting the tokens of x; nan where one side does not vary."""

    def standardised(matrix: Gram) -> Gram:
        upper = pairs(matrix)
        centred = matrix - upper.mean()
        np.fill_diagonal(centred, 0)
        norm = np.linalg.norm(upper - upper.mean())
        return centred / (norm if norm > 0 else np.nan)

    x, y = standardised(x), standardised(y)
    return np.array([(x[order][:, order] * y).sum() / 2 for order in orders])


def _sides(labels: Gram, vectors: Vectors, first: int) -> Iterator[tuple[str, slice, Gram | None, Gram | None]]:
    """Each correlation's name, the place of its list, and cosines of labels and of embeddings, raw or less their means.

    None for fewer than three tokens.
    """
    for name, block in (("prontoqa", slice(0, first)), ("stories", slice(first, None)), ("all", slice(None))):
        own, rows = labels[block, block], vectors[block]
        if len(rows) < 3:
            sides: tuple[Gram | None, Gram | None] = (None, None)
            raw = sides
        else:
            centred = own - own.mean(0) - own.mean(1, keepdims=True) + own.mean()
            raw = _gram_cosines(own), cosines(rows)
            sides = _gram_cosines(centred), cosines(rows - rows.mean(0))
        for kind, (x, y) in (("spearman", raw), ("pearson", raw), ("spearman_centred", sides)):
            yield f"{kind}_{name}", block, x, y


def _gram_cosines(products: Gram) -> Gram:
    """Cosines from inner products; rounded, so that equal ones tie: many tokens have one successor."""
    norms = np.sqrt(np.where(np.diag(products) > 0, np.diag(products), np.nan))
    return (products / norms[:, None] / norms).round(TIES)
