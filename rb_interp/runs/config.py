"""Configurations of studies: the same frozen object is the Python object, the command's flags and the TOML file.

A study's configuration is a `StudyConfig`. It has one sweep (it is a `SweepConfig` itself) or several (its fields of
that type, by name). A class's ``host_fields`` say where and how something is computed; they belong to no fingerprint.
Its ``source_fields`` say where data comes from; they do not change the scale of a run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from rb_interp.errors import ConfigError, RunError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.runs.protocol import study
from rb_interp.settings import (
    Gammas,
    Rate,
    Seed,
    Seeds,
    Settings,
    class_name,
    comparable,
    digest,
    flat,
    overlay,
    plain,
)
from rb_interp.training.config import TrainConfig

if TYPE_CHECKING:
    from rb_interp.claims import Claim
    from rb_interp.tasks.dataset import Task

__all__ = ["StudyConfig", "SweepConfig", "fingerprint", "from_mapping"]

DEFAULT_SEEDS = tuple(range(10, 18))
"""Seeds of ``quick`` and ``paper``: they decide claims that were written after seeds 0 to 9 had been read, too."""


class StudyConfig(Settings):
    """What the configurations of all studies share; a study adds its fields, its PRESETS and its checks.

    Attributes:
        sibling_stages: further names of stages, name -> (stage, gamma): that stage of the same seed's member.
    """

    PRESETS: ClassVar[dict] = {"quick": {}}
    sibling_stages: ClassVar[Mapping[str, tuple[str, float]]] = {}

    preset: str = "quick"
    """Sizes and schedule to start from."""
    seeds: Seeds = DEFAULT_SEEDS
    """Each fixes data, labels, batch order and normal draws, shared across gammas."""

    def __post_init__(self) -> None:
        self.check_preset(self.preset)
        super().__post_init__()

    @classmethod
    def from_preset(cls, preset: str = "quick", **changes: Any) -> Self:
        """A preset, with fields replaced; ConfigError for an unknown one."""
        cls.check_preset(preset)
        return replace(overlay(cls(preset=preset), cls.PRESETS[preset], f"preset '{preset}'"), **changes)

    def judged(self, claim: Claim) -> Claim:
        """A claim of the study as it is judged in a run of this configuration."""
        return claim

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """Its sweeps by name; a single one, or the main one, is called "" and is the configuration itself.

        A study may have further sweeps beside its main one. Its figures and its report are then of the main one.
        """
        if isinstance(self, SweepConfig):
            return {"": self}
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), SweepConfig)}


class SweepConfig(Settings):
    """One sweep: members trained alike, on one task, at each gamma (and each seed of the study).

    Raises ConfigError for rates that do not fit, and for sizes of the model that contradict the task.
    """

    gammas: Gammas = (0.3, 0.5, 0.8)
    """Initialisation rates, std = d_in^-gamma."""
    task: Any = None
    """What is learned, a ``tasks.Task``."""
    model: ModelConfig = ModelConfig()
    """What learns it."""
    train: TrainConfig = TrainConfig()
    """How it is trained."""
    rates: tuple[tuple[Rate, Rate], ...] = ()
    """Learning rates of single gammas, pairs of gamma and rate, in place of ``train.lr``."""
    data_seed: Seed | None = None
    """Seed of data, labels and batch order of every member, whose own seed then fixes its initial weights alone. None:
    each member's own seed fixes both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(dict(self.rates)) < len(self.rates):
            raise ConfigError(f"rates={self.rates}; expected pairs of gamma and learning rate, each gamma once.")
        if self.model.scheme == "torch_default" and len(self.gammas) > 1:
            raise ConfigError(f"scheme 'torch_default' has no gamma, and gammas={self.gammas}; give one gamma.")
        if self.task.predicts == "last" and (self.train.micro_batch or self.train.compile):
            raise ConfigError("micro_batch and compile are for language models; leave them out.")
        parameters(self.model, self.task.d_vocab, self.task.length)
        known = self.task.stages or {}
        for stage in self.train.stages:
            if stage not in known:
                raise ConfigError(f"the task has no stage '{stage}'; {nearest(stage, known)}")

    def data_seed_of(self, seed: int) -> int:
        """The seed that fixed data, labels and batch order of the members with a seed."""
        return seed if self.data_seed is None else self.data_seed


def sizes(task: type[Settings], preset: str) -> dict[str, Any]:
    """What a preset changes of a task's class, of the model and of training."""
    return {
        "task": task.PRESETS[preset],
        "model": ModelConfig.PRESETS[preset],
        "train": TrainConfig.PRESETS[preset],
    }


def from_mapping(kind: type[StudyConfig], data: Mapping[str, Any], source: str = "the configuration") -> Any:
    """A study's configuration: its preset with what the data changes.

    Args:
        kind: the study's class of configurations. data: nested plain data, as of a TOML file; ``preset`` names what it
            starts from. source: where the data comes from, for messages.

    Raises ConfigError for an unknown key (naming the nearest known one) and for a value of another type.
    """
    held = {key: value for key, value in data.items() if key != "study"}
    return overlay(kind.from_preset(held.get("preset", "quick")), held, source)


