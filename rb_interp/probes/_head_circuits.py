r"""What do a head's weights copy, and which positions and earlier heads do they read?

`head_circuits` (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"). In the
convention x W, W_OV = W_V W_O and W_QK = W_Q W_K^T are of this head, W_OV' of one in an earlier
layer. e is the mean of W_E over tokens, E is W_E less e, and p_i the embedding of position i:

    copying         sum of eigenvalues / sum of |eigenvalues| of E W_OV W_U, the full OV circuit      [-1, 1]
    previous_token  mean over i > 0 of the attention of position i to i - 1 by scores
                    (e + p_i) W_QK (e + p_j)^T / sqrt(d_head)                                         [0, 1]
    induction       as copying, of E W_QK (E W_OV')^T, the full QK circuit through the earlier head
                    with the largest previous_token                                                   [-1, 1]
    q_composition   largest of |W_OV' W_QK| / (|W_OV'| |W_QK|) over heads of earlier layers           [0, 1]
    k_composition   the same of |W_OV' W_QK^T|
    v_composition   the same of |W_OV' W_OV|, over |W_OV'| |W_OV|                                     [0, 1]

Norms are Frobenius norms. Eigenvalues are those of a product of d_head by d_head, which has the
same ones but for zeros. An induction head has both: its keys match what the previous-token head
wrote about the token before, and it copies the token that it finds ("How induction heads work").

Biases of queries, keys, values and norms are left out, and so are MLPs. LayerNorm and RMSNorm are
read as they are with one scale, weights folded or not: that of the root mean square of token plus
position. Of what is written the mean over coordinates is left out where LayerNorm takes it away. In
a post-norm model a layer reads the last norm before it, and the weights of those further back are
left out. Grouped queries have the keys and values of their group. So other weights of the same
function give the same numbers (docs/probes.md).

Null: W_OV and W_QK with the same singular values in random bases, embeddings and earlier heads as
they are. A head of an untrained model is such a draw.

How it can mislead. The zoo's two induction heads read copying .97 and .98, induction 1.00,
k_composition .36, and Q-composition below its null of .19; their previous-token head reads
previous_token .31, where the null has .12. Untrained models read copying 0 with a standard
deviation of .1 (d_head 16), induction 0 with .15, and compositions of .13 at d_model 64, all within
the null. A head that moves each token to another one reads copying near 0, one that takes tokens
away -1. But positive eigenvalues are no proof of copying: a head of rank one reads 1 or -1 by
chance, which the null shows, a matrix that is not normal can have them and answer with other
tokens, and the zoo's previous-token head, which only keys read, has copying .98.
Compare with `interventions.direct_effect`. previous_token sees neither tokens nor what heads write:
where small weights attend evenly it is the mean of 1 / (i + 1), large in short rows, and in layers
above the first a head can find the position before by other means, while the scale is still that
of the embeddings. The best earlier head need not look back at all: read its previous_token before
its follower's induction. Only the first MAX_POSITIONS positions are read. Compositions of two heads
are large where both use a direction that many use: no token need travel there.

No number is given where it means nothing. Rotary positions turn queries and keys by their distance,
so that W_QK is no one matrix, and W_pos is missing there and under ALiBi. Arrays have no norms and
no W_pos: fold norms into them. If W_U has fewer tokens than W_E, they are the first ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.linalg import helmert
from scipy.special import softmax
from torch import nn

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.models import structure
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import OnePass, float64
from rb_interp.statistics.nulls import random_subspaces
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

MAX_POSITIONS = 128
"""Positions whose attention to the one before is read, at most."""
ROUNDING = 1e-6
"""Eigenvalues that are less than this share of their matrix count as 0."""
NO_EARLIER = "a matrix is zero, or no earlier layer has heads"
NO_POSITIONS = "positions are not embeddings that are added to the stream."
TURNED = "rotary positions turn queries and keys, so that W_QK is no one matrix."
REASONS = {
    "copying": "all eigenvalues are zero.",
    "previous_token": NO_POSITIONS,
    "induction": f"all eigenvalues are zero, no earlier layer has heads, or {NO_POSITIONS}",
    "q_composition": f"{NO_EARLIER}, or {TURNED}",
    "k_composition": f"{NO_EARLIER}, or {TURNED}",
    "v_composition": f"{NO_EARLIER}.",
}
Matrix = Float[np.ndarray, "rows columns"]
Sides = Float[np.ndarray, "*lead d d_head"]


class Circuits(NamedTuple):
    """What heads read and write, and what all of them read.

    Attributes:
        sides: W_V, W_O^T, W_Q and W_K of each layer with attention; W_Q is divided as scores are.
        unembed: W_U E.
        gram: E^T E.
        positions: e + p_i; NaN if the model adds no position embeddings.
    """

    sides: Float[np.ndarray, "layer 4 head d d_head"]
    unembed: Matrix
    gram: Matrix
    positions: Matrix


@checked
@single_threaded
def head_circuits(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """What a head's weights copy, and which positions and earlier heads they read.

    Values as in the module's table; nan for what a model or a layer has not, with a note. Nulls:
    the same singular values in random bases. Arrays: ``eigenvalues`` of the full OV circuit;
    ``q_composition``, ``k_composition`` and ``v_composition`` with each head of the earlier layers
    that have attention, ``[layer, head]``.

    Args:
        model: a model, its activations (``captured``), or arrays (``from_arrays``) with W_E, W_U
            and the four matrices of attention.
        inputs: not looked at, since the probe reads weights alone.
        layer, head: numbers, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, for arrays that are missing, for a
    model without W_U, and for attention that looks both ways.

    >>> from rb_interp import AnchorTask, build_model
    >>> reading = head_circuits(build_model(AnchorTask(), gamma=0.8), layer=1)
    >>> list(reading.values)[:3]
    ['copying', 'previous_token', 'induction']
    """

    def measure(source: ActivationSource) -> Measurement:
        lens = model_of(source)
        if not hasattr(lens, "W_U") or structure.visible(lens, layer, 2)[0, 1]:
            raise ModelError(
                f"head_circuits reads W_U and attention that looks back; this "
                f"{type(lens).__name__} has no W_U, or looks both ways."
            )
        scan = source if isinstance(source, OnePass) else OnePass(source, [layer])
        if not scan.finite:
            return Measurement(dict.fromkeys(REASONS, math.nan))
        number = structure.attention_layers(source).index(layer)
        return read_circuits(scan.once(circuits_of), number, head)

    return read_model(
        "head_circuits", model, measure, untrained, n_null, seed, REASONS, layer, head
    )


def circuits_of(model: Any) -> Circuits:
    """The circuits of all heads of a model."""
    cfg = model.cfg
    basis = np.eye(cfg.d_model)
    if getattr(cfg, "normalization_type", None) in ("LN", "LNPre"):
        basis = helmert(cfg.d_model)
    W_E = float64(model.W_E) @ basis.T
    mean = W_E.mean(0)
    tokens = W_E - mean
    positions = np.full((2, len(mean)), np.nan)
    if structure.adds_positions(model) and hasattr(model, "W_pos"):
        positions = float64(model.W_pos[:MAX_POSITIONS]) @ basis.T + mean
    squares = np.square(tokens).mean() + np.square(np.nan_to_num(positions)).mean()
    size = math.sqrt(squares * len(mean) / cfg.d_model)
    x = (size * (-1.0) ** torch.arange(cfg.d_model))[None].to(model.W_E)

    def through(norm: nn.Module) -> Matrix:
        fixed = structure.fixed_norm(norm, x)
        linear = fixed(torch.eye(cfg.d_model)) - fixed(torch.zeros(cfg.d_model))
        return basis @ float64(linear)

    rotary = getattr(cfg, "positional_embedding_type", "") == "rotary"
    scale = math.inf if rotary else math.sqrt(cfg.d_head)
    norms = [through(norm) for norm in structure.norms_read(model)]
    sides = []
    for layer in structure.attention_layers(model):
        writes = through(getattr(model.blocks[layer], "ln1_post", nn.Identity()))
        for name in ("W_V", "W_O", "W_Q", "W_K"):
            heads = float64(structure.layer_heads(model, layer, name))
            side = writes @ heads.swapaxes(1, 2) if name == "W_O" else norms[layer] @ heads
            sides.append(np.repeat(side, cfg.n_heads // len(side), axis=0))
        sides[-2] = sides[-2] / scale
    W_U = norms[-1] @ float64(model.W_U)
    return Circuits(
        np.reshape(sides, (-1, 4, *sides[0].shape)),
        W_U @ tokens[: W_U.shape[1]],
        tokens.T @ tokens,
        positions,
    )


def read_circuits(circuits: Circuits, layer: int, head: int) -> Measurement:
    """The values of `head_circuits`, read from the circuits of all heads."""
    sides, unembed, gram, positions = circuits
    values, outputs, queries, keys = sides[:layer].swapaxes(0, 1)
    writers = np.linalg.qr(values, mode="r") @ outputs.swapaxes(2, 3)
    size = np.linalg.norm(writers, axis=(2, 3), keepdims=True)
    writers = writers / np.where(size > 0, size, np.nan)
    previous = previous_token(queries, keys, positions)
    through = np.zeros_like(gram)
    if np.isfinite(previous).any():
        best = np.unravel_index(previous.argmax(), previous.shape)
        through = outputs[best] @ (values[best].T @ gram)

    def read(V: Matrix, W_O: Matrix, Q: Matrix, K: Matrix) -> Measurement:
        values = {
            "copying": positivity(W_O.T @ unembed @ V),
            "previous_token": float(previous_token(Q, K, positions)),
            "induction": positivity(K.T @ through @ Q),
        }
        arrays = {}
        for kind, side, other in (("q", Q, K), ("k", K, Q), ("v", V, W_O)):
            R: Any = np.linalg.qr(other, mode="r")
            reader = side @ R.T  # |X side other^T| = |X reader|
            shares = np.linalg.norm(writers @ reader, axis=(2, 3))
            shares /= np.linalg.norm(reader) or math.nan
            arrays[f"{kind}_composition"] = shares
            values[f"{kind}_composition"] = float(np.fmax.reduce(shares, None, initial=math.nan))
        return Measurement(values, arrays=arrays)

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        R: Any = np.linalg.qr(matrices, mode="r")
        bases = random_subspaces(4 * n_null, len(gram), R.shape[1], rng)
        bases *= rng.choice([-1.0, 1.0], (len(bases), 1, R.shape[1]))  # LAPACK's are not random
        draws = bases.reshape(n_null, 4, *bases.shape[1:]) @ R
        table = pd.DataFrame([read(*draw).values for draw in draws])
        return {name: Null("random bases", table[name].to_numpy()) for name in table}

    matrices = sides[layer, :, head]
    reading = read(*matrices)
    eigenvalues = np.linalg.eigvals(matrices[1].T @ unembed @ matrices[0])
    arrays = {"eigenvalues": eigenvalues, **reading.arrays}
    return reading._replace(nulls=draw_nulls, arrays=arrays)


def positivity(product: Matrix) -> float:
    """Sum of the eigenvalues over the sum of their absolute values, in [-1, 1].

    NaN if all are 0 but for rounding, also where the matrix is not.

    >>> positivity(np.diag([3.0, -1.0])), positivity(np.outer([1, 3, -1], [0.1, 0.2, 0.7]))
    (0.5, nan)
    """
    eigenvalues = np.linalg.eigvals(product)
    size = np.abs(eigenvalues).sum()
    if size <= ROUNDING * np.linalg.norm(product):
        return math.nan
    return float(eigenvalues.sum().real / size)


def previous_token(Q: Sides, K: Sides, positions: Matrix) -> np.ndarray:
    """Mean attention of positions to the one before, for each Q and K."""
    scores = positions @ Q @ (positions @ K).swapaxes(-1, -2)
    pattern = softmax(np.where(np.tri(len(positions)), scores, -np.inf), axis=-1)
    return np.diagonal(pattern, -1, -2, -1).mean(-1)
