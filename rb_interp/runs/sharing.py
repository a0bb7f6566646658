"""Share members: read and write their folders, here or on the Hugging Face Hub, and list the zoo of this package.

``shared_member`` tells what is in a folder.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from rb_interp.errors import ModelError, RunError, first_line, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.runs.shared_member import (
    CARD,
    FILE,
    WEIGHTS,
    Circuit,
    Content,
    SharedMember,
    checksum,
    content_bytes,
    drawn_weights,
    read,
    read_content,
    task_spec,
)
from rb_interp.runs.store import versions, write_file
from rb_interp.tasks.dataset import Dataset, Task, vocabulary
from rb_interp.torch_threads import few_threads
from rb_interp.training.config import TrainConfig
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.models.protocol import HookedModel

ZOO, ZOO_FOLDER = "zoo", Path(__file__).parent / "zoo"
LOOKS = ("eval_every", "eval_rows", "n_checkpoints", "keep_at", "stages", "track_drift")
"""Settings of a training that say what is looked at and kept, and change no step."""
ROWS, AT_ONCE = 1000, 100_000
"""Rows of each set that the accuracy is of, at most; tokens that go through a model at once."""


@typed
def from_pretrained(
    path: Path | str, *, member: str | None = None, revision: str | None = None, task: Any = None
) -> SharedMember:
    """A shared member: its TransformerLens model, its task, its untrained counterpart, its circuit and readings.

    Args:
        path: a folder that `Run.export` wrote, one that holds several of these, ``zoo`` for the members that come with
            the package, or the name of a repository of the Hugging Face Hub, ``owner/name``.
        member: which one, if there are several. revision: branch, tag or commit of the repository.
        task: the task that it learned, if its class is not installed here.

    Raises RunError if there is no such member, if it is not what its ``config.json`` says, or if the Hub does not
    answer.

    >>> known = from_pretrained("zoo", member="average-then-key")
    >>> known.circuit.name, known.content.gamma, tuple(known.model.W_E.shape)
    ('average-then-key', 0.8, (200, 64))
    >>> from rb_interp.probes import attention_by_role
    >>> inputs = known.inputs("rsn_test", 200)
    >>> reading = attention_by_role(known.model, inputs, layer=1, untrained=known.untrained)
    >>> reading.values["key"] > 0.9 > reading.untrained["key"]
    True
    """
    folder = ZOO_FOLDER if str(path) == ZOO else Path(path)
    if not folder.is_dir():
        folder = _downloaded(str(path), revision, member)
    found = members(folder)
    if member is not None and member not in found:
        raise RunError(f"{path} holds no member '{member}'; {nearest(member, found)}")
    if member is None and not (folder / FILE).exists():
        if len(found) != 1:
            raise RunError(f"{path} holds {len(found)} members; name one with member=: {', '.join(found)}.")
        (member,) = found
    return read(folder / (member or ""), task)


@typed
def zoo() -> pd.DataFrame:
    """The members that come with the package, one row each: ``from_pretrained("zoo", member=...)`` reads one.

    Columns: member, task, norm, gamma and seed (NaN for weights written by hand), circuit, named_by, share (the least
    of those that the name rests on; NaN for ``mixed``), accuracy (in words, by set), bytes (of the weights).

    >>> table = zoo()
    >>> len(table), "average-then-key" in set(table.member)
    (15, True)
    """
    return listing(ZOO_FOLDER)


def listing(folder: Path) -> pd.DataFrame:
    """The members in a folder, one row each, as `zoo` has them."""
    import pandas as pd

    rows = []
    for name in members(folder):
        content = read_content(folder / name)
        circuit = content.circuit or Circuit("", "")
        row = {"member": name, "task": _task_name(content), "norm": content.model.norm}
        row |= {"gamma": content.gamma, "seed": content.seed, "circuit": circuit.name, "named_by": circuit.named_by}
        row["share"] = math.nan if circuit.name == "mixed" else min(circuit.shares.values(), default=math.nan)
        row["accuracy"] = ", ".join(f"{name} {value:.2f}" for name, value in content.accuracy.items())
        rows.append({**row, "bytes": (folder / name / WEIGHTS).stat().st_size})
    return pd.DataFrame(rows)


def members(folder: Path) -> list[str]:
    """Names of the members right in a folder."""
    return sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))


@typed
def save_member(
    path: Path | str,
    *,
    model: ModelConfig,
    weights: Mapping[str, Tensor],
    task: Task,
    data: Any = None,
    study: str = "",
    **facts: Any,
) -> SharedMember:
    """Write a member into a folder of its own, read it back, and return it. `Run.export` does it for one of a run.

    Args:
        path: the folder, which must be new or empty.
        model, weights: what it is, by TransformerLens name, as `train_members` leaves it.
        task, data: what it learned; ``data`` is drawn by its seed if it is not given.
        study: an installed study that trains tasks of this class, by which the task is found again.
        facts: what else is known of it, as fields of `Content`: ``gamma`` and ``seed`` of its initialisation (none for
            weights that were written by hand), ``data_seed``, ``name`` (by default that of the folder), ``stage``,
            ``step``, ``training``, ``circuit``, ``readings``, ``description``, ``licence``.

    Raises RunError if the folder holds something, ModelError if the weights do not fit the model.

    >>> import tempfile
    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> saved = save_member(
    ...     Path(tempfile.mkdtemp()) / "averager", model=known.config, weights=known.weights, task=known.task
    ... )
    >>> saved.name, saved.accuracy["rsn_test"], saved.untrained
    ('averager', 1.0, None)
    """
    from rb_interp.models.build import lens_model

    types = {weight.dtype for weight in weights.values()}
    if types not in ({torch.float32}, {torch.float64}):
        raise ModelError("give all weights as float32, or all of them as float64.")
    if not all(weight.isfinite().all() for weight in weights.values()):
        raise ModelError("not all weights are finite; a model that diverged is not shared.")
    folder, (dtype,) = Path(path), types
    if folder.exists() and (folder.is_file() or {path.name for path in folder.iterdir()} - {WEIGHTS, CARD}):
        raise RunError(f"{folder} holds something; nothing was changed. Give the path of a new folder.")
    data = task.dataset(facts.get("data_seed", 0)) if data is None else data
    sizes, type_name = (model, vocabulary(task, data), task.length), str(dtype).removeprefix("torch.")
    drawn = facts.get("seed") is not None
    first = drawn_weights(*sizes, facts.get("gamma"), facts["seed"], type_name) if drawn else {}
    packed = save({name: weight.detach().cpu().contiguous() for name, weight in weights.items()}, {"format": "pt"})
    content = Content(
        **{"name": folder.resolve().name, **facts},
        model=model, d_vocab=sizes[1], n_ctx=sizes[2], dtype=type_name, task=task_spec(task, study),
        untrained="drawn" if drawn else "none", checksum=checksum(first) if drawn else "",
        sha256={WEIGHTS: hashlib.sha256(packed).hexdigest()},
        accuracy=accuracy(lens_model(*sizes, weights, dtype), data),
        versions={name: versions()[name] for name in ("rb-interp", "torch", "numpy", "transformer-lens")},
    )  # fmt: skip
    write_file(folder / WEIGHTS, packed)
    write_file(folder / CARD, model_card(content).encode())
    write_file(folder / FILE, content_bytes(content))  # the last: without it there is no member
    return read(folder)


def model_card(content: Content) -> str:
    """The text of ``README.md``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    page = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    page.filters["cell"] = _cell
    return page.get_template("member_card.md.jinja").render(member=content, task=_task_name(content))


