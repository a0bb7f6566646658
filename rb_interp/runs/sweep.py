"""One sweep of a run: its members, their checkpoints and learning curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import RunError, nearest
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.config import SweepConfig, fingerprint
from rb_interp.store import REMEDY, RunStore
from rb_interp.tasks.dataset import vocabulary
from rb_interp.training.loop import checkpoint_names
from rb_interp.training.member_group import Member
from rb_interp.training.members import Part, train_together
from rb_interp.training.store import (
    CURVES,
    REPLAYS,
    Checkpoint,
    CheckpointStore,
    Curves,
    saved_curves,
    stage_name,
    step_name,
)

PROVENANCE = "data.json"
LATE = "these are its weights at the last step"
"""What a stage is for a member that never came to it."""


def train_sweeps(sweeps: Sequence[Sweep], progress: bool = True) -> None:
    """Train sweeps of one stack (``runs.config.stacks``) to the last step, each from its last saved
    step.

    Seeds that were added later train apart from the first ones. If a stop left the sweeps at
    different steps, those of one step are trained at a time. All other sweeps run beside them, and
    nothing of theirs is written. So the bits of a sweep do not depend on where it was stopped.
    """
    first = sweeps[0].config
    for seeds in dict.fromkeys(seeds for sweep in sweeps for seeds in sweep.stores):
        with_seeds = [sweep for sweep in sweeps if seeds in sweep.stores]
        steps = [sweep.resume_step(seeds) for sweep in with_seeds]
        for step in sorted({step for step in steps if step is not None}):
            parts = []
            for sweep, sweep_step in zip(with_seeds, steps, strict=True):
                config = sweep.config
                store = sweep.stores[seeds] if sweep_step == step else None
                parts.append(Part(config.train, config.gammas, seeds, dict(config.rates), store))
            train_together(
                first.task, first.model, parts, data_seed=first.data_seed, progress=progress
            )


@checked
class Sweep:
    """Members that were trained alike, on disk.

    Args:
        folder: the folder of ``checkpoints/``. name: of the sweep in its study. config: what was
            trained.
        batches: seeds that were trained together, and those that were added later, each batch with
            a store of its own.
        siblings: further names of stages, see ``StudyConfig.sibling_stages``.
        files: the store of the run.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        config: SweepConfig,
        batches: Sequence[tuple[int, ...]],
        siblings: Mapping[str, tuple[str, float]],
        files: RunStore,
    ) -> None:
        self.folder = folder
        self.name = name
        self.config = config
        self.siblings = siblings
        self.files = files
        settings = (config.gammas, config.task, config.model, config.train, config.rates)
        self.stores = {}
        for seeds in batches:
            checkpoints = folder / "checkpoints"
            if self.stores:
                checkpoints /= f"seeds_from_{seeds[0]}"
            mark = fingerprint(*settings, config.data_seed, seeds)
            self.stores[seeds] = CheckpointStore(checkpoints, mark, files)
        self.seeds = tuple(seed for seeds in batches for seed in seeds)
        self._data: dict[int, Any] = {}

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """All members, seeds outermost."""
        return self._members(self.seeds)

    def _members(self, seeds: Iterable[int]) -> tuple[Member, ...]:
        return tuple(Member(gamma, seed) for seed in seeds for gamma in self.config.gammas)

    @cached_property
    def diverged(self) -> tuple[Member, ...]:
        """Members of the finished sweep whose last losses, on what they were trained on, are not
        finite."""
        task = self.config.task
        sets = [task.sets.index(name) for name in task.train_sets]
        diverged = []
        for curves in self._curves():
            (_, first), *_, (_, last) = curves.evaluations
            finite = np.isfinite(last[:, sets, 0])
            without_rows = np.isnan(first[:, sets, 0]).all(axis=0)
            sound = finite.any(axis=1) & (finite | without_rows).all(axis=1)
            diverged += [curves.members[index] for index in np.flatnonzero(~sound)]
        return tuple(diverged)

    @property
    def sound_members(self) -> tuple[Member, ...]:
        """Those whose training did not diverge: what can be probed."""
        return tuple(member for member in self.members if member not in self.diverged)

    @checked
    def dataset(self, seed: int) -> Any:
        """What the members of a seed learn, drawn once; RunError if the data is not that of
        `provenance`."""
        data_seed = self.config.data_seed_of(seed)
        if data_seed not in self._data:
            recorded_sources = self.provenance.get(data_seed)
            sources = {} if recorded_sources is None else self._sources(data_seed)
            if recorded_sources is not None and recorded_sources != sources:
                changed = [
                    key
                    for key in {**recorded_sources, **sources}
                    if recorded_sources.get(key) != sources.get(key)
                ]
                raise RunError(
                    f"the data of seed {data_seed} is not what {self.folder} was begun with "
                    f"({', '.join(changed)} differ, see {PROVENANCE}). Put the files back as they "
                    f"were, or use another --out."
                )
            self._data[data_seed] = self.config.task.dataset(data_seed)
        return self._data[data_seed]

    @property
    def provenance(self) -> dict[int, Any]:
        """What each seed of data draws from, as it was when training began: sources, sizes, hashes.

        A task with ``provenance(seed) -> plain data`` gives it then, and ``data.json`` keeps it.
        """
        path = self.folder / PROVENANCE
        if not path.is_file():
            return {}
        sources = self.files.read_json(self._name(path))
        if not isinstance(sources, dict) or not all(map(str.isdecimal, sources)):
            raise RunError(f"{path} is damaged: it does not say what seeds draw from. {REMEDY}")
        return {int(seed): source for seed, source in sources.items()}

    def _sources(self, seed: int) -> dict[str, Any]:
        provenance = getattr(self.config.task, "provenance", None)
        return {} if provenance is None else json.loads(json.dumps(provenance(seed)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.files.folder).as_posix()

    @property
    def written(self) -> list[str]:
        """Names of its files in the run's folder: checkpoints, and what the data was."""
        files = [store.path(name) for store in self.stores.values() for name in store.names()]
        files += self.folder.glob(PROVENANCE)
        return [self._name(path) for path in files]

    @property
    def step(self) -> int | None:
        """The last saved step that all members have reached, None before the first save."""
        stores = self.stores.values()
        if not all(store.exists("state") for store in stores):
            return None
        return min(store.read("state", CURVES).step for store in stores)

    @property
    def replays(self) -> int:
        """How many steps a CUDA graph has taken of the member that has the fewest of such."""
        states = [store.read("state", CURVES).tensors for store in self.stores.values()]
        return min(int(state[REPLAYS].min()) if REPLAYS in state else 0 for state in states)

    @property
    def finished(self) -> bool:
        """Whether every member is trained to the last step, and everything that was kept on the way
        is there."""
        return all(self._finished(seeds) for seeds in self.stores)

    def _finished(self, seeds: tuple[int, ...]) -> bool:
        store = self.stores[seeds]
        train = self.config.train
        if not store.exists("state"):
            return False
        state = store.read("state", CURVES)
        for stage in train.stages:
            if min(state.tensors[f"{CURVES}{stage}"].tolist()) < 0:
                return False
        names = checkpoint_names(state, train, self._members(seeds))
        return step_name(train.steps) in names and all(map(store.exists, names))

    @checked
    def train(self, progress: bool = True) -> None:
        """Train to the last step, from the last saved step."""
        train_sweeps([self], progress)

    def resume_step(self, seeds: tuple[int, ...]) -> int | None:
        """The step from which a batch of seeds is to be trained, -1 for the beginning; None if
        nothing is left. RunError if the data has changed."""
        if self._finished(seeds):
            return None
        for seed in seeds:
            self.dataset(seed)
        then = self.provenance
        new = {}
        for data_seed in dict.fromkeys(map(self.config.data_seed_of, self.seeds)):
            sources = {} if data_seed in then else self._sources(data_seed)
            if sources:
                new[data_seed] = sources
        if new:
            self.write_provenance({**then, **new})
        store = self.stores[seeds]
        return store.read("state", CURVES).step if store.exists("state") else -1

    def write_provenance(self, sources: Mapping[int, Any]) -> None:
        """Keep what seeds draw from; `provenance` reads it."""
        self.files.write_json(self._name(self.folder / PROVENANCE), sources)

    def _curves(self) -> list[Curves]:
        """The learning curves of each batch of seeds."""
        sets = tuple(self.config.task.sets)
        curves = []
        for seeds, store in self.stores.items():
            state = store.read("state", CURVES)
            curves.append(saved_curves(state, self._members(seeds), sets))
        return curves

    def curves(self) -> pd.DataFrame:
        """Learning curves so far: gamma, seed, step, set, loss (nats), accuracy; by step, then by
        member."""
        tables = [curves.to_frame() for curves in self._curves()]
        return pd.concat(tables).sort_values("step", kind="stable", ignore_index=True)

    def spectra(self) -> pd.DataFrame:
        """Leading eigenvalues of embeddings along training: group, step, gamma, seed, rank,
        eigenvalue."""
        return pd.concat([curves.spectra_table() for curves in self._curves()], ignore_index=True)

    @checked
    def stage_steps(self, stage: str = "") -> dict[Member, int]:
        """Step at which each member was kept for a stage of its own (``train.stages``), by default
        the first of them.

        That is the last step for a member that never came to it, see `reached`; -1 where none was
        kept.
        """
        known = self.config.train.stages
        stage = stage or next(iter(known), "")
        if stage not in known:
            raise RunError(f"this run kept no stage '{stage}'; {nearest(stage, known)}")
        steps: dict[Member, int] = {}
        for seeds, store in self.stores.items():
            of_members = store.read("state", CURVES).tensors[f"{CURVES}{stage}"].tolist()
            steps.update(zip(self._members(seeds), of_members, strict=True))
        return steps

    @checked
    def reached(self, stage: str | int) -> dict[Member, bool]:
        """Whether each member came to a stage: whether its learning curves ever met the stage's
        condition, and of one that takes the last evaluation whether the curves end without it.

        For the stage of a sibling that sibling's curves count. ``init``, ``final`` and steps are
        reached by all.
        """
        name, sibling_gamma = self.siblings.get(str(stage), (str(stage), None))
        if name not in self.config.train.stages:
            return dict.fromkeys(self.members, True)
        known = self.config.task.stages[name]
        last = self.config.train.steps - known.delay
        reached: dict[Member, bool] = {}
        for curves in self._curves():
            start = curves.evaluations[0][1]
            met = [known.reached(now, start) & (step <= last) for step, now in curves.evaluations]
            came = np.any(met, axis=0)
            if known.occurrence == "last":
                came &= ~met[-1]
            reached.update(zip(curves.members, came.tolist(), strict=True))
        if sibling_gamma is None:
            return reached
        siblings = [Member(sibling_gamma, member.seed) for member in self.members]
        return {
            member: reached.get(sibling, False)
            for member, sibling in zip(self.members, siblings, strict=True)
        }

    @property
    def checkpoint_steps(self) -> list[int]:
        """Steps at which all members were kept, ascending."""
        names = [set(store.names()) for store in self.stores.values()]
        steps = [name.removeprefix("step_") for name in set.intersection(*names)]
        return sorted(int(step) for step in steps if step.isdecimal())

    @checked
    def whole_checkpoint(self, step: int) -> Checkpoint:
        """All members at a kept step, in the order of `members`; RunError for another step."""
        parts = [store.read(step_name(step)) for store in self.stores.values()]
        members = tuple(member for part in parts for member in part.members)
        tensors = {}
        for name in parts[0].tensors:
            tensors[name] = torch.cat([part.tensors[name] for part in parts])
        return Checkpoint(step, members, tensors)

    @checked
    def checkpoint(self, stage: str | int, gamma: float, seed: int) -> Checkpoint:
        """A member's tensors at a step or a stage; RunError for what this sweep does not have.

        Stages are ``init``, ``final``, those of ``train.stages``, and the study's names for the
        stage of a sibling.
        """
        if Member(gamma, seed) not in self.members:
            raise RunError(
                f"this run has no member with gamma={gamma:g}, seed={seed}; its gammas are "
                f"{list(self.config.gammas)}, its seeds {list(self.seeds)}."
            )
        (store,) = (store for seeds, store in self.stores.items() if seed in seeds)
        steps = {"init": 0, "final": self.config.train.steps}
        step = steps.get(str(stage), stage)
        if isinstance(step, int):
            name = step_name(step)
            if self.checkpoint_steps and name not in store.names():
                raise RunError(
                    f"this run kept no checkpoint at step {step}; it kept steps "
                    f"{self.checkpoint_steps}."
                )
        else:
            sibling_stage, sibling_gamma = self.siblings.get(step, (step, gamma))
            if sibling_stage not in self.config.train.stages:
                known = (*steps, *self.config.train.stages, *self.siblings)
                raise RunError(f"this run kept no stage '{stage}'; {nearest(step, known)}")
            name = stage_name(sibling_stage, Member(sibling_gamma, seed))
        return store.read(name, member=(gamma, seed))

    @checked
    def weights(self, gamma: float, seed: int, stage: str | int = "final") -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name."""
        return self.checkpoint(stage, gamma, seed).member(gamma, seed)

    @checked
    def model(self, *, gamma: float, seed: int, stage: str | int = "final") -> HookedModel:
        """One member as a TransformerLens model, with exactly the trained weights."""
        from rb_interp.models.build import lens_model

        weights = self.weights(gamma, seed, stage)
        dtype = next(iter(weights.values())).dtype
        return lens_model(self.config.model, *self.sizes, weights, dtype)

    @property
    def sizes(self) -> tuple[int, int]:
        """Vocabulary and context of its models."""
        return vocabulary(self.config.task, self.dataset(self.seeds[0])), self.config.task.length
