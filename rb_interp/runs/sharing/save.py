"""Write a shared member: a folder with ``config.json``, ``model.safetensors`` and ``README.md``, whole or not at all.

The untrained weights are not written where scheme, gamma and seed give them again bit for bit; a checksum says so.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import ModelError, RunError, first_line
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import parameters
from rb_interp.runs.config import fingerprint
from rb_interp.runs.sharing import tensors
from rb_interp.runs.sharing.card import card
from rb_interp.runs.sharing.circuit import Circuit
from rb_interp.runs.sharing.content import (
    CARD,
    DRAWN,
    FILE,
    NONE,
    STORED,
    UNTRAINED,
    WEIGHTS,
    Content,
    TaskTold,
    check_name,
    packed,
)
from rb_interp.runs.sharing.manifest import FILE as MANIFEST
from rb_interp.runs.sharing.manifest import read_file, read_manifest, write_manifest
from rb_interp.runs.sharing.member import SharedMember
from rb_interp.runs.sharing.pretrained import read
from rb_interp.runs.store import versions, write_file
from rb_interp.settings import class_name, plain
from rb_interp.tasks.protocol import Dataset, Task, vocabulary
from rb_interp.torch_threads import few_threads

ROWS = 1000
"""Rows of each set that the accuracy is of, at most."""
AT_ONCE = 100_000
"""Tokens that go through a model at once."""


@checked(nan=True)
def save_member(
    path: Path | str,
    *,
    model: ModelConfig,
    weights: Mapping[str, Tensor],
    task: Task,
    gamma: float | None = None,
    seed: int | None = None,
    initial: Mapping[str, Tensor] | None = None,
    data: Any = None,
    data_seed: int = 0,
    study: str = "",
    name: str = "",
    stage: str = "final",
    step: int = 0,
    training: Mapping[str, Any] = {},
    circuit: Circuit | None = None,
    readings: Sequence[Mapping[str, Any]] = (),
    description: str = "",
    licence: str = "mit",
) -> SharedMember:
    """Write a member into a folder of its own, read it back, and return it. `Run.export` does it for one of a run.

    Args:
        path: the folder, a new one or one that holds this member already.
        model, weights: what it is, by TransformerLens name, as `train_members` leaves it.
        task, data, data_seed: what it learned; ``data`` is drawn by its seed where it is not given.
        gamma, seed: of its initialisation; none for weights that were written by hand.
        initial: its weights at step 0; None where scheme, gamma and seed draw them.
        study: an installed study that trains tasks of this class, by which the task is found again.
        name: by default that of the folder. stage, step, training: where in which training it stands.
        circuit, readings, description: what is known of it. licence: of the weights, as the Hub spells it.

    Raises RunError for a folder that holds something else, ModelError for weights that do not fit the model.

    >>> import tempfile
    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> saved = save_member(
    ...     Path(tempfile.mkdtemp()) / "averager", model=known.config, weights=known.weights, task=known.task
    ... )
    >>> saved.name, saved.accuracy["rsn_test"], saved.untrained
    ('averager', 1.0, None)
    """
    folder, name = Path(path), name or Path(path).name
    check_name(name)
    if data is None:
        data = task.dataset(data_seed)
    sizes = model, vocabulary(task, data), task.length
    _check_weights(weights, *sizes)
    (dtype,) = {weight.dtype for weight in weights.values()}
    lens = lens_model(*sizes, weights, dtype)
    untrained, checksum, stored = _untrained(sizes, gamma, seed, initial, dtype)
    content = Content(
        name=name,
        model=model,
        d_vocab=sizes[1],
        n_ctx=sizes[2],
        dtype=str(dtype).removeprefix("torch."),
        task=told_of(task, study),
        data_seed=data_seed,
        gamma=gamma,
        seed=seed,
        stage=stage,
        step=step,
        untrained=untrained,
        checksum=checksum,
        training=training,
        circuit=circuit,
        accuracy=accuracy(lens, data),
        readings=[_plain(row) for row in readings],
        description=description,
        licence=licence,
        versions={name: versions()[name] for name in ("rb-interp", "torch", "numpy", "transformer-lens")},
    )
    files = {FILE: packed(content), CARD: card(content).encode(), WEIGHTS: tensors.packed(weights)}
    if stored:
        files[UNTRAINED] = tensors.packed(stored)
    write(folder, content, files)
    return read(folder)


def _check_weights(weights: Mapping[str, Tensor], model: ModelConfig, d_vocab: int, n_ctx: int) -> None:
    wanted = {p.name: tuple(p.shape) for p in parameters(model, d_vocab, n_ctx)}
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    for name in [*wanted, *found]:
        if wanted.get(name) != found.get(name):
            raise ModelError(
                f"'{name}' has shape {found.get(name)}; a model of these sizes has {wanted.get(name)} there. Give the "
                f"ModelConfig and the task that the weights were made with."
            )
    kinds = {weight.dtype for weight in weights.values()}
    if len(kinds) > 1 or not kinds <= {torch.float32, torch.float64}:
        raise ModelError(
            f"the weights are of {', '.join(map(str, kinds))}; give all of them as float32, or as float64."
        )
    diverged = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if diverged:
        raise ModelError(f"'{diverged[0]}' holds numbers that are not finite; a model that diverged is not shared.")


def _untrained(
    sizes: tuple[ModelConfig, int, int],
    gamma: float | None,
    seed: int | None,
    initial: Mapping[str, Tensor] | None,
    dtype: torch.dtype,
) -> tuple[str, str, Mapping[str, Tensor]]:
    """How the untrained weights are had again, their checksum, and the ones to store."""
    if initial is None and seed is None:
        return NONE, "", {}
    drawn = {} if seed is None else tensors.drawn(*sizes, gamma, seed, dtype)
    checksum = tensors.checksum(drawn if initial is None else initial)
    if drawn and checksum == tensors.checksum(drawn):
        return DRAWN, checksum, {}
    assert initial is not None
    _check_weights(initial, *sizes)
    return STORED, checksum, initial


def told_of(task: Task, study: str) -> TaskTold:
    """What a file says of a task. Names of files that it reads are left out."""
    kept = {f.name: f.default for f in fields(task)} if is_dataclass(task) else {}  # other tasks have to be given again
    try:
        settings = plain(task) if kept else {}
    except (TypeError, ValueError) as error:
        raise RunError(f"the settings of {class_name(task)} are no plain data ({first_line(error)}).") from None
    sources = [name for name in getattr(task, "source_fields", ()) if getattr(task, name) != kept.get(name)]
    settings |= {name: kept.get(name) for name in sources}
    return TaskTold(class_name(task), task.fingerprint(), settings, study, tuple(sources))


@few_threads
def accuracy(model: HookedModel, data: Dataset) -> dict[str, float]:
    """Set -> share of its answers that are the model's first choice, over up to 1,000 rows; NaN for a set without rows.

    Where every next token is an answer, all of them count, but for those labelled -1.
    """
    found = {}
    for name in data.sets:
        rows = data.sample(name, ROWS)
        found[name] = _right(model, data, rows) if len(rows) else math.nan
    return found


def _right(model: HookedModel, data: Dataset, rows: np.ndarray) -> float:
    tokens, labels = torch.from_numpy(np.asarray(data.tokens[rows])), np.asarray(data.labels[rows])
    right, n = 0, 0
    with torch.no_grad():
        for at in np.array_split(np.arange(len(rows)), max(1, tokens.numel() // AT_ONCE)):
            chosen = model(tokens[at]).argmax(-1).numpy()
            wanted = labels[at] if labels.ndim > 1 else labels[at, None]
            counts = wanted >= 0
            right += int(((chosen[:, -wanted.shape[1] :] == wanted) & counts).sum())
            n += int(counts.sum())
    return right / n if n else math.nan


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of readings as JSON has it, without what is NaN."""
    values = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    return {name: value for name, value in values.items() if value is not None and value == value}


