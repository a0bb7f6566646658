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

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import entr

from rb_interp.errors import ModelError
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import Found, check_layer_head, check_rows, drawn_once, pattern, probe
from rb_interp.probes.capturing import read
from rb_interp.statistics.nulls import dirichlet_rows
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads

__all__ = ["average_operator", "distance_from_uniform", "relative_entropy", "uniformity", "uniformity_of_heads"]

Pattern = Float[np.ndarray, "row query key"]
Mask = Bool[np.ndarray, "row pos"]
MAX_PATTERN = 2**20
"""Squared positions of one pass, at most: patterns of all heads are held at once."""


@probe(pattern)
def uniformity(pattern: Pattern, inputs: Inputs) -> Found:
    """How far one head's attention is from uniform, on the given rows.

    Values: ``tv`` in [0, 1], the mean of TV_i over inputs and rows 2..L (0: the average operator); ``max_deviation``,
    the largest abs(A_ij - 1/i) of any input; ``entropy``, the mean of H_i / ln i (1: uniform). Arrays: ``tv_per_row``
    ``[L - 1]`` and ``mean_pattern`` ``[L, L]``, means over inputs. Null of ``tv``: random patterns, side less.
    Source: paper 1, Lemma 1 and Fig. 6.

    Args:
        inputs: rows of two positions or more, else ModelError; roles and labels are not needed.
    """
    values, arrays = summarise(pattern)
    length = pattern.shape[-1]
    return Found(values, lambda n_null, seed: {"tv": simplex_null(length, n_null, seed)}, arrays, len(inputs))


def average_operator(length: int) -> Float[np.ndarray, "query key"]:
    """The causal pattern that attends uniformly: 1/i on each of the first i positions.

    >>> average_operator(2).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    return np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]


def distance_from_uniform(pattern: Pattern) -> Float[np.ndarray, "row query"]:
    """Total variation distance of every query's attention from 1/i, in [0, 1]; the first query's is 0.

    Raises ModelError for a single position.
    """
    if pattern.shape[-1] < 2:
        raise ModelError("uniformity got rows of 1 position; give at least 2, since the first has no choice.")
    return np.abs(pattern - average_operator(pattern.shape[-1])).sum(-1) / 2


def relative_entropy(pattern: Pattern) -> Float[np.ndarray, "row query-1"]:
    """Entropy of queries 2..L over ln i: 1 is uniform on what a causal query sees, 0 looks at one position."""
    length = pattern.shape[-1]
    return entr(pattern[:, 1:]).sum(-1) / np.log(np.arange(2, length + 1))


def summarise(pattern: Pattern, counted: Mask | None = None) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Values and arrays of the reading, from the patterns of one head on every row and the queries that count.

    ``tv_per_row`` is NaN for a query that counts in no row.
    """
    counted = np.ones(pattern.shape[:2], dtype=bool) if counted is None else counted
    chosen, distance = counted[:, 1:], distance_from_uniform(pattern)[:, 1:]
    deviation = np.abs(pattern - average_operator(pattern.shape[-1])).max(-1)
    values = {
        "tv": float(distance[chosen].mean()),
        "max_deviation": float(deviation[counted].max()),
        "entropy": float(relative_entropy(pattern)[chosen].mean()),
    }
    n = chosen.sum(0)
    per_row = np.where(n > 0, (distance * chosen).sum(0) / np.maximum(n, 1), np.nan)
    return values, {"tv_per_row": per_row, "mean_pattern": pattern.mean(0)}


@drawn_once
def simplex_null(length: int, n_null: int, seed: int) -> Null:
    """TV of patterns whose rows are uniform on the simplex, one pattern for all inputs."""
    total, rng = np.zeros(n_null), np.random.default_rng(seed)
    for i in range(2, length + 1):
        total += np.abs(dirichlet_rows(n_null, i, rng) - 1 / i).sum(1) / 2
    return Null("attention rows drawn uniformly from the simplex", total / (length - 1), side="less")


@few_threads
def uniformity_of_heads(
    model: HookedModel, inputs: Inputs, *, layers: Iterable[int], counted: Mask | None = None
) -> list[Reading]:
    """`uniformity` of every head of some layers in one pass, without nulls, and of its arrays ``tv_per_row`` alone.

    Args:
        counted: queries that are text, where rows are filled up behind their end; what fills a row is no query. By
            default all.

    Raises ModelError as `uniformity` does.
    """
    rows, hooks = check_rows(inputs, "uniformity"), {layer: f"blocks.{layer}.attn.hook_pattern" for layer in layers}
    for layer in hooks:
        check_layer_head(model, layer, None, "uniformity")
    cache = read(model, rows, list(hooks.values()), batch=max(1, MAX_PATTERN // rows.shape[1] ** 2))
    readings = []
    for layer, name in hooks.items():
        for head in range(model.cfg.n_heads):
            values, arrays = summarise(cache[name][:, head].double().numpy(), counted)
            del arrays["mean_pattern"]
            readings.append(Reading("uniformity", values, layer, head, arrays=arrays, n=len(rows)))
    return readings
