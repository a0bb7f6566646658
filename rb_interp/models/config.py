"""What a model looks like and how it is initialised; plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rb_interp import bounds
from rb_interp.checks import KnownFields
from rb_interp.errors import ModelError
from rb_interp.presets import WithPresets

NORMS = ("none", "pre", "post")
SCHEMES = ("fan_in", "d_model", "torch_default", "fan_in_fixed_embedding", "conv1d")
ACTIVATIONS = ("relu", "gelu", "tanh", "gelu_new")
ARCHITECTURES = TRANSFORMER, ONE_LAYER, EMB_MLP = ("transformer", "one_layer", "emb_mlp")


@dataclass(frozen=True)
class MatrixGammas(KnownFields):
    """Initialisation rates of single groups of matrices; None follows the model's gamma.

    Attributes:
        embedding: of W_E and W_pos.
        qk: of W_Q and W_K.
        vo: of W_V and W_O.
        mlp: of W_in and W_out.
        unembedding: of W_U.
    """

    BOUNDS = bounds.GAMMAS

    embedding: float | None = None
    qk: float | None = None
    vo: float | None = None
    mlp: float | None = None
    unembedding: float | None = None

    def __post_init__(self) -> None:
        bounds.check(self, ModelError)


@dataclass(frozen=True)
class ModelConfig(WithPresets):
    """A decoder-only transformer with learned position embeddings, or a simplified model.

    Attributes:
        architecture: ``transformer``; ``one_layer``, paper 1's Definition 2, one layer without LayerNorm, positions and
            unembedding, so that d_model is d_vocab; or ``emb_mlp``, its Definition 1, an MLP on the sum of embeddings,
            which has no use for d_head. The simplified ones have one layer, one head, no norm, and the scheme
            ``fan_in``.
        n_layers: number of blocks.
        n_heads: attention heads of a block.
        d_model: width of the residual stream.
        d_head: width of one head (the paper's d_k).
        d_mlp: width of the MLP (the paper's d_f).
        norm: LayerNorm nowhere (``none``), before each sublayer and at the end (``pre``, as in GPT-2), or after
            each residual addition (``post``, as in the code of the paper's group).
        act: ``relu``, ``gelu``, ``tanh`` or ``gelu_new`` (GPT-2's approximation of gelu through tanh).
        scheme: how the standard deviation of each matrix follows from gamma: ``fan_in``, ``d_model``,
            ``torch_default``, ``fan_in_fixed_embedding`` or ``conv1d``, see ``models.schemes``.
        gammas: rates of single groups of matrices.
        train_biases: train the biases of attention and MLP, which otherwise stay at 0. The unembedding bias and
            LayerNorm's own parameters are always trained.
        tied: unembed with the transpose of the token embedding and without a bias, as GPT-2 does. A model built here
            holds a copy of it as W_U, so training such a model elsewhere unties it.
        uniform_layers: layers whose attention is exactly 1/i at query i: there W_Q and b_Q are 0 and are not trained,
            so that all scores are 0. Every other tensor starts as it would without this setting.
        layer_norm_eps: added to the variance in LayerNorm.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {"d_model": 32, "d_head": 16, "d_mlp": 64},
        "quick": {},
        "paper": {"d_model": 200, "d_head": 64, "d_mlp": 512, "norm": "post"},
    }
    ERROR = ModelError
    BOUNDS = bounds.MODEL

    n_layers: int = 2
    n_heads: int = 1
    d_model: int = 64
    d_head: int = 32
    d_mlp: int = 128
    act: str = "relu"
    norm: str = "none"
    scheme: str = "fan_in"
    gammas: MatrixGammas = MatrixGammas()
    train_biases: bool = False
    layer_norm_eps: float = 1e-5
    architecture: str = "transformer"
    tied: bool = False
    uniform_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        names = {"norm": NORMS, "scheme": SCHEMES, "act": ACTIVATIONS, "architecture": ARCHITECTURES}
        bounds.check(self, ModelError, names)
        for name, only in SIMPLIFIED.items() if self.architecture != "transformer" else ():
            if getattr(self, name) != only:
                raise ModelError(
                    f"{name}={getattr(self, name)!r} with architecture='{self.architecture}'; its definition has "
                    f"{name}={only!r}."
                )
        if not set(self.uniform_layers) <= set(range(self.n_layers)):
            raise ModelError(
                f"uniform_layers={self.uniform_layers} of a model with {self.n_layers} layers; expected layers from 0 "
                f"to {self.n_layers - 1}."
            )
        if self.tied and self.gammas.unembedding is not None:
            raise ModelError(
                f"gammas.unembedding={self.gammas.unembedding} of a tied model; its unembedding is the embedding, so "
                f"set gammas.embedding, or tied=False."
            )


SIMPLIFIED = {
    "n_layers": 1,
    "n_heads": 1,
    "norm": "none",
    "scheme": "fan_in",
    "train_biases": False,
    "tied": False,
    "uniform_layers": (),
}
"""Settings that Definitions 1 and 2 leave no choice in."""


def check_gamma(gamma: float) -> None:
    """Raise ModelError where an initialisation rate is no number within its bounds."""
    bounds.check_bound("gamma", bounds.converted(gamma, float, "gamma=", ModelError), bounds.GAMMA, ModelError)
