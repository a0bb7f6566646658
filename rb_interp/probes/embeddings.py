"""Groups of tokens, the embedding of each as a head reads it, and measures of a set of vectors.

The embedding is W_E if the head reads the residual stream itself (no LayerNorm, or a LayerNorm
after the sublayers), else LayerNorm's output, with its weight and bias, on constant sequences of
each token, averaged over positions. Models differ in where they normalise and in what their hooks
record, so the tensor taken is the one that reproduces the head's own value vectors, ``hook_v = x
W_V + b_V``.

Cosines, components, effective dimension and rank correlations are pure numpy in float64. A value
that nothing defines (one vector, no variance, not finite) is nan, without a warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from rb_interp.errors import ModelError, RolesError, describe, nearest
from rb_interp.models.arrays import ActivationSource, Arrays, model_of
from rb_interp.models.structure import (
    has_attention,
    hook_points,
    layer_heads,
    norm_weights,
    normalises_embedding,
    value_bias,
)
from rb_interp.probes.activations import OnePass, capture, float64
from rb_interp.tasks.inputs import Roles

__all__ = [
    "cosines",
    "expected_abs_cos",
    "participation",
    "pearson",
    "principal_components",
    "spearman",
]


def cosines(vectors: Float[np.ndarray, "token d"]) -> Float[np.ndarray, "token token"]:
    """Cosine of every pair of rows, in [-1, 1]; nan where a row is zero.

    >>> cosines(np.array([[1.0, 0.0], [3.0, 3.0]])).round(3).tolist()
    [[1.0, 0.707], [0.707, 1.0]]
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, np.nan)
    return unit @ unit.T


def expected_abs_cos(d_model: int) -> float:
    """Mean abs(cos) of two independent random directions in d_model dimensions (E4's reference), in
    (0, 1].

    >>> round(expected_abs_cos(3), 6), round(expected_abs_cos(200) * math.sqrt(200 * math.pi / 2), 2)
    (0.5, 1.0)
    """
    log_ratio = math.lgamma(d_model / 2) - math.lgamma((d_model + 1) / 2)
    return math.exp(log_ratio) / math.sqrt(math.pi)


def principal_components(
    vectors: Float[np.ndarray, "token d"],
) -> tuple[Float[np.ndarray, "token component"], Float[np.ndarray, " component"]]:
    """Scores on the principal components of the centred rows, and each one's share of variance.

    All shares are 0 for no variance.

    Signs are fixed so that the first row lies on the negative side of every component. Rows that
    are not all finite have no components: everything is nan.
    """
    if len(vectors) == 0 or not np.isfinite(vectors).all():
        return np.full((len(vectors), 1), np.nan), np.full(1, np.nan)
    left, singular, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    total = float((singular**2).sum())
    scores = left * singular * np.where(left[0] > 0, -1.0, 1.0)
    return scores, singular**2 / total if total > 0 else singular


def participation(vectors: Float[np.ndarray, "token d"]) -> float:
    """Participation ratio (sum l)^2 / sum l^2 of the centred rows' spectrum: the effective number
    of dimensions.

    >>> participation(np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
    2.0
    """
    _, share = principal_components(vectors)
    return 1 / float((share**2).sum()) if share.any() else math.nan


def mean_off_diagonal(matrix: Float[np.ndarray, "token token"]) -> float:
    """Mean over pairs of distinct rows; nan for fewer than two."""
    return float(pairs(matrix).mean()) if len(matrix) > 1 else math.nan


def pairs(matrix: Num[np.ndarray, "*draw token token"]) -> Num[np.ndarray, "*draw pair"]:
    """The entries above the diagonal, row by row."""
    first, second = np.triu_indices(matrix.shape[-1], 1)
    return matrix[..., first, second]


def ranked_pairs(matrix: Num[np.ndarray, "token token"]) -> Float[np.ndarray, "token token"]:
    """Ranks of a symmetric matrix's entries above the diagonal, mirrored; 0 on the diagonal."""
    ranked = np.zeros(matrix.shape)
    first, second = np.triu_indices(len(matrix), 1)
    ranked[first, second] = ranked[second, first] = ranks(matrix[first, second])
    return ranked


def ranks(values: np.ndarray) -> Float[np.ndarray, " n"]:
    """Ranks from 1, ties sharing their mean (scipy.stats.rankdata)."""
    from scipy.stats import rankdata

    return rankdata(values)


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's rank correlation, in [-1, 1]; nan where one side does not vary or is not finite.

    >>> round(spearman(np.array([1, 2, 3]), np.array([10.0, 30.0, 20.0])), 9)
    0.5
    """
    return pearson(ranks(x), ranks(y)) if np.isfinite(y).all() else math.nan


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation, in [-1, 1].

    nan if one side does not vary or has fewer than two entries.
    """
    rows = np.asarray(x, dtype=np.float64)[None]
    return float(row_correlations(rows, np.asarray(y, dtype=np.float64))[0])


