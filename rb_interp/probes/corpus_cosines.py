r"""Are the tokens of the reasoning corpus told apart before those of the stories?  (paper 1, Fig. 7B)

With w_s the rows of W_E and the typical tokens of ``token_typing``:

    cos_prontoqa, cos_stories, cos_control    mean of cos(w_s, w_t) over distinct s, t of the list       [-1, 1]
    difference             cos_prontoqa - cos_stories        below 0: PrOntoQA's are more distinct       [-2, 2]
    difference_control     cos_prontoqa - cos_control        the stories' tokens matched to PrOntoQA's   [-2, 2]
    difference_counterpart cos_counterpart - cos_in_range    PrOntoQA's tokens matched to the stories'   [-2, 2]
    *_centred              the same of w_s - (mean over PrOntoQA's + mean over the stories') / 2

cos_counterpart is the mean of w_s' w_t' cos over pairs of distinct PrOntoQA tokens, where w' counts the stories' tokens
that a token is matched to. Intervals over tokens: ``token_cosines``.

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
"""

from __future__ import annotations

import numpy as np

from rb_interp.probes.check import undefined
from rb_interp.probes.source import Source
from rb_interp.probes.token_cosines import (
    Vectors,
    control_places,
    cosines_by_group,
    group_weights,
    token_intervals,
)
from rb_interp.probes.token_typing import (
    Counts,
    NamedCounts,
    Typical,
    check_counts,
    counts_and_names,
    in_names,
    token_vectors,
    typical_tokens,
)
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

SHOWN = 60
"""Tokens of each list in the cosine matrices, the most frequent ones."""
GROUPS = ("prontoqa", "stories", "control")
UNDEFINED = "a list has fewer than two tokens or no matched ones, or its embeddings are zero."
"""Why a quantity is NaN."""


@typed
@few_threads
def token_similarity(
    model: Source,
    inputs: Inputs | None = None,
    *,
    untrained: Source | None = None,
    n_null: int = 200,
    n_draws: int = 500,
    seed: int = 0,
    counts: NamedCounts,
) -> Reading:
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
        inputs: not looked at, since the probe reads the embedding alone.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, n_draws: draws of each null, and of the bootstrap over tokens; 0 for none.
        seed: seed of the draws.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two corpora of yours by
            name, each with its ``[d_vocab]``. Their names stand in place of prontoqa and stories then.

    Raises:
        TextError: for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    counts, names = counts_and_names(counts)
    check_counts(counts, model, untrained, names)
    typical = typical_tokens(counts)
    used = np.concatenate([typical.prontoqa, typical.stories])
    vectors = token_vectors(model, used)
    sizes = _sizes(typical)
    before = {} if untrained is None else {**similarity_values(token_vectors(untrained, used), typical), **sizes}
    nulls = similarity_nulls(vectors, typical, n_null, np.random.default_rng(seed)) if n_null else {}
    tables = {"token_intervals": token_intervals(vectors, typical, n_draws, np.random.default_rng(seed))}
    arrays = _matrices(model, counts, typical)
    values = {**similarity_values(vectors, typical), **sizes}
    tables = tables if n_draws else {}
    notes = undefined(values, model, UNDEFINED, before, untrained)
    return in_names(
        Reading("token_similarity", values, untrained=before, nulls=nulls, arrays=arrays, tables=tables, notes=notes),
        names,
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
    swap[:, control_places(typical)] = swap[:, : control.sum()]
    first, control = first ^ swap, control ^ swap
    swapped = cosines_by_group(vectors, {"prontoqa": first, "stories": ~first, "control": control})
    labels = cosines_by_group(vectors, {"prontoqa": permuted, "stories": ~permuted})
    nulls = {
        name: Null("corpus labels permuted among typical tokens", labels[name], "less")
        for name in ("difference", "difference_centred")
    }
    for name in ("difference_control", "difference_control_centred"):
        nulls[name] = Null("PrOntoQA tokens swapped with their matches", swapped[name], "less")
    return nulls


def _sizes(typical: Typical) -> dict[str, float]:
    weights = np.bincount(typical.counterpart)
    return {
        "n_prontoqa": float(len(typical.prontoqa)),
        "n_stories": float(len(typical.stories)),
        "control_mismatch": typical.mismatch,
        "n_in_range": float(len(typical.in_range)),
        "n_counterpart": float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0,
        "counterpart_mismatch": typical.counterpart_mismatch,
    }


def _matrices(model: Source, counts: Counts, typical: Typical) -> dict[str, np.ndarray]:
    arrays = {}
    for name in GROUPS:
        ids = typical.group(name)
        shown = ids[np.argsort(-counts[int(name != "prontoqa"), ids].astype(np.int64), kind="stable")][:SHOWN]
        arrays |= {f"tokens_{name}": shown, f"cos_{name}_matrix": cosines(token_vectors(model, shown))}
    return arrays
