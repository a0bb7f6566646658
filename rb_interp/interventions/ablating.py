r"""What is lost without a component: its output set to zero, to its mean, or to what it is on another input.

    zero       0                                                     nothing at all, a value the model may never see
    mean       mean over the inputs at each position, or each position of the site's role
    resample   its value on another of the inputs, the same for the whole site of a row

All three stand beside each other because they answer differently: zero also takes away a constant that later layers
count on, mean leaves the constant, resample also brings the wrong values of another input. The control gives the
component the value that it has on the same row with its noise redrawn. It tells what the change costs although key,
anchors and answer stay the same.

How it can mislead. A large loss shows that the component is needed. It does not show what the component computes. A
small loss may mean that another component takes its place. An untrained model loses nothing, since it knows no answer.
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
from rb_interp.interventions.answers import AnswerAt, Cost, answer_logits
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import (
    Sites,
    interchange_edits,
    parse_sites,
    together,
    values_at,
    with_edits,
    write_at,
)
from rb_interp.interventions.metrics import Measured
from rb_interp.interventions.sites import Edit, Site
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.capturing import as_rows
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ablate", "ablation", "ablations"]

METHODS = ("zero", "mean", "resample")
"""What can stand in a component's place."""

Values = Tensor
"""A site's activation on every row, ``[row, n, ...]`` with n the positions of its role."""


@typed
@contextmanager
def ablate(model: HookedModel, inputs: Inputs, sites: Sites, *, method: str = "mean", seed: int = 0) -> Iterator:
    """A context in which the model runs without a component, or several, on any of the rows of ``inputs``.

    Zero and the mean, at a place that is the same in all rows, stand in any row of their length.

    Raises ModelError for a method or a site that there is not, and in a pass with other rows.
    """
    with with_edits(model, ablation_edits(model, inputs, sites, method=method, seed=seed)):
        yield model


@few_threads
def ablation_edits(
    model: HookedModel, inputs: Inputs, sites: Sites, *, method: str = "mean", seed: int = 0
) -> list[Edit]:
    """The edits of an ablation, for runs on the rows of ``inputs``; the same seed gives the same resampling.

    Several sites have the values of the untouched model, and those of one other row where they are resampled.
    """
    tokens, parsed, edits = as_rows(inputs.tokens), parse_sites(sites), []
    for site, values in zip(parsed, values_at(model, tokens, inputs.roles, parsed), strict=True):
        edits += write_at(site, replacement(values, method, seed), inputs.roles, tokens.shape[1], model, tokens)
    return edits


def replacement(values: Values, method: str, seed: int = 0) -> Values:
    """What stands in the place of a site's values ``[row, n, ...]``.

    >>> values = torch.tensor([[1.0], [3.0]])
    >>> [replacement(values, method).tolist() for method in METHODS]
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


@typed
@few_threads
def ablation(
    model: HookedModel,
    inputs: Inputs,
    sites: Sites,
    *,
    method: str = "mean",
    control: Inputs | None = None,
    metric: Measured = "accuracy",
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """What each input loses without a component, or without several together, beside its control.

    Components that stand in for each other lose nothing one by one, and everything together.

    Args:
        inputs: rows, and the roles that the sites name; with labels, where the metric asks for them.
        sites: any component, with or without a role, or a list of them. method: ``zero``, ``mean`` or ``resample``.
        control: the rows with their noise redrawn, ``task.counterfactual(data, rows, "noise")``; None for no control.
        metric: a name or a function, see ``interventions.metrics``. ``accuracy`` loses 0, 1 or -1 (an answer gained).
        answer_at: where the answer is read, by default at the last position. seed: of the resampling.

    Raises ModelError for a method, site or metric that there is not.
    """
    hooked(model, "ablation")
    parsed, cost = parse_sites(sites, "an ablation"), Cost(model, inputs, metric, "ablation", answer_at)
    runs = [cost.logits(ablation_edits(model, inputs, parsed, method=method, seed=seed))]
    if control is not None:
        runs.append(cost.logits(interchange_edits(model, inputs, control, parsed)))
    return cost.effect(f"{method} ablation", together(parsed, model), runs, "noise redrawn")


@typed
@few_threads
def ablations(
    model: HookedModel,
    inputs: Inputs,
    sites: Sequence[Site | str],
    *,
    control: Inputs | None = None,
    methods: Sequence[str] = METHODS,
    seed: int = 0,
) -> pd.DataFrame:
    """Every ablation of every site, from one capture: the same numbers as ``ablation`` one by one, means over inputs.

    Args:
        sites: any components. methods: what stands in their place.
        control: the same rows with their noise redrawn, or None for no control.

    Returns:
        A table with the columns component, method, accuracy (without the component), accuracy_drop, loss_increase,
    control_accuracy_drop, control_loss_increase (the same for all methods; NaN without a control), n.
    """
    import pandas as pd

    parsed, length = parse_sites(sites), inputs.tokens.shape[1]
    logits = answer_logits(model, inputs)
    costs = [Cost(model, inputs, metric, "ablations", None, logits) for metric in ("accuracy", "loss")]
    names, rows = [cost.quantity for cost in costs], []
    own = values_at(model, inputs.tokens, inputs.roles, parsed)
    other = own if control is None else values_at(model, control.tokens, control.roles, parsed)

    def means(site: Site, values: Values) -> list[float]:
        after = answer_logits(model, inputs, write_at(site, values, inputs.roles, length, model))
        return [costs[0].measured(after).mean(), *(cost.of(after).mean() for cost in costs)]

    for site, values, beside in zip(parsed, own, other, strict=True):
        aside = [np.nan, np.nan] if control is None else means(site, beside)[1:]
        for method in methods:
            rows.append((str(site), method, *means(site, replacement(values, method, seed)), *aside, len(inputs)))
    columns = ["component", "method", "accuracy", *names, *(f"control_{name}" for name in names), "n"]
    return pd.DataFrame(rows, columns=pd.Index(columns))