def row_correlations(
    rows: Float[np.ndarray, "draw n"], y: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation of every row with y; nan where either does not vary."""
    if len(y) < 2:
        return np.full(len(rows), np.nan)
    rows = rows - rows.mean(1, keepdims=True)
    y = y - y.mean()
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(y)
    return rows @ y / np.where(norms > 0, norms, np.nan)


def gaussian_participations(
    n_draws: int, n: int, d_model: int, rng: np.random.Generator
) -> Float[np.ndarray, " draw"]:
    """Participation ratios of n independent Gaussian vectors, centred; nan for fewer than two.

    Drawn from the bidiagonal form of a Gaussian matrix, see
    ``statistics.nulls.gaussian_singular_values``, of whose squared values only the sum and the sum
    of squares are needed.
    """
    large = max(n - 1, d_model)
    small = min(n - 1, d_model)
    if small < 1:
        return np.full(n_draws, np.nan)
    diagonal = rng.chisquare(np.arange(large, large - small, -1), (n_draws, small))
    below = rng.chisquare(np.arange(small - 1, 0, -1), (n_draws, small - 1))
    main = diagonal.copy()
    main[:, 1:] += below
    beside = (diagonal[:, :-1] * below).sum(1)
    return main.sum(1) ** 2 / ((main**2).sum(1) + 2 * beside)


def gram_participations(gram: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    """Participation ratio of each set of vectors from their inner products, centred: (tr G)^2 /
    tr(G^2)."""
    columns = gram.mean(1, keepdims=True)
    rows = gram.mean(2, keepdims=True)
    centred = gram - columns - rows + gram.mean((1, 2), keepdims=True)
    size = (centred**2).sum((1, 2))
    trace = np.trace(centred, axis1=1, axis2=2)
    return trace**2 / np.where(size > 0, size, np.nan)


TOLERANCE = 0.02
"""Relative error up to which a tensor counts as the attention's input; float32 reaches 1e-6,
bfloat16 about 1e-2."""
COMPARED_ROWS = 2
"""Rows on which candidates for the attention's input are compared."""
COMPARED_POSITIONS = 4
"""Positions of each of these rows."""
Groups = Mapping[str, Int[np.ndarray, " n"]]
"""Name -> token ids. Names become part of the quantities' names; arrays number the groups in this
order from 0."""
Embeddings = Float[np.ndarray, "token d_model"]


def token_groups(
    groups: Mapping[str, Any] | None, roles: Roles, caller: str, required: Iterable[str] = ()
) -> dict[str, Int[np.ndarray, " n"]]:
    """The groups that a probe compares, by the name that its quantities have.

    Args:
        groups: name -> token ids, or the name of a group of the roles; None for every group of the
            roles.
        caller: the name in messages.
        required: names that have to be among the groups.

    Raises RolesError if there is no group, or not a required one, and for ids that are no whole
    numbers.

    >>> roles = Roles(tokens={"hour": np.arange(3), "place": np.arange(3, 5)})
    >>> list(token_groups(None, roles, "geometry"))
    ['hour', 'place']
    >>> token_groups({"where": "place"}, roles, "geometry")["where"].tolist()
    [3, 4]
    """
    ids_of_group = roles.tokens if groups is None else groups
    if not ids_of_group:
        raise RolesError(
            f"{caller} needs groups of tokens and got none; pass groups={{name: token ids}} or "
            f"name them in Roles."
        )
    for name in required:
        if name not in ids_of_group:
            raise RolesError(f"{caller} has no group '{name}'; {nearest(name, ids_of_group)}")
    result = {}
    for name, ids in ids_of_group.items():
        if isinstance(ids, str):
            ids = roles.group(ids, caller)
        tokens = _token_ids(ids)
        if tokens is None:
            raise RolesError(
                f"{caller} got the group {describe(name)} with {describe(ids)}; expected a list of token "
                f"ids, each once."
            )
        result[name] = tokens
    return result


def _token_ids(ids: Any) -> Int[np.ndarray, " n"] | None:
    """Token ids as an array; None if they are no whole numbers, or one comes twice."""
    try:
        tokens = np.asarray(ids)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    if not tokens.size:
        return np.zeros(0, dtype=np.int64)
    if tokens.dtype.kind not in "iu" or tokens.max() >= 2**63:
        return None
    if len(np.unique(tokens)) < tokens.size:  # a mask of ones and zeros, for instance
        return None
    return tokens.astype(np.int64).reshape(-1)


def numbered(groups: Groups) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """Token ids of all groups, one group after another, and the number of each token's group."""
    sizes = [len(ids) for ids in groups.values()]
    return np.concatenate(list(groups.values())), np.repeat(np.arange(len(groups)), sizes)


def token_vectors(model: ActivationSource, ids: Int[np.ndarray, " token"]) -> Embeddings:
    """Rows of W_E in float64."""
    return float64(model_of(model).W_E.detach()[torch.as_tensor(ids)])


def token_embeddings(
    source: ActivationSource, ids: Int[np.ndarray, " token"], length: int, layer: int, head: int
) -> Embeddings:
    """Embedding of each token as the head reads it, in float64; see the module's docstring.

    That of a model without heads is W_E, of arrays ``token_inputs``, and of BERT its normalised
    embedding.
    """
    model = model_of(source)
    if not has_attention(model):
        return token_vectors(source, ids)
    if isinstance(model, Arrays):
        return float64(model.blocks[layer].token_inputs[torch.as_tensor(ids)])
    rows = torch.as_tensor(np.repeat(np.asarray(ids)[:, None], length, 1))
    kind, inputs = attention_inputs(source, rows, layer, head)
    if kind == "residual" and normalises_embedding(model):
        kind = "normalised"
        inputs = attention_inputs(source, rows, 0, head)[1]
    if kind == "normalised":
        return inputs.mean(1).numpy()
    return token_vectors(source, ids)


def attention_inputs(
    source: ActivationSource, rows: Int[Tensor, "row pos"], layer: int, head: int
) -> tuple[str, Tensor]:
    """What the head reads, ``residual`` or ``normalised``, and that tensor in float64.

    Raises ModelError if it is neither, or not finite.
    """
    v, candidates = _input_candidates(source, rows, layer, head)
    model = model_of(source)
    W_V = layer_heads(model, layer, "W_V").detach()
    b_V = value_bias(model, layer)
    n_heads = min(len(W_V), v.shape[2])  # shared ones may be there once
    weights = W_V[:: len(W_V) // n_heads].cpu().double()
    compared = np.unique(np.linspace(0, len(rows) - 1, COMPARED_ROWS).astype(int))
    values = v[compared, :COMPARED_POSITIONS, :: v.shape[2] // n_heads].double()
    size = values.norm().clamp_min(torch.finfo(torch.float64).tiny)
    bias = 0 if b_V is None else b_V[:: len(b_V) // n_heads].detach().cpu().double()
    errors = []
    for _, x in candidates:
        read = x[compared, :COMPARED_POSITIONS].double()
        predicted = torch.einsum("bpd,hde->bphe", read, weights) + bias
        errors.append(float((predicted - values).norm() / size))
    error = min(errors)
    if math.isnan(error):
        raise ModelError(
            f"what enters attention in L{layer} is not finite: the model's training has diverged."
        )
    if not error <= TOLERANCE:
        raise ModelError(
            f"cannot tell what enters attention in L{layer}: x W_V + b_V misses hook_v "
            f"by {error:.0%}. It needs hook_v, and hook_resid_pre or ln1.hook_normalized, "
            f"as in TransformerLens."
        )
    kind, x = candidates[errors.index(error)]
    return kind, x.double()


def _input_candidates(
    source: ActivationSource, rows: Int[Tensor, "row pos"], layer: int, head: int
) -> tuple[Tensor, list[tuple[str, Tensor]]]:
    """``hook_v`` and what may enter a head's attention: the residual stream or a norm's output."""
    model = model_of(source)
    block = f"blocks.{layer}."
    normalised = f"{block}ln1.hook_normalized"
    out = f"{block}ln1.hook_out"
    norm_hooks = list(hook_points(model, (normalised, out)))
    names = [f"{block}attn.hook_v", f"{block}hook_resid_pre", *norm_hooks]
    # these are not the rows of a cache
    run = source.of_rows if isinstance(source, OnePass) else partial(capture, model)
    v, *activations = run(rows, names).values()
    inputs = []
    for x in activations:
        if x.ndim > 3:  # use_attn_in and use_split_qkv_input give each head an input of its own
            x = x[:, :, head * x.shape[2] // model.cfg.n_heads]
        inputs.append(x)
    residual, *outputs = inputs
    candidates = [("residual", residual), *(("normalised", x) for x in outputs)]
    if normalised in norm_hooks:
        weight, bias = norm_weights(model, layer)
        if weight is not None:  # in TransformerLens 3.x the hook stands before these two
            scaled = outputs[0].double() * weight.detach().cpu().double()
            if bias is not None:
                scaled = scaled + bias.detach().cpu().double()
            candidates.append(("normalised", scaled))
    return v, candidates
