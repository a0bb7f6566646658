r"""How many directions does each matrix of a layer use?  (paper 2, Fig. 13)

With s_1 >= s_2 >= ... the singular values of a matrix W,

    participation_W   (sum s^2)^2 / sum s^4     effective number of directions, [1, rank]
    stable_rank_W     sum s^2 / s_1^2           [1, participation_W]

for W = W_Q, W_K, W_V, W_O, W_in, W_out in the convention x W. Heads are joined: W_Q, W_K and W_V of all heads stand
beside each other, [d_model, n_heads * d_head], and W_O of all heads below each other, [n_heads * d_head, d_model]. So
there is one matrix of each name, whatever the number of heads. A layer without an MLP has neither W_in nor W_out. The
gate of a gated MLP is not read.

How it can mislead. What initialisation draws reads n d / (n + d) for participation in a matrix n by d, at any gamma: 21
for 64 by 32. A few learned directions that outweigh the start read a few; the same directions beside a large start read
about the start. So compare with the untrained model. Weight decay takes away the start and lowers both without any
learning of structure. W_Q R and W_K R^-T give the same attention for any invertible R, and W_V R and R^-1 W_O the same
values: the ranks of single factors are not properties of the function. Training begins in a basis that the
initialisation does not single out, which makes members of one scheme comparable and no others. `weight_rank` reads the
products W_Q W_K^T and W_V W_O, which do not depend on these bases.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from rb_interp.probes.check import check_layer_head, undefined
from rb_interp.probes.source import Source, model_of
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

ATTENTION, MLP = ("W_Q", "W_K", "W_V", "W_O"), ("W_in", "W_out")
MATRICES = (*ATTENTION, *MLP)
Matrix = Float[np.ndarray, "input output"]


@typed
@few_threads
def weight_spectra(
    model: Source,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Participation ratio and stable rank of every matrix of one layer, heads joined.

    Values: participation_W and stable_rank_W as in the module's table; nan for a matrix of zeros. Arrays:
    singular_values_W, descending.

    Args:
        inputs: not looked at, since the probe reads weights alone.
        layer: the layer, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: change nothing, since no quantity has a null.

    Raises:
        ModelError: for a layer that is not there.
    """
    check_layer_head(model, layer, None, "weight_spectra", untrained, caches=True)
    spectra = singular_values(model, layer)
    values = _values(spectra)
    before = {} if untrained is None else _values(singular_values(untrained, layer))
    arrays = {f"singular_values_{name}": found for name, found in spectra.items()}
    notes = undefined(values, model, "the matrix is zero.", before, untrained)
    return Reading("weight_spectra", values, layer=layer, untrained=before, arrays=arrays, notes=notes)


def layer_matrices(model: Source, layer: int) -> dict[str, Matrix]:
    """The matrices of a layer by name, in the convention x W, heads joined, in float64."""
    block, found = model_of(model).blocks[layer], {}
    for name in ATTENTION:
        heads = getattr(block.attn, name).detach().cpu().double().numpy()
        found[name] = np.concatenate(heads, axis=0 if name == "W_O" else 1)
    for name in MLP:
        if hasattr(getattr(block, "mlp", None), name):
            found[name] = getattr(block.mlp, name).detach().cpu().double().numpy()
    return found


def singular_values(model: Source, layer: int) -> dict[str, Float[np.ndarray, " direction"]]:
    """Singular values of each matrix of a layer, descending; nan where the matrix is not finite."""
    found = {}
    for name, matrix in layer_matrices(model, layer).items():
        sound = np.isfinite(matrix).all()
        found[name] = np.linalg.svd(matrix, compute_uv=False) if sound else np.full(min(matrix.shape), np.nan)
    return found


def spectrum_participation(singular: Float[np.ndarray, " direction"]) -> float:
    """(sum s^2)^2 / sum s^4, in [1, number of values]; nan for zeros and for what is not finite.

    >>> spectrum_participation(np.array([2.0, 2.0, 0.0])), spectrum_participation(np.array([5.0]))
    (2.0, 1.0)
    """
    squared = singular**2
    return float(squared.sum() ** 2 / (squared**2).sum()) if squared.sum() > 0 else math.nan


def spectrum_stable_rank(singular: Float[np.ndarray, " direction"]) -> float:
    """Sum of s^2 over the largest s^2, in [1, number of values]; nan for zeros and for what is not finite.

    >>> spectrum_stable_rank(np.array([2.0, 2.0, 0.0])), spectrum_stable_rank(np.array([2.0, 1.0, 1.0]))
    (2.0, 1.5)
    """
    squared = singular**2
    return float(squared.sum() / squared.max()) if squared.sum() > 0 else math.nan


def _values(spectra: dict[str, np.ndarray]) -> dict[str, float]:
    return {
        **{f"participation_{name}": spectrum_participation(found) for name, found in spectra.items()},
        **{f"stable_rank_{name}": spectrum_stable_rank(found) for name, found in spectra.items()},
    }
