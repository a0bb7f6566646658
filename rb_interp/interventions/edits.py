"""Read what a model computes at sites, and run it with other values there.

A change at one hook is an `Edit`; `with_edits` is a context in which every pass carries some, and
`last_logits` gives the answers under them. The model's own ``forward`` runs, and no hook is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.sites import Site, Sites, aligned, parse_sites, site_positions
from rb_interp.models.protocol import HookedModel, resid_mid_is_a_copy
from rb_interp.models.structure import (
    attached,
    check_not_compiled,
    check_range,
    device_of,
    evaluation,
    key_value_head,
    rows_of_a_pass,
)
from rb_interp.probes.activations import TokenArray, as_rows, capture
from rb_interp.statistics.nulls import random_subspaces
from rb_interp.tasks.inputs import NO_POSITION, Inputs, Roles

__all__ = ["Edit", "edits_of", "interchange_edits", "last_logits", "values_at", "with_edits"]

IndexTensor = Int[Tensor, "*n"]


@checked
@single_threaded
def values_at(model: HookedModel, rows: Inputs, sites: Sites) -> dict[Site, Tensor]:
    """What a model computes at each of several sites, ``[row, n, ...]`` with n the role's
    positions, from one pass.

    One position's activation is ``[d_model]`` for the residual stream, embeddings and sublayer
    outputs, ``[head, d_head]`` for q, k, v and z, ``[head, key]`` for pattern, ``[d_mlp]`` for
    mlp_post; one head's or neuron's is without that axis. All are on CPU.

    Args:
        model: any model with TransformerLens's hooks.
        rows: the rows of the pass, with the roles that the sites name.
        sites: one site or several, as `Site` or as text.

    Raises:
        ModelError: the model has no such site.
        RolesError: the rows have no such role.
    """
    if not isinstance(sites, Site | str) and not sites:
        return {}
    parsed = parse_sites(sites)
    for site in parsed:
        site.check(model)
    activations = capture(model, rows.tokens, sorted({site.hook for site in parsed}))
    values = {}
    for site in parsed:
        positions = site_positions(site, rows)
        values[site] = gather(site.in_hook(model), activations[site.hook], positions)
    return values


def gather(
    site: Site, activation: Tensor, positions: IndexTensor, rows: IndexTensor | None = None
) -> Tensor:
    """An activation at positions ``[row, n]``, or at single ones of given rows, in a head or neuron
    of its hook."""
    if rows is None:
        rows = torch.arange(len(positions))[:, None]
    by_position = activation.movedim(site.position_axis, 1)
    values = by_position[rows.to(activation.device), positions.to(activation.device)]
    return values if site.unit is None else values.select(positions.ndim, site.unit)


def scatter(
    site: Site,
    activation: Tensor,
    positions: IndexTensor,
    values: Tensor,
    rows: IndexTensor | None = None,
) -> Tensor:
    """A copy of an activation with values at positions ``[row, n]``, or at single ones of given
    rows, as `gather`."""
    if rows is None:
        rows = torch.arange(len(positions))[:, None]
    changed = activation.clone()
    by_position = changed.movedim(site.position_axis, 1)
    if site.unit is not None:
        by_position = by_position.select(2, site.unit)
    device = by_position.device
    by_position[rows.to(device), positions.to(device)] = values.to(by_position)
    return changed


class Edit(NamedTuple):
    """A change at one hook: ``change(activation, rows)`` gives the new activation of the rows in
    this pass.

    ``change`` must not write into the activation it is given: other readers may hold it.
    """

    hook: str
    """Full name of the hook."""
    change: Callable[[Tensor, Int[Tensor, " batch"]], Tensor]
    """Its second argument ``[batch]`` says which rows of the whole input are in the pass."""
    n_rows: int | None = None
    """How many rows the edit holds data of; None if it serves any row."""
    tokens: Int[Tensor, "row pos"] | None = None
    """The rows that it was made for; None if it serves any row, or nobody knows."""


def reading(hooks: Sequence[str]) -> tuple[list[Edit], dict[str, list[Tensor]]]:
    """Edits that change nothing, and what they store of each pass at their hooks, on CPU."""
    parts: dict[str, list[Tensor]] = {hook: [] for hook in hooks}

    def store(activation: Tensor, _: Tensor, hook: str) -> Tensor:
        parts[hook].append(activation.cpu())
        return activation

    return [Edit(hook, partial(store, hook=hook)) for hook in parts], parts


@checked
@contextmanager
def with_edits(
    model: HookedModel, edits: Sequence[Edit], rows: Int[Tensor, " batch"] | None = None
) -> Iterator[HookedModel]:
    """A context in which every forward pass carries the edits, in the order given; hooks are gone
    when it is left.

    A pass holds all the rows that the edits were made for, in their order, or those that ``rows``
    says. Hooks that the caller has attached stay, and act first.
    """
    expected = []
    if rows is None:
        check_not_compiled(model)
        expected = [edit.tokens for edit in edits if edit.tokens is not None]

    def check_tokens(_: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        passed = inputs[0].detach().cpu().long()
        if not all(torch.equal(passed, tokens) for tokens in expected):
            raise ModelError(
                f"this pass does not have the {len(expected[0])} rows that the edits were made for; call "
                f"the model with those rows, all of them in their order, or make edits for these."
            )

    def change(activation: Tensor, hook: Any, edit: Edit) -> Tensor:
        if rows is not None:
            return edit.change(activation, rows)
        if edit.n_rows not in (None, len(activation)):
            raise ModelError(
                f"the edit at '{edit.hook}' holds {edit.n_rows} rows, this pass has "
                f"{len(activation)}."
            )
        return edit.change(activation, torch.arange(len(activation)))

    hooks = [(edit.hook, partial(change, edit=edit)) for edit in edits]
    handle = None
    if expected:
        handle = model.embed.register_forward_pre_hook(check_tokens, with_kwargs=True)
    try:
        with attached(model, hooks):
            yield model
    finally:
        if handle is not None:
            handle.remove()


@checked
@single_threaded
def last_logits(
    model: HookedModel,
    tokens: TokenArray,
    edits: Sequence[Edit] = (),
    *,
    positions: Int[Tensor, " row"] | None = None,
) -> Float[Tensor, "row d_vocab"]:
    """Logits at the last position, or at one of each row, under edits, on CPU, in evaluation mode,
    with no gradient.

    Args:
        model: any model with TransformerLens's hooks.
        tokens: integers ``[row, pos]``.
        edits: what each pass carries, in this order.
        positions: one of each row; by default the last one.

    Raises:
        ModelError: a token or the length is outside the model's range, or a logit is not finite.
    """
    inputs = as_rows(tokens)
    check_range(model, inputs)
    device = device_of(model)
    parts = []
    with torch.no_grad(), evaluation(model):
        for rows in torch.arange(len(inputs)).split(rows_of_a_pass(model, inputs)):
            with with_edits(model, edits, rows):
                logits = model(inputs[rows].to(device))
            last = (
                logits[:, -1]
                if positions is None
                else logits[torch.arange(len(rows)), positions[rows]]
            )
            parts.append(last.cpu())
    return check_finite(torch.cat(parts))


def check_finite(logits: Tensor) -> Tensor:
    """The logits; ModelError where they are not finite, so that no metric and no answer can be
    read."""
    if not logits.isfinite().all():
        raise ModelError(
            "the model's logits are not all finite, so its training has diverged; use one that has "
            "not."
        )
    return logits


def most_likely(
    model: HookedModel, tokens: TokenArray, edits: Sequence[Edit] = ()
) -> Int[np.ndarray, " row"]:
    """The most likely answer at the last position of each row, under edits."""
    return last_logits(model, tokens, edits).argmax(1).numpy()


@checked
@single_threaded
def interchange_edits(model: HookedModel, base: Inputs, source: Inputs, sites: Sites) -> list[Edit]:
    """Edits that give runs on ``base`` the activations that sites have on ``source``.

    They go row by row and role to role.

    Args:
        model: any model with TransformerLens's hooks.
        base: the rows that will run.
        source: as many rows of the same length, from which the activations are taken.
        sites: one site or several, as `Site` or as text.

    Raises:
        ModelError: the model has no such site, or the rows are no pairs.
        RolesError: the rows have no such role.
    """
    parsed = parse_sites(sites)
    for site in parsed:
        aligned(site, base, source)
    return edits_of(model, base, values_at(model, source, parsed))


def random_edits(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sites: Sequence[Site],
    rng: np.random.Generator,
) -> dict[str, list[Edit]]:
    """Edits of one draw of each control of an interchange of some sites.

    ``random_subspaces`` turns what differs between source and base by one rotation of each site (of
    each head's space): the changes have the same sizes, rank and angles in other directions. It is
    missing for patterns, and for single neurons, which have no others.

    ``random_sites`` are of the same components and layers. For a head or neuron it is one of its layer
    whose number no given site has (of keys and values: that shares none with a given one), another for
    each. If too few are left, and for other sites, the role stands at as many other positions of each
    row, which no given site has in the base or in the source. It is missing if a row has too few.
    """
    taken = values_at(model, source, sites)
    new = values_at(model, base, sites)
    used = np.zeros(base.tokens.shape)
    for site, values in new.items():
        d = values.shape[-1]
        # LAPACK's signs are not random
        rotation = torch.as_tensor(random_subspaces(1, d, d, rng)[0] * rng.choice([-1.0, 1.0], d))
        new[site] = values + (taken[site] - values) @ rotation.to(values)
        for rows in (base, source):
            np.put_along_axis(used, site_positions(site, rows).numpy(), 1, 1)
    edits = {}
    whole = (site.unit is None or site.component != "mlp_post" for site in sites)
    if all(whole) and all(site.component != "pattern" for site in sites):
        edits["random_subspaces"] = edits_of(model, base, new)
    order = (rng.random(used.shape) + used).argsort(1)
    drawn = []
    positions = {}
    given = sorted({site.unit for site in sites if site.unit is not None})
    shuffled = rng.permutation(max(model.cfg.n_heads, model.cfg.d_mlp or 0)).tolist()
    for site in sites:
        n_units = model.cfg.d_mlp if site.component == "mlp_post" else model.cfg.n_heads
        number = partial(key_value_head, model) if site.component in ("k", "v") else int
        others = {number(unit): unit for unit in shuffled if unit < n_units}
        taken_numbers = {*map(number, given)}
        units = [unit for n, unit in others.items() if n not in taken_numbers]
        if site.unit is not None and given.index(site.unit) < len(units):
            site = replace(site, unit=units[given.index(site.unit)])
        elif site.role not in positions:
            n = site_positions(site, base).shape[1]
            positions[site.role], order = np.split(order, [n], 1)
        drawn.append(site)
    if order.shape[1] >= used.sum(1).max():
        elsewhere = []
        for rows in (base, source):
            roles = Roles({**rows.roles.positions, **positions})
            elsewhere.append(replace(rows, roles=roles))
        edits["random_sites"] = interchange_edits(model, *elsewhere, sites=drawn)
    return edits


def edits_of(
    model: HookedModel, rows: Inputs, values: Mapping[Site, Tensor] | Mapping[str, Tensor]
) -> list[Edit]:
    """Edits that write values ``[row, n, ...]``, shaped as `values_at` gives them, at sites of some
    rows.

    Values and positions that are the same in all rows are written in any row of that length.

    Raises:
        ModelError: the model has no such site; in a pass, if values have another shape.
        RolesError: the rows have no such role, or no position of it.
    """
    edits = []
    for site, new in values.items():
        edits += _writes(model, rows, Site.parse(site), torch.as_tensor(new))
    return edits


def _writes(model: HookedModel, rows: Inputs, site: Site, values: Tensor) -> list[Edit]:
    """One edit; for ``resid_mid`` on TransformerLens 4 two, which set attention's output to what
    gives that sum."""
    site.check(model)
    target = site.in_hook(model)
    positions = site_positions(site, rows)
    if len(positions) and not positions.numel():
        raise RolesError(NO_POSITION.format(site.role))
    length = rows.tokens.shape[1]
    same = bool((values == values[:1]).all() and (positions == positions[:1]).all())
    is_copy = site.component == "resid_mid" and resid_mid_is_a_copy(model)
    if is_copy:
        target = Site("attn_out", site.layer)
    stream: list[Tensor] = []

    def read_stream(activation: Tensor, numbers: Tensor) -> Tensor:
        stream[:] = [activation]
        return activation

    def change(activation: Tensor, numbers: Tensor) -> Tensor:
        if activation.shape[target.position_axis] != length:
            raise ModelError(
                f"the edit at '{site}' was made for rows of {length} positions; make edits for "
                f"these."
            )
        by_position = activation.movedim(target.position_axis, 1)
        unit_shape = by_position.shape[2 if target.unit is None else 3 :]
        if values.shape != (*positions.shape, *unit_shape):
            raise ModelError(
                f"values of {site} have shape {list(values.shape)}; expected "
                f"{[*positions.shape, *unit_shape]}."
            )
        if same:
            numbers = torch.zeros(len(activation), dtype=torch.long)
        new = values[numbers].to(activation)
        at_rows = positions[numbers]
        if is_copy:
            new = new - stream[0][torch.arange(len(numbers))[:, None], at_rows]
        return scatter(target, activation, at_rows, new)

    edits = [Edit(Site("resid_pre", site.layer).hook, read_stream)] if is_copy else []
    if same:
        return [*edits, Edit(target.hook, change)]
    return [*edits, Edit(target.hook, change, len(values), as_rows(rows.tokens))]


@contextmanager
def replaced(weight: Tensor, value: Tensor) -> Iterator[None]:
    """A context in which a weight holds other values."""
    before = weight.detach().clone()

    def write(new: Tensor) -> None:
        # one made in inference mode is written there alone
        with torch.inference_mode(weight.is_inference()):
            weight.detach().copy_(new)

    try:
        write(value)
        yield
    finally:
        write(before)
