"""Run a model with edits: hooks on, hooks off again whatever happens, and the logits that the answer is read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.sites import Edit, Site, scatter_at, site_positions
from rb_interp.models.generations import resid_mid_is_a_copy, writable_tensors
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import Tokens, as_rows, attached, check_range, evaluation, passes
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["last_logits", "logits_at", "with_edits", "with_weights", "write_at"]


@typed
@contextmanager
def with_edits(
    model: HookedModel, edits: Sequence[Edit], rows: Int[Tensor, " batch"] | None = None
) -> Iterator[HookedModel]:
    """A context in which every forward pass carries the edits, in the order given; hooks are gone when it is left.

    A pass may hold any of the rows that an edit has data of, in any order: they are known by their tokens. ``rows``
    says which they are without looking. An edit that does not know the tokens of its data takes the first rows. Hooks
    that the caller has attached stay, and act first.

    Raises ModelError for a hook that this model does not have, naming the nearest, and in a pass with other rows.
    """
    known = model.hook_dict
    for edit in edits:
        if edit.hook not in known:
            raise ModelError(f"this model has no hook '{edit.hook}'; {nearest(edit.hook, known)}")
    passed = None if rows is not None or all(edit.tokens is None for edit in edits) else _Passed()
    with attached(model, [(edit.hook, _hook(edit, rows, passed)) for edit in edits]):
        if passed is None:
            yield model
        else:
            with passed.read_from(model):
                yield model


def _hook(edit: Edit, rows: Int[Tensor, " batch"] | None, passed: _Passed | None) -> Any:
    def change(activation: Tensor, hook: Any) -> Tensor:
        if rows is not None:
            return edit.change(activation, rows)
        if edit.tokens is None or passed is None:
            return edit.change(activation, torch.arange(len(activation)))
        return edit.change(activation, passed.rows_of(edit.tokens, edit.alike))

    return change


class _Passed:
    """The tokens of the present pass, and which rows of an edit's tokens they are."""

    def __init__(self) -> None:
        self.tokens: Int[Tensor, "batch pos"] | None = None
        self._found: dict[int, Int[Tensor, " batch"]] = {}
        self._places: dict[int, dict[bytes, int]] = {}

    @contextmanager
    def read_from(self, model: HookedModel) -> Iterator[None]:
        """Look at what the embedding of a model is given, in every pass."""

        def look(_: Any, args: tuple, kwargs: dict[str, Any]) -> None:
            given = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
            self.tokens, self._found = None if given is None else given.detach().cpu().long(), {}

        handle = model.embed.register_forward_pre_hook(look, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def rows_of(
        self, tokens: Int[Tensor, "row pos"], alike: Bool[Tensor, " row"] | None = None
    ) -> Int[Tensor, " batch"]:
        """Where the rows of the pass stand among others; ModelError for one that does not, or could be two of them."""
        if id(tokens) not in self._found:
            self._found[id(tokens)] = self._look_up(tokens)
        found = self._found[id(tokens)]
        if alike is not None and not torch.equal(found, torch.arange(len(tokens))) and alike[found].any():
            raise ModelError(
                f"{int(alike[found].sum())} of the {len(found)} rows of this pass have the tokens of several rows that "
                f"the edits change in different ways; call the model with all {len(tokens)} rows in their order, or "
                f"leave out such rows."
            )
        return found

    def _look_up(self, tokens: Int[Tensor, "row pos"]) -> Int[Tensor, " batch"]:
        passed = self.tokens
        if passed is None:
            raise ModelError(
                "edits know their rows by tokens, and this pass embedded none; call the model with tokens."
            )
        if torch.equal(passed, tokens[: len(passed)]):
            return torch.arange(len(passed))
        places = self._places.get(id(tokens))
        if places is None:
            places = self._places[id(tokens)] = {}
            for place, row in enumerate(tokens.numpy()):
                places.setdefault(row.tobytes(), place)
        found = [places.get(row.tobytes(), -1) for row in passed.numpy()]
        if -1 in found:
            raise ModelError(
                f"{found.count(-1)} of the {len(found)} rows of this pass are not among the {len(tokens)} that the "
                f"edits were made for; call the model with those rows, or make edits for these."
            )
        return torch.tensor(found)


@typed
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
    return logits_at(model, tokens, None, edits, batch=batch)


@typed
@few_threads
def logits_at(
    model: HookedModel,
    tokens: Tokens,
    at: Int[Tensor, " row"] | None,
    edits: Sequence[Edit] = (),
    *,
    batch: int | None = None,
) -> Float[Tensor, "row d_vocab"]:
    """`last_logits` at one position of each row, ``at`` ``[row]``; at the last for None."""
    inputs = as_rows(tokens)
    check_range(model, inputs)
    device, found = next(model.parameters()).device, []
    with torch.no_grad(), evaluation(model):
        for rows in torch.arange(len(inputs)).split(batch or passes(model, inputs)):
            with with_edits(model, edits, rows):
                logits = model(inputs[rows].to(device))
                found.append((logits[:, -1] if at is None else logits[torch.arange(len(rows)), at[rows]]).cpu())
    logits = torch.cat(found)
    if not edits and not logits.isfinite().all():
        raise ModelError("the model's logits are not all finite, so its training has diverged; use one that has not.")
    return logits


def write_at(
    site: Site | str,
    values: Tensor,
    roles: Roles | None,
    length: int,
    model: HookedModel,
    tokens: Int[Tensor, "row pos"] | None = None,
) -> list[Edit]:
    """Edits that write values ``[row, n, ...]`` at a site, shaped as ``sites.read_at`` gives them.

    ``tokens`` are those of the rows, where passes may hold some of them. Values and positions that are the same in all
    rows are written in any row.

    One edit, save for ``resid_mid`` on TransformerLens 4, whose hook does not reach the residual stream: there
    attention's output is set to what gives that sum.
    """
    site = Site.parse(site)
    site.check(model)
    site = site.in_hook(model)
    at = site_positions(site, roles, length, len(values))
    if tokens is not None and len(values) and bool((values == values[:1]).all()) and bool((at == at[:1]).all()):
        return [_in_any_row(edit, site, length) for edit in _write(site, values[:1], at[:1], model, None)]
    return _write(site, values, at, model, tokens)


def _write(
    site: Site, values: Tensor, at: Int[Tensor, "row n"], model: HookedModel, tokens: Int[Tensor, "row pos"] | None
) -> list[Edit]:
    if site.component == "resid_mid" and resid_mid_is_a_copy(model):
        return _write_resid_mid(site, values, at, tokens)
    alike = None if tokens is None else _alike(tokens, values, at)
    change = lambda activation, rows: scatter_at(site, activation, at[rows], values[rows])  # noqa: E731
    return [Edit(site.hook, change, tokens, alike)]


def _alike(tokens: Int[Tensor, "row pos"], values: Tensor, at: Int[Tensor, "row n"]) -> Bool[Tensor, " row"] | None:
    """Rows with the tokens of another row, where other values or other positions are written; None without any."""
    kinds = tokens.unique(dim=0, return_inverse=True)[1]
    n_kinds = int(kinds.max()) + 1 if len(kinds) else 0
    if n_kinds == len(tokens):
        return None
    first = torch.full((n_kinds,), len(tokens)).scatter_reduce(0, kinds, torch.arange(len(tokens)), "amin")[kinds]
    other = (values != values[first]).flatten(1).any(1).cpu() | (at != at[first]).any(1)
    unlike = torch.zeros(n_kinds, dtype=torch.bool)
    unlike[kinds[other]] = True
    return unlike[kinds] if other.any() else None


def _in_any_row(edit: Edit, site: Site, length: int) -> Edit:
    """An edit that does in every row what it does in its first."""

    def change(activation: Tensor, rows: Tensor) -> Tensor:
        if activation.shape[site.position_axis] != length:
            raise ModelError(
                f"the edit at '{site}' was made for rows of {length} positions, and this pass has "
                f"{activation.shape[site.position_axis]}; make edits for rows of that length."
            )
        return edit.change(activation, torch.zeros(len(activation), dtype=torch.long))

    return Edit(edit.hook, change)


def _write_resid_mid(
    site: Site, values: Tensor, at: Int[Tensor, "row n"], tokens: Int[Tensor, "row pos"] | None
) -> list[Edit]:
    before, attn_out = Site("resid_pre", site.layer), Site("attn_out", site.layer)
    held: dict[str, Tensor] = {}

    def remember(activation: Tensor, rows: Tensor) -> Tensor:
        held["resid_pre"] = activation
        return activation

    def replace(activation: Tensor, rows: Tensor) -> Tensor:
        here, to = torch.arange(len(rows))[:, None], at[rows]
        return scatter_at(attn_out, activation, to, values[rows].to(activation) - held["resid_pre"][here, to])

    alike = None if tokens is None else _alike(tokens, values, at)
    return [Edit(before.hook, remember), Edit(attn_out.hook, replace, tokens, alike)]


@typed
@contextmanager
def with_weights(model: HookedModel, weights: Mapping[str, Tensor]) -> Iterator[HookedModel]:
    """A context in which some weights, by TransformerLens name, hold other values; the old ones are back afterwards.

    Raises ModelError for an unknown name, another shape, or a weight that this model derives from others.
    """
    held = writable_tensors(model, weights)
    before = {name: tensor.detach().clone() for name, tensor in held.items()}
    try:
        _set_weights(held, weights)
        yield model
    finally:
        _set_weights(held, before)


def _set_weights(held: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            held[name].copy_(value)
