"""Configuration of the Emb-MLP study: three sweeps, and fresh models of growing width.

    adamw      Emb-MLP (Definition 1) under AdamW, as the experiments of Figs. 3B and 4
    descent    Emb-MLP under full-batch plain gradient descent, where Proposition 1 is stated
    one_layer  the one-layer model (Definition 2) under plain gradient descent: Propositions 2 and 3

The paper gives no sizes, rates or steps of Emb-MLP and of the models behind its theory; those below
are ours. Its Fig. 4A shows epochs 50 and 900 of 1000: here the evaluations nearest to 5 % and 90 %
of the steps.

Claims of the Emb-MLP study: learning order (B), and theory against measurement (T).

T1, T2 and T4 are read at the stage ``leaving``, where a member leaves the plateau that it starts
on. Criteria were written down before the runs.
"""

from dataclasses import field, replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from rb_interp.claims import Condition, Term
from rb_interp.claims.claim import (
    alike_anchors,
    at_least,
    learning_order_claims,
    make_claim,
    ordered_anchors,
)
from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import StudyConfig, SweepConfig
from rb_interp.settings import LARGE, SMALL, Draws, Gammas, Settings, Size
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.anchor import check_both_kinds
from rb_interp.training.config import TrainConfig

EARLY = 0.05
LATE = 0.90
"""Shares of the steps at which the embedding of Fig. 4A is read."""
ALL_GAMMAS = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
SOME_GAMMAS = (0.3, 0.5, 0.8, 1.0)

_PLAIN = {
    "train.optimiser": "sgd",
    "train.clip": 0.0,
    "train.weight_decay": 0.0,
    "train.track_drift": True,
    "train.stages": ("leaving",),
}
_ADAMW = {
    "train.optimiser": "adamw",
    "train.track_drift": True,
    "train.stages": ("half", "leaving"),
}
DEFINED: dict[str, dict[str, Any]] = {
    "adamw": {"model.architecture": "emb_mlp", **_ADAMW, "train.keep_at": (EARLY, LATE)},
    "descent": {"model.architecture": "emb_mlp", **_PLAIN},
    "one_layer": {"model.architecture": "one_layer", **_PLAIN},
}
"""The settings that define a sweep, since the claims rely on them; of tuples, entries that must
be there."""


def _ascending(widths: tuple[int, ...]) -> tuple[int, ...]:
    if list(widths) != sorted(set(widths)):
        raise ValueError("give widths in ascending order")
    return widths


Widths = Annotated[
    tuple[Annotated[int, Field(ge=1, le=20_000)], ...],
    Field(min_length=2),
    AfterValidator(_ascending),
]
"""A square matrix of the largest takes 3.2 GB."""


class Scaling(Settings):
    """Sizes of the fresh models on which Eq. 13 and Lemma 1 are measured."""

    d_models: Widths = (100, 200, 400, 800)
    """Widths for Eq. 13, ascending."""
    gammas: Gammas = ALL_GAMMAS
    """Initialisation rates for Eq. 13."""
    lemma_d_models: Widths = (16, 64, 256, 1024)
    """Widths for Lemma 1, ascending."""
    lemma_gammas: Gammas = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.8)
    """Initialisation rates for Lemma 1."""
    n_init: Size = 100
    """Initialisations at each width and rate."""


class AnchorSweep(SweepConfig):
    """A sweep on an anchor task."""

    task: AnchorTask = field(default_factory=AnchorTask)


def _task(preset: str, n_sequences: int) -> AnchorTask:
    task = AnchorTask.preset(preset)
    return replace(task, length=3, unordered=True, balanced_keys=True, n_sequences=n_sequences)


TASKS = {
    "smoke": _task("smoke", 512),
    "quick": _task("quick", 2000),
    "paper": _task("paper", 20_000),
}
"""All possible inputs, each once: keys x anchor combinations, half memory and half reasoning."""

_EMB_MLP = ModelConfig(1, 1, act="tanh", architecture="emb_mlp")
MODELS = {
    "smoke": replace(_EMB_MLP, d_model=32, d_head=16, d_mlp=64),
    "quick": replace(_EMB_MLP, d_model=64, d_head=32, d_mlp=128),
    "paper": replace(_EMB_MLP, d_model=200, d_head=64, d_mlp=512),
}

