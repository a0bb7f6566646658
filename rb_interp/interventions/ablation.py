r"""What is lost without a component: its output set to zero, to its mean, or to what it is on another input.

    zero       0                                                     nothing at all, a value the model may never see
    mean       mean over the inputs at each position, or each position of the site's role
    resample   its value on another of the inputs, the same for the whole site of a row

All three stand beside each other because they answer differently: zero also takes away a constant that later layers
count on, mean leaves the constant, resample also brings the wrong values of another input. The placebo gives the
component the value that it has on the same row with its noise redrawn: what is lost there, the answer does not need.

How it can mislead. That much is lost shows that the component is needed, not what it computes, and little lost may
mean that another component makes up for it. An untrained model loses nothing, since it has nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.effect import Effect, lost, right
from rb_interp.interventions.hooking import edited, write_at
from rb_interp.interventions.interchange import answer_logits, interchange_edits, values_at
from rb_interp.interventions.sites import Edit, Site
from rb_interp.probes.capture import LensModel
from rb_interp.tasks.counterfactual import Inputs

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("zero", "mean", "resample")
"""What can stand in a component's place."""
COLUMNS = ("nats_lost", "accuracy_lost")
PLACEBO = "noise redrawn"

Values = Tensor
"""A site's activation on every row, ``[row, n, ...]`` with n the positions of its role."""


@contextmanager
def ablate(model: LensModel, inputs: Inputs, site: Site | str, method: str = "mean", seed: int = 0) -> Iterator:
    """A context in which the model runs without a component, on the rows of ``inputs`` or the first ones of them.

    Raises ModelError for a method or a site that there is not.
    """
    with edited(model, ablation_edits(model, inputs, site, method, seed)):
        yield model


def ablation_edits(
    model: LensModel, inputs: Inputs, site: Site | str, method: str = "mean", seed: int = 0
) -> list[Edit]:
    """The edits of an ablation, for runs on the rows of ``inputs``; the same seed gives the same resampling."""
    site = Site.parse(site)
    values = values_at(model, inputs, [site])[site]
    return write_at(site, instead(values, method, seed), inputs.roles, inputs.tokens.shape[1], model)


def instead(values: Values, method: str, seed: int = 0) -> Values:
    """What stands in the place of a site's values ``[row, n, ...]``.

    >>> values = torch.tensor([[1.0], [3.0]])
    >>> [instead(values, method).tolist() for method in METHODS]
    [[[0.0], [0.0]], [[2.0], [2.0]], [[3.0], [1.0]]]

    Raises ModelError for an unknown method, and for resampling a single row.
    """
    if method not in METHODS:
        raise ModelError(f"there is no ablation '{method}'; {nearest(method, METHODS)}")
    if method == "zero":
        return torch.zeros_like(values)
    if method == "mean":
        return values.mean(0, keepdim=True).expand_as(values)
    if len(values) < 2:
        raise ModelError("resampling takes values from another row and got a single one; give two rows or more.")
    return values[torch.from_numpy(derangement(len(values), seed))]


def derangement(n: int, seed: int) -> Int[np.ndarray, " n"]:
    """A random order of 0..n-1 in which nothing stays in its place: one cycle through all.

    >>> derangement(2, seed=0).tolist()
    [1, 0]
    """
    order, following = np.random.default_rng([seed, 9]).permutation(n), np.empty(n, dtype=np.int64)
    following[order] = np.roll(order, 1)
    return following


def ablation(
    model: LensModel,
    inputs: Inputs,
    site: Site | str,
    method: str = "mean",
    *,
    placebo: Inputs | None = None,
    quantity: str = "accuracy_lost",
    seed: int = 0,
) -> Effect:
    """What each input loses without a component, in nats or as 0, 1 or -1 (an answer gained), beside its placebo.

    Args:
        site: any component, with or without a role. method: ``zero``, ``mean`` or ``resample``.
        placebo: the same rows with their noise redrawn, ``counterfactual(data, rows, "noise")``; None for no placebo.
        quantity: ``accuracy_lost`` or ``nats_lost``.

    Raises ModelError for a method, site or quantity that there is not.
    """
    site = Site.parse(site)
    before = answer_logits(model, inputs)
    after = answer_logits(model, inputs, ablation_edits(model, inputs, site, method, seed))
    values = lost(before, after, inputs.labels, quantity)
    other = np.zeros((0, len(values)))
    if placebo is not None:
        other = lost(
            before,
            answer_logits(model, inputs, interchange_edits(model, inputs, placebo, site)),
            inputs.labels,
            quantity,
        )[None]
    return Effect(f"{method} ablation", str(site), quantity, values, other, PLACEBO)  # pyright: ignore


def ablations(
    model: LensModel,
    inputs: Inputs,
    placebo: Inputs | None,
    sites: Sequence[Site | str],
    methods: Sequence[str] = METHODS,
    seed: int = 0,
) -> pd.DataFrame:
    """Every ablation of every site, from one capture: the same numbers as ``ablation`` one by one, means over inputs.

    Columns: component, method, accuracy (left), accuracy_lost, nats_lost, placebo_accuracy_lost, placebo_nats_lost
    (those of a component are the same for all methods; nan without a placebo), n.
    """
    import pandas as pd

    parsed, length = [Site.parse(site) for site in sites], inputs.tokens.shape[1]
    found = values_at(model, inputs, parsed)
    other = {} if placebo is None else values_at(model, placebo, parsed)
    before, rows = answer_logits(model, inputs), []
    for site in parsed:
        beside = {f"placebo_{quantity}": np.nan for quantity in COLUMNS}
        if placebo is not None:
            after = answer_logits(model, inputs, write_at(site, other[site], inputs.roles, length, model))
            beside = {f"placebo_{name}": value for name, value in _means(before, after, inputs.labels).items()}
        for method in methods:
            values = instead(found[site], method, seed)
            after = answer_logits(model, inputs, write_at(site, values, inputs.roles, length, model))
            accuracy = float(right(after, inputs.labels).mean())
            named = {"component": str(site), "method": method, "accuracy": accuracy}
            rows.append({**named, **_means(before, after, inputs.labels), **beside, "n": len(inputs)})
    columns = ["component", "method", "accuracy", "accuracy_lost", "nats_lost"]
    return pd.DataFrame(rows, columns=[*columns, "placebo_accuracy_lost", "placebo_nats_lost", "n"])


def _means(before: np.ndarray, after: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {quantity: float(lost(before, after, labels, quantity).mean()) for quantity in COLUMNS}
