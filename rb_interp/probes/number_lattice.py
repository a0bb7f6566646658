r"""How are tokens that stand for numbers laid out in the embedding?  (paper 2, Figs. 5c, 5d, 11, 12 and 16)

Tokens s, in ascending order and n of them, with embeddings w_s less their mean; c_s,t the cosine of s and t:

    cos_k          C(k) = mean of c_s,s+k over all s                    for k = 1 to 10    [-1, 1]
    contrast       mean of C over the steps less mean of C(first - 1) and C(last + 1)      [-2, 2]
    nearest        share of tokens whose nearest token, by cos, is one of the steps away   [0, 1]
    pc_order       max over the first three principal components of |Spearman(score, s)|   [0, 1]
    participation  (sum l)^2 / sum l^2 of the spectrum of their covariance                 [1, min(n - 1, d_model)]
    log_participation     its natural logarithm
    participation_ratio   participation / the untrained model's; nan without an untrained model

``steps`` are 3 and 4 unless others are given: the differences of paper 2's anchors are sums of 3s and 4s. A token's
number is its id.

How it can mislead. Tokens on a line or a circle in order: pc_order near 1, nearest 0, contrast about 0. A lattice of
period 3.5 with a slower change beside it: nearest 1, contrast up to 1. An untrained model: contrast 0 and nearest near
4 / (n - 1), .05 for 80 tokens, as their nulls; but pc_order .17 for 80 tokens, since it is the largest of three
absolute correlations. contrast > 0 alone says little: wherever C(k) bends downwards, as on a circle, C(3) and C(4) lie
above the mean of C(2) and C(5) without any steps. nearest does not: but it misses a lattice without a slower change,
whose tokens are nearest to those a whole period away, 7 for 3.5, and one beside a large slower change, whose nearest
are 1 away. Where several tokens are equally near, the lowest one counts, after rounding to 12 decimals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ModelError, RolesError, shown
from rb_interp.models.protocol import hooked
from rb_interp.probes.check import undefined
from rb_interp.probes.groups import token_groups
from rb_interp.probes.ranks import gaussian_participations
from rb_interp.probes.source import Source, model_of
from rb_interp.probes.token_typing import token_vectors
from rb_interp.probes.vectors import cosines, participation, principal_components, spearman
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

LAGS, COMPONENTS, TIES = 10, 3, 12
MOST_STEP = 1000
UNDEFINED = {
    "participation_ratio": "no untrained model was given, or its own participation is not defined.",
    "": "the tokens are too few, or their embeddings are zero or all the same.",
}
Vectors = Float[np.ndarray, "token d_model"]


@typed
@few_threads
def lattice(
    model: Source,
    inputs: Inputs | None = None,
    *,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    tokens: Any = "key",
    steps: Sequence[int] = (3, 4),
) -> Reading:
    """Order of some tokens' embeddings: by distance, by principal component, and how many directions they use.

    Values as in the module's table; nan for what fewer tokens than it needs leave undefined. Nulls: tokens permuted
    (cos_k, contrast, nearest, pc_order), and independent Gaussian vectors (participation). Arrays: tokens, and pca
    ``[token, 3]``, scores on the first three components.

    Args:
        inputs: their roles give the tokens of a role; not needed where ``tokens`` are ids.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        tokens: token ids, or the name of a group of the roles.
        steps: the distances that ``contrast`` and ``nearest`` ask about, from 2 to 1,000.

    Raises:
        RolesError: for a group of tokens that is not there, and for steps out of range.
        ModelError: for tokens that the model does not have.
    """
    if not steps or min(steps) < 2 or max(steps) > MOST_STEP:
        raise RolesError(f"lattice got steps={shown(steps)}; give whole numbers from 2 to {MOST_STEP}, such as (3, 4).")
    for given in (model, *(() if untrained is None else (untrained,))):
        hooked(given, "lattice", caches=True)
    ids = token_groups({"tokens": tokens}, Roles() if inputs is None else inputs.roles, "lattice")["tokens"]
    ids = np.unique(ids)
    d_vocab = len(model_of(model).W_E)
    if not len(ids) or not 0 <= ids[0] <= ids[-1] < d_vocab:
        got = f"tokens from {ids[0]} to {ids[-1]}" if len(ids) else "no tokens"
        raise ModelError(f"lattice got {got}; give some of this model's tokens, 0 to {d_vocab - 1}.")
    vectors = token_vectors(model, ids)
    values, before = lattice_values(vectors, ids, steps), {}
    if untrained is not None:
        before = lattice_values(token_vectors(untrained, ids), ids, steps) | {"participation_ratio": 1.0}
        values["participation_ratio"] = values["participation"] / before["participation"]
    nulls = _nulls(vectors, ids, steps, n_null, np.random.default_rng(seed)) if n_null else {}
    scores = np.zeros((len(ids), COMPONENTS))
    found = principal_components(vectors)[0][:, :COMPONENTS]
    scores[:, : found.shape[1]] = found
    notes = undefined(values, model, UNDEFINED, before, untrained)
    arrays = {"tokens": ids, "pca": scores}
    return Reading("lattice", values, untrained=before, nulls=nulls, arrays=arrays, notes=notes)


def lattice_values(vectors: Vectors, ids: Int[np.ndarray, " token"], steps: Sequence[int]) -> dict[str, float]:
    """The quantities of the module's table from embeddings alone (participation_ratio: nan).

    >>> line = np.outer(np.arange(8.0), [1, 0])
    >>> values = lattice_values(line, np.arange(8), (3, 4))
    >>> round(values["pc_order"], 6), round(values["participation"], 6), values["nearest"]
    (1.0, 1.0, 0.25)
    """
    cos, scores = _cosines(vectors), principal_components(vectors)[0][:, :COMPONENTS]
    spread = participation(vectors)
    order = [abs(spearman(ids, component)) for component in scores.T]
    return {
        **_laid_out(cos, ids, steps),
        "pc_order": max((each for each in order if math.isfinite(each)), default=math.nan),
        "participation": spread,
        "log_participation": math.log(spread) if spread > 0 else math.nan,
        "participation_ratio": math.nan,
    }


def _cosines(vectors: Vectors) -> Float[np.ndarray, "token token"]:
    """Cosines of centred vectors, rounded so that equal ones tie."""
    if not np.isfinite(vectors).all():
        return np.full((len(vectors), len(vectors)), np.nan)
    return cosines(vectors - vectors.mean(0)).round(TIES)


def _laid_out(
    cos: Float[np.ndarray, "token token"], ids: Int[np.ndarray, " token"], steps: Sequence[int]
) -> dict[str, float]:
    """C(k), contrast and nearest from cosines of tokens with the given numbers."""
    apart = np.abs(ids[:, None] - ids)
    by_lag = {lag: _mean(cos[np.triu(apart == lag)]) for lag in range(1, max(LAGS, max(steps) + 1) + 1)}
    beside = (min(steps) - 1, max(steps) + 1)
    others = np.where(np.eye(len(cos), dtype=bool), -np.inf, cos)
    nearest = apart[np.arange(len(ids)), others.argmax(1)]
    known = len(ids) > 1 and np.isfinite(cos).all()
    return {
        **{f"cos_{lag}": by_lag[lag] for lag in range(1, LAGS + 1)},
        "contrast": _mean(np.array([by_lag[k] for k in steps])) - _mean(np.array([by_lag[k] for k in beside])),
        "nearest": float(np.isin(nearest, steps).mean()) if known else math.nan,
    }


def _nulls(
    vectors: Vectors, ids: Int[np.ndarray, " token"], steps: Sequence[int], n_null: int, rng: np.random.Generator
) -> dict[str, Null]:
    cos, scores = _cosines(vectors), principal_components(vectors)[0][:, :COMPONENTS]
    drawn = []
    for order in permutations(n_null, len(ids), rng):
        among = [abs(spearman(ids, component[order])) for component in scores.T]
        best = max((each for each in among if math.isfinite(each)), default=math.nan)
        drawn.append({**_laid_out(cos[np.ix_(order, order)], ids, steps), "pc_order": best})
    nulls = {name: Null("tokens permuted", np.array([one[name] for one in drawn])) for name in drawn[0]}
    gaussian = gaussian_participations(n_null, len(ids), vectors.shape[1], rng)
    return nulls | {"participation": Null("random vectors", gaussian, "less")}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan
