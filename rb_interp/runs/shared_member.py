"""A shared member as it is read: a folder with weights, task, circuit and readings.

    config.json             what the member is (`Content`), with the SHA-256 of the file of weights
    model.safetensors       its weights, by TransformerLens name
    README.md               its card, written from ``member_card.md.jinja``

A member is refused if it is not what its ``config.json`` says: its weights by their SHA-256, untrained weights that are
drawn again by their checksum, its task by class and fingerprint. Nothing in the folder is executed. No class is
imported by its name in a file, except a task of this package.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load
from torch import Tensor

from rb_interp.errors import RbInterpError, RunError, first_line
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.runs.protocol import study
from rb_interp.settings import class_name, overlay, plain
from rb_interp.tasks.dataset import Task
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.models.protocol import HookedModel

FORMAT = "rb_interp member 2"
FILE, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


@dataclass(frozen=True)
class Circuit:
    """What a member learned, by name, and how sure that is.

    Attributes:
        name: the circuit.
        named_by: how it was named, such as ``cause``: by interventions.
        rule: the criterion of the name, in words.
        shares: what the name rests on: quantity -> share of the answer's change, in [0, 1]; NaN if no row counts.
    """

    name: str
    named_by: str
    rule: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """What ``config.json`` says of a member.

    Attributes:
        name, description: of the member. model, d_vocab, n_ctx, dtype: what the weights are.
        task: what it was trained on, see `task_spec`. data_seed: of the rows that it learned.
        gamma, seed: of its initialisation; both None for weights that no scheme has drawn.
        stage, step: where in training it stands.
        untrained: ``drawn`` (from scheme, gamma and seed), or ``none``. checksum: of the untrained weights.
        sha256: of the file of weights. training: settings of the training. circuit: None if nobody has named it.
        accuracy: set -> share of its rows that are answered rightly. readings: rows of a table of readings.
        licence: of the weights, as the Hub spells it. versions: of what made it.
    """

    name: str
    model: ModelConfig
    d_vocab: int
    n_ctx: int
    task: Mapping[str, Any]
    dtype: str = "float32"
    description: str = ""
    data_seed: int = 0
    gamma: float | None = None
    seed: int | None = None
    stage: str = "final"
    step: int = 0
    untrained: str = "none"
    checksum: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    circuit: Circuit | None = None
    accuracy: Mapping[str, float] = field(default_factory=dict)
    readings: Sequence[Mapping[str, Any]] = ()
    licence: str = "mit"
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class SharedMember:
    """A member with what belongs to it. Models, task and data are made when they are asked for, once.

    Attributes:
        content: what its ``config.json`` says. card: its ``README.md``. folder: where it was read.
        weights: by TransformerLens name. initial: the untrained weights; empty if it has none.
        given: a task that the caller gave.
    """

    content: Content
    card: str
    folder: Path
    weights: Mapping[str, Tensor]
    initial: Mapping[str, Tensor]
    given: Task | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.content.name

    @property
    def circuit(self) -> Circuit | None:
        """The name of its circuit, with the shares that it rests on; None if nobody has named it."""
        return self.content.circuit

    @property
    def accuracy(self) -> dict[str, float]:
        """Set -> share of up to 1,000 of its rows that are answered rightly, as measured when it was written."""
        return dict(self.content.accuracy)

    @property
    def config(self) -> ModelConfig:
        """Sizes and all else of its model."""
        return self.content.model

    @property
    def readings(self) -> pd.DataFrame:
        """What was read of it, one row a quantity; columns as of `Reading.to_frame`, with stage, step and set."""
        import pandas as pd

        return pd.DataFrame(list(self.content.readings))

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

        content = self.content
        return lens_model(content.model, content.d_vocab, content.n_ctx, weights, getattr(torch, content.dtype))

    @cached_property
    def task(self) -> Task:
        """The task that it learned, with its settings.

        Raises RunError if the task's class is not installed, is another one now, or reads files of whoever trained the
        member; ``from_pretrained(..., task=...)`` takes one.
        """
        spec, remedy = self.content.task, f"give yours: from_pretrained(..., member='{self.name}', task=...)."
        try:
            task = _made(spec) if self.given is None else self.given
        except (RbInterpError, ImportError, AttributeError, TypeError) as error:
            raise RunError(f"the task of '{self.name}' cannot be made here ({first_line(error)}); {remedy}") from None
        told, now = (spec["kind"], spec["fingerprint"]), (class_name(task), task.fingerprint())
        if told != now:
            raise RunError(
                f"'{self.name}' learned a {' with the fingerprint '.join(told)}; this one is a {' with '.join(now)}. "
                f"Use the version of the code that it was made with, or {remedy}"
            )
        return task

    @cached_property
    def data(self) -> Any:
        """The rows that it learned, drawn again by its data seed; raises as `task` does."""
        return self.task.dataset(self.content.data_seed)

    @typed
    def inputs(self, set: str, n: int = 1000) -> Inputs:
        """Tokens, labels and roles of up to ``n`` rows of a set, the same at every call."""
        return self.data.inputs(self.data.sample(set, n))

    def __repr__(self) -> str:
        content, task = self.content, self.content.task["kind"].rpartition(":")[2]
        drawn = "" if content.seed is None else f", gamma {content.gamma:g}, seed {content.seed}"
        circuit = content.circuit.name if content.circuit else "not named"
        return f"SharedMember({self.name}: circuit {circuit}, {task}{drawn}, {content.stage}, step {content.step:,})"


def read(folder: Path, task: Any = None) -> SharedMember:
    """The member in a folder; raises as `from_pretrained`."""
    content = read_content(folder)
    path, initial = folder / WEIGHTS, {}
    held = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(held).hexdigest() != content.sha256.get(WEIGHTS):
        raise RunError(f"{path} is missing or damaged: its SHA-256 is not the one in {FILE}. Get a sound copy.")
    if content.untrained == "drawn":
        sizes = content.model, content.d_vocab, content.n_ctx
        initial = drawn_weights(*sizes, content.gamma, content.seed, content.dtype)
        if checksum(initial) != content.checksum:
            made = ", ".join(f"{name} {version}" for name, version in content.versions.items())
            raise RunError(
                f"{folder} has another checksum of its untrained weights than scheme, gamma {content.gamma} and seed "
                f"{content.seed} give here; use the versions that it was made with: {made}."
            )
    card = folder / CARD
    return SharedMember(content, card.read_text("utf-8") if card.exists() else "", folder, load(held), initial, task)


def read_content(folder: Path) -> Content:
    """What ``config.json`` in a member's folder says; RunError if it does not describe a member."""
    path = folder / FILE
    try:
        told = json.loads(path.read_text("utf-8"))
        if told.pop("format") != FORMAT:
            raise RunError(f"its format is not '{FORMAT}', which this version reads")
        told["model"] = overlay(ModelConfig(), told["model"], "model")
        told["circuit"] = told["circuit"] and Circuit(**told["circuit"])
        return Content(**told)
    except (OSError, RbInterpError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} does not say what a member is ({first_line(error)}); get a sound copy.") from None


