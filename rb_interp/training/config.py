"""How members are trained, the learning rate of a step, and the steps at which something is kept;
no torch."""

import math
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rb_interp.settings import Rate, ReadRows, RowCount, Settings, Share, Steps

Decay = Annotated[float, Field(ge=0, le=0.999999)]
"""At 1 nothing would be forgotten."""
StepsOrNone = Annotated[int, Field(ge=0, le=99_999_999)]


class TrainConfig(Settings):
    """Optimiser, schedule, evaluation and where to compute.

    ``rb-interp train --help`` and the page on configuration say what each field means.
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {"steps": 300, "batch_size": 64, "lr": 3e-3, "eval_rows": 200, "n_checkpoints": 3},
        "quick": {},
        "paper": {
            "steps": 2_000_000,
            "batch_size": 100,
            "lr": 1e-5,
            "schedule": "constant",
            "eval_every": 1000,
            "eval_rows": 1000,
            "n_checkpoints": 24,
        },
    }
    host_fields = ("device", "workers", "save_every", "micro_batch", "compile", "cuda_graph")
    LATER: ClassVar[tuple] = ("stop_at",)
    looks = ("eval_every", "eval_rows", "n_checkpoints", "keep_at", "stages", "track_drift")

    steps: Steps = 6000
    """Optimiser steps."""
    batch_size: RowCount = 128
    """Rows of a step; all training rows where it is their number or more. Tasks may divide it among
    sets. Rows of an epoch that fill no whole batch are left out of it."""
    optimiser: Literal["adamw", "sgd", "momentum"] = "adamw"
    """``sgd`` is plain gradient descent, ``momentum`` that with the first of ``betas`` as its momentum
    (other betas and eps play no part)."""
    lr: Rate = 1e-3
    """Learning rate after warm-up."""
    lr_final: Rate = 5e-5
    """Where the cosine ends (``constant`` ignores it)."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """What follows the warm-up."""
    warmup: StepsOrNone = 0
    """Steps of linear warm-up before the schedule, 0 for none."""
    schedule_steps: StepsOrNone = 0
    """Steps that the cosine is made for, warm-up included; 0 for ``steps``. With more than
    ``steps`` training stops before the cosine has ended, with fewer it goes on at ``lr_final``."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """AdamW's decay rates of the two moments."""
    eps: Annotated[float, Field(ge=0, le=1)] = 1e-8
    """AdamW's epsilon."""
    weight_decay: Rate = 0.01
    """AdamW's, on every trained tensor as in torch.optim.AdamW; elsewhere the gradient of an L2
    term."""
    clip: Annotated[float, Field(ge=0, le=1e9)] = 1.0
    """Largest gradient norm of one member; 0 for no clipping."""
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    """float64 is for tests; bfloat16 is autocast on GPU, weights stay float32."""
    tf32: bool = False
    """Allow TF32 matrix products on GPU."""
    device: str = "auto"
    """``auto`` takes a GPU if there is one."""
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    """Threads that train members side by side on CPU; 0 takes one per core."""
    eval_every: Steps = 25
    """Steps between evaluations."""
    eval_rows: ReadRows = 300
    """Rows of each set in an evaluation, at most."""
    n_checkpoints: Annotated[int, Field(ge=0, le=10_000)] = 8
    """Log-spaced checkpoints between step 0 and the last."""
    keep_at: tuple[Share, ...] = ()
    """Shares of the steps at which all members are kept too."""
    stages: tuple[str, ...] = ()
    """What is kept of each member when its curves say so: names among the task's ``stages``."""
    stop_at: str = ""
    """One of ``stages``: members that train in one group take no more steps once all have come to
    it, and their curves stay as they are; "" for none. ``workers`` say who trains in one group, so
    compare such members at the stage, and not at the end."""
    track_drift: bool = False
    """Sum up what theory predicts of each step from that step's weights (paper 1, Propositions 1 to
    3), see ``training.tracking``; simplified architectures alone."""
    save_every: Annotated[float, Field(ge=0, le=1e9)] = 20.0
    """Seconds between saves of the state to continue from, at least; it is saved at evaluations."""
    micro_batch: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Rows that go through a next-token model at once, gradients adding up over a batch; 0 for
    all."""
    compile: bool = False
    """Let torch.compile build loss and gradients, and on a GPU what is done with gradients; it may
    pay there."""
    cuda_graph: Literal["auto", "on", "off"] = "auto"
    """Record a step in a CUDA graph and replay it: on a GPU where its shapes allow it (``auto``),
    there or not at all (``on``), or never. The weights are the same to the bit."""

    def steps_alone(self, **changes: Any) -> dict[str, Any]:
        """Settings that decide the weights, less those of the host and of what is looked at, with
        single changes.

        >>> TrainConfig().steps_alone(lr=4e-3)["lr"], "workers" in TrainConfig().steps_alone()
        (0.004, False)
        """
        left_out = (*self.host_fields, *self.looks)
        names = [field.name for field in fields(self) if field.name not in left_out]
        return {**{name: getattr(self, name) for name in names}, **changes}


def learning_rate(step: int, config: TrainConfig, lr: float | None = None) -> float:
    """Learning rate of step 0, 1, ...: linear warm-up, then ``lr`` or half a cosine from it down to
    ``lr_final``, if that is lower.

    >>> config = TrainConfig(steps=100, lr=1.0, lr_final=0.0)
    >>> [round(learning_rate(step, config), 3) for step in (0, 50, 100)]
    [1.0, 0.5, 0.0]
    >>> stopped_early = TrainConfig(steps=100, lr=1.0, lr_final=0.0, schedule_steps=200)
    >>> round(learning_rate(100, stopped_early), 3)
    0.5
    """
    lr = config.lr if lr is None else lr
    if step < config.warmup:
        return lr * (step + 1) / config.warmup
    if config.schedule == "constant" or lr <= config.lr_final:
        return lr
    length = (config.schedule_steps or config.steps) - config.warmup
    share = min(1.0, (step - config.warmup) / max(1, length))
    return config.lr_final + (lr - config.lr_final) * 0.5 * (1 + math.cos(math.pi * share))


def evaluation_steps(config: TrainConfig) -> list[int]:
    """Steps at which the curves are read: 0, every ``eval_every``, and the last."""
    return sorted({*range(0, config.steps, config.eval_every), config.steps})


def checkpoint_steps(config: TrainConfig) -> list[int]:
    """Evaluation steps at which all members are kept: 0, ``n_checkpoints`` log-spaced, ``keep_at``,
    and the last.

    >>> checkpoint_steps(TrainConfig(steps=1000, eval_every=10, n_checkpoints=4))
    [0, 10, 30, 100, 320, 1000]
    >>> checkpoint_steps(TrainConfig(steps=1000, n_checkpoints=0))
    [0, 1000]
    """
    grid = np.array(evaluation_steps(config))
    n = config.n_checkpoints + 1 if config.n_checkpoints else 0
    targets = np.geomspace(max(1, config.eval_every), config.steps, n)
    shares = [step_at(share, config) for share in config.keep_at]
    return sorted({0, *_nearest(grid, targets), *shares, config.steps})


def step_at(share: float, config: TrainConfig) -> int:
    """The evaluation step nearest to a share of the steps.

    >>> step_at(0.05, TrainConfig(steps=1000, eval_every=20))
    40
    """
    return _nearest(np.array(evaluation_steps(config)), np.array([share * config.steps]))[0]


def _nearest(grid: np.ndarray, targets: np.ndarray) -> list[int]:
    return grid[np.abs(grid[:, None] - targets).argmin(0)].tolist()
