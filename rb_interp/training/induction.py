"""A small model with GPT-2's parts that has learned induction: its previous-token head and induction heads are known.

Trained in seconds, the same on every call; what each head does is checked without a probe in tests/test_induction.py.
"""

from __future__ import annotations

from typing import NamedTuple

from rb_interp.checks import checked
from rb_interp.lazy import listed
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import draw
from rb_interp.tasks.induction import InductionTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

__all__ = ["InductionModel", "induction_model"]
__dir__ = listed(__name__)

MODEL = ModelConfig(
    n_layers=2, n_heads=2, d_model=32, d_head=16, d_mlp=4, act="gelu_new", norm="pre", train_biases=True
)
"""Learned positions, LayerNorm before each sublayer and at the end, biases: as in GPT-2."""
TRAIN = TrainConfig(
    steps=450, batch_size=32, lr=1e-2, lr_final=1e-4, warmup=20, betas=(0.9, 0.98), eval_every=100, eval_rows=200,
    n_checkpoints=1, device="cpu", workers=1,
)  # fmt: skip
GAMMA, SEED = 0.6, 9
"""Of the members that were tried, the one whose heads share the least: one head of L0 does all of its work."""


class InductionModel(NamedTuple):
    """A trained model, the same model at step 0, and their task."""

    model: HookedModel
    untrained: HookedModel
    task: InductionTask

    def __repr__(self) -> str:
        cfg = self.model.cfg
        return f"InductionModel({cfg.n_layers} layers, {cfg.n_heads} heads, d_model={cfg.d_model}, task={self.task!r})"


@checked
def induction_model(seed: int = SEED, train: TrainConfig = TRAIN) -> InductionModel:
    """Train a model of two layers with two heads on induction, on one core in seconds.

    Args:
        seed: of rows and initial weights; what the heads of others than SEED do is not known. train: how it is trained.

    >>> found = induction_model(train=TrainConfig(steps=1, batch_size=8, eval_rows=10, workers=1, device="cpu"))
    >>> found.model.cfg.n_layers, found.task.length
    (2, 23)
    """
    from rb_interp.models.build import lens_model

    task = InductionTask()
    trained = train_members(task, MODEL, train, [GAMMA], [seed], progress=False)
    start = draw(MODEL, task.d_vocab, task.length, GAMMA, seed)
    weights = (trained.final.member(GAMMA, seed), start)
    now, before = (lens_model(MODEL, task.d_vocab, task.length, given) for given in weights)
    return InductionModel(now, before, task)
