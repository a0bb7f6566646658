"""Where answers are read, and what edits cost them: the part that every intervention with an effect shares.

``answer_at`` is a position for all rows (negative ones count from the end), a role that stands at one position of each
row, or positions ``[row]``; by default the last position. Where two kinds of rows are compared, a role is looked up in
the roles of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import check_pairs, last_logits
from rb_interp.interventions.matrix import check_distinct
from rb_interp.interventions.metrics import Answers, Measured, Metric, labels_of, measure, metric_of
from rb_interp.interventions.sites import Edit, positions
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import check_labels
from rb_interp.probes.capturing import as_rows
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
        at = positions(roles or Roles(), answer_at, length, asker) if answer_at != "last" else np.full((n_rows, 1), -1)
        if len(at) != n_rows or at.shape[1] != 1:
            raise RolesError(
                f"{asker} got answer_at='{answer_at}', which stands at {at.shape[1]} positions of {len(at)} rows; an "
                f"answer is at one position of each of the {n_rows} rows."
            )
        at = at[:, 0]
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


def answer_logits(
    model: HookedModel, inputs: Inputs, edits: Sequence[Edit] = (), answer_at: AnswerAt = None, asker: str = "this call"
) -> Float[Tensor, "row d_vocab"]:
    """Logits that the answers are read from, under edits, on CPU."""
    rows = as_rows(inputs.tokens)
    at = answer_positions(answer_at, inputs.roles, len(rows), rows.shape[1], asker)
    return last_logits(model, rows, edits, at=at)


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
    """What edits cost each input of some rows, ``[row]``; ``quantity`` is its name.

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
        self.model, self.metric, self.asker = model, metric_of(metric), asker
        if self.metric.needs:
            check_labels(inputs, asker)
        self.logits = lambda edits=(): answer_logits(model, inputs, edits, answer_at, asker)
        """Logits that the answers are read from, under edits."""
        logits = self.logits() if logits is None else logits
        self.clean, self.quantity = answers_of(inputs, logits, self.metric, asker), self.metric.change
        self._before = self.measured(logits)

    def of(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """The cost of a run, by its logits."""
        after = self.measured(logits)
        return self._before - after if self.metric.worse < 0 else after - self._before

    def measured(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """The metric itself, of each row."""
        return measure(self.metric, logits, self.clean, None, self.asker).numpy()

    def effect(self, name: str, site: str, runs: Iterable[Tensor], control_name: str) -> Effect:
        """The cost of the first run, by its logits, beside those of the control's."""
        values, *other = map(self.of, runs)
        return Effect(name, site, self.quantity, values, np.reshape(other, (len(other), len(values))), control_name)
