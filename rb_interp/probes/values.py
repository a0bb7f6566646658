r"""What does a head's value matrix read?  (paper 1, Fig. 6: spectrum of W_V and the anchors)

In the convention x W_V, the left singular vectors of W_V = U S V^T are directions of the residual
stream, strongest first. With u_1 the first, and e_t the embedding of token t less the mean over all
tokens of the groups:

    spectrum_ratio = s_1 / s_2        cos_<group> = mean over tokens t of the group of abs cos(u_1, e_t)
    subspace_<group> = sum_t |U_k^T e_t|^2 / sum_t |e_t|^2        U_k: the first k columns of U

The caller names the groups, and two of them to contrast (the anchor study: reasoning and memory
anchors). cos_gap is the first less the second, and ``_within`` is centred over these two alone.

``ov_<quantity>`` is the same of W_V W_O, the OV matrix of this one head (Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits"). W_V R and R^-1 W_O give the same logits for any
invertible R. They leave W_V W_O as it is, and give W_V any spectrum, and any leading direction that
it reads at all.

"Embedding" is what enters this head's attention, as ``probes.embeddings`` reads it.

How it can mislead. Of two models with the same logits one can meet M3 and M4 and the other miss
both: compare with ``ov_``. The paper's circuit reads s_1 / s_2 >= 1.5, cos_reasoning >= .70,
cos_memory <= .30 (M3 to M6). An untrained model reads a ratio just above 1 and sqrt(2 / (pi d)) for
every cosine (.10 at d_model 64), unless all embeddings share a direction: then *raw* cosines are
all large or all small together, trained or not. Centring over anchors and keys leaves what sets one
group apart from another; ``_within``, centred over the anchors alone, takes away what sets anchors
apart from keys. A head that reads no anchors can have a dominant direction too. Where s_1 is near
s_2, u_1 is arbitrary: read the subspace. In layers above the first, W_E tells what the head reads
of the token itself, and a captured embedding holds what earlier layers wrote on the constant
sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.structure import layer_heads
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import check_layer_head, check_rows, float64
from rb_interp.probes.embeddings import Embeddings, numbered, token_embeddings, token_groups
from rb_interp.statistics import nulls as null_draws
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

UNDEFINED = (
    "W_V's second singular value is 0, or the embeddings of a group are zero or all the same."
)
KINDS = ("", "ov_")
"""What quantities of W_V and of W_V W_O begin with."""
GAUSSIAN = (
    "Gaussian matrix of the same shape",
    "product of Gaussian matrices of the same shapes",
)
"""Nulls of the spectra of W_V and of W_V W_O."""


@checked
@single_threaded
def value_alignment(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    k: int = 3,
    groups: Mapping[str, Any] | None = None,
    contrast: tuple[str, str] | None = None,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Spectra of a head's W_V and W_V W_O, and how they align with groups of tokens.

    Values: ``spectrum_ratio``, at least 1; ``cos_<group>`` in [0, 1], ``cos_<group>_within`` and
    ``cos_<group>_raw`` (not centred); ``cos_gap``; ``subspace_<group>`` in [0, 1]; and all of them
    as ``ov_<quantity>``. Arrays: ``singular_values``; ``tokens``, ``group`` (numbers in the order
    of ``groups``) and ``cosines`` ``[k, token]``, signed and centred; ``ov_singular_values`` and
    ``ov_cosines``. Nulls: random directions and subspaces, Gaussian matrices.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows of which only the length is used, and roles that name the groups.
        layer, head: numbers, counted from 0.
        k: how many singular directions the subspaces and ``cosines`` have.
        groups: name -> token ids, or the name of a group of the roles; by default every group of
            the roles.
        contrast: two groups to compare; by default the first two.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist and for more directions than W_V has,
    RolesError for missing or empty token groups.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> reading = value_alignment(model, data.inputs(data.rows("rsn_test")), n_null=0)
    >>> reading.values["spectrum_ratio"] >= 1
    True
    """
    check_rows(inputs, "value_alignment")
    length = inputs.tokens.shape[1]

    def measure(source: ActivationSource) -> Measurement:
        W_V = value_matrix(source, layer=layer, head=head)
        if not 1 <= k <= min(W_V.shape):
            raise ModelError(
                f"value_alignment got k={k}; W_V of this model is {W_V.shape[0]} x {W_V.shape[1]}. "
                f"Use k=1 to k={min(W_V.shape)}."
            )
        ids_of_group = token_groups(groups, inputs.roles, "value_alignment", contrast or ())
        for name, ids in ids_of_group.items():
            if not len(ids):
                raise RolesError(
                    f"value_alignment got no tokens in the group '{name}'; name at least one."
                )
        W_O = float64(layer_heads(source, layer, "W_O")[head])
        tokens, group = numbered(ids_of_group)
        embeddings = token_embeddings(source, tokens, length, layer, head)
        vectors = {name: embeddings[group == number] for number, name in enumerate(ids_of_group)}
        two = tuple(contrast or list(ids_of_group)[:2])
        measurement = align(W_V, W_O, k, vectors, two)
        arrays = {"tokens": tokens, "group": group, **measurement.arrays}
        return measurement._replace(arrays=arrays)

    return read_model(
        "value_alignment", model, measure, untrained, n_null, seed, UNDEFINED, layer, head
    )


