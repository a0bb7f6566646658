"""The anchor study as a configuration: one sweep over gamma on an anchor task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rb_interp.claims.learning_order import SMALL
from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import DEFAULT_SEEDS, StudyConfig, SweepConfig
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.anchor import RATES
from rb_interp.training.config import TrainConfig

FIXED = "fixed_average"
"""The sweep of claim M10b."""


@dataclass(frozen=True)
class AnchorConfig(SweepConfig, StudyConfig):
    """A sweep over gamma on an anchor task.

    Attributes:
        preset, seeds, gammas, model, train: as in `StudyConfig` and `SweepConfig`.
        task: what is learned.
        probe_rows: inputs of each set that probes see, at most.
        n_null: draws of each null distribution.
        n_init: fresh initialisations for Lemma 1.

    Raises ConfigError for sizes that the study cannot read.

    >>> AnchorConfig.from_preset("smoke", seeds=(0,)).train.steps
    300
    """

    sibling_stages: ClassVar[Mapping[str, tuple[str, float]]] = {"matched": ("half", SMALL)}

    task: AnchorTask = field(default_factory=AnchorTask)
    train: TrainConfig = field(default_factory=lambda: TrainConfig(stages=("half",)))
    probe_rows: int = 1000
    n_null: int = 200
    n_init: int = 200

    def __post_init__(self) -> None:
        SweepConfig.__post_init__(self)
        if not 0 < self.task.memory_share < 1:
            raise ConfigError(
                f"memory_share={self.task.memory_share}; a study compares memory with reasoning, so give a share "
                f"between 0 and 1. train_members trains on one kind alone too."
            )
        if self.model.architecture != "transformer":
            raise ConfigError(
                f"architecture='{self.model.architecture}'; the anchor study reads attention in two layers. Use the "
                f"study 'emb-mlp' for the simplified models; train_members trains them alone too."
            )
        if self.model.n_layers < 2:
            raise ConfigError(
                f"n_layers={self.model.n_layers}; a study asks what L1 does, so give 2 or more. train_members trains "
                f"models of one layer too."
            )
        if self.train.micro_batch or self.train.compile:
            raise ConfigError(
                f"micro_batch={self.train.micro_batch}, compile={self.train.compile}; these are for language models. "
                f"Leave them out."
            )
        if "half" not in self.train.stages:
            raise ConfigError(f"train.stages={self.train.stages} lacks 'half', which study 'anchor' measures; add it.")

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """The main sweep, and its members of small initialisation trained with L0's attention fixed at exactly 1/i."""
        if SMALL not in self.gammas or 0 in self.model.uniform_layers:
            return {"": self}
        model, train = replace(self.model, uniform_layers=(0,)), replace(self.train, stages=(), n_checkpoints=0)
        return {"": self, FIXED: SweepConfig((SMALL,), self.task, model, train, self.rates)}

    @classmethod
    def from_preset(cls, preset: str = "quick", **changes: Any) -> AnchorConfig:
        """A preset (``smoke`` seconds, ``quick`` minutes, ``paper`` a GPU), with fields replaced.

        Raises ConfigError for an unknown preset and for settings that do not fit.
        """
        cls.check_preset(preset)
        base = cls(
            preset=preset,
            seeds=(0, 1) if preset == "smoke" else DEFAULT_SEEDS,
            task=AnchorTask.preset(preset),
            model=ModelConfig.preset(preset),
            train=replace(TrainConfig.preset(preset), stages=("half",)),
            rates=RATES.get(preset, ()),
        )
        return replace(base, **changes)
