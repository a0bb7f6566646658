r"""What is lost without a component, and whether the answer follows what a site takes from another input.

Ablation sets a component's output to zero, to its mean, or to what it is on another input:

    zero       0                                                     nothing at all, a value the model may never see
    mean       mean over the inputs at each position, or each position of the site's role
    resample   its value on another of the inputs, the same for the whole site of a row

They answer differently: zero also takes away a constant that later layers count on, mean leaves the constant, resample
also brings the wrong values of another input. The control gives the component the value that it has on the same row
with its noise redrawn: what the change costs although key, anchors and answer stay the same.

Interchange runs a base input with a site's activation taken from a source input, role to role, and says beforehand
what the answer becomes. Its control takes the same sites from the same row with its noise redrawn.

How it can mislead. A large loss shows that the component is needed. It does not show what the component computes. A
small loss may mean that another component takes its place. An untrained model loses nothing, since it knows no answer.
A high share of predicted answers says that the site suffices to carry something. A low one may mean that another site
carries it too, since that site keeps the base's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.effect import Effect, effect_of
from rb_interp.interventions.hooking import Edit, interchange_edits, with_edits, write_at
from rb_interp.interventions.metrics import AnswerAt, Comparison, Measured, answer_logits
from rb_interp.interventions.sites import Site, Sites, intervention, parse_sites, told, values_at
from rb_interp.models.protocol import HookedModel
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

__all__ = ["ablate", "ablation", "ablations", "interchange"]

METHODS = ("zero", "mean", "resample")
"""What can stand in a component's place."""


@typed
@contextmanager
def ablate(model: HookedModel, inputs: Inputs, sites: Sites, *, method: str = "mean", seed: int = 0) -> Iterator:
    """A context in which the model runs without a component, or several, on the rows of ``inputs``, all in their order.

    Zero and the mean, at a place that is the same in all rows, stand in any row of their length.

    Raises ModelError for a method or a site that there is not, and in a pass with other rows.
    """
    with with_edits(model, _edits(model, inputs, parse_sites(sites), method, seed)):
        yield model


def _edits(model: HookedModel, inputs: Inputs, sites: Sequence[Site], method: str, seed: int) -> list[Edit]:
    """Edits of an ablation: several sites have the untouched model's values, and one other row's where resampled."""
    values = zip(sites, values_at(model, inputs, sites), strict=True)
    return [edit for site, own in values for edit in write_at(model, site, replacement(own, method, seed), inputs)]


def replacement(values: Tensor, method: str, seed: int = 0) -> Tensor:
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


@intervention
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
        method: what stands in their place, of METHODS.
        control: the same rows with their noise redrawn, or None for no control.

    Raises ModelError for a method, site or metric that there is not.
    """
    parsed, pair = parse_sites(sites), Comparison(model, metric, answer_at, inputs)
    runs = [pair.run(_edits(model, inputs, parsed, method, seed))]
    if control is not None:
        runs.append(pair.run(interchange_edits(model, inputs, control, parsed)))
    return pair.cost(f"{method} ablation", told(parsed, model), runs)


@intervention
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

    Columns: component, method, accuracy (without the component), accuracy_drop, loss_increase, control_accuracy_drop,
    control_loss_increase (the same for all methods; NaN without a control), n.

    Args:
        sites: any components. methods: what stands in their place.
    """
    parsed, logits, rows = parse_sites(sites), answer_logits(model, inputs), []
    accuracy, loss = (Comparison(model, metric, None, inputs, logits=logits) for metric in ("accuracy", "loss"))

    def means(site: Site, values: Tensor) -> list[float]:
        after = accuracy.run(write_at(model, site, values, inputs))
        return [accuracy.of(after).mean(), accuracy.lost(after).mean(), loss.lost(after).mean()]

    own = values_at(model, inputs, parsed)
    other = own if control is None else values_at(model, control, parsed)
    for site, values, beside in zip(parsed, own, other, strict=True):
        aside = [np.nan, np.nan] if control is None else means(site, beside)[1:]
        for method in methods:
            rows.append((str(site), method, *means(site, replacement(values, method, seed)), *aside, len(inputs)))
    columns = ["accuracy_drop", "loss_increase", "control_accuracy_drop", "control_loss_increase", "n"]
    return pd.DataFrame(rows, columns=pd.Index(["component", "method", "accuracy", *columns]))


@intervention
def interchange(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sites: Sites,
    predicted: Int[np.ndarray, " row"],
    *,
    control: Inputs,
    hold: Sites = (),
    answer_at: AnswerAt = None,
) -> Effect:
    """Share of base inputs whose answer becomes the predicted one when sites are taken from the source, in [0, 1].

    Args:
        base, source, control: as many rows each; ``control`` has the base's key, anchors and position, and other noise.
        sites: what is taken, all together. hold: sites that keep their base value meanwhile.
        predicted: the answer that each base input should get.

    The control is 1 where taking the sites from ``control`` changes the answer at all: the stricter count.
    """
    if len(predicted) != len(base):
        raise ModelError(f"got {len(predicted)} predicted answers for {len(base)} inputs; give one for each input.")
    taken, kept = parse_sites(sites), parse_sites(hold) if hold else []
    held = interchange_edits(model, base, base, kept) if kept else []
    edits = ([], *([*held, *interchange_edits(model, base, rows, taken)] for rows in (source, control)))
    before, after, other = (answer_logits(model, base, some, answer_at) for some in edits)
    place = told(taken, model) + (f"; held: {told(kept, model)}" if kept else "")
    moved, changed = after.argmax(1).numpy() == predicted, other.argmax(1) != before.argmax(1)
    return effect_of("interchange", place, "moved_as_predicted", [moved * 1.0, changed.numpy() * 1.0])
