r"""Is what small initialisation learns of low rank?  (paper 1, "low rank"; paper 2, Figs. 12 and 13)

With l_1 >= l_2 >= ... the spectrum of the centred covariance of a list of embeddings, n of them in d_model dimensions:

    participation_g      (sum l)^2 / sum l^2                        effective number of directions, [1, min(n - 1, d)]
    share_k_g            (l_1 + .. + l_k) / sum l    for k = 1, 3, 10                                        (0, 1]
    participation_ratio_g      participation_g / the untrained model's; nan without an untrained model               > 0
    participation_difference   participation_prontoqa - participation_control, both of as many tokens

for the lists g of ``token_typing``: prontoqa, stories, control, and all, every token with 20 occurrences in the two
corpora together. And for the matrices W of one layer, s_1 their largest singular value,

    stable_rank_W        |W|_F^2 / s_1^2,   W = W_QK, W_OV (mean over heads), W_in, W_out                  [1, rank]

How it can mislead. A model of low rank reads a participation of a few and share_3 near 1; one that is not, and an
*untrained* one at any gamma, reads that of independent directions, about n d / (n + d), and share_k a little over k /
d. That depends on n: a hundred tokens read 56 in 128 dimensions and a thousand 113 with nothing learned. So never
compare corpora directly: use participation_ratio or, with the frequencies matched as well, participation_difference,
whose null swaps matched tokens. One direction along which frequent tokens differ from rare ones lowers every
participation without any structure (Eq. 5: an embedding moves with its token's frequency), most of all in ``all``.
Small initialisation reads low for a second reason. The first few directions that are learned soon outweigh a small
start, but a large start hides them. So a low rank says how far a model has moved from its start. It does not say what
the model has learned. The stable rank of a product of random matrices is lower than that of its factors: compare with
the untrained model, never between matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from rb_interp.probes.check import check_layer_head, undefined
from rb_interp.probes.source import Source, model_of
from rb_interp.probes.token_typing import (
    MIN_COUNT,
    NamedCounts,
    check_counts,
    counts_and_names,
    in_names,
    token_vectors,
    typical_tokens,
)
from rb_interp.probes.vectors import participation, principal_components
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

LEADING = (1, 3, 10)
GROUPS = ("prontoqa", "stories", "control", "all")

UNDEFINED = {
    "participation_ratio": "no untrained model was given, or the list has fewer than two tokens.",
    "": "the list has fewer than two tokens (a control has none where the stories have fewer than PrOntoQA), or its "
    "embeddings are all the same.",
}
"""Why a quantity is NaN."""
Vectors = Float[np.ndarray, "token d_model"]


@typed
@few_threads
def embedding_rank(
    model: Source,
    inputs: Inputs | None = None,
    *,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    counts: NamedCounts,
) -> Reading:
    """Effective dimension of the embeddings of each list of tokens.

    Values as in the module's table; a list of fewer than two tokens gives nan. Nulls, side less: independent Gaussian
    vectors (participation_g, and participation_ratio_g beside an untrained model), matched tokens swapped between
    PrOntoQA and the control (participation_difference). Arrays: spectrum_prontoqa and so on, each component's share of
    the variance, and spectrum_untrained_prontoqa and so on beside an untrained model.

    Args:
        inputs: not looked at, since the probe reads the embedding alone.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two corpora of yours by
            name, each with its ``[d_vocab]``. Their names stand in place of prontoqa and stories then.

    Raises:
        TextError: for counts of another shape or vocabulary, and for a corpus without tokens.
    """
    counts, names = counts_and_names(counts)
    check_counts(counts, model, untrained, names)
    typical, every = typical_tokens(counts), np.flatnonzero(counts.sum(0) >= MIN_COUNT)
    ids = {name: every if name == "all" else typical.group(name) for name in GROUPS}
    vectors = {name: token_vectors(model, tokens) for name, tokens in ids.items()}
    values, arrays, before = rank_values(vectors), _spectra(vectors, "spectrum"), {}
    if untrained is not None:
        first = {name: token_vectors(untrained, tokens) for name, tokens in ids.items()}
        before = rank_values(first)
        for name in GROUPS:
            values[f"participation_ratio_{name}"] = values[f"participation_{name}"] / before[f"participation_{name}"]
            before[f"participation_ratio_{name}"] = 1.0
        arrays |= _spectra(first, "spectrum_untrained")
    nulls = rank_nulls(vectors, before, n_null, np.random.default_rng(seed)) if n_null else {}
    notes = undefined(values, model, UNDEFINED, before, untrained)
    return in_names(Reading("embedding_rank", values, untrained=before, nulls=nulls, arrays=arrays, notes=notes), names)


def rank_values(vectors: Mapping[str, Vectors]) -> dict[str, float]:
    """The table's quantities of every list of embeddings (participation_ratio_g: nan)."""
    values = {}
    for name, rows in vectors.items():
        values[f"participation_{name}"] = participation(rows) if len(rows) else math.nan
        values[f"participation_ratio_{name}"] = math.nan
        leading = leading_shares(rows)
        values |= {f"share_{k}_{name}": share for k, share in zip(LEADING, leading, strict=True)}
    values["participation_difference"] = values["participation_prontoqa"] - values["participation_control"]
    return values


def leading_shares(vectors: Vectors) -> tuple[float, ...]:
    """Share of the centred variance along the leading 1, 3 and 10 directions, in (0, 1]; nan for no variance.

    >>> tuple(round(share, 6) for share in leading_shares(np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])))
    (0.8, 1.0, 1.0)
    """
    share = principal_components(vectors)[1]
    return tuple(float(share[:k].sum()) if share.any() else math.nan for k in LEADING)


