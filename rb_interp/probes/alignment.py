r"""What does a head's value matrix read?  (paper 1, Fig. 6: spectrum of W_V, its leading vector and the anchors)

In the convention x W_V, the left singular vectors of W_V = U S V^T are directions of the residual stream, strongest
first. With u_1 the first, and e_t the embedding of token t less the mean over all tokens of the groups:

    spectrum_ratio = s_1 / s_2        cos_<group> = mean over tokens t of the group of abs cos(u_1, e_t)
    subspace_<group> = sum_t |U_k^T e_t|^2 / sum_t |e_t|^2        U_k: the first k columns of U

The caller names the groups, and two of them to contrast (the anchor study: reasoning and memory anchors). cos_gap is
the first less the second, and ``_within`` is centred over these two alone.

``ov_<quantity>`` is the same of W_V W_O, the OV matrix of this one head (Elhage et al. 2021, "A Mathematical Framework
for Transformer Circuits"). For any invertible R, the weights W_V R and R^-1 W_O give the same logits. They leave
W_V W_O as it is, and give W_V any spectrum, and any leading direction that it reads at all.

"Embedding" is what enters this head's attention: W_E where it reads the residual stream itself (no LayerNorm, or a
LayerNorm after the sublayers), else LayerNorm's output, with its weight and bias, on constant sequences of each token,
averaged over positions. Which of the two is found by which one gives the head's value vectors.

How it can mislead. What W_V alone reads depends on the basis of the head's values, which the function does not fix: of
two models with the same logits one can meet M3 and M4 and the other miss both. Compare with ``ov_``. The paper's
circuit reads s_1 / s_2 >= 1.5, cos_reasoning >= .70, cos_memory <= .30 (M3 to M6). An untrained model reads a ratio
just above 1 and sqrt(2 / (pi d)) for every cosine (.10 at d_model 64), unless all embeddings share a direction: then
*raw* cosines are all large or all small together, trained or not, which is why these are centred and the raw ones
stand beside them. Centring over anchors and keys leaves what sets one group apart from another: `_within`, centred
over the anchors alone, takes away what sets anchors apart from keys. A head that reads no anchors can have a dominant
direction too (ratio high, cosines low). Where s_1 is near s_2, u_1 is arbitrary: read the subspace. In layers above
the first, W_E tells what the head reads of the token itself, not of earlier layers' output, and a captured embedding
holds what earlier layers wrote on the constant sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rb_interp.errors import ModelError, RolesError, nearest
from rb_interp.probes.attention_input import token_embeddings
from rb_interp.probes.capturing import layer_heads
from rb_interp.probes.check import check_layer_head, check_rows, undefined
from rb_interp.probes.groups import Groups, numbered, token_groups
from rb_interp.probes.source import Source, model_of
from rb_interp.statistics.nulls import (
    gaussian_product_singular_values,
    gaussian_singular_values,
    random_directions,
    random_subspaces,
)
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

UNDEFINED = "W_V's second singular value is 0, or the embeddings of a group are zero or all the same."
"""Why a quantity is NaN, or the ratio infinite."""
Vectors = Mapping[str, Float[np.ndarray, "token d_model"]]
OV = "ov_"
"""What the quantities of W_V W_O begin with."""


def contrasted(vectors: Mapping, contrast: Sequence[str] | None = None) -> tuple[str, ...]:
    """The two groups that cos_gap compares: those named, else the first two (or one)."""
    for name in contrast or ():
        if name not in vectors:
            raise RolesError(f"value_alignment has no group '{name}' to contrast; {nearest(name, vectors)}")
    return tuple(contrast or tuple(vectors)[:2])


def centre(vectors: Vectors, over: Sequence[str] = ()) -> Vectors:
    """Vectors less the mean over all tokens of the groups in ``over`` (default: all groups)."""
    mean = np.concatenate([vectors[name] for name in over or vectors]).mean(0)
    return {name: group - mean for name, group in vectors.items()}


def cosines(directions: Float[np.ndarray, "n d_model"], vectors: Float[np.ndarray, "token d_model"]) -> np.ndarray:
    """Cosines ``[n, token]`` of unit directions with vectors; 0 for a vector of length 0, which has no direction."""
    norm = np.linalg.norm(vectors, axis=1)
    return directions @ vectors.T / np.where(norm == 0, 1.0, norm)


def cosine_values(
    directions: Float[np.ndarray, "n d_model"], vectors: Vectors, contrast: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Every cosine quantity, ``[n]`` each, for n unit directions: one observed, or the draws of a null."""

    def mean_abs(groups: Vectors, name: str) -> np.ndarray:
        return np.abs(cosines(directions, groups[name])).mean(1)

    two = contrasted(vectors, contrast)
    names, centred = (*two, *(name for name in vectors if name not in two)), centre(vectors)
    values = {f"cos_{name}": mean_abs(centred, name) for name in names}
    if len(two) == 2:
        within = centre(vectors, [name for name in vectors if name in two])
        values["cos_gap"] = values[f"cos_{two[0]}"] - values[f"cos_{two[1]}"]
        values |= {f"cos_{name}_within": mean_abs(within, name) for name in two}
    return values | {f"cos_{name}_raw": mean_abs(vectors, name) for name in names}


