r"""Layout of the embeddings of tokens that stand for numbers.

`lattice` (paper 2, Figs. 5c, 5d, 11, 12 and 16). Tokens s, in ascending order and n of them, with
embeddings w_s less their mean; c_s,t the cosine of s and t:

    cos_k          C(k) = mean of c_s,s+k over all s                    for k = 1 to 10    [-1, 1]
    contrast       mean of C over the steps less mean of C(first - 1) and C(last + 1)      [-2, 2]
    nearest        share of tokens whose nearest token, by cos, is one of the steps away   [0, 1]
    pc_order       max over the first three principal components of |Spearman(score, s)|   [0, 1]
    participation  (sum l)^2 / sum l^2 of the spectrum of their covariance                 [1, min(n - 1, d_model)]
    log_participation     its natural logarithm
    participation_ratio   participation / the untrained model's; nan without an untrained model

``steps`` are 3 and 4 unless others are given: the differences of paper 2's anchors are sums of 3s
and 4s. A token's number is its id.

How it can mislead. Tokens on a line or a circle in order: pc_order near 1, nearest 0, contrast
about 0. A lattice of period 3.5 with a slower change beside it: nearest 1, contrast up to 1. An
untrained model: contrast 0 and nearest near 4 / (n - 1), as their nulls; but pc_order .17 for 80
tokens, since it is the largest of three absolute correlations. contrast > 0 alone says little:
wherever C(k) bends downwards, as on a circle, C(3) and C(4) lie above the mean of C(2) and C(5).
nearest misses a lattice without a slower change, whose tokens are nearest to those a whole period
away, and one beside a large slower change, whose nearest are 1 away. Of equally near tokens the
lowest counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ModelError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes._geometry import (
    RATIO_REASON,
    TIES,
    first_columns,
    with_participation_ratios,
)
from rb_interp.probes.activations import check_rows
from rb_interp.probes.embeddings import (
    Embeddings,
    cosines,
    gaussian_participations,
    participation,
    principal_components,
    spearman,
    token_groups,
    token_vectors,
)
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs, Roles

LAGS = 10
"""Distances k for which C(k) is a value."""
COMPONENTS = 3
TokenIds = Int[np.ndarray, " token"]
Scores = Float[np.ndarray, "token component"]
REASONS = {
    **RATIO_REASON,
    "": "the tokens are too few, or their embeddings are zero or all the same.",
}


@checked
@single_threaded
def lattice(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    tokens: str | Sequence[int] | np.ndarray = "key",
    steps: Sequence[int] = (3, 4),
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Order of some tokens' embeddings by distance and component, and their number of directions.

    Values as in the module's table; nan for what fewer tokens than it needs leave undefined. Nulls:
    tokens permuted, and independent Gaussian vectors (participation). Arrays: tokens, and pca
    ``[token, 3]``, scores on the first three components.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: their roles give the tokens of a role; not needed if ``tokens`` are ids.
        tokens: token ids, or the name of a group of the roles.
        steps: the distances that ``contrast`` and ``nearest`` ask about, from 2 to d_vocab - 1.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises RolesError for a group of tokens that does not exist, ModelError for tokens that the
    model does not have, ArgumentError for steps outside their range.

    >>> from rb_interp import AnchorTask, build_model
    >>> reading = lattice(build_model(AnchorTask(), gamma=0.5), tokens=range(20, 40), n_null=0)
    >>> list(reading.values)[-3:]
    ['participation', 'log_participation', 'participation_ratio']
    """
    roles = Roles()
    if inputs is not None:
        check_rows(inputs, "lattice")
        roles = inputs.roles
    ids = np.unique(token_groups({"tokens": tokens}, roles, "lattice")["tokens"])

    def measure(source: ActivationSource) -> Measurement:
        d_vocab = len(model_of(source).W_E)
        if not len(ids) or not 0 <= ids[0] <= ids[-1] < d_vocab:
            got = f"tokens from {ids[0]} to {ids[-1]}" if len(ids) else "no tokens"
            raise ModelError(
                f"lattice got {got}; give some of this model's tokens, 0 to {d_vocab - 1}."
            )
        if not steps or min(steps) < 2 or max(steps) >= d_vocab:
            raise ArgumentError(
                f"lattice got steps={tuple(steps)}; give one or more distances between tokens, each "
                f"from 2 to {d_vocab - 1}."
            )
        return layout_of(token_vectors(source, ids), ids, steps)

    reading = read_model("lattice", model, measure, untrained, n_null, seed, REASONS)
    return with_participation_ratios(reading)


def layout_of(vectors: Embeddings, ids: TokenIds, steps: Sequence[int]) -> Measurement:
    """The values of `lattice` (participation_ratio: nan), read from the tokens' embeddings."""
    cos = cosines(vectors - vectors.mean(0)).round(TIES)
    scores = principal_components(vectors)[0][:, :COMPONENTS]
    spread = participation(vectors)
    values = order_values(cos, scores, ids, steps)
    values["participation"] = spread
    values["log_participation"] = math.log(spread) if spread > 0 else math.nan
    values["participation_ratio"] = math.nan
    arrays = {"tokens": ids, "pca": first_columns(scores, COMPONENTS)}

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        draws = []
        for order in permutations(n_null, len(ids), rng):
            draws.append(order_values(cos[np.ix_(order, order)], scores[order], ids, steps))
        nulls = {}
        for name in draws[0]:
            nulls[name] = Null("tokens permuted", np.array([draw[name] for draw in draws]))
        gaussian = gaussian_participations(n_null, len(ids), vectors.shape[1], rng)
        return nulls | {"participation": Null("random vectors", gaussian, "less")}

    return Measurement(values, draw_nulls, arrays)


def order_values(
    cos: Float[np.ndarray, "token token"],
    scores: Scores,
    ids: TokenIds,
    steps: Sequence[int],
) -> dict[str, float]:
    """C(k), contrast, nearest and pc_order of numbered tokens."""
    distance = np.abs(ids[:, None] - ids)
    by_lag = {}
    for lag in range(1, max(LAGS, max(steps) + 1) + 1):
        by_lag[lag] = _mean(cos[np.triu(distance == lag)])
    within = np.array([by_lag[step] for step in steps])
    beside = np.array([by_lag[min(steps) - 1], by_lag[max(steps) + 1]])
    values = {f"cos_{lag}": by_lag[lag] for lag in range(1, LAGS + 1)}
    values["contrast"] = _mean(within) - _mean(beside)
    values["nearest"] = math.nan
    if len(ids) > 1 and np.isfinite(cos).all():
        off_diagonal = np.where(np.eye(len(cos), dtype=bool), -np.inf, cos)
        to_nearest = distance[np.arange(len(ids)), off_diagonal.argmax(1)]
        values["nearest"] = float(np.isin(to_nearest, steps).mean())
    order = [abs(spearman(ids, score)) for score in scores.T]
    values["pc_order"] = max(filter(math.isfinite, order), default=math.nan)
    return values


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan
