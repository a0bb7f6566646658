"""Models whose activations are overwritten by codes of key and anchors, so that what vectors stand
for is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.studies.composite.task import CompositeTask

WIDTH = 256
L0, L1, V = "blocks.0.hook_resid_mid", "blocks.1.hook_resid_mid", "blocks.1.attn.hook_v"
SHIFTS = np.array([5, 1, -2, -8])
Code = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Keys, first anchors, second anchors (from 0) -> one vector a row."""
_RANDOM = np.random.default_rng(0).standard_normal((2000, WIDTH))


INFERENTIAL: Mapping[
    str, Code
] = {  # a direction for each pair, for each answer, and for each result of the first step
    L0: lambda key, first, second: _RANDOM[4 * first + second],
    L1: lambda key, first, second: np.eye(WIDTH)[key + SHIFTS[first] + SHIFTS[second]],
    V: lambda key, first, second: np.eye(WIDTH)[key + SHIFTS[first]],
}
SYMMETRIC: Mapping[
    str, Code
] = {  # one for each unordered pair, for each key and pair, and for each key and first anchor
    L0: lambda key, first, second: _RANDOM[
        4 * np.minimum(first, second) + np.maximum(first, second)
    ],
    L1: lambda key, first, second: _RANDOM[16 * key + 4 * first + second],
    V: lambda key, first, second: _RANDOM[4 * key + first],
}


@contextmanager
def planted(task: CompositeTask, codes: Mapping[str, Code]) -> Iterator[HookedModel]:
    """A model whose values hold a code at the first anchor, and whose residual streams hold one at
    the last position.

    At all other positions they hold the same vector in every row.
    """
    model = build_model(
        task, gamma=0.8, config=ModelConfig(d_model=WIDTH, d_head=WIDTH, d_mlp=8, norm="post")
    )
    seen: dict[str, np.ndarray] = {}

    def write(name: str, code: Code) -> Callable:
        def hook(activation, hook):
            tokens = seen["tokens"]
            at = (tokens <= len(SHIFTS)).argmax(1)[:, None] + np.arange(-1, 2)
            key, first, second = np.take_along_axis(tokens, at, 1).T
            vectors, rows = (
                torch.as_tensor(code(key, first - 1, second - 1)).to(activation),
                np.arange(len(tokens)),
            )
            written = torch.ones_like(activation)
            written[rows, at[:, 1] if name == V else tokens.shape[1] - 1] = vectors.reshape(
                len(tokens), *[1] * (activation.ndim - 3), WIDTH
            )
            return written

        return hook

    before = model.register_forward_pre_hook(lambda _, args: seen.update(tokens=args[0].numpy()))
    with model.hooks(fwd_hooks=[(name, write(name, code)) for name, code in codes.items()]):
        yield model
    before.remove()
