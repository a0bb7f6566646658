"""Models ready to train or to probe: an architecture, a scheme's draws, and what stays frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.models import protocol
from rb_interp.models.architectures import EmbMLP, OneLayer, PostNormTransformer
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import DRAWN, Drawn, draw, parameters

SIMPLIFIED = {"emb_mlp": EmbMLP, "one_layer": OneLayer}
"""Architecture -> its class."""


@checked
def build_model(
    task: Any,
    gamma: float | None = None,
    norm: str | None = None,
    scheme: str | None = None,
    seed: int = 0,
    *,
    config: ModelConfig | None = None,
    dtype: torch.dtype = torch.float32,
    **sizes: Any,
) -> HookedModel:
    """An untrained model for a task, every weight drawn by a named scheme (``models.schemes``), on
    CPU.

    A HookedTransformer (a native TransformerBridge on TransformerLens 4), a PostNormTransformer for
    ``post``, or the EmbMLP or OneLayer that ``architecture`` asks for. Models of one seed share
    their standard normal draws: between gammas each matrix differs by one factor. Biases other than
    b_U are frozen at 0 unless ``train_biases=True``; the caller's random state stays as it was.

    Args:
        task: an AnchorTask, or anything with ``d_vocab`` and ``length``.
        gamma: initialisation rate, std = d_in^-gamma (paper 1, section "Initialization"); 0.5 is
            near the usual default, larger is a smaller initialisation. ``scheme="torch_default"``
            has no use for it.
        norm, scheme: override those of ``config``, which are ``none`` and ``fan_in`` by default.
        seed: of the normal draws. dtype: of the weights.
        config: sizes and all else; by default those of the preset ``quick``.
        sizes: single fields of ModelConfig, over ``config``.

    Raises ModelError for an unknown size, sizes that the architecture does not allow, a scheme
    without the gamma it needs, and a task without the two sizes.

    >>> from rb_interp.tasks.anchor import AnchorTask
    >>> model = build_model(AnchorTask(), gamma=0.8, n_heads=2)
    >>> tuple(model.W_V.shape), round(model.W_E.std().item() * 64**0.8, 1)
    ((2, 2, 64, 32), 1.0)
    """
    fields = {"norm": norm, "scheme": scheme, **sizes}
    fields = {name: value for name, value in fields.items() if value is not None}
    config = replace(config or ModelConfig(), **fields)
    task_sizes = [getattr(task, name, None) for name in ("d_vocab", "length")]
    if isinstance(task, type) or not all(isinstance(size, int) for size in task_sizes):
        raise ModelError(
            f"a {type(task).__name__} tells no vocabulary and length; pass an AnchorTask, or "
            f"anything with "
            f"d_vocab and length."
        )
    weights = draw(config, task.d_vocab, task.length, gamma, seed)
    model = lens_model(config, task.d_vocab, task.length, weights, dtype)
    DRAWN[model] = Drawn(config, gamma)
    return model


def lens_model(
    config: ModelConfig,
    d_vocab: int,
    n_ctx: int,
    weights: Mapping[str, Tensor | np.ndarray],
    dtype: torch.dtype = torch.float32,
) -> HookedModel:
    """A model that holds given weights, by TransformerLens name: a trained member, for instance.

    ``protocol.write_weights`` puts ``exported(weights, config)`` of another member of this shape
    into it. Raises ModelError where a weight is missing, unknown or of another shape.
    """
    transformer = PostNormTransformer if config.norm == "post" else protocol.make_lens_model
    architecture = SIMPLIFIED.get(config.architecture, transformer)
    model = architecture(config, d_vocab, n_ctx, dtype)
    protocol.write_weights(model, exported(weights, config))
    by_name = protocol.live_parameters(model)
    for parameter in parameters(config, d_vocab, n_ctx):
        by_name[parameter.name].requires_grad_(parameter.trained)
    return model.eval()  # nothing here depends on the mode, but patching helpers ask for it


def exported(
    weights: Mapping[str, Tensor | np.ndarray], config: ModelConfig
) -> dict[str, Tensor | np.ndarray]:
    """A member's weights as a TransformerLens model holds them: with a copy of a tied embedding as
    the unembedding.

    >>> weights = {"embed.W_E": np.ones((5, 3))}
    >>> {name: value.shape for name, value in exported(weights, ModelConfig(tied=True)).items()}
    {'embed.W_E': (5, 3), 'unembed.W_U': (3, 5), 'unembed.b_U': (5,)}
    """
    if not config.tied or "embed.W_E" not in weights:
        return dict(weights)
    W_E = weights["embed.W_E"]
    return {**weights, "unembed.W_U": W_E.T, "unembed.b_U": 0 * W_E[:, 0]}
