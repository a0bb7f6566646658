"""Read sites in one pass, and run a model with their values replaced; hooks are off again whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, nearest
from rb_interp.interventions.sites import Edit, Site, gather_at, scatter_at, site_positions
from rb_interp.models.generations import resid_mid_is_a_copy, writable_tensors
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import Tokens, as_rows, attached, capture, check_range, evaluation, passes
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["interchange_edits", "last_logits", "with_edits", "with_weights"]

Sites = Site | str | Sequence[Site | str]


def parse_sites(sites: Sites, asker: str = "") -> list[Site]:
    """One site or several, each as a Site or as text; ModelError where an asker gets none."""
    parsed = [Site.parse(site) for site in ([sites] if isinstance(sites, Site | str) else sites)]
    if asker and not parsed:
        raise ModelError(f"{asker} needs at least one site, such as 'attn_out.0'; got none.")
    return parsed


def together(sites: Sequence[Site], model: HookedModel) -> str:
    """Several sites as text."""
    return " + ".join(site.named(model) for site in sites)


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
    for edit in edits:
        if edit.hook not in model.hook_dict:
            raise ModelError(f"this model has no hook '{edit.hook}'; {nearest(edit.hook, model.hook_dict)}")
    passed: list[Int[Tensor, "batch pos"]] = []

    def look(_: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        given = (value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        passed[:] = [tokens.detach().cpu().long() for tokens in given][:1]

    def change(edit: Edit, activation: Tensor) -> Tensor:
        if rows is None and edit.tokens is not None:
            return edit.change(activation, _rows_of(edit, passed))
        return edit.change(activation, torch.arange(len(activation)) if rows is None else rows)

    looks = rows is None and any(edit.tokens is not None for edit in edits)
    handle = model.embed.register_forward_pre_hook(look, with_kwargs=True) if looks else None
    try:
        with attached(model, [(edit.hook, lambda value, hook, edit=edit: change(edit, value)) for edit in edits]):
            yield model
    finally:
        if handle is not None:
            handle.remove()


def _rows_of(edit: Edit, passed: Sequence[Int[Tensor, "batch pos"]]) -> Int[Tensor, " batch"]:
    """Where the rows of a pass stand among an edit's; ModelError for one that does not, or could be two of them."""
    assert edit.tokens is not None
    if not passed:
        raise ModelError("edits know their rows by tokens, and this pass embedded none; call the model with tokens.")
    tokens, n_known = passed[0], len(edit.tokens)
    if torch.equal(tokens, edit.tokens[: len(tokens)]):
        found = torch.arange(len(tokens))
    else:
        places = {row.tobytes(): n_known - 1 - place for place, row in enumerate(edit.tokens.flip(0).numpy())}
        found = torch.tensor([places.get(row.tobytes(), -1) for row in tokens.numpy()])
    if missing := int((found < 0).sum()):
        raise ModelError(
            f"{missing} of the {len(found)} rows of this pass are not among the {n_known} that the edits were made "
            f"for; call the model with those rows, or make edits for these."
        )
    if edit.alike is not None and not torch.equal(found, torch.arange(n_known)) and edit.alike[found].any():
        raise ModelError(
            f"{int(edit.alike[found].sum())} of the {len(found)} rows of this pass have the tokens of several rows "
            f"that the edits change in different ways; call the model with all {n_known} rows in their order, or leave "
            f"out such rows."
        )
    return found


@typed
@few_threads
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


def values_at(model: HookedModel, tokens: Tokens, roles: Roles | None, sites: Sequence[Site]) -> list[Tensor]:
    """What a model computes at several sites, each ``[row, n, ...]`` as ``sites.read_at`` gives it, from one run."""
    for site in sites:
        site.check(model)
    rows = as_rows(tokens)
    found = capture(model, rows, sorted({site.hook for site in sites})) if sites else {}
    at = [site_positions(site, roles, rows.shape[1], len(rows)) for site in sites]
    return [gather_at(site.in_hook(model), found[site.hook], here) for site, here in zip(sites, at, strict=True)]


@typed
@few_threads
def interchange_edits(model: HookedModel, base: Inputs, source: Inputs, sites: Sites) -> list[Edit]:
    """Edits that give runs on ``base`` the activations that sites have on ``source``, row by row and role to role.

    Use them in the context ``with_edits(model, edits)``, on any of the base's rows.

    Raises ModelError where the two differ in their number of rows or positions.
    """
    tokens, parsed, edits = as_rows(base.tokens), parse_sites(sites), []
    check_pairs("the source", as_rows(source.tokens), "the rows that run", tokens)
    for site in parsed:
        aligned(site, base.roles, source.roles, tokens.shape[1], len(tokens))
    for site, values in zip(parsed, values_at(model, source.tokens, source.roles, parsed), strict=True):
        edits += write_at(site, values, base.roles, tokens.shape[1], model, tokens)
    return edits