def fingerprint(*values: Any) -> str:
    """Twelve hex digits that two configurations share exactly when they describe the same thing."""
    return digest([comparable(value) for value in values])


def stacks(sweeps: Mapping[str, SweepConfig]) -> list[list[str]]:
    """Names of the sweeps that train in one stack: those that differ in learning rate and weight decay, at least in
    one of them, and in no more but their gammas. Sweeps with ``rates`` train by themselves.

    >>> from rb_interp.tasks import AnchorTask
    >>> slow = SweepConfig(task=AnchorTask(), train=TrainConfig(lr=1e-4))
    >>> stacks({"": SweepConfig(task=AnchorTask()), "slow": slow, "short": replace(slow, train=TrainConfig(steps=9))})
    [['', 'slow'], ['short']]
    """
    found: dict[Any, list[str]] = {}
    taken = Counter[Any]()
    for name, sweep in sweeps.items():
        of_stack = fingerprint(sweep.task, sweep.model, sweep.data_seed), replace(sweep.train, lr=1, weight_decay=0)
        own = (of_stack, sweep.train.lr, sweep.train.weight_decay)
        taken[own] += 1
        found.setdefault((of_stack, taken[own], name if sweep.rates else ""), []).append(name)
    return list(found.values())


def check_lr(config: StudyConfig) -> None:
    """Raise ConfigError where a learning rate was given that no member would take.

    That is ``train.lr`` where every gamma has a rate of its own from the preset, and a rate of a gamma that the sweep
    does not have. Rates of the preset may be of such gammas: they stay when the gammas are replaced.
    """
    base = type(config).from_preset(config.preset).sweeps
    settable = {"": config.sweeps[""]} if "" in config.sweeps else config.sweeps
    for name, sweep in settable.items():
        rates, where = {gamma for gamma, _ in sweep.rates}, f"{name}." if name else ""
        of_preset = base.get(
            name, next(iter(base.values()))
        )  # sweeps that differ in their data are all like the first
        if sweep.rates != of_preset.rates:
            if not rates <= {*sweep.gammas}:
                raise ConfigError(f"{where}rates={sweep.rates}; the gammas of this sweep are {sweep.gammas} alone.")
        elif sweep.train.lr != of_preset.train.lr and rates >= {*sweep.gammas}:
            raise ConfigError(
                f"{where}train.lr={sweep.train.lr:g} has no effect: preset '{config.preset}' gives each of the gammas "
                f"{list(sweep.gammas)} a learning rate of its own. Change {where}rates instead."
            )


def scale_of(config: StudyConfig) -> str:
    """The preset's name, or ``custom`` where a task, model, training or other table of settings differs from it."""
    return config.preset if _sizes(config) == _sizes(type(config).from_preset(config.preset)) else "custom"


def _sizes(config: StudyConfig) -> dict[str, Any]:
    """Settings that stand in tables, rates and seeds of data, less where data comes from."""
    parts = ("task", "model", "train", "rates", "data_seed")
    named = {name: sweep for name, sweep in config.sweeps.items() if name}
    sweeps = {name: {part: comparable(getattr(sweep, part)) for part in parts} for name, sweep in named.items()}
    left_out = {name for sweep in config.sweeps.values() for name in getattr(sweep.task, "source_fields", ())}
    told = flat({**comparable(config), **sweeps}).items()
    return {k: v for k, v in told if ("." in k or k in parts) and k.rpartition(".")[2] not in left_out}


def task_spec(task: Task, study: str = "") -> dict[str, Any]:
    """What ``config.json`` says of a task.

    That is ``kind``, its class as ``module:qualname``; ``fingerprint``, of class and settings; ``settings``; ``study``,
    the name of a study that trains tasks of this class; and ``sources``, settings that name files of whoever trained
    the member, and are left out.
    """
    defaults = (
        {f.name: f.default for f in fields(task)} if is_dataclass(task) else {}
    )  # others have to be given again
    sources = [name for name in getattr(task, "source_fields", ()) if getattr(task, name) != defaults.get(name)]
    settings = (plain(task) if defaults else {}) | {name: defaults.get(name) for name in sources}
    told = {"kind": class_name(task), "fingerprint": task.fingerprint(), "settings": settings}
    return {**told, "study": study, "sources": sources}


def task_from(spec: Mapping[str, Any]) -> Task:
    """A task from its description: of a class of this package, or of one that its study has in a preset."""
    if spec["sources"]:
        raise RunError(f"it reads files of whoever trained the member: {', '.join(spec['sources'])}")
    kind = spec["kind"]
    module, _, name = kind.partition(":")
    if re.fullmatch(r"rb_interp\.tasks\.\w+:[A-Z]\w*", kind):
        tasks: list[Any] = [getattr(import_module(module), name)()]
    else:
        config = study(spec["study"]).load("config")
        presets = [config.from_preset(preset) for preset in config.PRESETS]
        tasks = [sweep.task for preset in presets for sweep in preset.sweeps.values()]
    for task in tasks:
        if class_name(task) == kind and is_dataclass(task):
            return overlay(task, spec["settings"], "the task's settings")
    raise RunError(f"{kind} is no task of this package, and the study '{spec['study']}' trains none of this class")
