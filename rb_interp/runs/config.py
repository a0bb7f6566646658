"""Configurations: the same frozen dataclass is the Python object, the command's flags and the TOML file.

A study's configuration is a `StudyConfig`. It has one sweep (it is a `SweepConfig` itself) or several (its fields of
that type, by name). A dataclass's ``host_fields`` say where and how something is computed; they belong to no
fingerprint. Its ``source_fields`` say where data comes from; they do not change the scale of a run. Its
``later_fields`` were added after runs were kept; while they have their default they change no fingerprint, so that
those runs can be opened.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from rb_interp import bounds
from rb_interp.checks import KnownFields
from rb_interp.errors import ConfigError, RbInterpError, first_line, nearest
from rb_interp.lazy import listed
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.tasks.fingerprints import class_name
from rb_interp.tasks.protocol import Task
from rb_interp.training.config import TrainConfig

__all__ = ["StudyConfig", "SweepConfig", "comparable", "fingerprint", "from_mapping", "overlay", "read_toml", "to_toml"]
__dir__ = listed(__name__)

LARGEST_FILE = 1_000_000
"""Bytes of a TOML file, at most."""
DEFAULT_SEEDS = tuple(range(10, 18))
"""Seeds of ``quick`` and ``paper``: they decide claims that were written after seeds 0 to 9 had been read, too."""


@dataclass(frozen=True)
class StudyConfig(KnownFields):
    """What the configurations of all studies share; a study adds its fields, its checks and ``from_preset``.

    Attributes:
        preset: sizes and schedule to start from.
        seeds: each fixes data, labels, batch order and normal draws, shared across gammas.
        presets: names that ``from_preset`` knows.
        sibling_stages: further names of stages, name -> (stage, gamma): that stage of the same seed's member.
    """

    BOUNDS = bounds.STUDY
    presets: ClassVar[tuple[str, ...]] = ("smoke", "quick", "paper")
    sibling_stages: ClassVar[Mapping[str, tuple[str, float]]] = {}

    preset: str = "quick"
    seeds: tuple[int, ...] = DEFAULT_SEEDS

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = StudyConfig.__repr__  # a dataclass would print every setting of every sweep

    def __post_init__(self) -> None:
        bounds.check(self, ConfigError)
        self.check_preset(self.preset)
        check_seeds("seeds", self.seeds)

    def __repr__(self) -> str:
        """The preset, and each setting that differs from it."""
        settings = _flat(plain(self))
        preset = settings.pop("preset")
        try:
            base = _flat(plain(type(self).from_preset(preset)))
        except (RbInterpError, NotImplementedError):  # a configuration of one's own, without presets
            base = {}
        changed = {key: value for key, value in settings.items() if key not in base or base[key] != value}
        told = [f"preset={preset!r}", *(f"{key}={bounds.value_text(value)}" for key, value in changed.items())]
        return f"{type(self).__name__}({', '.join(told)})"

    def _repr_html_(self) -> str:
        settings = ((key, bounds.value_text(value)) for key, value in _flat(plain(self)).items())
        rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(text)}</td></tr>" for key, text in settings)
        return f"<p>{escape(type(self).__name__)}</p>\n<table>{rows}</table>"

    @classmethod
    def check_preset(cls, preset: str) -> None:
        """Raise ConfigError for an unknown preset."""
        if preset not in cls.presets:
            raise ConfigError(f"there is no preset '{preset}'; {nearest(preset, cls.presets)}")

    @classmethod
    def from_preset(cls, preset: str = "quick", **changes: Any) -> Any:
        """A preset, with fields replaced; ConfigError for an unknown one. Each study's configuration defines it."""
        raise NotImplementedError(f"{cls.__name__} has no presets; define from_preset(preset, **changes).")

    def check_sources(self) -> None:
        """Raise RbInterpError where something that a run reads from outside is not there; asked before a new run."""

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """Its sweeps by name; a single one, or the main one, is called "" and is the configuration itself.

        A study may have further sweeps beside its main one. Its figures and its report are then of the main one.
        """
        if isinstance(self, SweepConfig):
            return {"": self}
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), SweepConfig)}


