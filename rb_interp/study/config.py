"""The whole configuration of a study: Python object, command-line flags and TOML file are the same dataclass."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from rb_interp.errors import ConfigError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.study.sweep_config import PRESETS, SweepConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig


@dataclass(frozen=True)
class StudyConfig(SweepConfig):
    """A gamma sweep on an anchor task.

    Attributes:
        preset: sizes and schedule to start from (``smoke`` seconds, ``quick`` minutes, ``paper`` a GPU).
        gammas: initialisation rates, std = d_in^-gamma.
        seeds: each fixes data, labels, batch order and normal draws, shared across gammas.
        task: what is learned.
        model: what learns it.
        train: how it is trained.
        probe_rows: rows of each set that probes see, at most.
        n_null: draws of each null distribution.
        n_init: fresh initialisations for Lemma 1.
    """

    parts: ClassVar[tuple[str, ...]] = ("task", "model", "train")

    task: AnchorTask = field(default_factory=AnchorTask)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    probe_rows: int = 1000
    n_null: int = 200
    n_init: int = 200

    def __post_init__(self) -> None:
        self.check_sweep(self.model)
        for name, least in (("probe_rows", 1), ("n_null", 0), ("n_init", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name}={getattr(self, name)}; expected at least {least}.")
        if not 0 < self.task.memory_share < 1:
            raise ConfigError(
                f"memory_share={self.task.memory_share}; a study compares memory with reasoning, so give a share "
                f"between 0 and 1. train_members trains on one kind alone too."
            )
        parameters(self.model, self.task.d_vocab, self.task.length)  # sizes that contradict the task
        if self.model.n_layers < 2 and self.model.architecture == "transformer":
            raise ConfigError(
                f"n_layers={self.model.n_layers}; a study asks what the second layer does, so give 2 or more. "
                f"train_members trains models of one layer too."
            )
        if self.train.micro_batch or self.train.compile:
            raise ConfigError(
                f"micro_batch={self.train.micro_batch}, compile={self.train.compile}; these are for language models. "
                f"Leave them out."
            )

    @staticmethod
    def from_preset(preset: str = "quick", **changes: Any) -> StudyConfig:
        """A preset, with fields replaced.

        >>> StudyConfig.from_preset("smoke", seeds=(0,)).train.steps
        300
        """
        if preset not in PRESETS:
            raise ConfigError(f"there is no preset '{preset}'; {nearest(preset, PRESETS)}")
        seeds = (0, 1) if preset == "smoke" else (0, 1, 2, 3, 4)
        base = StudyConfig(
            preset, (0.3, 0.5, 0.8), seeds, AnchorTask.preset(preset), ModelConfig.preset(preset),
            TrainConfig.preset(preset),
        )  # fmt: skip
        return replace(base, **changes)


def load_config(path: Path) -> StudyConfig:
    """Read a TOML file: a ``preset`` and what differs from it. Unknown keys are errors."""
    return from_mapping(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; ConfigError where there is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give --config an existing TOML file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Mend that line and try again.") from None


def from_mapping(data: Mapping[str, Any], source: str = "the configuration") -> StudyConfig:
    """A study from nested plain data; ConfigError names an unknown key and the nearest known one.

    >>> from_mapping({"preset": "smoke", "train": {"steps": 10}}).train.steps
    10
    """
    try:
        return overlay(StudyConfig.from_preset(str(data.get("preset", "quick"))), data, source, "")
    except (TypeError, ValueError) as error:  # a list of another length or depth than the field has
        raise ConfigError(
            f"{source}: a value has the wrong shape ({error}); compare it with the config.toml of a run, where ranges "
            f"are [low, high] and masked is a list of lists."
        ) from None


def overlay(base: Any, data: Mapping[str, Any], source: str, path: str) -> Any:
    known = {f.name for f in fields(base)}
    hints = get_type_hints(type(base))
    changes = {}
    for key, value in data.items():
        if key not in known:
            raise ConfigError(f"{source}: unknown key '{path}{key}'; {nearest(key, known)}")
        current = getattr(base, key)
        if is_dataclass(current):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{source}: '{path}{key}' is {value!r}; expected a table [{path}{key}].")
            changes[key] = overlay(current, value, source, f"{path}{key}.")
        else:
            changes[key] = _typed(value, current, hints[key], f"{source}: '{path}{key}'")
    return replace(base, **changes)


def _typed(value: Any, current: Any, hint: Any, where: str) -> Any:
    """Check a value against the field it is for; lists become tuples, whole numbers pass as floats."""
    if isinstance(current, tuple):
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} is {value!r}; expected a list.")
        wanted = next((kind for kind in (float, str) if kind.__name__ in str(hint)), int)
        return _tuple(value, wanted, where)
    optional = "None" in str(hint)
    if optional and value is None:
        return None
    wanted = float if optional else type(current)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        raise ConfigError(f"{where} is {value!r}; expected {wanted.__name__}.")
    return value


def _tuple(value: Any, wanted: type, where: str) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_tuple(item, wanted, where) for item in value)
    allowed = {float: (int, float), int: int, str: str}[wanted]
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise ConfigError(
            f"{where} holds {value!r}; expected {'words' if wanted is str else 'numbers'} ({wanted.__name__})."
        )
    return wanted(value)
