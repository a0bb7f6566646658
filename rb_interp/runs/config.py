"""Configurations of studies. The same frozen object is the Python object, the command's flags and
the TOML file.

A study's configuration is a `StudyConfig`. It has one sweep (it is a `SweepConfig` itself) or
several (its fields of that type, by name). A class's ``host_fields`` say where and how something is
computed; they belong to no fingerprint. Its ``source_fields`` say where data comes from; they do
not change the scale of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from rb_interp import settings
from rb_interp.errors import ConfigError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.settings import Gammas, Rate, Seed, Seeds, Settings
from rb_interp.training.config import TrainConfig

if TYPE_CHECKING:
    from rb_interp.claims import Claim

__all__ = ["StudyConfig", "SweepConfig", "fingerprint", "from_mapping"]

DEFAULT_SEEDS = tuple(range(10, 18))
"""Seeds of ``quick`` and ``paper``: they decide claims that were written after seeds 0 to 9 had
been read, too."""


class StudyConfig(Settings):
    """What the configurations of all studies share; a study adds its fields, its PRESETS and its
    checks."""

    PRESETS: ClassVar[dict] = {"quick": {}}
    sibling_stages: ClassVar[Mapping[str, tuple[str, float]]] = {}
    """Further names of stages, name -> (stage, gamma): that stage of the same seed's member."""

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
        config = settings.overlay(cls(preset=preset), cls.PRESETS[preset], f"preset '{preset}'")
        return replace(config, **changes)

    def judged(self, claim: Claim) -> Claim:
        """A claim of the study as it is judged in a run of this configuration."""
        return claim

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """Its sweeps by name; a single one, or the main one, is called "" and is the configuration
        itself.

        A study may have further sweeps beside its main one. Its figures and its report are then of
        the main one.
        """
        if isinstance(self, SweepConfig):
            return {"": self}
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, SweepConfig)}


class SweepConfig(Settings):
    """One sweep: members trained alike, on one task, at each gamma (and each seed of the study).

    Raises ConfigError for rates that do not fit, and for sizes of the model that contradict the
    task.
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
    """Seed of data, labels and batch order of every member, whose own seed then fixes its initial
    weights alone. None: each member's own seed fixes both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(dict(self.rates)) < len(self.rates):
            raise ConfigError(
                f"rates={self.rates}; expected pairs of gamma and learning rate, each gamma once."
            )
        if self.model.scheme == "torch_default" and len(self.gammas) > 1:
            raise ConfigError(
                f"scheme 'torch_default' has no gamma, and gammas={self.gammas}; give one gamma."
            )
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


def from_mapping(
    kind: type[StudyConfig], data: Mapping[str, Any], source: str = "the configuration"
) -> Any:
    """A study's configuration: its preset with what the data changes; ConfigError for what does not
    fit.

    Args:
        data: nested plain data, as of a TOML file; ``preset`` names what it starts from.
        source: where the data comes from, for messages.
    """
    changes = {key: value for key, value in data.items() if key != "study"}
    preset = kind.from_preset(changes.get("preset", "quick"))
    return settings.overlay(preset, changes, source)


def fingerprint(*values: Any) -> str:
    """Twelve hex digits that two configurations share exactly when they describe the same thing."""
    return settings.digest([settings.comparable(value) for value in values])


def stacks(sweeps: Mapping[str, SweepConfig]) -> list[list[str]]:
    """Names of the sweeps that train in one stack: those that differ in learning rate and weight
    decay, at least in one of them, and in no more but their gammas. Sweeps with ``rates`` train by
    themselves.

    >>> from rb_interp.tasks import AnchorTask
    >>> slow = SweepConfig(task=AnchorTask(), train=TrainConfig(lr=1e-4))
    >>> stacks({"": SweepConfig(task=AnchorTask()), "slow": slow, "short": replace(slow, train=TrainConfig(steps=9))})
    [['', 'slow'], ['short']]
    """
    result: dict[Any, list[str]] = {}
    times_taken = Counter[Any]()
    for name, sweep in sweeps.items():
        data = fingerprint(sweep.task, sweep.model, sweep.data_seed)
        stack = (data, replace(sweep.train, lr=1, weight_decay=0))
        setting = (stack, sweep.train.lr, sweep.train.weight_decay)
        times_taken[setting] += 1
        with_rates = name if sweep.rates else ""
        result.setdefault((stack, times_taken[setting], with_rates), []).append(name)
    return list(result.values())


def check_lr(config: StudyConfig) -> None:
    """Raise ConfigError if a learning rate was given that no member would take.

    Rates of the preset may be of gammas that the sweep does not have: they stay when the gammas are
    replaced.
    """
    base = type(config).from_preset(config.preset).sweeps
    first = next(iter(base.values()))
    settable = {"": config.sweeps[""]} if "" in config.sweeps else config.sweeps
    for name, sweep in settable.items():
        of_preset = base.get(name, first)  # sweeps of other data are all like the first
        prefix = f"{name}." if name else ""
        gammas = set(sweep.gammas)
        with_rate = {gamma for gamma, _ in sweep.rates}
        if sweep.rates != of_preset.rates:
            if not with_rate <= gammas:
                raise ConfigError(
                    f"{prefix}rates={sweep.rates}; the gammas of this sweep are {sweep.gammas} "
                    f"alone."
                )
        elif sweep.train.lr != of_preset.train.lr and with_rate >= gammas:
            raise ConfigError(
                f"{prefix}train.lr={sweep.train.lr:g} has no effect: preset '{config.preset}' "
                f"gives each of the gammas {list(sweep.gammas)} a learning rate of its own. Change "
                f"{prefix}rates instead."
            )


def scale_of(config: StudyConfig) -> str:
    """The preset's name, or ``custom`` if a table of settings differs from the preset's."""
    preset = type(config).from_preset(config.preset)
    return config.preset if _sizes(config) == _sizes(preset) else "custom"


def _sizes(config: StudyConfig) -> dict[str, Any]:
    """Settings that stand in tables, rates and seeds of data, less where data comes from."""
    parts = ("task", "model", "train", "rates", "data_seed")
    values = settings.comparable(config)
    left_out: set[str] = set()
    for name, sweep in config.sweeps.items():
        left_out.update(getattr(sweep.task, "source_fields", ()))
        if name:
            values[name] = {part: settings.comparable(getattr(sweep, part)) for part in parts}
    sizes = {}
    for key, value in settings.flat(values).items():
        in_table = "." in key or key in parts
        if in_table and key.rpartition(".")[2] not in left_out:
            sizes[key] = value
    return sizes
