"""The untouched runs that an intervention is compared with, their checks and their notes.

A `PairedRun` holds one metric of clean rows as they are, and of corrupted rows if there are any.
Each intervention runs its ``base`` rows under edits, and takes activations from its ``sources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.edits import Edit, reading, values_at
from rb_interp.interventions.effect import REDRAWN, Direction, Effect, RowValues
from rb_interp.interventions.matrix import Matrix
from rb_interp.interventions.metrics import (
    AnswerAt,
    Answers,
    MetricLike,
    answer_logits,
    answer_positions,
    measure,
    metric_of,
)
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import caller_hooks, visible
from rb_interp.probes.activations import capture
from rb_interp.tasks.inputs import Inputs

Activations = dict[str, Tensor]
"""Hook name -> what a model computes there, ``[row, ...]`` on CPU."""


class PairedRun:
    """A metric of clean rows as they are, of corrupted ones if there are any, and of edited runs.

    Attributes:
        model: the model of all runs.
        metric: what is measured.
        answer_at: where answers are read.
        control: rows of the control, or None.
        direction: ``denoise`` runs the corrupted rows, ``noise`` the clean ones.
        base: the rows that run.
        base_logits: their logits untouched, ``[row, d_vocab]``.
        sources: the rows that activations are taken from, those of the control last.
        answers: logits and labels of the clean rows, then of the corrupted ones.
        activations: what ``hooks`` gave in the base rows, then in each of the sources.
        clean: the metric of each clean row.
        corrupted: the metric of each corrupted row.
        start: the metric of each base row.
        end: the metric of each row of the first source.
        answered: share of rows whose answers are right, clean and corrupted; NaN without labels.
        notes: what a reader must know, by subject.
    """

    corrupted: RowValues
    end: RowValues

    def __init__(
        self,
        model: HookedModel,
        metric: MetricLike,
        answer_at: AnswerAt,
        clean: Inputs,
        corrupted: Inputs | None = None,
        direction: Direction = "denoise",
        control: Inputs | None = None,
        hooks: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.metric = metric_of(metric)
        self.answer_at = answer_at
        self.control = control
        self.direction = direction
        self.notes = caller_hooks(model)
        kinds = [clean]
        if corrupted is not None:
            sites.aligned(Site("resid_pre", 0), corrupted, clean)  # refuses rows that are no pairs
            kinds.append(corrupted)
        runs = [untouched_run(model, rows, answer_at, hooks) for rows in kinds]
        self.answers = [answers for answers, _ in runs]
        right = [
            logits.argmax(1) == labels for logits, labels in self.answers if labels is not None
        ]
        self.answered = torch.stack(right).all(0).double().mean().item() if right else np.nan
        metrics = [self.of(answers.logits) for answers in self.answers]

        base = len(kinds) - 1 if direction == "denoise" else 0
        self.base = kinds[base]
        pad = getattr(getattr(model, "tokenizer", None), "pad_token_id", None)
        n_padded = int((self.base.tokens[:, -1] == pad).sum())
        if n_padded and answer_at is None and "last" not in self.base.roles.positions:
            self.notes["answers"] = (
                f"{n_padded} of {len(self.base)} rows end in the padding token, where answers are "
                f"read; give answer_at, or the role 'last'."
            )
        self.base_logits = self.answers[base].logits
        self.clean = metrics[0]
        self.start = metrics[base]
        self.sources: list[Inputs] = []
        self.activations = [runs[base][1]]
        if corrupted is not None:
            source = 1 - base
            self.corrupted = metrics[1]
            self.end = metrics[source]
            self.sources.append(kinds[source])
            self.activations.append(runs[source][1])
            difference = abs(self.clean.mean() - self.corrupted.mean())
            scale = np.abs(self.clean).mean() + np.abs(self.corrupted).mean()
            if not difference > 1e-6 * scale:
                raise ModelError(
                    f"the mean {self.metric.name} is {self.clean.mean():.3g} on clean and corrupted "
                    f"rows, so there is nothing to recover; let them differ in what the answer "
                    f"depends on, with another right answer."
                )
        if control is not None:
            sites.aligned(Site("resid_pre", 0), self.base, control)
            self.notes |= control_note(control, self.base, self.sources)
            self.sources.append(control)
            self.activations.append(capture(model, control.tokens, hooks) if hooks else {})

    def note_control(self, control_sites: Sequence[Site]) -> None:
        """Note in how many rows the control has the values of the base rows at all of the sites."""
        if self.control is None:
            return
        base = values_at(self.model, self.base, control_sites)
        control = values_at(self.model, self.control, control_sites)
        equal = np.ones(len(self.base), dtype=bool)
        for site, values in base.items():
            equal &= (values == control[site]).flatten(1).all(1).numpy()
        self.notes |= equal_note(equal, " + ".join(map(str, control_sites)))

    @cached_property
    def read_positions(self) -> list[Bool[np.ndarray, "row pos"]]:
        """Positions of the stream before each layer, and after the last, that reach the answer."""
        length = self.base.tokens.shape[1]
        answers = answer_positions(self.answer_at, self.base).numpy()
        masks = [np.arange(length) == answers[:, None]]
        for layer in reversed(range(self.model.cfg.n_layers)):
            masks.append(masks[-1] @ visible(self.model, layer, length) | masks[-1])
        return masks[::-1]

    def reads(self, site: Site, positions: Int[np.ndarray, "row n"]) -> bool:
        """Whether what stands at a site's positions can reach the answer in any row."""
        acts_in_its_layer = site.component in sites.ACTS_ON_OTHERS
        mask = self.read_positions[site.layer + (not acts_in_its_layer)]
        return bool(np.take_along_axis(mask, positions, 1).any())

    def of(self, logits: Float[Tensor, "row d_vocab"], rows: Any = slice(None)) -> RowValues:
        """The metric of each row, or of runs of some rows."""
        answers = []
        for untouched in self.answers:
            labels = None if untouched.labels is None else untouched.labels[rows]
            answers.append(Answers(untouched.logits[rows], labels))
        return measure(self.metric, logits, *answers).numpy()

    def lost(self, after: RowValues) -> RowValues:
        """What a run costs each clean row: after less before, or the reverse if a fall is worse."""
        return self.clean - after if self.metric.worse < 0 else after - self.clean

    def run(self, edits: Sequence[Edit] = ()) -> Float[Tensor, "row d_vocab"]:
        """Logits of the base rows under edits."""
        return answer_logits(self.model, self.base, edits, self.answer_at)

    def all_notes(self, names_roles: bool) -> dict[str, str]:
        """The notes; if sites name roles, also how many positions have none."""
        notes = dict(self.notes)
        if names_roles:
            without_role = self.base.roles.without_a_role(self.base.tokens.shape[1])
            if without_role:
                notes["roles"] = without_role
        return notes

    def matrix(
        self,
        axes: Mapping[str, Sequence],
        patched: Float[np.ndarray, "source *axis row"],
        notes: Mapping[str, str],
        method: str,
    ) -> Matrix:
        """The metric of each row with each cell, beside the control's, as a matrix."""
        names_roles = any(role != "all" for role in axes.get("role", ()))
        names_roles |= any("@" in sender for sender in axes.get("sender", ()))
        if "position" in axes:
            notes = {**notes, **uneven_note(self.base)}
        return Matrix(
            axes,
            self.metric.name,
            self.clean,
            self.corrupted,
            patched[0],
            patched[1] if len(patched) > 1 else None,
            {**notes, **self.all_notes(names_roles)},
            self.direction,
            method,
            self.answered,
            self.base.shared_texts(),
        )

    def effect(
        self,
        name: str,
        site: str,
        runs: Iterable[Tensor],
        control_name: str = REDRAWN,
        quantity: str = "",
    ) -> Effect:
        """What the first run costs, or with a quantity its share of the way, beside its controls."""
        runs = list(runs)
        if torch.equal(runs[0], self.base_logits):
            self.notes["effect"] = (
                "no logit changes: nothing is read there, or the model takes no such edit."
            )
        after = [self.of(logits) for logits in runs]
        if quantity:
            way = self.end.mean() - self.start.mean()  # taken as known
            effects = [(metric - self.start) / way for metric in after]
        else:
            effects = [self.lost(metric) for metric in after]
        return Effect(
            name,
            site,
            quantity or self.metric.change,
            effects[0],
            np.array(effects[1:]),
            control_name,
            self.start.mean(),
            after[0].mean(),
            self.answered,
            self.all_notes("@" in site),
        )


