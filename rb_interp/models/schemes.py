"""Initialisation schemes: the standard deviation of every tensor, and the draws themselves.

``fan_in``        std = d_in^-gamma (paper 1, section "Initialization"); for both embeddings d_in := d_model.
``d_model``       std = d_model^-gamma, with W_O and W_out divided by sqrt(2 n_layers) (the group's later code).
``torch_default`` uniform on +-d_in^-1/2 for matrices, N(0, 1) for embeddings (torch.nn's own); gamma plays no part.
``fan_in_fixed_embedding``  as fan_in, with both embeddings left at GPT-2's std = .02, whatever gamma.
``conv1d``        the letter of the group's GPT-2 code for another paper: size(1)^-gamma of each Conv1D weight, which is
                  stored [in, out], so that d_out stands where d_in should (3 d_model for Q, K and V, which share one
                  weight); both embeddings at .02.

A tied model draws no unembedding.

Biases start at 0 and LayerNorm at 1 and 0 in all of them. A seed fixes one standard normal (or uniform) draw per
tensor name, shared across gammas: models of one seed differ in scale alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from rb_interp.errors import ModelError
from rb_interp.models.config import ModelConfig, check_gamma

GROUPS = {
    "W_E": "embedding", "W_pos": "embedding", "W_Q": "qk", "W_K": "qk", "W_V": "vo", "W_O": "vo",
    "W_in": "mlp", "W_out": "mlp", "W_U": "unembedding",
}  # fmt: skip


FIXED_EMBEDDING = 0.02
"""Standard deviation of GPT-2's embeddings, in the schemes that leave them as they are."""


@dataclass(frozen=True)
class Parameter:
    """One tensor of a model under its TransformerLens name.

    Attributes:
        d_in: input dimension that sets the scale; 0 for what starts as a constant (biases, LayerNorm, and W_Q of a
            layer that attends uniformly).
        trained: whether training changes it.
    """

    name: str
    shape: tuple[int, ...]
    d_in: int
    trained: bool

    @property
    def kind(self) -> str:
        """Last part of the name: W_E, W_Q, b_U, w, ..."""
        return self.name.rsplit(".", 1)[-1]


def parameters(model: ModelConfig, d_vocab: int, n_ctx: int) -> list[Parameter]:
    """Every parameter of a model, in forward order, under the names of HookedTransformer's state dict.

    >>> [p.name for p in parameters(ModelConfig(n_layers=1), 10, 3)][:3]
    ['embed.W_E', 'pos_embed.W_pos', 'blocks.0.attn.W_Q']
    """
    d, h, k, m = model.d_model, model.n_heads, model.d_head, model.d_mlp
    biases, embedding = model.train_biases, Parameter("embed.W_E", (d_vocab, d), d, True)
    if model.architecture == "emb_mlp":
        layers = [Parameter("mlp.W_in", (d, m), d, True), Parameter("mlp.W_out", (m, d_vocab), m, True)]
        return [embedding, *layers]
    found = [embedding]
    if model.architecture == "transformer":
        found += [Parameter("pos_embed.W_pos", (n_ctx, d), d, True)]
    elif d != d_vocab:
        raise ModelError(
            f"d_model={d} and d_vocab={d_vocab} with architecture='one_layer', which has no unembedding; give both the "
            f"same value."
        )
    for layer in range(model.n_layers):
        block = f"blocks.{layer}."
        if model.norm != "none":
            found += _layer_norm(block + "ln1", d)
        uniform = layer in model.uniform_layers  # a query of 0 gives every key the same score
        found += [Parameter(f"{block}attn.W_Q", (h, d, k), 0 if uniform else d, not uniform)]
        found += [Parameter(f"{block}attn.W_{x}", (h, d, k), d, True) for x in "KV"]
        found += [Parameter(f"{block}attn.W_O", (h, k, d), h * k, True)]
        found += [Parameter(f"{block}attn.b_Q", (h, k), 0, biases and not uniform)]
        found += [Parameter(f"{block}attn.b_{x}", (h, k), 0, biases) for x in "KV"]
        found += [Parameter(f"{block}attn.b_O", (d,), 0, biases)]
        if model.norm != "none":
            found += _layer_norm(block + "ln2", d)
        found += [Parameter(f"{block}mlp.W_in", (d, m), d, True), Parameter(f"{block}mlp.b_in", (m,), 0, biases)]
        found += [Parameter(f"{block}mlp.W_out", (m, d), m, True), Parameter(f"{block}mlp.b_out", (d,), 0, biases)]
    if model.architecture == "one_layer":
        return found
    if model.norm == "pre":
        found += _layer_norm("ln_final", d)
    if model.tied:
        return found
    return [*found, Parameter("unembed.W_U", (d, d_vocab), d, True), Parameter("unembed.b_U", (d_vocab,), 0, True)]


