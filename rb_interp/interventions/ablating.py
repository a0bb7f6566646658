"""Sites replaced: what is lost without a component, and what it brings from another input.

Ablation sets a component's output to zero, to its mean, or to what it is on another input:

    zero       0, a value that the model may never see
    mean       mean over the inputs at each position, or each position of the site's role
    resample   its value on another of the inputs, the same for the whole site of a row

They answer differently: zero also takes away a constant that later layers count on, mean leaves the
constant, resample also brings the wrong values of another input. The control gives the component
the value that it has on the same row with its noise redrawn.

How it can mislead. A large loss shows that the component is needed, and not what it computes. A
small loss may mean that another component takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Literal, cast, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions.attribution import read_hooks, streams_of
from rb_interp.interventions.edits import (
    Edit,
    edits_of,
    gather,
    interchange_edits,
    values_at,
    with_edits,
)
from rb_interp.interventions.effect import SHARE_NAMES, Direction, Effect, row_interval
from rb_interp.interventions.metrics import AnswerAt, MetricLike, metric_of
from rb_interp.interventions.paired_run import PairedRun, equal_note, uneven_note
from rb_interp.interventions.patching import PROGRESS_AFTER_SECONDS, CellRuns
from rb_interp.interventions.sites import (
    PER_HEAD,
    Site,
    Sites,
    aligned,
    parse_sites,
    site_names,
    site_positions,
)
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import attention_layers
from rb_interp.probes.activations import capture
from rb_interp.tasks.inputs import Inputs

__all__ = ["ablate", "ablation", "ablations", "patch", "patching_effect"]

Method = Literal["zero", "mean", "resample"]
"""What can stand in a component's place."""
METHODS = get_args(Method)


@checked
@contextmanager
def ablate(
    model: HookedModel, inputs: Inputs, sites: Sites, *, method: Method = "mean", seed: int = 0
) -> Iterator[HookedModel]:
    """A context in which the model runs without a component, or several, on the rows of ``inputs``.

    Rows come all in their order. Zero and the mean, at a position that is the same in all rows,
    stand in any row of their length.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: the rows, with the roles that the sites name.
        sites: one site or several, as `Site` or as text.
        method: what stands in their place.
        seed: seed of the rows from which ``resample`` takes.

    Raises:
        ModelError: the model has no such site.
        RolesError: the rows have no such role.
    """
    values = values_at(model, inputs, parse_sites(sites))
    with with_edits(model, _ablation_edits(model, inputs, values, method, seed)):
        yield model


def replacement(values: Tensor, method: Method, seed: int = 0) -> Tensor:
    """What stands in the place of a site's values ``[row, n, ...]``.

    ``resample`` takes one cycle through all rows.

    Raises:
        ModelError: there is a single row, which is its own mean and has none to resample from.

    >>> values = torch.tensor([[1.0], [3.0]])
    >>> [replacement(values, method).tolist() for method in METHODS]
    [[[0.0], [0.0]], [[2.0], [2.0]], [[3.0], [1.0]]]
    """
    if method == "zero":
        return torch.zeros_like(values)
    if len(values) < 2:
        raise ModelError(
            "the mean and resampling take values from other rows and got a single one; give two "
            "rows or more, or method 'zero'."
        )
    if method == "mean":
        return values.mean(0, keepdim=True).expand_as(values)
    order = np.random.default_rng([seed, 9]).permutation(len(values))
    following = np.empty_like(order)
    following[order] = np.roll(order, 1)
    return values[torch.from_numpy(following)]


def _ablation_edits(
    model: HookedModel, inputs: Inputs, values: dict[Site, Tensor], method: Method, seed: int
) -> list[Edit]:
    """Edits that write what a method puts in the place of several sites' values."""
    new = {site: _stand_in(site, inputs, values[site], method, seed) for site in values}
    return edits_of(model, inputs, new)


def _stand_in(site: Site, inputs: Inputs, values: Tensor, method: Method, seed: int) -> Tensor:
    """`replacement`; ModelError for a pattern that stands elsewhere in other rows."""
    if method != "zero":
        aligned(site, inputs, inputs.take(np.roll(np.arange(len(inputs)), 1)))
    return replacement(values, method, seed)


