r"""Does a head attend uniformly to everything it can see?  (paper 1, Lemma 1 and Fig. 6: "average operator")

Query i (counted from 1) of the average operator puts 1/i on each of positions 1..i. The distance of a pattern from it:

    TV_i = 1/2 sum_j |A_ij - 1/i|      entropy_i = -sum_j A_ij ln A_ij / ln i      for i = 2..L  (i = 1 has no choice)

How it can mislead. A trained averaging head reads TV near 0 (claim M1 asks for at most .10) and entropy near 1. A head
that looks at one position reads 1 - 1/i, .77 on average over i = 2..9; a fixed pattern drawn at random reads
(1 - 1/i)^i, about .32. But an *untrained* model of small initialisation also reads 0 (Lemma 1), a larger one too where
no LayerNorm precedes the attention: uniform attention shows a circuit only together with a loss that has fallen, and
against a model of larger initialisation. The converse holds as well: a head may average when the circuit forms and
sharpen later, so say at which step. Uniform attention also says nothing about what is averaged; see value_alignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import entr

from rb_interp.errors import ModelError
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import capture
from rb_interp.probes.check import check_layer_head, check_rows
from rb_interp.probes.pattern import pattern_reading
from rb_interp.probes.source import Source
from rb_interp.statistics.nulls import dirichlet_rows
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["average_operator", "distance_from_uniform", "relative_entropy", "uniformity", "uniformity_of_heads"]

Pattern = Float[np.ndarray, "row query key"]
MAX_PATTERN = 2**20
"""Squared positions of one pass, at most: patterns of all heads are held at once."""


def average_operator(length: int) -> Float[np.ndarray, "query key"]:
    """The causal pattern that attends uniformly: 1/i on each of the first i positions.

    >>> average_operator(2).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    return np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]


def distance_from_uniform(pattern: Pattern) -> Float[np.ndarray, "row query"]:
    """Total variation distance of every query's attention from 1/i, in [0, 1]; the first query's is 0.

    Raises ModelError for a single position.

    >>> distance_from_uniform(np.array([[[1.0, 0.0], [0.8, 0.2]]])).round(3).tolist()
    [[0.0, 0.3]]
    """
    if pattern.shape[-1] < 2:
        raise ModelError("uniformity got rows of 1 position; give at least 2, since the first has no choice.")
    return np.abs(pattern - average_operator(pattern.shape[-1])).sum(-1) / 2


def relative_entropy(pattern: Pattern) -> Float[np.ndarray, "row query-1"]:
    """Entropy of queries 2..L over ln i: 1 is uniform on what a causal query sees, 0 looks at one position."""
    length = pattern.shape[-1]
    return entr(pattern[:, 1:]).sum(-1) / np.log(np.arange(2, length + 1))


def summarise(pattern: Pattern) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Values and arrays of the reading, from the patterns of one head on every row."""
    distance = distance_from_uniform(pattern)[:, 1:]
    values = {
        "tv": float(distance.mean()),
        "max_deviation": float(np.abs(pattern - average_operator(pattern.shape[-1])).max()),
        "entropy": float(relative_entropy(pattern).mean()),
    }
    return values, {"tv_per_row": distance.mean(0), "mean_pattern": pattern.mean(0)}


def simplex_null(length: int, n_null: int, rng: np.random.Generator) -> Null:
    """TV of patterns whose rows are uniform on the simplex.

    Each draw is *one* pattern for all inputs, as attention by position would be: drawing anew for every input would
    average the chance away and call any pattern significant.
    """
    total = np.zeros(n_null)
    for i in range(2, length + 1):
        total += np.abs(dirichlet_rows(n_null, i, rng) - 1 / i).sum(1) / 2
    return Null("attention rows drawn uniformly from the simplex", total / (length - 1), side="less")


@lru_cache(maxsize=8)
def _null_of_seed(length: int, n_null: int, seed: int) -> Null:
    """The same null for every model, drawn once."""
    null = simplex_null(length, n_null, np.random.default_rng(seed))
    null.draws.setflags(write=False)
    return null


@typed
@few_threads
def uniformity(
    model: Source,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """How far one head's attention is from uniform, on the given rows.

    Values: ``tv`` in [0, 1], the mean of TV_i over inputs and rows 2..L (0: the average operator); ``max_deviation``,
    the largest abs(A_ij - 1/i) of any input; ``entropy``, the mean of H_i / ln i (1: uniform). Arrays: ``tv_per_row``
    ``[L - 1]`` and ``mean_pattern`` ``[L, L]``, means over inputs. Null of ``tv``: random patterns, side less.
    Source: paper 1, Lemma 1 and Fig. 6.

    Args:
        model: a model, or the cache of these rows that ``captured`` gives.
        inputs: rows of two positions or more; roles and labels are not needed.
        layer, head: the head that is read, both counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.

    Raises:
        ModelError: for a layer or head that is not there, and for rows of a single position.
    """

    def nulls(pattern: Pattern) -> dict[str, Null]:
        return {"tv": _null_of_seed(pattern.shape[-1], n_null, seed)} if n_null else {}

    return pattern_reading(
        "uniformity", model, inputs, layer=layer, head=head, untrained=untrained, measure=summarise, nulls=nulls
    )


@few_threads
def uniformity_of_heads(
    model: HookedModel, inputs: Inputs, *, layers: Iterable[int], counted: Bool[np.ndarray, "row pos"] | None = None
) -> list[Reading]:
    """`uniformity` of every head of some layers in one pass, without nulls, and of its arrays ``tv_per_row`` alone.

    Args:
        counted: queries that are text, where rows are filled up behind their end; what fills a row is no query. By
            default all.

    Raises ModelError as `uniformity` does.
    """
    rows, places, n_heads = check_rows(inputs, "uniformity"), list(layers), model.cfg.n_heads
    for layer in places:
        check_layer_head(model, layer, None, "uniformity")
    kept = np.ones(rows.shape, dtype=bool) if counted is None else counted
    hooks = {layer: f"blocks.{layer}.attn.hook_pattern" for layer in places}
    found = capture(model, rows, list(hooks.values()), batch=max(1, MAX_PATTERN // rows.shape[1] ** 2))
    readings = []
    for layer, name in hooks.items():
        for head in range(n_heads):
            values, per_row = _summarise_counted(found[name][:, head].double().numpy(), kept[:, 1:])
            readings.append(Reading("uniformity", values, layer, head, arrays={"tv_per_row": per_row}, n=len(rows)))
    return readings


def _summarise_counted(
    pattern: Pattern, counted: Bool[np.ndarray, "row query-1"]
) -> tuple[dict[str, float], Float[np.ndarray, " query-1"]]:
    """Values of the reading over the counted queries 2..L; TV of each query, nan where none counts."""
    distance = distance_from_uniform(pattern)[:, 1:]
    deviation = np.abs(pattern - average_operator(pattern.shape[-1]))[:, 1:].max(-1)
    values = {
        "tv": float(distance[counted].mean()),
        "max_deviation": float(deviation[counted].max()),
        "entropy": float(relative_entropy(pattern)[counted].mean()),
    }
    n = counted.sum(0)
    return values, np.where(n > 0, (distance * counted).sum(0) / np.maximum(n, 1), np.nan)
