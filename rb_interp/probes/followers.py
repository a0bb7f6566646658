r"""Do embeddings take the shape of what follows their tokens?  (paper 1, Prop. 1, Eqs. 5 to 8)

Under small initialisation an embedding first moves as dw_s / dt = r_s (P^s - u) W^(2)T W^(1)T (Eq. 5), P^s the labels'
distribution where s occurs, u = 1 / d_vocab. In next-token prediction s has a label at each of its occurrences; what it
alone decides is the token after it, so here

    P^s_i = share of the occurrences of s in training text that token i follows

and over all pairs of the most frequent typical tokens s, s' (``token_typing``, at most 200 of each corpus) of the list
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

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, Integer

from rb_interp.errors import TextError
from rb_interp.probes.check import check_inputs, undefined
from rb_interp.probes.source import Source
from rb_interp.probes.token_typing import (
    NamedCounts,
    check_counts,
    counts_and_names,
    in_names,
    token_vectors,
    typical_tokens,
)
from rb_interp.probes.vectors import cosines, pairs, pearson, ranked_pairs, spearman
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.text.config import CORPORA
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST = 200
"""Typical tokens of each corpus, at most: the most frequent, whose P^s is known best."""
BAND = 10
"""The null permutes tokens among as many neighbours in frequency."""
GROUPS = (*CORPORA, "all")
KINDS = (("spearman", spearman, ""), ("pearson", pearson, ""), ("spearman", spearman, "_centred"))
TIES = 12
"""Decimals of a cosine of labels, so that equal ones tie in spite of rounding; many tokens have one successor."""
UNDEFINED = "the list has fewer than three tokens that are followed by another, or nothing varies among them."
"""Why a quantity is NaN."""
NULL = f"tokens permuted among {BAND} neighbours in frequency"

Gram = Float[np.ndarray, "token token"]


@typed
@few_threads
def next_token(
    model: Source,
    inputs: Inputs,
    *,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    counts: NamedCounts,
    lengths: Int[np.ndarray, " row"] | None = None,
) -> Reading:
    """How well the next-token distributions of typical tokens predict the geometry of their embeddings.

    Values as in the module's table, and n_prontoqa, n_stories, the tokens of each list; a list of fewer than three
    tokens gives nan. Null of every correlation: tokens permuted among neighbours in frequency. ``n`` is the number of
    rows of text. Arrays: tokens_prontoqa, tokens_stories, by descending count.

    Args:
        inputs: training text, such as ``Inputs(text_data().train.tokens)``.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two corpora of yours by
            name, each with its ``[d_vocab]``. Their names stand in place of prontoqa and stories then.
        lengths: ``[row]``, how many tokens of each row are text, where rows are filled up. By default all.

    Raises:
        TextError: for counts of another shape or vocabulary, a corpus without tokens, tokens beyond the counts, and
            lengths of other rows.
    """
    check_inputs(inputs, "next_token")
    counts, names = counts_and_names(counts)
    check_counts(counts, model, untrained, names)
    tokens = inputs.tokens
    if not tokens.size:
        raise TextError("next_token got no rows of text; give one or more.")
    lengths = np.full(len(tokens), tokens.shape[1]) if lengths is None else lengths
    if len(lengths) != len(tokens):
        raise TextError(f"got {len(lengths)} lengths for {len(tokens)} rows of text; give one for each row.")
    typical = typical_tokens(counts)
    ids = np.concatenate([typical.group(name)[:MOST] for name in CORPORA])
    followers = successors(tokens, lengths, ids, counts.shape[1])
    known = np.flatnonzero(np.diff(followers.indptr))
    ids, followers = ids[known], followers[known]
    first = int(np.isin(ids, typical.prontoqa).sum())
    where = {"prontoqa": slice(0, first), "stories": slice(first, None), "all": slice(None)}
    labels = label_products(followers, counts.shape[1])
    sizes = {"n_prontoqa": float(first), "n_stories": float(len(ids) - first)}
    values = {**_values(labels, token_vectors(model, ids), where), **sizes}
    before = {} if untrained is None else {**_values(labels, token_vectors(untrained, ids), where), **sizes}
    nulls = {}
    if n_null:
        orders = banded_orders(first, len(ids), n_null, np.random.default_rng(seed))
        nulls = _nulls(labels, token_vectors(model, ids), where, orders)
    arrays = {"tokens_prontoqa": ids[:first], "tokens_stories": ids[first:]}
    notes = undefined(values, model, UNDEFINED, before, untrained)
    return in_names(
        Reading("next_token", values, untrained=before, nulls=nulls, arrays=arrays, n=len(tokens), notes=notes), names
    )


def successors(
    tokens: Integer[np.ndarray, "row pos"],
    lengths: Int[np.ndarray, " row"],
    ids: Int[np.ndarray, " token"],
    d_vocab: int,
) -> csr_array:
    """How often each of the tokens ``ids`` is followed by each token, sparse ``[token, d_vocab]``.

    ``lengths`` says how many tokens of each row are real. Raises TextError for tokens beyond ``d_vocab``.

    >>> found = successors(np.array([[0, 1, 0, 2], [0, 1, 1, 1]]), np.array([4, 3]), np.array([0, 1]), 3)
    >>> found.toarray().astype(int).tolist()
    [[0, 2, 1], [1, 1, 0]]
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
    """Permutations that move tokens among ``band`` neighbours of their own list, the first list being ``n_first`` long.

    >>> banded_orders(2, 5, 1, np.random.default_rng(0), band=1).tolist()
    [[0, 1, 2, 3, 4]]
    """
    at = np.arange(n)
    bands = np.where(at < n_first, at // band, n + (at - n_first) // band)
    return np.argsort(bands + rng.random((n_null, n)), axis=1)


def permuted_correlations(x: Gram, y: Gram, orders: Int[np.ndarray, "draw token"]) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation over pairs of tokens after permuting the tokens of x; nan where one side does not vary.

    >>> x = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
    >>> permuted_correlations(x, x, np.array([[0, 1, 2], [2, 1, 0]])).round(2).tolist()
    [1.0, -0.29]
    """
    x, y = _standardised(x), _standardised(y)
    return np.array([(x[order][:, order] * y).sum() / 2 for order in orders])


def _standardised(matrix: Gram) -> Gram:
    """Entries off the diagonal less their mean, over the norm of those above it; zeros on the diagonal."""
    upper = pairs(matrix)
    centred = matrix - upper.mean()
    np.fill_diagonal(centred, 0)
    norm = np.linalg.norm(upper - upper.mean())
    return centred / (norm if norm > 0 else np.nan)


def _sides(labels: Gram, vectors: Float[np.ndarray, "token d_model"]) -> dict[str, tuple[Gram, Gram]]:
    """Cosines of labels and of embeddings of one list, raw and less their means; none for fewer than three tokens."""
    if len(vectors) < 3:
        return {}
    centred = labels - labels.mean(0) - labels.mean(1, keepdims=True) + labels.mean()
    return {
        "": (_gram_cosines(labels), cosines(vectors)),
        "_centred": (_gram_cosines(centred), cosines(vectors - vectors.mean(0))),
    }


def _gram_cosines(products: Gram) -> Gram:
    norms = np.sqrt(np.where(np.diag(products) > 0, np.diag(products), np.nan))
    return (products / norms[:, None] / norms).round(TIES)


def _values(labels: Gram, vectors: Float[np.ndarray, "token d_model"], where: dict[str, slice]) -> dict[str, float]:
    values = {}
    for name in GROUPS:
        sides = _sides(labels[where[name], where[name]], vectors[where[name]])
        for kind, correlation, ending in KINDS:
            x, y = sides.get(ending, (None, None))
            found = np.nan if x is None or y is None else correlation(pairs(x), pairs(y))
            values[f"{kind}{ending}_{name}"] = float(found)
    return values


def _nulls(
    labels: Gram,
    vectors: Float[np.ndarray, "token d_model"],
    where: dict[str, slice],
    orders: Int[np.ndarray, "draw token"],
) -> dict[str, Null]:
    nulls = {}
    for name in GROUPS:
        block = where[name]
        sides = _sides(labels[block, block], vectors[block])
        within = orders[:, block] - (block.start or 0)
        for kind, correlation, ending in KINDS:
            draws = np.full(len(orders), np.nan)
            if ending in sides:
                x, y = (ranked_pairs(side) if correlation is spearman else side for side in sides[ending])
                draws = permuted_correlations(x, y, within)
            nulls[f"{kind}{ending}_{name}"] = Null(NULL, draws)
    return nulls
