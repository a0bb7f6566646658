"""Models on which detectors are tried: hand-written ones with a known mechanism, and two kinds
without one.

    reference       hand-written models with known mechanisms, each with many perturbed copies; a seed draws the label
                    table, the inputs and the perturbation
    untrained       fresh initialisations at three gammas: nothing was learned
    label_shuffled  trained like any member, but on labels permuted over the training rows: training
    changed the
                    weights, and there was no rule to learn

Probes see up to 300 inputs of each set, subspaces 100, swaps 100 pairs, and routes and swaps of one
position 50 (300 and 100 of trained models), without nulls or untrained models: a detector looks at
values alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from experiments.calibration.detectors import HAS, Detection, Place, truth
from experiments.copies import perturbed
from rb_interp.interventions.circuits import SHARES, anchor_routes
from rb_interp.interventions.edits import last_logits
from rb_interp.interventions.subspaces import matched_spans, subspace_effect, token_basis
from rb_interp.interventions.swaps import key_and_sum, n_other_answers
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel, write_weights
from rb_interp.models.reference import reference
from rb_interp.models.schemes import draw
from rb_interp.probes import geometry
from rb_interp.settings import LARGE, MIDDLE, SMALL
from rb_interp.studies.anchor.causes import MATCHED_DRAWS, MEMORY, REASONING
from rb_interp.studies.anchor.checks import family
from rb_interp.studies.anchor.measure import plan
from rb_interp.tasks import AnchorDataset, AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

GAMMAS = (LARGE, MIDDLE, SMALL)
N_COPIES, N_UNTRAINED, N_SHUFFLED = 120, 40, 8
ROWS, PAIRS, FEWER = 300, 100, 50
SHUFFLED_STEPS = 2000
SIGNIFICANT = 6

Weights = Mapping[str, Any]


class Subject(NamedTuple):
    """One model to look at.

    ``circuit`` and ``mechanisms`` are None where nobody knows them all; ``known`` has the truth of
    single detectors. ``cause`` is the circuit's name by cause, and ``unsettled`` the mechanisms
    that construction does not settle.
    """

    source: str
    name: str
    seed: int
    config: ModelConfig
    data: AnchorDataset
    weights: Weights
    circuit: str | None = None
    mechanisms: frozenset[str] | None = None
    cause: str = ""
    unsettled: tuple[str, ...] = ()
    known: Mapping[str, bool] = {}


class ShuffledTask(AnchorTask):
    """An anchor task whose labels are permuted over the training rows: same tokens, same labels, no
    rule to learn."""

    def dataset(self, seed: int) -> AnchorDataset:
        """The rows that the seed draws anywhere, with permuted labels."""
        data = super().dataset(seed)
        labels, rows = data.labels.copy(), data.rows("train")
        labels[rows] = labels[np.random.default_rng([seed, 6]).permutation(rows)]
        return replace(data, labels=labels)

    def answers(self, data: AnchorDataset, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Each row keeps its label: there is no rule for another."""
        return data.labels[rows]


def reference_copies(name: str, n_copies: int = N_COPIES, first: int = 0) -> Iterator[Subject]:
    """Perturbed copies of one hand-written model, one for each seed from ``first`` on."""
    for seed in range(first, first + n_copies):
        copy = perturbed(reference(name, seed=seed), seed=seed)
        data = copy.task.dataset(seed)
        known = {"mechanisms": copy.mechanisms, "cause": copy.cause, "unsettled": copy.unsettled}
        yield Subject(
            "reference", name, seed, copy.config, data, copy.weights, copy.circuit, **known
        )


def fresh(n_each: int = N_UNTRAINED) -> Iterator[Subject]:
    """Fresh initialisations of the quick model at each gamma."""
    task, config = AnchorTask.preset("quick"), ModelConfig.preset("quick")
    for gamma in GAMMAS:
        for seed in range(n_each):
            weights = draw(config, task.d_vocab, task.length, gamma, seed)
            yield Subject("untrained", f"{gamma:g}", seed, config, task.dataset(seed), weights)


def label_shuffled(
    n_each: int = N_SHUFFLED, progress: bool = True, steps: int = SHUFFLED_STEPS
) -> Iterator[Subject]:
    """Quick models trained on permuted labels, at each gamma."""
    task, config = ShuffledTask(), ModelConfig.preset("quick")
    train = replace(TrainConfig.preset("quick"), steps=steps, eval_every=steps, device="cpu")
    final = train_members(
        task, GAMMAS, range(n_each), config=config, train=train, progress=progress
    ).final
    for gamma in GAMMAS:
        for seed in range(n_each):
            yield Subject(
                "label_shuffled",
                f"{gamma:g}",
                seed,
                config,
                task.dataset(seed),
                final.member(gamma, seed),
            )


