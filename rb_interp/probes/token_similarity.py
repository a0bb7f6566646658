r"""Are the tokens of the reasoning corpus told apart before those of the stories?  (paper 1, Fig. 7B)

With w_s the rows of W_E and the typical tokens of ``token_typing``:

    cos_prontoqa, cos_stories, cos_control    mean of cos(w_s, w_t) over distinct s, t of the list       [-1, 1]
    difference             cos_prontoqa - cos_stories        below 0: PrOntoQA's are more distinct       [-2, 2]
    difference_control     cos_prontoqa - cos_control        the same among tokens of equal frequency    [-2, 2]
    *_centred              the same of w_s - (mean over PrOntoQA's + mean over the stories') / 2

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
labels: it asks only whether lists as different arise by chance. difference_control rules it out where control_mismatch
is small. It has its own null: each token swaps with its match or not. Raw cosines near 1 follow from a shared mean.
Read the centred ones too; they lose a difference that lies in the shared mean alone. Most typical tokens of the stories
are rare, and a token that hardly moved is still orthogonal to all others. Then their mean cosine reads 0 and difference
lies above 0, because training was short. Which evaluation is early depends on how often one evaluates: the pooled loss
falls by a fifth in the first dozen steps.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.token_typing import Counts, Typical, check_counts, token_vectors, typical_tokens
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads

SHOWN = 60
"""Tokens of each list in the cosine matrices, the most frequent ones."""
GROUPS = ("prontoqa", "stories", "control")

Vectors = Float[np.ndarray, "token d_model"]
Members = Bool[np.ndarray, "draw token"]


@few_threads
def token_similarity(
    model: HookedModel,
    inputs: Inputs | None = None,
    *,
    untrained: HookedModel | None = None,
    n_null: int = 200,
    seed: int = 0,
    counts: Counts,
) -> Reading:
    """Mean cosines of the embeddings of typical tokens, by corpus and for a frequency-matched control.

    Values as in the module's table, and n_prontoqa, n_stories, control_mismatch (mean |ln ratio| of matched counts).
    A list of fewer than two tokens gives nan, a missing control (fewer typical tokens in the stories than in PrOntoQA)
    too. Nulls, side less: corpus labels permuted among typical tokens (difference, difference_centred); PrOntoQA's
    tokens swapped with their matches, each or not (difference_control, difference_control_centred). Arrays:
    cos_prontoqa_matrix, cos_stories_matrix, cos_control_matrix (raw, the SHOWN most frequent, in descending order of
    their count in their own corpus) and tokens_prontoqa, tokens_stories, tokens_control, the ids of their rows.

    Args:
        inputs: not looked at, since the probe reads the embedding alone.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first.

    Raises:
        TextError: for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    check_counts(counts, model, untrained)
    typical = typical_tokens(counts)
    used = np.concatenate([typical.prontoqa, typical.stories])
    vectors = token_vectors(model, used)
    sizes = {
        "n_prontoqa": float(len(typical.prontoqa)),
        "n_stories": float(len(typical.stories)),
        "control_mismatch": typical.mismatch,
    }
    before = {} if untrained is None else {**similarity_values(token_vectors(untrained, used), typical), **sizes}
    nulls = similarity_nulls(vectors, typical, n_null, np.random.default_rng(seed)) if n_null else {}
    arrays = _matrices(model, counts, typical)
    values = {**similarity_values(vectors, typical), **sizes}
    return Reading("token_similarity", values, untrained=before, nulls=nulls, arrays=arrays)


def similarity_values(vectors: Vectors, typical: Typical) -> dict[str, float]:
    """Every cosine and difference of the module's table; ``vectors`` are those of ``prontoqa``, then of ``stories``."""
    first, control = memberships(typical)
    return {name: float(draws[0]) for name, draws in _cosines_by_group(vectors, first, control).items()}


