"""What a model looks like and how it is initialised; plain data, no torch."""

from __future__ import annotations

from numbers import Real
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from rb_interp.errors import ModelError
from rb_interp.settings import Gamma, Settings, Size

Norm = Literal["none", "pre", "post"]
Scheme = Literal["fan_in", "d_model", "torch_default", "fan_in_fixed_embedding", "conv1d"]
Activation = Literal["relu", "gelu", "tanh", "gelu_new"]
Architecture = Literal["transformer", "one_layer", "emb_mlp"]
NORMS, SCHEMES = map(get_args, (Norm, Scheme))


class MatrixGammas(Settings):
    """Initialisation rates of single groups of matrices; None follows the model's gamma."""

    ERROR = ModelError

    embedding: Gamma | None = None
    """Of W_E and W_pos."""
    qk: Gamma | None = None
    """Of W_Q and W_K."""
    vo: Gamma | None = None
    """Of W_V and W_O."""
    mlp: Gamma | None = None
    """Of W_in and W_out."""
    unembedding: Gamma | None = None
    """Of W_U."""


class ModelConfig(Settings):
    """A decoder-only transformer with learned position embeddings, or a simplified model.

    ``rb-interp train --help`` and the page on configuration say what each field means. Raises
    ModelError for settings that contradict each other.
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {"d_model": 32, "d_head": 16, "d_mlp": 64},
        "quick": {},
        "paper": {"d_model": 200, "d_head": 64, "d_mlp": 512, "norm": "post"},
    }
    ERROR = ModelError

    n_layers: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of blocks."""
    n_heads: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Attention heads of a block."""
    d_model: Size = 64
    """Width of the residual stream."""
    d_head: Size = 32
    """Width of one head (the paper's d_k)."""
    d_mlp: Size = 128
    """Width of the MLP (the paper's d_f)."""
    act: Activation = "relu"
    """``gelu_new`` is GPT-2's approximation of gelu through tanh."""
    norm: Norm = "none"
    """LayerNorm nowhere (``none``), before each sublayer and at the end (``pre``, as in GPT-2), or
    after each residual addition (``post``, as in the code of the paper's group)."""
    scheme: Scheme = "fan_in"
    """How the standard deviation of each matrix follows from gamma, see ``models.schemes``."""
    gammas: MatrixGammas = MatrixGammas()
    """Rates of single groups of matrices."""
    train_biases: bool = False
    """Train the biases of attention and MLP, which otherwise stay at 0. The unembedding bias and
    LayerNorm's own parameters are always trained."""
    layer_norm_eps: Annotated[float, Field(ge=0, le=1)] = 1e-5
    """Added to the variance in LayerNorm."""
    architecture: Architecture = "transformer"
    """``one_layer`` is paper 1's Definition 2: one layer without LayerNorm, positions and
    unembedding, so that d_model is d_vocab. ``emb_mlp`` is its Definition 1: an MLP on the sum of
    embeddings, which has no use for d_head. Both have one layer, one head, no norm, and the scheme
    ``fan_in``."""
    tied: bool = False
    """Unembed with the transpose of the token embedding and without a bias, as GPT-2 does. A model
    built here holds a copy of it as W_U, so training such a model elsewhere unties it."""
    uniform_layers: tuple[Annotated[int, Field(ge=0, le=999)], ...] = ()
    """Layers whose attention is exactly 1/i at query i: there W_Q and b_Q are 0 and are not
    trained, so that all scores are 0. Every other tensor starts as it would without this
    setting."""

    def __post_init__(self) -> None:
        for name, only in SIMPLIFIED.items() if self.architecture != "transformer" else ():
            if getattr(self, name) != only:
                raise ModelError(
                    f"{name}={getattr(self, name)!r} with architecture='{self.architecture}'; its "
                    f"definition has {name}={only!r}."
                )
        if not set(self.uniform_layers) <= set(range(self.n_layers)):
            raise ModelError(
                f"uniform_layers={self.uniform_layers} of a model with {self.n_layers} layers; "
                f"expected layers from 0 to {self.n_layers - 1}."
            )
        unused = [*UNUSED.get(self.architecture, ()), *UNUSED.get(self.scheme, ())]
        for group in [*unused, *["unembedding"] * self.tied]:
            if (rate := getattr(self.gammas, group)) is not None:
                raise ModelError(
                    f"gammas.{group}={rate} has no effect with architecture="
                    f"'{self.architecture}', scheme='{self.scheme}', tied={self.tied}; leave it out."
                )


UNUSED = {
    "emb_mlp": ("qk", "vo", "unembedding"),
    "one_layer": ("unembedding",),
    "torch_default": ("embedding", "qk", "vo", "mlp", "unembedding"),
    "fan_in_fixed_embedding": ("embedding",),
    "conv1d": ("embedding",),
}
"""Architecture or scheme -> groups of matrices that it lacks, or scales by another rule."""
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
    """Raise ModelError where an initialisation rate is no number from 0 to 20."""
    if isinstance(gamma, bool) or not isinstance(gamma, Real) or not 0 <= gamma <= 20:
        raise ModelError(
            f"gamma={gamma!r}; expected 0 to 20, for above it every weight starts at 0 in float32."
        )
