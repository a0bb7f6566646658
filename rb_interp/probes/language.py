r"""Models of language: how many directions embeddings use, whether they follow the next token, and
chains of thought.

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

`chain_accuracy` (paper 2, Fig. 7; chance 50 %): does a model answer PrOntoQA's questions, and does
it write the chain? Each example is read once with its gold text, "Q: .. A: " + chain + answer,
after the end-of-text token that precedes every document. With x_t the gold token at position t and
arg max taken over the whole vocabulary given x_<t:

    answer           share of examples whose answer's first token is the arg max                       [0, 1]
    answer_two_way   the same between the first tokens of "True" and "False" alone; chance .5          [0, 1]
    premise, rule, conclusion    share of sentences of that kind all of whose tokens are the arg max   [0, 1]
    step             the same over all sentences of the chains                                         [0, 1]
    chain            share of examples all of whose sentences are right, which is what greedy decoding
                     from the question would write: a prefix of arg maxes is the gold prefix           [0, 1]
    loss_question, loss_chain, loss_answer    mean loss of the tokens of that part, nats a token             >= 0

Most tokens of an example are its context, whose rules are drawn at random: reasoning lowers
loss_chain alone.

How it can mislead. A model that follows the rules reads 1 everywhere. One that knows the templates
alone is right on most *tokens* of a chain and on no ``chain``: ``premise`` is a copy of the
context's last sentence and ``conclusion`` the second half of the rule just written, so induction
gets both. ``rule`` needs a choice between two rules of the context; one that always walks up the
hierarchy reads (h - 1) / h on ``rule`` at h hops and 0 on ``chain``. An *untrained* model reads 0,
and for answer_two_way about .5, as does one that always says "True": read the p-value. With the
gold chain in view the answer is a comparison of two sentences; ``chain`` is the honest number. It
falls with the hops, so compare equal hops. Examples longer than the context are left out, the ones
of many hops: see left_out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes import vectors as of_vectors
from rb_interp.probes._probe import Found, embedding, probe, source
from rb_interp.probes.activations import float64, logits_of
from rb_interp.probes.embeddings import TIES
from rb_interp.probes.tokens import MIN_COUNT, NamedCounts, Vectors, checked_counts, typical_tokens
from rb_interp.probes.vectors import (
    cosines,
    pairs,
    participation,
    pearson,
    principal_components,
    spearman,
)
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs
from rb_interp.text.prontoqa import Example
from rb_interp.text.settings import CORPORA

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
KINDS = ("premise", "rule", "conclusion")
PARTS = ("question", "chain", "answer")
"""Parts of an example whose losses are read."""
TOGETHER = 16
"""Examples of one pass: more fill the memory with logits and gain nothing."""
Gram = Float[np.ndarray, "token token"]


@probe(embedding, UNDEFINED, place={})
def embedding_rank(W_E: Tensor, *, counts: NamedCounts) -> Found:
    """Effective dimension of the embeddings of each list of tokens.

    Values as in the module's table; a list of fewer than two tokens gives nan. Nulls, side less:
    independent Gaussian vectors, matched tokens swapped (participation_difference). Arrays:
    spectrum_prontoqa and so on, each component's share of the variance.

    Raises TextError for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    totals, words = checked_counts(counts, len(W_E))
    typical = typical_tokens(totals)
    ids = {name: getattr(typical, name) for name in ("prontoqa", "stories", "control")}
    ids["all"] = np.flatnonzero(totals.sum(0) >= MIN_COUNT)
    vectors = {name: float64(W_E[tokens]) for name, tokens in ids.items()}
    shares, values = {name: principal_components(rows)[1] for name, rows in vectors.items()}, {}
    for name, share in shares.items():
        values[f"participation_{name}"] = participation(vectors[name])
        values[f"participation_ratio_{name}"] = math.nan
        values |= {
            f"share_{k}_{name}": float(share[:k].sum()) if share.any() else math.nan
            for k in LEADING
        }
    values["participation_difference"] = (
        values["participation_prontoqa"] - values["participation_control"]
    )

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng, drawn = np.random.default_rng(seed), {}
        for name, rows in vectors.items():
            draws = of_vectors.gaussian_participations(n_null, len(rows), rows.shape[1], rng)
            spread = Null("random vectors", draws, "less")
            drawn |= {f"participation_{name}": spread, f"participation_ratio_{name}": spread}
        first, control = vectors["prontoqa"], vectors["control"]
        draws = np.full(n_null, np.nan)
        if len(control) > 1:
            swap = rng.random((n_null, len(first))) < 0.5
            draws = _swapped(first, control, ~swap) - _swapped(first, control, swap)
        said = "PrOntoQA tokens swapped with their matches"
        return drawn | {"participation_difference": Null(said, draws, "less")}

    return Found(
        values, nulls, {f"spectrum_{name}": share for name, share in shares.items()}, words=words
    )


