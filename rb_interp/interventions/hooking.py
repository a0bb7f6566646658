"""Run a model with values at its sites replaced; hooks are off again whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.sites import (
    Site,
    Sites,
    aligned,
    intervention,
    parse_sites,
    scatter,
    site_positions,
    values_at,
)
from rb_interp.models.generations import resid_mid_is_a_copy, writable_tensors
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import Tokens, as_rows, attached, check_range, evaluation, passes
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

__all__ = ["Edit", "interchange_edits", "last_logits", "with_edits", "with_weights"]


class Edit(NamedTuple):
    """A change at one hook: ``change(activation, rows)`` gives the new activation of the rows in this pass.

    ``rows`` ``[batch]`` says which rows of the whole input they are. ``change`` must not write into the activation it
    is given: other readers may hold it. ``n_rows`` is how many rows the edit holds data of, ``tokens`` ``[row, pos]``
    what they are; None where it serves any row, or where nobody knows.
    """

    hook: str
    change: Callable[[Tensor, Int[Tensor, " batch"]], Tensor]
    n_rows: int | None = None
    tokens: Int[Tensor, "row pos"] | None = None


@typed
@contextmanager
def with_edits(
    model: HookedModel, edits: Sequence[Edit], rows: Int[Tensor, " batch"] | None = None
) -> Iterator[HookedModel]:
    """A context in which every forward pass carries the edits, in the order given; hooks are gone when it is left.

    A pass holds all the rows that the edits were made for, in their order, or those that ``rows`` says. Hooks that the
    caller has attached stay, and act first.

    Raises KeyError for a hook that this model does not have, ModelError in a pass with other rows.
    """
    known = [edit.tokens for edit in edits if rows is None and edit.tokens is not None]

    def look(_: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        passed = next(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)).detach().cpu().long()
        if not all(torch.equal(passed, tokens) for tokens in known):
            raise ModelError(
                f"this pass has not the {len(known[0])} rows that the edits were made for; call the model with those "
                f"rows, all of them in their order, or make edits for these."
            )

    def change(edit: Edit, activation: Tensor) -> Tensor:
        if rows is None and edit.n_rows not in (None, len(activation)):
            raise ModelError(
                f"the edit at '{edit.hook}' holds {edit.n_rows} rows and this pass has {len(activation)}; run the rows "
                f"that it was made for, all in one pass."
            )
        return edit.change(activation, torch.arange(len(activation)) if rows is None else rows)

    handle = model.embed.register_forward_pre_hook(look, with_kwargs=True) if known else None
    try:
        with attached(model, [(edit.hook, lambda value, hook, edit=edit: change(edit, value)) for edit in edits]):
            yield model
    finally:
        if handle is not None:
            handle.remove()


@intervention
def last_logits(
    model: HookedModel,
    tokens: Tokens,
    edits: Sequence[Edit] = (),
    *,
    at: Int[Tensor, " row"] | None = None,
    batch: int | None = None,
) -> Float[Tensor, "row d_vocab"]:
    """Logits at the last position, or at one of each row, under edits, on CPU, in evaluation mode, with no gradient.

    Args:
        tokens: integers ``[row, pos]``. at: a position of each row.
        batch: rows of one pass; by default at most 1,024 and no more than ``capture.MAX_LOGITS`` allows.

    Raises ModelError where logits are not finite without any edit.
    """
    inputs = as_rows(tokens)
    check_range(model, inputs)
    device, parts = next(model.parameters()).device, []
    with torch.no_grad(), evaluation(model):
        for rows in torch.arange(len(inputs)).split(batch or passes(model, inputs)):
            with with_edits(model, edits, rows):
                logits = model(inputs[rows].to(device))
                parts.append((logits[:, -1] if at is None else logits[torch.arange(len(rows)), at[rows]]).cpu())
    logits = torch.cat(parts)
    if not edits and not logits.isfinite().all():
        raise ModelError("the model's logits are not all finite, so its training has diverged; use one that has not.")
    return logits


@intervention
def interchange_edits(model: HookedModel, base: Inputs, source: Inputs, sites: Sites) -> list[Edit]:
    """Edits that give runs on ``base`` the activations that sites have on ``source``, row by row and role to role.

    Use them in the context ``with_edits(model, edits)``, on the base's rows.

    Raises ModelError where the two differ in their number of rows or positions.
    """
    parsed = parse_sites(sites)
    for site in parsed:
        aligned(site, base, source)
    values = zip(parsed, values_at(model, source, parsed), strict=True)
    return [edit for site, value in values for edit in write_at(model, site, value, base)]


def write_at(model: HookedModel, site: Site | str, values: Tensor, rows: Inputs) -> list[Edit]:
    """Edits that write values ``[row, n, ...]``, shaped as `read_at` gives them, at a site of some rows.

    Values and positions that are the same in all rows are written in any row of that length. One edit, save for
    ``resid_mid`` on TransformerLens 4, whose hook does not reach the residual stream: there attention's output is set
    to what gives that sum.
    """
    site = Site.parse(site)
    site.check(model)
    place, at, held = site.in_hook(model), site_positions(site, rows), {}
    length, same = rows.tokens.shape[1], bool((values == values[:1]).all() and (at == at[:1]).all())
    is_copy = site.component == "resid_mid" and resid_mid_is_a_copy(model)
    if is_copy:
        place = Site("attn_out", site.layer)

    def change(activation: Tensor, numbers: Tensor) -> Tensor:
        if activation.shape[place.position_axis] != length:
            raise ModelError(f"the edit at '{site}' was made for rows of {length} positions; make edits for these.")
        numbers = torch.zeros(len(activation), dtype=torch.long) if same else numbers
        new, to = values[numbers].to(activation), at[numbers]
        if is_copy:
            new = new - held["resid_pre"][torch.arange(len(numbers))[:, None], to]
        return scatter(place, activation, to, new)

    known = (None, None) if same else (len(values), as_rows(rows.tokens))
    before = [Edit(Site("resid_pre", site.layer).hook, lambda x, _: held.update(resid_pre=x) or x)] * is_copy
    return [*before, Edit(place.hook, change, *known)]


@typed
@contextmanager
def with_weights(model: HookedModel, weights: Mapping[str, Tensor]) -> Iterator[HookedModel]:
    """A context in which some weights, by TransformerLens name, hold other values; the old ones are back afterwards.

    Raises ModelError for an unknown name, another shape, or a weight that this model derives from others.
    """
    held = writable_tensors(model, weights)
    with ExitStack() as stack:
        for name, value in weights.items():
            stack.enter_context(replaced(held[name], value))
        yield model


@contextmanager
def replaced(weight: Tensor, value: Tensor) -> Iterator[None]:
    """A context in which a weight holds other values."""
    before = weight.detach().clone()
    try:
        weight.detach().copy_(value)
        yield
    finally:
        weight.detach().copy_(before)
