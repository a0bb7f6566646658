r"""How many directions do embeddings of text use, and do they follow the next token?

`embedding_rank` (paper 1, "low rank"; paper 2, Figs. 12 and 13). With l_1 >= l_2 >= ... the
spectrum of the centred covariance of a list of embeddings, n of them in d_model dimensions:

    participation_g      (sum l)^2 / sum l^2                        effective number of directions, [1, min(n - 1, d)]
    share_k_g            (l_1 + .. + l_k) / sum l    for k = 1, 3, 10                                        (0, 1]
    participation_ratio_g      participation_g / the untrained model's; nan without an untrained model               > 0
    participation_difference   participation_prontoqa - participation_control, both of as many tokens

for the lists g of ``tokens``: prontoqa, stories, control, and all, every token with 20 occurrences
in the two corpora together.

How it can mislead. A model of low rank reads a participation of a few and share_3 near 1; one that
is not, and an *untrained* one at any gamma, reads that of independent directions, about n d / (n +
d), and share_k a little over k / d. That depends on n, so never compare corpora directly: use
participation_ratio or, with the frequencies matched as well, participation_difference, whose null
swaps matched tokens. One direction along which frequent tokens differ from rare ones lowers every
participation without any structure (Eq. 5: an embedding moves with its token's frequency), most of
all in ``all``. The first few directions that are learned soon outweigh a small start, and a large
one hides them.

`next_token` (paper 1, Prop. 1, Eqs. 5 to 8). Under small initialisation an embedding first moves as
dw_s / dt = r_s (P^s - u) W^(2)T W^(1)T (Eq. 5), P^s the labels' distribution where s occurs, u = 1
/ d_vocab. In next-token prediction s has a label at each of its occurrences; what it alone decides
is the token after it, so here

    P^s_i = share of the occurrences of s in training text that token i follows

and over all pairs of the most frequent typical tokens s, s' (``tokens``, at most 200 of each
corpus) of the list g = prontoqa, stories or all

    spearman_g, pearson_g            correlation of cos(P^s - u, P^s' - u) with cos(w_s, w_s')                [-1, 1]
    spearman_centred_g               Spearman's, P^s and w_s both less their mean over g                     [-1, 1]

How it can mislead. Embeddings that are their start plus a random linear image of P^s - u read
Pearson's .92 to .95 and Spearman's .37 to .73; random ones and an *untrained* model read 0. But
*frequency* works on both sides: a rare token has a ragged P^s and an embedding that has hardly left
its start, so both its cosines are low. And tokens of one corpus are followed by that corpus, which
makes ``all`` positive as soon as the corpora are told apart. Hence the null: tokens permuted among
ten neighbours in frequency of their own corpus, which keeps both. In PrOntoQA such neighbours have
one role (the ten concepts), so the null is severe. Every model that predicts well would tie tokens
that share successors. Eq. (5) speaks of the first steps alone. The correlation can be perfect with
a W that keeps one direction of P^s only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes._geometry import TIES, with_participation_ratios
from rb_interp.probes.activations import check_rows
from rb_interp.probes.embeddings import (
    Embeddings,
    cosines,
    gaussian_participations,
    gram_participations,
    pairs,
    participation,
    pearson,
    principal_components,
    ranked_pairs,
    spearman,
    token_vectors,
)
from rb_interp.probes.typical import (
    MIN_COUNT,
    NamedCounts,
    checked_counts,
    typical_tokens,
    with_corpus_names,
)
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LEADING = (1, 3, 10)
"""Numbers of leading directions whose share of the variance is read."""
MOST = 200
"""Typical tokens of each corpus, at most: the most frequent, whose P^s is known best."""
BAND = 10
"""The null of next_token permutes tokens among as many neighbours in frequency."""
RANK_REASONS = {
    "participation_ratio": "no untrained model was given, or the list has fewer than two tokens.",
    "": "the list has fewer than two tokens (a control has none if the stories have fewer than "
    "PrOntoQA), or its embeddings are all the same.",
}
NEXT_TOKEN_REASON = (
    "the list has fewer than three tokens with a successor, or nothing varies among them."
)
Gram = Float[np.ndarray, "token token"]


@checked
@single_threaded
def embedding_rank(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    counts: NamedCounts,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Effective dimension of the embeddings of each list of tokens.

    Values as in the module's table; a list of fewer than two tokens gives nan. Nulls, side less:
    independent Gaussian vectors, matched tokens swapped (participation_difference). Arrays:
    spectrum_prontoqa and so on, each component's share of the variance.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: not looked at, since the probe reads weights alone.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two
            corpora of yours by name, each with its ``[d_vocab]``. Their names stand in place of
            prontoqa and stories then.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises TextError for counts of another shape or vocabulary, and for a corpus without tokens.

    >>> from rb_interp import AnchorTask, build_model
    >>> counts = np.zeros((2, 200), dtype=int)
    >>> counts[0, :40], counts[1, 40:] = 50, 50
    >>> reading = embedding_rank(build_model(AnchorTask(), gamma=0.5), counts=counts, n_null=0)
    >>> 1 <= reading.values["participation_prontoqa"] <= 39
    True
    """

    def measure(source: ActivationSource) -> Measurement:
        totals = checked_counts(counts, len(model_of(source).W_E))
        token_lists = typical_tokens(totals)
        lists = {
            "prontoqa": token_lists.prontoqa,
            "stories": token_lists.stories,
            "control": token_lists.control,
            "all": np.flatnonzero(totals.sum(0) >= MIN_COUNT),
        }
        return ranks_of({name: token_vectors(source, ids) for name, ids in lists.items()})

    reading = read_model("embedding_rank", model, measure, untrained, n_null, seed, RANK_REASONS)
    return with_corpus_names(with_participation_ratios(reading), counts)


