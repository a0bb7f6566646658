"""What a task and its dataset must have to be trained on and probed. No class needs to be inherited.

A task is a few settings and a way to draw rows. ``tasks.dataset.Dataset`` is a dataset that fits any task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

Evaluation = Float[np.ndarray, "member set 2"]
"""One evaluation: loss (nats) and accuracy of every member on every set, sets in the task's order."""
HALF = 0.5
"""The stage ``half`` is where the loss on rsn_train is first at most this share of ln d_vocab."""


@typed
@dataclass(frozen=True)
class Stage:
    """When a member is kept.

    Attributes:
        reached: takes an evaluation and the one at step 0. Returns True for each member that the stage holds for.
        keep: ``first`` keeps the first such evaluation, or the last step if none comes. ``last`` keeps the last one.
        with_siblings: keep all members of the same seed too, in the same file.

    >>> learned = Stage(lambda now, start: now[:, 0, 1] >= 0.9)
    >>> learned.reached(np.array([[[0.1, 0.95]], [[2.0, 0.3]]]), np.zeros((2, 1, 2))).tolist()
    [True, False]
    """

    reached: Callable[[Evaluation, Evaluation], Bool[np.ndarray, " member"]]
    keep: Literal["first", "last"] = "first"
    with_siblings: bool = False


@runtime_checkable
class Dataset(Protocol):
    """What one seed draws."""

    @property
    def seed(self) -> int: ...

    @property
    def tokens(self) -> Int[np.ndarray, "row pos"]: ...

    @property
    def labels(self) -> Int[np.ndarray, "row ..."]:
        """The answer at the last position, or the next token at every position (-1: nothing to predict there)."""
        ...

    @property
    def sets(self) -> tuple[str, ...]: ...

    @property
    def batch_sets(self) -> tuple[str, ...]:
        """Names of sets; a training batch takes the same number of rows from each. ``("train",)`` is one pool."""
        ...

    def rows(self, set: str) -> Int[np.ndarray, " n"]:
        """Row numbers of a set, or of ``train``: all sets that are trained on."""
        ...

    def sample(self, set: str, n: int) -> Int[np.ndarray, " n"]:
        """Up to n rows of a set, the same at every call."""
        ...

    def inputs(self, rows: Int[np.ndarray, " n"]) -> Inputs:
        """Tokens, labels and roles of the given rows."""
        ...


@runtime_checkable
class Task(Protocol):
    """What is learned.

    ``counterfactual(data, rows, change, seed=0) -> Inputs`` is optional: the same rows with one thing changed, and
    their right answers. Patching asks for it. ``spectra`` is optional too, name -> token ids: groups of tokens whose
    embeddings' spectrum is kept at every evaluation (``training.tracking``).
    """

    @property
    def d_vocab(self) -> int: ...

    @property
    def length(self) -> int:
        """Positions that a model sees."""
        ...

    @property
    def sets(self) -> tuple[str, ...]: ...

    @property
    def train_sets(self) -> tuple[str, ...]:
        """Sets that are trained on. ``rb-interp patch`` takes rows of the last one where none is named."""
        ...

    @property
    def predicts(self) -> str:
        """``last``: the answer at the last position. ``next``: every next token."""
        ...

    @property
    def stages(self) -> Mapping[str, Stage]:
        """Points of a member's learning curves that training can keep, by name."""
        ...

    def dataset(self, seed: int) -> Dataset:
        """The rows of a seed; the same seed gives the same rows."""
        ...

    def fingerprint(self) -> str:
        """What the task is; ``tasks.fingerprint`` makes it for any dataclass."""
        ...


def vocabulary(task: Task, data: Dataset) -> int:
    """Tokens that a model must know: ``d_vocab`` of the dataset where it says one, else that of the task.

    The vocabulary of a text is known once its tokenizer is trained; the task's ``d_vocab`` is then the most that it may
    have.
    """
    return getattr(data, "d_vocab", task.d_vocab)
