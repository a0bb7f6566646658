r"""Metrics: one number for each row, from the logits at the position where its answer is read.

    logit_diff    logit of the clean answer less that of the corrupted one, or of token a less token b, in nats
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
are; with a single kind of rows, as in an ablation, ``corrupted`` is None. Attribution patching
differentiates the function.

``answer_at`` is a position for all rows (negative ones count from the end), a role that stands at
one position of each row, or positions ``[row]``; by default the last position.

How it can mislead. ``probability`` and ``accuracy`` are saturated where a model is sure, and then
show nothing of what is lost. ``logit_diff`` sees two tokens and misses damage to all others; ``kl``
sees all of them, and counts harmless changes too (Heimersheim and Nanda, arXiv 2404.15255; Zhang
and Nanda, arXiv 2309.16042).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.interventions import sites
from rb_interp.interventions.effect import REDRAWN, Direction, Effect, Matrix
from rb_interp.interventions.sites import Edit, Site
from rb_interp.models.hooking import caller_hooks
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import visible
from rb_interp.probes.activations import capture
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
    """What a model says on some rows as they are: logits ``[row, d_vocab]``, and right answers
    ``[row]`` or None."""

    logits: Float[Tensor, "row d_vocab"]
    labels: Int[Tensor, " row"] | None


Function = Callable[[Tensor, Answers, Answers | None], Any]


@dataclass(frozen=True)
class Metric:
    """A function of the logits with a name.

    Attributes:
        name: as it stands in tables. function: of logits, clean and corrupted, see the module's
            docstring.
        worse: 1 where a rise is a loss, -1 where a fall is, 0 where nobody knows.
        needs: labels that it reads: 0 none, 1 those of the clean rows, 2 those of the corrupted
            ones too.
    """

    name: str
    function: Function
    worse: int = 0
    needs: int = 0

    @property
    def change(self) -> str:
        """A loss by name: ``loss_increase``, ``accuracy_drop``, or ``_change`` where nobody knows
        what is worse."""
        return self.name + {1: "_increase", -1: "_drop", 0: "_change"}[self.worse]


Measured = str | Metric | Function
"""The name of a metric, such as 'kl', or a function of (logits, clean, corrupted)."""
Token = int | np.ndarray | Tensor | None
"""One token for all rows, or one for each row."""
AnswerAt = int | str | np.ndarray | Tensor | None
"""A position, a role, positions ``[row]``, or None for the last position."""


@checked
def logit_diff(a: Token = None, b: Token = None) -> Metric:
    """Logit of token ``a`` less that of ``b``, each one for all rows or ``[row]``; by default of
    the two answers.

    >>> logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 5.0]])
    >>> measure(logit_diff(1, [0, 2]), logits, Answers(logits, None)).tolist()
    [3.0, -5.0]
    """

    def function(logits: Tensor, clean: Answers, corrupted: Any) -> Tensor:
        return _logit_of(logits, a, clean).double() - _logit_of(logits, b, corrupted).double()

    return Metric("logit_diff", function, -1, 2 if b is None else int(a is None))


@checked
def logit(token: Token = None) -> Metric:
    """Logit of a token, one for all rows or ``[row]``, or of the clean answer."""
    return Metric(
        "logit", lambda x, clean, _: _logit_of(x.double(), token, clean), -1, int(token is None)
    )


@checked
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
    "loss": Metric(
        "loss",
        lambda x, clean, _: x.double().logsumexp(-1) - _logit_of(x, None, clean).double(),
        1,
        1,
    ),
    "accuracy": Metric(
        "accuracy", lambda x, clean, _: (x.argmax(-1) == clean.labels).double(), -1, 1
    ),
    "rank": Metric(
        "rank", lambda x, clean, _: (x > _logit_of(x, None, clean)[:, None]).sum(-1).double(), 1, 1
    ),
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
    """The metric of each row, in float64; with its gradient where the logits carry one."""
    if any(rows is None or rows.labels is None for rows in (clean, corrupted)[: metric.needs]):
        raise ModelError(
            f"{metric.name} needs the right answer of each clean row, and of the corrupted ones if "
            f"it compares them; "
            f"pass Inputs(tokens, labels, roles), or give tokens: "
            f"rb_interp.interventions.metrics.logit_diff(a, b)."
        )
    values = metric.function(
        logits.float() if logits.element_size() < 4 else logits, clean, corrupted
    )
    values = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if values.shape != logits.shape[:1]:
        raise ModelError(
            f"the metric '{metric.name}' gave shape {list(values.shape)}; expected a number for "
            f"each row."
        )
    return values.cpu().double()


def _logit_of(
    logits: Float[Tensor, "row d_vocab"], tokens: Token, answers: Any
) -> Float[Tensor, " row"]:
    """The logit of one token in each row, by default of the right answer."""
    at = torch.as_tensor(answers.labels if tokens is None else tokens, device=logits.device).long()
    if at.ndim > 1 or (
        at.ndim and len(at) != len(logits)
    ):  # gather takes fewer rows without a word
        raise ModelError(
            f"got tokens of shape {list(at.shape)} for {len(logits)} rows; give one token, or one "
            f"a row."
        )
    return logits.gather(1, at.expand(len(logits))[:, None])[:, 0]


def answer_positions(answer_at: AnswerAt, rows: Inputs) -> Int[Tensor, " row"] | None:
    """The position of each row's answer; None where it is the last one of every row.

    >>> answer_positions(-3, Inputs([[1, 2, 3, 4]])), answer_positions(3, Inputs([[1, 2, 3, 4]]))
    (tensor([1]), None)
    """
    n_rows, length = rows.tokens.shape
    at = -1 if answer_at is None else answer_at
    at = np.asarray(sites.positions(rows, at) if isinstance(at, str) else at)
    at = at[:, 0] if at.shape[1:] == (1,) else at
    fits = at.dtype.kind in "iu" and at.shape in ((), (n_rows,))
    if not fits or not -length <= np.min(at) <= np.max(at) < length:
        raise ModelError(
            f"got answer_at of shape {list(at.shape)} and type {at.dtype}; expected a position, a "
            f"role at one position "
            f"of each row, or {n_rows} positions below {length}."
        )
    at = np.broadcast_to(at, n_rows).astype(np.int64) % length
    return None if (at == length - 1).all() else torch.from_numpy(at)


def answer_logits(
    model: HookedModel, rows: Inputs, edits: Sequence[Edit] = (), answer_at: AnswerAt = None
) -> Float[Tensor, "row d_vocab"]:
    """Logits that the answers are read from, under edits, on CPU."""
    return sites.last_logits(model, rows.tokens, edits, at=answer_positions(answer_at, rows))


def equal_note(equal: np.ndarray, site: str = "") -> dict[str, str]:
    """A note on a control: how many of its rows are the rows that run, or have their values at a
    site."""
    text = f"{equal.sum()} of its {len(equal)} rows are the rows themselves{site and ' at '}{site}, and change nothing."
    return {"control": text} if equal.any() else {}


class Comparison:
    """A metric of clean rows as they are, of corrupted ones where there are any, and of other runs
    of such rows.

    ``base`` are the rows that run, from ``start`` on the way to ``end``, ``own`` their logits;
    ``sources`` are the rows that activations are taken from, those of the control last; ``held`` is
    what ``hooks`` gave in base and sources.
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
        hooks: Sequence[str] = (),
    ) -> None:
        self.model, self.metric, self.answer_at, self.control = (
            model,
            metric_of(metric),
            answer_at,
            control,
        )
        kinds, self.base, self.direction = (
            [clean] if corrupted is None else [clean, corrupted],
            clean,
            direction,
        )
        for rows in kinds[1:]:
            sites.aligned(Site("resid_pre", 0), rows, clean)  # refuses rows that are no pairs
        self.answers, self.held = [], []
        for rows in kinds:
            held: dict[str, list[Tensor]] = {hook: [] for hook in hooks}
            looks = [
                Edit(hook, lambda x, _, held=held[hook]: held.append(x.cpu()) or x)
                for hook in hooks
            ]
            logits, labels = answer_logits(model, rows, looks, answer_at), rows.labels
            self.held.append({hook: torch.cat(parts) for hook, parts in held.items()})
            if labels is not None and (
                labels.ndim != 1
                or labels.dtype.kind not in "iu"
                or not np.isin(labels, range(logits.shape[1])).all()
            ):
                raise ModelError(
                    f"got labels of shape {list(labels.shape)} and type {labels.dtype}; expected a "
                    f"token of the model."
                )
            self.answers.append(
                Answers(logits, None if labels is None else torch.as_tensor(labels).long())
            )
        self.own = self.answers[-1 if direction == "denoise" else 0].logits
        right = [
            logits.argmax(1) == labels for logits, labels in self.answers if labels is not None
        ]
        self.answered = float(torch.stack(right).all(0).double().mean()) if right else float("nan")
        self.clean, *other = (self.of(answers.logits) for answers in self.answers)
        self.start, self.notes, self.sources = (
            self.clean,
            caller_hooks(model),
            [] if control is None else [control],
        )
        if corrupted is not None:
            self.corrupted = other[0]
            ends = (clean, self.clean), (corrupted, self.corrupted)
            (source, self.end), (self.base, self.start) = (
                ends if direction == "denoise" else ends[::-1]
            )
            self.sources, self.held = (
                [source, *self.sources],
                self.held[:: -1 if direction == "denoise" else 1],
            )
            gap = self.clean.mean() - self.corrupted.mean()
            scale = np.abs([self.clean, self.corrupted]).mean(1).sum()
            if not abs(gap) > 1e-6 * scale:
                raise ModelError(
                    f"the mean {self.metric.name} is {self.clean.mean():.3g} on clean and "
                    f"corrupted rows, so there is "
                    f"nothing to recover; let them differ in what the answer depends on, with "
                    f"another right answer."
                )
        if control is not None:
            self.check_control(control)
            self.held.append(capture(model, control.tokens, hooks) if hooks else {})

    def check_control(self, control: Inputs) -> None:
        """Note how many rows of a control are the rows that run; ModelError for all, and for those
        of the source."""
        base = self.base
        equal = np.array(
            control.tokens.shape == base.tokens.shape and (control.tokens == base.tokens).all(1)
        )
        for role, at in control.roles.positions.items() if equal.any() else ():
            its = base.roles.positions.get(role, at)
            equal &= (at == its).all(1) if at.shape == its.shape else False
        equal = np.broadcast_to(equal, len(control))
        advice = "of the rows that run: with_tokens_of(other, 'noise') of these."
        if len(equal) and equal.all():
            raise ModelError(
                f"got a control that is the rows themselves, so it changes nothing; redraw the "
                f"noise {advice}"
            )
        given = [rows.labels for rows in (*self.sources, base) if rows.labels is not None]
        like = [np.array_equal(given[0], labels) for labels in given]
        if like == [True, True, False]:
            raise ModelError(
                "got a control with the right answers of the rows that activations are taken from, "
                "so it is like the "
                f"effect and no control; make it {advice}"
            )
        self.notes |= equal_note(equal)

    def note_control(self, places: Sequence[Site]) -> None:
        """Note in how many rows the control has the values of the base rows at all of the sites."""
        if self.control is not None:
            own, other = (
                sites.values_at(self.model, rows, places) for rows in (self.base, self.control)
            )
            equal = torch.stack([(own[site] == other[site]).flatten(1).all(1) for site in own]).all(
                0
            )
            self.notes |= equal_note(equal.numpy(), " + ".join(map(str, places)))

    def reads(self, site: Site) -> bool:
        """Whether what stands at a site can reach the answer in any row, or is at no position."""
        (n_rows, length), at = self.base.tokens.shape, answer_positions(self.answer_at, self.base)
        seen = np.arange(length) == (
            np.full((n_rows, 1), length - 1) if at is None else at.numpy()[:, None]
        )
        for layer in range(site.layer, self.model.cfg.n_layers)[::-1]:
            if layer > site.layer or site.component in sites.ACTS_ON_OTHERS:
                seen = seen @ visible(self.model, layer, length) | seen
        here = sites.site_positions(site, self.base).numpy()
        return not here.size or bool(np.take_along_axis(seen, here, 1).any())

    def of(
        self, logits: Float[Tensor, "row d_vocab"], rows: Any = slice(None)
    ) -> Float[np.ndarray, " row"]:
        """The metric of each row, or of runs of some rows."""
        answers = (
            Answers(some.logits[rows], None if some.labels is None else some.labels[rows])
            for some in self.answers
        )
        return measure(self.metric, logits, *answers).numpy()

    def lost(self, after: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """What a run costs each clean row: after less before, or before less after where a fall is
        worse."""
        return self.clean - after if self.metric.worse < 0 else after - self.clean

    def run(self, edits: Sequence[Edit] = ()) -> Float[Tensor, "row d_vocab"]:
        """Logits of the base rows under edits."""
        return answer_logits(self.model, self.base, edits, self.answer_at)

    def notes_of(self, places: str) -> dict[str, str]:
        """The notes, and where places name roles also how many positions have none."""
        without = self.base.roles.without_a_role(self.base.tokens.shape[1]) if "@" in places else ""
        return {**self.notes, **({"roles": without} if without else {})}

    def matrix(
        self, axes: Mapping[str, Sequence], patched: Any, notes: Mapping[str, str], method: str
    ) -> Matrix:
        """The metric of each row with each cell, and with the control's where there is one, as a
        matrix."""
        cells = patched[0], patched[1] if len(patched) > 1 else None
        notes = {
            **notes,
            **self.notes_of("@" if "role" in axes else " ".join(map(str, axes["sender"]))),
        }
        about = notes, self.direction, method, self.answered
        return Matrix(axes, self.metric.name, self.clean, self.corrupted, *cells, *about)

    def effect(
        self,
        name: str,
        site: str,
        runs: Iterable[Tensor],
        control_name: str = REDRAWN,
        quantity: str = "",
    ) -> Effect:
        """What the first run costs, or as a quantity its share of the way, by logits, beside those
        of the control."""
        runs = list(runs)
        if torch.equal(runs[0], self.own):
            self.notes["effect"] = (
                "no logit changes: nothing is read there, or the model takes no such edit."
            )
        metric = [self.of(logits) for logits in runs]
        gap = (
            self.end.mean() - self.start.mean() if quantity else 1.0
        )  # the mean of the whole difference, as known
        values, *control = (
            (each - self.start) / gap if quantity else self.lost(each) for each in metric
        )
        about = self.start.mean(), metric[0].mean(), self.answered, self.notes_of(site)
        return Effect(
            name,
            site,
            quantity or self.metric.change,
            values,
            np.array(control),
            control_name,
            *about,
        )
