"""Configuration of crossed seeds: one sweep for each seed of the data, ``data_0``, ``data_1`` and so on.

All sweeps have the same task, model and training, which are therefore set once, and the same seeds of initial weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rb_interp.bounds import GAMMA, SEEDS, SWEEP, Bound
from rb_interp.claims.learning_order import SMALL
from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import StudyConfig, SweepConfig, check_seeds
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.anchor import RATES
from rb_interp.training.config import TrainConfig

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

    Raises ConfigError for fewer than two seeds of either kind, and for models that have no last layer to look into.

    >>> config = CrossedSeedsConfig.from_preset("smoke")
    >>> [(name, sweep.data_seed) for name, sweep in config.sweeps.items()], config.seeds
    ([('data_0', 0), ('data_1', 1)], (0, 1))
    """

    BOUNDS: ClassVar[Mapping[str, Bound]] = {"data_seeds": SEEDS, "gamma": GAMMA, "rates": SWEEP["rates"]}

    seeds: tuple[int, ...] = SIDE
    data_seeds: tuple[int, ...] = SIDE
    gamma: float = SMALL
    task: AnchorTask = field(default_factory=AnchorTask)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    rates: tuple[tuple[float, float], ...] = ()
    probe_rows: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seeds("data_seeds", self.data_seeds)
        if min(len(self.seeds), len(self.data_seeds)) < 2:
            raise ConfigError(
                f"seeds={list(self.seeds)} and data_seeds={list(self.data_seeds)}; variance is divided between the "
                f"two, so give two or more of each."
            )
        if self.model.architecture != "transformer" or self.model.n_layers < 2:
            raise ConfigError(
                f"architecture='{self.model.architecture}', n_layers={self.model.n_layers}; the study asks where the "
                f"key enters the last layer, so give a transformer of two layers or more."
            )
        if not 0 < self.task.memory_share < 1:
            raise ConfigError(f"memory_share={self.task.memory_share}; give a share between 0 and 1.")
        assert self.sweeps  # what a sweep refuses is refused here

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """One sweep for each seed of the data."""
        shared = ((self.gamma,), self.task, self.model, self.train, self.rates)
        return {f"data_{seed}": SweepConfig(*shared, data_seed=seed) for seed in self.data_seeds}

    @classmethod
    def from_preset(cls, preset: str = "quick", **changes: Any) -> CrossedSeedsConfig:
        """A preset, with fields replaced; ConfigError for an unknown preset."""
        cls.check_preset(preset)
        side = (0, 1) if preset == "smoke" else SIDE
        sizes = AnchorTask.preset(preset), ModelConfig.preset(preset), TrainConfig.preset(preset)
        return replace(cls(preset, side, side, SMALL, *sizes, RATES.get(preset, ())), **changes)