@dataclass(frozen=True)
class SweepConfig(KnownFields):
    """One sweep: members trained alike, on one task, at each gamma (and each seed of the study).

    Attributes:
        gammas: initialisation rates, std = d_in^-gamma.
        task: what is learned, a ``tasks.Task``.
        model: what learns it.
        train: how it is trained.
        rates: learning rates of single gammas, pairs of gamma and rate, in place of ``train.lr``.
        data_seed: seed of data, labels and batch order of every member, whose own seed then fixes its initial weights
            alone. None: each member's own seed fixes both.

    Raises ConfigError for no or repeated gammas, for rates that do not fit, and for sizes of the model that contradict
    the task.
    """

    BOUNDS = bounds.SWEEP

    gammas: tuple[float, ...] = (0.3, 0.5, 0.8)
    task: Any = None
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    rates: tuple[tuple[float, float], ...] = ()
    data_seed: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self, StudyConfig):
            StudyConfig.__post_init__(self)
        else:
            bounds.check(self, ConfigError)
        if not isinstance(self.task, Task):
            raise ConfigError(f"task={bounds.value_text(self.task)}; expected a task, such as AnchorTask().")
        _check_once("gammas", self.gammas)
        _check_rates(self.rates)
        if self.model.scheme == "torch_default" and len(self.gammas) > 1:
            raise ConfigError(
                f"scheme 'torch_default' has no gamma, so the {len(self.gammas)} gammas {list(self.gammas)} would be "
                f"the same model; give one gamma."
            )
        if self.train.track_drift and self.model.architecture == "transformer":
            raise ConfigError("track_drift=True; theory of the drift is about the simplified models, so leave it out.")
        parameters(self.model, self.task.d_vocab, self.task.length)
        for stage in self.train.stages:
            if stage not in self.task.stages:
                known = nearest(stage, self.task.stages) if self.task.stages else "it has none."
                raise ConfigError(f"stages={list(self.train.stages)}: the task has no stage '{stage}'; {known}")

    def data_seed_of(self, seed: int) -> int:
        """The seed that fixed data, labels and batch order of the members with a seed."""
        return seed if self.data_seed is None else self.data_seed


def stacks(sweeps: Mapping[str, SweepConfig]) -> list[list[str]]:
    """Names of the sweeps that train in one stack: those that differ in learning rate and weight decay, at least in
    one of them, and in no more but their gammas. Sweeps with ``rates`` train by themselves.

    >>> from rb_interp.tasks import AnchorTask
    >>> slow = SweepConfig(task=AnchorTask(), train=TrainConfig(lr=1e-4))
    >>> stacks({"": SweepConfig(task=AnchorTask()), "slow": slow, "short": replace(slow, train=TrainConfig(steps=9))})
    [['', 'slow'], ['short']]
    """
    found: dict[Any, list[str]] = {}
    taken: dict[Any, int] = {}
    for name, sweep in sweeps.items():
        of_stack = (
            fingerprint(sweep.task, sweep.model, sweep.data_seed),
            replace(sweep.train, lr=1.0, weight_decay=0.0),
        )
        own = (of_stack, sweep.train.lr, sweep.train.weight_decay)
        number = taken[own] = taken.get(own, 0) + 1
        found.setdefault((of_stack, number, name if sweep.rates else ""), []).append(name)
    return list(found.values())


def check_seeds(name: str, seeds: tuple[int, ...]) -> None:
    """Raise ConfigError for no seed, for one that is named twice, and for one that is out of range."""
    _check_once(name, seeds)
    bounds.check_bound(name, seeds, bounds.SEEDS)


def _check_once(name: str, values: tuple) -> None:
    if not values or len(set(values)) != len(values):
        raise ConfigError(f"{name}={bounds.value_text(values)}; expected at least one, each named once.")


def _check_rates(rates: tuple[tuple[float, float], ...]) -> None:
    gammas = [gamma for gamma, _ in rates]
    if len(set(gammas)) < len(gammas):
        raise ConfigError(
            f"rates={bounds.value_text(rates)}; expected pairs [gamma, learning rate], each gamma once, such as "
            f"[[0.3, 0.004], [0.8, 0.001]]."
        )


def check_lr(config: StudyConfig) -> None:
    """Raise ConfigError where a learning rate was given that no member would take.

    That is ``train.lr`` where every gamma has a rate of its own from the preset, and a rate of a gamma that the sweep
    does not have. Rates of the preset may be of such gammas: they stay when the gammas are replaced.
    """
    base = type(config).from_preset(config.preset).sweeps
    settable = {"": config.sweeps[""]} if "" in config.sweeps else config.sweeps
    for name, sweep in settable.items():
        own, where = dict(sweep.rates), f"{name}." if name else ""
        of_preset = base.get(name, next(iter(base.values())))  # sweeps that differ in their data are all like the first
        idle = [gamma for gamma in own if gamma not in sweep.gammas]
        if idle and sweep.rates != of_preset.rates:
            raise ConfigError(
                f"{where}rates={bounds.value_text(sweep.rates)}: there is no gamma {bounds.value_text(idle[0])} in "
                f"this sweep; give rates of its gammas {bounds.value_text(sweep.gammas)} alone."
            )
        changed = sweep.train.lr != of_preset.train.lr and sweep.rates == of_preset.rates
        if changed and all(gamma in own for gamma in sweep.gammas):
            raise ConfigError(
                f"{where}train.lr={sweep.train.lr:g} has no effect: preset '{config.preset}' gives each of the gammas "
                f"{list(sweep.gammas)} a learning rate of its own. Change {where}rates instead; where it is empty, all "
                f"gammas take lr."
            )


