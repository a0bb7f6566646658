"""The zoo's model that has learned induction, and what its heads do, found without a probe."""

from functools import cache

import numpy as np
import torch

import rb_interp as rb
from rb_interp.tasks import Inputs

PREVIOUS, OTHER = (0, 1), (0, 0)
"""Layer and head of the previous-token head, and of L0's other head, which is none."""
INDUCTION = ((1, 0), (1, 1))
"""Both heads of L1 look for what followed the query's token, and either alone is enough."""


@cache
def known():
    """The model, its untrained counterpart and its task."""
    return rb.from_pretrained("zoo", member="induction")


@cache
def rows() -> Inputs:
    """Rows that it was not trained on."""
    return known().task.inputs(200, seed=7)


def patterns(model) -> dict[tuple[int, int], np.ndarray]:
    """The pattern ``[row, query, key]`` of each head, by layer and head, with one plain hook a
    layer."""
    found = {}

    def keep(layer):
        def look(pattern, hook):
            found.update(
                {(layer, head): pattern[:, head].numpy() for head in range(model.cfg.n_heads)}
            )

        return look

    hooks = [
        (f"blocks.{layer}.attn.hook_pattern", keep(layer)) for layer in range(model.cfg.n_layers)
    ]
    with torch.no_grad(), model.hooks(fwd_hooks=hooks):
        model(torch.from_numpy(rows().tokens))
    return found


def accuracy(model, *without: tuple[int, int]) -> float:
    """Share of right answers where what some heads write is its mean over rows."""

    def averaged(head):
        def put(z, hook):
            z[:, :, head] = z[:, :, head].mean(0, keepdim=True)
            return z

        return put

    hooks = [(f"blocks.{layer}.attn.hook_z", averaged(head)) for layer, head in without]
    with torch.no_grad(), model.hooks(fwd_hooks=hooks):
        answers = model(torch.from_numpy(rows().tokens))[:, -1].argmax(-1).numpy()
    return float((answers == rows().labels).mean())
