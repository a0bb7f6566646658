"""A reference: weights, the circuit that they are by construction, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.record import Record
from rb_interp.tasks.anchor import AnchorTask
from rb_interp.typed import typed

MECHANISMS: Mapping[str, str] = {
    "averages": "L0's attention is exactly 1/i",
    "one_value_direction": "one direction dominates L0's W_V: its singular value is 2 or more times the next",
    "values_along_reasoning": "that direction is the one along which reasoning anchors differ from other tokens",
    "values_along_memory": "that direction is the one along which memory anchors differ from other tokens",
    "fetches_key": "in L1 the last position looks at the key, on reasoning inputs",
    "fetches_key_memory": "in L1 the last position looks at the key, on memory inputs",
    "one_direction_passed_on": "one direction dominates L0's W_V W_O: its singular value is 3 or more times the next",
    "needs_reasoning_values": "right answers need directions of reasoning anchors in L0's W_V more than as many keys'",
    "key_from_its_position": "what the last position has of the key, L1's attention brings from the key's position",
    "anchors_by_L0_at_last": "what the last position has of the anchors, L0's attention brings there",
    "key_plus_sum": "at the last position, L1's attention writes the key alone and L0's the anchor sum alone",
}
"""What may be true of a reference, by construction; ``Reference.mechanisms`` holds the names of what is."""


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Reference(Record):
    """A transformer of two layers with one head each and no LayerNorm, written by hand for one anchor task.

    Attributes:
        name: one of REFERENCES.
        circuit: the name that it should get by attention. cause: the name by cause.
        description: what it computes, in two or three sentences.
        solves: the sets that it answers without an error: of ``mem``, ``rsn_train`` and ``rsn_test``.
        mechanisms: names of MECHANISMS, true by construction; every other one is false, but for ``unsettled``.
        unsettled: those that construction does not settle.
        config, task: sizes, and the task that it was written for.
        label_seed: the seed of the data whose memory labels it knows, if it knows any.
        weights: float64, by TransformerLens name.
    """

    name: str
    circuit: str
    description: str
    solves: tuple[str, ...]
    mechanisms: frozenset[str]
    config: ModelConfig
    task: AnchorTask
    label_seed: int
    weights: Mapping[str, Tensor]
    cause: str = ""
    unsettled: tuple[str, ...] = ()

    @typed
    def model(self, dtype: torch.dtype = torch.float32) -> HookedModel:
        """The reference as an ordinary TransformerLens model, on CPU, in evaluation mode."""
        return lens_model(self.config, self.task.d_vocab, self.task.length, self.weights, dtype)