def subspace_values(
    bases: Float[np.ndarray, "n d_model k"], vectors: Vectors, contrast: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Share of each group's centred squared norm inside each of n subspaces, in [0, 1]."""
    two, centred, values = contrasted(vectors, contrast), centre(vectors), {}
    for name in (*two, *(name for name in vectors if name not in two)):
        inside = ((centred[name] @ bases) ** 2).sum((1, 2))
        values[f"subspace_{name}"] = inside / max((centred[name] ** 2).sum(), np.finfo(float).tiny)
    return values


def alignment(
    W_V: Float[np.ndarray, "d_model d_head"], vectors: Vectors, *, k: int = 3, contrast: Sequence[str] | None = None
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Values and arrays of the reading, from one head's W_V, or its W_V W_O, and the embeddings of the groups.

    Singular vectors have no sign of their own. Here each has a mean cosine of 0 or more with the first of the contrast.

    >>> anchor, other = np.eye(4)[[0]], np.eye(4)[[1]]
    >>> vectors = {"key": np.zeros((1, 4)), "memory": other, "reasoning": anchor}
    >>> values, _ = alignment(np.outer([1, 0, 0, 0], [0.6, 0.8]), vectors, k=1)
    >>> round(values["cos_reasoning_raw"], 3), round(values["cos_memory_raw"], 3)
    (1.0, 0.0)
    """
    U, S, _ = np.linalg.svd(W_V, full_matrices=False)
    return _aligned(U, S, vectors, k, contrast)


def _aligned(
    U: Float[np.ndarray, "d_model direction"],
    S: Float[np.ndarray, " direction"],
    vectors: Vectors,
    k: int,
    contrast: Sequence[str] | None,
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    names, centred = list(vectors), centre(vectors)
    group = np.repeat(np.arange(len(names)), [len(rows) for rows in vectors.values()])
    signed = cosines(U[:, :k].T, np.concatenate(list(centred.values())))
    ahead = signed[:, group == names.index(contrasted(vectors, contrast)[0])]
    signed *= np.where(ahead.mean(1, keepdims=True) < 0, -1, 1)
    ratio = S[0] / S[1] if len(S) > 1 and S[1] > 0 else np.inf
    found = cosine_values(U[:, :1].T, vectors, contrast) | subspace_values(U[None, :, :k], vectors, contrast)
    values = {"spectrum_ratio": float(ratio)} | {name: float(value[0]) for name, value in found.items()}
    return values, {"singular_values": S, "cosines": signed}


class Draws(NamedTuple):
    """What the nulls draw; it depends on no model. The ratios s1/s2 are None where there is a single singular value."""

    directions: Float[np.ndarray, "draw d_model"]
    bases: Float[np.ndarray, "draw d_model k"]
    ratio: Float[np.ndarray, " draw"] | None
    ov_ratio: Float[np.ndarray, " draw"] | None


def _draw(shape: tuple[int, int], k: int, n_null: int, rng: np.random.Generator) -> Draws:
    directions, bases = random_directions(n_null, shape[0], rng), random_subspaces(n_null, shape[0], k, rng)
    if min(shape) < 2:
        return Draws(directions, bases, None, None)
    draw = gaussian_singular_values, gaussian_product_singular_values
    tops = [singular(n_null, *shape, rng) for singular in draw]
    return Draws(directions, bases, *(top[:, 0] / top[:, 1] for top in tops))


@lru_cache(maxsize=8)
def _draws_of_seed(shape: tuple[int, int], k: int, n_null: int, seed: int) -> Draws:
    """The same draws for every model of a shape, drawn once."""
    draws = _draw(shape, k, n_null, np.random.default_rng(seed))
    for drawn in draws:
        if drawn is not None:
            drawn.setflags(write=False)
    return draws


_same_embeddings: dict[tuple, dict[str, Null]] = {}
"""The nulls that were found last: the heads of a layer read the same embeddings, so that they share them."""


def _nulls_of_seed(
    shape: tuple[int, int], vectors: Vectors, k: int, n_null: int, seed: int, contrast: Sequence[str] | None
) -> dict[str, Null]:
    """The nulls of a head, which depend on its shape, the embeddings and the seed alone."""
    digest = blake2b(b"".join(np.ascontiguousarray(rows).tobytes() for rows in vectors.values())).digest()
    sizes = tuple((name, len(rows)) for name, rows in vectors.items())
    key = (shape, sizes, digest, k, n_null, seed, tuple(contrast or ()))
    if key not in _same_embeddings:
        found = _nulls(_draws_of_seed(shape, k, n_null, seed), vectors, contrast)
        _same_embeddings.clear()
        _same_embeddings[key] = found
    return dict(_same_embeddings[key])


def _nulls(draws: Draws, vectors: Vectors, contrast: Sequence[str] | None) -> dict[str, Null]:
    found = cosine_values(draws.directions, vectors, contrast)
    nulls = {name: Null("random direction", values) for name, values in found.items()}
    found = subspace_values(draws.bases, vectors, contrast)
    nulls |= {name: Null("random subspace", values) for name, values in found.items()}
    nulls |= {f"{OV}{name}": null for name, null in nulls.items()}
    if draws.ratio is not None and draws.ov_ratio is not None:
        nulls["spectrum_ratio"] = Null("Gaussian matrix of the same shape", draws.ratio)
        nulls[f"{OV}spectrum_ratio"] = Null("product of Gaussian matrices of the same shapes", draws.ov_ratio)
    return nulls


def _group_vectors(source: Source, groups: Groups, length: int, layer: int, head: int) -> Vectors:
    vectors = token_embeddings(source, np.concatenate(list(groups.values())), length, layer, head)
    ends = np.cumsum([len(group) for group in groups.values()])
    return dict(zip(groups, np.split(vectors, ends[:-1]), strict=True))


def value_matrix(model: Source, *, layer: int = 0, head: int = 0) -> Float[np.ndarray, "d_model d_head"]:
    """W_V of one head in float64; with grouped queries, the matrix that its group shares.

    Raises ModelError for a layer or head that is not there, and for weights that are not finite.
    """
    check_layer_head(model, layer, head, "value_matrix", caches=True)
    model = model_of(model)
    stacked = layer_heads(model, layer, "W_V")
    own = stacked[head * len(stacked) // model.cfg.n_heads].detach()
    if not own.isfinite().all():
        raise ModelError(f"W_V of L{layer} is not all finite: the model's training has diverged.")
    return own.double().cpu().numpy()


def output_matrix(source: Source, layer: int, head: int) -> Float[np.ndarray, "d_head d_model"]:
    """W_O of one head in float64."""
    return layer_heads(model_of(source), layer, "W_O")[head].detach().double().cpu().numpy()


def value_svd(
    W_V: Float[np.ndarray, "d_model d_head"], W_O: Float[np.ndarray, "d_head d_model"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Left singular vectors and singular values of W_V, and of W_V W_O.

    With W_V = U S V^T and W_O^T = Q R, W_V W_O = U (S V^T R^T) Q^T: only the small matrix in the middle is decomposed.

    >>> W = np.random.default_rng(0).standard_normal((2, 5, 3))
    >>> _, (U, S) = value_svd(W[0], W[1].T)
    >>> bool(np.allclose(S, np.linalg.svd(W[0] @ W[1].T)[1][:3]))
    True
    """
    U, S, V = np.linalg.svd(W_V, full_matrices=False)
    R: Any = np.linalg.qr(W_O.T, mode="r")
    inner, ov_S, _ = np.linalg.svd(S[:, None] * V @ R.T, full_matrices=False)
    return (U, S), (U @ inner, ov_S)


@typed
@few_threads
def value_alignment(
    model: Source,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    k: int = 3,
    groups: Mapping | None = None,
    contrast: tuple[str, str] | None = None,
) -> Reading:
    """Spectra of a head's W_V and W_V W_O, and how their leading left singular vectors align with groups of tokens.

    Values: ``spectrum_ratio`` s1/s2, at least 1; ``cos_<group>`` in [0, 1], mean absolute cosine of u1 with centred
    embeddings; ``cos_gap``, the contrast's first group less its second; ``cos_<group>_within`` (centred over the
    contrast's groups alone); ``cos_<group>_raw`` (not centred); ``subspace_<group>`` in [0, 1]; and all of them as
    ``ov_<quantity>`` of this head's W_V W_O. Arrays: ``singular_values``; ``tokens``, ``group`` (numbers in the order
    of ``groups``) and ``cosines`` ``[k, token]``, signed and centred; ``ov_singular_values`` and ``ov_cosines``.
    Source: paper 1, Fig. 6.

    Args:
        model: a model, or activations of one.
        inputs: rows of which only the length is used, and roles that name the groups.
        layer, head: the head that is read, both counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        k: how many singular directions the subspaces and ``cosines`` have.
        groups: name -> token ids, see ``probes.groups.token_groups``; by default those of the roles.
        contrast: two groups to compare; by default the first two.

    Raises:
        ModelError: for a layer, head or k that is not there.
        RolesError: for missing or empty token groups.
    """
    check_layer_head(model, layer, head, "value_alignment", untrained, caches=True)
    length = check_rows(inputs, "value_alignment").shape[1]
    W_V = value_matrix(model, layer=layer, head=head)
    if not 1 <= k <= min(W_V.shape):
        raise ModelError(
            f"value_alignment got k={k}; W_V of this model is {W_V.shape[0]} x {W_V.shape[1]}. "
            f"Use k=1 to k={min(W_V.shape)}."
        )
    found = token_groups(groups, inputs.roles, "value_alignment")
    for name, ids in found.items():
        if not len(ids):
            raise RolesError(f"value_alignment got no tokens in the group '{name}'; name at least one.")

    def both(source: Source, vectors: Vectors) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        parts = value_svd(value_matrix(source, layer=layer, head=head), output_matrix(source, layer, head))
        (values, arrays), ov = (_aligned(U, S, vectors, k, contrast) for U, S in parts)
        of_ov = {f"{OV}{name}": value for name, value in ov[0].items()}
        return values | of_ov, arrays | {f"{OV}{name}": array for name, array in ov[1].items()}

    vectors = _group_vectors(model, found, length, layer, head)
    values, arrays = both(model, vectors)
    arrays["tokens"], arrays["group"] = numbered(found)
    before = {}
    if untrained is not None:
        before, _ = both(untrained, _group_vectors(untrained, found, length, layer, head))
    nulls = _nulls_of_seed(W_V.shape, vectors, k, n_null, seed, contrast) if n_null else {}
    notes = undefined(values, model, UNDEFINED, before, untrained)
    return Reading("value_alignment", values, layer, head, before, nulls, arrays, notes=notes)
