"""Run a model with edits: hooks on, hooks off again whatever happens, and the logits that the answer is read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.sites import Edit, Site, scatter_at, site_positions
from rb_interp.models.generations import resid_mid_is_a_copy, writable_tensors
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capture import Tokens, as_rows, attached, check_range, evaluation, passes
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads


@checked(empty=True)
@contextmanager
def with_edits(
    model: HookedModel, edits: Sequence[Edit], rows: Int[Tensor, " batch"] | None = None
) -> Iterator[HookedModel]:
    """A context in which every forward pass carries the edits, in the order given; hooks are gone when it is left.

    ``rows`` tells the edits which rows of their data the passes hold; by default the first ones. Hooks that the caller
    has attached stay, and act first.

    Raises ModelError for a hook that this model does not have, naming the nearest.
    """
    known = model.hook_dict
    for edit in edits:
        if edit.hook not in known:
            raise ModelError(f"this model has no hook '{edit.hook}'; {nearest(edit.hook, known)}")
    with attached(model, [(edit.hook, _hook(edit, rows)) for edit in edits]):
        yield model


def _hook(edit: Edit, rows: Int[Tensor, " batch"] | None) -> Any:
    def change(activation: Tensor, hook: Any) -> Tensor:
        return edit.change(activation, torch.arange(len(activation)) if rows is None else rows)

    return change


@checked(empty=True)
@few_threads
def last_logits(
    model: HookedModel, tokens: Tokens, edits: Sequence[Edit] = (), *, batch: int | None = None
) -> Float[Tensor, "row d_vocab"]:
    """Logits at the last position under edits, on CPU, in evaluation mode, with no gradient.

    Args:
        tokens: integers ``[row, pos]``.
        batch: rows of one pass; by default at most 1,024 and no more than ``capture.MAX_LOGITS`` allows.

    Raises ModelError where logits are not finite without any edit.
    """
    inputs = as_rows(tokens)
    check_range(model, inputs)
    device, found = next(model.parameters()).device, []
    with torch.no_grad(), evaluation(model):
        for rows in torch.arange(len(inputs)).split(batch or passes(model, inputs)):
            with with_edits(model, edits, rows):
                found.append(model(inputs[rows].to(device))[:, -1].cpu())
    logits = torch.cat(found)
    if not edits and not logits.isfinite().all():
        raise ModelError("the model's logits are not all finite, so its training has diverged; use one that has not.")
    return logits


def write_at(site: Site | str, values: Tensor, roles: Roles | None, length: int, model: HookedModel) -> list[Edit]:
    """Edits that write values ``[row, n, ...]`` at a site, shaped as ``sites.read_at`` gives them.

    One edit, save for ``resid_mid`` on TransformerLens 4, whose hook does not reach the residual stream: there
    attention's output is set to what gives that sum.
    """
    site = Site.parse(site)
    site.check(model)
    at = site_positions(site, roles, length, len(values))
    if site.component == "resid_mid" and resid_mid_is_a_copy(model):
        return _write_resid_mid(site, values, at)
    return [Edit(site.hook, lambda activation, rows: scatter_at(site, activation, at[rows], values[rows]))]


def _write_resid_mid(site: Site, values: Tensor, at: Int[Tensor, "row n"]) -> list[Edit]:
    before, attn_out = Site("resid_pre", site.layer), Site("attn_out", site.layer)
    held: dict[str, Tensor] = {}

    def remember(activation: Tensor, rows: Tensor) -> Tensor:
        held["resid_pre"] = activation
        return activation

    def replace(activation: Tensor, rows: Tensor) -> Tensor:
        here, to = torch.arange(len(rows))[:, None], at[rows]
        return scatter_at(attn_out, activation, to, values[rows].to(activation) - held["resid_pre"][here, to])

    return [Edit(before.hook, remember), Edit(attn_out.hook, replace)]


@checked(empty=True)
@contextmanager
def with_weights(model: HookedModel, weights: Mapping[str, Tensor]) -> Iterator[HookedModel]:
    """A context in which some weights, by TransformerLens name, hold other values; the old ones are back afterwards.

    Raises ModelError for an unknown name, another shape, or a weight that this model derives from others.
    """
    held = writable_tensors(model, weights)
    before = {name: tensor.detach().clone() for name, tensor in held.items()}
    try:
        _write(held, weights)
        yield model
    finally:
        _write(held, before)


def _write(held: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            held[name].copy_(value)
