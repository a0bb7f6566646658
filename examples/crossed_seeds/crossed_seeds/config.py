"""Configuration of crossed seeds: one sweep for each seed of the data, ``data_0``, ``data_1`` and
so on.

All sweeps have the same task, model and training, which are therefore set once, and the same seeds
of initial weights.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from rb_interp import study
from rb_interp.models import ModelConfig
from rb_interp.runs import StudyConfig, SweepConfig
from rb_interp.settings import Gamma, Rate, ReadRows, Seed, distinct
from rb_interp.tasks import AnchorTask
from rb_interp.training import TrainConfig

SIDE = tuple(range(6))
Side = Annotated[tuple[Seed, ...], Field(min_length=2, max_length=1000), AfterValidator(distinct)]


def _as_anchor(preset: str) -> dict[str, Any]:
    """Task, model, training and rates of the anchor study's preset."""
    sizes = {"task": AnchorTask, "model": ModelConfig, "train": TrainConfig}
    rates = study("anchor").preset(preset).sweeps[""].rates
    return {**{name: kind.preset(preset) for name, kind in sizes.items()}, "rates": rates}


class CrossedSeedsConfig(StudyConfig):
    """Seeds of the data (rows of the table) crossed with seeds of the initial weights (its
    columns).

    Task, model, training and rates of a preset are the anchor study's, so where both seeds are the
    same, a member is the anchor study's.

    Raises ConfigError for fewer than two seeds of either kind, and for one that is named twice.

    >>> config = CrossedSeedsConfig.from_preset("smoke")
    >>> [(name, sweep.data_seed) for name, sweep in config.sweeps.items()], config.seeds
    ([('data_0', 0), ('data_1', 1)], (0, 1))
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {**_as_anchor("smoke"), "seeds": (0, 1), "data_seeds": (0, 1)},
        "quick": _as_anchor("quick"),
        "paper": _as_anchor("paper"),
    }

    seeds: Side = SIDE
    """Seeds of the initial weights."""
    data_seeds: Side = SIDE
    """Seeds of data, labels and batch order."""
    gamma: Gamma = 0.8
    """Initialisation rate."""
    task: AnchorTask = field(default_factory=AnchorTask)
    """What is learned."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """What learns it."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""
    rates: tuple[tuple[Rate, Rate], ...] = ()
    """Learning rates of single gammas, in place of ``train.lr``."""
    probe_rows: ReadRows = 1000
    """Inputs that the probe sees, at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.sweeps  # what a sweep refuses is refused here

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """One sweep for each seed of the data."""
        shared = ((self.gamma,), self.task, self.model, self.train, self.rates)
        return {f"data_{seed}": SweepConfig(*shared, data_seed=seed) for seed in self.data_seeds}
