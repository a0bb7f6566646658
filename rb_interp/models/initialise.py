"""Write an initialisation into a model that somebody else made, and the table of what an
initialisation is.

Paper 1, section "Initialization": W_ij ~ N(0, (d_in^-gamma)^2), biases 0, norms 1 and 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import nn

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.models.config import SCHEMES, MatrixGammas
from rb_interp.models.schemes import DRAWN, Drawn, Parameter, Rule, intended_std, standard_draw
from rb_interp.models.tensors import Held, split_again, split_layers, tensors_of

Model = TypeVar("Model", bound=nn.Module)


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
    held = tensors_of(model)
    rule = rule_for(model, held, per, scheme)
    stds = [[intended_std(part, rule, gamma) for part in each.parts()] for each in held]
    with torch.no_grad():
        for each, std in zip(held, stds, strict=True):
            if not each.tied_to:
                _fill(
                    each,
                    std,
                    standard_draw(each.parameter, scheme, seed) if each.parameter.d_in else None,
                )
        repeated = {each.parameter.name: each.tensor for each in held}
        for each in held:
            if each.repeats:
                each.tensor.copy_(repeated[each.tied_to].T)
        for attention in split_layers(model).values():
            split_again(attention)
    DRAWN[model] = Drawn(rule, gamma)
    return model


def rule_for(model: Any, held: list[Held], per: Mapping[str, float] | None, scheme: str) -> Rule:
    """The rule of a scheme with rates of its own for some groups, with width and depth of the model
    if it tells them.

    Raises ModelError for an unknown scheme, and for a group that none of the tensors belongs to.
    """
    if scheme not in SCHEMES:
        raise ModelError(f"scheme={scheme!r} is not known; {nearest(scheme, SCHEMES)}")
    gammas, groups = (
        MatrixGammas(**(per or {})),
        {part.group for each in held for part in each.parts()},
    )
    groups |= {"qk", "vo"} if "qkv" in groups else set()
    for group in set(per or {}) - groups:
        tied = any(each.tied_to for each in held) and group == "unembedding"
        why = (
            "its unembedding is the embedding"
            if tied
            else f"its matrices are {', '.join(sorted(groups - {''}))}"
        )
        raise ModelError(
            f"this model has no matrix of the group '{group}': {why}; see "
            f"initialisation_table(model)."
        )
    config = getattr(model, "cfg", None) or getattr(model, "config", None)
    config = getattr(config, "get_text_config", lambda: config)()
    names = (("d_model", "hidden_size"), ("n_layers", "num_hidden_layers"))
    sizes = [
        next((getattr(config, name) for name in each if getattr(config, name, None)), 0)
        for each in names
    ]
    return Rule(scheme, gammas, *sizes)


def _fill(held: Held, stds: list[float], drawn: np.ndarray | None) -> None:
    """Write one tensor: a draw times the standard deviation of each of its parts."""
    if drawn is None:
        held.tensor.fill_(held.parameter.constant)
        return
    scale: Any = stds[0]
    if held.values is not None:
        shape = [1] * held.tensor.ndim
        shape[held.axis] = len(held.values)
        scale = torch.where(held.values, stds[1], stds[0]).double().reshape(shape)
    held.tensor.copy_(torch.from_numpy(drawn) * scale)
    if held.padding is not None:
        held.tensor[held.padding] = 0


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
    held = tensors_of(model)
    asked = gamma is not None or bool(per) or scheme is not None
    drawn = (
        Drawn(rule_for(model, held, per, scheme or "fan_in"), gamma) if asked else DRAWN.get(model)
    )
    return pd.DataFrame([_row(each, part, drawn) for each in held for part in each.parts()])


def _row(held: Held, part: Parameter, drawn: Drawn | None) -> dict:
    entries = held.entries(part.group)
    entries = entries if entries.element_size() > 2 else entries.float()
    std, intended, error = float(entries.std(correction=0)), math.nan, 0.0
    if drawn is not None:
        intended = intended_std(part, *drawn)
        uniform = drawn.rule.scheme == "torch_default" and part.group != "embedding"
        # of a standard deviation, to leading order, from the kurtosis (3 for normal entries, 1.8
        # for uniform ones)
        error = intended * math.sqrt(((1.8 if uniform else 3.0) - 1) / (4 * entries.numel()))
    fitted = part.d_in > 1 and std > 0
    return {
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
        "tied_to": held.tied_to,
    }
