"""Checkpoints as safetensors files with members stacked, and the learning curves in them.

Every file names its format, the fingerprint of the configuration that made it, its own name, its
step and its members, with a digest of all this and of its tensors. So a file that is foreign,
damaged or exchanged is recognised before a number is used. Files of the format before have neither
name nor digest, and are read without.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rb_interp.errors import RunError
from rb_interp.store import RunStore, write_file
from rb_interp.training.member_group import DRIFT, Member

FORMAT = "rb_interp checkpoint 3"
KEY = "rb_interp"
SUFFIX = ".safetensors"
AGAIN = "remove it and train again."
NAME = re.compile(r"state|step_\d{8,}|.+_gamma[-+.\de]+_seed\d+")
"""Names of checkpoints; a copy that a program for synchronising made has another."""
CURVES = "curves/"
SPECTRA = "curves/spectra/"
"""What the names of learning curves, and of the spectra among them, begin with in a saved state."""
REPLAYS = "curves/replays"
"""Of a saved state: how many steps of each member a CUDA graph has taken; not there for none."""


def stage_name(stage: str, member: Member) -> str:
    """Checkpoint of the step at which a member reached a stage.

    It may hold the member's siblings of the same seed too.
    """
    return f"{stage}_gamma{member.gamma}_seed{member.seed}"


def step_name(step: int) -> str:
    """Checkpoint of all members at a step."""
    return f"step_{step:08d}"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights (and, in the resume state, moments and curves) of members at one step."""

    step: int
    members: tuple[tuple[float, int], ...]
    tensors: dict[str, Tensor] = field(repr=False)

    def index(self, gamma: float, seed: int) -> int:
        """Where a member stands; RunError names the members that are there."""
        if (gamma, seed) not in self.members:
            names = ", ".join(f"gamma {g:g} seed {s}" for g, s in self.members)
            raise RunError(
                f"this checkpoint has no member with gamma={gamma:g}, seed={seed}; it holds "
                f"{names}."
            )
        return self.members.index((gamma, seed))

    def member(self, gamma: float, seed: int) -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name; raises as `index`."""
        index = self.index(gamma, seed)
        return {name: value[index] for name, value in self.tensors.items() if "/" not in name}

    def drift(self, gamma: float, seed: int) -> dict[str, Tensor]:
        """Sums of the predictions along training of one member, see ``training.tracking``.

        Empty if none were kept.
        """
        index = self.index(gamma, seed)
        sums = {name: tensor for name, tensor in self.tensors.items() if name.startswith(DRIFT)}
        return {name.removeprefix(DRIFT): tensor[index] for name, tensor in sums.items()}


class CheckpointStore:
    """The ``checkpoints`` folder of a run.

    Files of another configuration's fingerprint are refused.
    """

    def __init__(self, folder: Path | str, fingerprint: str, files: RunStore | None = None) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint
        self.files = files or RunStore(self.folder)
        self._compared: set[str] = set()

    def path(self, name: str) -> Path:
        """File of a checkpoint: ``step_00000000``, ``half_gamma0.8_seed0``, ``state``."""
        return self.folder / f"{name}{SUFFIX}"

    def exists(self, name: str) -> bool:
        """Whether a checkpoint was written and is there."""
        return self.path(name).is_file()

    def names(self) -> list[str]:
        """Checkpoints that are there, in order of their names."""
        names = [path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"*{SUFFIX}")]
        return sorted(filter(NAME.fullmatch, names))

    def write(
        self,
        name: str,
        step: int,
        members: Sequence[tuple[float, int]],
        tensors: Mapping[str, Tensor],
    ) -> None:
        """Write a checkpoint, whole or not at all; RunError if the file cannot be written."""
        contiguous = {key: value.contiguous() for key, value in tensors.items()}
        content = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "name": name,
            "step": step,
            "members": [list(member) for member in members],
        }
        content["digest"] = digest(content, contiguous)
        # One entry, for several would be written in any order.
        metadata = {KEY: json.dumps(content)}
        write_file(self.path(name), lambda path: save_file(contiguous, path, metadata=metadata))

    def read(
        self, name: str, prefix: str = "", member: tuple[float, int] | None = None
    ) -> Checkpoint:
        """Read a checkpoint, or its tensors of a ``prefix``, or one member's part of it.

        Raises RunError if there is none, and if the file is not what was written under its name.
        """
        with self._open(name) as (file, content):
            members = tuple((float(gamma), int(seed)) for gamma, seed in content["members"])
            keys = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118 (not a dict)
            if member is None:
                tensors = {key: file.get_tensor(key) for key in keys}
                return Checkpoint(content["step"], members, tensors)
            index = Checkpoint(content["step"], members, {}).index(*member)
            tensors = {key: file.get_slice(key)[index : index + 1] for key in keys}
            return Checkpoint(content["step"], (member,), tensors)

    def verify(self, name: str) -> None:
        """Raise RunError as `read` does, without reading anything for use."""
        with self._open(name):
            pass

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[Any, dict[str, Any]]]:
        """An open file and what it says of itself; its tensors are compared at the first time."""
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
                if name not in self._compared:
                    self._compare(name, content, file)
                yield file, content
        except (SafetensorError, ValueError) as error:
            raise RunError(f"{path} is damaged ({error}); {AGAIN}") from None

    def _compare(self, name: str, content: Any, file: Any) -> None:
        """Raise RunError if a file is not what was written under its name."""
        path = self.path(name)
        header = content if isinstance(content, dict) else {}
        if header.get("format") != FORMAT or header.get("fingerprint") != self.fingerprint:
            raise RunError(
                f"{path} is no checkpoint of rb_interp, or was made with another configuration; "
                f"move it out of the run's folder or use another --out."
            )
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        described = {key: value for key, value in header.items() if key != "digest"}
        if header.get("digest") != digest(described, tensors):
            raise RunError(f"{path} is damaged: its digest is not that of its tensors; {AGAIN}")
        if header["name"] != name:
            raise RunError(
                f"{path} holds the checkpoint '{header['name']}': files were exchanged. Give "
                f"them their names back, or remove them and train again."
            )
        self._compared.add(name)


def digest(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over plain data and over names, shapes and bits of tensors."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(f"{text}\n{checksum(tensors)}".encode()).hexdigest()


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and bits of tensors."""
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {list(tensor.shape)} {tensor.dtype}\n".encode())
        total.update(tensor.detach().cpu().contiguous().numpy().data)
    return total.hexdigest()


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
    evaluations: list[tuple[int, np.ndarray]] = field(default_factory=list, repr=False)
    spectra: dict[str, list[np.ndarray]] = field(default_factory=dict, repr=False)

    @property
    def steps(self) -> list[int]:
        """Steps that were evaluated, ascending."""
        return [step for step, _ in self.evaluations]

    def to_frame(self) -> pd.DataFrame:
        """Long table: gamma, seed, step, set, loss, accuracy."""
        places = []
        for step in self.steps:
            for member in self.members:
                places += [(member.gamma, member.seed, step, name) for name in self.sets]
        table = pd.DataFrame(places, columns=["gamma", "seed", "step", "set"])
        values = np.stack([values for _, values in self.evaluations])
        loss, accuracy = values.reshape(-1, 2).T
        return table.assign(loss=loss, accuracy=accuracy)

    def spectra_table(self) -> pd.DataFrame:
        """Long table: group, step, gamma, seed, rank (1: the largest), eigenvalue."""
        rows = []
        for group, evaluations in sorted(self.spectra.items()):
            for step, of_members in zip(self.steps, evaluations, strict=True):
                for member, eigenvalues in zip(self.members, of_members, strict=True):
                    labels = (group, step, member.gamma, member.seed)
                    for rank, eigenvalue in enumerate(eigenvalues.tolist(), 1):
                        rows.append((*labels, rank, eigenvalue))
        return pd.DataFrame(rows, columns=["group", "step", "gamma", "seed", "rank", "eigenvalue"])


def saved_curves(state: Checkpoint, members: tuple[Member, ...], sets: tuple[str, ...]) -> Curves:
    """Learning curves in a saved state."""
    steps = state.tensors[f"{CURVES}steps"].tolist()
    values = state.tensors[f"{CURVES}values"].numpy()
    spectra = {}
    for name, eigenvalues in state.tensors.items():
        if name.startswith(SPECTRA):
            spectra[name.removeprefix(SPECTRA)] = list(eigenvalues.numpy())
    return Curves(members, sets, list(zip(steps, values, strict=True)), spectra)