_SWEEP = TrainConfig(
    keep_at=(EARLY, LATE), stages=("half", "leaving"), track_drift=True, n_checkpoints=16
)
_DESCENT = TrainConfig(
    steps=600,
    batch_size=20_000,
    optimiser="sgd",
    lr=0.3,
    schedule="constant",
    weight_decay=0.0,
    clip=0.0,
    eval_every=10,
    eval_rows=1000,
    n_checkpoints=24,
    stages=("leaving",),
    track_drift=True,
)
_SHORT = replace(_DESCENT, steps=100, n_checkpoints=8)
_LONG = replace(_DESCENT, steps=6000, lr=0.1, eval_every=20, n_checkpoints=40)
TRAINING = {
    "smoke": (
        replace(_SWEEP, steps=300, batch_size=64, lr=3e-3, eval_rows=200, n_checkpoints=6),
        _SHORT,
        _SHORT,
    ),
    "quick": (_SWEEP, _DESCENT, replace(_DESCENT, steps=400)),
    "paper": (
        replace(
            _SWEEP,
            steps=200_000,
            batch_size=100,
            lr=1e-4,
            lr_final=1e-5,
            eval_every=500,
            eval_rows=1000,
        ),
        _LONG,
        _LONG,
    ),
}
"""Training of the three sweeps, in order."""

SCALING = {
    "smoke": Scaling((80, 120, 160), SOME_GAMMAS, (16, 64), SOME_GAMMAS, 20),
    "quick": Scaling(),
    "paper": Scaling((200, 400, 800, 1600, 3200), n_init=200),
}


def _sweeps(preset: str) -> dict[str, AnchorSweep]:
    """The sweeps of a preset; a batch is no larger than the number of rows."""
    task = TASKS[preset]
    model = MODELS[preset]
    d_vocab = task.keys[1] + task.q * task.reasoning_anchors[1] + 10
    small_task = replace(task, d_vocab=d_vocab)
    one_layer = replace(model, architecture="one_layer", d_model=d_vocab)
    training = []
    for train in TRAINING[preset]:
        training.append(replace(train, batch_size=min(train.batch_size, task.n_sequences)))
    return {
        "adamw": AnchorSweep(SOME_GAMMAS, task, model, training[0]),
        "descent": AnchorSweep(ALL_GAMMAS, task, model, training[1]),
        "one_layer": AnchorSweep(SOME_GAMMAS, small_task, one_layer, training[2]),
    }


class EmbMLPConfig(StudyConfig):
    """The sweeps of the Emb-MLP study, and the sizes of its measurements.

    Raises ConfigError if a sweep lacks the settings by which its name and its claims define it.

    >>> config = EmbMLPConfig.from_preset("smoke", seeds=(0,))
    >>> list(config.sweeps), config.one_layer.model.d_model
    (['adamw', 'descent', 'one_layer'], 74)
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {"seeds": (0, 1), **_sweeps("smoke"), "scaling": SCALING["smoke"]},
        "quick": {},
        "paper": {**_sweeps("paper"), "scaling": SCALING["paper"]},
    }

    adamw: AnchorSweep = _sweeps("quick")["adamw"]
    """Emb-MLP under AdamW."""
    descent: AnchorSweep = _sweeps("quick")["descent"]
    """Emb-MLP under full-batch plain gradient descent."""
    one_layer: AnchorSweep = _sweeps("quick")["one_layer"]
    """The one-layer model under plain gradient descent."""
    scaling: Scaling = SCALING["quick"]
    """Sizes of fresh models."""
    n_null: Draws = 200
    """Draws of each null distribution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, sweep in self.sweeps.items():
            _check_defined(name, sweep)
            check_both_kinds(sweep.task)
            if sweep.train.optimiser == "sgd" and sweep.train.batch_size < sweep.task.n_sequences:
                raise ConfigError(
                    f"{name}.train.batch_size={sweep.train.batch_size}; sweep '{name}' is "
                    f"full-batch, so give {sweep.task.n_sequences}, its n_sequences, or more."
                )
        task = self.one_layer.task
        highest = task.keys[1] + task.q * task.reasoning_anchors[1]
        if self.scaling.d_models[0] <= highest:
            raise ConfigError(
                f"scaling.d_models begins at {self.scaling.d_models[0]}; the labels of sweep "
                f"'one_layer' go up to {highest}, so begin above that."
            )