def _swapped(
    first: Vectors, control: Vectors, take: Bool[np.ndarray, "draw token"]
) -> Float[np.ndarray, " draw"]:
    """Participation of the vectors that each draw takes of ``first``, the others being their
    matches."""
    both, n = np.concatenate([first, control]), len(first)
    gram, places = both @ both.T, np.arange(n) + n * ~take
    return np.array(
        [float(of_vectors.gram_participations(gram[None, at][:, :, at])[0]) for at in places]
    )


@probe(
    embedding,
    "the list has fewer than three tokens with a successor, or nothing varies among them.",
    place={},
)
def next_token(
    W_E: Tensor,
    inputs: Inputs,
    *,
    counts: NamedCounts,
    lengths: Int[np.ndarray, " row"] | None = None,
) -> Found:
    """How well the next-token distributions of typical tokens predict the geometry of their
    embeddings.

    Values as in the module's table, and n_prontoqa, n_stories, the tokens of each list; a list of
    fewer than three tokens gives nan. ``n`` is the number of rows of text. Arrays: tokens_prontoqa,
    tokens_stories, by descending count.

    Args:
        inputs: training text, such as ``Inputs(text_data().train.tokens)``.
        lengths: ``[row]``, how many tokens of each row are text, where rows are filled up. By
            default all.

    Raises TextError for counts of another shape or vocabulary, a corpus without tokens, and lengths
    of other rows.
    """
    totals, words = checked_counts(counts, len(W_E))
    tokens = inputs.tokens
    lengths = np.full(len(tokens), tokens.shape[1]) if lengths is None else lengths
    if len(lengths) != len(tokens):
        raise TextError(
            f"got {len(lengths)} lengths for {len(tokens)} rows of text; give one for each row."
        )
    typical = typical_tokens(totals)
    ids = np.concatenate([getattr(typical, name)[:MOST] for name in CORPORA])
    followers = successors(tokens, lengths, ids, totals.shape[1])
    known = np.flatnonzero(np.diff(followers.indptr))
    ids, followers = ids[known], followers[known]
    each = np.asarray(followers.sum(1))
    # P^s and u both sum to 1, so (P^s - u) . (P^s' - u) = P^s . P^s' - 1 / d_vocab
    labels = (followers @ followers.T).toarray() / each[:, None] / each - 1 / totals.shape[1]
    first, vectors = int(np.isin(ids, typical.prontoqa).sum()), float64(W_E[ids])
    values = {}
    for name, _, x, y in _sides(labels, vectors, first):
        values[name] = (spearman if "spearman" in name else pearson)(pairs(x), pairs(y))

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        orders, drawn = banded_orders(first, len(ids), n_null, np.random.default_rng(seed)), {}
        for name, block, x, y in _sides(labels, vectors, first):
            x, y = map(of_vectors.ranked_pairs, (x, y)) if "spearman" in name else (x, y)
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
    """How often each of the tokens ``ids`` is followed by each token, in as much of each row as is
    real."""
    from scipy.sparse import coo_array

    place = np.full(d_vocab, -1)
    place[ids] = np.arange(len(ids))
    real = np.arange(1, tokens.shape[1]) < np.asarray(lengths)[:, None]
    at, following = place[tokens[:, :-1][real]], tokens[:, 1:][real].astype(np.int64)
    wanted = at >= 0
    entries = (np.ones(int(wanted.sum())), (at[wanted], following[wanted]))
    return coo_array(entries, shape=(len(ids), d_vocab)).tocsr()