def untouched_run(
    model: HookedModel, rows: Inputs, answer_at: AnswerAt, hooks: Sequence[str]
) -> tuple[Answers, Activations]:
    """What a model answers on some rows as they are, and what it computes at some hooks."""
    reads, parts = reading(hooks)
    logits = answer_logits(model, rows, reads, answer_at)
    activations = {hook: torch.cat(values) for hook, values in parts.items()}
    labels = rows.labels
    if labels is None:
        return Answers(logits, None), activations
    wrong = np.flatnonzero(~np.isin(labels, range(logits.shape[1])))
    if len(wrong):
        raise ModelError(
            f"row {wrong[0]} has the label {labels[wrong[0]]}; expected a token of the model, 0 to "
            f"{logits.shape[1] - 1}."
        )
    return Answers(logits, torch.as_tensor(labels).long()), activations


def uneven_note(rows: Inputs) -> dict[str, str]:
    """A note of rows that end at unlike positions."""
    ends = rows.roles.positions.get("last", np.zeros((1, 1)))
    if not np.ptp(ends):
        return {}
    return {
        "padding": f"rows end at positions {ends.min()} to {ends.max()}, so a position is another "
        f"word in other rows, or padding; name roles, or make one call for each length."
    }


def control_note(control: Inputs, base: Inputs, sources: Sequence[Inputs]) -> dict[str, str]:
    """A note of the control's rows that are the base rows.

    Raises:
        ModelError: all of them are, or the control has the right answers of the source.
    """
    advice = "of the rows that run: with_tokens_of(other, 'noise') of these."
    equal = equal_rows(control, base)
    if len(equal) and equal.all():
        raise ModelError(
            f"got a control that is the rows themselves, so it changes nothing; redraw the noise "
            f"{advice}"
        )
    for source in sources:
        if source.labels is None or control.labels is None or base.labels is None:
            continue
        is_like_source = np.array_equal(control.labels, source.labels)
        if is_like_source and not np.array_equal(control.labels, base.labels):
            raise ModelError(
                f"got a control with the right answers of the rows that activations are taken "
                f"from, so it is like the effect and no control; make it {advice}"
            )
    return equal_note(equal)


