r"""What does a head's value matrix read?  (paper 1, Fig. 6: spectrum of W_V, its leading vector and
the anchors)

In the convention x W_V, the left singular vectors of W_V = U S V^T are directions of the residual
stream, strongest first. With u_1 the first, and e_t the embedding of token t less the mean over all
tokens of the groups:

    spectrum_ratio = s_1 / s_2        cos_<group> = mean over tokens t of the group of abs cos(u_1, e_t)
    subspace_<group> = sum_t |U_k^T e_t|^2 / sum_t |e_t|^2        U_k: the first k columns of U

The caller names the groups, and two of them to contrast (the anchor study: reasoning and memory
anchors). cos_gap is the first less the second, and ``_within`` is centred over these two alone.

``ov_<quantity>`` is the same of W_V W_O, the OV matrix of this one head (Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits"). W_V R and R^-1 W_O give the same logits for any
invertible R. They leave W_V W_O as it is, and give W_V any spectrum, and any leading direction that
it reads at all.

"Embedding" is what enters this head's attention: W_E where it reads the residual stream itself (no
LayerNorm, or a LayerNorm after the sublayers), else LayerNorm's output, with its weight and bias,
on constant sequences of each token, averaged over positions. Models differ in where they normalise
and in what their hooks record, so the tensor taken is the one that reproduces the head's own value
vectors, ``hook_v = x W_V + b_V``.

How it can mislead. Of two models with the same logits one can meet M3 and M4 and the other miss
both: compare with ``ov_``. The paper's circuit reads s_1 / s_2 >= 1.5, cos_reasoning >= .70,
cos_memory <= .30 (M3 to M6). An untrained model reads a ratio just above 1 and sqrt(2 / (pi d)) for
every cosine (.10 at d_model 64), unless all embeddings share a direction: then *raw* cosines are
all large or all small together, trained or not. Centring over anchors and keys leaves what sets one
group apart from another; ``_within``, centred over the anchors alone, takes away what sets anchors
apart from keys. A head that reads no anchors can have a dominant direction too. Where s_1 is near
s_2, u_1 is arbitrary: read the subspace. In layers above the first, W_E tells what the head reads
of the token itself, and a captured embedding holds what earlier layers wrote on the constant
sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError, nearest, shown
from rb_interp.models.arrays import ActivationSource, Arrays, model_of
from rb_interp.models.hooking import hook_points
from rb_interp.models.structure import has_attention, layer_heads
from rb_interp.probes._probe import Found, check_layer_head, probe, source
from rb_interp.probes.activations import capture, float64
from rb_interp.statistics import nulls as null_draws
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs, Roles

UNDEFINED = (
    "W_V's second singular value is 0, or the embeddings of a group are zero or all the same."
)
TOLERANCE = 0.02
"""Relative error up to which a tensor counts as the attention's input; float32 reaches 1e-6,
bfloat16 about 1e-2."""
ROWS_TO_TELL, POSITIONS_TO_TELL = 2, 4
"""Rows on which candidates for the attention's input are compared, and positions of each."""
Groups = Mapping[str, Int[np.ndarray, " n"]]
"""Name -> token ids. Names become part of the quantities' names; arrays number the groups in this
order from 0."""
Embeddings = Float[np.ndarray, "token d_model"]


