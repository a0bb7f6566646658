"""Geometry of the token embeddings (paper 1, Figs. 4A, 5 and 14; Theorem 1, Eq. 14).

For used tokens s (keys, memory anchors, reasoning anchors) with vectors w_s, d = d_model: the rows of W_E, and in a
pre-norm model what the first attention reads, the normalised embedding. A model without attention will do (Fig. 4A).

    cos_memory, cos_reasoning   mean of cos(w_s, w_t) over distinct s, t of the group (raw)         [-1, 1]
    abs_cos                     mean |cos| over all distinct used tokens                            [0, 1]
    abs_cos_ratio               abs_cos / E|cos| of random vectors,
                                E|cos| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))                     > 0, random: 1
    order_rho                   Spearman(|s - t|, cos) over pairs of reasoning anchors              [-1, 1]
    pc1_key, pc1_reasoning      |Spearman(leading principal component, s)| within the group, the
                                component taken from all used tokens, centred                       [0, 1]
    own_pc1_key, own_pc1_...    the same with each group's own leading component                    [0, 1]
    participation               (sum l)^2 / sum l^2, l the spectrum of the centred covariance       [1, rank]
    participation_ratio         participation / the untrained twin's; nan without a twin            > 0
    theory                      Pearson(cos, Eq. 14's cos) over pairs of reasoning anchors          [-1, 1]

A value that nothing defines (one anchor only, zero vectors) is nan.

How it can mislead. At the task's quick sizes, final checkpoints: a network that learned the rule (gamma .8) reads
order_rho -.91 to -.95, theory .95 to .99, participation 4; one that did not (gamma .3) stays near random vectors, as an
untrained one does: abs_cos_ratio 1, participation 27. Both circuits of the rule order their tokens alike, so order is
no proof of a mechanism. With 5 anchors there are 10 pairs and 60 distinguishable orders: the null of order_rho has sd
.32, and pc1_reasoning, an absolute value, reads .42 by chance; its perfect 1 has p = .03. The pooled component may be
spent on telling keys from anchors: pc1_key .17 beside own_pc1_key .99 has been seen. Raw cosines near 1 follow from any
shared mean. theory is nearly order_rho again: any cosine that falls with distance correlates with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rb_interp.probes.attention_input import token_embeddings
from rb_interp.probes.capture import LensModel
from rb_interp.probes.check import check_layer_head, has_attention
from rb_interp.probes.reading import Null, Reading
from rb_interp.probes.vectors import (
    cosines,
    expected_abs_cos,
    mean_off_diagonal,
    pairs,
    participation,
    pearson,
    principal_components,
    ranks,
    row_correlations,
    spearman,
)
from rb_interp.tasks.roles import Roles
from rb_interp.theory.embeddings import theorem_1_embeddings

GROUPS = ("key", "memory_anchor", "reasoning_anchor")
"""Token groups in the order of the arrays ``tokens`` and ``group`` (0, 1, 2)."""
TIES = 12
"""Decimals of a cosine that rank it, so that equal cosines tie in spite of rounding."""
SHORT = 16
"""Positions over which normalised embeddings are averaged where no tokens say how long a row is, at most."""

Groups = Mapping[str, Int[np.ndarray, " n"]]


def geometry(
    model: LensModel,
    tokens: Any,
    roles: Roles,
    *,
    layer: int = 0,
    head: int = 0,
    twin: LensModel | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Read the embedding's geometry; ``tokens`` give a pre-norm model its length and may be None, ``roles`` the groups.

    Values as in the module's table. Arrays: cos_memory_matrix, cos_reasoning_matrix, cos_all_matrix, tokens, group,
    pca [token, 3], explained, theory_cos_matrix, pca_theory [token, 2], pca_theory_tokens, pca_theory_group.
    ``layer`` and ``head`` matter in pre-norm models alone: whose LayerNorm the embedding is seen through.
    Raises RolesError where a token group is missing, ModelError for a layer or head that is not there.
    """
    if has_attention(model):
        check_layer_head(model, layer, head, "geometry", twin)
    groups = {name: roles.group(name, "geometry") for name in GROUPS}
    used, length = used_tokens(groups)[0], SHORT if tokens is None else tokens.shape[1]
    embedding = _embedding(model, used, length, layer, head)
    values = geometry_values(embedding, groups, len(embedding))
    twin_values: dict[str, float] = {}
    if twin is not None:
        twin_values = {
            **geometry_values(_embedding(twin, used, length, layer, head), groups, len(embedding)),
            "participation_ratio": 1.0,
        }
        values["participation_ratio"] = values["participation"] / twin_values["participation"]
    rng = np.random.default_rng(seed)
    nulls = geometry_nulls(embedding, groups, len(embedding), n_null, rng) if n_null else {}
    if twin is not None and nulls:
        draws = nulls["participation"].draws / twin_values["participation"]
        nulls["participation_ratio"] = Null("random vectors", draws, "less")
    arrays = geometry_arrays(embedding, groups, len(embedding))
    return Reading("geometry", values, twin=twin_values, nulls=nulls, arrays=arrays)


