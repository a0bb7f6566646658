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
``clean`` and ``corrupted`` are the `Answers` of the two kinds of rows as they are; with a single kind of rows, as in an
ablation, ``corrupted`` is None. Attribution patching differentiates the function.

``answer_at`` is a position for all rows (negative ones count from the end), a role that stands at one position of each
row, or positions ``[row]``; by default the last position. A role is looked up in the roles of each kind of rows.

How it can mislead. ``probability`` and ``accuracy`` are saturated where a model is sure, and then show nothing of what
is lost. ``logit_diff`` sees two tokens and misses damage to all others; ``kl`` sees all of them, and counts harmless
changes too (Heimersheim and Nanda, arXiv 2404.15255; Zhang and Nanda, arXiv 2309.16042).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError, nearest
from rb_interp.interventions.effect import (
    REDRAWN,
    Direction,
    Effect,
    Matrix,
    check_control,
    effect_of,
    equal_note,
)
from rb_interp.interventions.sites import (
    Edit,
    Site,
    aligned,
    check_finite,
    last_logits,
    positions,
    reaches,
    unmoved,
)
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import caller_hooks
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

__all__ = ["METRICS", "Answers", "Metric", "logit", "logit_diff", "measure", "metric_of", "probability"]


class Answers(NamedTuple):
    """What a model says on some rows as they are: logits ``[row, d_vocab]``, and right answers ``[row]`` or None."""

    logits: Float[Tensor, "row d_vocab"]
    labels: Int[Tensor, " row"] | None


Function = Callable[[Tensor, Answers, Answers | None], Any]


@dataclass(frozen=True)
class Metric:
    """A function of the logits with a name.

    Attributes:
        name: as it stands in tables. function: of logits, clean and corrupted, see the module's docstring.
        worse: 1 where a rise is a loss, -1 where a fall is, 0 where nobody knows.
        needs: labels that it reads: 0 none, 1 those of the clean rows, 2 those of the corrupted ones too.
    """

    name: str
    function: Function
    worse: int = 0
    needs: int = 0

    @property
    def change(self) -> str:
        """A loss by name: ``loss_increase``, ``accuracy_drop``, or ``_change`` where nobody knows what is worse."""
        return self.name + {1: "_increase", -1: "_drop", 0: "_change"}[self.worse]


Measured = str | Metric | Function
"""The name of a metric, such as 'kl', or a function of (logits, clean, corrupted)."""
Token = int | np.ndarray | Tensor | None
"""One token for all rows, or one for each row."""
AnswerAt = int | str | np.ndarray | Tensor | None
"""A position, a role, positions ``[row]``, or None for the last position."""


@typed
def logit_diff(a: Token = None, b: Token = None) -> Metric:
    """Logit of token ``a`` less that of ``b``, each one for all rows or ``[row]``; by default of the two answers.

    >>> logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 5.0]])
    >>> measure(logit_diff(1, [0, 2]), logits, Answers(logits, None)).tolist()
    [3.0, -5.0]
    """

    def function(logits: Tensor, clean: Answers, corrupted: Any) -> Tensor:
        return _logit_of(logits, a, clean).double() - _logit_of(logits, b, corrupted).double()

    return Metric("logit_diff", function, -1, 2 if b is None else int(a is None))


@typed
def logit(token: Token = None) -> Metric:
    """Logit of a token, one for all rows or ``[row]``, or of the clean answer."""
    return Metric("logit", lambda x, clean, _: _logit_of(x.double(), token, clean), -1, int(token is None))


@typed
def probability(token: Token = None) -> Metric:
    """Probability of a token, one for all rows or ``[row]``, or of the clean answer, in [0, 1]."""

    def function(logits: Tensor, clean: Answers, _: Any) -> Tensor:
        return _logit_of(logits.double().softmax(-1), token, clean)

    return Metric("probability", function, -1, int(token is None))


def _kl(logits: Tensor, clean: Answers, _: Answers | None) -> Tensor:
    expected, after = (some.double().log_softmax(-1) for some in (clean.logits, logits))
    return torch.where(expected.exp() > 0, expected.exp() * (expected - after), 0).sum(-1)


