"""The phase map of composite functions, by initialisation and depth, learning rate or weight decay.

The map of paper 2's Figs. 2 and 14 (arXiv 2405.05409), on the task and with the phases of the
composite study. Its claims are C7 to C12.

A configuration has one sweep over gammas for each point of each axis:

    depth           number of layers, all gammas
    rate            peak learning rates, coarse gammas; the preset's rate is the sweep of depth 2
    decay           weight decays, coarse gammas
    unseen_rate     learning rates at the middle gamma, three layers, neither mirrored pair trained
                    (C10)
    unseen_decay    weight decays there (C11)
    gpt2            GPT-2's blocks, pre-norm and post-norm (C12)

Sweeps that differ in learning rate and weight decay alone train in one stack.

``quick`` has the sizes of the composite study's, and as much of the grid as twenty minutes on two
cores allow: three gammas, two depths and two seeds, which decide no claim.
"""

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

from pydantic import AfterValidator, Field

from rb_interp.claims import Claim, Condition, Term
from rb_interp.claims.claim import at_least, make_claim
from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs import Study
from rb_interp.runs.config import DEFAULT_SEEDS, StudyConfig, SweepConfig
from rb_interp.settings import Gammas, Rate, Seeds, distinct
from rb_interp.studies.composite.claims import other_answers, phase
from rb_interp.studies.composite.config import (
    EPOCH,
    MIDDLE,
    MODELS,
    SMALL,
    TRAINING,
    check_answers_differ,
)
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.training.config import TrainConfig

COMPOSITE_MAP = Study(
    name="composite-map",
    title=(
        "Phase map: where in gamma, depth, learning rate and weight decay is an unseen pair "
        "inferred?"
    ),
    question=(
        "The composite study asks how a pair of anchors that was never trained is answered. This "
        "map asks where: at which initialisations, and how that changes with depth, learning rate, "
        "weight decay and the kind of block. Each claim is a sentence of “Initialization is "
        "Critical to Whether Transformers Fit Composite Functions by Reasoning or Memorizing” "
        "(arXiv 2405.05409), with a criterion that was fixed before these runs."
    ),
    cost={"smoke": "about a minute", "quick": "about a quarter of an hour on two free CPU cores"},
    config="rb_interp.studies.composite.map:CompositeMapConfig",
    measure="rb_interp.studies.composite.map_measure:measure_map",
    tables={
        "members": "sweep gamma seed",
        "cells": "axis point gamma phase",
        "boundaries": "axis point",
    },
    claims="rb_interp.studies.composite.map:CLAIMS",
    figures="rb_interp.studies.composite.figures:MAP_FIGURES",
    report=Path(__file__).with_name("map.md.jinja"),
    quantities=Path(__file__).with_name("map_quantities.toml"),
)


GAMMAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COARSE = (0.3, 0.5, 0.8)
BLOCK_GAMMAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEPTHS = (2, 3, 4, 6)
DECAYS = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Weight decays of claim C11, at the paper's learning rate and steps."""
UNSEEN_DECAY = 0.01
"""Weight decay of claim C10."""
UNSEEN_LAYERS = 3
"""Layers of claims C10 and C11."""
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


class AxisPoint(NamedTuple):
    """A point of an axis."""

    axis: str
    point: float
    """The value of the setting, or the number of the norm."""
    label: str
    sweep: str
    """The sweep of its members."""


def paper_decays(train: TrainConfig) -> tuple[float, ...]:
    """DECAYS times a factor that makes learning rate x weight decay x steps the paper's.

    The paper's is 25e-5 x decay x 77,700.

    >>> [round(decay, 4) for decay in paper_decays(TrainConfig(lr=3e-3, steps=2000))]
    [0.0097, 0.0324, 0.0971, 0.3238, 0.9713]
    """
    factor = TRAINING["paper"].lr * 210 * EPOCH / (train.lr * train.steps)
    return tuple(decay * factor for decay in DECAYS)


_QUICK = replace(TRAINING["quick"], stages=(), n_checkpoints=0)
_SMOKE = replace(TRAINING["smoke"], steps=60, warmup=12, stages=(), n_checkpoints=0)
_PAPER = replace(TRAINING["paper"], stages=(), n_checkpoints=0)
_PAPER_FACTORS = tuple(round(rate / _PAPER.lr, 9) for rate in (5e-5, 1e-4, 2e-4, 4e-4, 6e-4))