def similarity_nulls(vectors: Vectors, typical: Typical, n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    """Nulls of the four differences; those with the control are nan where it is missing."""
    n_first, n = len(typical.prontoqa), len(vectors)
    permuted = permutations(n_null, n, rng) < n_first
    first, control = memberships(typical)
    swap = np.zeros((n_null, n), dtype=bool)
    swap[:, :n_first] = rng.random((n_null, n_first)) < 0.5
    swap[:, control_places(typical)] = swap[:, : control.sum()]
    swapped = _cosines_by_group(vectors, first ^ swap, control ^ swap)
    labels = _cosines_by_group(vectors, permuted, np.zeros_like(permuted))
    nulls = {
        name: Null("corpus labels permuted among typical tokens", labels[name], "less")
        for name in ("difference", "difference_centred")
    }
    for name in ("difference_control", "difference_control_centred"):
        nulls[name] = Null("PrOntoQA tokens swapped with their matches", swapped[name], "less")
    return nulls


def memberships(typical: Typical) -> tuple[Members, Members]:
    """Which of the typical tokens are PrOntoQA's, and which the control: one draw each."""
    n_first = len(typical.prontoqa)
    members = np.zeros((2, n_first + len(typical.stories)), dtype=bool)
    members[0, :n_first] = True
    members[1, control_places(typical)] = True
    return members[:1], members[1:]


def control_places(typical: Typical) -> np.ndarray:
    """Where each control token stands among PrOntoQA's and then the stories' typical tokens."""
    place = {token: at for at, token in enumerate(typical.stories.tolist(), start=len(typical.prontoqa))}
    return np.array([place[token] for token in typical.control.tolist()], dtype=np.int64)


def mean_cosines(
    vectors: Vectors, members: Members, centre: Float[np.ndarray, "draw d_model"]
) -> Float[np.ndarray, " draw"]:
    """Mean cosine over distinct members of each draw, seen from its centre, in [-1, 1]; nan for fewer than two.

    Unit vectors u_i of n members have the mean (|sum u_i|^2 - n) / (n(n - 1)), so no matrix of cosines is made.

    >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> mean_cosines(vectors, np.array([[True, True, True]]), np.zeros((1, 2))).round(6).tolist()
    [0.333333]
    """
    squared = (vectors**2).sum(1) - 2 * centre @ vectors.T + (centre**2).sum(1, keepdims=True)
    norms = np.sqrt(np.where(squared > 0, squared, np.nan))
    weights = np.where(members, 1 / norms, 0.0)
    total = weights @ vectors - weights.sum(1, keepdims=True) * centre
    n = members.sum(1)
    return ((total**2).sum(1) - n) / np.where(n > 1, n * (n - 1.0), np.nan)


def _cosines_by_group(vectors: Vectors, first: Members, control: Members) -> dict[str, Float[np.ndarray, " draw"]]:
    """Quantity -> one number per draw; what is not in ``first`` belongs to the stories."""
    groups, found = dict(zip(GROUPS, (first, ~first, control), strict=True)), {}
    middle = (_means(vectors, first) + _means(vectors, ~first)) / 2
    for ending, centre in (("", np.zeros_like(middle)), ("_centred", middle)):
        for name, members in groups.items():
            found[f"cos_{name}{ending}"] = mean_cosines(vectors, members, centre)
        found[f"difference{ending}"] = found[f"cos_prontoqa{ending}"] - found[f"cos_stories{ending}"]
        found[f"difference_control{ending}"] = found[f"cos_prontoqa{ending}"] - found[f"cos_control{ending}"]
    return found


def _means(vectors: Vectors, members: Members) -> Float[np.ndarray, "draw d_model"]:
    n = members.sum(1, keepdims=True)
    return members.astype(np.float64) @ vectors / np.where(n > 0, n, np.nan)


def _matrices(model: HookedModel, counts: Counts, typical: Typical) -> dict[str, np.ndarray]:
    arrays = {}
    for name in GROUPS:
        ids = typical.group(name)
        shown = ids[np.argsort(-counts[int(name != "prontoqa"), ids].astype(np.int64), kind="stable")][:SHOWN]
        arrays |= {f"tokens_{name}": shown, f"cos_{name}_matrix": cosines(token_vectors(model, shown))}
    return arrays