def geometry_values(W_E: Float[np.ndarray, "d_vocab d_model"], groups: Groups, n_coordinates: int) -> dict[str, float]:
    """Every quantity of the module's table from an embedding matrix alone (participation_ratio: nan).

    >>> line = np.outer(np.arange(8.0) - 6, [1, 0]) + [0, 1]   # tokens on a straight line, in order
    >>> groups = {"key": np.arange(3), "memory_anchor": np.array([3, 4]), "reasoning_anchor": np.array([5, 6, 7])}
    >>> values = geometry_values(line, groups, 8)
    >>> round(values["pc1_key"], 6), round(values["participation"], 6)
    (1.0, 1.0)
    """
    used, _ = used_tokens(groups)
    key, memory, reasoning = (groups[name] for name in GROUPS)
    every, real = cosines(W_E[used]), cosines(W_E[reasoning])
    pooled = dict(zip(used.tolist(), principal_components(W_E[used])[0][:, 0], strict=True))
    abs_cos = mean_off_diagonal(np.abs(every))
    return {
        "cos_memory": mean_off_diagonal(cosines(W_E[memory])),
        "cos_reasoning": mean_off_diagonal(real),
        "abs_cos": abs_cos,
        "abs_cos_ratio": abs_cos / expected_abs_cos(W_E.shape[1]),
        "order_rho": spearman(pairs(_distance(reasoning)), pairs(real).round(TIES)),
        "pc1_key": abs(spearman(key, np.array([pooled[t] for t in key.tolist()]))),
        "pc1_reasoning": abs(spearman(reasoning, np.array([pooled[t] for t in reasoning.tolist()]))),
        "own_pc1_key": abs(spearman(key, principal_components(W_E[key])[0][:, 0])),
        "own_pc1_reasoning": abs(spearman(reasoning, principal_components(W_E[reasoning])[0][:, 0])),
        "participation": participation(W_E[used]),
        "participation_ratio": math.nan,
        "theory": pearson(pairs(_theory_cosines(reasoning, n_coordinates)), pairs(real)),
    }