METRICS = {
    "logit_diff": logit_diff(),
    "logit": logit(),
    "probability": probability(),
    "loss": Metric("loss", lambda x, clean, _: x.double().logsumexp(-1) - _logit_of(x, None, clean).double(), 1, 1),
    "accuracy": Metric("accuracy", lambda x, clean, _: (x.argmax(-1) == clean.labels).double(), -1, 1),
    "rank": Metric("rank", lambda x, clean, _: (x > _logit_of(x, None, clean)[:, None]).sum(-1).double(), 1, 1),
    "kl": Metric("kl", _kl, 1),
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
    metric: Metric, logits: Tensor, clean: Answers, corrupted: Answers | None = None
) -> Float[Tensor, " row"]:
    """The metric of each row, in float64; with its gradient where the logits carry one.

    Raises ModelError where labels that it needs are missing, and for something else than a number for each row.
    """
    if any(rows is None or rows.labels is None for rows in (clean, corrupted)[: metric.needs]):
        raise ModelError(
            f"{metric.name} needs the right answer of each clean row, and of the corrupted ones if it compares them; "
            f"pass Inputs(tokens, labels, roles), or give tokens: rb_interp.interventions.metrics.logit_diff(a, b)."
        )
    values = metric.function(logits.float() if logits.element_size() < 4 else logits, clean, corrupted)
    values = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if values.shape != logits.shape[:1]:
        raise ModelError(
            f"the metric '{metric.name}' gave shape {list(values.shape)}; expected a number for each row."
        )
    return values.cpu().double()


def _logit_of(logits: Float[Tensor, "row d_vocab"], tokens: Token, answers: Any) -> Float[Tensor, " row"]:
    """The logit of one token in each row, by default of the right answer."""
    at = torch.as_tensor(answers.labels if tokens is None else tokens, device=logits.device).long()
    if at.ndim > 1 or (at.ndim and len(at) != len(logits)):  # gather takes fewer rows without a word
        raise ModelError(
            f"got tokens of shape {list(at.shape)} for {len(logits)} rows; give one token, or one a row."
        )
    return logits.gather(1, at.expand(len(logits))[:, None])[:, 0]


def answer_positions(answer_at: AnswerAt, rows: Inputs) -> Int[Tensor, " row"] | None:
    """The position of each row's answer; None where it is the last one of every row.

    >>> answer_positions(-3, Inputs([[1, 2, 3, 4]])), answer_positions(3, Inputs([[1, 2, 3, 4]]))
    (tensor([1]), None)
    """
    n_rows, length = rows.tokens.shape
    if answer_at is None or (isinstance(answer_at, str) and answer_at == "last" not in rows.roles.positions):
        return None
    at = np.asarray(answer_at)
    if isinstance(answer_at, str):
        at = positions(rows.roles, answer_at, length)
        if at.shape != (n_rows, 1):
            raise RolesError(
                f"got answer_at='{answer_at}', which stands at {at.shape[1]} positions of {len(at)} rows; an answer is "
                f"at one position of each of the {n_rows} rows."
            )
        at = at[:, 0]
    if (
        at.dtype.kind not in "iu"
        or at.shape not in ((), (n_rows,))
        or not -length <= np.min(at) <= np.max(at) < length
    ):
        raise ModelError(
            f"got answer_at of shape {list(at.shape)} and type {at.dtype}; expected a position or role, or {n_rows} "
            f"positions below {length}."
        )
    at = np.broadcast_to(at, n_rows).astype(np.int64) % length
    return None if (at == length - 1).all() else torch.from_numpy(at)


def answer_logits(
    model: HookedModel, rows: Inputs, edits: Sequence[Edit] = (), answer_at: AnswerAt = None
) -> Float[Tensor, "row d_vocab"]:
    """Logits that the answers are read from, under edits, on CPU."""
    return last_logits(model, rows.tokens, edits, at=answer_positions(answer_at, rows))


def answers_of(rows: Inputs, logits: Float[Tensor, "row d_vocab"]) -> Answers:
    """A model's answers on some rows; ModelError for right answers that are none of its tokens."""
    if (labels := rows.labels) is None:
        return Answers(logits, None)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or not np.isin(labels, np.arange(logits.shape[1])).all():
        raise ModelError(
            f"got labels of shape {list(labels.shape)} and type {labels.dtype}; expected a token of the model."
        )
    return Answers(logits, torch.as_tensor(labels).long())


def answered(*some: Answers) -> float:
    """Share of rows whose every right answer is the most likely one; nan where nobody gave any."""
    right = [rows.logits.argmax(1) == rows.labels for rows in some if rows.labels is not None]
    return float(torch.stack(right).all(0).double().mean()) if right else float("nan")


