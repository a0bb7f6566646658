"""Learning rate of a step, and the steps at which something is kept."""

from __future__ import annotations

import math

import numpy as np

from rb_interp.training.config import TrainConfig


def learning_rate(step: int, config: TrainConfig, lr: float | None = None) -> float:
    """Learning rate of step 0, 1, ...: linear warm-up, then constant or half a cosine down to ``lr_final``.

    Args:
        lr: the rate after warm-up; ``config.lr`` by default.

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
    if config.schedule == "constant":
        return lr
    share = min(1.0, (step - config.warmup) / max(1, (config.schedule_steps or config.steps) - config.warmup))
    return config.lr_final + (lr - config.lr_final) * 0.5 * (1 + math.cos(math.pi * share))


def evaluation_steps(config: TrainConfig) -> list[int]:
    """Steps at which the curves are read: 0, every ``eval_every``, and the last."""
    return sorted({*range(0, config.steps, config.eval_every), config.steps})


def checkpoint_steps(config: TrainConfig) -> list[int]:
    """Evaluation steps at which all members are kept: 0, ``n_checkpoints`` log-spaced, ``keep_at``, and the last.

    >>> checkpoint_steps(TrainConfig(steps=1000, eval_every=10, n_checkpoints=4))
    [0, 10, 30, 100, 320, 1000]
    """
    grid = np.array(evaluation_steps(config))
    wanted = np.geomspace(max(1, config.eval_every), config.steps, config.n_checkpoints + 1)
    shares = [step_at(share, config) for share in config.keep_at]
    return sorted({0, *_nearest(grid, wanted), *shares, config.steps})


def step_at(share: float, config: TrainConfig) -> int:
    """The evaluation step nearest to a share of the steps.

    >>> step_at(0.05, TrainConfig(steps=1000, eval_every=20))
    40
    """
    return _nearest(np.array(evaluation_steps(config)), np.array([share * config.steps]))[0]


def _nearest(grid: np.ndarray, wanted: np.ndarray) -> list[int]:
    return grid[np.abs(grid[:, None] - wanted).argmin(0)].tolist()