@checked
@contextmanager
def patch(model: HookedModel, rows: Inputs, source: Inputs, sites: Sites) -> Iterator[HookedModel]:
    """A context in which every pass of the rows has sites from their source, role to role.

    Args:
        model: any model with TransformerLens's hooks.
        rows: the rows that run, all in their order.
        source: as many rows of the same length, from which the activations are taken.
        sites: one site or several, as `Site` or as text.

    Raises:
        ModelError: the model has no such site, or the rows are no pairs.
        RolesError: the rows have no such role.

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
    """What sites recover together in the corrupted rows, or lose in the clean ones, row by row.

    Values are divided by the mean over all rows of the whole difference, taken as known, so that
    their mean is a cell of ``patching_matrix``.

    Args:
        model: any model with TransformerLens's hooks.
        clean: rows with labels if the metric asks for them.
        corrupted: as many rows with different answers.
        sites: one site or several, as `Site` or as text.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        direction: ``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones
            into clean rows.
        control: rows that differ in noise alone from those that run, or None for no control.

    Raises:
        ModelError: the model has no such site, the rows are no pairs, the metric does not differ
            between them, or the control is like the rows or their source.
        RolesError: the rows have no such role.

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
    runs = []
    for source in pair.sources:
        runs.append(pair.run(interchange_edits(model, pair.base, source, parsed)))
    pair.note_control(parsed)
    name = f"patching ({direction})"
    return pair.effect(name, site_names(parsed, model), runs, quantity=SHARE_NAMES[direction])


