"""Members that are shared, written: a folder of a member, its card, and folders on the Hub."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RunError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.shared_member import (
    CARD,
    FILE,
    FORMAT,
    WEIGHTS,
    Circuit,
    SharedMember,
    initial_weights,
    members,
    name_of_task,
    read,
)
from rb_interp.settings import class_name, plain
from rb_interp.store import versions, write_file
from rb_interp.tasks.dataset import Task, vocabulary
from rb_interp.training.members import evaluate_model
from rb_interp.training.store import checksum

NAMED_VERSIONS = ("rb-interp", "torch", "numpy", "transformer-lens")


@checked
def save_member(
    path: Path | str,
    *,
    model: ModelConfig,
    weights: Mapping[str, Tensor],
    task: Task,
    data: Any = None,
    study: str = "",
    name: str = "",
    description: str = "",
    licence: str = "mit",
    data_seed: int = 0,
    gamma: float | None = None,
    seed: int | None = None,
    stage: str = "final",
    step: int = 0,
    reached: bool = True,
    training: Mapping[str, Any] = {},
    circuit: Circuit | None = None,
    readings: Sequence[Mapping[str, Any]] = (),
) -> SharedMember:
    """Write a member into a folder of its own, read it back, and return it. `Run.export` does it
    for one of a run.

    Args:
        path: the folder, which must be new or empty.
        model, weights: what it is, by TransformerLens name, as `train_members` leaves it.
        task, data: what it learned; ``data`` is drawn by ``data_seed`` if it is not given.
        study: an installed study that trains tasks of this class, by which the task is found again.
        name: by default that of the folder. description: in words. licence: of the weights, as the
            Hub spells it.
        gamma, seed: of its initialisation; both None for weights that were written by hand.
        stage, step: where in training it stands. reached: whether it came to the stage. training:
            its settings.
        circuit: None if nobody has named it. readings: rows of a table of readings.
    """
    from rb_interp.models.build import lens_model

    dtypes = {weight.dtype for weight in weights.values()}
    if dtypes not in ({torch.float32}, {torch.float64}):
        raise ModelError("give all weights as float32, or all of them as float64.")
    if not all(weight.isfinite().all() for weight in weights.values()):
        raise ModelError("not all weights are finite; a model that diverged is not shared.")
    (dtype,) = dtypes
    folder = Path(path)
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    if folder.is_file() or names - {WEIGHTS, CARD}:
        raise RunError(
            f"{folder} holds something; nothing was changed. Give the path of a new folder."
        )
    data = task.dataset(data_seed) if data is None else data
    d_vocab = vocabulary(task, data)
    built = lens_model(model, d_vocab, task.length, weights, dtype)
    contiguous = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    content_bytes = save(contiguous, {"format": "pt"})
    accuracies = single_threaded(evaluate_model)(built, data)
    installed = versions()
    content = {
        "format": FORMAT,
        "name": name or folder.resolve().name,
        "model": plain(model),
        "d_vocab": d_vocab,
        "n_ctx": task.length,
        "task": task_spec(task, study),
        "dtype": str(dtype).removeprefix("torch."),
        "description": description,
        "data_seed": data_seed,
        "gamma": gamma,
        "seed": seed,
        "stage": stage,
        "step": step,
        "checksum": "",
        "sha256": {WEIGHTS: hashlib.sha256(content_bytes).hexdigest()},
        "training": training,
        "circuit": asdict(circuit) if circuit else None,
        "reached": reached,
        "accuracy": {row["set"]: row["accuracy"] for row in accuracies},
        "readings": readings,
        "licence": licence,
        "versions": {package: installed[package] for package in NAMED_VERSIONS},
    }
    initial = initial_weights(model, content)
    if initial:
        content["checksum"] = checksum(initial)
    content = _finite(content)
    write_file(folder / WEIGHTS, content_bytes)
    write_file(folder / CARD, model_card(content).encode())
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    write_file(folder / FILE, text.encode())  # the last: without it there is no member
    return read(folder)


def task_spec(task: Task, study: str = "") -> dict[str, Any]:
    """What ``config.json`` says of a task; ``sources`` are settings that name files of whoever
    trained the member."""
    defaults = {}
    settings = {}
    if is_dataclass(task):  # another one is given again
        defaults = {field.name: field.default for field in fields(task)}
        settings = plain(task)
    sources = []
    generated = getattr(task, "generated", ())
    for name in getattr(task, "source_fields", ()):
        if getattr(task, name) not in (defaults.get(name), *generated):
            sources.append(name)
            settings[name] = defaults.get(name)
    return {
        "kind": class_name(task),
        "fingerprint": task.fingerprint(),
        "settings": settings,
        "study": study,
        "sources": sources,
    }


def _finite(value: Any) -> Any:
    """Plain data for JSON; numbers of a mapping that are not finite are left out."""
    if isinstance(value, Mapping):
        finite = {}
        for key, inner in value.items():
            if not isinstance(inner, float) or math.isfinite(inner):
                finite[str(key)] = _finite(inner)
        return finite
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def model_card(content: Mapping[str, Any]) -> str:
    """The text of ``README.md``, from what ``config.json`` says."""
    model = content["model"]
    circuit = content["circuit"]
    tags = ["transformer-lens", "mechanistic-interpretability", "initialisation", "rb-interp"]
    front = {"library_name": "rb-interp", "license": content["licence"], "tags": tags}
    draw_note = ""
    if content["seed"] is not None:
        draw_note = (
            f", scheme {model['scheme']}, gamma {content['gamma']:g}, seed {content['seed']}"
        )
    stage_note = ""
    if not content.get("reached", True):
        stage_note = " (which it never reached: these are its weights at the last step)"
    circuit_note = "Nobody has named it."
    shares = {}
    if circuit:
        front["circuit"] = circuit["name"]
        shares = circuit["shares"]
        reasons = [text for text in (circuit["named_by"], circuit["rule"]) if text]
        circuit_note = f"**{circuit['name']}**, named by {': '.join(reasons)}."
    entries = [f"{name}: {json.dumps(value)}" for name, value in front.items()]
    versions = [f"{name} {version}" for name, version in content["versions"].items()]
    return "\n\n".join(
        [
            "\n".join(["---", *entries, "---"]),
            f"# {content['name']}",
            content["description"],
            f"A {model['architecture']} of {model['n_layers']} layers (d_model {model['d_model']}, "
            f"norm {model['norm']}{draw_note}) on the task `{name_of_task(content)}`, at stage "
            f"{content['stage']}{stage_note}, step {content['step']:,}.",
            '```python\nimport rb_interp as rb\n\nmember = rb.from_pretrained("PATH OR HUB ID")\n'
            "member.model, member.task, member.untrained, member.circuit, member.readings\n```",
            f"## Circuit\n\n{circuit_note} Shares are of the change of the answer that a changed input "
            "makes, by exchange of activations, or of the accuracy lost by ablation, on rows that "
            "the member answers rightly. The documentation of rb_interp says how they can mislead, "
            "under *probes* and *interventions*.",
            _table("share", shares),
            "## Rows answered rightly",
            _table("set", content["accuracy"]),
            "## Training" if content["training"] else "Weights were written by hand.",
            _table("setting", content["training"]),
            f"Versions: {', '.join(versions)}.\n",
        ]
    )


def _table(name: str, rows: Mapping[str, Any]) -> str:
    """A table of Markdown; nothing without rows."""
    if not rows:
        return ""
    lines = [f"| {name} | value |", "| --- | --- |"]
    for key, value in rows.items():
        cell = f"{value:.4g}" if isinstance(value, float) else value
        escaped = str(key).replace("|", r"\|")
        lines.append(f"| {escaped} | {cell} |")
    return "\n".join(lines)


@checked
def push_to_hub(path: Path | str, repo_id: str, *, private: bool | None = None) -> str:
    """Upload a member's folder, or one that holds several, to a repository of the Hub; returns the
    commit's address.

    The repository is made if there is none. Every member is read first, so a damaged one is not
    uploaded. Files of other names are left out. ``huggingface_hub`` knows whose account it is (``hf
    auth login``).

    Args:
        path: the folder. repo_id: ``owner/name``. private: of a new repository; None is the
            account's own default.
    """
    import huggingface_hub

    folder = Path(path)
    names = members(folder) or [""]
    for name in names:
        read(folder / name)
    files = [CARD]
    for name in names:
        files += [str(Path(name) / file) for file in (FILE, WEIGHTS, CARD)]
    huggingface_hub.create_repo(repo_id, private=private, exist_ok=True)
    commit = huggingface_hub.upload_folder(
        repo_id=repo_id, folder_path=folder, allow_patterns=files
    )
    return commit.commit_url