def _distinct(points: tuple[float, ...]) -> tuple[float, ...]:
    """The points; ValueError if two have the same name."""
    if len({f"{point:.3g}" for point in points}) < len(points):
        raise ValueError("give points that differ within three digits")
    return points


Points = Annotated[tuple[Rate, ...], Field(min_length=1, max_length=50), AfterValidator(_distinct)]
Depths = Annotated[
    tuple[Annotated[int, Field(ge=2, le=1000)], ...],
    Field(min_length=1, max_length=50),
    AfterValidator(distinct),
]


class CompositeMapConfig(StudyConfig):
    """The axes of a map, and what its members share.

    Raises ConfigError for axes without the point that they share, and for points that are named
    twice.

    >>> points = CompositeMapConfig.from_preset("quick").axis_points
    >>> [point.sweep for point in points if point.axis == "rate"]
    ['rate_0.5', 'depth_2', 'rate_2']
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {
            "seeds": (0, 1),
            "coarse_gammas": (0.5,),
            "heads": 2,
            "factors": (0.5, 1.0),
            "unseen_factors": (0.5, 1.0),
            "decays": paper_decays(_SMOKE)[:2],
            "task": CompositeTask.PRESETS["smoke"],
            "model": replace(MODELS["smoke"], d_model=16, d_head=8, d_mlp=32),
            "train": _SMOKE,
        },
        "quick": {},
        "paper": {
            "seeds": DEFAULT_SEEDS,
            "gammas": GAMMAS,
            "coarse_gammas": GAMMAS,
            "block_gammas": BLOCK_GAMMAS,
            "depths": DEPTHS,
            "factors": (*_PAPER_FACTORS, 1.0),
            "unseen_factors": _PAPER_FACTORS,
            "decays": DECAYS,
            "task": CompositeTask.PRESETS["paper"],
            "model": MODELS["paper"],
            "train": _PAPER,
        },
    }

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
    """Weight decays. They do not follow a change of ``train.lr`` or ``train.steps``, see
    `paper_decays`."""
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
        check_answers_differ(self.task)
        if self.model.n_layers != 2:
            raise ConfigError(
                f"n_layers={self.model.n_layers}; depth is an axis, so give 'depths'."
            )
        if 2 not in self.depths:
            raise ConfigError(f"depths={self.depths}; axes share the point 2, so add it.")
        if 1.0 not in self.factors:
            raise ConfigError(f"factors={self.factors}; axes share the point 1, so add it.")
        if not set(self.coarse_gammas) <= set(self.gammas):
            raise ConfigError(
                f"coarse_gammas={list(self.coarse_gammas)} are not all among "
                f"gammas={list(self.gammas)}; the preset's rate is read at depth 2, so take them "
                f"from there."
            )
        if self.model.d_head % self.heads:
            raise ConfigError(
                f"heads={self.heads} do not divide d_head={self.model.d_head}; give a divisor of "
                f"it."
            )

    @property
    def axis_points(self) -> list[AxisPoint]:
        """Every point of every axis, in order."""
        points = []
        for depth in self.depths:
            points.append(AxisPoint("depth", depth, str(depth), f"depth_{depth}"))
        for prefix, factors in (("", self.factors), ("unseen_", self.unseen_factors)):
            for factor in factors:
                axis = f"{prefix}rate"
                sweep = "depth_2" if factor == 1 and not prefix else f"{axis}_{factor:g}"
                rate = factor * self.train.lr
                points.append(AxisPoint(axis, rate, f"{rate:.2g}", sweep))
            for decay in self.decays:
                axis = f"{prefix}decay"
                points.append(AxisPoint(axis, decay, f"{decay:.2g}", f"{axis}_{decay:.3g}"))
        for number, norm in enumerate(NORMS):
            points.append(AxisPoint("gpt2", number, norm, f"gpt2_{norm}"))
        return points

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """One sweep for each point of each axis, and none twice."""
        sweeps = {}
        for point in self.axis_points:
            if point.sweep not in sweeps:
                sweeps[point.sweep] = self._sweep(point)
        return sweeps

    def _sweep(self, point: AxisPoint) -> SweepConfig:
        """The members of a point of an axis."""
        axis = point.axis
        model = self.model
        train = self.train
        if axis == "depth":
            model = replace(model, n_layers=int(point.point))
            return SweepConfig(self.gammas, self.task, model, train)
        if axis == "gpt2":
            model = replace(
                model,
                norm=point.label,
                act="gelu_new",
                train_biases=True,
                n_heads=self.heads,
                d_head=model.d_head // self.heads,
            )
            return SweepConfig(self.block_gammas, self.task, model, train)
        if axis == "unseen_rate":
            train = replace(train, lr=point.point, weight_decay=UNSEEN_DECAY)
        elif axis == "rate":
            train = replace(train, lr=point.point)
        else:
            train = replace(train, weight_decay=point.point)
        if axis.startswith("unseen"):
            model = replace(model, n_layers=UNSEEN_LAYERS)
            return SweepConfig((MIDDLE,), self.task.both_unseen(), model, train)
        return SweepConfig(self.coarse_gammas, self.task, model, train)


ORDER = "Spearman(gamma, I - S), gammas .5 to 1.0"
CROSSES = "I - S crosses 0 inside the grid (1: yes)"


DEPTHS_CROSSING = (2, 3, 4)
"""Depths of claim C9."""


def of_map(quantity: str, label: str, sweep: str = "") -> Term:
    """A number of a seed over all gammas, or over several sweeps."""
    return Term("map", quantity, None, "final", label=label, sweep=sweep, every_sweep=not sweep)


def _context(sweep: str) -> list[Term]:
    """I and S, also with early keys alone, at the small and the middle initialisation."""
    terms = (*other_answers(MIDDLE), *other_answers(SMALL))
    return [replace(term, sweep=sweep) for term in terms if term.quantity != "O"]


def _setting(id: str, axis: str, name: str, symbol: str) -> Claim:
    """The claim about a learning rate or weight decay."""
    statement = f"A higher {name} makes a pair inferred whose mirror is not trained either."
    rank = of_map(f"{axis}_order", f"Spearman(log {symbol}, I)")
    gain = of_map(f"{axis}_gain", f"I at the highest {symbol} that is fitted - I at the lowest")
    conditions = (at_least(rank, 0.60), at_least(gain, 0.20))
    return make_claim(id, statement, "Fig. 14", *conditions)


def _blocks(norm: str) -> list[Condition]:
    """The contrast and the order in GPT-2's blocks."""
    sweep = f"gpt2_{norm}"
    inferential = [phase("I", gamma, "", sweep) for gamma in (SMALL, MIDDLE)]
    symmetric = [phase("S", gamma, "", sweep) for gamma in (MIDDLE, SMALL)]
    return [
        at_least(inferential[0], 0.50, inferential[1]),
        at_least(symmetric[0], 0.50, symmetric[1]),
        at_least(of_map("order", ORDER, sweep), 0.60),
    ]


