"""Activations of the MLP by their name in ModelConfig. Does not need TransformerLens."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import gelu

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "gelu_new": partial(gelu, approximate="tanh"),
    "tanh": torch.tanh,
}
