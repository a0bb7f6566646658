"""One sweep of a run: its members, their checkpoints and learning curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import RunError, nearest
from rb_interp.files import write_bytes
from rb_interp.machine.config import SweepConfig, fingerprint
from rb_interp.tasks.protocol import vocabulary
from rb_interp.training.loop import Trained, saved_curves, stage_name, step_name
from rb_interp.training.member_group import Member
from rb_interp.training.members import train_members
from rb_interp.training.store import Checkpoint, Store

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from rb_interp.models.protocol import HookedModel

PROVENANCE = "data.json"
CURVES = "curves/"
"""First letters of the names of learning curves in the saved state."""


class Sweep:
    """Members that were trained alike, on disk.

    Args:
        folder: the folder of ``checkpoints/``. name: of the sweep in its study. config, seeds: what was trained.
        siblings: further names of stages, see ``StudyConfig.sibling_stages``.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        config: SweepConfig,
        seeds: tuple[int, ...],
        siblings: Mapping[str, tuple[str, float]],
    ) -> None:
        self.folder, self.name, self.config, self.seeds, self.siblings = folder, name, config, seeds, siblings
        own = (config.gammas, config.task, config.model, config.train, seeds)
        self.store = Store(folder / "checkpoints", fingerprint(*own))
        self._data: dict[int, Any] = {}

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """All members, seeds outermost."""
        return tuple(Member(gamma, seed) for seed in self.seeds for gamma in self.config.gammas)

    def dataset(self, seed: int) -> Any:
        """What the members of a seed learn, drawn once.

        Raises RunError where the task's data has changed since training began, see `provenance`.
        """
        if seed not in self._data:
            self._check_provenance(seed)
            self._data[seed] = self.config.task.dataset(seed)
        return self._data[seed]

    @property
    def provenance(self) -> dict[int, Any]:
        """What the members of each seed learn from, as it was when training began: sources, sizes, hashes.

        A task with ``provenance(seed) -> plain data`` gives it then, and ``data.json`` keeps it. Returns an empty dict
        before training, and where the task has no such method. Raises RunError for a damaged file.
        """
        path = self.folder / PROVENANCE
        try:
            return {int(seed): found for seed, found in json.loads(path.read_text()).items()} if path.exists() else {}
        except (OSError, ValueError, AttributeError) as error:
            raise RunError(
                f"{path} cannot be read ({error!r}); it is damaged. Move the folder away and run again."
            ) from None

    def _task_provenance(self, seed: int) -> Any:
        tell = getattr(self.config.task, "provenance", None)
        return None if tell is None else json.loads(json.dumps(tell(seed)))

    def _keep_provenance(self) -> None:
        if not (self.folder / PROVENANCE).exists():
            every = {seed: found for seed in self.seeds if (found := self._task_provenance(seed)) is not None}
            if every:
                write_bytes(self.folder / PROVENANCE, json.dumps(every, indent=1).encode())

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
        """The last saved step, None before the first save."""
        return self.store.read("state", CURVES).step if self.store.exists("state") else None

    @property
    def finished(self) -> bool:
        """Whether training reached its last step, evaluated it, and kept what it had to keep."""
        last = self.config.train.steps
        if self.step != last or not self.store.exists(step_name(last)):
            return False
        reached = [step for stage in self.config.train.stages for step in self.stage_steps(stage).values()]
        return last in self.curves()["step"].to_numpy() and min(reached, default=0) >= 0

    def train(self, progress: bool = True) -> Trained | None:
        """Train to the last step, from the last saved step; None where there is nothing left to do."""
        if self.finished:
            return None
        self._keep_provenance()
        c = self.config
        return train_members(c.task, c.model, c.train, c.gammas, self.seeds, store=self.store, progress=progress)

    def curves(self) -> pd.DataFrame:
        """Learning curves so far: gamma, seed, step, set, loss (nats), accuracy."""
        return saved_curves(self.store.read("state", CURVES), self.members, tuple(self.config.task.sets)).table()

    def stage_steps(self, stage: str = "") -> dict[Member, int]:
        """Step at which each member reached a stage of its own (``train.stages``), by default the first of them."""
        stage = stage or self.config.train.stages[0]
        steps = self.store.read("state", CURVES).tensors[f"{CURVES}{stage}"].tolist()
        return dict(zip(self.members, steps, strict=True))

    @property
    def kept_steps(self) -> list[int]:
        """Steps at which all members were kept, ascending."""
        return [int(name.removeprefix("step_")) for name in self.store.names() if name.startswith("step_")]

    def checkpoint(self, stage: str | int, gamma: float, seed: int) -> Checkpoint:
        """A member's tensors in the checkpoint that holds it at a stage or a step.

        Stages are ``init``, ``final``, those of ``train.stages``, and the study's names for the stage of a sibling.

        Raises RunError for a member, stage or step that this sweep does not have.
        """
        return self.store.read(self._file(stage, gamma, seed), member=(gamma, seed))

    def weights(self, gamma: float, seed: int, stage: str | int = "final") -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name."""
        return self.checkpoint(stage, gamma, seed).member(gamma, seed)

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
            if stage not in self.kept_steps:
                raise RunError(f"this run kept no checkpoint at step {stage}; it kept steps {self.kept_steps}.")
            return step_name(int(stage))
        fixed = {"init": 0, "final": self.config.train.steps}
        if stage in fixed:
            return step_name(fixed[stage])
        known = (*fixed, *self.config.task.stages, *self.siblings)
        if stage not in known:
            raise RunError(f"there is no stage '{stage}'; {nearest(str(stage), known)}, or a step.")
        own, of = self.siblings.get(str(stage), (str(stage), gamma))
        if of not in self.config.gammas:
            raise RunError(f"stage '{stage}' needs gamma {of:g} in the run; it has {list(self.config.gammas)}.")
        if own not in self.config.train.stages:
            raise RunError(f"this run kept no stage '{own}'; its train.stages are {list(self.config.train.stages)}.")
        return stage_name(own, Member(of, seed))
