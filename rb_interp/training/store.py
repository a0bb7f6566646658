"""Checkpoints on disk: safetensors files with members stacked, written whole or not at all.

Every file names its format, the fingerprint of the configuration that made it, its step and its members. So a foreign
file is recognised before a number is read from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

import rb_interp.runs.store as run_store
from rb_interp.errors import RunError

FORMAT, KEY = "rb_interp checkpoint 2", "rb_interp"
SUFFIX = ".safetensors"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights (and, in the resume state, moments and curves) of members at one step."""

    step: int
    members: tuple[tuple[float, int], ...]
    tensors: dict[str, Tensor]

    def member(self, gamma: float, seed: int) -> dict[str, Tensor]:
        """Weights of one member by TransformerLens name; RunError names the members that are there."""
        index = _place((gamma, seed), self.members)
        return {name: value[index] for name, value in self.tensors.items() if "/" not in name}

    def drift(self, gamma: float, seed: int) -> dict[str, Tensor]:
        """Sums of the predictions along training of one member (``training.tracking``); empty where none were kept."""
        index, prefix = self.members.index((gamma, seed)), "drift/"
        found = {name: value[index] for name, value in self.tensors.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): value for name, value in found.items()}


def _place(member: tuple[float, int], members: Sequence[tuple[float, int]]) -> int:
    """Where a member stands among those of a checkpoint; RunError names the members that are there."""
    if member not in members:
        there = ", ".join(f"gamma {g:g} seed {s}" for g, s in members)
        raise RunError(f"this checkpoint has no member with gamma={member[0]:g}, seed={member[1]}; it holds {there}.")
    return members.index(member)


class Store:
    """The ``checkpoints`` folder of a run.

    Args:
        folder: where the files lie; made at the first write.
        fingerprint: of the configuration; files with another one are refused.
        files: the store of the run that it belongs to; by default its folder is by itself.
    """

    def __init__(self, folder: Path | str, fingerprint: str, files: run_store.Store | None = None) -> None:
        self.folder, self.fingerprint = Path(folder), fingerprint
        self.files = files or run_store.Store(self.folder)

    def path(self, name: str) -> Path:
        """File of a checkpoint: ``step_00000000``, ``half_gamma0.8_seed0``, ``state``."""
        return self.folder / f"{name}{SUFFIX}"

    def exists(self, name: str) -> bool:
        """Whether a checkpoint was written and is there."""
        return self.path(name).is_file()

    def names(self) -> list[str]:
        """Checkpoints that are there, in order of their names."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"[!.]*{SUFFIX}"))

    def write(self, name: str, step: int, members: Sequence[tuple[float, int]], tensors: Mapping[str, Tensor]) -> Path:
        """Write a checkpoint under a temporary name, then rename it; what was there stays until then."""
        content = {"format": FORMAT, "fingerprint": self.fingerprint, "step": step, "members": members}
        metadata = {KEY: json.dumps(content)}  # one entry, for several would be written in any order
        contiguous = {key: value.contiguous() for key, value in tensors.items()}
        run_store.write_file(self.path(name), lambda path: _save(contiguous, path, metadata))
        return self.path(name)

    def read(self, name: str, prefix: str = "", member: tuple[float, int] | None = None) -> Checkpoint:
        """Read a checkpoint, or the tensors whose names begin with ``prefix``, or one member's part of it alone.

        Raises RunError that says which file is wrong and in what, or which members it holds.
        """
        path = self.path(name)
        if not path.is_file():
            raise RunError(f"{path} does not exist; this run holds: {', '.join(self.names()) or 'no checkpoint yet'}.")
        self.files.verified(path.relative_to(self.files.folder).as_posix())
        try:
            return self._read(path, prefix, member)
        except SafetensorError as error:
            raise RunError(f"{path} is damaged ({error}); remove it and train again.") from None

    def _read(self, path: Path, prefix: str, member: tuple[float, int] | None) -> Checkpoint:
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {}).get(KEY, "{}"))
            self._check(path, content)
            step = int(content["step"])
            members = tuple((float(gamma), int(seed)) for gamma, seed in content["members"])
            names = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118 (not a dict)
            if member is None:
                return Checkpoint(step, members, {key: file.get_tensor(key) for key in names})
            index = _place(member, members)
            return Checkpoint(step, (member,), {key: file.get_slice(key)[index : index + 1] for key in names})

    def _check(self, path: Path, content: Mapping[str, Any]) -> None:
        if content.get("format") != FORMAT:
            raise RunError(
                f"{path} is a safetensors file but no checkpoint of rb_interp (format: "
                f"{content.get('format', 'none given')!r}, expected {FORMAT!r}); move it out of the run's folder."
            )
        if content["fingerprint"] != self.fingerprint:
            raise RunError(
                f"{path} was made with another configuration (fingerprint {content['fingerprint']}, this run "
                f"{self.fingerprint}); move it out of the run's folder or use another --out."
            )


def _save(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:  # a full disk arrives as one
        raise OSError(str(error)) from None
