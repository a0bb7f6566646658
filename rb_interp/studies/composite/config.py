"""Configuration of the composite study: a sweep over initialisation rates.

Beside it stands a control, `BOTH_UNSEEN`: what members answer to a pair whose mirror was not
trained either.

The paper trains 210 epochs of 370 batches on a warm-up of 10 epochs and a cosine for the other 200.
Its preset stops that schedule at 12,000 steps; ``--steps 77700`` trains all of it.
"""

from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import StudyConfig, SweepConfig, sizes
from rb_interp.settings import Gammas
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.training.config import TrainConfig

VERY_LARGE = 0.1
MIDDLE = 0.5
SMALL = 0.8
"""The gammas of paper 2's claims. A larger gamma is a smaller initialisation."""
STAGES = ("fit",)
EPOCH = 370
"""Steps of an epoch of the paper: 15 trained pairs of 50,625 rows, in batches of 2,048."""
BOTH_UNSEEN = "both_unseen"
"""The sweep whose members are trained on neither pair of a held-out one and its mirror."""
ANCHORS_MIN = 0.80
"""Attention that F1 and F2 ask for on two anchors together."""
ANCHOR_MIN = 0.20
"""Attention that they ask for on each anchor."""
FIRST_HOP_MIN = 0.50
"""Attention that F2 asks for from an anchor to the key."""
EDGES = {"anchors_from_key": ("anchor", "key"), "last_from_anchors": ("last", "anchor")}
"""Edges of L0 that F6 knocks out: name -> query and key."""
MAX_RATIO = 0.7
"""K2's bound of PR(gamma .8) / PR(gamma .5)."""
N_MATRICES = 12
"""Matrices of two layers."""

_POST = ModelConfig(norm="post")
MODELS = {
    "smoke": replace(_POST, d_model=32, d_head=16, d_mlp=64),
    "quick": replace(_POST, d_model=64, d_head=64, d_mlp=192),
    "paper": replace(_POST, d_model=400, d_head=200, d_mlp=1200),
}
_QUICK = TrainConfig(
    steps=3000,
    batch_size=64,
    lr=3e-3,
    lr_final=1.2e-4,
    warmup=600,
    weight_decay=0.1,
    eval_every=50,
    n_checkpoints=4,
    stages=STAGES,
)
TRAINING = {
    "smoke": replace(_QUICK, steps=200, warmup=40, eval_every=20, eval_rows=100, n_checkpoints=1),
    "quick": _QUICK,
    "paper": TrainConfig(
        steps=12_000,
        batch_size=2048,
        lr=25e-5,
        lr_final=1e-5,
        warmup=10 * EPOCH,
        schedule_steps=210 * EPOCH,
        eval_every=100,
        eval_rows=1000,
        n_checkpoints=8,
        stages=STAGES,
        save_every=120.0,
    ),
}


class CompositeConfig(SweepConfig, StudyConfig):
    """Members at each gamma and seed on one composite task.

    Claims name the gammas .1, .5 and .8, and are not judged where theirs is missing.

    Raises ConfigError for models that are no transformer of two layers or more, for rows too short
    to hold noise between block and last position, and for held-out pairs that inference and
    symmetry answer alike.

    >>> CompositeConfig.from_preset("quick").gammas
    (0.1, 0.5, 0.8)
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {"seeds": (0, 1), **sizes(CompositeTask, "smoke", MODELS, TRAINING)},
        "quick": {},
        "paper": sizes(CompositeTask, "paper", MODELS, TRAINING),
    }

    gammas: Gammas = (VERY_LARGE, MIDDLE, SMALL)
    task: CompositeTask = field(default_factory=CompositeTask)
    model: ModelConfig = MODELS["quick"]
    train: TrainConfig = TRAINING["quick"]

    def __post_init__(self) -> None:
        super().__post_init__()
        task = self.task
        if task.length < 6:
            raise ConfigError(
                f"length={task.length}; flows are read where noise stands between the anchors and "
                f"the last position, so give 6 or more."
            )
        check_answers_differ(task)
        if self.model.architecture != "transformer" or self.model.n_layers < 2:
            raise ConfigError(
                f"architecture='{self.model.architecture}', n_layers={self.model.n_layers}; the "
                f"study asks what one layer passes on to the next, so give a transformer of two "
                f"layers or more."
            )

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """The main sweep, and members of less large initialisation that see no mirrored pair."""
        gammas = tuple(gamma for gamma in (MIDDLE, SMALL) if gamma in self.gammas)
        if not gammas:
            return {"": self}
        train = replace(self.train, stages=(), stop_at="", n_checkpoints=0)
        task = self.task.both_unseen()
        control = SweepConfig(gammas, task, self.model, train, self.rates, self.data_seed)
        return {"": self, BOTH_UNSEEN: control}


def check_answers_differ(task: CompositeTask) -> None:
    """Raise ConfigError for a held-out pair that inference and symmetry answer alike."""
    key = np.array([0])
    for pair in task.held_out:
        anchors = np.array([pair])
        if task.inferential(key, anchors) == task.symmetric(key, anchors):
            raise ConfigError(
                f"the held-out pair {pair} gets the same answer by inference and by its mirror; make "
                f"the mirror {pair[::-1]} an exception."
            )