def equal_rows(rows: Inputs, base: Inputs) -> Bool[np.ndarray, " row"]:
    """Whether each row has the tokens of the other, and the positions of the roles they share."""
    if rows.tokens.shape != base.tokens.shape:
        return np.zeros(len(rows), dtype=bool)
    equal = (rows.tokens == base.tokens).all(1)
    for role, positions in rows.roles.positions.items():
        base_positions = base.roles.positions.get(role, positions)
        if positions.shape != base_positions.shape:
            return np.zeros(len(rows), dtype=bool)
        equal &= (positions == base_positions).all(1)
    return equal


def equal_note(equal: Bool[np.ndarray, " row"], site: str = "") -> dict[str, str]:
    """A note of a control's rows that are the rows that run, or have their values at a site."""
    if not equal.any():
        return {}
    at_site = f" at {site}" if site else ""
    return {
        "control": f"{equal.sum()} of its {len(equal)} rows are the rows themselves{at_site}, and "
        f"change nothing."
    }


def telling_pairs(answers: Sequence[np.ndarray], base: Inputs, source: Inputs) -> list[int]:
    """Pairs of rows to which all answers differ, by number.

    None shares a row with one before it: intervals are for independent pairs.
    """
    differ = np.diff(np.sort(answers, axis=0), axis=0).all(0)
    used = set()
    pairs = []
    for pair in np.flatnonzero(differ):
        rows = {base.tokens[pair].tobytes(), source.tokens[pair].tobytes()}
        if used.isdisjoint(rows):
            pairs.append(pair)
            used |= rows
    return pairs
