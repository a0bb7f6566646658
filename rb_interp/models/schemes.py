"""Initialisation schemes: the standard deviation of every tensor, and the draws themselves.

docs/models.md has a table of the schemes, `intended_std` their formulas. ``conv1d`` is the letter
of the group's GPT-2 code for another paper: size(1)^-gamma of each Conv1D weight, which is stored
[in, out], so that d_out stands where d_in should (3 n_heads d_head for Q, K and V, which share one
weight).

A tied model draws no unembedding. A seed fixes one standard normal (or uniform) draw per tensor
name, shared across gammas: models of one seed differ in scale alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from rb_interp.errors import ModelError
from rb_interp.models.config import MatrixGammas, ModelConfig, check_gamma

GROUPS = {
    "W_E": "embedding",
    "W_pos": "embedding",
    "W_Q": "qk",
    "W_K": "qk",
    "W_V": "vo",
    "W_O": "vo",
    "W_in": "mlp",
    "W_gate": "mlp",
    "W_out": "mlp",
    "W_U": "unembedding",
    "W_token_type": "embedding",
    "W": "other",
}
OUTPUTS = ("W_O", "W_out")

FIXED_EMBEDDING = 0.02
"""Standard deviation of GPT-2's embeddings, in the schemes that leave them as they are."""


@dataclass(frozen=True)
class Rule:
    """What the standard deviations of a model follow, beside gamma; a ModelConfig says all of it
    too.

    Attributes:
        scheme: one of ``config.SCHEMES``. gammas: rates of single groups of matrices.
        d_model, n_layers: of the model, for the scheme ``d_model``; 0 where they are not known.
    """

    scheme: str = "fan_in"
    gammas: MatrixGammas = field(default_factory=MatrixGammas)
    d_model: int = 0
    n_layers: int = 0


class DrawRule(NamedTuple):
    """What the standard deviations of a draw followed: a rule, and gamma where the rule needs
    one."""

    rule: ModelConfig | Rule
    gamma: float | None


DRAW_RULES: WeakKeyDictionary[Any, DrawRule] = WeakKeyDictionary()
"""Model -> what this package drew last into this very module, whatever was done to it since, as
long as it lives.

Its state dict, its copies and its files know nothing of it.
"""


@dataclass(frozen=True)
class Parameter:
    """One tensor of a model: a weight under its TransformerLens name, or any other model's under
    its own.

    Attributes:
        d_in: input dimension that sets the scale; 0 for what starts as a constant (biases,
            LayerNorm, and W_Q of a layer that attends uniformly).
        trained: whether training changes it.
        group: ``embedding``, ``qk``, ``vo``, ``mlp`` or ``unembedding``, whose rate may be its own;
            ``other`` for a matrix that belongs to none; ``qkv`` for one that holds values beside
            queries, it is not known where; empty for a constant.
        writes: whether it is an output projection, W_O or W_out, which the scheme ``d_model`` makes
            smaller.
        width: size(1) of the weight in GPT-2's code, for the scheme ``conv1d``; 0 where GPT-2 has
            no such weight.
        constant: what every entry starts at where d_in is 0.
    """

    name: str
    shape: tuple[int, ...]
    d_in: int
    trained: bool
    group: str = ""
    writes: bool = False
    width: int = 0
    constant: float = 0.0


def lens_parameter(name: str, shape: tuple[int, ...], d_in: int, trained: bool) -> Parameter:
    """A parameter whose name and shape are those of TransformerLens."""
    kind = name.rsplit(".", 1)[-1]
    if kind not in GROUPS:
        return Parameter(name, shape, d_in, trained, constant=float(kind == "w"))
    # In GPT-2 W_U is the weight of a torch.nn.Linear, [out, in], all others Conv1D's, [in, out]; Q,
    # K, V share one.
    width = shape[-1]
    if kind in ("W_Q", "W_K", "W_V"):
        width = 3 * shape[0] * shape[2]
    elif kind == "W_U":
        width = shape[0]
    return Parameter(name, shape, d_in, trained, GROUPS[kind], kind in OUTPUTS, width)


