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
``embeddings.expected_abs_cos`` of the number of inputs.

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

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, nearest
from rb_interp.models import structure
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import float64
from rb_interp.probes.embeddings import cosines, pairs
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

MIN_COSINE = 0.7
"""Cosine above which two neurons count as condensed; the paper's."""
ATTENTION = ("W_Q", "W_K", "W_V", "W_O")
MLP = ("W_in", "W_out")
MATRICES = (*ATTENTION, *MLP)
ZERO = "the matrix is zero."
WeightMatrix = Float[np.ndarray, "input output"]


@checked
@single_threaded
def weight_rank(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Stable ranks of one layer's matrices.

    Values: stable_rank_W_QK and stable_rank_W_OV (mean over heads), stable_rank_W_in and
    stable_rank_W_out if the layer has an MLP; in [1, rank], nan for a matrix of zeros. No quantity
    has a null.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: not looked at, since the probe reads weights alone; likewise ``n_null`` and
            ``seed``.
        layer: number, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises ModelError for a layer that does not exist.

    >>> from rb_interp import AnchorTask, build_model
    >>> list(weight_rank(build_model(AnchorTask(), gamma=0.8)).values)
    ['stable_rank_W_QK', 'stable_rank_W_OV', 'stable_rank_W_in', 'stable_rank_W_out']
    """

    def measure(source: ActivationSource) -> Measurement:
        attn = model_of(source).blocks[layer].attn
        W_Q, W_K, W_V, W_O = (float64(getattr(attn, name)) for name in ATTENTION)
        values = {
            "stable_rank_W_QK": _product_rank(W_Q, W_K),
            "stable_rank_W_OV": _product_rank(W_V, W_O.swapaxes(1, 2)),
        }
        for name, matrix in layer_matrices(source, layer).items():
            if name in MLP:
                values[f"stable_rank_{name}"] = spectrum(matrix)[1]
        return Measurement(values)

    return read_model("weight_rank", model, measure, untrained, n_null, seed, ZERO, layer)


def _product_rank(
    left: Float[np.ndarray, "left_head d_model d_head"],
    right: Float[np.ndarray, "right_head d_model d_head"],
) -> float:
    """Mean over heads of the stable rank of left right^T; grouped heads share a matrix."""
    heads = max(len(left), len(right))
    factors = []
    for side in (left, right):
        shared = np.repeat(side, heads // len(side), axis=0)
        factors.append(np.linalg.qr(shared)[1])
    products = factors[0] @ factors[1].swapaxes(1, 2)
    return float(np.mean([spectrum(product)[1] for product in products]))


@checked
@single_threaded
def weight_spectra(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Participation ratio and stable rank of every matrix of one layer, heads joined.

    Values: participation_W and stable_rank_W as in the module's table; nan for a matrix of zeros.
    Arrays: singular_values_W, descending. No quantity has a null.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: not looked at, since the probe reads weights alone; likewise ``n_null`` and
            ``seed``.
        layer: number, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises ModelError for a layer that does not exist.

    >>> from rb_interp import AnchorTask, build_model
    >>> reading = weight_spectra(build_model(AnchorTask(), gamma=0.8))
    >>> reading.values["stable_rank_W_Q"] <= reading.values["participation_W_Q"]
    True
    """

    def measure(source: ActivationSource) -> Measurement:
        values = {}
        arrays = {}
        for name, matrix in layer_matrices(source, layer).items():
            spread, rank, arrays[f"singular_values_{name}"] = spectrum(matrix)
            values |= {f"participation_{name}": spread, f"stable_rank_{name}": rank}
        return Measurement(values, arrays=arrays)

    return read_model("weight_spectra", model, measure, untrained, n_null, seed, ZERO, layer)


def layer_matrices(model: ActivationSource, layer: int) -> dict[str, WeightMatrix]:
    """The matrices of a layer by name, in the convention x W, heads joined, in float64."""
    matrices = {}
    for name, weight in structure.layer_matrices(model_of(model), layer).items():
        matrix = float64(weight)
        if name in ATTENTION:
            matrix = np.concatenate(matrix, axis=0 if name == "W_O" else 1)
        matrices[name] = matrix
    return matrices


def spectrum(matrix: WeightMatrix) -> tuple[float, float, Float[np.ndarray, " direction"]]:
    """Participation ratio, stable rank and singular values, descending.

    Both numbers are nan for zeros, and all are for what is not finite.
    """
    if not np.isfinite(matrix).all():
        return math.nan, math.nan, np.full(min(matrix.shape), np.nan)
    singular = np.linalg.svd(matrix, compute_uv=False)
    squared = singular**2
    total = squared.sum()
    if not total > 0:
        return math.nan, math.nan, singular
    spread = float(total**2 / (squared**2).sum())
    return spread, float(total / squared.max()), singular


@checked
@single_threaded
def condensation(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    matrices: Sequence[str] = ("W_Q",),
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """How far the neurons of some matrices of a layer point in the same directions.

    Values as in the module's table; nan if fewer than two neurons are not zero. Nulls: a Gaussian
    matrix of the same shape (share_W, share_abs_W). Arrays: cosines_W ``[neuron, neuron]``, neurons
    sorted by group, the largest group first, and group_W, the group of each sorted neuron.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``).
        inputs: not looked at, since the probe reads weights alone.
        layer: number, counted from 0.
        matrices: names among W_Q, W_K, W_V, W_O, W_in, W_out.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer that does not exist, ArgumentError for a matrix that it lacks.

    >>> from rb_interp import AnchorTask, build_model
    >>> reading = condensation(build_model(AnchorTask(), gamma=0.8), matrices=["W_in"], n_null=0)
    >>> list(reading.values)[:3]
    ['share_W_in', 'share_abs_W_in', 'abs_cos_W_in']
    """

    def measure(source: ActivationSource) -> Measurement:
        return condense(layer_matrices(source, layer), matrices)

    reason = "fewer than two neurons are not zero."
    return read_model("condensation", model, measure, untrained, n_null, seed, reason, layer)


def condense(matrices: Mapping[str, WeightMatrix], names: Sequence[str]) -> Measurement:
    """The values of `condensation`, read from matrices by name."""
    values = {}
    arrays = {}
    for name in names:
        if name not in matrices:
            raise ArgumentError(
                f"condensation got the matrix '{name}', which this layer does not have; "
                f"{nearest(name, matrices)}"
            )
        matrix = matrices[name]
        cos = cosines(matrix.T)
        groups = cosine_groups(cos)
        order = np.argsort(groups, kind="stable")
        shares = condensed_shares(cos)
        shares |= {"groups": float(groups.max() + 1), "largest": float((groups == 0).mean())}
        if not np.isfinite(matrix).all() or math.isnan(shares["share"]):
            shares = dict.fromkeys(shares, math.nan)
        values |= {f"{share}_{name}": value for share, value in shares.items()}
        arrays[f"cosines_{name}"] = cos[np.ix_(order, order)]
        arrays[f"group_{name}"] = groups[order]

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        nulls = {}
        for name in names:
            for share, null in gaussian_shares(matrices[name].shape, n_null, rng).items():
                nulls[f"{share}_{name}"] = null
        return nulls

    return Measurement(values, draw_nulls, arrays)


def condensed_shares(cos: Float[np.ndarray, "neuron neuron"]) -> dict[str, float]:
    """``share``, ``share_abs`` and ``abs_cos``; pairs with a neuron of zeros do not count."""
    defined = pairs(cos)[np.isfinite(pairs(cos))]
    if not len(defined):
        return dict.fromkeys(("share", "share_abs", "abs_cos"), math.nan)
    size = np.abs(defined)
    return {
        "share": float((defined > MIN_COSINE).mean()),
        "share_abs": float((size > MIN_COSINE).mean()),
        "abs_cos": float(size.mean()),
    }


def cosine_groups(cos: Float[np.ndarray, "neuron neuron"]) -> Int[np.ndarray, " neuron"]:
    """The group of each neuron, numbered from 0 by size."""
    neighbours = (cos > MIN_COSINE) | np.eye(len(cos), dtype=bool)  # a comparison with nan is False
    group = np.full(len(cos), -1)
    number = 0
    left = group < 0
    while left.any():
        sizes = np.where(left, (neighbours & left).sum(1), -1)
        if sizes.max() == 1:  # every neuron that is left is alone
            group[left] = number + np.arange(left.sum())
            break
        group[neighbours[int(sizes.argmax())] & left] = number
        number += 1
        left = group < 0
    return group


def gaussian_shares(
    shape: tuple[int, ...], n_draws: int, rng: np.random.Generator
) -> dict[str, Null]:
    """Nulls of ``share`` and ``share_abs`` for a Gaussian matrix ``[input, output]``.

    See the module's docstring.
    """
    dimensions, neurons = shape
    n_pairs = neurons * (neurons - 1) // 2
    p_abs = 1.0
    if dimensions > 1:
        p_abs = float(special.betainc((dimensions - 1) / 2, 0.5, 1 - MIN_COSINE**2))
    nulls = {}
    for name, p in (("share", p_abs / 2), ("share_abs", p_abs)):
        draws = np.full(n_draws, np.nan)
        if n_pairs:
            draws = rng.binomial(n_pairs, p, n_draws) / n_pairs
        nulls[name] = Null("Gaussian matrix", draws)
    return nulls