def ranks_of(vectors: Mapping[str, Embeddings]) -> Measurement:
    """The values of `embedding_rank` (ratios: nan), read from the embeddings of each list."""
    values = {}
    arrays = {}
    for name, rows in vectors.items():
        share = principal_components(rows)[1]
        values[f"participation_{name}"] = participation(rows)
        values[f"participation_ratio_{name}"] = math.nan
        for k in LEADING:
            values[f"share_{k}_{name}"] = float(share[:k].sum()) if share.any() else math.nan
        arrays[f"spectrum_{name}"] = share
    difference = values["participation_prontoqa"] - values["participation_control"]
    values["participation_difference"] = difference

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        nulls = {}
        for name, rows in vectors.items():
            draws = gaussian_participations(n_null, len(rows), rows.shape[1], rng)
            spread = Null("random vectors", draws, "less")
            nulls[f"participation_{name}"] = spread
            nulls[f"participation_ratio_{name}"] = spread
        first = vectors["prontoqa"]
        control = vectors["control"]
        draws = np.full(n_null, np.nan)
        if len(control) > 1:
            swap = rng.random((n_null, len(first))) < 0.5
            draws = _swapped(first, control, ~swap) - _swapped(first, control, swap)
        swapped = Null("PrOntoQA tokens swapped with their matches", draws, "less")
        return {**nulls, "participation_difference": swapped}

    return Measurement(values, draw_nulls, arrays)


def _swapped(
    first: Embeddings, control: Embeddings, take: Bool[np.ndarray, "draw token"]
) -> Float[np.ndarray, " draw"]:
    """Participation of drawn vectors of ``first``, and of the matches of those not drawn."""
    n = len(first)
    joined = np.concatenate([first, control])
    gram = joined @ joined.T
    result = []
    for taken in take:
        rows = np.arange(n) + n * ~taken
        result.append(float(gram_participations(gram[None, rows][:, :, rows])[0]))
    return np.array(result)


