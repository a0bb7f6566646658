r"""What do a head's weights copy, and which positions and earlier heads do they read?

`head_circuits` (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"). In the
convention x W, W_OV = W_V W_O and W_QK = W_Q W_K^T are of this head, W_OV' of one in an earlier
layer. e is the mean of W_E over tokens, E is W_E less e, and p_i the embedding of position i:

    copying         sum of eigenvalues / sum of |eigenvalues| of E W_OV W_U, the full OV circuit      [-1, 1]
    previous_token  mean over i > 0 of the attention of position i to i - 1 by scores
                    (e + p_i) W_QK (e + p_j)^T / the model's scale, mostly sqrt(d_head)               [0, 1]
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
position. A norm of the embedding alone is applied. Of what is written the mean over coordinates is
left out where LayerNorm takes it away. In a post-norm model a layer reads the last norm before it,
the first one none, and the weights of norms further back are left out. Grouped queries have the
keys and values of their group. So other weights of the same function give the same numbers
(docs/probes.md).

Null: W_OV and W_QK with the same singular values in random bases, embeddings and earlier heads as
they are. A head of an untrained model is such a draw. All heads of a scan are drawn in the same
bases, and Q- and K-composition, whose nulls have one distribution, have the same draws.

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
import torch
from jaxtyping import Bool, Float
from scipy.linalg import helmert
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
Products = Float[np.ndarray, "*lead rows columns"]


class Circuits(NamedTuple):
    """What heads read and write, and what all of them read.

    Attributes:
        sides: W_V, W_O^T, W_Q and W_K of each layer with attention; W_Q is divided as scores are.
        unembed: W_U E.
        gram: E^T E.
        positions: e + p_i; NaN if the model adds no position embeddings.
        visible: which of them each layer sees.
        writers: W_OV but for a rotation of what is read, over its norm; NaN if that is 0.
        previous: previous_token of each head.
    """

    sides: Float[np.ndarray, "layer 4 head d d_head"]
    unembed: Matrix
    gram: Matrix
    positions: Matrix
    visible: Bool[np.ndarray, "layer query key"]
    writers: Products
    previous: Matrix


class InBases(NamedTuple):
    """A model in two bases B and C of a head's rank, or in draws of them.

    Attributes:
        unembed: C^T W_U E B.
        queries: positions in B.
        keys: positions in C.
        squares: what each writer makes of B's columns, squared and summed.
    """

    unembed: Products
    queries: Products
    keys: Products
    squares: Products


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
        family = str(getattr(lens.cfg, "original_architecture", ""))[:5]
        behind = family in ("Olmo2", "Olmo3")
        if not hasattr(lens, "W_U") or behind or structure.visible(lens, layer, 2)[0, 1]:
            raise ModelError(
                f"head_circuits reads W_U and attention that looks back; this {type(lens).__name__} "
                f"has no W_U, looks both ways, or has its norms behind its sublayers, as OLMo 2."
            )
        scan = source if isinstance(source, OnePass) else OnePass(source, [layer])
        if not scan.finite:
            return Measurement(dict.fromkeys(REASONS, math.nan))
        number = structure.attention_layers(source).index(layer)
        return read_circuits(scan, number, head)

    return read_model(
        "head_circuits", model, measure, untrained, n_null, seed, REASONS, layer, head
    )


def circuits_of(scan: OnePass) -> Circuits:
    """The circuits of all heads of a model."""
    model: Any = scan.model
    cfg = model.cfg
    basis = written = np.eye(cfg.d_model)
    if getattr(cfg, "normalization_type", None) in ("LN", "LNPre"):
        if hasattr(model, "ln_final"):
            basis = written = helmert(cfg.d_model)
        else:  # the norm is behind attention, and none is before the first
            written = basis - 1 / cfg.d_model
    tokens = model.W_E
    if structure.normalises_embedding(model):
        tokens = model.embed.ln(tokens[:, None])[:, 0]
    tokens = float64(tokens)
    mean = tokens.mean(0)
    tokens = tokens - mean
    gram = basis @ (tokens.T @ tokens) @ basis.T
    mean = basis @ mean
    positions = np.full((2, len(mean)), np.nan)
    if structure.adds_positions(model) and hasattr(model, "W_pos"):
        positions = float64(model.W_pos[:MAX_POSITIONS]) @ basis.T + mean
    squares = gram.trace() / len(tokens) / len(mean) + np.square(np.nan_to_num(positions)).mean()
    size = math.sqrt(squares * len(mean) / cfg.d_model)
    x = (size * (-1.0) ** torch.arange(cfg.d_model))[None].to(model.W_E)

    def through(norm: nn.Module) -> Matrix:
        fixed = structure.fixed_norm(norm, x)
        linear = fixed(torch.eye(cfg.d_model)) - fixed(torch.zeros(cfg.d_model))
        return basis @ float64(linear)

    rotary = getattr(cfg, "positional_embedding_type", "") == "rotary"
    norms = [through(norm) for norm in structure.norms_read(model)]
    sides = []
    visible = []
    for layer in structure.attention_layers(model):
        visible.append(structure.visible(model, layer, len(positions)))
        norm = getattr(model.blocks[layer], "ln1_post", None)
        writes = written if norm is None else through(norm)
        for name in ("W_V", "W_O", "W_Q", "W_K"):
            heads = float64(structure.layer_heads(model, layer, name))
            side = writes @ heads.swapaxes(1, 2) if name == "W_O" else norms[layer] @ heads
            sides.append(np.repeat(side, cfg.n_heads // len(side), axis=0))
        scale = getattr(model.blocks[layer].attn, "attn_scale", math.sqrt(cfg.d_head))
        sides[-2] = sides[-2] / (math.inf if rotary else scale)
    W_U = float64(model.W_U)
    W_U = W_U - W_U.mean(1, keepdims=True)  # which the softmax does not see
    stacked = np.reshape(sides, (-1, 4, *sides[0].shape))
    values, outputs, queries, keys = stacked.swapaxes(0, 1)
    writers = np.linalg.qr(values, mode="r") @ outputs.swapaxes(2, 3)
    length = np.linalg.norm(writers, axis=(2, 3), keepdims=True)
    return Circuits(
        stacked,
        norms[-1] @ (W_U @ tokens[: W_U.shape[1]]) @ basis.T,
        gram,
        positions,
        np.stack(visible),
        writers / np.where(length > 0, length, np.nan),
        previous_token(positions @ queries, positions @ keys, np.stack(visible)[:, None]),
    )


def in_bases(circuits: Circuits, layer: int, B: Matrix, C: Matrix) -> InBases:
    """A model in two bases, and of its writers those before a layer."""
    positions = circuits.positions
    squares = np.square(np.tensordot(circuits.writers[:layer], B, 1)).sum(2)
    return InBases(C.T @ circuits.unembed @ B, positions @ B, positions @ C, squares)


def random_bases(scan: OnePass, n_null: int, seed: int) -> tuple[InBases, np.ndarray]:
    """A model in draws of random bases, and their first rows, as many as columns."""
    circuits = scan.once(circuits_of)
    rank, d = circuits.writers.shape[2:]
    last = structure.attention_layers(scan.model).index(scan.layers[-1])
    rng = np.random.default_rng(seed)
    draws = []
    blocks = []
    for _ in range(n_null):
        bases = random_subspaces(2, d, rank, rng)
        bases *= rng.choice([-1.0, 1.0], (2, 1, rank))  # LAPACK's are not random
        draws.append(in_bases(circuits, last, *bases))
        blocks.append(bases[:, :rank])
    return InBases(*map(np.stack, zip(*draws, strict=True))), np.stack(blocks, 1)


def read_circuits(scan: OnePass, layer: int, head: int) -> Measurement:
    """The values of `head_circuits`, read from the circuits of all heads."""
    circuits = scan.once(circuits_of)
    V, W_O, Q, K = circuits.sides[layer, :, head]
    previous = circuits.previous[:layer]
    reads = writes = np.zeros_like(V)
    if np.isfinite(previous).any():
        number, best = np.unravel_index(previous.argmax(), previous.shape)
        reads, writes = circuits.sides[number, :2, best]
        reads = circuits.gram @ reads
    *bases_OV, OV = decomposed(V, W_O)
    B, C, QK = decomposed(Q, K)

    def read(
        in_OV: InBases, in_QK: InBases, in_KQ: InBases, through: Products
    ) -> tuple[dict, dict]:
        values = {
            "copying": positivity(in_OV.unembed * OV),
            "previous_token": previous_token(
                in_QK.queries * QK, in_QK.keys, circuits.visible[layer]
            ),
            "induction": positivity(through * QK),
        }
        arrays = {}
        for kind, model, singular in (("q", in_QK, QK), ("k", in_KQ, QK), ("v", in_OV, OV)):
            squares = model.squares[..., :layer, :, :] @ np.square(singular)
            shares = np.sqrt(squares) / (np.linalg.norm(singular) or math.nan)
            arrays[f"{kind}_composition"] = shares
            values[f"{kind}_composition"] = np.fmax.reduce(shares, (-2, -1), initial=math.nan)
        return values, arrays

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        bases, (first_B, first_C) = scan.once(random_bases, n_null, seed)
        through = first_C.swapaxes(1, 2) * decomposed(writes, reads)[2] @ first_B
        draws, _ = read(bases, bases, bases, through)
        return {name: Null("random bases", draws[name]) for name in draws}

    in_OV = in_bases(circuits, layer, *bases_OV)
    in_QK = in_bases(circuits, layer, B, C)
    in_KQ = in_bases(circuits, layer, C, B)
    numbers, arrays = read(in_OV, in_QK, in_KQ, C.T @ writes @ (reads.T @ B))
    arrays["eigenvalues"] = np.linalg.eigvals(in_OV.unembed * OV)
    return Measurement({name: float(numbers[name]) for name in numbers}, draw_nulls, arrays)


def decomposed(left: Matrix, right: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bases B and C and singular values D, so that left right^T = B D C^T."""
    bases, R = np.linalg.qr(np.stack([left, right]))
    U, D, V = np.linalg.svd(R[0] @ R[1].T)
    return bases[0] @ U, bases[1] @ V.T, D


def positivity(products: Products) -> np.ndarray:
    """Sum of the eigenvalues over the sum of their absolute values, in [-1, 1].

    NaN if all are 0 but for rounding, also where the matrix is not.

    >>> float(positivity(np.diag([3.0, -1.0])))
    0.5
    >>> float(positivity(np.outer([1, 3, -1], [0.1, 0.2, 0.7])))
    nan
    """
    eigenvalues = torch.linalg.eigvals(torch.from_numpy(products)).numpy()
    size = np.abs(eigenvalues).sum(-1)
    is_zero = size <= ROUNDING * np.linalg.norm(products, axis=(-2, -1))
    return eigenvalues.sum(-1).real / np.where(is_zero, math.nan, size)


def previous_token(
    queries: Products, keys: Products, visible: Bool[np.ndarray, "*lead query key"]
) -> np.ndarray:
    """Mean attention of positions to the one before."""
    scores = torch.from_numpy(queries) @ torch.from_numpy(keys).mT
    pattern = scores.masked_fill_(~torch.from_numpy(visible), -math.inf).softmax(-1)
    return pattern.diagonal(-1, -2, -1).mean(-1).numpy()
