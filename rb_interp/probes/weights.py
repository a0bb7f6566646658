r"""Do a layer's matrices use few directions, and do their neurons point in few?

`weight_rank` (paper 1, "low rank"). With s_1 >= s_2 >= ... the singular values of a matrix,

    stable_rank_W        |W|_F^2 / s_1^2,   W = W_QK, W_OV (mean over heads), W_in, W_out                  [1, rank]

`weight_spectra` (paper 2, Fig. 13). The same of W = W_Q, W_K, W_V, W_O, W_in, W_out in the
convention x W, and

    participation_W   (sum s^2)^2 / sum s^4     effective number of directions, [stable_rank_W, rank]

Heads are joined: W_Q, W_K and W_V of all heads stand beside each other, [d_model, n_heads *
d_head], and W_O of all heads below each other, [n_heads * d_head, d_model]. The gate of a gated MLP
is not read.

How they can mislead. What initialisation draws reads n d / (n + d) for participation in a matrix n
by d, at any gamma: 21 for 64 by 32. A few learned directions that outweigh the start read a few;
the same directions beside a large start read about the start. So a low rank says how far a model
has moved from its start, not what it has learned: compare with the untrained model. Weight decay
takes away the start and lowers both without any learning of structure. W_Q R and W_K R^-T give the
same attention for any invertible R, and W_V R and R^-1 W_O the same values: ranks of single factors
are not properties of the function, and compare members of one scheme alone. `weight_rank` reads the
products, which do not depend on R. The stable rank of a product of random matrices is lower than
that of its factors.

Other weights of the same function change these readings and those of condensation, as a table in
docs/probes.md says.

`condensation` (paper 2, Figs. 5a, 5b, 10 and 15). The neurons of a matrix W, in the convention x W,
are its columns: the input weights of each output. Over pairs of distinct neurons,

    share_W       share of pairs with cos > .7                                              [0, 1]
    share_abs_W   share of pairs with |cos| > .7, so that opposite neurons count as well    [0, 1]
    abs_cos_W     mean |cos|                                                                [0, 1]
    groups_W      number of groups by cosine                                                [1, neurons]
    largest_W     share of the neurons that are in the largest group                        (0, 1]

A group is formed around the neuron with the most others at cos > .7 among those that are left, and
takes these others; then the next, until none is left (after Figs. 10 and 15). The neurons of W_Q,
W_K and W_V are those of all heads.

Null: the shares of a Gaussian matrix of the same shape, which is what every initialisation draws.
Its cosines are independent of each other two by two. So the number of pairs above .7 has the mean
and the variance of a binomial one with p = P(|cos| > .7), and is drawn from that. The mean |cos| is
``vectors.expected_abs_cos`` of the number of inputs.

How it can mislead. Neurons in two directions read a share near 1/2, in one direction 1. An
untrained model reads its null: nearly 0 from 16 dimensions on, where p is .002. A true model of a
few directions can read 0 too, since a random R spreads the neurons of W_Q over all directions of
its span: condensation of W_Q, W_K, W_V, W_O says how training moved, not what the model computes. A
span of k dimensions lets random neurons read P(|cos| > .7) in k dimensions: .51 for two, .30 for
three, .08 for six. So a low rank alone gives a large share. Neurons that are nearly zero count too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._probe import Found, probe, source
from rb_interp.probes.activations import float64
from rb_interp.probes.vectors import cosines, pairs
from rb_interp.statistics.reading import Null

ALIKE = 0.7
"""Cosine above which two neurons count as condensed; the paper's."""
ATTENTION, MLP = ("W_Q", "W_K", "W_V", "W_O"), ("W_in", "W_out")
MATRICES = (*ATTENTION, *MLP)
ZERO = "the matrix is zero."
Matrix = Float[np.ndarray, "input output"]


def layer_matrices(model: ActivationSource, layer: int, **_: Any) -> dict[str, Matrix]:
    """The matrices of a layer by name, in the convention x W, heads joined, in float64."""
    block = model_of(model).blocks[layer]
    # matrices that heads share count once
    heads = {
        name: float64(getattr(block.attn, f"_{name}", getattr(block.attn, name)))
        for name in ATTENTION
    }
    joined = {
        name: np.concatenate(of, axis=0 if name == "W_O" else 1) for name, of in heads.items()
    }
    there = [name for name in MLP if hasattr(getattr(block, "mlp", None), name)]
    return joined | {name: float64(getattr(block.mlp, name)) for name in there}


