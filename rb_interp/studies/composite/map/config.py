"""The phase map as a configuration, one sweep over gammas for each point of each axis.

    depth           number of layers, all gammas
    rate            peak learning rates, coarse gammas; the preset's own rate is the sweep of depth 2
    decay           weight decays, coarse gammas
    unseen_rate     learning rates at the middle gamma, three layers, neither mirrored pair trained (C10)
    unseen_decay    weight decays there (C11)
    gpt2            GPT-2's blocks, pre-norm and post-norm (C12)

Sweeps that differ in learning rate and weight decay alone train in one stack.

``quick`` has the sizes of the composite study's, and as much of the grid as twenty minutes on two cores allow: three
gammas, two depths and two seeds, which decide no claim.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, ClassVar, NamedTuple

from pydantic import AfterValidator, Field

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import DEFAULT_SEEDS, StudyConfig, SweepConfig
from rb_interp.settings import Gammas, Rate, Seeds, each_once
from rb_interp.studies.composite.config import EPOCH, MIDDLE, MODELS, TRAINING
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.training.config import TrainConfig

GAMMAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COARSE = (0.3, 0.5, 0.8)
BLOCK_GAMMAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEPTHS = (2, 3, 4, 6)
DECAYS = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Weight decays of claim C11, at the paper's learning rate and steps."""
UNSEEN_DECAY, UNSEEN_LAYERS = 0.01, 3
"""Weight decay of claim C10, and layers of C10 and C11."""
NORMS = ("pre", "post")
AXES = {
    "depth": "layers",
    "rate": "peak learning rate",
    "decay": "weight decay",
    "unseen_rate": "peak learning rate, both unseen",
    "unseen_decay": "weight decay, both unseen",
    "gpt2": "GPT-2 block, norm",
}
"""Axis -> what its points are called."""


class Place(NamedTuple):
    """A point of an axis: its value, its label, and the sweep of its members."""

    axis: str
    point: float
    label: str
    sweep: str


def paper_decays(train: TrainConfig) -> tuple[float, ...]:
    """DECAYS times what makes learning rate x weight decay x steps the paper's, which is 25e-5 x decay x 77,700.

    >>> [round(decay, 4) for decay in paper_decays(TrainConfig(lr=3e-3, steps=2000))]
    [0.0097, 0.0324, 0.0971, 0.3238, 0.9713]
    """
    times = TRAINING["paper"].lr * 210 * EPOCH / (train.lr * train.steps)
    return tuple(decay * times for decay in DECAYS)


_QUICK = replace(TRAINING["quick"], stages=(), n_checkpoints=0)
_SMOKE = replace(TRAINING["smoke"], steps=60, warmup=12, stages=(), n_checkpoints=0)
_PAPER = replace(TRAINING["paper"], stages=(), n_checkpoints=0)
_PAPER_FACTORS = tuple(round(rate / _PAPER.lr, 9) for rate in (5e-5, 1e-4, 2e-4, 4e-4, 6e-4))


def _apart(points: tuple[float, ...]) -> tuple[float, ...]:
    if len({f"{point:.3g}" for point in points}) < len(points):
        raise ValueError("give points that differ within three digits")
    return points


Points = Annotated[tuple[Rate, ...], Field(min_length=1, max_length=50), AfterValidator(_apart)]
Depths = Annotated[
    tuple[Annotated[int, Field(ge=2, le=1000)], ...], Field(min_length=1, max_length=50), AfterValidator(each_once)
]