def align(
    W_V: Float[np.ndarray, "d_model d_head"],
    W_O: Float[np.ndarray, "d_head d_model"],
    k: int,
    vectors: Mapping[str, Embeddings],
    two: Sequence[str],
) -> Measurement:
    """The values of `value_alignment`, read from weights and the embeddings of each group.

    Args:
        two: the groups that are compared.
    """
    all_vectors = np.concatenate([*vectors.values()])
    centred = all_vectors - all_vectors.mean(0)
    group = np.repeat([*vectors], [len(rows) for rows in vectors.values()])
    leads = group == two[0]
    values = {}
    arrays = {}
    for kind, (U, S) in zip(KINDS, value_svd(W_V, W_O), strict=True):
        has_ratio = len(S) > 1 and S[1] > 0
        values[f"{kind}spectrum_ratio"] = float(S[0] / S[1]) if has_ratio else np.inf
        observed = alignments(U[:, :1].T, U[None, :, :k], vectors, two)
        for quantity, value in observed.items():
            values[f"{kind}{quantity}"] = float(value[0])
        signed = _cosines(U[:, :k].T, centred)
        # singular vectors have no sign: the contrast's first group is made positive
        signed *= np.where(signed[:, leads].mean(1, keepdims=True) < 0, -1, 1)
        arrays[f"{kind}singular_values"] = S
        arrays[f"{kind}cosines"] = signed
    return Measurement(values, partial(_nulls, W_V.shape, k, vectors, two), arrays)


def _nulls(
    shape: tuple[int, int],
    k: int,
    vectors: Mapping[str, Embeddings],
    two: Sequence[str],
    n_null: int,
    seed: int,
) -> dict[str, Null]:
    directions, bases, ratios = null_directions(shape, k, n_null, seed)
    nulls = {}
    null_draws = alignments(directions, bases, vectors, two)
    for kind in KINDS:
        for quantity, draws in null_draws.items():
            text = "random subspace" if quantity.startswith("subspace") else "random direction"
            nulls[f"{kind}{quantity}"] = Null(text, draws)
    for kind, text, ratio in zip(KINDS, GAUSSIAN, ratios, strict=False):
        nulls[f"{kind}spectrum_ratio"] = Null(text, ratio)
    return nulls


