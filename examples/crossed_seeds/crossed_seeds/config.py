"""Configuration of crossed seeds: one sweep for each seed of the data, ``data_0``, ``data_1`` and so on.

All sweeps have the same task, model and training, which are therefore set once, and the same seeds of initial weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rb_interp import RbInterpError, study
from rb_interp.models import ModelConfig
from rb_interp.runs import StudyConfig, SweepConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training import TrainConfig

SIDE = tuple(range(6))


@dataclass(frozen=True)
class CrossedSeedsConfig(StudyConfig):
    """Seeds of the data (rows of the table) crossed with seeds of the initial weights (its columns).

    Attributes:
        seeds: of the initial weights. data_seeds: of data, labels and batch order.
        gamma: initialisation rate.
        task, model, train, rates: as in `SweepConfig`, the same for all. Those of a preset are the anchor study's, so
            where both seeds are the same, a member is the anchor study's.
        probe_rows: inputs that the probe sees, at most.

    Raises RbInterpError for fewer than two seeds of either kind, and for one that is named twice.

    >>> config = CrossedSeedsConfig.from_preset("smoke")
    >>> [(name, sweep.data_seed) for name, sweep in config.sweeps.items()], config.seeds
    ([('data_0', 0), ('data_1', 1)], (0, 1))
    """

    seeds: tuple[int, ...] = SIDE
    data_seeds: tuple[int, ...] = SIDE
    gamma: float = 0.8
    task: AnchorTask = field(default_factory=AnchorTask)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    rates: tuple[tuple[float, float], ...] = ()
    probe_rows: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.sweeps) < len(self.data_seeds) or min(len(self.seeds), len(self.sweeps)) < 2:
            raise RbInterpError(
                f"seeds={list(self.seeds)} and data_seeds={list(self.data_seeds)}; variance is divided between the "
                f"two, so give two or more of each, each once."
            )

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """One sweep for each seed of the data."""
        shared = ((self.gamma,), self.task, self.model, self.train, self.rates)
        return {f"data_{seed}": SweepConfig(*shared, data_seed=seed) for seed in self.data_seeds}

    @classmethod
    def from_preset(cls, preset: str = "quick", **changes: Any) -> CrossedSeedsConfig:
        """A preset, with fields replaced; RbInterpError for an unknown preset."""
        cls.check_preset(preset)
        side = (0, 1) if preset == "smoke" else SIDE
        sizes = AnchorTask.preset(preset), ModelConfig.preset(preset), TrainConfig.preset(preset)
        rates = study("anchor").preset(preset).sweeps[""].rates
        return replace(cls(preset, side, side, 0.8, *sizes, rates), **changes)
