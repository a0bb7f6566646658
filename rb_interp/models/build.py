"""Models of a drawn initialisation: built for a task, or made by somebody else and drawn anew.

Paper 1, section "Initialization": W_ij ~ N(0, (d_in^-gamma)^2), biases 0, norms 1 and 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.models import protocol
from rb_interp.models.config import SCHEMES, MatrixGammas, ModelConfig
from rb_interp.models.protocol import HookedModel, split_layers, write_split_parts
from rb_interp.models.schemes import (
    DRAW_RULES,
    DrawRule,
    Rule,
    draw,
    intended_std,
    parameters,
    standard_draw,
)
from rb_interp.models.tensors import ModelTensor, tensors_of

Model = TypeVar("Model", bound=nn.Module)


@checked
def build_model(
    task: Any,
    gamma: float | None = None,
    seed: int = 0,
    *,
    config: ModelConfig | None = None,
    norm: str | None = None,
    scheme: str | None = None,
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
        seed: of the normal draws.
        config: sizes and all else; by default two layers with one head each and no norm.
        norm, scheme: override those of ``config``, which are ``none`` and ``fan_in`` by default.
        dtype: of the weights.
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
            f"anything with d_vocab and length."
        )
    weights = draw(config, task.d_vocab, task.length, gamma, seed)
    model = lens_model(config, task.d_vocab, task.length, weights, dtype)
    DRAW_RULES[model] = DrawRule(config, gamma)
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
    from rb_interp.models import architectures  # with TransformerLens

    transformer = protocol.make_lens_model
    if config.norm == "post":
        transformer = architectures.PostNormTransformer
    simplified = {"emb_mlp": architectures.EmbMLP, "one_layer": architectures.OneLayer}
    architecture = simplified.get(config.architecture, transformer)
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


@checked
def scale_init(
    model: Model,
    gamma: float | None = None,
    per: Mapping[str, float] | None = None,
    scheme: str = "fan_in",
    seed: int = 0,
) -> Model:
    """Draw every weight of a model anew, in place, at an initialisation rate: std = d_in^-gamma,
    biases 0, norms 1.

    It takes a HookedTransformer, a TransformerBridge, a model of transformers, or any torch module
    whose parameters are those of linear layers, embeddings and norms. Dtype, device, what is frozen
    and the caller's random state stay. Draws are in float64 on the CPU, from a stream for each
    tensor's name: models of one seed differ by one factor a matrix between gammas. With the same
    settings a model of ``build_model`` gets the weights that it writes.

    Args:
        model: changed in place. Make its optimizer afterwards, or at least before its first step.
        gamma: initialisation rate (paper 1); 0.5 is near the usual default, larger is a smaller
            initialisation.
        per: rates of single groups: ``embedding``, ``qk``, ``vo``, ``mlp``, ``unembedding``; the
            others follow gamma.
        scheme: ``fan_in``, or another of ``models.schemes``.
        seed: of the draws.

    Returns the same model. Raises ModelError for a tensor that nothing describes, a group that the
    model has no tensor of, a scheme without what it needs. Nothing is written then.

    >>> layer = scale_init(nn.Linear(400, 300), gamma=0.8)
    >>> round(layer.weight.std().item() * 400**0.8, 1), layer.bias.any().item()
    (1.0, False)
    """
    tensors = tensors_of(model)
    rule = rule_for(model, tensors, per, scheme)
    stds = [[intended_std(part, rule, gamma) for part in item.parts()] for item in tensors]
    with torch.no_grad():
        for item, part_stds in zip(tensors, stds, strict=True):
            if item.tied_to:
                continue
            if not item.parameter.d_in:
                item.tensor.fill_(item.parameter.constant)
                continue
            scale: Any = part_stds[0]
            if item.values is not None:
                shape = [1] * item.tensor.ndim
                shape[item.axis] = len(item.values)
                scale = torch.where(item.values, part_stds[1], scale).double().reshape(shape)
            values = standard_draw(item.parameter, scheme, seed)
            item.tensor.copy_(torch.from_numpy(values) * scale)
            if item.padding is not None:
                item.tensor[item.padding] = 0
        by_name = {item.parameter.name: item.tensor for item in tensors}
        for item in tensors:
            if item.repeats:
                item.tensor.copy_(by_name[item.tied_to].T)
        for attention in split_layers(model).values():
            write_split_parts(attention)
    DRAW_RULES[model] = DrawRule(rule, gamma)
    return model


def rule_for(
    model: Any, tensors: list[ModelTensor], per: Mapping[str, float] | None, scheme: str
) -> Rule:
    """The rule of a scheme with rates of its own for some groups, with width and depth of the model
    if it tells them.

    Raises ModelError for an unknown scheme, and for a group that none of the tensors belongs to.
    """
    if scheme not in SCHEMES:
        raise ModelError(f"scheme={scheme!r} is not known; {nearest(scheme, SCHEMES)}")
    rates = per or {}
    gammas = MatrixGammas(**rates)
    groups = set()
    for item in tensors:
        groups |= {part.group for part in item.parts()}
    if "qkv" in groups:
        groups |= {"qk", "vo"}
    for group in set(rates) - groups:
        reason = f"its matrices are {', '.join(sorted(groups - {''}))}"
        if group == "unembedding" and any(item.tied_to for item in tensors):
            reason = "its unembedding is the embedding"
        raise ModelError(
            f"this model has no matrix of the group '{group}': {reason}; see "
            f"initialisation_table(model)."
        )
    config = getattr(model, "cfg", None) or getattr(model, "config", None)
    config = getattr(config, "get_text_config", lambda: config)()
    d_model = getattr(config, "d_model", None) or getattr(config, "hidden_size", None)
    n_layers = getattr(config, "n_layers", None) or getattr(config, "num_hidden_layers", None)
    return Rule(scheme, gammas, d_model or 0, n_layers or 0)


@checked
def initialisation_table(
    model: Any,
    gamma: float | None = None,
    per: Mapping[str, float] | None = None,
    scheme: str | None = None,
) -> pd.DataFrame:
    """One row per tensor of any model: its shape, what sets its scale, and its standard deviation
    now.

    Columns:
        ``parameter``, ``shape``: a layer that holds queries, keys and values has a row for ``qk``
        and one for ``vo``. ``group``: of matrices, as in ``per``; ``other`` where a layer's name
        does not tell, empty for constants. ``d_in``: input dimension that sets the scale; 0 for
        what starts as a constant. ``mean``, ``measured_std``: of the tensor as it is.
        ``fitted_gamma``: the rate that this is the standard deviation of, -log(std) / log(d_in);
        NaN for constants. ``intended_at_init``: the standard deviation that was intended at
        initialisation. It is what gamma, per and scheme give; without any of them what
        ``scale_init`` or ``build_model`` drew this model with, and NaN where neither did. Training
        leaves it as it is. ``z``: measured less intended in standard errors: about N(0, 1) in a
        model just drawn; beyond 4 it is another initialisation, or has been trained. NaN for
        constants. ``trained``: whether it takes a gradient. ``tied_to``: the tensor that it is, or
        is a copy of.

    Args:
        model: as in ``scale_init``. A copy, or a part, of a model that was drawn is not known to be
            drawn.
        gamma, per, scheme: as in ``scale_init``, of the initialisation to compare with.

    Raises ModelError as ``scale_init`` does.

    >>> layer = nn.Linear(100, 10)
    >>> _ = layer.weight.data.normal_(0, 0.1)
    >>> table = initialisation_table(layer).set_index("parameter")
    >>> int(table.d_in["weight"]), round(float(table.fitted_gamma["weight"]), 1)  # 100^-0.5 is 0.1
    (100, 0.5)
    >>> table = initialisation_table(scale_init(layer, gamma=1.0)).set_index("parameter")
    >>> float(table.intended_at_init["weight"]), round(float(table.measured_std["weight"]), 3)
    (0.01, 0.01)
    """
    tensors = tensors_of(model)
    draw_rule = DRAW_RULES.get(model)
    if gamma is not None or per or scheme is not None:
        draw_rule = DrawRule(rule_for(model, tensors, per, scheme or "fan_in"), gamma)
    rows = []
    parts = [(item, part) for item in tensors for part in item.parts()]
    for item, part in parts:
        entries = item.entries(part.group)
        if entries.element_size() <= 2:
            entries = entries.float()
        std = float(entries.std(correction=0))
        intended = math.nan
        error = 0.0
        if draw_rule is not None:
            intended = intended_std(part, *draw_rule)
            uniform = draw_rule.rule.scheme == "torch_default" and part.group != "embedding"
            kurtosis = 1.8 if uniform else 3.0
            # of a standard deviation, to leading order
            error = intended * math.sqrt((kurtosis - 1) / (4 * entries.numel()))
        fitted = part.d_in > 1 and std > 0
        rows.append(
            {
                "parameter": part.name,
                "shape": part.shape,
                "group": part.group,
                "d_in": part.d_in,
                "mean": float(entries.mean()),
                "measured_std": std,
                "fitted_gamma": -math.log(std) / math.log(part.d_in) if fitted else math.nan,
                "intended_at_init": intended,
                "z": (std - intended) / error if error > 0 else math.nan,
                "trained": part.trained,
                "tied_to": item.tied_to,
            }
        )
    return pd.DataFrame(rows)