@checked
@single_threaded
def next_token(
    model: ActivationSource,
    inputs: Inputs,
    *,
    counts: NamedCounts,
    lengths: Int[np.ndarray, " row"] | None = None,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """How well next-token distributions of typical tokens predict the geometry of embeddings.

    Values as in the module's table, and n_prontoqa, n_stories, the tokens of each list; a list of
    fewer than three tokens gives nan. ``n`` is the number of rows of text. Null: tokens permuted
    among neighbours in frequency. Arrays: tokens_prontoqa, tokens_stories, by descending count.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: training text, such as ``Inputs(text_data().train.tokens)``.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two
            corpora of yours by name, each with its ``[d_vocab]``. Their names stand in place of
            prontoqa and stories then.
        lengths: ``[row]``, how many tokens of each row are text, for rows that are filled up. By
            default all.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises TextError for counts of another shape or vocabulary, a corpus without tokens, and lengths
    of other rows.

    >>> from rb_interp import AnchorTask, build_model
    >>> counts = np.zeros((2, 200), dtype=int)
    >>> counts[0, :40], counts[1, 40:] = 50, 50
    >>> text = Inputs(np.random.default_rng(0).integers(0, 200, (50, 30)))
    >>> model = build_model(AnchorTask(), gamma=0.5)
    >>> abs(next_token(model, text, counts=counts, n_null=0).values["pearson_all"]) < 0.1
    True
    """
    check_rows(inputs, "next_token")
    tokens = inputs.tokens
    if lengths is None:
        lengths = np.full(len(tokens), tokens.shape[1])
    if len(lengths) != len(tokens):
        raise TextError(
            f"got {len(lengths)} lengths for {len(tokens)} rows of text; give one for each row."
        )

    def measure(source: ActivationSource) -> Measurement:
        totals = checked_counts(counts, len(model_of(source).W_E))
        token_lists = typical_tokens(totals)
        ids = np.concatenate([token_lists.prontoqa[:MOST], token_lists.stories[:MOST]])
        followers = successors(tokens, lengths, ids, totals.shape[1])
        known = np.flatnonzero(np.diff(followers.indptr))
        ids = ids[known]
        first = int(np.isin(ids, token_lists.prontoqa).sum())
        followers = followers[known]
        n = np.asarray(followers.sum(1))
        # P^s and u both sum to 1, so (P^s - u) . (P^s' - u) is P^s . P^s' - 1 / d_vocab
        labels = (followers @ followers.T).toarray() / n[:, None] / n - 1 / totals.shape[1]
        measurement = follow(labels, token_vectors(source, ids), first)
        arrays = {"tokens_prontoqa": ids[:first], "tokens_stories": ids[first:]}
        return measurement._replace(arrays=arrays, n=len(tokens))

    reading = read_model("next_token", model, measure, untrained, n_null, seed, NEXT_TOKEN_REASON)
    return with_corpus_names(reading, counts)


def follow(labels: Gram, vectors: Embeddings, first: int) -> Measurement:
    """The values of `next_token`, read from inner products of labels and from embeddings.

    Args:
        first: number of PrOntoQA's tokens, which stand before the stories'.
    """
    values = {}
    for name, _, x, y in _sides(labels, vectors, first):
        correlation = spearman if "spearman" in name else pearson
        values[name] = correlation(pairs(x), pairs(y))
    values["n_prontoqa"] = float(first)
    values["n_stories"] = float(len(vectors) - first)

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        orders = banded_orders(first, len(vectors), n_null, np.random.default_rng(seed))
        text = f"tokens permuted among {BAND} neighbours in frequency"
        nulls = {}
        for name, block, x, y in _sides(labels, vectors, first):
            if "spearman" in name:
                x = ranked_pairs(x)
                y = ranked_pairs(y)
            block_orders = orders[:, block] - (block.start or 0)
            nulls[name] = Null(text, permuted_correlations(x, y, block_orders))
        return nulls

    return Measurement(values, draw_nulls)


def successors(
    tokens: Integer[np.ndarray, "row pos"],
    lengths: Int[np.ndarray, " row"],
    ids: Int[np.ndarray, " token"],
    d_vocab: int,
) -> csr_array:
    """How often each of the tokens ``ids`` is followed by each token in the text of each row."""
    from scipy.sparse import coo_array

    number = np.full(d_vocab, -1)
    number[ids] = np.arange(len(ids))
    real = np.arange(1, tokens.shape[1]) < np.asarray(lengths)[:, None]
    before = number[tokens[:, :-1][real]]
    after = tokens[:, 1:][real].astype(np.int64)
    has_token = before >= 0
    ones = np.ones(int(has_token.sum()))
    entries = ones, (before[has_token], after[has_token])
    return coo_array(entries, shape=(len(ids), d_vocab)).tocsr()


def banded_orders(
    n_first: int, n: int, n_null: int, rng: np.random.Generator, band: int = BAND
) -> Int[np.ndarray, "draw token"]:
    """Permutations that move tokens among ``band`` neighbours of their own list.

    The first list is ``n_first`` long.
    """
    tokens = np.arange(n)
    bands = np.where(tokens < n_first, tokens // band, n + (tokens - n_first) // band)
    return np.argsort(bands + rng.random((n_null, n)), axis=1)


def permuted_correlations(
    x: Gram, y: Gram, orders: Int[np.ndarray, "draw token"]
) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation over pairs after permuting the tokens of x.

    nan for fewer than three tokens or no variance.
    """
    if len(x) < 3:
        return np.full(len(orders), np.nan)
    x = _standardised(x)
    y = _standardised(y)
    return np.array([(x[order][:, order] * y).sum() / 2 for order in orders])


def _standardised(matrix: Gram) -> Gram:
    """Less the mean of its pairs, divided by their norm; 0 on the diagonal."""
    upper = pairs(matrix)
    centred = matrix - upper.mean()
    np.fill_diagonal(centred, 0)
    norm = np.linalg.norm(upper - upper.mean())
    return centred / (norm if norm > 0 else np.nan)


def _sides(
    labels: Gram, vectors: Embeddings, first: int
) -> Iterator[tuple[str, slice, Gram, Gram]]:
    """Each correlation's name, the slice of its list, and cosines of labels and of embeddings.

    The cosines are raw or centred.
    """
    blocks = {"prontoqa": slice(0, first), "stories": slice(first, None), "all": slice(None)}
    for name, block in blocks.items():
        products = labels[block, block]
        rows = vectors[block]
        n = max(len(rows), 1)
        raw = _gram_cosines(products), cosines(rows)
        row_means = products.sum(0) / n
        column_means = products.sum(1, keepdims=True) / n
        products = products - row_means - column_means + products.sum() / n**2
        centred = _gram_cosines(products), cosines(rows - rows.sum(0) / n)
        yield f"spearman_{name}", block, *raw
        yield f"pearson_{name}", block, *raw
        yield f"spearman_centred_{name}", block, *centred


def _gram_cosines(products: Gram) -> Gram:
    """Cosines from inner products, rounded so that equal ones tie.

    Many tokens have one successor.
    """
    squares = np.diag(products)
    norms = np.sqrt(np.where(squares > 0, squares, np.nan))
    return (products / norms[:, None] / norms).round(TIES)
