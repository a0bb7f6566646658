r"""Sites replaced: what is lost without a component, and whether the answer follows what it takes
from another input.

Ablation sets a component's output to zero, to its mean, or to what it is on another input:

    zero       0                                                     nothing at all, a value the model may never see
    mean       mean over the inputs at each position, or each position of the site's role
    resample   its value on another of the inputs, the same for the whole site of a row

They answer differently: zero also takes away a constant that later layers count on, mean leaves the
constant, resample also brings the wrong values of another input. The control gives the component
the value that it has on the same row with its noise redrawn.

Interchange says beforehand what the answer becomes when a site's activation is taken from a source
input, role to role. Its control takes the same sites from the same row with its noise redrawn.

How it can mislead. A large loss shows that the component is needed, and not what it computes. A
small loss may mean that another component takes its place. A high share of predicted answers says
that the site suffices to carry something. A low one may mean that another site carries it too,
since that site keeps the base's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.effect import REDRAWN, SHARES, Direction, Effect
from rb_interp.interventions.metrics import AnswerAt, MetricLike
from rb_interp.interventions.paired_run import PairedRun, equal_note
from rb_interp.interventions.sites import (
    Site,
    Sites,
    edits_of,
    interchange_edits,
    parse_sites,
    told,
    values_at,
    with_edits,
)
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import attention_layers
from rb_interp.probes.activations import capture
from rb_interp.tasks.inputs import Inputs

__all__ = ["ablate", "ablation", "ablations", "interchange", "patch", "patching_effect"]

METHODS = ("zero", "mean", "resample")
"""What can stand in a component's place."""


@checked
@contextmanager
def ablate(
    model: HookedModel, inputs: Inputs, sites: Sites, *, method: str = "mean", seed: int = 0
) -> Iterator:
    """A context in which the model runs without a component, or several, on the rows of ``inputs``,
    all in their order.

    Zero and the mean, at a place that is the same in all rows, stand in any row of their length.
    """
    own = values_at(model, inputs, parse_sites(sites))
    with with_edits(
        model, edits_of(model, inputs, {site: replacement(own[site], method, seed) for site in own})
    ):
        yield model


def replacement(values: Tensor, method: str, seed: int = 0) -> Tensor:
    """What stands in the place of a site's values ``[row, n, ...]``; for ``resample`` one cycle
    through all rows.

    >>> values = torch.tensor([[1.0], [3.0]])
    >>> [replacement(values, method).tolist() for method in METHODS]
    [[[0.0], [0.0]], [[2.0], [2.0]], [[3.0], [1.0]]]
    """
    if method not in METHODS:
        raise ModelError(f"there is no ablation '{method}'; {nearest(method, METHODS)}")
    if method == "zero":
        return torch.zeros_like(values)
    if method == "mean":
        return values.mean(0, keepdim=True).expand_as(values)
    if len(values) < 2:
        raise ModelError(
            "resampling takes values from another row and got a single one; give two rows or more."
        )
    order = np.random.default_rng([seed, 9]).permutation(len(values))
    following = np.empty_like(order)
    following[order] = np.roll(order, 1)
    return values[torch.from_numpy(following)]


@checked
@contextmanager
def patch(model: HookedModel, rows: Inputs, source: Inputs, sites: Sites) -> Iterator[HookedModel]:
    """A context in which every pass of the rows, all in their order, has sites from their source,
    role to role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, other = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> with patch(model, clean, other, "resid_pre.0@key"):
    ...     patched = model(torch.from_numpy(clean.tokens).long())
    >>> torch.allclose(patched, model(torch.from_numpy(other.tokens).long()), atol=1e-5)
    True
    """
    with with_edits(model, interchange_edits(model, rows, source, sites)):
        yield model


