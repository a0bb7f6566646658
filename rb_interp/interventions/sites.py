"""Sites: places in a model by component, layer, head and role; read them in one pass, run with
other values in them.

A site is written ``attn_out.1@last`` or ``z.0.2@key``. Components are TransformerLens's: the
residual stream before, between and after the sublayers (``resid_pre``, ``resid_mid``,
``resid_post``), what the sublayers write (``attn_out``, ``mlp_out``), and inside attention ``q``,
``k``, ``v``, ``z`` and ``pattern``. Layers and heads count from 0. ``mlp_post`` is what an MLP's
neurons give after their activation, all of them or one: ``mlp_post.1.37@last``. ``embed`` and
``pos_embed`` are what the embeddings add to the stream before L0, and are written without a layer:
``embed@key``. The role says at which positions of each row: any role of the Roles at hand, or
``first_anchor``, ``last_anchor``, ``anchor_1`` .. ``anchor_q``, ``last`` (the last position),
``rest`` (all that no role names), ``all``. The role of a ``pattern`` is that of the query.

A module that stands in a hook point's place, such as a sparse autoencoder of SAELens, is that site:
what it gives is read, and written over.

Heads are those of the queries. Where several of them share their keys and values (grouped queries),
``k`` and ``v`` of a head are those that it shares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError, nearest
from rb_interp.models.hooking import attached, check_not_compiled, evaluation, hook_points
from rb_interp.models.protocol import HookedModel, resid_mid_is_a_copy
from rb_interp.models.structure import (
    adds_positions,
    check_range,
    device_of,
    has_attention,
    has_mlp,
    heads_sharing,
    key_value_head,
    rows_of_a_pass,
)
from rb_interp.probes.activations import Tokens, as_rows, capture
from rb_interp.tasks.inputs import REST, Inputs, rest_positions

__all__ = [
    "Edit",
    "Site",
    "components_of",
    "edits_of",
    "interchange_edits",
    "last_logits",
    "values_at",
    "with_edits",
]

HOOKS = {
    name: f"blocks.{{}}.hook_{name}"
    for name in ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
}
HOOKS |= {name: f"blocks.{{}}.attn.hook_{name}" for name in ("q", "k", "v", "z", "pattern")}
HOOKS |= {
    "mlp_post": "blocks.{}.mlp.hook_post",
    "embed": "hook_embed",
    "pos_embed": "hook_pos_embed",
}
"""Component -> hook name, with the layer left open."""
PER_HEAD = ("q", "k", "v", "z", "pattern")
"""Components that have a head axis: axis 2 of q, k, v and z, axis 1 of pattern."""
EMBEDDINGS = ("embed", "pos_embed")
"""Components that stand before the first layer."""
ACTS_ON_OTHERS = ("resid_pre", "k", "v", *EMBEDDINGS)
"""Components through which a position acts on others in their own block. The others act on their
own position there."""
FORM = re.compile(r"([^.@]+)(?:\.(0|[1-9][0-9]{0,8})(?:\.(0|[1-9][0-9]{0,8}))?)?(?:@(.+))?")
"""Component, layer, head or neuron, and role, as they are written; a number is not 01, which may be
meant as 0.1."""


@checked
@dataclass(frozen=True)
class Site:
    """A component of one layer, at the positions of one role (None: everywhere).

    ``unit`` is one head, for ``mlp_post`` one neuron; None for all.

    >>> Site.parse("z.0.2@key")
    Site(component='z', layer=0, role='key', unit=2)
    >>> str(Site("attn_out", 1, "last")), Site("attn_out", 1, "last").hook
    ('attn_out.1@last', 'blocks.1.hook_attn_out')
    """

    component: str
    layer: int
    role: str | None = None
    unit: int | None = None

    def __post_init__(self) -> None:
        if self.component not in HOOKS:
            raise ModelError(
                f"there is no component '{self.component}'; {nearest(self.component, HOOKS)}"
            )
        if self.unit is not None and self.component not in (*PER_HEAD, "mlp_post"):
            heads = ", ".join(PER_HEAD)
            raise ModelError(
                f"site '{self}' names a head or neuron; heads have {heads}, neurons mlp_post."
            )

    @staticmethod
    @checked
    def parse(text: str | Site) -> Site:
        """A site from ``component.layer@role``, ``component.layer.head@role``, or either without
        ``@role``."""
        if isinstance(text, Site):
            return text
        found = FORM.fullmatch(str(text))
        if not found or (found[2] is None) != (found[1] in EMBEDDINGS):
            raise ModelError(
                f"cannot read the site '{text}'; write component.layer@role, such as "
                f"attn_out.1@last, with a head "
                f"component.layer.head@role, such as z.0.2@key, and an embedding without numbers: "
                f"embed@last."
            )
        return Site(
            found[1], int(found[2] or 0), found[4], None if found[3] is None else int(found[3])
        )

    def __str__(self) -> str:
        numbers = () if self.component in EMBEDDINGS else (self.layer, self.unit)
        place = ".".join(
            [self.component, *(str(number) for number in numbers if number is not None)]
        )
        return place + (f"@{self.role}" if self.role else "")

    @property
    def hook(self) -> str:
        """Full hook name."""
        return HOOKS[self.component].format(self.layer)

    @property
    def position_axis(self) -> int:
        """Axis of the positions in the activation (of the queries, for ``pattern``)."""
        return 2 if self.component == "pattern" else 1

    def in_hook(self, model: HookedModel) -> Site:
        """The same place with the head's number in its hook, which has fewer keys and values than a
        model has heads."""
        if self.unit is None or self.component not in ("k", "v"):
            return self
        return replace(self, unit=key_value_head(model, self.unit))

    def shared(self, model: HookedModel) -> str:
        """Which other heads have the same keys or values, in words; empty if each head has its
        own."""
        if self.unit is None or self.component not in ("k", "v"):
            return ""
        heads = heads_sharing(model, self.unit)
        if not heads:
            return ""
        noun = "head" if len(heads) == 1 else "heads"
        return f"shared with {noun} {', '.join(map(str, heads))}"

    def check(self, model: HookedModel) -> None:
        """Raise ModelError where a model has no such component, layer, head or neuron."""
        layer = self.layer if 0 <= self.layer < model.cfg.n_layers else None
        if self.component not in (there := components_of(model, layer)):
            check_not_compiled(model)
            has = ", ".join(there) or "no transformer layer: edit its hooks by name"
            raise ModelError(
                f"site '{self}' is not in this model, a {type(model).__name__}, which has there "
                f"{has}."
            )
        mlp = self.component == "mlp_post"
        unit = (
            ("neuron", self.unit, model.cfg.d_mlp)
            if mlp
            else ("head", self.unit, model.cfg.n_heads)
        )
        for what, given, count in (("layer", self.layer, model.cfg.n_layers), unit):
            if given is not None and not 0 <= given < count:
                raise ModelError(
                    f"site '{self}' is in {what} {given}; this model has {what}s 0 to {count - 1}."
                )


Sites = Site | str | Sequence[Site | str]


def parse_sites(sites: Sites) -> list[Site]:
    """One site or several, each as a Site or as text; ModelError for none."""
    parsed = [Site.parse(site) for site in ([sites] if isinstance(sites, Site | str) else sites)]
    if not parsed:
        raise ModelError("this call needs at least one site, such as 'attn_out.0'; got none.")
    return parsed


def told(sites: Sequence[Site], model: HookedModel) -> str:
    """Several sites as text, each with the other heads that share what it has."""
    return " + ".join(
        f"{site} ({shared})" if (shared := site.shared(model)) else str(site) for site in sites
    )


def components_of(model: HookedModel, layer: int | None = None) -> tuple[str, ...]:
    """The components that a model has in any layer, or in one, in the order of HOOKS; none without
    attention."""
    if not has_attention(model):
        return ()
    missing = set()
    if not has_mlp(model):
        missing |= {"resid_mid", "mlp_post", "mlp_out"}
    if not adds_positions(model):
        missing.add("pos_embed")
    layers = range(model.cfg.n_layers) if layer is None else [layer]
    names = {}
    for component, hook in HOOKS.items():
        if component not in missing:
            names |= {hook.format(layer): component for layer in layers}
    points = hook_points(model, names)
    return tuple(dict.fromkeys(component for name, component in names.items() if name in points))


def positions(rows: Inputs, role: str) -> Int[np.ndarray, "row n"]:
    """Positions of a role in every row: a role of theirs, or one that this module's docstring
    lists.

    >>> from rb_interp.tasks import Roles
    >>> rows = Inputs([[7, 8, 9, 9]], None, Roles({"key": [[0]], "anchor": [[1, 2]]}))
    >>> [positions(rows, role).tolist() for role in ("anchor", "last_anchor", "anchor_1", "last")]
    [[[1, 2]], [[2]], [[1]], [[3]]]
    """
    (n_rows, length), own = rows.tokens.shape, rows.roles.positions
    known = {
        "last": np.full((n_rows, 1), length - 1),
        "all": np.tile(np.arange(length), (n_rows, 1)),
    }
    if (anchors := own.get("anchor", np.empty((0, 0)))).shape[1]:
        known |= {f"anchor_{i + 1}": anchors[:, i, None] for i in range(anchors.shape[1])}
        known |= {"first_anchor": anchors[:, :1], "last_anchor": anchors[:, -1:]}
    known |= own  # a caller's 'last' is his
    if role == REST and REST not in own:
        known[REST] = rest_positions(rows.roles, length)
    if role not in known:
        name = rows.roles.task
        raise RolesError(
            f"this intervention needs the role '{role}'; {name} has no such role: "
            f"{nearest(role, [*known, REST])}"
        )
    at = known[role]
    if len(at) != n_rows or (at.size and not 0 <= at.min() <= at.max() < length):
        text = f"role '{role}' has {len(at)} rows, at positions {np.unique(at).tolist()}"
        raise RolesError(
            f"{text}; there are {n_rows} rows with the positions 0 to {length - 1}. Pass roles of "
            f"theirs."
        )
    return at


def site_positions(site: Site, rows: Inputs) -> Int[Tensor, "row n"]:
    """Positions of a site's role in some rows; every position where it has none."""
    if site.role is None:
        return torch.arange(rows.tokens.shape[1]).expand(rows.tokens.shape)
    return torch.from_numpy(np.ascontiguousarray(positions(rows, site.role)))