def write(folder: Path, content: Content, files: Mapping[str, bytes]) -> None:
    """Write the files of a member, all of them or none. RunError for a folder that holds something else."""
    mark = fingerprint(
        content.model, content.task.kind, content.task.fingerprint, dict(content.training), content.data_seed,
        content.gamma, content.seed, content.stage, content.step,
    )  # fmt: skip
    check_ours(folder, mark)
    new = not folder.exists()
    try:
        for name, held in files.items():
            write_file(folder / name, held)
        write_manifest(folder, mark, files)
    except BaseException:
        if new:
            _remove(folder, (*files, MANIFEST))
        raise


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove what was begun in a folder, and the folder unless something else is in it."""
    with suppress(OSError):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def check_ours(folder: Path, mark: str) -> None:
    """Raise RunError where a folder holds something else than this member, as it was written."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise RunError(f"{folder} is a link or a file; nothing was changed. Give a new folder.")
    there = {path.name for path in folder.iterdir()}
    if not there:
        return
    held = read_manifest(folder) if MANIFEST in there else {"fingerprint": "", "files": {}}
    if held["fingerprint"] != mark or not there <= {MANIFEST, *held["files"]}:
        raise RunError(
            f"{folder} holds something else than this member; nothing was changed. Give another folder, or empty it."
        )
    for name in held["files"]:
        try:
            read_file(folder / name)
        except RunError:
            raise RunError(
                f"{folder} holds this member, and {name} was changed since it was written; nothing was changed now. "
                f"Give another folder, or remove that one."
            ) from None
