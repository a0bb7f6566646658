r"""Metrics: one number for each row, from the logits at the position where its answer is read.

    logit_diff    logit of the clean answer less that of the corrupted one, in nats; or of two tokens
    logit         logit of the clean answer, or of a token
    probability   of the clean answer, or of a token, in [0, 1]
    loss          cross entropy of the clean answer, in nats
    accuracy      1 where the clean answer is the most likely one, else 0
    rank          tokens that are likelier than the clean answer: 0 where it is the most likely one
    kl            sum_t p(t) ln(p(t) / q(t)), p of the clean run and q of the present one, in nats

A metric is a name of these, what ``logit_diff``, ``logit`` and ``probability`` give for tokens, or
any function

    metric(logits, clean, corrupted) -> one number for each row

``logits`` ``[row, d_vocab]`` are those of the run at hand at each row's answer position, on CPU,
all rows in order. ``clean`` and ``corrupted`` are the `Answers` of the two kinds of rows as they
are: their ``logits`` ``[row, d_vocab]`` and ``labels`` ``[row]``, or None without labels. With a
single kind of rows, as in an ablation, ``corrupted`` is None. Attribution patching differentiates
the function.

``answer_at`` is a position for all rows (negative ones count from the end), a role that stands at
one position of each row, or positions ``[row]``; by default the role ``last`` of the rows, or their
last position.

How it can mislead. ``probability`` and ``accuracy`` are saturated where a model is sure, and then
show nothing of what is lost. ``logit_diff`` sees two tokens and misses damage to all others; ``kl``
sees all of them, and counts harmless changes too (Heimersheim and Nanda, arXiv 2404.15255; Zhang
and Nanda, arXiv 2309.16042).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.interventions import sites
from rb_interp.interventions.edits import Edit, last_logits
from rb_interp.models.protocol import HookedModel
from rb_interp.tasks.inputs import Inputs

__all__ = [
    "METRICS",
    "Answers",
    "Metric",
    "logit",
    "logit_diff",
    "measure",
    "metric_of",
    "probability",
]


class Answers(NamedTuple):
    """What a model answers on some rows as they are."""

    logits: Float[Tensor, "row d_vocab"]
    """Logits at each row's answer position."""
    labels: Int[Tensor, " row"] | None
    """Right answers, or None without labels."""


Function = Callable[[Tensor, Answers, Answers | None], Any]


@dataclass(frozen=True)
class Metric:
    """A function of the logits with a name."""

    name: str
    """As it stands in tables."""
    function: Function
    """Of logits, clean and corrupted, see the module's docstring."""
    worse: int = 0
    """1 if a rise is a loss, -1 if a fall is, 0 if nobody knows."""
    needs: int = 0
    """Labels that it reads: 0 none, 1 those of clean rows, 2 those of corrupted ones too."""

    @property
    def change(self) -> str:
        """The name of a loss: ``loss_increase``, ``accuracy_drop``, or ``_change`` for worse 0."""
        return self.name + {1: "_increase", -1: "_drop", 0: "_change"}[self.worse]


MetricLike = str | Metric | Function
"""The name of a metric, such as 'kl', or a function of (logits, clean, corrupted)."""
TokenChoice = int | np.ndarray | Tensor | None
"""One token for all rows, or one for each row."""
AnswerAt = int | str | np.ndarray | Tensor | None
"""A position, a role, positions ``[row]``, or None for the last position."""


@checked
def logit_diff(a: TokenChoice = None, b: TokenChoice = None) -> Metric:
    """Logit of token ``a`` less that of ``b``, in nats.

    Args:
        a: one token for all rows or ``[row]``; by default the clean answer.
        b: one token for all rows or ``[row]``; by default the corrupted answer.

    >>> logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 5.0]])
    >>> measure(logit_diff(1, [0, 2]), logits, Answers(logits, None)).tolist()
    [3.0, -5.0]
    """

    def function(logits: Tensor, clean: Answers, corrupted: Any) -> Tensor:
        return _logit_of(logits, a, clean).double() - _logit_of(logits, b, corrupted).double()

    needs = int(a is None) if b is not None else 2
    return Metric("logit_diff", function, worse=-1, needs=needs)


@checked
def logit(token: TokenChoice = None) -> Metric:
    """Logit of a token, one for all rows or ``[row]``, or of the clean answer."""

    def function(logits: Tensor, clean: Answers, _: Any) -> Tensor:
        return _logit_of(logits.double(), token, clean)

    return Metric("logit", function, worse=-1, needs=int(token is None))


@checked
def probability(token: TokenChoice = None) -> Metric:
    """Probability of a token, one for all rows or ``[row]``, or of the clean answer, in [0, 1]."""

    def function(logits: Tensor, clean: Answers, _: Any) -> Tensor:
        return _logit_of(logits.double().softmax(-1), token, clean)

    return Metric("probability", function, worse=-1, needs=int(token is None))


def _loss(logits: Tensor, clean: Answers, _: Any) -> Tensor:
    return logits.double().logsumexp(-1) - _logit_of(logits, None, clean).double()


def _accuracy(logits: Tensor, clean: Answers, _: Any) -> Tensor:
    return (logits.argmax(-1) == clean.labels).double()


def _rank(logits: Tensor, clean: Answers, _: Any) -> Tensor:
    return (logits > _logit_of(logits, None, clean)[:, None]).sum(-1).double()