def _task_name(content: Content) -> str:
    return content.task["kind"].rpartition(":")[2]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else ""
    return "" if value is None else str(value).replace("|", "\\|")


@few_threads
def accuracy(model: HookedModel, data: Dataset) -> dict[str, float]:
    """Set -> share of its answers that are the model's first choice, over up to 1,000 rows.

    If every next token is an answer, all of them count, but for those labelled -1. A set without rows is left out.
    """
    shares = {}
    for name in data.sets:
        rows, right, n = data.sample(name, ROWS), 0, 0
        tokens, labels = torch.from_numpy(np.asarray(data.tokens[rows])), np.asarray(data.labels[rows])
        for part in np.array_split(np.arange(len(rows)), max(1, tokens.numel() // AT_ONCE)) if len(rows) else ():
            with torch.no_grad():
                chosen = model(tokens[part]).argmax(-1).numpy()
            wanted = labels[part] if labels.ndim > 1 else labels[part, None]
            right += int(((chosen[:, -wanted.shape[1] :] == wanted) & (wanted >= 0)).sum())
            n += int((wanted >= 0).sum())
        if n:
            shares[name] = right / n
    return shares


def training_of(train: TrainConfig, **changes: Any) -> dict[str, Any]:
    """Settings of a training that decide the weights, with changes of single ones.

    >>> training_of(TrainConfig(), lr=4e-3)["lr"], "workers" in training_of(TrainConfig())
    (0.004, False)
    """
    decide = [f.name for f in fields(train) if f.name not in (*train.host_fields, *LOOKS)]
    return {name: getattr(train, name) for name in decide} | changes


def _downloaded(repo_id: str, revision: str | None, member: str | None) -> Path:
    """The folder of a repository in the Hub's cache, with one of its members or all."""
    import huggingface_hub

    chosen = None if member is None else [f"{member}/*", f"*/{FILE}"]
    try:
        return Path(huggingface_hub.snapshot_download(repo_id, revision=revision, allow_patterns=chosen))
    except Exception as error:  # of the library, of the network, of the disk
        raise RunError(
            f"there is no folder {repo_id} here, and no repository of that name could be had from the Hub "
            f"({type(error).__name__}: {first_line(error)}); check the name, the revision and the network."
        ) from None


@typed
def push_to_hub(path: Path | str, repo_id: str, *, private: bool | None = None) -> str:
    """Upload a member's folder, or one that holds several, to a repository of the Hub; returns the commit's address.

    The repository is made if there is none. Every member is read first, so a damaged one is not uploaded. Files of
    other names are left out. ``huggingface_hub`` knows whose account it is (``hf auth login``).

    Args:
        path: the folder. repo_id: ``owner/name``. private: of a new repository; None is the account's own default.

    Raises RunError if a member is damaged or there is none, and what ``huggingface_hub`` raises if the Hub refuses.
    """
    import huggingface_hub

    folder = Path(path)
    names = members(folder) or [""]
    for name in names:
        read(folder / name)
    files = [CARD, *(str(Path(name) / file) for name in names for file in (FILE, WEIGHTS, CARD))]
    huggingface_hub.create_repo(repo_id, private=private, exist_ok=True)
    commit = huggingface_hub.upload_folder(repo_id=repo_id, folder_path=folder, allow_patterns=files)
    return commit.commit_url
