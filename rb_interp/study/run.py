"""A run is a folder: configuration, checkpoints, tables, figures, report. It can be left and taken up again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rb_interp.errors import RunError, nearest
from rb_interp.files import write_whole
from rb_interp.study.about import check_free, is_series, read_about, write_about
from rb_interp.study.config import from_mapping
from rb_interp.study.sweep_config import comparable, flatten
from rb_interp.tasks import SETS
from rb_interp.training.config import STAGES as TRAINED_STAGES
from rb_interp.training.loop import Trained, saved_curves, stage_name, step_name
from rb_interp.training.member_group import Member
from rb_interp.training.members import train_members
from rb_interp.training.store import Checkpoint, Store

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor
    from typing_extensions import Self

FORMAT = "rb_interp run 1"
LANGUAGE_FORMAT = "rb_interp language run 1"
OF_LANGUAGE = "a run of language models; this is for runs on the anchor task (open it with rb_interp.LanguageRun)"
ABOUT = "run.json"
STAGES = ("init", "half", "matched", "leaving", "before_memory", "final")
MATCHED_GAMMA = 0.8
CURVES = "curves/"
"""What the names of learning curves begin with in the saved state."""


class Run:
    """A run folder that exists.

    >>> import tempfile
    >>> from rb_interp.study.config import StudyConfig
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(folder, StudyConfig.from_preset("smoke", seeds=(0,)))
    >>> Run.open(folder).config == run.config
    True
    """

    format: ClassVar[str] = FORMAT
    stages: ClassVar[tuple[str, ...]] = STAGES
    sets: ClassVar[tuple[str, ...]] = SETS

    def __init__(self, folder: Path, config: Any, about: dict[str, Any]) -> None:
        self.folder, self.config, self.about = Path(folder), config, about
        self.store = Store(self.folder / "checkpoints", config.fingerprint)

    @staticmethod
    def parse(data: Mapping[str, Any], source: str) -> Any:
        """The configuration that ``run.json`` holds."""
        return from_mapping(data, source)

    @classmethod
    def start(cls, folder: Path | str, config: Any, command: str = "") -> Self:
        """Make the folder, or open it where it holds the same configuration; RunError where it holds another."""
        folder = Path(folder)
        if (folder / ABOUT).exists():
            run = cls.open(folder)
            if run.config.fingerprint != config.fingerprint:
                raise RunError(
                    f"{folder} holds a run with another configuration ({differences(run.config, config)}); nothing was "
                    f"changed. Use another --out, or repeat the command that made it to continue it."
                )
            run.config = config
            return run
        check_free(folder, ABOUT, "run")
        return cls(folder, config, write_about(folder / ABOUT, cls.format, config, config.plain, command))

    @staticmethod
    def other_kind(folder: Path) -> str:
        """What a folder holds instead, where that is another kind of run, in words; else nothing."""
        return OF_LANGUAGE if kind_of(folder) == LANGUAGE_FORMAT else ""

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open a run folder; RunError says what is wrong with it."""
        path = Path(folder) / ABOUT
        if is_series(folder):
            parts = sorted(part.parent.name for part in Path(folder).glob(f"*/{ABOUT}"))
            raise RunError(f"{folder} is a study of several parts; name one of them: {', '.join(parts)}.")
        if other := cls.other_kind(Path(folder)):
            raise RunError(f"{folder} holds {other}.")
        about = read_about(path, cls.format, "run", "rb-interp train")
        return cls(Path(folder), cls.parse(about["config"], str(path)), about)

    @property
    def members(self) -> tuple[Member, ...]:
        """All members, seeds outermost."""
        return tuple(Member(gamma, seed) for seed in self.config.seeds for gamma in self.config.gammas)

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
        """Train to the last step, from wherever the run stopped; None where there was nothing left to do."""
        if self.finished:
            return None
        trained = self._train(progress)
        self.write_table("curves", trained.curves.table())
        return trained

    def _train(self, progress: bool) -> Trained:
        config = self.config
        return train_members(
            config.task, config.model, config.train, config.gammas, config.seeds, store=self.store, progress=progress
        )

    def curves(self) -> pd.DataFrame:
        """Learning curves so far: gamma, seed, step, set, loss, accuracy."""
        return saved_curves(self.store.read("state", CURVES), self.members, self.sets).table()

    def stage_steps(self, stage: str = "") -> dict[Member, int]:
        """Step at which each member reached a stage of its own (``training.stages``), by default the first one kept."""
        stage = stage or self.config.train.stages[0]
        steps = self.store.read("state", CURVES).tensors[f"{CURVES}{stage}"].tolist()
        return dict(zip(self.members, steps, strict=True))

    @property
    def kept_steps(self) -> list[int]:
        """Steps at which all members were kept, ascending."""
        return [int(name.removeprefix("step_")) for name in self.store.names() if name.startswith("step_")]

    def checkpoint(self, stage: str | int, gamma: float, seed: int) -> Checkpoint:
        """A member's part of the checkpoint that holds it at a stage or a step.

        Stages are ``init``, ``final``, those that ``train.stages`` keeps (``half``, ``leaving``, ``before_memory``),
        and with ``half`` also ``matched``.
        """
        return self.store.read(self._name(stage, gamma, seed), member=(gamma, seed))

    def weights(self, gamma: float, seed: int, stage: str | int = "final") -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name."""
        return self.checkpoint(stage, gamma, seed).member(gamma, seed)

    def model(self, gamma: float, seed: int, stage: str | int = "final") -> Any:
        """One member as a TransformerLens model, with exactly the trained weights."""
        from rb_interp.models.build import lens_model

        return lens_model(self.config.model, *self.sizes, self.weights(gamma, seed, stage))

    @property
    def sizes(self) -> tuple[int, int]:
        """Vocabulary and context of its models."""
        return self.config.task.d_vocab, self.config.task.length

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
        if stage not in self.stages:
            raise RunError(f"there is no stage '{stage}'; {nearest(str(stage), self.stages)}, or a step.")
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


def kind_of(folder: Path | str) -> str:
    """Format of the run that a folder holds; empty where there is none that can be read."""
    try:
        return str(json.loads((Path(folder) / ABOUT).read_text()).get("format", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def differences(old: Any, new: Any) -> str:
    """The first settings that differ, as ``model.norm: 'none' there, 'pre' here``."""
    before, after = flatten(comparable(old)), flatten(comparable(new))
    found = [
        f"{key}: {before.get(key)!r} there, {after.get(key)!r} here" for key in after if before.get(key) != after[key]
    ]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
