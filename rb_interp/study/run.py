"""A run is a folder: configuration, checkpoints, tables, figures, report. It can be left and taken up again."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import RunError, nearest
from rb_interp.files import write_whole
from rb_interp.study.about import check_free, is_series, read_about, write_about
from rb_interp.study.config import StudyConfig, comparable, flatten, from_mapping
from rb_interp.training.config import STAGES as TRAINED_STAGES
from rb_interp.training.loop import Trained, saved_curves, stage_name, step_name
from rb_interp.training.member_group import Member
from rb_interp.training.members import train_members
from rb_interp.training.store import Checkpoint, Store

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

FORMAT = "rb_interp run 1"
ABOUT = "run.json"
STAGES = ("init", "half", "matched", "leaving", "before_memory", "final")
MATCHED_GAMMA = 0.8


class Run:
    """A run folder that exists.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(folder, StudyConfig.from_preset("smoke", seeds=(0,)))
    >>> Run.open(folder).config == run.config
    True
    """

    def __init__(self, folder: Path, config: StudyConfig, about: dict[str, Any]) -> None:
        self.folder, self.config, self.about = Path(folder), config, about
        self.store = Store(self.folder / "checkpoints", config.fingerprint)

    @staticmethod
    def start(folder: Path | str, config: StudyConfig, command: str = "") -> Run:
        """Make the folder, or open it where it holds the same configuration; RunError where it holds another."""
        folder = Path(folder)
        if (folder / ABOUT).exists():
            run = Run.open(folder)
            if run.config.fingerprint != config.fingerprint:
                raise RunError(
                    f"{folder} holds a run with another configuration ({differences(run.config, config)}); nothing was "
                    f"changed. Use another --out, or repeat the command that made it to continue it."
                )
            run.config = config
            return run
        check_free(folder, ABOUT, "run")
        return Run(folder, config, write_about(folder / ABOUT, FORMAT, config, asdict(config), command))

    @staticmethod
    def open(folder: Path | str) -> Run:
        """Open a run folder; RunError says what is wrong with it."""
        path = Path(folder) / ABOUT
        if is_series(folder):
            parts = sorted(part.parent.name for part in Path(folder).glob(f"*/{ABOUT}"))
            raise RunError(f"{folder} is a study of several parts; name one of them: {', '.join(parts)}.")
        about = read_about(path, FORMAT, "run", "rb-interp train")
        return Run(Path(folder), from_mapping(about["config"], str(path)), about)

    @property
    def members(self) -> tuple[Member, ...]:
        """All members, seeds outermost."""
        return tuple(Member(gamma, seed) for seed in self.config.seeds for gamma in self.config.gammas)

    @property
    def step(self) -> int | None:
        """The last saved step, None before the first save."""
        return self.store.read("state").step if self.store.exists("state") else None

    @property
    def finished(self) -> bool:
        """Whether training reached its last step, evaluated it, and kept what it had to keep."""
        last = self.config.train.steps
        if self.step != last or not self.store.exists(step_name(last)):
            return False
        reached = [step for stage in self.config.train.stages for step in self.stage_steps(stage).values()]
        return last in self.curves()["step"].to_numpy() and min(reached, default=0) >= 0

    def train(self, progress: bool = True) -> Trained | None:
        """Train to the last step, from wherever the run stopped; None where there was nothing left to do."""
        if self.finished:
            return None
        config = self.config
        trained = train_members(
            config.task, config.model, config.train, config.gammas, config.seeds, store=self.store, progress=progress
        )
        self.write_table("curves", trained.curves.table())
        return trained

    def curves(self) -> pd.DataFrame:
        """Learning curves so far: gamma, seed, step, set, loss, accuracy."""
        return saved_curves(self.store.read("state"), self.members).table()

    def stage_steps(self, stage: str = "half") -> dict[Member, int]:
        """Step at which each member reached a stage of its own (``training.stages``)."""
        steps = self.store.read("state").tensors[f"curves/{stage}"].tolist()
        return dict(zip(self.members, steps, strict=True))

    @property
    def kept_steps(self) -> list[int]:
        """Steps at which all members were kept, ascending."""
        return [int(name.removeprefix("step_")) for name in self.store.names() if name.startswith("step_")]

    def checkpoint(self, stage: str | int, gamma: float, seed: int) -> Checkpoint:
        """The checkpoint that holds a member at a stage or a step.

        Stages are ``init``, ``final``, those that ``train.stages`` keeps (``half``, ``leaving``, ``before_memory``),
        and with ``half`` also ``matched``.
        """
        return self.store.read(self._name(stage, gamma, seed))

    def weights(self, gamma: float, seed: int, stage: str | int = "final") -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name."""
        return self.checkpoint(stage, gamma, seed).member(gamma, seed)

    def model(self, gamma: float, seed: int, stage: str | int = "final") -> Any:
        """One member as a TransformerLens model, with exactly the trained weights."""
        from rb_interp.models.build import lens_model

        task = self.config.task
        return lens_model(self.config.model, task.d_vocab, task.length, self.weights(gamma, seed, stage))

    def _name(self, stage: str | int, gamma: float, seed: int) -> str:
        if Member(gamma, seed) not in self.members:
            raise RunError(
                f"this run has no member with gamma={gamma:g}, seed={seed}; its gammas are "
                f"{list(self.config.gammas)}, its seeds {list(self.config.seeds)}."
            )
        if isinstance(stage, Integral):
            if stage not in self.kept_steps:
                raise RunError(f"this run kept no checkpoint at step {stage}; it kept steps {self.kept_steps}.")
            return step_name(int(stage))
        if stage not in STAGES:
            raise RunError(f"there is no stage '{stage}'; {nearest(str(stage), STAGES)}, or a step.")
        if stage == "matched" and MATCHED_GAMMA not in self.config.gammas:
            raise RunError(
                f"stage 'matched' needs gamma {MATCHED_GAMMA} in the run; it has {list(self.config.gammas)}."
            )
        own = "half" if stage == "matched" else stage
        if own in TRAINED_STAGES and own not in self.config.train.stages:
            raise RunError(f"this run kept no stage '{own}'; its train.stages are {list(self.config.train.stages)}.")
        fixed = {"init": 0, "final": self.config.train.steps}
        if stage in fixed:
            return step_name(fixed[stage])
        return stage_name(own, Member(MATCHED_GAMMA if stage == "matched" else gamma, seed))

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write ``name.parquet`` whole or not at all."""
        write_whole(self.folder / f"{name}.parquet", lambda path: table.to_parquet(path, index=False))

    def read_table(self, name: str) -> pd.DataFrame:
        """Read ``name.parquet``; RunError where it is not there yet."""
        import pandas as pd

        path = self.folder / f"{name}.parquet"
        if not path.exists():
            raise RunError(f"{path} is not there yet; 'rb-interp probe {self.folder}' makes it.")
        return pd.read_parquet(path)


def differences(old: StudyConfig, new: StudyConfig) -> str:
    """The first settings that differ, as ``model.norm: 'none' there, 'pre' here``."""
    before, after = flatten(comparable(old)), flatten(comparable(new))
    found = [
        f"{key}: {before.get(key)!r} there, {after.get(key)!r} here" for key in after if before.get(key) != after[key]
    ]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