CROSSING = [f"depth_{depth}" for depth in DEPTHS_CROSSING]


CLAIMS: tuple[Claim, ...] = (
    make_claim(
        "C7",
        "The smaller the initialisation, the more the unseen pair is inferred, and the less "
        "mirrored.",
        "Sec. 4, order",
        at_least(of_map("order", ORDER, "depth_2"), 0.60),
        context=tuple(_context("depth_2")),
    ),
    make_claim(
        "C8",
        "Deeper models need a smaller initialisation to fit seen pairs.",
        "Fig. 2, depth",
        at_least(of_map("fit_rise", "smallest fitted gamma at depth 6 - at depth 2"), 0.1),
        context=tuple(
            of_map("gamma_fit", "smallest fitted gamma", f"depth_{depth}") for depth in (2, 4, 6)
        ),
    ),
    make_claim(
        "C9",
        "At every depth there is a boundary between symmetric and inferential answers.",
        "Fig. 2, depth",
        *(at_least(of_map("crosses", CROSSES, sweep), 1.0) for sweep in CROSSING),
        context=(
            *(of_map("gamma_star", "boundary gamma*", sweep) for sweep in CROSSING),
            *(of_map("unfit", "members of the seed that are unfit", sweep) for sweep in CROSSING),
            of_map("distance", "|gamma*(4) - gamma*(2)|"),
        ),
    ),
    _setting("C10", "rate", "learning rate", "lr"),
    _setting("C11", "decay", "weight decay", "wd"),
    make_claim(
        "C12",
        "GPT-2's blocks show the same contrast and the same order, with the norm before and after.",
        "Fig. 2c",
        *_blocks("pre"),
        *_blocks("post"),
        context=(*_context("gpt2_pre"), *_context("gpt2_post")),
    ),
)