@checked
@single_threaded
def ablation(
    model: HookedModel,
    inputs: Inputs,
    sites: Sites,
    *,
    method: Method = "mean",
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
        method: what stands in their place.
        control: the same rows with their noise redrawn, or None for no control.
        metric: a name, such as ``accuracy`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``; ``logit_diff`` needs its two tokens.
        answer_at: where the answer is read, by default at the last position.
        seed: seed of the rows from which ``resample`` takes.

    Raises:
        ModelError: the model has no such site, or the control is the rows.
        RolesError: the rows have no such role.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> lost = ablation(model, data.inputs(data.sample("rsn_train", 20)), "attn_out.1")
    >>> bool(lost.values.mean() > 0.5)  # the key comes by L1
    True
    """
    parsed = parse_sites(sites)
    pair = PairedRun(model, metric, answer_at, inputs, control=control)
    values = values_at(model, inputs, parsed)  # untouched; resampled ones are one other row's
    runs = [pair.run(_ablation_edits(model, inputs, values, method, seed))]
    everywhere = any(site.role in (None, "all") for site in parsed)
    if everywhere and method != "zero":
        pair.notes |= _padding_note(model, inputs, method)
    for source in pair.sources:
        runs.append(pair.run(interchange_edits(model, inputs, source, parsed)))
    pair.note_control(parsed)
    return pair.effect(f"{method} ablation", site_names(parsed, model), runs)


def _padding_note(model: HookedModel, inputs: Inputs, method: str) -> dict[str, str]:
    """A note of rows with padding in front, which attends to nothing, or behind."""
    for layer in attention_layers(model)[:1]:
        hook = Site("pattern", layer).hook
        attends = capture(model, inputs.tokens, [hook])[hook].any(-1).any(1)
        if n_padded := int((~attends.all(1)).sum()):
            text = (
                f"{n_padded} of {len(inputs)} rows have padding in front, which the {method} takes "
                f"in; name roles, or make one call for each length."
            )
            return {"padding": text}
    return uneven_note(inputs)


@checked
@single_threaded
def ablations(
    model: HookedModel,
    inputs: Inputs,
    sites: Sequence[Site | str] = (),
    *,
    head: Literal["all"] | None = None,
    control: Inputs | None = None,
    methods: Sequence[Method] = METHODS,
    metric: MetricLike | Sequence[str] = ("accuracy", "loss"),
    seed: int = 0,
) -> pd.DataFrame:
    """Every ablation of every site, from one capture: means over inputs of what ``ablation`` gives.

    Columns: component, method, accuracy (without it), accuracy_drop, its 95 % interval over rows low
    and high, loss_increase, these four for the control (NaN without one), n, answered (share of rows
    that the untouched model answers rightly), note. With other metrics the columns have their names;
    ``head="all"`` adds layer and head, for ``rb.plots.heads``.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if a metric asks for them, and with the roles that are named.
        sites: any components.
        head: ``"all"`` for ``z`` of every head too.
        control: the same rows with their noise redrawn, or None for no control.
        methods: what stands in their place.
        metric: one, see ``interventions.metrics``, or several names; the first is shown as it is.
        seed: seed of the rows from which ``resample`` takes.

    Raises:
        ModelError: there is no such site or metric, rows lack labels, or the control is the rows.
        RolesError: the rows have no such role.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> inputs = data.inputs(data.sample("rsn_train", 20))
    >>> table = ablations(model, inputs, ["attn_out.1"], methods=["zero"], metric="accuracy")
    >>> table[["component", "method", "accuracy", "answered"]].to_numpy().tolist()
    [['attn_out.1', 'zero', 0.0, 1.0]]
    """
    parsed = parse_sites(sites) if sites else []
    if head == "all":
        for layer in attention_layers(model):
            parsed += [Site("z", layer, unit=unit) for unit in range(model.cfg.n_heads)]
    if not parsed:
        raise ModelError("ablations got no sites; name some, or give head='all'.")
    for site in parsed:
        site.check(model)
    metrics = metric if isinstance(metric, list | tuple) else [cast(MetricLike, metric)]
    read = read_hooks(parsed, streams_of(model))
    first = PairedRun(model, metrics[0], None, inputs, control=control, hooks=read)
    pairs = [first]
    for metric_like in metrics[1:]:
        pair = copy(first)
        pair.metric = metric_of(metric_like)
        pair.clean = pair.start = pair.of(first.base_logits)
        pairs.append(pair)
    runs = CellRuns(first, parsed, streams_of(model))
    positions = {site: site_positions(site, inputs) for site in parsed}

    def means(site: Site, new: Tensor) -> list[float]:
        """The first metric with other values at a site, its change with its ends, other changes."""
        logits = runs.logits(site, positions[site], new)
        lost, *others = (pair.lost(pair.of(logits)) for pair in pairs)
        interval = row_interval(lost, first.metric.change, -1)
        return [first.of(logits).mean(), *interval, *(other.mean() for other in others)]

    captured = first.activations
    values, control_values = {}, {}
    for site in parsed:
        hooked = site.in_hook(model)
        values[site] = gather(hooked, captured[0][site.hook], positions[site])
        if control is not None:
            at_role = aligned(site, inputs, control)[1]
            control_values[site] = gather(hooked, captured[1][site.hook], at_role)
    rows = []
    padding = {} if list(methods) == ["zero"] else _padding_note(model, inputs, "mean or the draw")
    bar = tqdm(parsed, "ablations", delay=PROGRESS_AFTER_SECONDS, leave=False, unit="site")
    for site in bar:
        notes = dict(first.notes) | (padding if site.role in (None, "all") else {})
        control_lost = [np.nan] * (2 + len(pairs))
        if site in control_values:
            equal = (values[site] == control_values[site]).flatten(1).all(1).numpy()
            notes |= equal_note(equal, str(site))
            control_lost = means(site, control_values[site])[1:]
        note = " ".join(f"{subject}: {text}" for subject, text in notes.items())
        for method in methods:
            drops = means(site, _stand_in(site, inputs, values[site], method, seed))
            about = [len(inputs), first.answered, note]
            unit = site.unit if site.component in PER_HEAD else None
            rows.append(
                [site_names([site], model), method, *drops, *control_lost, *about, site.layer, unit]
            )
    changes = [pair.metric.change for pair in pairs]
    changes[1:1] = ["low", "high"]
    control_changes = [f"control_{change}" for change in changes]
    columns = ["component", "method", first.metric.name, *changes, *control_changes]
    index = pd.Index([*columns, "n", "answered", "note", "layer", "head"])
    table = pd.DataFrame(rows, columns=index).astype({"head": "Int64"})
    return table if head == "all" else table.drop(columns=["layer", "head"])
