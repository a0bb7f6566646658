"""One sweep of a run: its members, their checkpoints and learning curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rb_interp.errors import RunError, nearest
from rb_interp.runs import store as run_store
from rb_interp.runs.config import SweepConfig, fingerprint
from rb_interp.tasks.protocol import vocabulary
from rb_interp.training.loop import kept_by, stage_name, step_name
from rb_interp.training.member_group import Member
from rb_interp.training.members import Part, train_together
from rb_interp.training.store import CURVES, SUFFIX, Checkpoint, Store, saved_curves
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from rb_interp.models.protocol import HookedModel

PROVENANCE = "data.json"


def train_sweeps(sweeps: Sequence[Sweep], progress: bool = True) -> None:
    """Train sweeps that share a stack (``runs.config.stacks``) to the last step, each from its last saved step.

    Batches of other seeds train by themselves. Sweeps that a stop left at different steps train one after another, each
    in the company of all others, whose steps are not kept: so its bits do not depend on where it was stopped.
    """
    first = sweeps[0].config
    for seeds in dict.fromkeys(seeds for sweep in sweeps for seeds in sweep.stores):
        parts = [sweep.part(seeds) for sweep in sweeps if seeds in sweep.stores]
        left = [sweep.left(seeds) for sweep in sweeps if seeds in sweep.stores]
        for step in sorted({at for at in left if at is not None}):
            company = [part if at == step else replace(part, store=None) for part, at in zip(parts, left, strict=True)]
            train_together(first.task, first.model, company, data_seed=first.data_seed, progress=progress)


@typed
class Sweep:
    """Members that were trained alike, on disk.

    Args:
        folder: the folder of ``checkpoints/``. name: of the sweep in its study. config: what was trained.
        batches: seeds that were trained together, and those that were added later, each batch with a store of its own.
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
        files: run_store.Store,
    ) -> None:
        self.folder, self.name, self.config, self.siblings, self.files = folder, name, config, siblings, files
        own = (config.gammas, config.task, config.model, config.train, config.rates, config.data_seed)
        place = folder / "checkpoints"
        self.stores = {
            seeds: Store(place / f"seeds_from_{seeds[0]}" if number else place, fingerprint(*own, seeds), files)
            for number, seeds in enumerate(batches)
        }
        self.seeds = tuple(seed for seeds in batches for seed in seeds)
        self._data: dict[int, Any] = {}

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """All members, seeds outermost."""
        return self._members(self.seeds)

    @cached_property
    def diverged(self) -> tuple[Member, ...]:
        """Members of the finished sweep whose last losses, on what they were trained on, are not finite."""
        sets = [self.config.task.sets.index(name) for name in self.config.task.train_sets]
        found = []
        for seeds, store in self.stores.items():
            last = self._saved(store).tensors[f"{CURVES}values"][-1]
            sound = last[:, sets, 0].isfinite().all(dim=1).tolist()
            found += [member for member, fine in zip(self._members(seeds), sound, strict=True) if not fine]
        return tuple(found)

    @property
    def sound_members(self) -> tuple[Member, ...]:
        """Those whose training did not diverge: what can be probed."""
        return tuple(member for member in self.members if member not in self.diverged)

    def _members(self, seeds: Iterable[int]) -> tuple[Member, ...]:
        return tuple(Member(gamma, seed) for seed in seeds for gamma in self.config.gammas)

    @typed
    def dataset(self, seed: int) -> Any:
        """What the members of a seed learn, drawn once.

        Raises RunError where the task's data has changed since training began, see `provenance`.
        """
        drawn_by = self.config.data_seed_of(seed)
        if drawn_by not in self._data:
            self._check_provenance(drawn_by)
            self._data[drawn_by] = self.config.task.dataset(drawn_by)
        return self._data[drawn_by]

    @property
    def provenance(self) -> dict[int, Any]:
        """What each seed of data draws from, as it was when training began: sources, sizes, hashes.

        A task with ``provenance(seed) -> plain data`` gives it then, and ``data.json`` keeps it. Returns an empty dict
        before training, and where the task has no such method. Raises RunError for a damaged file.
        """
        path = self.folder / PROVENANCE
        if not path.is_file():
            return {}
        return {int(seed): found for seed, found in self.files.read_json(self._name(path)).items()}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.files.folder).as_posix()

    @property
    def written(self) -> list[str]:
        """Names of its files in the run's folder: checkpoints, and what the data was."""
        files = [*self.folder.glob(f"checkpoints/**/[!.]*{SUFFIX}"), *self.folder.glob(PROVENANCE)]
        return [self._name(path) for path in files]

    def _task_provenance(self, seed: int) -> Any:
        tell = getattr(self.config.task, "provenance", None)
        return None if tell is None else json.loads(json.dumps(tell(seed)))

    def _keep_provenance(self) -> None:
        held = self.provenance
        drawn_by = dict.fromkeys(map(self.config.data_seed_of, self.seeds))
        new = {
            seed: found for seed in drawn_by if seed not in held and (found := self._task_provenance(seed)) is not None
        }
        if new:
            self.files.write_json(self._name(self.folder / PROVENANCE), {**held, **new})

    def _check_provenance(self, seed: int) -> None:
        if seed not in self.provenance:
            return
        held, now = self.provenance[seed], self._task_provenance(seed) or {}
        changed = [key for key in {**held, **now} if held.get(key) != now.get(key)]
        if changed:
            raise RunError(
                f"the data of seed {seed} is not what {self.folder} was begun with ({', '.join(changed)} differ, see "
                f"{self.folder / PROVENANCE}); nothing was changed. Put the files back as they were, or use another "
                f"--out."
            )

    @property
    def step(self) -> int | None:
        """The last saved step that all members have reached, None before the first save."""
        steps = [self._step(store) for store in self.stores.values()]
        return None if None in steps else min(step for step in steps if step is not None)

    def _step(self, store: Store) -> int | None:
        return self._saved(store).step if store.exists("state") else None

    def _saved(self, store: Store) -> Checkpoint:
        """The learning curves in the saved state."""
        return store.read("state", CURVES)

    @property
    def finished(self) -> bool:
        """Whether training reached its last step, evaluated it, and kept what it had to keep."""
        return all(self._finished(store) for store in self.stores.values())

    def _finished(self, store: Store) -> bool:
        train = self.config.train
        if self._step(store) != train.steps:
            return False
        state = self._saved(store)
        (members,) = (self._members(seeds) for seeds, own in self.stores.items() if own is store)
        kept = set(kept_by(state, train, members))
        reached = [step for stage in train.stages for step in state.tensors[f"{CURVES}{stage}"].tolist()]
        return step_name(train.steps) in kept and min(reached, default=0) >= 0 and all(map(store.exists, kept))

    @typed
    def train(self, progress: bool = True) -> None:
        """Train to the last step, from the last saved step."""
        train_sweeps([self], progress)

    def part(self, seeds: tuple[int, ...]) -> Part:
        """A batch of seeds as a stack trains it; RunError where there is no such batch."""
        return Part(self.config.train, self.config.gammas, seeds, dict(self.config.rates), self._store(seeds))

    def left(self, seeds: tuple[int, ...]) -> int | None:
        """The step from which a batch of seeds is to be trained, -1 for the beginning; None where nothing is left.

        Raises RunError where there is no such batch.
        """
        store = self._store(seeds)
        if self._finished(store):
            return None
        self._keep_provenance()
        step = self._step(store)
        return -1 if step is None else step

    def _store(self, seeds: tuple[int, ...]) -> Store:
        if seeds not in self.stores:
            batches = ", ".join(map(str, self.stores))
            raise RunError(f"this sweep has no batch of the seeds {seeds}; its batches are {batches}.")
        return self.stores[seeds]

    def curves(self) -> pd.DataFrame:
        """Learning curves so far: gamma, seed, step, set, loss (nats), accuracy; by step, then by member."""
        import pandas as pd

        sets = tuple(self.config.task.sets)
        tables = [
            saved_curves(self._saved(store), self._members(seeds), sets).to_frame()
            for seeds, store in self.stores.items()
        ]
        return pd.concat(tables).sort_values("step", kind="stable", ignore_index=True) if tables[1:] else tables[0]

    def spectra(self) -> pd.DataFrame:
        """Leading eigenvalues of embeddings along training: group, step, gamma, seed, rank, eigenvalue.

        Without rows where the task names no group of tokens, see ``training.tracking``.
        """
        import pandas as pd

        sets = tuple(self.config.task.sets)
        states = ((self._saved(store), seeds) for seeds, store in self.stores.items())
        tables = [saved_curves(state, self._members(seeds), sets).spectra_table() for state, seeds in states]
        return pd.concat(tables, ignore_index=True) if tables[1:] else tables[0]

    @typed
    def stage_steps(self, stage: str = "") -> dict[Member, int]:
        """Step at which each member reached a stage of its own (``train.stages``), by default the first of them.

        Raises RunError for a stage that the run did not keep.
        """
        known = self.config.train.stages
        if stage not in (known or ("",)) and (stage or not known):
            kept = nearest(stage, known) if known else "it kept none by learning curves."
            raise RunError(f"this run kept no stage '{stage}'; {kept}")
        stage = stage or known[0]
        found = {}
        for seeds, store in self.stores.items():
            steps = self._saved(store).tensors[f"{CURVES}{stage}"].tolist()
            found |= zip(self._members(seeds), steps, strict=True)
        return found

    @typed
    def reached(self, stage: str | int) -> dict[Member, bool]:
        """Whether each member came to a stage: whether its learning curves ever met the stage's condition.

        For the stage of a sibling that sibling's curves count. ``init``, ``final`` and steps are reached by all. A
        member that never came to a stage of ``keep="first"`` was saved at the last step.
        """
        own, of = self.siblings.get(str(stage), (str(stage), None))
        if own not in self.config.train.stages:
            return dict.fromkeys(self.members, True)
        came: dict[Member, bool] = {}
        for seeds, store in self.stores.items():
            values = self._saved(store).tensors[f"{CURVES}values"].numpy()
            met = [self.config.task.stages[own].reached(now, values[0]) for now in values]
            came |= zip(self._members(seeds), np.any(met, axis=0).tolist(), strict=True)
        return {
            member: came.get(Member(member.gamma if of is None else of, member.seed), False) for member in self.members
        }

    @property
    def checkpoint_steps(self) -> list[int]:
        """Steps at which all members were kept, ascending."""
        kept = [{name for name in store.names() if name.startswith("step_")} for store in self.stores.values()]
        return sorted(int(name.removeprefix("step_")) for name in kept[0].intersection(*kept[1:]))

    @typed
    def whole_checkpoint(self, step: int) -> Checkpoint:
        """All members at a kept step, in the order of `members`; RunError where the step was not kept."""
        import torch

        parts = [store.read(step_name(step)) for store in self.stores.values()]
        members = tuple(member for part in parts for member in part.members)
        names = parts[0].tensors if len(parts) > 1 else ()
        joined = {name: torch.cat([part.tensors[name] for part in parts]) for name in names}
        return Checkpoint(step, members, joined) if joined else parts[0]

    @typed
    def checkpoint(self, stage: str | int, gamma: float, seed: int) -> Checkpoint:
        """A member's tensors in the checkpoint that holds it at a stage or a step.

        Stages are ``init``, ``final``, those of ``train.stages``, and the study's names for the stage of a sibling.

        Raises RunError for a member, stage or step that this sweep does not have.
        """
        name = self._file(stage, gamma, seed)
        (store,) = (store for seeds, store in self.stores.items() if seed in seeds)
        return store.read(name, member=(gamma, seed))

    @typed
    def weights(self, gamma: float, seed: int, stage: str | int = "final") -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name."""
        return self.checkpoint(stage, gamma, seed).member(gamma, seed)

    @typed
    def model(self, *, gamma: float, seed: int, stage: str | int = "final") -> HookedModel:
        """One member as a TransformerLens model, with exactly the trained weights."""
        from rb_interp.models.build import lens_model

        return lens_model(self.config.model, *self.sizes, self.weights(gamma, seed, stage))

    @property
    def sizes(self) -> tuple[int, int]:
        """Vocabulary and context of its models."""
        return vocabulary(self.config.task, self.dataset(self.seeds[0])), self.config.task.length

    def _file(self, stage: str | int, gamma: float, seed: int) -> str:
        """Name of the checkpoint with a member at a stage."""
        if Member(gamma, seed) not in self.members:
            raise RunError(
                f"this run has no member with gamma={gamma:g}, seed={seed}; its gammas are "
                f"{list(self.config.gammas)}, its seeds {list(self.seeds)}."
            )
        if isinstance(stage, Integral):
            if stage not in self.checkpoint_steps:
                raise RunError(f"this run kept no checkpoint at step {stage}; it kept steps {self.checkpoint_steps}.")
            return step_name(int(stage))
        fixed = {"init": 0, "final": self.config.train.steps}
        if stage in fixed:
            return step_name(fixed[stage])
        known = (*fixed, *self.config.task.stages, *self.siblings)
        if stage not in known:
            raise RunError(f"there is no stage '{stage}', and it is no step; {nearest(str(stage), known)}")
        own, of = self.siblings.get(str(stage), (str(stage), gamma))
        if of not in self.config.gammas:
            raise RunError(f"stage '{stage}' needs gamma {of:g} in the run; it has {list(self.config.gammas)}.")
        if own not in self.config.train.stages:
            raise RunError(f"this run kept no stage '{own}'; its train.stages are {list(self.config.train.stages)}.")
        return stage_name(own, Member(of, seed))