@probe(source, UNDEFINED)
def value_alignment(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int,
    head: int,
    k: int = 3,
    groups: Mapping | None = None,
    contrast: tuple[str, str] | None = None,
) -> Found:
    """Spectra of a head's W_V and W_V W_O, and how their leading left singular vectors align with
    groups of tokens.

    Values: ``spectrum_ratio``, at least 1; ``cos_<group>`` in [0, 1], ``cos_<group>_within`` and
    ``cos_<group>_raw`` (not centred); ``cos_gap``; ``subspace_<group>`` in [0, 1]; and all of them
    as ``ov_<quantity>``. Arrays: ``singular_values``; ``tokens``, ``group`` (numbers in the order
    of ``groups``) and ``cosines`` ``[k, token]``, signed and centred; ``ov_singular_values`` and
    ``ov_cosines``.

    Args:
        inputs: rows of which only the length is used, and roles that name the groups.
        k: how many singular directions the subspaces and ``cosines`` have; ModelError for more than
            W_V has.
        groups: name -> token ids, or the name of a group of the roles; by default every group of
            the roles.
        contrast: two groups to compare; by default the first two.

    Raises RolesError for missing or empty token groups.
    """
    W_V = value_matrix(model, layer=layer, head=head)
    if not 1 <= k <= min(W_V.shape):
        raise ModelError(
            f"value_alignment got k={k}; W_V of this model is {W_V.shape[0]} x {W_V.shape[1]}. "
            f"Use k=1 to k={min(W_V.shape)}."
        )
    named = token_groups(groups, inputs.roles, "value_alignment", contrast or ())
    for name, ids in named.items():
        if not len(ids):
            raise RolesError(
                f"value_alignment got no tokens in the group '{name}'; name at least one."
            )
    two, (tokens, group) = tuple(contrast or list(named)[:2]), numbered(named)
    every = token_embeddings(model, tokens, inputs.tokens.shape[1], layer, head)
    vectors, centred = (
        {name: every[group == number] for number, name in enumerate(named)},
        every - every.mean(0),
    )
    ahead = group == list(named).index(two[0])
    values, arrays = {}, {"tokens": tokens, "group": group}
    W_O = float64(layer_heads(model, layer, "W_O")[head])
    for name, (U, S) in zip(("", "ov_"), value_svd(W_V, W_O), strict=True):
        values[f"{name}spectrum_ratio"] = float(S[0] / S[1]) if len(S) > 1 and S[1] > 0 else np.inf
        observed = aligned(U[:, :1].T, U[None, :, :k], vectors, two)
        values |= {f"{name}{quantity}": float(value[0]) for quantity, value in observed.items()}
        signed = _cosines(
            U[:, :k].T, centred
        )  # singular vectors have no sign: the contrast's first group is ahead
        signed *= np.where(signed[:, ahead].mean(1, keepdims=True) < 0, -1, 1)
        arrays |= {f"{name}singular_values": S, f"{name}cosines": signed}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        directions, bases, ratios = draw(W_V.shape, k, n_null, seed)
        drawn = aligned(directions, bases, vectors, two).items()
        said = {"c": "random direction", "s": "random subspace"}
        both = {
            f"{kind}{name}": Null(said[name[0]], of) for kind in ("", "ov_") for name, of in drawn
        }
        ratio = (
            "Gaussian matrix of the same shape",
            "product of Gaussian matrices of the same shapes",
        )
        names = "spectrum_ratio", "ov_spectrum_ratio"
        return both | {
            name: Null(text, of) for name, text, of in zip(names, ratio, ratios, strict=False)
        }

    return Found(values, nulls, arrays)


def _cosines(
    directions: Float[np.ndarray, "n d_model"], vectors: Embeddings
) -> Float[np.ndarray, "n token"]:
    """Cosines of unit directions with vectors; 0 for a vector of length 0, which has no
    direction."""
    norm = np.linalg.norm(vectors, axis=1)
    return directions @ vectors.T / np.where(norm == 0, 1.0, norm)


def aligned(
    directions: Float[np.ndarray, "n d_model"],
    bases: Float[np.ndarray, "n d_model k"],
    vectors: Mapping[str, Embeddings],
    two: Sequence[str],
) -> dict[str, np.ndarray]:
    """Cosines of n unit directions and shares of n subspaces, ``[n]`` each: one observed, or the
    draws of a null."""
    names, mean = dict.fromkeys([*two, *vectors]), np.concatenate([*vectors.values()]).mean(0)
    centred = {name: rows - mean for name, rows in vectors.items()}

    def means(
        groups: Mapping[str, Embeddings], names: Iterable[str], ending: str = ""
    ) -> dict[str, np.ndarray]:
        return {
            f"cos_{name}{ending}": np.abs(_cosines(directions, groups[name])).mean(1)
            for name in names
        }

    values = means(centred, names)
    if len(two) == 2:
        values["cos_gap"] = values[f"cos_{two[0]}"] - values[f"cos_{two[1]}"]
        between = np.concatenate([vectors[name] for name in vectors if name in two]).mean(0)
        values |= means({name: vectors[name] - between for name in two}, two, "_within")
    values |= means(vectors, names, "_raw")
    for name in names:
        inside = ((centred[name] @ bases) ** 2).sum((1, 2))
        values[f"subspace_{name}"] = inside / max((centred[name] ** 2).sum(), np.finfo(float).tiny)
    return values