@checked
@single_threaded
def patching_effect(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    sites: Sites,
    *,
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> Effect:
    """What one site, or several together, recover in the corrupted rows, or lose in the clean ones,
    row by row.

    Values are divided by the mean over all rows of the whole difference, taken as known, so that
    their mean is a cell of ``patching_matrix``, whose arguments all others are.

    Args:
        model: any model with TransformerLens's hooks.
        sites: one site or several, as `Site` or as text.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        direction: ``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones
            into clean rows.
        control: rows that differ in noise alone from those that run, or None for no control.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "both")
    >>> both = patching_effect(model, *pair, ["resid_pre.0@key", "resid_pre.0@anchor"])
    >>> float(both.values.mean().round(3))
    1.0
    """
    parsed = parse_sites(sites)
    pair = PairedRun(model, metric, answer_at, clean, corrupted, direction, control)
    runs = [pair.run(interchange_edits(model, pair.base, some, parsed)) for some in pair.sources]
    pair.note_control(parsed)
    return pair.effect(
        f"patching ({direction})", told(parsed, model), runs, quantity=SHARES[direction]
    )


@checked
@single_threaded
def ablation(
    model: HookedModel,
    inputs: Inputs,
    sites: Sites,
    *,
    method: str = "mean",
    control: Inputs | None = None,
    metric: MetricLike = "accuracy",
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """What each input loses without a component, or without several together, beside its control.

    Components that stand in for each other lose nothing one by one, and everything together.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the roles that are named.
        sites: one site or several, as `Site` or as text.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        seed: seed of the draws.
        method: what stands in their place, of METHODS.
        control: the same rows with their noise redrawn, or None for no control.
    """
    parsed, pair = parse_sites(sites), PairedRun(model, metric, answer_at, inputs, control=control)
    own = values_at(
        model, inputs, parsed
    )  # the untouched model's, and one other row's where resampled
    runs = [
        pair.run(
            edits_of(model, inputs, {site: replacement(own[site], method, seed) for site in own})
        )
    ]
    layers = attention_layers(model) if any(site.role in (None, "all") for site in parsed) else []
    if method != "zero" and layers:
        attends = (
            capture(model, inputs.tokens, [hook := Site("pattern", layers[0]).hook])[hook]
            .any(-1)
            .any(1)
        )
        if padded := int((~attends.all(1)).sum()):
            text = (
                f"{padded} of {len(inputs)} rows have padding in front, which the {method} takes in"
            )
            pair.notes["padding"] = f"{text}; name roles, or make one call for each length."
    runs += [pair.run(interchange_edits(model, inputs, some, parsed)) for some in pair.sources]
    pair.note_control(parsed)
    return pair.effect(f"{method} ablation", told(parsed, model), runs)


@checked
@single_threaded
def ablations(
    model: HookedModel,
    inputs: Inputs,
    sites: Sequence[Site | str],
    *,
    control: Inputs | None = None,
    methods: Sequence[str] = METHODS,
    seed: int = 0,
) -> pd.DataFrame:
    """Every ablation of every site, from one capture: the same numbers as ``ablation`` one by one,
    means over inputs.

    Columns: component, method, accuracy (without the component), accuracy_drop, loss_increase,
    control_accuracy_drop, control_loss_increase (the same for all methods; NaN without a control),
    n, note (such as of a control's rows).

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the roles that are named.
        control: rows that differ in noise alone from those that run, or None for no control.
        seed: seed of the draws.
        sites: any components. methods: what stands in their place.
    """
    parsed, rows = parse_sites(sites), []
    accuracy, loss = (
        PairedRun(model, metric, None, inputs, control=control) for metric in ("accuracy", "loss")
    )

    def means(site: Site, values: Tensor) -> list[float]:
        after = accuracy.run(edits_of(model, inputs, {site: values}))
        right = accuracy.of(after)
        return [right.mean(), accuracy.lost(right).mean(), loss.lost(loss.of(after)).mean()]

    own = values_at(model, inputs, parsed)
    other = {} if control is None else values_at(model, control, parsed)
    for site in parsed:
        aside = means(site, other[site])[1:] if other else [np.nan, np.nan]
        equal = (own[site] == other.get(site, np.nan)).flatten(1).all(1).numpy()
        notes = accuracy.notes | equal_note(equal, str(site))
        said = len(inputs), " ".join(f"{name}: {why}" for name, why in notes.items())
        for method in methods:
            rows.append(
                (
                    str(site),
                    method,
                    *means(site, replacement(own[site], method, seed)),
                    *aside,
                    *said,
                )
            )
    columns = [
        "accuracy_drop",
        "loss_increase",
        "control_accuracy_drop",
        "control_loss_increase",
        "n",
        "note",
    ]
    return pd.DataFrame(rows, columns=pd.Index(["component", "method", "accuracy", *columns]))


@checked
@single_threaded
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
    """Share of base inputs whose answer becomes the predicted one when sites are taken from the
    source, in [0, 1].

    Args:
        model: any model with TransformerLens's hooks.
        answer_at: where the answer is read, by default at the last position.
        base, source, control: as many rows each; ``control`` has the base's key, anchors and
            position, and other noise.
        sites: what is taken, all together. hold: sites that keep their base value meanwhile.
        predicted: the answer that each base input should get.

    The control is 1 where taking the sites from ``control`` changes the answer at all: the stricter
        count. Rows whose
    answer is the predicted one already are left out, and a note has their number.
    """
    if len(predicted) != len(base):
        raise ModelError(
            f"got {len(predicted)} predicted answers for {len(base)} inputs; give one for each "
            f"input."
        )
    taken, kept = parse_sites(sites), parse_sites(hold) if hold else []
    pair = PairedRun(model, "kl", answer_at, base, control=control)  # asks for no labels
    held = interchange_edits(model, base, base, kept) if kept else []
    runs = [
        pair.run([*held, *interchange_edits(model, base, rows, taken)])
        for rows in (source, control)
    ]
    if len(predicted) and not 0 <= predicted.min() <= predicted.max() < pair.base_logits.shape[1]:
        raise ModelError(
            f"got predicted answers from {predicted.min()} to {predicted.max()}; the model answers "
            f"with tokens 0 to "
            f"{pair.base_logits.shape[1] - 1}."
        )
    pair.note_control(taken)
    place = told(taken, model) + (f"; held: {told(kept, model)}" if kept else "")
    answers, moved, changed = (some.argmax(1).numpy() for some in (pair.base_logits, *runs))
    if n_alike := int((answers == predicted).sum()):
        pair.notes["rows"] = (
            f"{n_alike} of {len(base)} are left out, since their answer is the predicted one "
            f"already."
        )
    values, other = (
        (some * 1.0)[answers != predicted] for some in (moved == predicted, changed != answers)
    )
    ends = (0.0, float(values.mean())) if len(values) else (np.nan, np.nan)
    about = pair.answered, pair.all_notes("@" in place)
    return Effect(
        "interchange", place, "moved_as_predicted", values, other[None], REDRAWN, *ends, *about
    )