def banded_orders(
    n_first: int, n: int, n_null: int, rng: np.random.Generator, band: int = BAND
) -> Int[np.ndarray, "draw token"]:
    """Permutations that move tokens among ``band`` neighbours of their own list, the first being
    ``n_first`` long."""
    at = np.arange(n)
    bands = np.where(at < n_first, at // band, n + (at - n_first) // band)
    return np.argsort(bands + rng.random((n_null, n)), axis=1)


def permuted_correlations(
    x: Gram, y: Gram, orders: Int[np.ndarray, "draw token"]
) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation over pairs after permuting the tokens of x; nan for fewer than three or
    no variance."""
    if len(x) < 3:
        return np.full(len(orders), np.nan)

    def standardised(matrix: Gram) -> Gram:
        upper = pairs(matrix)
        centred = matrix - upper.mean()
        np.fill_diagonal(centred, 0)
        norm = np.linalg.norm(upper - upper.mean())
        return centred / (norm if norm > 0 else np.nan)

    x, y = standardised(x), standardised(y)
    return np.array([(x[order][:, order] * y).sum() / 2 for order in orders])


def _sides(labels: Gram, vectors: Vectors, first: int) -> Iterator[tuple[str, slice, Gram, Gram]]:
    """Each correlation's name, the place of its list, and cosines of labels and embeddings, raw or
    less their means."""
    for name, block in (
        ("prontoqa", slice(0, first)),
        ("stories", slice(first, None)),
        ("all", slice(None)),
    ):
        own, rows = labels[block, block], vectors[block]
        raw, n = (_gram_cosines(own), cosines(rows)), max(len(rows), 1)
        own = own - own.sum(0) / n - own.sum(1, keepdims=True) / n + own.sum() / n**2
        centred = _gram_cosines(own), cosines(rows - rows.sum(0) / n)
        for kind, (x, y) in (("spearman", raw), ("pearson", raw), ("spearman_centred", centred)):
            yield f"{kind}_{name}", block, x, y


def _gram_cosines(products: Gram) -> Gram:
    """Cosines from inner products; rounded, so that equal ones tie: many tokens have one
    successor."""
    norms = np.sqrt(np.where(np.diag(products) > 0, np.diag(products), np.nan))
    return (products / norms[:, None] / norms).round(TIES)


@dataclass(frozen=True, eq=False)
class Encoded:
    """One example in tokens.

    Attributes:
        tokens: the end-of-text token, then the example.
        sentences: first and last position (exclusive) of each sentence of the chain in ``tokens``.
        kinds: premise, rule or conclusion for each sentence. answer: where the answer begins. true:
            whether it is True.
    """

    tokens: Int[np.ndarray, " pos"]
    sentences: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]
    answer: int
    true: bool
    hops: int


@dataclass(frozen=True, eq=False, repr=False)
class ChainInputs(Inputs):
    """Examples in tokens, made by `chain_inputs`: rows are filled up with 0 behind their end.

    Attributes:
        labels: first token of each answer.
        examples: each example, and where the sentences of its chain stand.
        words: first tokens of "True" and "False".
    """

    examples: tuple[Encoded, ...] = ()
    words: tuple[int, int] = (0, 1)

    def take(self, rows: np.ndarray) -> ChainInputs:
        """A selection of examples, by indices or a boolean mask."""
        chosen = tuple(self.examples[row] for row in np.arange(len(self))[rows])
        return replace(
            self, tokens=self.tokens[rows], labels=super().take(rows).labels, examples=chosen
        )


class Outcome(NamedTuple):
    """What a model got right on one example.

    Attributes:
        right: answer, sentence or chain -> whether each of that kind is right.
        losses: summed losses (nats) of each of PARTS, and numbers of tokens, ``[part, 2]``.
    """

    example: Encoded
    right: dict[str, list[bool]]
    losses: Float[np.ndarray, "part 2"]


@checked
def chain_inputs(examples: Sequence[Example], tokenizer: Any) -> ChainInputs:
    """Examples in tokens, for `chain_accuracy`.

    Args:
        examples: such as ``text_data().examples``.
        tokenizer: has ``encode(text)``, a list of token ids, and ``end``, the id of the end-of-text
            token.

    Raises TextError where the tokenizer joins the end of one sentence with the next, or where its
    first tokens of "True" and "False" are the same.
    """
    from rb_interp.text.prontoqa import step_kinds

    true, false = (int(tokenizer.encode(word)[0]) for word in (" True", " False"))
    if true == false:
        raise TextError(
            f"'True' and 'False' begin with the same token ({true}) in this tokenizer, so that no "
            f"token decides "
            f"between them; use a larger d_vocab."
        )
    encoded = []
    for example in examples:
        parts = [
            example.prompt,
            *(f" {sentence}" for sentence in example.chain_of_thought),
            f" {example.answer}",
        ]
        pieces = [tokenizer.encode(part) for part in parts]
        joined = [token for piece in pieces for token in piece]
        if joined != list(tokenizer.encode(example.text)):
            raise TextError(
                f"this tokenizer joins the end of one sentence with the next in "
                f"{example.text[-40:]!r}, so no sentence "
                f"can be judged alone; use one that splits before spaces, as GPT-2's does."
            )
        ends = (1 + np.cumsum([len(piece) for piece in pieces])).tolist()
        tokens = np.array([tokenizer.end, *joined], dtype=np.int64)
        places = tuple(pairwise(ends[:-1]))
        is_true = example.answer == "True"
        encoded.append(
            Encoded(tokens, places, step_kinds(example), ends[-2], is_true, example.hops)
        )
    labels = np.array([one.tokens[one.answer] for one in encoded], dtype=np.int64)
    return ChainInputs(_padded(encoded), labels, examples=tuple(encoded), words=(true, false))


def _padded(examples: Sequence[Encoded]) -> Int[np.ndarray, "row pos"]:
    """All examples as rows, filled up behind their end, where a causal model does not look."""
    rows = np.zeros(
        (len(examples), max([len(one.tokens) for one in examples], default=1)), dtype=np.int64
    )
    for row, one in zip(rows, examples, strict=True):
        row[: len(one.tokens)] = one.tokens
    return rows


@probe(source, "no example that fits into the context has such a sentence.", name="chain", place={})
def chain_accuracy(model: ActivationSource, inputs: ChainInputs) -> Found:
    """How often a model answers PrOntoQA's questions and writes each sentence of the chain, and the
    same by hops.

    Values as in the module's table, and left_out, the examples longer than the context. Null of
    answer_two_way: answers permuted over examples. ``n`` counts the examples that were read. The
    table ``skills`` has the columns hops, accuracy_of (a value's name), accuracy and n, the
    examples or sentences of that number of hops.

    Args:
        inputs: ``chain_inputs(examples, tokenizer)``.

    Raises TextError where no example fits into the context.
    """
    outcomes = chain_outcomes(model, inputs)
    values = {
        name: float(np.mean(right)) if right else math.nan
        for name, right in _by_kind(outcomes).items()
    }
    losses, tokens = np.sum([one.losses for one in outcomes], 0).T
    values |= {
        f"loss_{part}": float(mean) for part, mean in zip(PARTS, losses / tokens, strict=True)
    }
    values["left_out"] = float(len(inputs.examples) - len(outcomes))

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        true = np.array([one.example.true for one in outcomes])
        says = true == [right for one in outcomes for right in one.right["answer_two_way"]]
        permuted = np.random.default_rng(seed).permuted(np.tile(true, (n_null, 1)), axis=1)
        return {
            "answer_two_way": Null("answers permuted over examples", (permuted == says).mean(1))
        }

    def tables(_: int) -> dict[str, pd.DataFrame]:
        rows = []
        for hops in sorted({one.example.hops for one in outcomes}):
            for name, right in _by_kind(
                [one for one in outcomes if one.example.hops == hops]
            ).items():
                if right:
                    accuracy = float(np.mean(right))
                    rows.append(
                        {"hops": hops, "accuracy_of": name, "accuracy": accuracy, "n": len(right)}
                    )
        return {"skills": pd.DataFrame(rows)}

    return Found(values, nulls, n=len(outcomes), tables=tables)


def chain_outcomes(model: ActivationSource, inputs: ChainInputs) -> list[Outcome]:
    """Run the examples that fit into the context, each with its gold text, and judge every sentence
    and the answer."""
    lengths, n_ctx = (
        np.array([len(one.tokens) - 1 for one in inputs.examples]),
        model_of(model).cfg.n_ctx,
    )
    if not (lengths <= n_ctx).any():
        raise TextError(
            f"none of {len(lengths)} examples fits into this model's context of {n_ctx} tokens "
            f"(the shortest has "
            f"{min(lengths, default=0)} tokens); give examples of fewer hops or a model of a "
            f"longer context."
        )
    order = [at for at in np.argsort(lengths, kind="stable").tolist() if lengths[at] <= n_ctx]
    outcomes = {}
    for start in range(0, len(order), TOGETHER):  # of like length, so that little is filled up
        places = order[start : start + TOGETHER]
        rows = torch.from_numpy(_padded([inputs.examples[at] for at in places]))
        gold = rows[:, 1:]
        given = getattr(model_of(model), "arrays", {}).get("logits")  # arrays hold all rows
        logits = logits_of(model, rows[:, :-1]) if given is None else given[places, : gold.shape[1]]
        right = (
            logits.argmax(-1) == gold
        ).numpy()  # at t, the token of position t + 1; losses likewise
        losses = F.cross_entropy(logits.float().swapaxes(1, 2), gold, reduction="none").double()
        for row, at in enumerate(places):
            one = inputs.examples[at]
            true, false = logits[row, one.answer - 1, list(inputs.words)].tolist()
            steps = [bool(right[row, first - 1 : last - 1].all()) for first, last in one.sentences]
            told = {
                "answer": [bool(right[row, one.answer - 1])],
                "answer_two_way": [(true > false) == one.true],
            }
            told |= {"chain": [all(steps)], "step": steps}
            for kind in KINDS:
                told[kind] = [step for step, of in zip(steps, one.kinds, strict=True) if of == kind]
            parts = losses[row, : len(one.tokens) - 1].tensor_split(
                [one.sentences[0][0] - 1, one.answer - 1]
            )
            outcomes[at] = Outcome(
                one, told, np.array([[float(part.sum()), len(part)] for part in parts])
            )
    return [outcomes[at] for at in sorted(outcomes)]


def _by_kind(outcomes: Sequence[Outcome]) -> dict[str, list[bool]]:
    return {
        name: [right for one in outcomes for right in one.right[name]] for name in outcomes[0].right
    }