@lru_cache(maxsize=64)  # heads and models that are alike share it
def draw(
    shape: tuple[int, int], k: int, n_null: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Random directions and subspaces, and s1/s2 of Gaussian matrices and of products of two; they
    know no model."""
    rng = np.random.default_rng(seed)
    directions = null_draws.random_directions(n_null, shape[0], rng)
    bases = null_draws.random_subspaces(n_null, shape[0], k, rng)
    singular = null_draws.gaussian_singular_values, null_draws.gaussian_product_singular_values
    tops = [values(n_null, *shape, rng) for values in singular] if min(shape) > 1 else []
    return directions, bases, [top[:, 0] / top[:, 1] for top in tops]


def value_matrix(
    model: ActivationSource, *, layer: int = 0, head: int = 0
) -> Float[np.ndarray, "d_model d_head"]:
    """W_V of one head in float64, which grouped queries share; ModelError where it is not there, or
    not finite."""
    check_layer_head(model, layer, head, "value_matrix", caches=True)
    stacked = layer_heads(model, layer, "W_V")
    own = stacked[head * len(stacked) // model_of(model).cfg.n_heads]
    if not own.isfinite().all():
        raise ModelError(f"W_V of L{layer} is not all finite: the model's training has diverged.")
    return float64(own)


def value_svd(
    W_V: Float[np.ndarray, "d_model d_head"], W_O: Float[np.ndarray, "d_head d_model"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Left singular vectors and singular values of W_V, and of W_V W_O.

    With W_V = U S V^T and W_O^T = Q R, W_V W_O = U (S V^T R^T) Q^T: only the small matrix in the
    middle is decomposed.
    """
    U, S, V = np.linalg.svd(W_V, full_matrices=False)
    R: Any = np.linalg.qr(W_O.T, mode="r")
    inner, ov_S, _ = np.linalg.svd(S[:, None] * V @ R.T, full_matrices=False)
    return (U, S), (U @ inner, ov_S)


def token_groups(
    groups: Mapping | None, roles: Roles, probe: str, asked: Iterable[str] = ()
) -> dict[str, Int[np.ndarray, " n"]]:
    """The groups that a probe compares, by the name that its quantities have; by default every
    group of the roles.

    Raises RolesError where there is no group, or not one that is asked for, and for ids that are no
    whole numbers.

    >>> roles = Roles(tokens={"hour": np.arange(3), "place": np.arange(3, 5)})
    >>> list(token_groups(None, roles, "geometry")), list(token_groups({"where": "place"}, roles, "geometry"))
    (['hour', 'place'], ['where'])
    """
    named = roles.tokens if groups is None else groups
    if not named:
        raise RolesError(
            f"{probe} needs groups of tokens and got none; pass groups={{name: token ids}} or name "
            f"them in Roles."
        )
    for name in asked:
        if name not in named:
            raise RolesError(f"{probe} has no group '{name}'; {nearest(name, named)}")
    result = {}
    for name, ids in named.items():
        try:
            tokens = np.asarray(roles.group(ids, probe) if isinstance(ids, str) else ids)
            whole = not tokens.size or (tokens.dtype.kind in "iu" and tokens.max() < 2**63)
            if not whole or len(np.unique(tokens)) < tokens.size:  # ones and zeros, for instance
                raise TypeError
            result[name] = tokens.astype(np.int64).reshape(-1)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            raise RolesError(
                f"{probe} got the group {shown(name)} with {shown(ids)}; expected a list of token "
                f"ids, each once."
            ) from None
    return result


def numbered(groups: Groups) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """Token ids of all groups, one group after another, and the number of each token's group."""
    sizes = [len(ids) for ids in groups.values()]
    return np.concatenate(list(groups.values())), np.repeat(np.arange(len(groups)), sizes)


def token_embeddings(
    source: ActivationSource, ids: Int[np.ndarray, " token"], length: int, layer: int, head: int
) -> Embeddings:
    """Embedding of each token as the head reads it, in float64; see the module's docstring.

    That of a model without heads is W_E, of arrays ``token_inputs``, and of BERT its normalised
    embedding.
    """
    model, rows = model_of(source), torch.as_tensor(np.repeat(np.asarray(ids)[:, None], length, 1))
    if has_attention(model) and isinstance(model, Arrays):
        return float64(model.blocks[layer].token_inputs[torch.as_tensor(ids)])
    if has_attention(model):
        kind, inputs = attention_inputs(source, rows, layer, head)
        if kind == "residual" and hasattr(
            getattr(model, "embed", None), "ln"
        ):  # BERT normalises the embedding
            kind, inputs = "normalised", attention_inputs(source, rows, 0, head)[1]
        if kind == "normalised":
            return inputs.mean(1).numpy()
    return float64(model.W_E.detach()[torch.as_tensor(ids)])


def attention_inputs(
    source: ActivationSource, rows: Int[Tensor, "row pos"], layer: int, head: int
) -> tuple[str, Tensor]:
    """Where the head reads, ``residual`` or ``normalised``, and that tensor in float64; ModelError
    for neither."""
    model, block = model_of(source), f"blocks.{layer}."
    wanted = [block + "attn.hook_v", block + "hook_resid_pre"]
    norms = [f"{block}ln1.hook_normalized", f"{block}ln1.hook_out"]
    wanted += hook_points(model, norms)
    run = getattr(source, "of_rows", partial(capture, model))  # these are not the rows of a cache
    v, *activations = run(rows, wanted).values()
    # use_attn_in and use_split_qkv_input give each head an input of its own
    own = [
        x if x.ndim == 3 else x[:, :, head * x.shape[2] // model.cfg.n_heads] for x in activations
    ]
    kinds = ["residual", *["normalised"] * (len(own) - 1)]
    candidates, norm = list(zip(kinds, own, strict=True)), getattr(model.blocks[layer], "ln1", None)
    weight, bias = (getattr(norm, name, None) for name in ("w", "b"))
    if block + "ln1.hook_normalized" in wanted and isinstance(
        weight, Tensor
    ):  # it stands before these two in 3.x
        times, plus = (
            one.detach().cpu().double() if isinstance(one, Tensor) else 0.0
            for one in (weight, bias)
        )
        candidates.append(("normalised", own[1].double() * times + plus))
    W_V, b_V = (
        layer_heads(model, layer, "W_V").detach(),
        getattr(model.blocks[layer].attn, "b_V", None),
    )
    part, group = head * len(W_V) // model.cfg.n_heads, head * v.shape[2] // model.cfg.n_heads
    some = np.unique(np.linspace(0, len(rows) - 1, ROWS_TO_TELL).astype(int))
    weight, values = W_V[part].cpu().double(), v[some, :POSITIONS_TO_TELL, group].double()
    bias = 0 if b_V is None else b_V[part].detach().cpu().double()
    size = values.norm().clamp_min(torch.finfo(torch.float64).tiny)
    few = [x[some, :POSITIONS_TO_TELL].double() for _, x in candidates]
    errors = [float((x @ weight + bias - values).norm() / size) for x in few]
    error = min(errors)
    if math.isnan(error):
        raise ModelError(
            f"what enters attention in L{layer} is not finite: the model's training has diverged."
        )
    if not error <= TOLERANCE:
        raise ModelError(
            f"cannot tell what enters attention in L{layer}: x W_V + b_V misses head {head}'s "
            f"hook_v by {error:.0%}. It needs hook_v, and hook_resid_pre or ln1.hook_normalized, "
            f"as in TransformerLens."
        )
    kind, x = candidates[errors.index(error)]
    return kind, x.double()