def examine(
    model: HookedModel, data: AnchorDataset, fewer: int | None = None
) -> dict[Place, float]:
    """The readings of a model with one head that detectors look at, by probe, quantity, set and
    layer.

    ROWS inputs of each set at most, ``fewer`` for routes and pairs of one position (FEWER by
    default).
    """
    return {place: value for place, (value, *_) in readings_of(model, data, fewer).items()}


def readings_of(
    model: HookedModel, data: AnchorDataset, fewer: int | None = None
) -> dict[Place, list[float]]:
    """What `examine` reads, of a model with any number of heads: one value for each head, or one
    alone."""
    fewer = FEWER if fewer is None else fewer
    chosen = {set: data.sample(set, ROWS) for set in (REASONING, MEMORY)}
    found: dict[Place, list[float]] = {}
    for probe, set, where in plan(model.cfg.n_layers, model.cfg.n_heads):
        if probe is not geometry:  # geometry needs no calibration
            reading = probe(model, data.inputs(chosen[set or REASONING]), n_null=0, **where)
            for name, value in reading.values.items():
                found.setdefault((reading.probe, name, set, reading.layer), []).append(float(value))
    at = chosen[REASONING]
    right = last_logits(model, data.tokens[at]).argmax(1).numpy() == data.labels[at]
    found["learning_order", "acc_rsn_train", "", None] = [float(right.mean())]
    causal = _swaps(model, data, fewer) | _routes(model, data, at[right], fewer)
    if model.cfg.n_heads == 1:
        causal["without_reasoning_matched", "difference", REASONING, None] = _values(
            model, data, at[:PAIRS]
        )
    return found | {place: [value] for place, value in causal.items()}


def _swaps(model: HookedModel, data: AnchorDataset, fewer: int) -> dict[Place, float]:
    """Readings of claims M9 and M9b: what swapping each attention's output does; nan where nothing
    is answered.

    Models that were trained on shuffled labels are asked the same as the others.
    """
    found = {}
    for suffix, same, n in (("", None, PAIRS), ("_in_place", True, min(PAIRS, fewer))):
        swapped = key_and_sum(
            model, data, n=n, set=REASONING, other_answers=True, same_position=same
        )
        for probe, effect in (("swap_key", swapped.key), ("swap_sum", swapped.sum)):
            for quantity, values in (("effect", effect.values), ("control", effect.control)):
                found[probe + suffix, quantity, REASONING, None] = (
                    float(values.mean()) if values.size else math.nan
                )
    return found


def _routes(
    model: HookedModel, data: AnchorDataset, right: np.ndarray, fewer: int
) -> dict[Place, float]:
    """Readings of M7r, M8r and the names by cause, on the first rows that are answered rightly and
    end in noise.

    nan without such rows, and where labels were shuffled: there no other key or anchor has an
    answer of its own.
    """
    rows = right[data.key_position[right] + data.task.q < data.task.length - 1][:fewer]
    shares = dict.fromkeys(SHARES.values(), math.nan)
    if len(rows) and not n_other_answers(data, REASONING):
        found = anchor_routes(model, data, rows=rows).values
        shares = {quantity: found[quantity] for quantity in shares}
    return {("routes", quantity, REASONING, None): share for quantity, share in shares.items()}


def _values(model: HookedModel, data: AnchorDataset, rows: np.ndarray) -> float:
    """Reading of M4b: nats lost without the reasoning anchors' span less those lost without spans
    of as many keys."""
    inputs = data.inputs(rows)
    basis = token_basis(model, inputs, "reasoning_anchor")
    match = matched_spans(
        model, inputs, basis.shape[1], group="key", n_draws=MATCHED_DRAWS, seed=data.seed
    )
    effect = subspace_effect(model, inputs, basis, match=match)
    return float(effect.summary()["difference"])


def rows_of(subject: Subject, found: Mapping[str, Detection]) -> list[dict]:
    """One row of the table of copies for each detector, from what it said."""
    named = {
        "family": family(subject.config),
        "source": subject.source,
        "name": subject.name,
        "seed": subject.seed,
    }
    rows = []
    for detector, (present, margin) in found.items():
        known = {True: "yes", False: "no"}.get(subject.known.get(detector), "")  # type: ignore[arg-type]
        if subject.circuit is not None and subject.mechanisms is not None:
            answer = truth(detector, subject.circuit, subject.mechanisms, subject.cause)
            known = (
                "" if HAS.get(detector, set()) & {*subject.unsettled} else "yes" if answer else "no"
            )
        rounded = float(f"{margin:.{SIGNIFICANT}g}")
        rows.append(
            {**named, "detector": detector, "truth": known, "margin": rounded, "present": present}
        )
    return rows


def load(subject: Subject, model: HookedModel | None = None) -> HookedModel:
    """The subject's weights in a model, or in a new one where none is given."""
    if model is None:
        task = subject.data.task
        return lens_model(subject.config, task.d_vocab, task.length, subject.weights)
    write_weights(model, subject.weights)
    return model
