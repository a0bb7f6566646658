"""Trained models whose mechanism is known: probes are calibrated on them beside the hand-written
ones.

    interchange   trained members that interchange training gave a route (`routes`)
    decorative    the same with the attention of another circuit
    uniform       the same route with L0's attention fixed at exactly 1/i
    gauge         the same function with W_V R and R^-1 W_O in place of W_V and W_O, R random or whitening W_V
    silent head   the same function with a second head whose W_O is 0; it attends uniformly, or anyhow
    split head    the same function with each head as two equal ones of half the output

The truth of the first three is what training asked for; of what it did not ask, nothing is known.
The last three compute what their original computes, so a detector is right where it says what it
says of the original.

Each family of models (no LayerNorm, before or after each sublayer) has its own.

How it can mislead. All members of a family begin from ten members of one run, so they are few, and
copies of one are no independent cases. Members whose training did not reach `SMALLEST_SHARE`, or
whose attention is further than `ATTENTION_WITHIN` from what was asked, do not count; the table of
models says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from experiments.calibration.detectors import CAUSES, NAMES, Detection, Place, detect
from experiments.calibration.known_models import ROWS, Subject, examine, load, readings_of, rows_of
from experiments.calibration.routes import (
    ATTENTION_WITHIN,
    RECIPES,
    ROUTES,
    SMALLEST_SHARE,
    Recipe,
    attention_reached,
    shares,
    train_routes,
)
from experiments.calibration.starts import (
    SEEDS,
    datasets,
    kept,
    members_as_trained,
    members_of,
    starts,
)
from rb_interp.models.config import NORMS, ModelConfig
from rb_interp.settings import SMALL
from rb_interp.studies.anchor.checks import family

FAMILIES = tuple(replace(ModelConfig.preset("quick"), norm=norm) for norm in NORMS)
"""The models that are trained, one for each place of LayerNorm."""
STEPS_FROM_AFAR = 1500
"""Steps of a recipe at least where its members were not named by hand, and may be far from the
route."""
N_COPIES = 2
"""Gauge copies of each original, every second one whitened."""
OF_SEVERAL_HEADS = ("M8", "M9", "M7r", "M8r", "M9b", *NAMES, *CAUSES)
"""Detectors that a model with several heads has: no claim says which head the others mean."""

_BY_ROUTE = ("M7", "M8", "M9", "M7r", "M8r", "M9b", *NAMES, *CAUSES)


def _only(*true: str) -> dict[str, bool]:
    return {detector: detector in true for detector in _BY_ROUTE}


ROUTE: Mapping[str, Mapping[str, bool]] = {
    "average-then-key": _only(*_BY_ROUTE[:6], "average-then-key", "average-then-key by cause"),
    "key-to-anchors": _only("key-to-anchors", "key-to-anchors by cause"),
    "gather-at-last-anchor": _only("gather-at-last-anchor by cause"),
}
"""What follows from a route: the key comes from its own position or it does not, and likewise the
sum."""
Weights = Mapping[str, Tensor]


def trained_subjects(
    folder: Path, progress: bool = True, config: ModelConfig = FAMILIES[0]
) -> tuple[list[Subject], pd.DataFrame]:
    """Trained models with a known mechanism, and a table of all that were trained, those that do
    not count included.

    Args:
        folder: keeps weights that are trained already. config: the models.

    Returns:
        Subjects, and one row for each model and exchange: family, name, gamma, seed, exchange
            (``task``: none), share,
        counts.
    """
    subjects, rows = [], []
    for name, recipe in RECIPES.items():
        found = routed(folder, name, config, progress)
        members = members_of(folder, recipe, config, progress)
        data = datasets(members)
        share = shares(found, data, config, recipe.circuit)
        counts = np.all(share >= SMALLEST_SHARE, axis=1)
        asked = ["task", *map(_words, ROUTES[recipe.circuit])]
        if recipe.attends_like:
            attention = attention_reached(found, data, config, recipe)
            share, counts = (
                np.column_stack([share, attention]),
                counts & (attention >= 1 - ATTENTION_WITHIN),
            )
            asked.append(f"attends like {recipe.attends_like}")
            counts &= not any(
                other.begins == name for other in RECIPES.values()
            )  # halfway: the next stage counts
        source = (
            "decorative"
            if recipe.attends_like
            else "uniform"
            if recipe.uniform_layers
            else "interchange"
        )
        own = replace(config, uniform_layers=recipe.uniform_layers)
        for member in np.flatnonzero(counts):
            weights = {key: weight[member] for key, weight in found.items()}
            called, seed = f"{name}, gamma {members[member][0]:g}", members[member][1]
            subjects.append(
                Subject(source, called, seed, own, data[member], weights, known=truth_of(recipe))
            )
        for (gamma, seed), values, count in zip(members, share.round(4), counts, strict=True):
            place = {"name": name, "gamma": gamma, "seed": seed}
            found_of = zip(asked, values.tolist(), strict=True)
            rows += [
                {**place, "exchange": what, "share": value, "counts": bool(count)}
                for what, value in found_of
            ]
    return subjects, pd.DataFrame(rows).assign(family=family(config))


def truth_of(recipe: Recipe) -> dict[str, bool]:
    """What each detector ought to say of members of a recipe, as far as training settled it."""
    return {**ROUTE[recipe.circuit], **({"M1": True} if 0 in recipe.uniform_layers else {})}


def routed(
    folder: Path, name: str, config: ModelConfig, progress: bool = True
) -> dict[str, Tensor]:
    """The members of one recipe, trained or read from the folder."""
    recipe = RECIPES[name]

    def make() -> dict[str, Tensor]:
        members = members_of(folder, recipe, config, progress)
        start = routed(folder, recipe.begins, config, progress) if recipe.begins else None
        start = start or starts(folder, members, config, progress)
        start |= {
            f"blocks.{layer}.attn.W_Q": 0 * start[f"blocks.{layer}.attn.W_Q"]
            for layer in recipe.uniform_layers
        }
        own = replace(config, uniform_layers=recipe.uniform_layers)
        steps = recipe.steps if config.norm == "none" else max(recipe.steps, STEPS_FROM_AFAR)
        return train_routes(
            start, datasets(members), own, replace(recipe, steps=steps), progress=progress
        )

    slug = "-".join(re.findall(r"\w+", name))
    return kept(folder / f"{slug}-{config.norm}.safetensors", make)


def _words(swap) -> str:
    held = f", {swap.hold} held" if swap.hold else ""
    return f"{swap.site} at {swap.where}{held}: key of the {swap.key}, sum of the {swap.sum}"


def copies_of(original: Subject) -> Iterator[Subject]:
    """Copies of a model that compute what it computes, without their truth."""
    rng = np.random.default_rng([original.seed, 12])
    two = replace(original.config, n_heads=2 * original.config.n_heads)
    for number in range(N_COPIES):
        at, whiten = original.seed * N_COPIES + number, number % 2 == 1
        name = f"{original.name}, {'whitened' if whiten else 'random'}"
        yield original._replace(
            source="gauge", name=name, seed=at, weights=in_gauge(original.weights, rng, whiten)
        )
        if number < 2:
            name = f"{original.name}, {'attends anyhow' if number else 'attends uniformly'}"
            weights = with_silent_head(original.weights, rng, size=float(number))
            yield original._replace(
                source="silent head", name=name, seed=at, config=two, weights=weights
            )
        if number < 1:
            weights = with_split_heads(original.weights)
            yield original._replace(source="split head", seed=at, config=two, weights=weights)


def in_gauge(weights: Weights, rng: np.random.Generator, whiten: bool) -> dict[str, Tensor]:
    """The same function with W_V R and R^-1 W_O, R random, or the one that makes the columns of W_V
    orthonormal."""
    changed = {name: weight.double() for name, weight in weights.items()}
    for name in [name for name in changed if name.endswith("W_V")]:
        W_V, block = changed[name], name.removesuffix("W_V")
        n_heads, _, d_head = W_V.shape
        R = torch.from_numpy(rng.standard_normal((n_heads, d_head, d_head)))
        R = torch.linalg.inv(torch.linalg.qr(W_V).R) if whiten else R
        changed |= {name: W_V @ R, f"{block}W_O": torch.linalg.solve(R, changed[f"{block}W_O"])}
        changed[f"{block}b_V"] = (changed[f"{block}b_V"][:, None] @ R)[:, 0]
    return changed


def with_silent_head(weights: Weights, rng: np.random.Generator, size: float) -> dict[str, Tensor]:
    """The same function with as many further heads, of W_O = 0.

    Their other matrices are normal, ``size`` times as large as the trained ones. Size 0 makes them
    attend exactly 1/i.
    """

    def further(name: str, weight: Tensor) -> Tensor:
        if name.endswith("W_O") or "attn.b_" in name:
            return torch.zeros_like(weight)
        spread = size * float(weight.std())
        return torch.from_numpy(spread * rng.standard_normal(weight.shape)).to(weight.dtype)

    return {
        name: torch.cat([w, further(name, w)]) if _of_heads(name) else w
        for name, w in weights.items()
    }


def with_split_heads(weights: Weights) -> dict[str, Tensor]:
    """The same function with every head twice, each with half the output."""
    half = {
        name: weight / 2 if name.endswith("W_O") else weight for name, weight in weights.items()
    }
    return {
        name: torch.cat([weight, weight]) if _of_heads(name) else weight
        for name, weight in half.items()
    }


def _of_heads(name: str) -> bool:
    return ".attn." in name and not name.endswith("b_O")


def detections(subject: Subject) -> dict[str, Detection]:
    """What every detector says of a model; where it has several heads, those of OF_SEVERAL_HEADS
    alone."""
    model = load(subject)
    if subject.config.n_heads == 1:
        found = detect(examine(model, subject.data, fewer=ROWS))
    else:
        readings = readings_of(model, subject.data, fewer=ROWS)
        together = {place: _of_heads_together(place, values) for place, values in readings.items()}
        found = {
            name: present for name, present in detect(together).items() if name in OF_SEVERAL_HEADS
        }
    return found


def _of_heads_together(place: Place, values: Sequence[float]) -> float:
    """The head that a circuit's name goes by: the one that shows the most."""
    return min(values) if place[1] == "tv" else max(values)


def answers(
    folder: Path, config: ModelConfig = FAMILIES[0], progress: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each detector's answer about each trained model, in the columns of the table of copies; and
    the table of models.

    A copy's truth is what the detector says of its original. Args are those of `trained_subjects`.
    """
    subjects, models = trained_subjects(folder, progress, config)
    rows = []
    for subject in tqdm(
        subjects, disable=not progress, unit="model", desc="reading trained models"
    ):
        rows += rows_of(subject, detections(subject))
    originals = members_as_trained(
        folder, [(SMALL, seed) for seed in SEEDS], config
    )  # and those with a known route
    originals += [subject for subject in subjects if subject.source == "interchange"]
    for original in tqdm(originals, disable=not progress, unit="model", desc="reading copies"):
        known = {name: found.present for name, found in detections(original).items()}
        for copy in copies_of(original):
            rows += rows_of(copy._replace(known=known), detections(copy))
    return pd.DataFrame(rows), models
