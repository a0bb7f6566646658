"""Checkpoints as safetensors files with members stacked, and the learning curves in them.

Every file names its format, the fingerprint of the configuration that made it, its step and its
members. So a foreign file is recognised before a number is read from it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rb_interp.errors import RunError
from rb_interp.runs.store import RunStore, write_file
from rb_interp.training.member_group import DRIFT, Member

FORMAT, KEY = "rb_interp checkpoint 2", "rb_interp"
SUFFIX = ".safetensors"
CURVES, SPECTRA = "curves/", "curves/spectra/"
"""What the names of learning curves, and of the spectra among them, begin with in a saved state."""


def stage_name(stage: str, member: Member) -> str:
    """Checkpoint at the step where this member reached a stage; it may hold the same-seed siblings
    too."""
    return f"{stage}_gamma{member.gamma}_seed{member.seed}"


def step_name(step: int) -> str:
    """Checkpoint of all members at a step."""
    return f"step_{step:08d}"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights (and, in the resume state, moments and curves) of members at one step."""

    step: int
    members: tuple[tuple[float, int], ...]
    tensors: dict[str, Tensor]

    def index(self, gamma: float, seed: int) -> int:
        """Where a member stands; RunError names the members that are there."""
        if (gamma, seed) not in self.members:
            there = ", ".join(f"gamma {g:g} seed {s}" for g, s in self.members)
            raise RunError(
                f"this checkpoint has no member with gamma={gamma:g}, seed={seed}; it holds "
                f"{there}."
            )
        return self.members.index((gamma, seed))

    def member(self, gamma: float, seed: int) -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name; raises as `index`."""
        index = self.index(gamma, seed)
        return {name: value[index] for name, value in self.tensors.items() if "/" not in name}

    def drift(self, gamma: float, seed: int) -> dict[str, Tensor]:
        """Sums of the predictions along training of one member (``training.tracking``); empty where
        none were kept."""
        index = self.index(gamma, seed)
        return {
            name[len(DRIFT) :]: sums[index]
            for name, sums in self.tensors.items()
            if name.startswith(DRIFT)
        }


class CheckpointStore:
    """The ``checkpoints`` folder of a run; files of another configuration's fingerprint are
    refused."""

    def __init__(self, folder: Path | str, fingerprint: str, files: RunStore | None = None) -> None:
        self.folder, self.fingerprint = Path(folder), fingerprint
        self.files = files or RunStore(self.folder)

    def path(self, name: str) -> Path:
        """File of a checkpoint: ``step_00000000``, ``half_gamma0.8_seed0``, ``state``."""
        return self.folder / f"{name}{SUFFIX}"

    def exists(self, name: str) -> bool:
        """Whether a checkpoint was written and is there."""
        return self.path(name).is_file()

    def names(self) -> list[str]:
        """Checkpoints that are there, in order of their names."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"[!.]*{SUFFIX}"))

    def write(
        self,
        name: str,
        step: int,
        members: Sequence[tuple[float, int]],
        tensors: Mapping[str, Tensor],
    ) -> None:
        """Write a checkpoint, whole or not at all; RunError if the file cannot be written."""
        content = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "step": step,
            "members": members,
        }
        metadata = {
            KEY: json.dumps(content)
        }  # one entry, for several would be written in any order
        contiguous = {key: value.contiguous() for key, value in tensors.items()}
        write_file(self.path(name), lambda path: save_file(contiguous, path, metadata=metadata))

    def read(
        self, name: str, prefix: str = "", member: tuple[float, int] | None = None
    ) -> Checkpoint:
        """Read a checkpoint, or its tensors of a ``prefix``, or one member's part of it; RunError
        for a wrong file."""
        path = self.path(name)
        if not path.is_file():
            raise RunError(
                f"{path} does not exist; this run holds: "
                f"{', '.join(self.names()) or 'no checkpoint yet'}."
            )
        self.files.verified(path.relative_to(self.files.folder).as_posix())
        try:
            with safe_open(path, framework="pt") as file:
                content = json.loads((file.metadata() or {}).get(KEY, "{}"))
                if (content.get("format"), content.get("fingerprint")) != (
                    FORMAT,
                    self.fingerprint,
                ):
                    raise RunError(
                        f"{path} is no checkpoint of rb_interp, or was made with another "
                        f"configuration; move it out of "
                        f"the run's folder or use another --out."
                    )
                members = tuple((float(gamma), int(seed)) for gamma, seed in content["members"])
                names = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118 (not a dict)
                if member is None:
                    return Checkpoint(
                        content["step"], members, {key: file.get_tensor(key) for key in names}
                    )
                index = Checkpoint(content["step"], members, {}).index(*member)
                tensors = {key: file.get_slice(key)[index : index + 1] for key in names}
                return Checkpoint(content["step"], (member,), tensors)
        except SafetensorError as error:
            raise RunError(f"{path} is damaged ({error}); remove it and train again.") from None


@dataclass(eq=False)
class Curves:
    """What every evaluation found.

    Attributes:
        evaluations: pairs of step and array ``[member, set, (loss, accuracy)]``, loss in nats.
        spectra: group of tokens -> an array ``[member, rank]`` for each evaluation, see
            ``training.tracking``.
    """

    members: tuple[Member, ...]
    sets: tuple[str, ...]
    evaluations: list[tuple[int, np.ndarray]] = field(default_factory=list)
    spectra: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @property
    def steps(self) -> list[int]:
        """Steps that were evaluated, ascending."""
        return [step for step, _ in self.evaluations]

    def to_frame(self) -> pd.DataFrame:
        """Long table: gamma, seed, step, set, loss, accuracy."""
        places = [
            (m.gamma, m.seed, step, name)
            for step in self.steps
            for m in self.members
            for name in self.sets
        ]
        loss, accuracy = np.stack([values for _, values in self.evaluations]).reshape(-1, 2).T
        table = pd.DataFrame(places, columns=["gamma", "seed", "step", "set"])
        return table.assign(loss=loss, accuracy=accuracy)

    def spectra_table(self) -> pd.DataFrame:
        """Long table: group, step, gamma, seed, rank (1: the largest), eigenvalue."""
        rows = [
            (group, step, member.gamma, member.seed, rank, float(value))
            for group, evaluations in sorted(self.spectra.items())
            for step, values in zip(self.steps, evaluations, strict=True)
            for member, own in zip(self.members, values, strict=True)
            for rank, value in enumerate(own, 1)
        ]
        return pd.DataFrame(rows, columns=["group", "step", "gamma", "seed", "rank", "eigenvalue"])


def saved_curves(state: Checkpoint, members: tuple[Member, ...], sets: tuple[str, ...]) -> Curves:
    """Learning curves in a saved state."""
    steps, values = (
        state.tensors[f"{CURVES}steps"].tolist(),
        state.tensors[f"{CURVES}values"].numpy(),
    )
    spectra = {
        name[len(SPECTRA) :]: list(found.numpy())
        for name, found in state.tensors.items()
        if SPECTRA in name
    }
    return Curves(members, sets, list(zip(steps, values, strict=True)), spectra)
