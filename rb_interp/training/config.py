"""How members are trained; plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rb_interp import bounds
from rb_interp.errors import ConfigError
from rb_interp.presets import WithPresets

SCHEDULES = ("constant", "cosine")
OPTIMISERS = ("adamw", "sgd")
DTYPES = ("float32", "float64", "bfloat16")


@dataclass(frozen=True)
class TrainConfig(WithPresets):
    """Optimiser, schedule, evaluation and where to compute.

    Attributes:
        steps: optimiser steps.
        batch_size: rows of a step; all training rows where it is their number or more. Tasks may divide it among sets.
        optimiser: ``adamw``, or ``sgd``, plain gradient descent without momentum (betas and eps play no part).
        lr: learning rate after warm-up.
        lr_final: where the cosine ends (``constant`` ignores it).
        schedule: ``constant`` or ``cosine``.
        warmup: steps of linear warm-up before the schedule, 0 for none.
        schedule_steps: steps that the cosine is made for, warm-up included; 0 for ``steps``. With more than ``steps``
            training stops before the cosine has ended, with fewer it goes on at ``lr_final``.
        betas: AdamW's decay rates of the two moments.
        eps: AdamW's epsilon.
        weight_decay: AdamW's, on every trained tensor as in torch.optim.AdamW; with ``sgd`` the gradient of an L2 term.
        clip: largest gradient norm of one member; 0 for no clipping.
        dtype: float32, float64 (tests), or bfloat16 (autocast on GPU, weights stay float32).
        tf32: allow TF32 matrix products on GPU.
        device: ``auto`` takes a GPU where there is one.
        workers: threads that train members side by side on CPU; 0 takes one per core.
        eval_every: steps between evaluations.
        eval_rows: rows of each set in an evaluation, at most.
        n_checkpoints: log-spaced checkpoints between step 0 and the last.
        keep_at: shares of the steps, from 0 to 1, at which all members are kept too.
        stages: what is kept of each member where its curves say so: names among the task's ``stages``.
        track_drift: sum up what theory predicts of each step from that step's weights (paper 1, Propositions 1 to 3),
            see ``training.tracking``; simplified architectures alone.
        save_every: seconds between saves of the state to continue from.
        micro_batch: rows that go through a next-token model at once, gradients adding up over a batch; 0 for all.
        compile: let torch.compile build a next-token model's loss and gradients (pays on a GPU).
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {"steps": 300, "batch_size": 64, "lr": 3e-3, "eval_rows": 200, "n_checkpoints": 3},
        "quick": {},
        "paper": {
            "steps": 2_000_000, "batch_size": 100, "lr": 1e-5, "schedule": "constant", "eval_every": 1000,
            "eval_rows": 1000, "n_checkpoints": 24,
        },
    }  # fmt: skip
    BOUNDS = bounds.TRAIN
    host_fields = ("device", "workers", "save_every", "micro_batch", "compile")

    steps: int = 6000
    batch_size: int = 128
    optimiser: str = "adamw"
    lr: float = 1e-3
    lr_final: float = 5e-5
    schedule: str = "cosine"
    warmup: int = 0
    schedule_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float = 1.0
    dtype: str = "float32"
    tf32: bool = False
    device: str = "auto"
    workers: int = 0
    eval_every: int = 25
    eval_rows: int = 300
    n_checkpoints: int = 8
    keep_at: tuple[float, ...] = ()
    stages: tuple[str, ...] = ()
    track_drift: bool = False
    save_every: float = 20.0
    micro_batch: int = 0
    compile: bool = False

    def __post_init__(self) -> None:
        names = {"optimiser": OPTIMISERS, "schedule": SCHEDULES, "dtype": DTYPES}
        bounds.check(self, ConfigError, names)
