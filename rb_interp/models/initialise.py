"""Write an initialisation into a model that somebody else made: std = d_in^-gamma for each of its matrices.

Paper 1, section "Initialization": W_ij ~ N(0, (d_in^-gamma)^2), biases 0, norms 1 and 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from rb_interp.errors import ModelError, nearest
from rb_interp.models.config import SCHEMES, MatrixGammas
from rb_interp.models.layers import Held
from rb_interp.models.modules import split_again, split_layers
from rb_interp.models.schemes import DRAWN, Drawn, Rule, intended_std, normal_stream
from rb_interp.models.tensors import rule_of, tensors_of
from rb_interp.typed import typed

Model = TypeVar("Model", bound=nn.Module)
AT_ONCE = 2**24
"""Numbers that are drawn at once, in float64: 128 MB."""


@typed
def scale_init(
    model: Model,
    gamma: float | None = None,
    per: Mapping[str, float] | None = None,
    scheme: str = "fan_in",
    seed: int = 0,
) -> Model:
    """Draw every weight of a model anew, in place, at an initialisation rate: std = d_in^-gamma, biases 0, norms 1.

    It takes a HookedTransformer, a TransformerBridge, a model of transformers, or any torch module whose parameters
    are those of linear layers, embeddings and norms. The dtype and device of each tensor stay, and what is frozen
    stays frozen. Draws are in float64 on the CPU, from a stream for each tensor's name: models of one seed differ by
    one factor a matrix between gammas, and the caller's random state stays as it was. With the same settings a model of
    ``build_model`` gets the weights that ``build_model`` writes. Afterwards ``initialisation_table`` knows what this
    model was drawn with.

    Args:
        model: changed in place. Make its optimizer afterwards, or at least before its first step.
        gamma: initialisation rate (paper 1); 0.5 is near the usual default, larger is a smaller initialisation.
        per: rates of single groups: ``embedding``, ``qk``, ``vo``, ``mlp``, ``unembedding``; the others follow gamma.
        scheme: ``fan_in``, or another of ``models.schemes``.
        seed: of the draws.

    Returns the same model, so that it can be made, initialised and kept in one line.

    Raises:
        ModelError: for a tensor that nothing describes, a group that the model has no tensor of, a scheme without what
            it needs. Nothing is written then.

    >>> layer = scale_init(nn.Linear(400, 300), gamma=0.8)
    >>> round(layer.weight.std().item() * 400**0.8, 1), layer.bias.any().item()
    (1.0, False)
    >>> from rb_interp import initialisation_table
    >>> float(initialisation_table(layer).intended_at_init[0]) == 400**-0.8
    True
    """
    held = tensors_of(model)
    rule = rule_of(model, rule_for(held, per, scheme))
    stds = [[intended_std(part, rule, gamma) for part in each.parts()] for each in held]
    with torch.no_grad():
        for each, std in zip(held, stds, strict=True):
            if not each.tied_to:
                _fill(each, std, scheme, seed)
        repeated = {each.parameter.name: each.tensor for each in held}
        for each in held:
            if each.repeats:
                each.tensor.copy_(repeated[each.tied_to].T)
        for attention in split_layers(model).values():
            split_again(attention)
    DRAWN[model] = Drawn(rule, gamma)
    return model


def rule_for(held: list[Held], per: Mapping[str, float] | None, scheme: str) -> Rule:
    """The rule of a scheme with rates of its own for some groups.

    Raises ModelError for an unknown scheme, and for a group that none of the tensors belongs to.
    """
    if scheme not in SCHEMES:
        raise ModelError(f"scheme={scheme!r} is not known; {nearest(scheme, SCHEMES)}")
    groups = {part.group for each in held for part in each.parts()}
    groups |= {"qk", "vo"} if "qkv" in groups else set()
    for group in per or {}:
        if group not in MatrixGammas.__dataclass_fields__:
            raise ModelError(
                f"there is no group '{group}' of matrices; {nearest(group, MatrixGammas.__dataclass_fields__)}"
            )
        if group not in groups:
            tied = any(each.tied_to for each in held) and group == "unembedding"
            why = "its unembedding is the embedding" if tied else f"its matrices are {', '.join(sorted(groups - {''}))}"
            raise ModelError(
                f"this model has no matrix of the group '{group}': {why}; see initialisation_table(model)."
            )
    return Rule(scheme, MatrixGammas(**(per or {})))


def _fill(held: Held, stds: list[float], scheme: str, seed: int) -> None:
    """Write one tensor, some rows at a time: the stream gives the same numbers as in one draw."""
    parameter, tensor = held.parameter, held.tensor
    if not parameter.d_in:
        tensor.fill_(parameter.constant)
        return
    scale = _scale(held, stds)
    stream = normal_stream(parameter, scheme, seed)
    rows = max(1, AT_ONCE // max(1, tensor[0].numel()))
    for start in range(0, len(tensor), rows):
        some = tensor[start : start + rows]
        drawn = torch.from_numpy(stream(tuple(some.shape)))
        some.copy_(drawn * (scale[start : start + rows] if len(scale) > 1 else scale))
    if held.padding is not None:
        tensor[held.padding] = 0


def _scale(held: Held, stds: list[float]) -> Tensor:
    """The standard deviation of each entry, in a shape that broadcasts to the tensor's."""
    shape = [1] * held.tensor.ndim
    if held.values is None:
        return torch.full(shape, stds[0], dtype=torch.float64)
    shape[held.axis] = len(held.values)
    return torch.where(held.values, stds[1], stds[0]).double().reshape(shape)