def _layer_norm(name: str, d_model: int) -> list[Parameter]:
    return [Parameter(f"{name}.w", (d_model,), 0, True), Parameter(f"{name}.b", (d_model,), 0, True)]


def intended_std(parameter: Parameter, model: ModelConfig, gamma: float | None) -> float:
    """Standard deviation that the model's scheme gives a parameter (0 for what starts as a constant)."""
    group = GROUPS.get(parameter.kind)
    if group is None or not parameter.d_in:
        return 0.0
    if model.scheme == "torch_default":
        return 1.0 if group == "embedding" else 1 / math.sqrt(3 * parameter.d_in)
    if model.scheme in ("fan_in_fixed_embedding", "conv1d") and group == "embedding":
        return FIXED_EMBEDDING
    rate = getattr(model.gammas, group)
    rate = gamma if rate is None else rate
    if rate is None:
        raise ModelError(f"scheme '{model.scheme}' needs a gamma for '{parameter.name}'; pass gamma=0.8, for instance.")
    check_gamma(rate)
    if model.scheme in ("fan_in", "fan_in_fixed_embedding"):
        return parameter.d_in**-rate
    if model.scheme == "conv1d":
        return _conv1d_width(parameter, model) ** -rate
    depth = math.sqrt(2 * model.n_layers) if parameter.kind in ("W_O", "W_out") else 1.0
    return model.d_model**-rate / depth


def _conv1d_width(parameter: Parameter, model: ModelConfig) -> int:
    """Output width of the weight that holds a matrix in GPT-2's Conv1D layers; W_U is a torch.nn.Linear, [out, in]."""
    if parameter.kind in ("W_Q", "W_K", "W_V"):
        return 3 * model.n_heads * model.d_head
    return {"W_O": model.d_model, "W_in": model.d_mlp, "W_out": model.d_model, "W_U": model.d_model}[parameter.kind]


def standard_draw(parameter: Parameter, scheme: str, seed: int) -> np.ndarray:
    """The unit-variance draw of one tensor: its own stream of the seed, whatever else the model holds."""
    rng = np.random.default_rng([seed, 4, crc32(parameter.name.encode())])
    if scheme == "torch_default" and GROUPS[parameter.kind] != "embedding":
        return rng.uniform(-math.sqrt(3), math.sqrt(3), parameter.shape)
    return rng.standard_normal(parameter.shape)


def draw(model: ModelConfig, d_vocab: int, n_ctx: int, gamma: float | None, seed: int) -> dict[str, np.ndarray]:
    """Initial value of every parameter (float64), by TransformerLens name.

    >>> weights = draw(ModelConfig(), d_vocab=200, n_ctx=9, gamma=0.8, seed=0)
    >>> round(float(weights["blocks.0.mlp.W_out"].std() * 128**0.8), 1)
    1.0
    """
    weights = {}
    for parameter in parameters(model, d_vocab, n_ctx):
        std = intended_std(parameter, model, gamma)
        if parameter.d_in:
            weights[parameter.name] = std * standard_draw(parameter, model.scheme, seed)
        else:
            weights[parameter.name] = np.full(parameter.shape, float(parameter.kind == "w"))
    return weights


def check_sizes(task: Any) -> None:
    """Raise ModelError where an object does not tell the sizes that a model takes from its task."""
    if isinstance(task, type) or not all(isinstance(getattr(task, name, None), int) for name in ("d_vocab", "length")):
        raise ModelError(
            f"a {type(task).__name__} tells no vocabulary and length; pass an AnchorTask, or anything with "
            f"d_vocab and length."
        )