def check_pairs(first: str, tokens: Tensor, second: str, others: Tensor) -> None:
    """Raise ModelError where two sets of tokens differ in number of rows or in length."""
    if tokens.shape != others.shape:
        raise ModelError(
            f"{first} has tokens of shape {list(tokens.shape)} and {second} of {list(others.shape)}; patching needs "
            f"pairs: one row for each row, of the same length."
        )


def aligned(
    site: Site, roles: Roles | None, source_roles: Roles | None, length: int, n_rows: int
) -> tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Positions of a site's role in the rows and in their source; ModelError where one cannot stand for the other."""
    at, source_at = site_positions(site, roles, length, n_rows), site_positions(site, source_roles, length, n_rows)
    if at.shape != source_at.shape:
        raise ModelError(
            f"site '{site}' has {at.shape[1]} positions in each of the rows and {source_at.shape[1]} in the source; "
            f"patch a role that has as many in both."
        )
    if site.component == "pattern" and not torch.equal(at, source_at):
        raise ModelError(
            f"site '{site}' stands elsewhere in the source, and a pattern is over positions; patch q or k, or use a "
            f"source with the same positions."
        )
    return at, source_at


def role_positions(
    groups: Sequence[Site], roles: Sequence[str], base: Inputs, source: Inputs
) -> list[tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]]:
    """Positions of each role in the rows and in their source, pair by pair as ``aligned`` has them."""
    site = next((site for site in groups if site.component == "pattern"), groups[0])
    n_rows, length = base.tokens.shape
    return [aligned(site.at(role), base.roles, source.roles, length, n_rows) for role in roles]


def write_at(
    site: Site | str,
    values: Tensor,
    roles: Roles | None,
    length: int | None,
    model: HookedModel,
    tokens: Int[Tensor, "row pos"] | None = None,
) -> list[Edit]:
    """Edits that write values ``[row, n, ...]`` at a site, shaped as ``sites.read_at`` gives them.

    ``tokens`` are those of the rows, where passes may hold some of them. Values and positions that are the same in all
    rows are written in any row. Without a length it is that of the pass, which then has all rows.

    One edit, save for ``resid_mid`` on TransformerLens 4, whose hook does not reach the residual stream: there
    attention's output is set to what gives that sum.
    """
    site = Site.parse(site)
    site.check(model)
    place, held, n_rows = site.in_hook(model), {}, len(values)
    at = None if length is None else site_positions(place, roles, length, n_rows)
    anywhere = False
    if tokens is not None and at is not None and n_rows:
        anywhere = bool((values == values[:1]).all()) and bool((at == at[:1]).all())
    is_copy = site.component == "resid_mid" and resid_mid_is_a_copy(model)
    if is_copy:
        place = Site("attn_out", site.layer)

    def change(activation: Tensor, rows: Tensor) -> Tensor:
        there = activation.shape[place.position_axis]
        if at is None and len(rows) != n_rows:
            raise ModelError(
                f"the patch at '{site}' holds {n_rows} rows and this pass has {len(rows)}; run the rows that it was "
                f"made for, all in one pass."
            )
        if anywhere and there != length:
            raise ModelError(
                f"the edit at '{site}' was made for rows of {length} positions, and this pass has {there}; make edits "
                f"for rows of that length."
            )
        rows = torch.zeros(len(activation), dtype=torch.long) if anywhere else rows
        new, to = values[rows].to(activation), (site_positions(site, roles, there, n_rows) if at is None else at)[rows]
        if is_copy:
            new = new - held["resid_pre"][torch.arange(len(rows))[:, None], to]
        return scatter_at(place, activation, to, new)

    known = None if anywhere else tokens
    edits = [Edit(place.hook, change, known, None if known is None or at is None else _alike(known, values, at))]
    if is_copy:
        edits.insert(0, Edit(Site("resid_pre", site.layer).hook, lambda x, rows: held.update(resid_pre=x) or x))
    return edits


def _alike(tokens: Int[Tensor, "row pos"], values: Tensor, at: Int[Tensor, "row n"]) -> Tensor | None:
    """Rows with the tokens of another row, where other values or other positions are written; None without any."""
    kinds = tokens.unique(dim=0, return_inverse=True)[1]
    n_kinds = int(kinds.max()) + 1 if len(kinds) else 0
    if n_kinds == len(tokens):
        return None
    first = torch.full((n_kinds,), len(tokens)).scatter_reduce(0, kinds, torch.arange(len(tokens)), "amin")[kinds]
    other = (values != values[first]).flatten(1).any(1).cpu() | (at != at[first]).any(1)
    return torch.isin(kinds, kinds[other]) if other.any() else None


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
