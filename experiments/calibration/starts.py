"""Members that interchange training begins from: those of the quick preset, all at one learning
rate.

A start that is near a circuit already needs little training. Without LayerNorm a recipe names its
members. With it nobody has named any: there they are chosen by routes, as those whose least share
of rows answered as the circuit's exchanges ask (`routes.shares`) is highest. No probe takes part in
the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from experiments.calibration.known_models import Subject
from experiments.calibration.routes import Recipe, shares
from rb_interp.models.config import ModelConfig
from rb_interp.settings import MIDDLE, SMALL
from rb_interp.store import write_file
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

GAMMAS = (MIDDLE, SMALL)
SEEDS = (0, 1, 2, 3, 4)
EVERYONE = tuple((gamma, seed) for gamma in GAMMAS for seed in SEEDS)
"""The members that there are, by gamma and seed."""
TASK = AnchorTask.preset("quick")
TRAIN = replace(TrainConfig.preset("quick"), device="cpu", n_checkpoints=0)

Members = tuple[tuple[float, int], ...]


def starts(
    folder: Path, members: Sequence[tuple[float, int]], config: ModelConfig, progress: bool = True
) -> dict[str, Tensor]:
    """Members of the quick preset at the end of training, members first; trained where the folder
    lacks them."""

    def make() -> dict[str, Tensor]:
        train = replace(TRAIN, eval_every=TRAIN.steps)
        final = train_members(
            TASK, GAMMAS, SEEDS, config=config, train=train, progress=progress
        ).final
        found = [final.member(*member) for member in EVERYONE]
        return {
            name: torch.stack([torch.as_tensor(one[name]) for one in found]) for name in found[0]
        }

    weights = kept(folder / f"start-{config.norm}.safetensors", make)
    at = [EVERYONE.index(member) for member in members]
    return {name: weight[at] for name, weight in weights.items()}


def kept(path: Path, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Weights that lie in a file, made and written where they do not."""
    if not path.exists():
        weights = {name: weight.contiguous() for name, weight in make().items()}
        write_file(path, lambda to: save_file(weights, to))
    return load_file(path)


def members_of(folder: Path, recipe: Recipe, config: ModelConfig, progress: bool = True) -> Members:
    """Gamma and seed of the members that a recipe begins from in this family; with LayerNorm the
    nearest come first."""
    if config.norm == "none":
        return recipe.starts
    everyone = starts(folder, EVERYONE, config, progress)
    least = shares(everyone, datasets(EVERYONE), config, recipe.circuit).min(1)
    return tuple(EVERYONE[at] for at in np.argsort(-least, kind="stable")[: len(recipe.starts)])


def datasets(members: Sequence[tuple[float, int]]) -> list:
    """Rows of each member."""
    return [TASK.dataset(seed) for _, seed in members]


def members_as_trained(
    folder: Path, members: Sequence[tuple[float, int]], config: ModelConfig
) -> list[Subject]:
    """Members of the quick preset as they are, by gamma and seed."""
    start, rows = starts(folder, members, config), datasets(members)
    return [
        Subject(
            "member",
            f"gamma {gamma:g}",
            seed,
            config,
            rows[at],
            {key: w[at] for key, w in start.items()},
        )
        for at, (gamma, seed) in enumerate(members)
    ]