def _kl(logits: Tensor, clean: Answers, _: Any) -> Tensor:
    expected = clean.logits.double().log_softmax(-1)
    actual = logits.double().log_softmax(-1)
    p = expected.exp()
    return torch.where(p > 0, p * (expected - actual), 0).sum(-1)


METRICS = {
    "logit_diff": logit_diff(),
    "logit": logit(),
    "probability": probability(),
    "loss": Metric("loss", _loss, worse=1, needs=1),
    "accuracy": Metric("accuracy", _accuracy, worse=-1, needs=1),
    "rank": Metric("rank", _rank, worse=1, needs=1),
    "kl": Metric("kl", _kl, worse=1),
}
"""Name -> metric."""


def metric_of(metric: MetricLike) -> Metric:
    """The metric that a name stands for, or that a function is.

    Raises:
        ModelError: no metric has this name.

    >>> metric_of("kl").change, metric_of(lambda logits, clean, corrupted: logits[:, 0]).change
    ('kl_increase', 'function_change')
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        if metric not in METRICS:
            raise ModelError(f"there is no metric '{metric}'; {nearest(metric, METRICS)}")
        return METRICS[metric]
    name = getattr(metric, "__name__", type(metric).__name__)
    return Metric("function" if name == "<lambda>" else name, metric)


def measure(
    metric: Metric, logits: Tensor, clean: Answers, corrupted: Answers | None = None
) -> Float[Tensor, " row"]:
    """The metric of each row, in float64; with its gradient if the logits carry one.

    Raises:
        ModelError: rows lack the labels that the metric reads, or it gives no number for each row.
    """
    if metric.needs == 2 and corrupted is None:
        raise ModelError(
            f"{metric.name} compares the answers of clean and corrupted rows, and this call has "
            f"one kind of rows; name two tokens, rb_interp.interventions.metrics.logit_diff(a, b), "
            f"or use a metric of one answer, such as 'logit' or 'loss'."
        )
    for answers in (clean, corrupted)[: metric.needs]:
        if answers is None or answers.labels is None:
            raise ModelError(
                f"{metric.name} needs the right answer of each clean row, and of the corrupted "
                f"ones if it compares them; pass Inputs(tokens, labels, roles), or give tokens: "
                f"rb_interp.interventions.metrics.logit_diff(a, b)."
            )
    if logits.element_size() < 4:
        logits = logits.float()
    values = metric.function(logits, clean, corrupted)
    if not isinstance(values, Tensor):
        values = torch.as_tensor(np.asarray(values))
    if values.shape != logits.shape[:1]:
        raise ModelError(
            f"the metric '{metric.name}' gave shape {list(values.shape)}; expected a number for "
            f"each row."
        )
    return values.cpu().double()


def _logit_of(
    logits: Float[Tensor, "row d_vocab"], tokens: TokenChoice, answers: Any
) -> Float[Tensor, " row"]:
    """The logit of one token in each row, by default of the right answer."""
    ids_or_labels = answers.labels if tokens is None else tokens
    ids = torch.as_tensor(ids_or_labels, device=logits.device).long()
    if ids.ndim and ids.shape != logits.shape[:1]:  # gather takes fewer rows without a word
        raise ModelError(
            f"got tokens of shape {list(ids.shape)} for {len(logits)} rows; give one token, or one "
            f"a row."
        )
    return logits.gather(1, ids.expand(len(logits))[:, None])[:, 0]


def answer_positions(answer_at: AnswerAt, rows: Inputs) -> Int[Tensor, " row"]:
    """The position of each row's answer.

    Raises:
        ModelError: it is not one position of each row, or outside the rows.
        RolesError: the rows have no such role.

    >>> answer_positions(-3, Inputs([[1, 2, 3, 4]])), answer_positions(None, Inputs([[1, 2]]))
    (tensor([1]), tensor([1]))
    """
    n_rows, length = rows.tokens.shape
    if answer_at is None:
        answer_at = "last" if "last" in rows.roles.positions else -1
    if isinstance(answer_at, str):
        positions = sites.positions(rows, answer_at)
    else:
        positions = np.asarray(answer_at)
    if positions.shape[1:] == (1,):
        positions = positions[:, 0]
    if positions.dtype.kind not in "iu" or positions.shape not in ((), (n_rows,)):
        raise ModelError(
            f"got answer_at of shape {list(positions.shape)} and type {positions.dtype}; expected "
            f"a position, a role at one position of each row, or {n_rows} positions."
        )
    low, high = np.min(positions), np.max(positions)
    if not -length <= low <= high < length:
        extreme = low if low < -length else high
        raise ModelError(
            f"got answer_at={extreme}; these rows have the positions 0 to {length - 1}, or "
            f"{-length} to -1 from the end."
        )
    return torch.from_numpy(np.broadcast_to(positions, n_rows).astype(np.int64) % length)


def answer_logits(
    model: HookedModel,
    rows: Inputs,
    edits: Sequence[Edit],
    answer_at: AnswerAt,
) -> Float[Tensor, "row d_vocab"]:
    """Logits that the answers are read from, under edits, on CPU."""
    if (
        answer_at is None and "last" not in rows.roles.positions
    ):  # a model of the summed embeddings has one position alone
        return last_logits(model, rows.tokens, edits)
    return last_logits(model, rows.tokens, edits, positions=answer_positions(answer_at, rows))