def drawn_weights(
    model: ModelConfig, d_vocab: int, n_ctx: int, gamma: float | None, seed: Any, dtype: str
) -> dict[str, Tensor]:
    """The weights that a scheme draws, as training begins with them."""
    weights = draw(model, d_vocab, n_ctx, gamma, seed)
    return {name: torch.from_numpy(weight).to(getattr(torch, dtype)) for name, weight in weights.items()}


def checksum(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and bits of weights.

    >>> checksum({"a": torch.zeros(2)}) == checksum({"a": torch.zeros(2)}) != checksum({"b": torch.zeros(2)})
    True
    """
    total = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        total.update(f"{name} {list(weight.shape)} {weight.dtype}\n".encode())
        total.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def content_bytes(content: Content) -> bytes:
    """The bytes of ``config.json``; what is not finite is left out."""
    told = {"format": FORMAT, **asdict(content), "model": plain(content.model)}
    return json.dumps(_plain(told), indent=1, allow_nan=False, ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if not isinstance(v, float) or math.isfinite(v)}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def task_spec(task: Task, study: str = "") -> dict[str, Any]:
    """What ``config.json`` says of a task.

    That is ``kind``, its class as ``module:qualname``; ``fingerprint``, of class and settings; ``settings``; ``study``,
    the name of a study that trains tasks of this class; and ``sources``, settings that name files of whoever trained
    the member, and are left out.
    """
    defaults = {f.name: f.default for f in fields(task)} if is_dataclass(task) else {}  # others have to be given again
    sources = [name for name in getattr(task, "source_fields", ()) if getattr(task, name) != defaults.get(name)]
    settings = (plain(task) if defaults else {}) | {name: defaults.get(name) for name in sources}
    told = {"kind": class_name(task), "fingerprint": task.fingerprint(), "settings": settings}
    return {**told, "study": study, "sources": sources}


def _made(spec: Mapping[str, Any]) -> Task:
    """A task from its description: of a class of this package, or of one that its study has in a preset."""
    if spec["sources"]:
        raise RunError(f"it reads files of whoever trained the member: {', '.join(spec['sources'])}")
    kind = spec["kind"]
    module, _, name = kind.partition(":")
    if re.fullmatch(r"rb_interp\.tasks\.\w+:[A-Z]\w*", kind):
        tasks: list[Any] = [getattr(import_module(module), name)()]
    else:
        config = study(spec["study"]).load("config")
        presets = [config.from_preset(preset) for preset in config.PRESETS]
        tasks = [sweep.task for preset in presets for sweep in preset.sweeps.values()]
    for task in tasks:
        if class_name(task) == kind and is_dataclass(task):
            return overlay(task, spec["settings"], "the task's settings")
    raise RunError(f"{kind} is no task of this package, and the study '{spec['study']}' trains none of this class")
