"""What an initialisation is: the table of every parameter's intended and measured standard deviation.

Paper 1, section "Initialization": W_ij ~ N(0, (d_in^-gamma)^2). Does not need TransformerLens.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.checks import checked
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import GROUPS, Parameter, check_sizes, draw, intended_std, parameters

GAUSSIAN_KURTOSIS, UNIFORM_KURTOSIS = 3.0, 1.8


@checked
def initialisation_table(task: Any, config: ModelConfig, gamma: float | None, seed: int = 0) -> pd.DataFrame:
    """One row per parameter tensor: what the scheme intends, what the draw of this seed has.

    Columns: ``parameter``, ``shape``, ``d_in`` (input dimension that sets the scale, 0 for biases and LayerNorm),
    ``intended_std``, ``measured_std``, ``z`` (their difference in standard errors: about N(0, 1), beyond 4 something
    is wrong; NaN for tensors that are constant), ``trained``. Raises ModelError where the scheme needs a gamma, and for
    a task that does not tell its sizes.

    >>> from rb_interp.tasks.anchor import AnchorTask
    >>> table = initialisation_table(AnchorTask(), ModelConfig(), gamma=0.8, seed=0).set_index("parameter")
    >>> float(table.intended_std["blocks.0.mlp.W_out"]) == 128**-0.8, bool(table.z.abs().max() < 4)
    (True, True)
    """
    check_sizes(task)
    weights = draw(config, task.d_vocab, task.length, gamma, seed)
    held = parameters(config, task.d_vocab, task.length)
    return pd.DataFrame([_row(parameter, weights[parameter.name], config, gamma) for parameter in held])


def _row(parameter: Parameter, weight: np.ndarray, config: ModelConfig, gamma: float | None) -> dict:
    intended, measured = intended_std(parameter, config, gamma), float(weight.std())
    error = standard_error(parameter, config, intended)
    return {
        "parameter": parameter.name,
        "shape": parameter.shape,
        "d_in": parameter.d_in,
        "intended_std": intended,
        "measured_std": measured,
        "z": (measured - intended) / error if error > 0 else math.nan,
        "trained": parameter.trained,
    }


def standard_error(parameter: Parameter, config: ModelConfig, std: float) -> float:
    """Standard error of a standard deviation estimated from one tensor of n entries.

    std sqrt((kurtosis - 1) / 4n) to leading order: std / sqrt(2n) for normal entries, std / sqrt(5n) for uniform ones.
    """
    uniform = config.scheme == "torch_default" and GROUPS.get(parameter.kind) != "embedding"
    kurtosis = UNIFORM_KURTOSIS if uniform else GAUSSIAN_KURTOSIS
    return std * math.sqrt((kurtosis - 1) / (4 * math.prod(parameter.shape)))
