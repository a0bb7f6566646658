"""What an initialisation is: the table of every tensor's standard deviation, intended at initialisation and measured.

Paper 1, section "Initialization": W_ij ~ N(0, (d_in^-gamma)^2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import DRAWN, Drawn, Parameter, Rule, intended_std
from rb_interp.typed import typed

GAUSSIAN_KURTOSIS, UNIFORM_KURTOSIS = 3.0, 1.8


@typed
def initialisation_table(
    model: Any, gamma: float | None = None, per: Mapping[str, float] | None = None, scheme: str | None = None
) -> pd.DataFrame:
    """One row per tensor of any model: its shape, what sets its scale, and its standard deviation now.

    Columns:
        ``parameter``, ``shape``: a layer that holds queries, keys and values has a row for ``qk`` and one for ``vo``.
        ``group``: of matrices, as in ``per``; ``other`` where a layer's name does not tell, empty for constants.
        ``d_in``: input dimension that sets the scale; 0 for what starts as a constant.
        ``mean``, ``measured_std``: of the tensor as it is.
        ``fitted_gamma``: the rate that this is the standard deviation of, -log(std) / log(d_in); NaN for constants.
        ``intended_at_init``: the standard deviation that was intended at initialisation. It is what gamma, per and
        scheme give; without any of them what ``scale_init`` or ``build_model`` drew this model with, and NaN where
        neither did. Training leaves it as it is.
        ``z``: measured less intended in standard errors: about N(0, 1) in a model just drawn; beyond 4 it is another
        initialisation, or has been trained. NaN for constants.
        ``trained``: whether it takes a gradient. ``tied_to``: the tensor that it is, or is a copy of.

    Args:
        model: as in ``scale_init``. A copy, or a part, of a model that was drawn is not known to be drawn.
        gamma, per, scheme: as in ``scale_init``, of the initialisation to compare with.

    Raises ModelError as ``scale_init`` does.

    >>> from torch import nn
    >>> layer = nn.Linear(100, 10)
    >>> _ = layer.weight.data.normal_(0, 0.1)
    >>> table = initialisation_table(layer).set_index("parameter")
    >>> int(table.d_in["weight"]), round(float(table.fitted_gamma["weight"]), 1)  # 100^-0.5 is 0.1
    (100, 0.5)
    >>> from rb_interp import scale_init
    >>> table = initialisation_table(scale_init(layer, gamma=1.0)).set_index("parameter")
    >>> float(table.intended_at_init["weight"]), round(float(table.measured_std["weight"]), 3)
    (0.01, 0.01)
    """
    from rb_interp.models.initialise import rule_for
    from rb_interp.models.tensors import rule_of, tensors_of

    held = tensors_of(model)
    asked = gamma is not None or bool(per) or scheme is not None
    drawn = Drawn(rule_of(model, rule_for(held, per, scheme or "fan_in")), gamma) if asked else DRAWN.get(model)
    rule, gamma = drawn or (None, None)
    found = [(part, _measured(each.entries(part.group)), each.tied_to) for each in held for part in each.parts()]
    return pd.DataFrame([_row(part, now, rule, gamma, tied_to) for part, now, tied_to in found])


class Now(NamedTuple):
    """Mean, standard deviation and number of entries of a tensor."""

    mean: float
    std: float
    size: int


def _measured(entries: Any) -> Now:
    entries = entries if entries.element_size() > 2 else entries.float()
    return Now(float(entries.mean()), float(entries.std(correction=0)), entries.numel())


def _row(
    parameter: Parameter, now: Now, rule: ModelConfig | Rule | None, gamma: float | None, tied_to: str = ""
) -> dict:
    intended = math.nan if rule is None else intended_std(parameter, rule, gamma)
    error = 0.0 if rule is None else standard_error(parameter, rule, intended, now.size)
    return {
        "parameter": parameter.name,
        "shape": parameter.shape,
        "group": parameter.group,
        "d_in": parameter.d_in,
        "mean": now.mean,
        "measured_std": now.std,
        "fitted_gamma": -math.log(now.std) / math.log(parameter.d_in)
        if parameter.d_in > 1 and now.std > 0
        else math.nan,
        "intended_at_init": intended,
        "z": (now.std - intended) / error if error > 0 else math.nan,
        "trained": parameter.trained,
        "tied_to": tied_to,
    }


def standard_error(parameter: Parameter, rule: ModelConfig | Rule, std: float, size: int) -> float:
    """Standard error of a standard deviation estimated from one tensor of n entries.

    std sqrt((kurtosis - 1) / 4n) to leading order: std / sqrt(2n) for normal entries, std / sqrt(5n) for uniform ones.
    """
    uniform = rule.scheme == "torch_default" and parameter.group != "embedding"
    kurtosis = UNIFORM_KURTOSIS if uniform else GAUSSIAN_KURTOSIS
    return std * math.sqrt((kurtosis - 1) / (4 * size))
