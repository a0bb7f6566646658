r"""How far is a head's attention from an average?  (paper 1, Lemma 1 and Fig. 6)

Query i (counted from 1) of the average operator puts 1/i on each of positions 1..i. The distance of
a pattern from it:

    TV_i = 1/2 sum_j |A_ij - 1/i|      entropy_i = -sum_j A_ij ln A_ij / ln i      for i = 2..L  (i = 1 has no choice)

Where attention looks both ways every query sees all L positions, and 1/L stands for 1/i, for i =
1..L. Local attention sees its window. A query that attends to nothing is padding: it does not
count, and i counts no position of it.

How it can mislead. A trained averaging head reads TV near 0 (claim M1 asks for at most .10) and
entropy near 1. A head that looks at one position reads 1 - 1/i, .77 on average over i = 2..9; a
fixed pattern drawn at random reads (1 - 1/i)^i, about .32. But an *untrained* model of small
initialisation also reads 0 (Lemma 1), a larger one too where no LayerNorm precedes the attention:
uniform attention shows a circuit only together with a loss that has fallen. A head may average when
the circuit forms and sharpen later, so say at which step. What is averaged, value_alignment tells.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from jaxtyping import Bool
from scipy.special import entr

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.models.arrays import ActivationSource
from rb_interp.probes._core import HeadAttention, Measurement, read_head
from rb_interp.statistics.nulls import dirichlet_rows
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs


@checked
@single_threaded
def uniformity(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    queries: Bool[np.ndarray, "row pos"] | None = None,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """How far one head's attention is from uniform, on the given rows.

    Values: ``tv`` in [0, 1] and ``entropy`` (1: uniform), means over inputs and queries;
    ``max_deviation``, the largest abs(A_ij - 1/i) of any input. Arrays: ``tv_per_row`` ``[L - 1]``
    (``[L]`` if attention looks both ways), NaN for a query that counts in no row, and
    ``mean_pattern`` ``[L, L]``, means over inputs. Null of ``tv``: random patterns.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows of two positions or more, else ModelError; roles and labels are not needed.
        layer, head: numbers, counted from 0.
        queries: mask of those that are text, for rows that are filled up behind their end; what fills a
            row is no query. By default all.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of the null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, and if no query has a choice.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> reading = uniformity(model, data.inputs(data.rows("rsn_test")), n_null=0)
    >>> reading.values["tv"] < 0.05  # as Lemma 1 says of a small start
    True
    """
    measure = partial(distance_from_average, queries=queries)
    return read_head("uniformity", model, inputs, layer, head, measure, untrained, n_null, seed)


def distance_from_average(
    attention: HeadAttention, queries: Bool[np.ndarray, "row pos"] | None = None
) -> Measurement:
    """The values of `uniformity`, read from a head's pattern."""
    pattern = attention.pattern
    queries = attention.attends if queries is None else attention.attends & queries
    mask = attention.visible & attention.attends[:, None]
    sizes = np.where(queries, np.maximum(mask.sum(-1), 1), 1)
    choosing = attention.visible.sum(1) > 1
    choices = (sizes > 1)[:, choosing]
    if not choices.any():
        raise ModelError(
            f"uniformity got {len(pattern)} rows in which no query that counts attends to anything "
            f"and has a choice."
        )
    deviation = np.abs(pattern - mask / sizes[..., None])
    distance = deviation[:, choosing].sum(-1) / 2
    largest_entropy = np.log(np.maximum(sizes[:, choosing], 2))
    entropy = entr(pattern[:, choosing]).sum(-1) / largest_entropy
    values = {
        "tv": float(distance[choices].mean()),
        "max_deviation": float(deviation.max(-1)[queries].max()),
        "entropy": float(entropy[choices].mean()),
    }
    count = choices.sum(0)
    per_row = np.where(count > 0, (distance * choices).sum(0) / np.maximum(count, 1), np.nan)
    counting = np.maximum(queries.sum(0), 1)[:, None]
    mean_pattern = np.einsum("rqk,rq->qk", pattern, queries) / counting
    arrays = {"tv_per_row": per_row, "mean_pattern": mean_pattern}
    total = sizes.sum(1)
    common_sizes = sizes[np.abs(total - total.mean()).argmin()]  # of a row with the usual padding
    nulls = partial(simplex_null, tuple(common_sizes[common_sizes > 1].tolist()))
    return Measurement(values, nulls, arrays, len(pattern))


@lru_cache(maxsize=64)  # heads share it
def simplex_null(sizes: tuple[int, ...], n_null: int, seed: int) -> dict[str, Null]:
    """TV of patterns whose rows are uniform on the simplex of what each query sees.

    One pattern serves all inputs.
    """
    rng = np.random.default_rng(seed)
    total = np.zeros(n_null)
    for size in sizes:
        total += np.abs(dirichlet_rows(n_null, size, rng) - 1 / size).sum(1) / 2
    text = "attention rows drawn uniformly from the simplex"
    return {"tv": Null(text, total / len(sizes), "less")}
