"""Studies of several parts: Emb-MLP with the theory laid over it, and the label-range experiments.

A part is a whole configuration of its own, with its own run folder inside the study's:

    emb-mlp   sweep      Emb-MLP (Definition 1) under AdamW, as the experiments of Figs. 3B and 4
              descent    Emb-MLP under full-batch plain gradient descent, where Proposition 1 is stated
              one_layer  the one-layer model (Definition 2) under plain gradient descent: Propositions 2 and 3
    labels    keys       memory labels uniform on the keys (F_mem,1 of Fig. 8 left)
              near_sum   memory labels within the sum of anchors around the key (F_mem,2)
              ranges     four groups of memory anchors, each with a label range of its own (Fig. 8 right)

The paper gives no sizes, rates or steps of Emb-MLP and of the models behind its theory; those below are ours. Its
Fig. 4A shows epochs 50 and 900 of 1000: here the evaluations nearest to 5 % and 90 % of the steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rb_interp.errors import ConfigError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.study.config import StudyConfig, from_mapping, overlay, read_toml
from rb_interp.study.language_config import LANGUAGE, LanguageConfig, language_from_mapping
from rb_interp.study.sweep_config import PRESETS, comparable, flatten
from rb_interp.tasks import AnchorTask
from rb_interp.toml import to_toml
from rb_interp.training.config import TrainConfig

EARLY, LATE = 0.05, 0.90
"""Shares of the steps at which the embedding of Fig. 4A is looked at."""
ALL_GAMMAS = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
SOME_GAMMAS = (0.3, 0.5, 0.8, 1.0)
SMALL = 0.8


@dataclass(frozen=True)
class Scaling:
    """What is measured on fresh models of growing width: Eq. 13 and Lemma 1.

    Attributes:
        d_models: widths for Eq. 13, ascending. gammas: initialisation rates for Eq. 13.
        lemma_d_models, lemma_gammas: those for Lemma 1. n_init: initialisations at each.
    """

    d_models: tuple[int, ...] = (100, 200, 400, 800)
    gammas: tuple[float, ...] = ALL_GAMMAS
    lemma_d_models: tuple[int, ...] = (16, 64, 256, 1024)
    lemma_gammas: tuple[float, ...] = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.8)
    n_init: int = 100

    def __post_init__(self) -> None:
        for name in ("d_models", "lemma_d_models"):
            widths = list(getattr(self, name))
            if len(widths) < 2 or widths != sorted(set(widths)) or widths[0] < 1:
                raise ConfigError(f"{name}={widths}; expected two or more widths, ascending.")
        if self.n_init < 1 or not self.gammas or not self.lemma_gammas:
            raise ConfigError(
                f"n_init={self.n_init}, gammas={list(self.gammas)}, lemma_gammas={list(self.lemma_gammas)}; expected "
                f"at least one of each."
            )


@dataclass(frozen=True)
class SeriesConfig:
    """A study of several parts.

    Attributes:
        study: ``emb-mlp`` or ``labels``. preset: sizes to start from.
        parts: part -> its configuration; all have the same seeds.
        scaling: of ``emb-mlp`` alone.

    >>> config = SeriesConfig.from_preset("labels", "smoke", seeds=(0,))
    >>> list(config.parts), config.parts["near_sum"].task.memory_labels
    (['keys', 'near_sum', 'ranges'], 'near_sum')
    """

    study: str
    preset: str
    parts: Mapping[str, StudyConfig]
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if len({part.seeds for part in self.parts.values()}) > 1:
            raise ConfigError(f"the parts of study '{self.study}' have different seeds; give them the same.")
        for name, part in self.parts.items():
            _check_part(self.study, name, part)
        if self.study == "labels":
            _check_pair(self.parts["keys"], self.parts["near_sum"])
        if self.scaling is not None:
            task = self.parts["one_layer"].task
            highest = task.keys[1] + task.q * task.reasoning_anchors[1]
            if self.scaling.d_models[0] <= highest:
                raise ConfigError(
                    f"scaling.d_models begins at {self.scaling.d_models[0]}; the labels of part 'one_layer' go up to "
                    f"{highest}, so begin above that."
                )

    @staticmethod
    def from_preset(study: str, preset: str = "quick", seeds: tuple[int, ...] = ()) -> SeriesConfig:
        """A study at a preset's sizes; ConfigError for an unknown study or preset."""
        if study not in STUDIES:
            raise ConfigError(f"there is no study '{study}'; {nearest(study, ('anchor', LANGUAGE, *STUDIES))}")
        if preset not in PRESETS:
            raise ConfigError(f"there is no preset '{preset}'; {nearest(preset, PRESETS)}")
        parts = STUDIES[study](preset)
        config = SeriesConfig(study, preset, parts, SCALING[preset] if study == "emb-mlp" else None)
        return config.with_seeds(seeds) if seeds else config

    def with_seeds(self, seeds: tuple[int, ...]) -> SeriesConfig:
        """The same study with these seeds in every part."""
        return replace(self, parts={name: replace(part, seeds=seeds) for name, part in self.parts.items()})

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of every part."""
        return next(iter(self.parts.values())).seeds

    @property
    def plain(self) -> dict[str, Any]:
        """The configuration as nested plain data, in the form of its TOML file."""
        parts = {name: asdict(part) for name, part in self.parts.items()}
        scaling = {} if self.scaling is None else {"scaling": asdict(self.scaling)}
        return {"study": self.study, "preset": self.preset, **scaling, **parts}

    def to_toml(self) -> str:
        """The configuration as a TOML file that gives the same study again."""
        return to_toml(self.plain)

    @property
    def tier(self) -> str:
        """The preset's name, or ``custom`` where a part's task, model or training differ from it."""
        base = SeriesConfig.from_preset(self.study, self.preset, self.seeds)
        same = [_same(self.parts[name], part) for name, part in base.parts.items()]
        return self.preset if all(same) and self.scaling == base.scaling else "custom"

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that two configurations share exactly when they describe the same study."""
        parts = {name: comparable(part) for name, part in self.parts.items()}
        text = json.dumps({**self.plain, **parts}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def series_from_mapping(data: Mapping[str, Any], source: str = "the configuration") -> SeriesConfig:
    """A study of several parts from nested plain data; ConfigError names an unknown key and the nearest known one.

    ``seeds`` at the top holds for every part, each part's own table for that part.

    >>> data = {"study": "labels", "preset": "smoke", "seeds": [3], "ranges": {"train": {"steps": 10}}}
    >>> series_from_mapping(data).parts["ranges"].train.steps
    10
    """
    seeds = data.get("seeds", ())
    whole = isinstance(seeds, list | tuple) and all(type(seed) is int for seed in seeds)
    if not whole or ("seeds" in data and not seeds):
        raise ConfigError(f"{source}: 'seeds' is {seeds!r}; expected a list of whole numbers, at least one.")
    base = SeriesConfig.from_preset(str(data.get("study")), str(data.get("preset", "quick")), tuple(seeds))
    parts, scaling = dict(base.parts), base.scaling
    for key, value in data.items():
        if key in ("study", "preset", "seeds"):
            continue
        known = (*parts, *(() if scaling is None else ("scaling",)))
        if key not in known:
            raise ConfigError(f"{source}: unknown key '{key}' in study '{base.study}'; {nearest(key, known)}")
        if not isinstance(value, Mapping):
            raise ConfigError(f"{source}: '{key}' is {value!r}; expected a table [{key}].")
        if key == "scaling":
            scaling = overlay(scaling, value, source, "scaling.")
        else:
            parts[key] = overlay(parts[key], value, source, f"{key}.")
    return replace(base, parts=parts, scaling=scaling)


def load_study(path: Path) -> StudyConfig | SeriesConfig | LanguageConfig:
    """Read a TOML file: of the study that it names, else of a sweep on the anchor task."""
    data = read_toml(path)
    if data.get("study") == LANGUAGE:
        return language_from_mapping(data, str(path))
    if data.get("study", "anchor") == "anchor":
        return from_mapping({key: value for key, value in data.items() if key != "study"}, str(path))
    return series_from_mapping(data, str(path))


def _check_part(study: str, name: str, part: StudyConfig) -> None:
    """Raise ConfigError where a part is not what its name, and the claims about it, say that it is."""
    for key, wanted in DEFINED[study][name].items():
        group, field = key.split(".")
        has = getattr(getattr(part, group), field)
        if isinstance(wanted, tuple):
            missing = [value for value in wanted if value not in has]
            if missing:
                raise ConfigError(f"{name}.{key}={has} lacks {missing[0]!r}, which study '{study}' measures; add it.")
        elif has != wanted:
            raise ConfigError(f"{name}.{key}={has!r}; part '{name}' of study '{study}' has {wanted!r} by definition.")
    if part.train.optimiser == "sgd" and part.train.batch_size < part.task.n_sequences:
        raise ConfigError(
            f"{name}.train.batch_size={part.train.batch_size}; part '{name}' is full-batch, so give "
            f"{part.task.n_sequences}, its n_sequences, or more."
        )


def _check_pair(keys: StudyConfig, near_sum: StudyConfig) -> None:
    """Raise ConfigError where the two parts that R1 compares differ in more than their memory labels."""
    before, after = flatten(comparable(keys)), flatten(comparable(near_sum))
    for key, value in before.items():
        if value != after.get(key) and key != "task.memory_labels":
            raise ConfigError(
                f"parts 'keys' and 'near_sum' of study 'labels' differ in {key} ({value!r}, {after.get(key)!r}); they "
                f"are compared, so change both alike."
            )


def _same(part: StudyConfig, base: StudyConfig) -> bool:
    settings = ("task", "model", "train")
    return all(comparable(getattr(part, name)) == comparable(getattr(base, name)) for name in settings)


def _emb_mlp(preset: str) -> dict[str, StudyConfig]:
    task, model = EMB_MLP_TASKS[preset], EMB_MLP_MODELS[preset]
    d_vocab = task.keys[1] + task.q * task.reasoning_anchors[1] + 10
    small_task = replace(task, d_vocab=d_vocab)
    one_layer = replace(model, architecture="one_layer", d_model=d_vocab)
    seeds = (0, 1) if preset == "smoke" else (0, 1, 2, 3, 4)
    part = lambda gammas, task, model, train: StudyConfig(  # noqa: E731
        preset, gammas, seeds, task, model, replace(train, batch_size=min(train.batch_size, task.n_sequences))
    )
    return {
        "sweep": part(SOME_GAMMAS, task, model, ADAMW[preset]),
        "descent": part(ALL_GAMMAS, task, model, DESCENT[preset]),
        "one_layer": part(SOME_GAMMAS, small_task, one_layer, ONE_LAYER[preset]),
    }


def _labels(preset: str) -> dict[str, StudyConfig]:
    base = StudyConfig.from_preset(preset, gammas=(SMALL,))
    base = replace(base, train=replace(base.train, stages=("half", "before_memory"), steps=LABEL_STEPS[preset]))
    low, width = LABEL_RANGES[preset]
    ranges = tuple((low, low - 1 + width * i) for i in (1, 2, 3, 4))
    tasks = {
        "keys": base.task,
        "near_sum": replace(base.task, memory_labels="near_sum"),
        "ranges": replace(base.task, memory_anchors=(1, 8), memory_labels="ranges", label_ranges=ranges),
    }
    return {name: replace(base, task=task) for name, task in tasks.items()}


STUDIES = {"emb-mlp": _emb_mlp, "labels": _labels}

_PLAIN = {"train.optimiser": "sgd", "train.clip": 0.0, "train.weight_decay": 0.0, "train.track_drift": True}
_PLAIN |= {"train.stages": ("leaving",)}
_SWEPT = {"train.optimiser": "adamw", "train.track_drift": True, "train.stages": ("half", "leaving")}
_SWEPT |= {"train.keep_at": (EARLY, LATE)}
_READ = {"model.architecture": "transformer", "train.stages": ("half", "before_memory")}
DEFINED: dict[str, dict[str, dict[str, Any]]] = {
    "emb-mlp": {
        "sweep": {"model.architecture": "emb_mlp", **_SWEPT},
        "descent": {"model.architecture": "emb_mlp", **_PLAIN},
        "one_layer": {"model.architecture": "one_layer", **_PLAIN},
    },
    "labels": {name: {"task.memory_labels": name, **_READ} for name in ("keys", "near_sum", "ranges")},
}
"""What a part has to be for the claims about it to mean what they say; of tuples, what has to be in there."""

EMB_MLP_TASKS = {
    preset: replace(AnchorTask.preset(preset), length=3, unordered=True, balanced_keys=True, n_sequences=n)
    for preset, n in (("smoke", 512), ("quick", 2000), ("paper", 20_000))
}
"""All inputs there are, each once: keys x anchor combinations, half memory and half reasoning."""

EMB_MLP_MODELS = {
    "smoke": ModelConfig(1, 1, 32, 16, 64, act="tanh", architecture="emb_mlp"),
    "quick": ModelConfig(1, 1, 64, 32, 128, act="tanh", architecture="emb_mlp"),
    "paper": ModelConfig(1, 1, 200, 64, 512, act="tanh", architecture="emb_mlp"),
}

_SWEEP = TrainConfig(keep_at=(EARLY, LATE), stages=("half", "leaving"), track_drift=True, n_checkpoints=16)
ADAMW = {
    "smoke": replace(_SWEEP, steps=300, batch_size=64, lr=3e-3, eval_rows=200, n_checkpoints=6),
    "quick": _SWEEP,
    "paper": replace(_SWEEP, steps=200_000, batch_size=100, lr=1e-4, lr_final=1e-5, eval_every=500, eval_rows=1000),
}
_DESCENT = TrainConfig(
    steps=600, batch_size=20_000, optimiser="sgd", lr=0.3, schedule="constant", weight_decay=0.0, clip=0.0,
    eval_every=10, eval_rows=1000, n_checkpoints=24, stages=("leaving",), track_drift=True,
)  # fmt: skip
DESCENT = {
    "smoke": replace(_DESCENT, steps=100, n_checkpoints=8),
    "quick": _DESCENT,
    "paper": replace(_DESCENT, steps=6000, lr=0.1, eval_every=20, n_checkpoints=40),
}
ONE_LAYER = {
    "smoke": replace(_DESCENT, steps=100, n_checkpoints=8),
    "quick": replace(_DESCENT, steps=400),
    "paper": replace(_DESCENT, steps=6000, lr=0.1, eval_every=20, n_checkpoints=40),
}
SCALING = {
    "smoke": Scaling((80, 120, 160), SOME_GAMMAS, (16, 64), SOME_GAMMAS, 20),
    "quick": Scaling(),
    "paper": Scaling((200, 400, 800, 1600, 3200), n_init=200),
}
LABEL_STEPS = {"smoke": 300, "quick": 4000, "paper": 500_000}
LABEL_RANGES = {"smoke": (22, 10), "quick": (30, 20), "paper": (30, 20)}
"""First label of every range, and the width of the first: {30, ..., 29 + 20 i} in the paper."""