@probe(source, ZERO, place={"layer": 0})
def weight_rank(model: ActivationSource, *, layer: int) -> Found:
    """Stable ranks of one layer's matrices.

    Values: stable_rank_W_QK and stable_rank_W_OV (mean over heads), stable_rank_W_in and
    stable_rank_W_out where the layer has an MLP; in [1, rank], nan for a matrix of zeros. No
    quantity has a null.
    """
    W_Q, W_K, W_V, W_O = (
        float64(getattr(model_of(model).blocks[layer].attn, name)) for name in ATTENTION
    )
    values = {}
    for name, *sides in (("W_QK", W_Q, W_K), ("W_OV", W_V, W_O.swapaxes(1, 2))):
        heads = max(map(len, sides))  # grouped heads share a matrix
        left, right = (
            np.linalg.qr(np.repeat(side, heads // len(side), axis=0))[1] for side in sides
        )
        values[f"stable_rank_{name}"] = float(
            np.mean([spectrum(core)[1] for core in left @ right.swapaxes(1, 2)])
        )
    mlp = {name: matrix for name, matrix in layer_matrices(model, layer).items() if name in MLP}
    return Found(
        values | {f"stable_rank_{name}": spectrum(matrix)[1] for name, matrix in mlp.items()}
    )


@probe(layer_matrices, ZERO, place={"layer": 0})
def weight_spectra(held: Mapping[str, Matrix]) -> Found:
    """Participation ratio and stable rank of every matrix of one layer, heads joined.

    Values: participation_W and stable_rank_W as in the module's table; nan for a matrix of zeros.
    Arrays: singular_values_W, descending. None has a null.
    """
    spectra = {name: spectrum(matrix) for name, matrix in held.items()}
    values = {f"participation_{name}": found[0] for name, found in spectra.items()}
    values |= {f"stable_rank_{name}": found[1] for name, found in spectra.items()}
    return Found(
        values, None, {f"singular_values_{name}": found[2] for name, found in spectra.items()}
    )


def spectrum(matrix: Matrix) -> tuple[float, float, Float[np.ndarray, " direction"]]:
    """Participation ratio, stable rank and singular values, descending; nan for zeros and for what
    is not finite."""
    if not np.isfinite(matrix).all():
        return math.nan, math.nan, np.full(min(matrix.shape), np.nan)
    singular = np.linalg.svd(matrix, compute_uv=False)
    squared = singular**2
    if not squared.sum() > 0:
        return math.nan, math.nan, singular
    return (
        float(squared.sum() ** 2 / (squared**2).sum()),
        float(squared.sum() / squared.max()),
        singular,
    )


@probe(layer_matrices, "fewer than two neurons are not zero.", place={"layer": 0})
def condensation(held: Mapping[str, Matrix], *, matrices: Sequence[str] = ("W_Q",)) -> Found:
    """How far the neurons of some matrices of a layer point in the same directions.

    Values as in the module's table; nan where fewer than two neurons are not zero. Nulls: a
    Gaussian matrix of the same shape (share_W, share_abs_W). Arrays: cosines_W ``[neuron,
    neuron]``, neurons sorted by group, the largest group first, and group_W, the group of each
    sorted neuron.

    Args:
        matrices: names among W_Q, W_K, W_V, W_O, W_in, W_out.
    """
    values, arrays = {}, {}
    for name in matrices:
        cos = cosines(held[name].T)
        groups = cosine_groups(cos)
        order = np.argsort(groups, kind="stable")
        told = condensed_shares(cos if np.isfinite(held[name]).all() else cos * math.nan)
        told |= {"groups": groups.max() + 1, "largest": (groups == 0).mean()}
        values |= {
            f"{what}_{name}": float(of) if told["share"] >= 0 else math.nan
            for what, of in told.items()
        }
        arrays |= {f"cosines_{name}": cos[np.ix_(order, order)], f"group_{name}": groups[order]}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        drawn = {name: gaussian_shares(held[name].shape, n_null, rng) for name in matrices}
        return {f"{what}_{name}": null for name, of in drawn.items() for what, null in of.items()}

    return Found(values, nulls, arrays)


def condensed_shares(cos: Float[np.ndarray, "neuron neuron"]) -> dict[str, float]:
    """``share``, ``share_abs`` and ``abs_cos``; pairs with a neuron of zeros do not count."""
    defined = pairs(cos)[np.isfinite(pairs(cos))]
    told = {
        "share": defined > ALIKE,
        "share_abs": np.abs(defined) > ALIKE,
        "abs_cos": np.abs(defined),
    }
    return {name: float(of.mean()) if len(of) else math.nan for name, of in told.items()}


def cosine_groups(cos: Float[np.ndarray, "neuron neuron"]) -> Int[np.ndarray, " neuron"]:
    """The group of each neuron, numbered from 0 in the order in which they are formed, so by
    size."""
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


def gaussian_shares(
    shape: tuple[int, ...], n_draws: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Nulls of ``share`` and ``share_abs`` for a Gaussian matrix ``[input, output]``; see the
    module's docstring."""
    dimensions, neurons = shape
    n_pairs = neurons * (neurons - 1) // 2
    both = (
        float(special.betainc((dimensions - 1) / 2, 0.5, 1 - ALIKE**2)) if dimensions > 1 else 1.0
    )
    nulls = {}
    for name, p in (("share", both / 2), ("share_abs", both)):
        draws = rng.binomial(n_pairs, p, n_draws) / n_pairs if n_pairs else np.full(n_draws, np.nan)
        nulls[name] = Null("Gaussian matrix", draws)
    return nulls