def plain(config: Any) -> dict[str, Any]:
    """A configuration as nested plain data, in the form of its TOML file."""
    return json.loads(json.dumps(asdict(config)))


def to_toml(study: str, config: StudyConfig) -> str:
    """The configuration as TOML text, from which it can be read again; None is left out and means a default."""
    import tomli_w

    return tomli_w.dumps({"study": study, **_without_none(asdict(config))}, multiline_strings=False)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


def comparable(config: Any) -> Any:
    """A configuration as plain data without host fields; a task says its class too."""
    if is_dataclass(config):
        left_out = set(getattr(config, "host_fields", ()))
        left_out |= {f.name for f in fields(config) if _added_later(config, f)}
        found = {f.name: comparable(getattr(config, f.name)) for f in fields(config) if f.name not in left_out}
        return {"type": class_name(config), **found} if hasattr(config, "fingerprint") else found
    if isinstance(config, Mapping):
        return {str(key): comparable(value) for key, value in config.items()}
    return [comparable(value) for value in config] if isinstance(config, list | tuple) else config


def _added_later(config: Any, of: Field) -> bool:
    return of.name in getattr(config, "later_fields", ()) and getattr(config, of.name) == of.default


def fingerprint(*values: Any) -> str:
    """Twelve hex digits that two configurations share exactly when they describe the same thing."""
    text = json.dumps([comparable(value) for value in values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def scale_of(config: StudyConfig) -> str:
    """The preset's name, or ``custom`` where a task, model, training or other table of settings differs from it."""
    base = type(config).from_preset(config.preset)
    return config.preset if _sizes(config) == _sizes(base) else "custom"


def _sizes(config: StudyConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, sweep in config.sweeps.items():
        found[f"{name}.data_seed"] = sweep.data_seed
        for part in ("task", "model", "train"):
            value = getattr(sweep, part)
            left_out = getattr(value, "source_fields", ())
            settings = comparable(value)
            found[f"{name}.{part}"] = {key: inner for key, inner in settings.items() if key not in left_out}
        found[f"{name}.rates"] = comparable(sweep.rates)
    others = {f.name: getattr(config, f.name) for f in fields(config)}
    known = (*config.sweeps, "task", "model", "train")
    return found | {k: comparable(v) for k, v in others.items() if is_dataclass(v) and k not in known}


def differences(old: Any, new: Any) -> str:
    """The first settings that differ, as ``model.norm: 'none' there, 'pre' here``."""
    before, after = _flat(comparable(old)), _flat(comparable(new))
    found = [
        f"{key}: {before.get(key)!r} there, {after.get(key)!r} here"
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; ConfigError where there is none, or it is larger than a megabyte."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    bounds.check_path("--config", path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ConfigError(f"{path} has more than {LARGEST_FILE:,} bytes; give --config a TOML file of settings.")
        return tomllib.loads(content.decode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give --config an existing TOML file.") from None
    except RecursionError:
        raise ConfigError(f"{path} has lists within lists without end; mend it and try again.") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of more than 4,000 digits
        raise ConfigError(f"{path} is not valid TOML: {first_line(error)}. Mend that line and try again.") from None


def from_mapping(kind: type[StudyConfig], data: Mapping[str, Any], source: str = "the configuration") -> Any:
    """A study's configuration: its preset with what the data changes.

    Args:
        kind: the study's class of configurations. data: nested plain data, as of a TOML file; ``preset`` names what it
            starts from. source: where the data comes from, for messages.

    Raises ConfigError for an unknown key (naming the nearest known one) and for a value of another type.
    """
    held = {key: value for key, value in data.items() if key != "study"}
    preset = held.get("preset", "quick")
    if not isinstance(preset, str):
        raise ConfigError(f"{source}: 'preset' is {preset!r}; expected a name in quotes.")
    return overlay(kind.from_preset(preset), held, source)


def overlay(base: Any, data: Mapping[str, Any], source: str, path: str = "") -> Any:
    """A dataclass with fields replaced from nested plain data; raises ConfigError as `from_mapping` does."""
    hints, changes = get_type_hints(type(base)), {}
    known = [f.name for f in fields(base)]
    for key, value in data.items():
        where = f"{source}: '{path}{key}'"
        if key not in known:
            raise ConfigError(f"{source}: unknown key '{path}{key}'; {nearest(key, known)}")
        current = getattr(base, key)
        if current is None and isinstance(value, Mapping):
            raise ConfigError(f"{where} is a table, and this preset has none of that name; give a preset that has it.")
        if not is_dataclass(current):
            changes[key] = bounds.converted(value, hints[key], f"{where} is ")
        elif isinstance(value, Mapping):
            changes[key] = overlay(current, value, source, f"{path}{key}.")
        else:
            raise ConfigError(f"{where} is {bounds.value_text(value)}; expected a table [{path}{key}].")
    return replace(base, **changes)