def _check_defined(name: str, sweep: SweepConfig) -> None:
    """Raise ConfigError if a sweep lacks the settings that define it."""
    for key, defined in DEFINED[name].items():
        group, setting = key.split(".")
        value = getattr(getattr(sweep, group), setting)
        if isinstance(defined, tuple):
            missing = [entry for entry in defined if entry not in value]
            if missing:
                raise ConfigError(
                    f"{name}.{key}={value} lacks {missing[0]!r}, which this study measures; add it."
                )
        elif value != defined:
            raise ConfigError(
                f"{name}.{key}={value!r}; sweep '{name}' of this study has {defined!r} by "
                f"definition."
            )


AGREES = 0.90
"""What T1 and T4 ask of R^2; agreement below it counts as lost."""
R2 = "R^2 of the anchors' predicted drift"
EXCESS = "R^2 - that of predictions permuted within kind"
LABELS = {
    "adamw": "Emb-MLP",
    "descent": "Emb-MLP under gradient descent",
    "one_layer": "one-layer model under gradient descent",
}
"""What the sweeps are called in criteria."""


def _drift(quantity: str, label: str, sweep: str = "descent", gamma: float = SMALL) -> Term:
    return Term(
        "drift",
        quantity,
        gamma,
        "leaving",
        "anchor",
        None,
        label,
        sweep,
        LABELS[sweep],
        "leaving the plateau",
    )


def _predicted(sweep: str) -> tuple[Condition, ...]:
    """The drift is as predicted, and not by what all tokens of a kind share."""
    agrees = at_least(_drift("r2", R2, sweep), AGREES)
    return agrees, at_least(_drift("r2_excess", EXCESS, sweep), 0.10)


def _anchor_geometry(stage: str) -> tuple[Condition, ...]:
    """E1 and E2 of the anchor study at one stage of Emb-MLP."""
    where = {"sweep": "adamw", "sweep_label": LABELS["adamw"]}
    return ordered_anchors(stage, **where), alike_anchors(stage, **where)


ORDER = learning_order_claims(
    "B",
    (
        "With small initialisation Emb-MLP learns the reasoning mapping before the memory mapping.",
        "With large initialisation Emb-MLP learns both mappings at about the same pace.",
        "With large initialisation Emb-MLP memorises the reasoning mapping: it does not carry over "
        "to masked pairs.",
        "The smaller the initialisation, the stronger Emb-MLP's preference for reasoning.",
        "With small initialisation Emb-MLP's reasoning mapping carries over to masked pairs.",
    ),
    ("Fig. 3B",) * 5,
    sweep="adamw",
    sweep_label=LABELS["adamw"],
)

THEORY = (
    make_claim(
        "T1",
        "With small initialisation the labels that each token sees predict how its embedding in "
        "Emb-MLP first moves.",
        "Prop. 1",
        *_predicted("descent"),
        context=(
            _drift("r2_sequences", "R^2 where a repeated anchor counts once, as Eq. 4 is printed"),
            _drift("cos", "cos of predicted and measured drift, centred over anchors"),
        ),
    ),
    make_claim(
        "T2",
        "With large initialisation that prediction is worse.",
        "Prop. 1",
        at_least(_drift("r2", R2), 0.20, _drift("r2", R2, gamma=LARGE)),
    ),
    make_claim(
        "T3",
        "In Emb-MLP memory anchors are alike, and reasoning anchors the more alike the closer "
        "their values, "
        "early and late in training.",
        "Fig. 4A",
        *_anchor_geometry("early"),
        *_anchor_geometry("late"),
    ),
    make_claim(
        "T4",
        "With small initialisation the labels that each token sees predict how its embedding in "
        "the one-layer model "
        "first moves.",
        "Props. 2-3",
        *_predicted("one_layer"),
        context=(
            _drift(
                "r2_positions",
                "R^2 of the prediction that also knows each token's position",
                "one_layer",
            ),
        ),
    ),
)

CLAIMS = ORDER + THEORY