def parameters(model: ModelConfig, d_vocab: int, n_ctx: int) -> list[Parameter]:
    """Every parameter of a model, in forward order, under the names of HookedTransformer's state
    dict.

    >>> [p.name for p in parameters(ModelConfig(n_layers=1), 10, 3)][:3]
    ['embed.W_E', 'pos_embed.W_pos', 'blocks.0.attn.W_Q']
    """
    d = model.d_model
    h = model.n_heads
    k = model.d_head
    m = model.d_mlp
    result: list[Parameter] = []

    def add(name: str, shape: tuple[int, ...], d_in: int = 0, trained: bool = True) -> None:
        result.append(lens_parameter(name, shape, d_in, trained))

    def add_norm(name: str) -> None:
        add(f"{name}.w", (d,))
        add(f"{name}.b", (d,))

    add("embed.W_E", (d_vocab, d), d)
    if model.architecture == "emb_mlp":
        add("mlp.W_in", (d, m), d)
        add("mlp.W_out", (m, d_vocab), m)
        return result
    if model.architecture == "transformer":
        add("pos_embed.W_pos", (n_ctx, d), d)
    elif d != d_vocab:
        raise ModelError(
            f"d_model={d} and d_vocab={d_vocab} with architecture='one_layer', which has no "
            f"unembedding; give both the same value."
        )
    for layer in range(model.n_layers):
        block = f"blocks.{layer}."
        biases = model.train_biases
        if model.norm != "none":
            add_norm(block + "ln1")
        uniform = layer in model.uniform_layers  # a query of 0 gives every key the same score
        for x in "QKV":
            fixed = uniform and x == "Q"
            add(f"{block}attn.W_{x}", (h, d, k), 0 if fixed else d, not fixed)
        add(f"{block}attn.W_O", (h, k, d), h * k)
        for x in "QKV":
            add(f"{block}attn.b_{x}", (h, k), trained=biases and not (uniform and x == "Q"))
        add(f"{block}attn.b_O", (d,), trained=biases)
        if model.norm != "none":
            add_norm(block + "ln2")
        add(f"{block}mlp.W_in", (d, m), d)
        add(f"{block}mlp.b_in", (m,), trained=biases)
        add(f"{block}mlp.W_out", (m, d), m)
        add(f"{block}mlp.b_out", (d,), trained=biases)
    if model.architecture == "transformer" and model.norm == "pre":
        add_norm("ln_final")
    if model.architecture == "transformer" and not model.tied:
        add("unembed.W_U", (d, d_vocab), d)
        add("unembed.b_U", (d_vocab,))
    return result


def intended_std(parameter: Parameter, model: ModelConfig | Rule, gamma: float | None) -> float:
    """Standard deviation that the model's scheme gives a parameter (0 for what starts as a
    constant)."""
    if not parameter.d_in:
        return 0.0
    if model.scheme == "torch_default":
        return 1.0 if parameter.group == "embedding" else 1 / math.sqrt(3 * parameter.d_in)
    if model.scheme in ("fan_in_fixed_embedding", "conv1d") and parameter.group == "embedding":
        return FIXED_EMBEDDING
    rate = _rate(parameter, model.gammas, gamma)
    if rate is None:
        raise ModelError(
            f"scheme '{model.scheme}' needs a gamma for '{parameter.name}'; pass gamma=0.8, for "
            f"instance."
        )
    check_gamma(rate)
    if model.scheme in ("fan_in", "fan_in_fixed_embedding"):
        return parameter.d_in**-rate
    if model.scheme == "conv1d" and parameter.width:
        return parameter.width**-rate
    if model.scheme == "conv1d" or not model.d_model or not model.n_layers:
        needed = "d_model and n_layers of this model"
        if model.scheme == "conv1d":
            needed = "a width in GPT-2's code"
        raise ModelError(
            f"scheme '{model.scheme}' needs {needed} for '{parameter.name}'; use scheme='fan_in'."
        )
    shrink = math.sqrt(2 * model.n_layers) if parameter.writes else 1.0
    return model.d_model**-rate / shrink


def _rate(parameter: Parameter, gammas: MatrixGammas, gamma: float | None) -> float | None:
    """Gamma of a parameter's group."""
    groups = ("qk", "vo") if parameter.group == "qkv" else (parameter.group,)
    rates = set()
    for group in groups:
        rate = getattr(gammas, group, None)
        rates.add(gamma if rate is None else rate)
    if len(rates) > 1:
        raise ModelError(
            f"gammas qk={gammas.qk} and vo={gammas.vo} differ, and '{parameter.name}' holds "
            f"queries, keys and values in an order that is not known; give both the same."
        )
    return rates.pop()


def standard_draw(parameter: Parameter, scheme: str, seed: int) -> np.ndarray:
    """The unit-variance draw of one tensor: its own stream of the seed, whatever else there is."""
    rng = np.random.default_rng([seed, 4, crc32(parameter.name.encode())])
    if scheme == "torch_default" and parameter.group != "embedding":
        return rng.uniform(-math.sqrt(3), math.sqrt(3), parameter.shape)
    return rng.standard_normal(parameter.shape)


def draw(
    model: ModelConfig, d_vocab: int, n_ctx: int, gamma: float | None, seed: int
) -> dict[str, np.ndarray]:
    """Initial value of every parameter (float64), by TransformerLens name.

    >>> weights = draw(ModelConfig(), d_vocab=200, n_ctx=9, gamma=0.8, seed=0)
    >>> round(float(weights["blocks.0.mlp.W_out"].std() * 128**0.8), 1)
    1.0
    """
    values = {}
    for parameter in parameters(model, d_vocab, n_ctx):
        if parameter.d_in:
            std = intended_std(parameter, model, gamma)
            value = std * standard_draw(parameter, model.scheme, seed)
        else:
            value = np.full(parameter.shape, parameter.constant)
        values[parameter.name] = value
    return values
