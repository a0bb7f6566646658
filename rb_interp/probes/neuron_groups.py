r"""Do a matrix's neurons point in a few directions?  (paper 2, Figs. 5a, 5b, 10 and 15)

The neurons of a matrix W, in the convention x W, are its columns: the input weights of each output. Over pairs of
distinct neurons,

    share_W       share of pairs with cos > .7                                              [0, 1]
    share_abs_W   share of pairs with |cos| > .7, so that opposite neurons count as well    [0, 1]
    abs_cos_W     mean |cos|                                                                [0, 1]
    groups_W      number of groups by cosine                                                [1, neurons]
    largest_W     share of the neurons that are in the largest group                        (0, 1]

A group is formed around the neuron with the most others at cos > .7 among those that are left, and takes these others;
then the next, until none is left (after Figs. 10 and 15). Heads are joined, see ``weight_spectra``: the neurons of W_Q,
W_K and W_V are those of all heads.

Null: the shares of a Gaussian matrix of the same shape, which is what every initialisation draws. Its directions are
uniform, and cosines of distinct pairs are independent of each other two by two. So the number of pairs above .7 has the
mean and the variance of a binomial one with p = P(|cos| > .7), and is drawn from that. The mean |cos| is
``vectors.expected_abs_cos`` of the number of inputs.

How it can mislead. Neurons in two directions read a share near 1/2, in one direction 1. An untrained model reads its
null: nearly 0 from 16 dimensions on, where p is .002 (9e-11 in 64). A true model of a few directions can read 0
too: x W_Q R W_K^T R^-T is the same attention for any invertible R, and a random R spreads the neurons of W_Q over all
directions of its span. So condensation of W_Q, W_K, W_V, W_O says how training moved, not what the model computes.
A span of k dimensions lets random neurons read P(|cos| > .7) in k dimensions: .51 for two, .30 for three, .08 for
six. So a low rank alone gives a large share, and the share is no evidence of discrete directions on its own. Neurons
that are nearly zero have a direction as well, and count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from rb_interp.errors import ModelError, nearest
from rb_interp.probes.check import check_layer_head, undefined
from rb_interp.probes.source import Source
from rb_interp.probes.spectra import Matrix, layer_matrices
from rb_interp.probes.vectors import cosines, pairs
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

ALIKE = 0.7
"""Cosine above which two neurons count as condensed; the paper's."""


@typed
@few_threads
def condensation(
    model: Source,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    matrices: Sequence[str] = ("W_Q",),
) -> Reading:
    """How far the neurons of some matrices of a layer point in the same directions.

    Values as in the module's table; nan where fewer than two neurons are not zero. Nulls: a Gaussian matrix of the same
    shape (share_W, share_abs_W). Arrays: cosines_W ``[neuron, neuron]``, neurons sorted by group, the largest group
    first, and group_W, the group of each sorted neuron.

    Args:
        inputs: not looked at, since the probe reads weights alone.
        layer: the layer, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        matrices: names among W_Q, W_K, W_V, W_O, W_in, W_out.

    Raises:
        ModelError: for a layer or a matrix that is not there.
    """
    check_layer_head(model, layer, None, "condensation", untrained, caches=True)
    now = _chosen(model, layer, matrices)
    before = {} if untrained is None else _chosen(untrained, layer, matrices)
    values, first, nulls, arrays, rng = {}, {}, {}, {}, np.random.default_rng(seed)
    for name, matrix in now.items():
        cos, groups = _grouped(matrix)
        values |= _named(name, cos, groups)
        arrays |= {f"cosines_{name}": cos, f"group_{name}": groups}
        if n_null:
            nulls |= {f"{what}_{name}": null for what, null in gaussian_shares(matrix.shape, n_null, rng).items()}
    for name, matrix in before.items():
        first |= _named(name, *_grouped(matrix))
    notes = undefined(values, model, "fewer than two neurons are not zero.", first, untrained)
    return Reading("condensation", values, layer=layer, untrained=first, nulls=nulls, arrays=arrays, notes=notes)


def condensed_shares(cos: Float[np.ndarray, "neuron neuron"]) -> tuple[float, float]:
    """Share of pairs with cos > .7, and with |cos| > .7; pairs with a neuron of zeros do not count.

    >>> condensed_shares(np.array([[1.0, 0.9, -0.8], [0.9, 1.0, 0.0], [-0.8, 0.0, 1.0]]))
    (0.3333333333333333, 0.6666666666666666)
    """
    found = pairs(cos)
    found = found[np.isfinite(found)]
    if not len(found):
        return math.nan, math.nan
    return float((found > ALIKE).mean()), float((np.abs(found) > ALIKE).mean())


def cosine_groups(cos: Float[np.ndarray, "neuron neuron"]) -> Int[np.ndarray, " neuron"]:
    """The group of each neuron, numbered from 0 in the order in which they are formed, so by size.

    >>> cosine_groups(np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.0], [0.9, 0.0, 1.0]])).tolist()
    [0, 1, 0]
    """
    alike = (cos > ALIKE) | np.eye(len(cos), dtype=bool)  # a comparison with nan is False
    group, number = np.full(len(cos), -1), 0
    while (left := group < 0).any():
        others = np.where(left, (alike & left).sum(1), -1)
        if others.max() == 1:  # everyone who is left is alone
            group[left] = number + np.arange(left.sum())
            break
        group[alike[int(others.argmax())] & left] = number
        number += 1
    return group


def gaussian_shares(shape: tuple[int, ...], n_draws: int, rng: np.random.Generator) -> dict[str, Null]:
    """Nulls of ``share`` and ``share_abs`` for a Gaussian matrix ``[input, output]``; see the module's docstring.

    >>> null = gaussian_shares((2, 400), 100, np.random.default_rng(0))["share_abs"]
    >>> round(float(null.draws.mean()), 2)   # in a plane: 4 arccos(.7) / (2 pi)
    0.51
    """
    dimensions, neurons = shape
    n_pairs = neurons * (neurons - 1) // 2
    both = float(special.betainc((dimensions - 1) / 2, 0.5, 1 - ALIKE**2)) if dimensions > 1 else 1.0
    found = {}
    for name, p in (("share", both / 2), ("share_abs", both)):
        draws = rng.binomial(n_pairs, p, n_draws) / n_pairs if n_pairs else np.full(n_draws, np.nan)
        found[name] = Null("Gaussian matrix", draws)
    return found


def _chosen(model: Source, layer: int, matrices: Sequence[str]) -> dict[str, Matrix]:
    found = layer_matrices(model, layer)
    for name in matrices:
        if name not in found:
            raise ModelError(f"condensation: L{layer} of this model has no matrix '{name}'; {nearest(name, found)}")
    return {name: found[name] for name in matrices}


def _grouped(matrix: Matrix) -> tuple[Float[np.ndarray, "neuron neuron"], Int[np.ndarray, " neuron"]]:
    """Cosines of neurons sorted by group, and the group of each."""
    cos = cosines(matrix.T)
    groups = cosine_groups(cos)
    order = np.argsort(groups, kind="stable")
    return cos[np.ix_(order, order)], groups[order]


def _named(name: str, cos: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    signed, both = condensed_shares(cos)
    known = math.isfinite(signed)
    return {
        f"share_{name}": signed,
        f"share_abs_{name}": both,
        f"abs_cos_{name}": float(np.nanmean(np.abs(pairs(cos)))) if known else math.nan,
        f"groups_{name}": float(groups.max() + 1) if known else math.nan,
        f"largest_{name}": float((groups == 0).mean()) if known else math.nan,
    }