def _cosines(
    directions: Float[np.ndarray, "n d_model"], vectors: Embeddings
) -> Float[np.ndarray, "n token"]:
    """Cosines of unit directions with vectors; 0 for a vector of length 0."""
    norm = np.linalg.norm(vectors, axis=1)
    return directions @ vectors.T / np.where(norm == 0, 1.0, norm)


def alignments(
    directions: Float[np.ndarray, "n d_model"],
    bases: Float[np.ndarray, "n d_model k"],
    vectors: Mapping[str, Embeddings],
    two: Sequence[str],
) -> dict[str, np.ndarray]:
    """Cosines of n unit directions and shares of n subspaces, ``[n]`` each.

    One is observed, or n are the draws of a null.
    """
    names = list(dict.fromkeys([*two, *vectors]))
    mean = np.concatenate([*vectors.values()]).mean(0)
    centred = {name: rows - mean for name, rows in vectors.items()}
    values = _mean_cosines(directions, centred, names)
    if len(two) == 2:
        values["cos_gap"] = values[f"cos_{two[0]}"] - values[f"cos_{two[1]}"]
        between = np.concatenate([vectors[name] for name in vectors if name in two]).mean(0)
        within = {name: vectors[name] - between for name in two}
        values |= _mean_cosines(directions, within, two, "_within")
    values |= _mean_cosines(directions, vectors, names, "_raw")
    for name in names:
        inside = ((centred[name] @ bases) ** 2).sum((1, 2))
        total = max((centred[name] ** 2).sum(), np.finfo(float).tiny)
        values[f"subspace_{name}"] = inside / total
    return values


def _mean_cosines(
    directions: Float[np.ndarray, "n d_model"],
    vectors: Mapping[str, Embeddings],
    names: Iterable[str],
    ending: str = "",
) -> dict[str, Float[np.ndarray, " n"]]:
    means = {}
    for name in names:
        means[f"cos_{name}{ending}"] = np.abs(_cosines(directions, vectors[name])).mean(1)
    return means


@lru_cache(maxsize=64)  # heads and models that are alike share it
def null_directions(
    shape: tuple[int, int], k: int, n_null: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Random directions and subspaces, and s1/s2 of Gaussian matrices and of their products.

    They know no model.
    """
    rng = np.random.default_rng(seed)
    directions = null_draws.random_directions(n_null, shape[0], rng)
    bases = null_draws.random_subspaces(n_null, shape[0], k, rng)
    if min(shape) < 2:
        return directions, bases, []
    single = null_draws.gaussian_singular_values(n_null, *shape, rng)
    product = null_draws.gaussian_product_singular_values(n_null, *shape, rng)
    return directions, bases, [values[:, 0] / values[:, 1] for values in (single, product)]


def value_matrix(
    model: ActivationSource, *, layer: int = 0, head: int = 0
) -> Float[np.ndarray, "d_model d_head"]:
    """W_V of one head in float64, which grouped queries share.

    Raises ModelError for a layer or head that does not exist, and if W_V is not finite.
    """
    check_layer_head(model, layer, head, "value_matrix", caches=True)
    heads = layer_heads(model, layer, "W_V")
    W_V = heads[head * len(heads) // model_of(model).cfg.n_heads]
    if not W_V.isfinite().all():
        raise ModelError(f"W_V of L{layer} is not all finite: the model's training has diverged.")
    return float64(W_V)


def value_svd(
    W_V: Float[np.ndarray, "d_model d_head"], W_O: Float[np.ndarray, "d_head d_model"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Left singular vectors and singular values of W_V, and of W_V W_O.

    With W_V = U S V^T and W_O^T = Q R, W_V W_O = U (S V^T R^T) Q^T: only the small matrix in the
    middle is decomposed.
    """
    U, S, V = np.linalg.svd(W_V, full_matrices=False)
    R: Any = np.linalg.qr(W_O.T, mode="r")
    inner, ov_S, _ = np.linalg.svd(S[:, None] * V @ R.T, full_matrices=False)
    return (U, S), (U @ inner, ov_S)