class Comparison:
    """A metric of clean rows as they are, of corrupted ones where there are any, and of other runs of such rows.

    Attributes:
        answers: of the clean rows and of the corrupted ones. clean, corrupted: the metric of each, ``[row]``.
        base: of the two, the rows that run, from ``start`` on the way to ``end``. sources: rows that activations are
            taken from, those of the control last.
        answered: share of rows that are answered rightly, of both kinds where there are two; nan without labels.
        notes: what is to be said of the control and of the model.

    Raises ModelError where rows are no pairs, where the mean metric of the two is the same, and for a control that is
    like the source or the rows themselves.
    """

    def __init__(
        self,
        model: HookedModel,
        metric: Measured,
        answer_at: AnswerAt,
        clean: Inputs,
        corrupted: Inputs | None = None,
        direction: Direction = "denoise",
        control: Inputs | None = None,
    ) -> None:
        self.model, self.metric, self.answer_at = model, metric_of(metric), answer_at
        self.base = self.clean_rows = clean
        self.answers = [answers_of(clean, self.run())]
        self.notes = caller_hooks(model)
        if corrupted is None:
            self.answered = answered(*self.answers)
            self.notes |= check_control(control, clean)
            self.clean = self.start = self.of(self.answers[0].logits)
            return
        aligned(Site("resid_pre", 0), corrupted, clean)  # refuses rows that are no pairs
        self.answers.append(answers_of(corrupted, answer_logits(model, corrupted, (), answer_at)))
        self.answered = answered(*self.answers)
        self.clean, self.corrupted = (self.of(answers.logits) for answers in self.answers)
        ends = (clean, self.clean), (corrupted, self.corrupted)
        (source, self.end), (self.base, self.start) = ends if direction == "denoise" else ends[::-1]
        self.notes |= check_control(control, self.base, source)
        self.direction, self.sources = direction, [source] if control is None else [source, control]
        gap, scale = self.clean.mean() - self.corrupted.mean(), np.abs([self.clean, self.corrupted]).mean(1).sum()
        if not abs(gap) > 1e-6 * scale:
            raise ModelError(
                f"the mean {self.metric.name} is {self.clean.mean():.3g} on clean and corrupted rows, so there is "
                f"nothing to recover; let them differ in what the answer depends on, with another right answer."
            )

    def note_control(self, control: Inputs | None, sites: Sequence[Site]) -> None:
        """Note in how many rows a control has the values of the base rows at all of the sites."""
        if control is not None:
            self.notes |= equal_note(unmoved(self.model, self.base, control, sites), " + ".join(map(str, sites)))

    def reads(self, site: Site) -> bool:
        """Whether what stands at a site can reach the answer in any row."""
        return reaches(self.model, self.base, site, answer_positions(self.answer_at, self.base))

    def of(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """The metric of each row; ModelError for logits that are not finite."""
        return measure(self.metric, check_finite(logits), *self.answers).numpy()

    def lost(self, after: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """What a run costs each clean row: after less before, or before less after where a fall is worse."""
        return self.clean - after if self.metric.worse < 0 else after - self.clean

    def share(self, after: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """How far a run comes on the way from start to end; the mean of the whole difference is taken as known."""
        return (after - self.start) / (self.end.mean() - self.start.mean())

    def run(self, edits: Sequence[Edit] = ()) -> Float[Tensor, "row d_vocab"]:
        """Logits of the base rows under edits."""
        return answer_logits(self.model, self.base, edits, self.answer_at)

    def notes_of(self, places: str) -> dict[str, str]:
        """The notes, and where places name roles also how many positions have none."""
        without = self.base.roles.without_a_role(self.base.tokens.shape[1]) if "@" in places else ""
        return {**self.notes, **({"roles": without} if without else {})}

    def matrix(self, axes: Mapping[str, Sequence], patched: Any, notes: Mapping[str, str], method: str) -> Matrix:
        """The metric of each row with each cell, and with the control's where there is one, as a matrix."""
        cells = patched[0], patched[1] if len(patched) > 1 else None
        ends = (self.clean, self.corrupted)
        notes = {**notes, **self.notes_of("@" if "role" in axes else " ".join(map(str, axes["sender"])))}
        return Matrix(axes, self.metric.name, *ends, *cells, notes, self.direction, method, self.answered)

    def effect(
        self, name: str, site: str, runs: Iterable[Tensor], control_name: str = REDRAWN, quantity: str = ""
    ) -> Effect:
        """What the first run costs, or as a quantity its share of the way, by logits, beside those of the control."""
        runs = list(runs)
        if torch.equal(runs[0], self.answers[-1 if self.base is not self.clean_rows else 0].logits):
            self.notes["effect"] = "no logit changes: nothing is read there, or the model takes no such edit."
        metric = [self.of(logits) for logits in runs]
        about = {"before": self.start.mean(), "after": metric[0].mean(), "answered": self.answered}
        values = map(self.share if quantity else self.lost, metric)
        return effect_of(
            name, site, quantity or self.metric.change, values, control_name, **about, notes=self.notes_of(site)
        )
