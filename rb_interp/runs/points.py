"""Points: the runs that a file with axes stands for, and the jobs that carry them out.

    study = "anchor"
    preset = "quick"
    rates = []
    [axes]
    train.lr = [1e-3, 2e-3]
    seeds = [0, 1, 2, 3]

A point is a value of each axis, and has a run. The axes ``seeds`` and ``gammas`` make no points:
their values are the members of each run. Runs that differ only in learning rate and weight decay
can train in one stack, so they are one job, up to a number of members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from rb_interp.errors import ConfigError
from rb_interp.runs.config import StudyConfig, StudyDefinition, find_study, from_mapping
from rb_interp.settings import Settings, Size, comparable, flat, overlay, read_toml

OF_MEMBERS = ("seeds", "gammas")
"""Axes whose values are all in one run."""
OF_STACK = ("train.lr", "train.weight_decay")
"""Settings in which the sweeps of one stack may differ."""


class SweepFile(Settings):
    """What a file says beside the settings of its study."""

    study: str = "anchor"
    """Whose runs they are."""
    verb: Literal["reproduce", "train"] = "reproduce"
    """What a job does: all, or training alone, on machines without transformer_lens."""
    members: Size = 24
    """Members of a job, at most; from about as many on, twice the members take twice the time."""
    axes: dict[str, Any] = field(default_factory=dict)
    """Setting -> values: every combination is a point."""
    points: tuple[dict[str, Any], ...] = ({},)
    """Settings of single points; each stands at every combination of the axes."""

    @property
    def definition(self) -> StudyDefinition:
        """The study."""
        return find_study(self.study)


@dataclass(frozen=True)
class AxesPoint:
    """The run of some values of the axes.

    Attributes:
        name: of its folder. axes: the values of the other axes. config: of the whole run.
        batches: its seeds, those of a job together.
    """

    name: str
    axes: Mapping[str, Any]
    config: StudyConfig
    batches: Sequence[tuple[int, ...]]

    @property
    def parts(self) -> dict[str, StudyConfig]:
        """Folder -> settings of each run that jobs carry out."""
        if len(self.batches) == 1:
            return {f"runs/{self.name}": self.config}
        folder = f"parts/{self.name}-"
        return {f"{folder}{seeds[0]}": replace(self.config, seeds=seeds) for seeds in self.batches}


@dataclass(frozen=True)
class Job:
    """One command: runs that train in one stack, by their folders."""

    name: str
    parts: Mapping[str, StudyConfig]


def read_jobs(path: Path) -> tuple[SweepFile, list[AxesPoint], list[Job]]:
    """What a file says, its points and its jobs; ConfigError for what does not fit."""
    settings = read_toml(path)
    names = [f.name for f in fields(SweepFile)]
    file = SweepFile(**{name: settings.pop(name) for name in names if name in settings})
    settings = flat(settings)
    axes = flat(file.axes)
    for axis, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{path}: axis {axis}={values!r}; give a list of values.")
    for axis in axes.keys() & set(OF_MEMBERS):
        settings[axis] = axes.pop(axis)
    grid = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    points: list[AxesPoint] = []
    for values in [{**values, **flat(point)} for values in grid for point in file.points or ({},)]:
        if values in [point.axes for point in points]:
            raise ConfigError(f"{path}: the point {values} is there twice; name each once.")
        parts = [f"{len(points):03}", *(f"{axis}={value}" for axis, value in values.items())]
        name = re.sub(r"[^\w.=+-]+", "_", ",".join(parts))[:100]
        nested = _nested({**settings, **values})
        config = from_mapping(file.definition.load("config"), nested, str(path))
        # a job has one core, and its bits do not hang on its machine's
        workers = {
            f"{name}.train.workers".lstrip("."): config.sweeps[name].train.workers or 1
            for name in ([""] if "" in config.sweeps else config.sweeps)
        }
        config = overlay(config, _nested(workers), str(path))
        for sweep_name, sweep in config.sweeps.items():
            axis = f"{sweep_name}.train.lr".lstrip(".")
            if axis in values and {gamma for gamma, _ in sweep.rates} & {*sweep.gammas}:
                raise ConfigError(
                    f"{path}: the axis {axis} has no effect at gammas that have a learning rate "
                    f"of their own in rates; say 'rates = []'."
                )
        size = max(1, file.members // _n_gammas(config))
        seeds = config.seeds
        batches = [seeds[first : first + size] for first in range(0, len(seeds), size)]
        points.append(AxesPoint(name, values, config, batches))
    return file, points, _jobs(points, file.members)


def _n_gammas(config: StudyConfig) -> int:
    return max(len(sweep.gammas) for sweep in config.sweeps.values())


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of settings with keys such as ``train.steps``, as a file nests them."""
    tables: dict[str, Any] = {}
    for path, value in values.items():
        *names, last = path.split(".")
        table = tables
        for name in names:
            table = table.setdefault(name, {})
        table[last] = value
    return tables


def _jobs(points: Sequence[AxesPoint], members: int) -> list[Job]:
    """Jobs of points: those together whose runs can share a stack, up to a number of members."""
    stacked: list[dict[str, StudyConfig]] = []
    last_of: dict[str, dict[str, StudyConfig]] = {}
    for point in points:
        for folder, config in point.parts.items():
            n_members = len(config.seeds) * _n_gammas(config)
            rates = any(sweep.rates for sweep in config.sweeps.values())
            settings = {
                key: value
                for key, value in flat(comparable(config)).items()
                if rates or not key.endswith(OF_STACK)
            }
            key = json.dumps(settings)
            parts = last_of.get(key, {})
            if not parts or (len(parts) + 1) * n_members > members:
                parts = last_of[key] = {}
                stacked.append(parts)
            parts[folder] = config
    return [Job(next(iter(parts)).partition("/")[2], parts) for parts in stacked]
