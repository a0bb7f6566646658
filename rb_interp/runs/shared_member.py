"""Members that are shared: folders with weights, task, circuit and readings, here, on the Hub, and
in the zoo.

    config.json             what the member is, with the SHA-256 of the file of weights
    model.safetensors       its weights, by TransformerLens name
    README.md               its card

A member is refused if it is not what its ``config.json`` says: its weights by their SHA-256,
untrained weights that are drawn again by their checksum, its task by class and fingerprint. Nothing
in the folder is executed. No class is imported by its name in a file, except a task of this
package.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load, save
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RbInterpError, RunError, first_line, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import draw
from rb_interp.runs.config import study as find_study
from rb_interp.runs.store import versions, write_file
from rb_interp.settings import class_name, overlay, plain
from rb_interp.tasks.dataset import Task, vocabulary
from rb_interp.tasks.inputs import Inputs
from rb_interp.training.members import evaluate_model
from rb_interp.training.store import checksum

FORMAT = "rb_interp member 2"
FILE, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
ZOO, ZOO_FOLDER = "zoo", Path(__file__).parent / "zoo"


@dataclass(frozen=True)
class Circuit:
    """What a member learned, by name, and how sure that is.

    Attributes:
        name: the circuit.
        named_by: how it was named, such as ``cause``: by interventions.
        rule: the criterion of the name, in words.
        shares: what the name rests on: quantity -> share of the answer's change, in [0, 1]; NaN if
            no row counts.
    """

    name: str
    named_by: str
    rule: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class SharedMember:
    """A member with what belongs to it. Models, task and data are made when they are asked for,
    once.

    Attributes:
        folder: where it was read. content: what its ``config.json`` says. card: its ``README.md``.
        circuit: None if nobody has named it. config: of its model.
        accuracy: set -> share of up to 1,000 of its rows that are answered rightly, as measured
            when it was written.
        weights: by TransformerLens name. initial: the untrained weights; empty for weights written
            by hand.
        given: a task that the caller gave.
    """

    folder: Path
    content: Mapping[str, Any]
    card: str
    name: str
    config: ModelConfig
    circuit: Circuit | None
    accuracy: Mapping[str, float]
    weights: Mapping[str, Tensor]
    initial: Mapping[str, Tensor]
    given: Task | None = None

    @property
    def readings(self) -> pd.DataFrame:
        """What was read of it, one row a quantity; columns as of `Reading.to_frame`, with stage,
        step and set."""
        return pd.DataFrame(list(self.content["readings"]))

    @cached_property
    def model(self) -> HookedModel:
        """The TransformerLens model, with exactly these weights, on CPU."""
        return self._model(self.weights)

    @cached_property
    def untrained(self) -> HookedModel | None:
        """The same model at step 0, bit for bit; None for weights that were written by hand."""
        return self._model(self.initial) if self.initial else None

    def _model(self, weights: Mapping[str, Tensor]) -> HookedModel:
        from rb_interp.models.build import lens_model

        told = self.content
        return lens_model(
            self.config, told["d_vocab"], told["n_ctx"], weights, getattr(torch, told["dtype"])
        )

    @cached_property
    def task(self) -> Task:
        """The task that it learned; RunError if its class is not here, is another one now, or reads
        files."""
        spec, remedy = (
            self.content["task"],
            f"give yours: from_pretrained(..., member='{self.name}', task=...).",
        )
        try:
            task = task_from(spec) if self.given is None else self.given
        except (RbInterpError, ImportError, AttributeError, TypeError) as error:
            why = f"the task of '{self.name}' cannot be made here ({first_line(error)})"
            raise RunError(f"{why}; {remedy}") from None
        told, now = (spec["kind"], spec["fingerprint"]), (class_name(task), task.fingerprint())
        if told != now:
            raise RunError(
                f"'{self.name}' learned a {' with the fingerprint '.join(told)}; this one is a "
                f"{' with '.join(now)}. "
                f"Use the version of the code that it was made with, or {remedy}"
            )
        return task

    @cached_property
    def data(self) -> Any:
        """The rows that it learned, drawn again by its data seed; raises as `task` does."""
        return self.task.dataset(self.content["data_seed"])

    @checked
    def inputs(self, set: str, n: int = 1000) -> Inputs:
        """Tokens, labels and roles of up to ``n`` rows of a set, the same at every call."""
        return self.data.inputs(self.data.sample(set, n))

    def __repr__(self) -> str:
        told = self.content
        drawn = "" if told["seed"] is None else f", gamma {told['gamma']:g}, seed {told['seed']}"
        circuit = self.circuit.name if self.circuit else "not named"
        where = f"{told['stage']}, step {told['step']:,}"
        return f"SharedMember({self.name}: circuit {circuit}, {_task_name(told)}{drawn}, {where})"


@checked
def from_pretrained(
    path: Path | str, *, member: str | None = None, revision: str | None = None, task: Any = None
) -> SharedMember:
    """A shared member: its TransformerLens model, its task, its untrained counterpart, its circuit
    and readings.

    Args:
        path: a folder that `Run.export` wrote, one that holds several of these, ``zoo`` for the
            members that come with the package, or the name of a repository of the Hugging Face Hub,
            ``owner/name``.
        member: which one, if there are several. revision: branch, tag or commit of the repository.
        task: the task that it learned, if its class is not installed here.

    >>> known = from_pretrained("zoo", member="average-then-key")
    >>> known.circuit.name, known.content["gamma"], tuple(known.model.W_E.shape)
    ('average-then-key', 0.8, (200, 64))
    >>> from rb_interp.probes import attention_by_role
    >>> inputs = known.inputs("rsn_test", 200)
    >>> reading = attention_by_role(known.model, inputs, layer=1, untrained=known.untrained)
    >>> reading.values["key"] > 0.9 > reading.untrained["key"]
    True
    """
    folder = ZOO_FOLDER if str(path) == ZOO else Path(path)
    if not folder.is_dir():
        import huggingface_hub

        chosen = None if member is None else [f"{member}/*", f"*/{FILE}"]
        try:
            folder = Path(
                huggingface_hub.snapshot_download(
                    str(path), revision=revision, allow_patterns=chosen
                )
            )
        except Exception as error:  # of the library, of the network, of the disk
            raise RunError(
                f"there is no folder {path} here, and no repository of that name could be had from "
                f"the Hub "
                f"({type(error).__name__}: {first_line(error)}); check the name, the revision and "
                f"the network."
            ) from None
    found = members(folder)
    if member is not None and member not in found:
        raise RunError(f"{path} holds no member '{member}'; {nearest(member, found)}")
    if member is None and not (folder / FILE).exists():
        if len(found) != 1:
            raise RunError(
                f"{path} holds {len(found)} members; name one with member=: {', '.join(found)}."
            )
        (member,) = found
    return read(folder / (member or ""), task)


@checked
def zoo(folder: Path = ZOO_FOLDER) -> pd.DataFrame:
    """The members that come with the package, or those of another folder, one row each.

    ``share`` is the least of those that the circuit's name rests on; NaN for ``mixed``. Gamma and
    seed are NaN for weights that were written by hand.

    >>> table = zoo()
    >>> len(table), "average-then-key" in set(table.member)
    (15, True)
    """
    rows = []
    for name in members(folder):
        told, config, circuit = read_content(folder / name)
        circuit = circuit or Circuit("", "")
        row = {
            "member": name,
            "task": _task_name(told),
            "norm": config.norm,
            "gamma": told["gamma"],
        }
        row |= {"seed": told["seed"], "circuit": circuit.name, "named_by": circuit.named_by}
        row["share"] = (
            math.nan if circuit.name == "mixed" else min(circuit.shares.values(), default=math.nan)
        )
        row["accuracy"] = ", ".join(
            f"{name} {value:.2f}" for name, value in told["accuracy"].items()
        )
        rows.append({**row, "bytes": (folder / name / WEIGHTS).stat().st_size})
    return pd.DataFrame(rows)


def members(folder: Path) -> list[str]:
    """Names of the members right in a folder."""
    return sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))


def read(folder: Path, task: Any = None) -> SharedMember:
    """The member in a folder; raises as `from_pretrained`."""
    told, config, circuit = read_content(folder)
    path, card = folder / WEIGHTS, folder / CARD
    held = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(held).hexdigest() != told["sha256"].get(WEIGHTS):
        raise RunError(
            f"{path} is missing or damaged: its SHA-256 is not the one in {FILE}. Get a sound copy."
        )
    initial = _drawn(config, told)
    if initial and checksum(initial) != told["checksum"]:
        made = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
        raise RunError(
            f"{folder} has another checksum of its untrained weights than scheme, gamma "
            f"{told['gamma']} and seed "
            f"{told['seed']} give here; use the versions that it was made with: {made}."
        )
    text = card.read_text("utf-8") if card.exists() else ""
    return SharedMember(
        folder,
        told,
        text,
        told["name"],
        config,
        circuit,
        told["accuracy"],
        load(held),
        initial,
        task,
    )


def read_content(folder: Path) -> tuple[dict[str, Any], ModelConfig, Circuit | None]:
    """What ``config.json`` in a member's folder says; RunError if it does not describe a member."""
    path = folder / FILE
    try:
        told = json.loads(path.read_text("utf-8"))
        if told["format"] != FORMAT:
            raise RunError(f"its format is not '{FORMAT}', which this version reads")
        config = overlay(ModelConfig(), told["model"], "model")
        return told, config, Circuit(**told["circuit"]) if told["circuit"] else None
    except (OSError, RbInterpError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path} does not say what a member is ({first_line(error)}); get a sound copy."
        ) from None