def rank_nulls(
    vectors: Mapping[str, Vectors], before: Mapping[str, float], n_null: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Nulls of the participations: independent Gaussian vectors, and swaps of PrOntoQA's tokens with the control."""
    nulls = {}
    for name, rows in vectors.items():
        draws = gaussian_participations(n_null, len(rows), rows.shape[1], rng)
        nulls[f"participation_{name}"] = Null("random vectors", draws, "less")
        if before:
            scaled = draws / before[f"participation_{name}"]
            nulls[f"participation_ratio_{name}"] = Null("random vectors", scaled, "less")
    first, control = vectors["prontoqa"], vectors["control"]
    draws = np.full(n_null, np.nan)
    if len(control) > 1:
        swap = rng.random((n_null, len(first))) < 0.5
        draws = _swapped(first, control, ~swap) - _swapped(first, control, swap)
    nulls["participation_difference"] = Null("PrOntoQA tokens swapped with their matches", draws, "less")
    return nulls


def gaussian_participations(n_draws: int, n: int, d_model: int, rng: np.random.Generator) -> Float[np.ndarray, " draw"]:
    """Participation ratios of n independent Gaussian vectors, centred; nan for fewer than two.

    Drawn from the bidiagonal form of a Gaussian matrix, see ``statistics.nulls.gaussian_singular_values``, of whose
    squared values only the sum and the sum of squares are needed.

    >>> gaussian_participations(1, 2, 5, np.random.default_rng(0)).tolist()   # two points differ in one direction
    [1.0]
    """
    large, small = max(n - 1, d_model), min(n - 1, d_model)
    if small < 1:
        return np.full(n_draws, np.nan)
    diagonal = rng.chisquare(np.arange(large, large - small, -1), (n_draws, small))
    below = rng.chisquare(np.arange(small - 1, 0, -1), (n_draws, small - 1))
    main = diagonal.copy()
    main[:, 1:] += below
    return main.sum(1) ** 2 / ((main**2).sum(1) + 2 * (diagonal[:, :-1] * below).sum(1))


def _swapped(first: Vectors, control: Vectors, take: Bool[np.ndarray, "draw token"]) -> Float[np.ndarray, " draw"]:
    """Participation of the vectors that each draw takes of ``first``, the others being their matches."""
    found = np.empty(len(take))
    for draw, chosen in enumerate(take):
        rows = np.where(chosen[:, None], first, control)
        centred = rows - rows.mean(0)
        gram = centred @ centred.T if len(rows) < rows.shape[1] else centred.T @ centred  # both have the same spectrum
        size = (gram**2).sum()
        found[draw] = np.trace(gram) ** 2 / size if size > 0 else np.nan
    return found


@typed
@few_threads
def weight_rank(
    model: Source,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Stable ranks of one layer's matrices, counted from 0.

    Values: stable_rank_W_QK and stable_rank_W_OV (mean over heads), stable_rank_W_in and stable_rank_W_out where the
    layer has an MLP; in [1, rank], nan for a matrix of zeros.

    Args:
        inputs: not looked at, since the probe reads weights alone.
        layer: the layer, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: change nothing, since no quantity has a null.

    Raises:
        ModelError: for a layer that is not there.
    """
    check_layer_head(model, layer, None, "weight_rank", untrained, caches=True)
    before = {} if untrained is None else _stable_ranks(untrained, layer)
    values = _stable_ranks(model, layer)
    notes = undefined(values, model, "the matrix is zero.", before, untrained)
    return Reading("weight_rank", values, layer=layer, untrained=before, notes=notes)


def stable_rank(matrix: Float[np.ndarray, "rows columns"]) -> float:
    """|W|_F^2 / s_1^2, in [1, rank]; nan for a matrix of zeros or of what is not finite.

    >>> stable_rank(np.diag([2.0, 1.0, 1.0]))
    1.5
    """
    if not np.isfinite(matrix).all():
        return math.nan
    squared = np.linalg.svd(matrix, compute_uv=False) ** 2
    return float(squared.sum() / squared[0]) if squared[0] > 0 else math.nan


def _stable_ranks(model: Source, layer: int) -> dict[str, float]:
    block = model_of(model).blocks[layer]
    query, key, value, output = (_array(getattr(block.attn, f"W_{name}")) for name in "QKVO")
    found = {
        "stable_rank_W_QK": _product_rank(query, key),
        "stable_rank_W_OV": _product_rank(value, output.swapaxes(1, 2)),
    }
    for name in ("W_in", "W_out"):
        if hasattr(getattr(block, "mlp", None), name):
            found[f"stable_rank_{name}"] = stable_rank(_array(getattr(block.mlp, name)))
    return found


def _product_rank(left: Float[np.ndarray, "head d_model d_head"], right: np.ndarray) -> float:
    """Mean over heads of the stable rank of left right^T, from its small core; grouped heads share a matrix."""
    heads = max(len(left), len(right))
    left, right = (np.repeat(side, heads // len(side), axis=0) for side in (left, right))
    cores = np.linalg.qr(left)[1] @ np.linalg.qr(right)[1].swapaxes(1, 2)
    return float(np.mean([stable_rank(core) for core in cores]))


def _array(weight: Tensor) -> np.ndarray:
    return weight.detach().cpu().double().numpy()


def _spectra(vectors: Mapping[str, Vectors], prefix: str) -> dict[str, Float[np.ndarray, " component"]]:
    return {f"{prefix}_{name}": principal_components(rows)[1] for name, rows in vectors.items()}
