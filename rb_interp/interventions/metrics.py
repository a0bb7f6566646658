r"""Metrics: one number for each row, from the logits at the position where its answer is read.

    logit_diff    logit of the clean answer less that of the corrupted one, or of token a less token b, in nats
    logit         logit of the clean answer, or of a token
    probability   of the clean answer, or of a token, in [0, 1]
    loss          cross entropy of the clean answer, in nats
    accuracy      1 where the clean answer is the most likely one, else 0
    rank          tokens that are likelier than the clean answer: 0 where it is the most likely one
    kl            sum_t p(t) ln(p(t) / q(t)), p of the clean run and q of the present one, in nats

A metric is a name of these, what ``logit_diff``, ``logit`` and ``probability`` give for tokens, or any function

    metric(logits, clean, corrupted) -> one number for each row

``logits`` ``[row, d_vocab]`` are those of the run at hand at each row's answer position, on CPU, all rows in order.
``clean`` and ``corrupted`` are the `Answers` of the two kinds of rows as they are: ``clean.logits`` ``[row, d_vocab]``
and ``clean.labels`` ``[row]`` (None where the inputs have none). Who has a single kind of rows, such as an ablation,
gives them as ``clean``, and None as ``corrupted``. All are torch tensors. Attribution patching also asks that the
function can be differentiated.

How it can mislead. ``probability`` and ``accuracy`` are saturated where a model is sure, and then show nothing of what
is lost. ``logit_diff`` sees two tokens and misses damage to all others; ``kl`` sees all of them, and counts harmless
changes too (Heimersheim and Nanda, arXiv 2404.15255; Zhang and Nanda, arXiv 2309.16042).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, RbInterpError, first_line, nearest
from rb_interp.typed import typed

__all__ = ["METRICS", "Answers", "Metric", "logit", "logit_diff", "measure", "metric_of", "probability"]


class Answers(NamedTuple):
    """What a model says on some rows as they are: logits ``[row, d_vocab]``, and right answers ``[row]`` or None."""

    logits: Float[Tensor, "row d_vocab"]
    labels: Int[Tensor, " row"] | None

    def take(self, rows: Int[Tensor, " n"]) -> Answers:
        """The same for some of the rows."""
        return Answers(self.logits[rows], None if self.labels is None else self.labels[rows])


Function = Callable[[Tensor, Answers, Answers | None], Any]


@dataclass(frozen=True)
class Metric:
    """A function of the logits with a name.

    Attributes:
        name: as it stands in tables. function: of logits, clean and corrupted, see the module's docstring.
        worse: 1 where a rise is a loss, -1 where a fall is, 0 where nobody knows.
        needs: labels that it reads: 0 none, 1 those of the clean rows, 2 those of the corrupted ones too.
        by_row: whether it gives a row the same number whichever rows stand beside it.
    """

    name: str
    function: Function
    worse: int = 0
    needs: int = 0
    by_row: bool = False

    @property
    def change(self) -> str:
        """What a change is called, so that a positive one is a loss: ``loss_increase``, ``accuracy_drop``.

        ``_change`` (after less before) where nobody knows which way is worse.
        """
        return self.name + {1: "_increase", -1: "_drop", 0: "_change"}[self.worse]


Measured = str | Metric | Function
"""The name of a metric, such as 'kl', or a function of (logits, clean, corrupted)."""

Token = int | np.ndarray | Tensor | None
"""One token for all rows, or one for each row."""


@typed
def logit_diff(a: Token = None, b: Token = None) -> Metric:
    """Logit of token ``a`` less that of token ``b``; by default of the clean and of the corrupted answer.

    Args:
        a, b: token ids, each one for all rows or ``[row]``.

    >>> logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 5.0]])
    >>> measure(logit_diff(1, 0), logits, Answers(logits, None)).tolist()
    [3.0, 0.0]
    >>> measure(logit_diff(1, [0, 2]), logits, Answers(logits, None)).tolist()
    [3.0, -5.0]
    """

    def function(logits: Tensor, clean: Answers, corrupted: Answers | None) -> Tensor:
        first = clean.labels if a is None else a
        second = b if b is not None else None if corrupted is None else corrupted.labels
        return _logit_of(logits, first).double() - _logit_of(logits, second).double()

    by_row = all(token is None or np.ndim(token) == 0 for token in (a, b))
    return Metric("logit_diff", function, -1, 2 if b is None else int(a is None), by_row)


@typed
def logit(token: Token = None) -> Metric:
    """Logit of a token, or of the clean answer. Arguments as for `logit_diff`."""
    return _of_token("logit", lambda logits: logits.double(), token)


@typed
def probability(token: Token = None) -> Metric:
    """Probability of a token, or of the clean answer, in [0, 1]. Arguments as for `logit_diff`."""
    return _of_token("probability", lambda logits: logits.double().softmax(-1), token)


def _of_token(name: str, values: Callable[[Tensor], Tensor], token: Token) -> Metric:
    def function(logits: Tensor, clean: Answers, corrupted: Answers | None) -> Tensor:
        return _logit_of(values(logits), clean.labels if token is None else token)

    return Metric(name, function, -1, int(token is None), token is None or np.ndim(token) == 0)


def _kl(logits: Tensor, clean: Answers, corrupted: Answers | None) -> Tensor:
    expected, found = (some.double().log_softmax(-1) for some in (clean.logits, logits))
    return torch.where(expected.exp() > 0, expected.exp() * (expected - found), 0).sum(-1)


METRICS = {
    "logit_diff": logit_diff(),
    "logit": logit(),
    "probability": probability(),
    "loss": Metric(
        "loss", lambda x, clean, _: x.double().logsumexp(-1) - _logit_of(x, clean.labels).double(), 1, 1, by_row=True
    ),
    "accuracy": Metric("accuracy", lambda x, clean, _: (x.argmax(-1) == clean.labels).double(), -1, 1, by_row=True),
    "rank": Metric(
        "rank", lambda x, clean, _: (x > _logit_of(x, clean.labels)[:, None]).sum(-1).double(), 1, 1, by_row=True
    ),
    "kl": Metric("kl", _kl, 1, 0, by_row=True),
}
"""Name -> metric."""


def metric_of(given: Measured) -> Metric:
    """The metric that a name stands for, or that a function is; ModelError for an unknown name.

    >>> metric_of("kl").change, metric_of(lambda logits, clean, corrupted: logits[:, 0]).change
    ('kl_increase', 'function_change')
    """
    if isinstance(given, Metric):
        return given
    if isinstance(given, str):
        if given not in METRICS:
            raise ModelError(f"there is no metric '{given}'; {nearest(given, METRICS)}")
        return METRICS[given]
    name = getattr(given, "__name__", type(given).__name__)
    return Metric("function" if name == "<lambda>" else name, given)


def measure(
    metric: Metric, logits: Tensor, clean: Answers, corrupted: Answers | None = None, asker: str = "this call"
) -> Float[Tensor, " row"]:
    """The metric of each row, in float64; with its gradient where the logits carry one.

    Raises ModelError where labels that it needs are missing, where it fails, and where it gives something else than a
    finite number for each row.
    """
    if metric.needs == 2 and corrupted is None:
        raise ModelError(
            f"{metric.name} compares the clean answer with the corrupted one, and {asker} has no corrupted rows; give "
            f"tokens: rb_interp.interventions.metrics.logit_diff(a, b)."
        )
    for rows in (clean, corrupted)[: metric.needs]:
        if rows is not None and rows.labels is None:
            raise ModelError(f"{metric.name} needs the right answer of each row; pass Inputs(tokens, labels, roles).")
    if not metric.by_row and logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    try:
        found = metric.function(logits, clean, corrupted)
        found = found if isinstance(found, Tensor) else torch.as_tensor(np.asarray(found))
    except RbInterpError:
        raise
    except Exception as error:
        raise ModelError(
            f"the metric '{metric.name}' raised {type(error).__name__}: {first_line(error)}. It is called with logits "
            f"{list(logits.shape)}, clean and corrupted, and gives a number for each row."
        ) from error
    if found.shape != logits.shape[:1] or found.is_complex():
        raise ModelError(
            f"the metric '{metric.name}' gave shape {list(found.shape)}; expected [{len(logits)}], a number for each "
            f"row of the logits."
        )
    if not metric.by_row and not found.isfinite().all():
        raise ModelError(
            f"the metric '{metric.name}' gave numbers that are not finite, in {int((~found.isfinite()).sum())} of "
            f"{len(found)} rows; let it give finite ones."
        )
    return found.cpu().double()


def labels_of(labels: Any, d_vocab: int) -> Int[Tensor, " row"]:
    """Right answers as a tensor; ModelError where a model has no such token."""
    found = torch.as_tensor(labels).long()
    if found.numel() and int(found.max()) >= d_vocab:
        raise ModelError(f"got the label {int(found.max())}; this model answers with tokens 0 to {d_vocab - 1}.")
    return found


def _logit_of(logits: Float[Tensor, "row d_vocab"], tokens: Any) -> Float[Tensor, " row"]:
    """The logit of one token in each row."""
    at = torch.as_tensor(tokens, device=logits.device).long()
    if at.ndim > 1 or (at.ndim and len(at) != len(logits)):
        raise ModelError(
            f"a metric got tokens of shape {list(at.shape)} for {len(logits)} rows; give one token, or one a row."
        )
    if at.numel() and not 0 <= int(at.min()) <= int(at.max()) < logits.shape[1]:
        raise ModelError(
            f"a metric got the tokens {int(at.min())} to {int(at.max())}; this model answers with tokens 0 to "
            f"{logits.shape[1] - 1}."
        )
    return logits.gather(1, at.expand(len(logits))[:, None])[:, 0]
