"""A shared member as it is read: a model, the task that it learned, and what was measured of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import RbInterpError, RunError, first_line, printable
from rb_interp.models.config import ModelConfig
from rb_interp.runs.registry import study as find_study
from rb_interp.runs.sharing.circuit import Circuit
from rb_interp.runs.sharing.content import NONE, Content, TaskTold
from rb_interp.settings import class_name, overlay
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.protocol import Task

if TYPE_CHECKING:
    import pandas as pd

    from rb_interp.models.protocol import HookedModel


OWN = re.compile(r"rb_interp\.tasks\.\w+:[A-Z]\w*")
"""Classes that a file may name: tasks of this package."""


@dataclass(frozen=True, eq=False, repr=False)
class SharedMember:
    """A member with what belongs to it. Models, task and data are made when they are asked for, once.

    Attributes:
        content: what its ``config.json`` says. card: its ``README.md``, as it stands in the file.
        weights: by TransformerLens name. initial: the untrained weights; empty where it has none.
        folder: where it was read; None for one of the Hub.
        given: a task that the caller gave.
    """

    content: Content
    card: str
    weights: Mapping[str, Tensor]
    initial: Mapping[str, Tensor]
    folder: Path | None = None
    given: Task | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.content.name

    @property
    def circuit(self) -> Circuit | None:
        """The name of its circuit, with the shares that it rests on; None where nobody has named it."""
        return self.content.circuit

    @property
    def accuracy(self) -> dict[str, float]:
        """Set -> share of up to 1,000 of its rows that are answered rightly, as it was measured when it was written."""
        return dict(self.content.accuracy)

    @property
    def config(self) -> ModelConfig:
        """Sizes and all else of its model."""
        return self.content.model

    @cached_property
    def model(self) -> HookedModel:
        """The TransformerLens model, with exactly these weights, on CPU."""
        return self._model(self.weights)

    @cached_property
    def untrained(self) -> HookedModel | None:
        """The same model at step 0, bit for bit; None for weights that were written by hand."""
        return None if self.content.untrained == NONE else self._model(self.initial)

    def _model(self, weights: Mapping[str, Tensor]) -> HookedModel:
        from rb_interp.models.build import lens_model

        told = self.content
        return lens_model(told.model, told.d_vocab, told.n_ctx, weights, getattr(torch, told.dtype))

    @cached_property
    def task(self) -> Task:
        """The task that it learned, with its settings.

        Raises RunError where the task's class is not installed, is another one now, or reads files of whoever trained
        the member; ``from_pretrained(..., task=...)`` takes one.
        """
        return task_of(self.content.task, self.given, self.name)

    @cached_property
    def data(self) -> Any:
        """The rows that it learned, drawn again by its data seed; raises as `task` does."""
        return self.task.dataset(self.content.data_seed)

    @checked
    def inputs(self, set: str, n: int = 1000) -> Inputs:
        """Tokens, labels and roles of up to ``n`` rows of a set, the same at every call."""
        return self.data.inputs(self.data.sample(set, n))

    @property
    def readings(self) -> pd.DataFrame:
        """What was read of it, one row a quantity; columns as of `Reading.to_frame`, with stage, step and set."""
        import pandas as pd

        return pd.DataFrame(list(self.content.readings))

    @checked
    def push_to_hub(self, repo_id: str, *, private: bool | None = None) -> str:
        """Upload its folder to the Hub; see `push_to_hub`. RunError for a member that was read from the Hub."""
        from rb_interp.runs.sharing.hub import push_to_hub

        if self.folder is None:
            raise RunError(f"'{self.name}' was read from the Hub and has no folder here; export or save it first.")
        return push_to_hub(self.folder, repo_id, private=private)

    def _facts(self) -> dict[str, str]:
        told = self.content
        drawn = {} if told.gamma is None else {"gamma": f"{told.gamma:g}"}
        drawn |= {} if told.seed is None else {"seed": str(told.seed)}
        named = "not named" if told.circuit is None else repr(told.circuit).removeprefix("Circuit: ")
        right = ", ".join(f"{name} {value:.2f}" for name, value in told.accuracy.items())
        task = told.task.kind.rpartition(":")[2]
        return {
            "circuit": named,
            "task": task,
            **drawn,
            "stage": f"{told.stage}, step {told.step:,}",
            "accuracy": right,
        }

    def __repr__(self) -> str:
        facts = self._facts()
        drawn = "".join(f", {name} {facts[name]}" for name in ("gamma", "seed") if facts.get(name))
        circuit = "not named" if self.circuit is None else self.circuit.name
        return printable(f"SharedMember({self.name}: circuit {circuit}, {facts['task']}{drawn}, {facts['stage']})")

    def _repr_html_(self) -> str:
        facts = {"member": self.name, **self._facts()}
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(printable(told))}</td></tr>" for name, told in facts.items())
        return f"<table>{''.join(rows)}</table>"


def task_of(told: TaskTold, given: Task | None, name: str) -> Task:
    """The task that a file tells of: the given one, or one that an installed study brings. RunError as of ``task``.

    A class is imported by the name in a file only where it is a task of this package. Others are looked for among the
    tasks of the study that the file names, which is found by its entry point.
    """
    ask = f"give yours: from_pretrained(..., member='{name}', task=...)."
    if given is not None:
        found = given
    elif told.sources:
        raise RunError(
            f"'{name}' learned a task that reads files of whoever trained it ({', '.join(told.sources)}); {ask}"
        )
    else:
        try:
            found = overlay(_prototype(told), told.settings, "the task's settings")
        except RbInterpError as error:
            raise RunError(f"the task of '{name}' cannot be made here ({first_line(error)}); {ask}") from None
    if (class_name(found), found.fingerprint()) != (told.kind, told.fingerprint):
        raise RunError(
            f"'{name}' learned a {told.kind} with the fingerprint {told.fingerprint}; this one is a "
            f"{class_name(found)} with {found.fingerprint()}. Use the version of the code that it was made with, or "
            f"{ask}"
        )
    return found


def _prototype(told: TaskTold) -> Task:
    """A task of the class that is told: one of this package, or one that its study has in a preset."""
    if OWN.fullmatch(told.kind):
        module, _, name = told.kind.partition(":")
        with suppress(ImportError, AttributeError, TypeError, RbInterpError):
            kind: Any = getattr(import_module(module), name)
            if isinstance(kind, type) and isinstance(task := kind(), Task) and is_dataclass(kind):
                return task
    if not told.study:
        raise RunError(f"{told.kind} is no task of this package, and no study is named that brings it")
    config = find_study(told.study).load("config")
    tasks: list[Any] = [sweep.task for preset in config.PRESETS for sweep in config.from_preset(preset).sweeps.values()]
    for task in tasks:
        if class_name(task) == told.kind and is_dataclass(task):
            return cast(Task, task)
    raise RunError(f"study '{told.study}' trains no {told.kind}")