def geometry_nulls(
    W_E: Float[np.ndarray, "d_vocab d_model"], groups: Groups, n_coordinates: int, n_null: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Nulls: the group's token values permuted (order_rho, pc1_*, own_pc1_*, theory), random vectors (the rest)."""
    used, _ = used_tokens(groups)
    key, reasoning = groups["key"], groups["reasoning_anchor"]
    real = pairs(cosines(W_E[reasoning]))
    orders = rng.permuted(np.tile(np.arange(len(reasoning)), (n_null, 1)), axis=1)
    rank_distance = _square(ranks(pairs(_distance(reasoning))), len(reasoning))
    order_rho = row_correlations(_permuted_pairs(rank_distance, orders), ranks(real.round(TIES)))
    theory = row_correlations(_permuted_pairs(_theory_cosines(reasoning, n_coordinates), orders), real)
    nulls = {
        "order_rho": Null("token values permuted", order_rho, "less"),
        "theory": Null("token values permuted", theory),
    }
    component = principal_components(W_E[used])[0][:, 0]
    place = {token: at for at, token in enumerate(used.tolist())}
    for name, group in (("pc1_key", key), ("pc1_reasoning", reasoning)):
        shuffled = rng.permuted(np.tile(ranks(group), (n_null, 1)), axis=1)
        within = ranks(component[[place[token] for token in group.tolist()]])
        nulls[name] = Null("token values permuted", np.abs(row_correlations(shuffled, within)))
        own = ranks(principal_components(W_E[group])[0][:, 0])
        nulls[f"own_{name}"] = Null("token values permuted", np.abs(row_correlations(shuffled, own)))
    random = _random_cosines(len(used), W_E.shape[1], n_null, rng)
    abs_cos = _mean_pairs(np.abs(random))
    nulls["abs_cos"] = Null("random vectors", abs_cos)
    nulls["abs_cos_ratio"] = Null("random vectors", abs_cos / expected_abs_cos(W_E.shape[1]))
    for name, n in (("cos_memory", len(groups["memory_anchor"])), ("cos_reasoning", len(reasoning))):
        nulls[name] = Null("random vectors", _mean_pairs(random[:, :n, :n]))
    nulls["participation"] = Null("random vectors", _participations(random), "less")
    return nulls


def _participations(gram: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    """Participation ratio of each set of vectors from their inner products, centred: (tr G)^2 / tr(G^2)."""
    centred = gram - gram.mean(1, keepdims=True) - gram.mean(2, keepdims=True) + gram.mean((1, 2), keepdims=True)
    return np.trace(centred, axis1=1, axis2=2) ** 2 / (centred**2).sum((1, 2))


def geometry_arrays(
    W_E: Float[np.ndarray, "d_vocab d_model"], groups: Groups, n_coordinates: int
) -> dict[str, np.ndarray]:
    """What Fig. 5 draws: cosine matrices, principal components, and Theorem 1's counterparts."""
    used, group = used_tokens(groups)
    key, memory, reasoning = (groups[name] for name in GROUPS)
    scores, explained = principal_components(W_E[used])
    ideal = [theorem_1_embeddings(key, n_coordinates, "key")]
    ideal.append(theorem_1_embeddings(reasoning, n_coordinates, "reasoning"))
    return {
        "cos_memory_matrix": cosines(W_E[memory]),
        "cos_reasoning_matrix": cosines(W_E[reasoning]),
        "cos_all_matrix": cosines(W_E[used]),
        "tokens": used,
        "group": group,
        "pca": _columns(scores, 3),
        "explained": explained,
        "theory_cos_matrix": _theory_cosines(reasoning, n_coordinates),
        "pca_theory": _columns(principal_components(np.concatenate(ideal))[0], 2),
        "pca_theory_tokens": np.concatenate([key, reasoning]),
        "pca_theory_group": np.repeat([0, 2], [len(key), len(reasoning)]),
    }


def used_tokens(groups: Groups) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """All tokens in use, keys, memory anchors, reasoning anchors in turn, and the group (0, 1, 2) of each."""
    sizes = [len(groups[name]) for name in GROUPS]
    return np.concatenate([groups[name] for name in GROUPS]), np.repeat(np.arange(len(GROUPS)), sizes)


def _embedding(
    model: LensModel, used: Int[np.ndarray, " token"], length: int, layer: int, head: int
) -> Float[np.ndarray, "d_vocab d_model"]:
    """W_E, with the used tokens as the first attention reads them (normalised, in a pre-norm model)."""
    embedding = model.W_E.detach().cpu().double().numpy().copy()
    embedding[used] = token_embeddings(model, used, min(length, model.cfg.n_ctx), layer, head)
    return embedding


def _distance(values: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n n"]:
    return np.abs(values[:, None] - values[None, :])


def _theory_cosines(values: Int[np.ndarray, " n"], n_coordinates: int) -> Float[np.ndarray, "n n"]:
    return cosines(theorem_1_embeddings(values, n_coordinates, "reasoning"))


def _columns(scores: Float[np.ndarray, "token component"], n: int) -> Float[np.ndarray, "token n"]:
    padded = np.zeros((len(scores), n))
    padded[:, : min(n, scores.shape[1])] = scores[:, :n]
    return padded


def _square(upper: Float[np.ndarray, " pair"], n: int) -> Float[np.ndarray, "n n"]:
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n, 1)] = upper
    return matrix + matrix.T


def _permuted_pairs(
    matrix: Float[np.ndarray, "n n"], orders: Int[np.ndarray, "draw n"]
) -> Float[np.ndarray, "draw pair"]:
    return pairs(matrix[orders[:, :, None], orders[:, None, :]])


def _random_cosines(n: int, d_model: int, n_null: int, rng: np.random.Generator) -> Float[np.ndarray, "draw n n"]:
    vectors = rng.standard_normal((n_null, n, d_model), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    return (vectors @ vectors.swapaxes(1, 2)).astype(np.float64)


def _mean_pairs(matrices: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    return pairs(matrices).mean(1) if matrices.shape[-1] > 1 else np.full(len(matrices), np.nan)