class CompositeMapConfig(StudyConfig):
    """The axes of a map, and what its members share.

    Raises ConfigError for axes without the point that they share, and for points that are named twice.

    >>> [place.sweep for place in CompositeMapConfig.from_preset("quick").places if place.axis == "rate"]
    ['rate_0.5', 'depth_2', 'rate_2']
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {
            "seeds": (0, 1), "coarse_gammas": (0.5,), "heads": 2, "factors": (0.5, 1.0), "unseen_factors": (0.5, 1.0),
            "decays": paper_decays(_SMOKE)[:2], "task": CompositeTask.PRESETS["smoke"],
            "model": replace(MODELS["smoke"], d_model=16, d_head=8, d_mlp=32), "train": _SMOKE,
        },
        "quick": {},
        "paper": {
            "seeds": DEFAULT_SEEDS, "gammas": GAMMAS, "coarse_gammas": GAMMAS, "block_gammas": BLOCK_GAMMAS,
            "depths": DEPTHS, "factors": (*_PAPER_FACTORS, 1.0), "unseen_factors": _PAPER_FACTORS, "decays": DECAYS,
            "task": CompositeTask.PRESETS["paper"], "model": MODELS["paper"], "train": _PAPER,
        },
    }  # fmt: skip

    seeds: Seeds = DEFAULT_SEEDS[:2]
    gammas: Gammas = COARSE
    """Gammas of the axis depth."""
    coarse_gammas: Gammas = COARSE
    """Gammas of the axes rate and decay."""
    block_gammas: Gammas = (0.5, 0.8)
    """Gammas of GPT-2's blocks."""
    depths: Depths = (2, 4)
    """Numbers of layers, with 2 among them; information flows through two layers at least."""
    factors: Points = (0.5, 1.0, 2.0)
    """Learning rates, in multiples of ``train.lr``, with 1 among them."""
    unseen_factors: Points = (0.5, 1.0, 2.0)
    """The same of the axis unseen_rate."""
    decays: Points = paper_decays(_QUICK)[::4]
    """Weight decays. They do not follow a change of ``train.lr`` or ``train.steps``, see `paper_decays`."""
    heads: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Heads of GPT-2's blocks; each has its share of the head's width."""
    task: CompositeTask = field(default_factory=CompositeTask)
    """What a member at depth 2 learns."""
    model: ModelConfig = MODELS["quick"]
    """What a member at depth 2 is."""
    train: TrainConfig = _QUICK
    """How a member at depth 2 is trained, with the learning rate and weight decay of the preset."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, needed in (("depths", 2), ("factors", 1.0)):
            if needed not in getattr(self, name):
                raise ConfigError(f"{name}={getattr(self, name)}; axes share the point {needed:g}, so add it.")
        if not set(self.coarse_gammas) <= set(self.gammas):
            raise ConfigError(
                f"coarse_gammas={list(self.coarse_gammas)} are not all among gammas={list(self.gammas)}; the preset's "
                f"rate is read at depth 2, so take them from there."
            )
        if self.model.d_head % self.heads:
            raise ConfigError(f"heads={self.heads} do not divide d_head={self.model.d_head}; give a divisor of it.")

    @property
    def places(self) -> list[Place]:
        """Every point of every axis, in order."""
        rates = [(factor, "depth_2" if factor == 1 else f"rate_{factor:g}") for factor in self.factors]
        return [
            *(Place("depth", depth, str(depth), f"depth_{depth}") for depth in self.depths),
            *(Place("rate", f * self.train.lr, f"{f * self.train.lr:.2g}", sweep) for f, sweep in rates),
            *(Place("decay", decay, f"{decay:.2g}", f"decay_{decay:.3g}") for decay in self.decays),
            *(Place("unseen_rate", f * self.train.lr, f"{f * self.train.lr:.2g}", f"unseen_rate_{f:g}")
              for f in self.unseen_factors),
            *(Place("unseen_decay", decay, f"{decay:.2g}", f"unseen_decay_{decay:.3g}") for decay in self.decays),
            *(Place("gpt2", number, norm, f"gpt2_{norm}") for number, norm in enumerate(NORMS)),
        ]  # fmt: skip

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """One sweep for each point of each axis, and none twice."""
        return {
            place.sweep: self._sweep(place)
            for place in self.places
            if place.sweep != "depth_2" or place.axis == "depth"
        }

    def _sweep(self, place: Place) -> SweepConfig:
        axis, point, label, _ = place
        model, train, task, gammas = self.model, self.train, self.task, self.gammas
        if axis == "depth":
            model = replace(model, n_layers=int(point))
        elif axis == "gpt2":
            heads = {"n_heads": self.heads, "d_head": model.d_head // self.heads}
            model, gammas = replace(model, norm=label, act="gelu_new", train_biases=True, **heads), self.block_gammas
        else:
            gammas = self.coarse_gammas
            train = replace(train, **({"lr": point} if axis.endswith("rate") else {"weight_decay": point}))
        if axis.startswith("unseen"):
            model, task, gammas = replace(model, n_layers=UNSEEN_LAYERS), task.both_unseen(), (MIDDLE,)
            train = replace(train, weight_decay=UNSEEN_DECAY) if axis == "unseen_rate" else train
        return SweepConfig(gammas, task, model, train)