def _drawn(config: ModelConfig, told: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights that the scheme draws, as training begins with them; none without a seed."""
    if told["seed"] is None:
        return {}
    weights = draw(config, told["d_vocab"], told["n_ctx"], told["gamma"], told["seed"])
    return {
        name: torch.from_numpy(weight).to(getattr(torch, told["dtype"]))
        for name, weight in weights.items()
    }


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

    types = {weight.dtype for weight in weights.values()}
    if types not in ({torch.float32}, {torch.float64}):
        raise ModelError("give all weights as float32, or all of them as float64.")
    if not all(weight.isfinite().all() for weight in weights.values()):
        raise ModelError("not all weights are finite; a model that diverged is not shared.")
    folder, (dtype,) = Path(path), types
    if folder.exists() and (
        folder.is_file() or {path.name for path in folder.iterdir()} - {WEIGHTS, CARD}
    ):
        raise RunError(
            f"{folder} holds something; nothing was changed. Give the path of a new folder."
        )
    data = task.dataset(data_seed) if data is None else data
    d_vocab, n_ctx, installed = vocabulary(task, data), task.length, versions()
    built = lens_model(model, d_vocab, n_ctx, weights, dtype)
    packed = save(
        {name: weight.detach().cpu().contiguous() for name, weight in weights.items()},
        {"format": "pt"},
    )
    told = {
        "format": FORMAT,
        "name": name or folder.resolve().name,
        "model": plain(model),
        "d_vocab": d_vocab,
        "n_ctx": n_ctx,
        "task": task_spec(task, study),
        "dtype": str(dtype).removeprefix("torch."),
        "description": description,
        "data_seed": data_seed,
        "gamma": gamma,
        "seed": seed,
        "stage": stage,
        "step": step,
        "checksum": "",
        "sha256": {WEIGHTS: hashlib.sha256(packed).hexdigest()},
        "training": training,
        "circuit": asdict(circuit) if circuit else None,
        "reached": reached,
        "accuracy": {
            row["set"]: row["accuracy"] for row in single_threaded(evaluate_model)(built, data)
        },
        "readings": readings,
        "licence": licence,
        "versions": {
            name: installed[name] for name in ("rb-interp", "torch", "numpy", "transformer-lens")
        },
    }
    told["checksum"] = checksum(initial) if (initial := _drawn(model, told)) else ""
    told = _finite(told)
    write_file(folder / WEIGHTS, packed)
    write_file(folder / CARD, model_card(told).encode())
    content = json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False).encode()
    write_file(folder / FILE, content)  # the last: without it there is no member
    return read(folder)


def task_spec(task: Task, study: str = "") -> dict[str, Any]:
    """What ``config.json`` says of a task; ``sources`` are settings that name files of whoever
    trained the member."""
    defaults = (
        {f.name: f.default for f in fields(task)} if is_dataclass(task) else {}
    )  # others are given again
    sources = [
        name
        for name in getattr(task, "source_fields", ())
        if getattr(task, name) != defaults.get(name)
    ]
    settings = (plain(task) if defaults else {}) | {name: defaults.get(name) for name in sources}
    told = {"kind": class_name(task), "fingerprint": task.fingerprint(), "settings": settings}
    return {**told, "study": study, "sources": sources}


def task_from(spec: Mapping[str, Any]) -> Task:
    """A task from its description: of a class of this package, or of one that its study has in a
    preset."""
    if spec["sources"]:
        raise RunError(
            f"it reads files of whoever trained the member: {', '.join(spec['sources'])}"
        )
    kind = spec["kind"]
    module, _, name = kind.partition(":")
    if re.fullmatch(r"rb_interp\.tasks\.\w+:[A-Z]\w*", kind):
        tasks: list[Any] = [getattr(import_module(module), name)()]
    else:
        config = find_study(spec["study"]).load("config")
        presets = [config.from_preset(preset) for preset in config.PRESETS]
        tasks = [sweep.task for preset in presets for sweep in preset.sweeps.values()]
    for task in tasks:
        if class_name(task) == kind and is_dataclass(task):
            return overlay(task, spec["settings"], "the task's settings")
    raise RunError(
        f"{kind} is no task of this package, and the study '{spec['study']}' trains none of this "
        f"class"
    )


def _finite(value: Any) -> Any:
    """Plain data for JSON; numbers that are not finite are left out."""
    if isinstance(value, Mapping):
        return {
            str(k): _finite(v)
            for k, v in value.items()
            if not isinstance(v, float) or math.isfinite(v)
        }
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _task_name(told: Mapping[str, Any]) -> str:
    return told["task"]["kind"].rpartition(":")[2]


def model_card(told: Mapping[str, Any]) -> str:
    """The text of ``README.md``, from what ``config.json`` says."""
    model, circuit, seed = told["model"], told["circuit"], told["seed"]
    tags = ["transformer-lens", "mechanistic-interpretability", "initialisation", "rb-interp"]
    front = {"library_name": "rb-interp", "license": told["licence"], "tags": tags}
    drawn = (
        "" if seed is None else f", scheme {model['scheme']}, gamma {told['gamma']:g}, seed {seed}"
    )
    late = (
        ""
        if told.get("reached", True)
        else " (which it never reached: these are its weights at the last step)"
    )
    named = "Nobody has named it."
    if circuit:
        front["circuit"] = circuit["name"]
        by = ": ".join(filter(None, [circuit["named_by"], circuit["rule"]]))
        named = f"**{circuit['name']}**, named by {by}."
    return "\n\n".join(
        [
            "\n".join(
                ["---", *(f"{name}: {json.dumps(value)}" for name, value in front.items()), "---"]
            ),
            f"# {told['name']}",
            told["description"],
            f"A {model['architecture']} of {model['n_layers']} layers (d_model {model['d_model']}, "
            f"norm {model['norm']}"
            f"{drawn}) on the task `{_task_name(told)}`, at stage {told['stage']}{late}, step "
            f"{told['step']:,}.",
            '```python\nimport rb_interp as rb\n\nmember = rb.from_pretrained("PATH OR HUB ID")\n'
            "member.model, member.task, member.untrained, member.circuit, member.readings\n```",
            f"## Circuit\n\n{named} Shares are of the change of the answer that a changed input makes, by exchange of "
            "activations, or of the accuracy lost by ablation, on rows that the member answers "
            "rightly. The "
            "documentation of rb_interp says how they can mislead, under *probes* and "
            "*interventions*.",
            _table("share", circuit["shares"] if circuit else {}),
            "## Rows answered rightly",
            _table("set", told["accuracy"]),
            "## Training" if told["training"] else "Weights were written by hand.",
            _table("setting", told["training"]),
            "Versions: "
            + ", ".join(f"{name} {version}" for name, version in told["versions"].items())
            + ".\n",
        ]
    )


def _table(name: str, rows: Mapping[str, Any]) -> str:
    cells = [
        (key, f"{value:.4g}" if isinstance(value, float) else value) for key, value in rows.items()
    ]
    lines = [f"| {str(key).replace('|', chr(92) + '|')} | {value} |" for key, value in cells]
    return "\n".join([f"| {name} | value |", "| --- | --- |", *lines] if rows else [])


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
    files = [CARD, *(str(Path(name) / file) for name in names for file in (FILE, WEIGHTS, CARD))]
    huggingface_hub.create_repo(repo_id, private=private, exist_ok=True)
    commit = huggingface_hub.upload_folder(
        repo_id=repo_id, folder_path=folder, allow_patterns=files
    )
    return commit.commit_url