def aligned(
    site: Site, rows: Inputs, source: Inputs
) -> tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Positions of a site's role in the rows and in their source; ModelError where one cannot stand
    for the other."""
    shape, other = list(rows.tokens.shape), list(source.tokens.shape)
    if shape != other:
        raise ModelError(
            f"the source has tokens {other} and the rows that run {shape}; patching needs pairs."
        )
    at, source_at = site_positions(site, rows), site_positions(site, source)
    if at.shape != source_at.shape:
        raise ModelError(
            f"site '{site}' has {at.shape[1]} positions in each of the rows and "
            f"{source_at.shape[1]} in the source; "
            f"patch a role that has as many in both."
        )
    if site.component == "pattern" and not torch.equal(at, source_at):
        raise ModelError(
            f"site '{site}' stands elsewhere in the source; a pattern is over positions: patch q "
            f"or k."
        )
    return at, source_at


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
    parsed = [Site.parse(site) for site in ([sites] if isinstance(sites, Site | str) else sites)]
    for site in parsed:
        site.check(model)
    values = capture(model, rows.tokens, sorted({site.hook for site in parsed})) if parsed else {}
    return {
        site: gather(site.in_hook(model), values[site.hook], site_positions(site, rows))
        for site in parsed
    }


def gather(
    site: Site, activation: Tensor, at: Int[Tensor, "*n"], rows: Int[Tensor, "*n"] | None = None
) -> Tensor:
    """An activation at positions ``[row, n]``, or at single ones of given rows, in a head or neuron
    of its hook."""
    rows = torch.arange(len(at))[:, None] if rows is None else rows
    found = activation.movedim(site.position_axis, 1)[
        rows.to(activation.device), at.to(activation.device)
    ]
    return found if site.unit is None else found.select(at.ndim, site.unit)


def scatter(
    site: Site,
    activation: Tensor,
    at: Int[Tensor, "*n"],
    values: Tensor,
    rows: Int[Tensor, "*n"] | None = None,
) -> Tensor:
    """A copy of an activation with values at positions ``[row, n]``, or at single ones of given
    rows, as `gather`."""
    rows, changed = torch.arange(len(at))[:, None] if rows is None else rows, activation.clone()
    moved = changed.movedim(site.position_axis, 1)
    moved = moved if site.unit is None else moved.select(2, site.unit)
    moved[rows.to(moved.device), at.to(moved.device)] = values.to(moved)
    return changed


class Edit(NamedTuple):
    """A change at one hook: ``change(activation, rows)`` gives the new activation of the rows in
    this pass.

    ``rows`` ``[batch]`` says which rows of the whole input they are. ``change`` must not write into
    the activation it is given: other readers may hold it. ``n_rows`` is how many rows the edit
    holds data of, ``tokens`` ``[row, pos]`` what they are; None where it serves any row, or where
    nobody knows.
    """

    hook: str
    change: Callable[[Tensor, Int[Tensor, " batch"]], Tensor]
    n_rows: int | None = None
    tokens: Int[Tensor, "row pos"] | None = None


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
    if rows is None:
        check_not_compiled(model)
    known = [edit.tokens for edit in edits if rows is None and edit.tokens is not None]

    def look(_: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        passed = (
            next(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
            .detach()
            .cpu()
            .long()
        )
        if not all(torch.equal(passed, tokens) for tokens in known):
            raise ModelError(
                f"this pass has not the {len(known[0])} rows that the edits were made for; call "
                f"the model with those "
                f"rows, all of them in their order, or make edits for these."
            )

    def change(edit: Edit, activation: Tensor) -> Tensor:
        if rows is None and edit.n_rows not in (None, len(activation)):
            raise ModelError(
                f"the edit at '{edit.hook}' holds {edit.n_rows} rows, this pass has "
                f"{len(activation)}."
            )
        return edit.change(activation, torch.arange(len(activation)) if rows is None else rows)

    hooks = [(edit.hook, lambda value, hook, edit=edit: change(edit, value)) for edit in edits]
    handle = model.embed.register_forward_pre_hook(look, with_kwargs=True) if known else None
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
    tokens: Tokens,
    edits: Sequence[Edit] = (),
    *,
    at: Int[Tensor, " row"] | None = None,
) -> Float[Tensor, "row d_vocab"]:
    """Logits at the last position, or at one of each row, under edits, on CPU, in evaluation mode,
    with no gradient.

    Args:
        model: any model with TransformerLens's hooks.
        tokens: integers ``[row, pos]``.
        edits: what each pass carries, in this order.
        at: a position of each row; by default the last one.

    Raises:
        ModelError: a token or the length is outside the model's range, or a logit is not finite.
    """
    inputs = as_rows(tokens)
    check_range(model, inputs)
    device, parts = device_of(model), []
    with torch.no_grad(), evaluation(model):
        for rows in torch.arange(len(inputs)).split(rows_of_a_pass(model, inputs)):
            with with_edits(model, edits, rows):
                logits = model(inputs[rows].to(device))
                parts.append(
                    (
                        logits[:, -1] if at is None else logits[torch.arange(len(rows)), at[rows]]
                    ).cpu()
                )
    logits = torch.cat(parts)
    return check_finite(logits)


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
    model: HookedModel, tokens: Tokens, edits: Sequence[Edit] = ()
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


def edits_of(model: HookedModel, rows: Inputs, values: Mapping[Site, Tensor]) -> list[Edit]:
    """Edits that write values ``[row, n, ...]``, shaped as `values_at` gives them, at sites of some
    rows.

    Values and positions that are the same in all rows are written in any row of that length.
    """
    return [edit for site, new in values.items() for edit in _writes(model, rows, site, new)]


def _writes(model: HookedModel, rows: Inputs, site: Site, values: Tensor) -> list[Edit]:
    """One edit; for ``resid_mid`` on TransformerLens 4 two, which set attention's output to what
    gives that sum."""
    site.check(model)
    place, at, held = site.in_hook(model), site_positions(site, rows), {}
    length, same = rows.tokens.shape[1], bool((values == values[:1]).all() and (at == at[:1]).all())
    is_copy = site.component == "resid_mid" and resid_mid_is_a_copy(model)
    if is_copy:
        place = Site("attn_out", site.layer)

    def change(activation: Tensor, numbers: Tensor) -> Tensor:
        if activation.shape[place.position_axis] != length:
            raise ModelError(
                f"the edit at '{site}' was made for rows of {length} positions; make edits for "
                f"these."
            )
        numbers = torch.zeros(len(activation), dtype=torch.long) if same else numbers
        new, to = values[numbers].to(activation), at[numbers]
        if is_copy:
            new = new - held["resid_pre"][torch.arange(len(numbers))[:, None], to]
        return scatter(place, activation, to, new)

    known = (None, None) if same else (len(values), as_rows(rows.tokens))
    before = [
        Edit(Site("resid_pre", site.layer).hook, lambda x, _: held.update(resid_pre=x) or x)
    ] * is_copy
    return [*before, Edit(place.hook, change, *known)]


@contextmanager
def replaced(weight: Tensor, value: Tensor) -> Iterator[None]:
    """A context in which a weight holds other values."""
    before = weight.detach().clone()

    def write(new: Tensor) -> None:
        with torch.inference_mode(
            weight.is_inference()
        ):  # one made in inference mode is written there alone
            weight.detach().copy_(new)

    try:
        write(value)
        yield
    finally:
        write(before)
