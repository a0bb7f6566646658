"""Members that are shared, read: folders with weights, task, circuit and readings, here, on the
Hub, and in the zoo.

    config.json             what the member is, with the SHA-256 of the file of weights
    model.safetensors       its weights, by TransformerLens name
    README.md               its card

A member is refused if it is not what its ``config.json`` says: its weights by their SHA-256,
untrained weights that are drawn again by their checksum, its task by class and fingerprint. Nothing
in the folder is executed. No class is imported by its name in a file, except a task of this
package. ``runs.sharing`` writes such folders.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import RbInterpError, RunError, first_line, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import draw
from rb_interp.runs.config import find_study
from rb_interp.settings import class_name, overlay
from rb_interp.tasks.dataset import Task
from rb_interp.tasks.inputs import Inputs
from rb_interp.training.store import checksum

FORMAT = "rb_interp member 2"
FILE = "config.json"
WEIGHTS = "model.safetensors"
CARD = "README.md"
ZOO = "zoo"
ZOO_FOLDER = Path(__file__).parent / "zoo"


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

        content = self.content
        sizes = (content["d_vocab"], content["n_ctx"])
        return lens_model(self.config, *sizes, weights, getattr(torch, content["dtype"]))

    @cached_property
    def task(self) -> Task:
        """The task that it learned; RunError if its class is not here, is another one now, or reads
        files."""
        spec = self.content["task"]
        remedy = f"give yours: from_pretrained(..., member='{self.name}', task=...)."
        try:
            task = task_from(spec) if self.given is None else self.given
        except (RbInterpError, ImportError, AttributeError, TypeError) as error:
            raise RunError(
                f"the task of '{self.name}' cannot be made here ({first_line(error)}); {remedy}"
            ) from None
        learned = (spec["kind"], spec["fingerprint"])
        fingerprints = (class_name(task), task.fingerprint())
        if learned != fingerprints:
            raise RunError(
                f"'{self.name}' learned a {' with the fingerprint '.join(learned)}; this one is a "
                f"{' with '.join(fingerprints)}. Use the version of the code that it was made with, or "
                f"{remedy}"
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
        content = self.content
        circuit = self.circuit.name if self.circuit else "not named"
        parts = [f"circuit {circuit}", name_of_task(content)]
        if content["seed"] is not None:
            parts += [f"gamma {content['gamma']:g}", f"seed {content['seed']}"]
        parts += [content["stage"], f"step {content['step']:,}"]
        return f"SharedMember({self.name}: {', '.join(parts)})"


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

        patterns = None if member is None else [f"{member}/*", f"*/{FILE}"]
        try:
            downloaded = huggingface_hub.snapshot_download(
                str(path), revision=revision, allow_patterns=patterns
            )
        except Exception as error:  # of the library, of the network, of the disk
            raise RunError(
                f"there is no folder {path} here, and no repository of that name could be had "
                f"from the Hub ({type(error).__name__}: {first_line(error)}); check the name, the "
                f"revision and the network."
            ) from None
        folder = Path(downloaded)
    names = members(folder)
    if member is not None and member not in names:
        raise RunError(f"{path} holds no member '{member}'; {nearest(member, names)}")
    if member is None and not (folder / FILE).exists():
        if len(names) != 1:
            raise RunError(
                f"{path} holds {len(names)} members; name one with member=: {', '.join(names)}."
            )
        member = names[0]
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
        content, config, circuit = read_content(folder / name)
        circuit = circuit or Circuit("", "")
        share = math.nan
        if circuit.name != "mixed":
            share = min(circuit.shares.values(), default=math.nan)
        accuracies = [f"{set} {value:.2f}" for set, value in content["accuracy"].items()]
        rows.append(
            {
                "member": name,
                "task": name_of_task(content),
                "norm": config.norm,
                "gamma": content["gamma"],
                "seed": content["seed"],
                "circuit": circuit.name,
                "named_by": circuit.named_by,
                "share": share,
                "accuracy": ", ".join(accuracies),
                "bytes": (folder / name / WEIGHTS).stat().st_size,
            }
        )
    return pd.DataFrame(rows)


def members(folder: Path) -> list[str]:
    """Names of the members right in a folder."""
    return sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))


def read(folder: Path, task: Any = None) -> SharedMember:
    """The member in a folder; raises as `from_pretrained`."""
    content, config, circuit = read_content(folder)
    path = folder / WEIGHTS
    content_bytes = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content_bytes).hexdigest() != content["sha256"].get(WEIGHTS):
        raise RunError(
            f"{path} is missing or damaged: its SHA-256 is not the one in {FILE}. Get a sound copy."
        )
    initial = initial_weights(config, content)
    if initial and checksum(initial) != content["checksum"]:
        versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
        raise RunError(
            f"{folder} has another checksum of its untrained weights than scheme, gamma "
            f"{content['gamma']} and seed {content['seed']} give here; use the versions that it "
            f"was made with: {versions}."
        )
    card = folder / CARD
    return SharedMember(
        folder=folder,
        content=content,
        card=card.read_text("utf-8") if card.exists() else "",
        name=content["name"],
        config=config,
        circuit=circuit,
        accuracy=content["accuracy"],
        weights=load(content_bytes),
        initial=initial,
        given=task,
    )


def read_content(folder: Path) -> tuple[dict[str, Any], ModelConfig, Circuit | None]:
    """What ``config.json`` in a member's folder says; RunError if it does not describe a member."""
    path = folder / FILE
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != FORMAT:
            raise RunError(f"its format is not '{FORMAT}', which this version reads")
        config = overlay(ModelConfig(), content["model"], "model")
        circuit = Circuit(**content["circuit"]) if content["circuit"] else None
    except (OSError, RbInterpError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path} does not say what a member is ({first_line(error)}); get a sound copy."
        ) from None
    return content, config, circuit


def initial_weights(config: ModelConfig, content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights that the scheme draws, as training begins with them; none without a seed."""
    if content["seed"] is None:
        return {}
    sizes = (content["d_vocab"], content["n_ctx"])
    draws = draw(config, *sizes, content["gamma"], content["seed"])
    dtype = getattr(torch, content["dtype"])
    return {name: torch.from_numpy(weight).to(dtype) for name, weight in draws.items()}


def task_from(spec: Mapping[str, Any]) -> Task:
    """A task from its description: of a class of this package, or of one that its study has in a
    preset."""
    if spec["sources"]:
        sources = ", ".join(spec["sources"])
        raise RunError(f"it reads files of whoever trained the member: {sources}")
    kind = spec["kind"]
    module, _, name = kind.partition(":")
    if re.fullmatch(r"rb_interp\.tasks\.\w+:[A-Z]\w*", kind):
        tasks: list[Any] = [getattr(import_module(module), name)()]
    else:
        config = find_study(spec["study"]).load("config")
        presets = map(config.from_preset, config.PRESETS)
        tasks = [sweep.task for preset in presets for sweep in preset.sweeps.values()]
    for task in tasks:
        if class_name(task) == kind and is_dataclass(task):
            return overlay(task, spec["settings"], "the task's settings")
    raise RunError(
        f"{kind} is no task of this package, and the study '{spec['study']}' trains none of this "
        f"class"
    )


def name_of_task(content: Mapping[str, Any]) -> str:
    """The name of its task's class."""
    return content["task"]["kind"].rpartition(":")[2]
