"""Where answers are read, and what edits cost them: the part that every intervention with an effect shares.

``answer_at`` is a position for all rows (negative ones count from the end), a role that stands at one position of each
row, or positions ``[row]``; by default the last position. Where two kinds of rows are compared, a role is looked up in
the roles of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.hooking import logits_at
from rb_interp.interventions.matrix import check_distinct, check_pairs
from rb_interp.interventions.metrics import Answers, Measured, Metric, labels_of, measure, metric_of
from rb_interp.interventions.sites import Edit, positions
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows
from rb_interp.probes.check import check_labels
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles

AnswerAt = int | str | np.ndarray | Tensor | None
"""A position, a role, positions ``[row]``, or None for the last position."""


def answer_positions(
    answer_at: AnswerAt, roles: Roles | None, n_rows: int, length: int, asker: str = "this call"
) -> Int[Tensor, " row"] | None:
    """The position of each row's answer; None where it is the last one of every row.

    Raises ModelError for positions that rows do not have, RolesError for a role that is not at one position of each.

    >>> answer_positions(-3, None, 2, 8), answer_positions(7, None, 2, 8)
    (tensor([5, 5]), None)
    """
    if answer_at is None:
        return None
    if isinstance(answer_at, str):
        at = _of_role(answer_at, roles, n_rows, length, asker)
    else:
        at = np.asarray(answer_at)
        if at.dtype.kind not in "iu" or at.shape not in ((), (n_rows,)):
            raise ModelError(
                f"{asker} got answer_at of shape {list(at.shape)} and type {at.dtype}; expected a position, a role, "
                f"or whole numbers [{n_rows}], a position for each row."
            )
        at = np.broadcast_to(at, n_rows).astype(np.int64)
    if n_rows and not -length <= at.min() <= at.max() < length:
        raise ModelError(
            f"{asker} got answer_at from {at.min()} to {at.max()}; these rows have positions 0 to {length - 1}."
        )
    at = at % length
    return None if (at == length - 1).all() else torch.from_numpy(at)


def _of_role(role: str, roles: Roles | None, n_rows: int, length: int, asker: str) -> Int[np.ndarray, " row"]:
    at = positions(roles or Roles(), role, length, asker) if role != "last" else np.full((n_rows, 1), length - 1)
    if len(at) != n_rows or at.shape[1] != 1:
        raise RolesError(
            f"{asker} got answer_at='{role}', which stands at {at.shape[1]} positions of {len(at)} rows; an answer is "
            f"at one position of each of the {n_rows} rows."
        )
    return at[:, 0]


def answer_logits(
    model: HookedModel, inputs: Inputs, edits: Sequence[Edit] = (), answer_at: AnswerAt = None, asker: str = "this call"
) -> Float[Tensor, "row d_vocab"]:
    """Logits that the answers are read from, under edits, on CPU."""
    rows = as_rows(inputs.tokens)
    return logits_at(model, rows, answer_positions(answer_at, inputs.roles, len(rows), rows.shape[1], asker), edits)


def answers_of(
    inputs: Inputs, logits: Float[Tensor, "row d_vocab"], metric: Metric, asker: str, needed: bool = True
) -> Answers:
    """A model's answers on some rows; ModelError for labels that do not fit, or that a metric needs and lacks."""
    if inputs.labels is None and not (needed and metric.needs):
        return Answers(logits, None)
    return Answers(logits, labels_of(check_labels(inputs, asker), logits.shape[1]))


class Compared:
    """The metric of clean and corrupted rows as they are, ``[row]`` each, and of any other logits of such rows.

    Raises ModelError where rows are no pairs, and where the means of the two are the same.
    """

    def __init__(
        self,
        model: HookedModel,
        clean: Inputs,
        corrupted: Inputs,
        metric: Measured,
        asker: str,
        answer_at: AnswerAt = None,
        names: tuple[str, str] = ("clean", "corrupted"),
    ) -> None:
        check_pairs(names[0], as_rows(clean.tokens), names[1], as_rows(corrupted.tokens))
        self.metric, self.asker = metric_of(metric), asker
        first, second = (answer_logits(model, rows, (), answer_at, asker) for rows in (clean, corrupted))
        self.answers = (
            answers_of(clean, first, self.metric, asker, self.metric.needs > 0),
            answers_of(corrupted, second, self.metric, asker, self.metric.needs > 1),
        )
        self.clean, self.corrupted = self.of(first), self.of(second)
        check_distinct(self.clean, self.corrupted, self.metric.name, " ".join(names))

    def of(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """The metric of each row."""
        return measure(self.metric, logits, *self.answers, asker=self.asker).numpy()


class Cost:
    """What edits cost each input of some rows: ``cost(edits)`` is ``[row]``, and ``cost.quantity`` is its name.

    After less before, or before less after where a fall is worse, so that a positive number is a loss. ``logits`` are
    those of the untouched rows, where they are known.
    """

    def __init__(
        self,
        model: HookedModel,
        inputs: Inputs,
        metric: Measured,
        asker: str,
        answer_at: AnswerAt = None,
        logits: Float[Tensor, "row d_vocab"] | None = None,
    ) -> None:
        self.model, self.inputs, self.asker, self.answer_at = model, inputs, asker, answer_at
        self.metric = metric_of(metric)
        if self.metric.needs:
            check_labels(inputs, asker)
        logits = answer_logits(model, inputs, (), answer_at, asker) if logits is None else logits
        self.clean = answers_of(inputs, logits, self.metric, asker)
        self.quantity = self.metric.change
        self._before = self.measured(logits)

    def __call__(self, edits: Sequence[Edit] = ()) -> Float[np.ndarray, " row"]:
        return self.of(self.logits(edits))

    def logits(self, edits: Sequence[Edit] = ()) -> Float[Tensor, "row d_vocab"]:
        """Logits that the answers are read from, under edits."""
        return answer_logits(self.model, self.inputs, edits, self.answer_at, self.asker)

    def of(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """The same, of logits that are known."""
        after = self.measured(logits)
        return self._before - after if self.metric.worse < 0 else after - self._before

    def measured(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """The metric itself, of each row."""
        return measure(self.metric, logits, self.clean, None, self.asker).numpy()
