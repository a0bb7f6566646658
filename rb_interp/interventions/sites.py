"""Sites: places in a model by component, layer, head and role, written ``attn_out.1@last`` or ``z.0.2@key``.

Components are TransformerLens's: the residual stream before, between and after the sublayers (``resid_pre``,
``resid_mid``, ``resid_post``), what the sublayers write (``attn_out``, ``mlp_out``), and inside attention ``q``, ``k``,
``v``, ``z`` and ``pattern``. Layers and heads count from 0. ``mlp_post`` is what an MLP's neurons give after their
activation, all of them or one: ``mlp_post.1.37@last``. ``embed`` and ``pos_embed`` are what the embeddings add to the
stream before L0, and are written without a layer: ``embed@key``. The role says at which positions of each row: any
role of the Roles at hand, or ``first_anchor``, ``last_anchor``, ``anchor_1`` .. ``anchor_q``, ``last`` (the last
position), ``all``. The role of a ``pattern`` is that of the query.

Heads are those of the queries. Where several of them share their keys and values (grouped queries), ``k`` and ``v`` of
a head are those that it shares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError, nearest
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import Tokens, as_rows, capture, has_attention
from rb_interp.tasks.inputs import Inputs, Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["Site", "components_of", "positions", "read_at"]

HOOKS = {
    **{name: f"blocks.{{}}.hook_{name}" for name in ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")},
    **{name: f"blocks.{{}}.attn.hook_{name}" for name in ("q", "k", "v", "z", "pattern")},
    "mlp_post": "blocks.{}.mlp.hook_post",
    "embed": "hook_embed",
    "pos_embed": "hook_pos_embed",
}
"""Component -> hook name, with the layer left open."""
PER_HEAD = ("q", "k", "v", "z", "pattern")
"""Components that have a head axis: axis 2 of q, k, v and z, axis 1 of pattern."""
EMBEDDINGS = ("embed", "pos_embed")
"""Components that stand before the first layer."""
NUMBER = re.compile("0|[1-9][0-9]{0,8}")
"""A layer, head or neuron as it is written; not 01, which may be meant as 0.1."""
F = TypeVar("F", bound=Callable)
SHARED = {
    "metric": "what is measured: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see\n"
    "        ``interventions.metrics``.",
    "answer_at": "where the answer is read, by default at the last position.",
    "layer": "the layer, counted from 0.",
    "head": "the only head that is changed; by default all of them.",
    "direction": "``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones into clean rows.",
    "control": "rows that differ in noise alone from those that run, or None for no control.",
    "n_draws": "draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.",
    "seed": "seed of the draws.",
}
"""What a docstring says of the arguments that interventions share; it stands here alone."""


def intervention(function: F) -> F:
    """The same function with its arguments checked, on few threads, and what is SHARED in its docstring."""
    text = inspect.getdoc(function) or ""
    told = (f"    {name}: {SHARED[name]}\n" for name in inspect.signature(function).parameters if name in SHARED)
    more = [line for line in told if f"\n{line.split(':')[0]}:" not in text]
    function.__doc__ = text.replace("Args:\n", "Args:\n" + "".join(more), 1)
    return typed(few_threads(function))  # type: ignore[return-value]


@typed
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
            raise ModelError(f"there is no component '{self.component}'; {nearest(self.component, HOOKS)}")
        if self.unit is not None and self.component not in (*PER_HEAD, "mlp_post"):
            raise ModelError(
                f"site '{self}' names a head or neuron, and {self.component} has none; heads have "
                f"{', '.join(PER_HEAD)}, neurons mlp_post."
            )

    @staticmethod
    @typed
    def parse(text: str | Site) -> Site:
        """A site from ``component.layer@role``, ``component.layer.head@role``, or either without ``@role``.

        A neuron stands in the place of a head, and an embedding has no layer: ``mlp_post.1.37``, ``embed@key``. No part
        is left unread: ``str`` of the site is the text again.

        Raises ModelError for a text of another form, and for a component that there is not.
        """
        if isinstance(text, Site):
            return text
        place, at, role = str(text).partition("@")
        component, *numbers = place.split(".")
        if component in EMBEDDINGS and not numbers and (role or not at):
            return Site(component, 0, role or None)
        wanted = component not in EMBEDDINGS and 1 <= len(numbers) <= 2 and all(map(NUMBER.fullmatch, numbers))
        if not wanted or (at and not role):
            raise ModelError(
                f"cannot read the site '{text}'; write component.layer@role, such as attn_out.1@last, with a head "
                f"component.layer.head@role, such as z.0.2@key, and an embedding without numbers: embed@last."
            )
        return Site(component, int(numbers[0]), role or None, int(numbers[1]) if numbers[1:] else None)

    def __str__(self) -> str:
        numbers = () if self.component in EMBEDDINGS else (self.layer, self.unit)
        place = ".".join([self.component, *(str(number) for number in numbers if number is not None)])
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
        """The same place with the head's number in its hook, which has fewer keys and values than a model has heads."""
        shared = getattr(model.cfg, "n_key_value_heads", None) if self.component in ("k", "v") else None
        if self.unit is None or not shared or getattr(model.cfg, "ungroup_grouped_query_attention", False):
            return self
        return replace(self, unit=self.unit * shared // model.cfg.n_heads)

    def shared(self, model: HookedModel) -> str:
        """Which other heads have the same keys or values, in words; empty where each head has its own."""
        heads = range(model.cfg.n_heads if self.component in ("k", "v") and self.unit is not None else 0)
        every, here = [replace(self, unit=head) for head in heads], self.in_hook(model)
        others = [str(one.unit) for one in every if one != self and one.in_hook(model) == here]
        return f"shared with head{'s' * (len(others) > 1)} {', '.join(others)}" if others else ""

    def check(self, model: HookedModel) -> None:
        """Raise ModelError where a model has no such component, layer, head or neuron."""
        if self.component not in (there := components_of(model)):
            has = ", ".join(there) or "no transformer layer: edit its hooks by name"
            raise ModelError(f"site '{self}' is not in this model, a {type(model).__name__}; it has {has}.")
        mlp = self.component == "mlp_post"
        unit = ("neuron", self.unit, model.cfg.d_mlp) if mlp else ("head", self.unit, model.cfg.n_heads)
        for what, given, count in (("layer", self.layer, model.cfg.n_layers), unit):
            if given is not None and not 0 <= given < count:
                raise ModelError(
                    f"site '{self}' is in {what} {given}; this model has {count} {what}s, counted from 0. "
                    f"Use {what} 0 to {count - 1}."
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
    return " + ".join(f"{site} ({shared})" if (shared := site.shared(model)) else str(site) for site in sites)


def components_of(model: HookedModel) -> tuple[str, ...]:
    """The components that a model has, in the order of HOOKS; none where it has no attention.

    A model of attention alone has no ``resid_mid`` and ``mlp_out``, and one whose attention and MLP both read
    ``resid_pre`` (Pythia, GPT-NeoX) has no ``resid_mid``.
    """
    missing = {*HOOKS} if not has_attention(model) else set()
    if getattr(model.cfg, "attn_only", False):
        missing |= {"resid_mid", "mlp_post", "mlp_out"}
    if getattr(model.cfg, "positional_embedding_type", "standard") != "standard":  # a bridge names it still
        missing.add("pos_embed")
    return tuple(name for name, hook in HOOKS.items() if name not in missing and hook.format(0) in model.hook_dict)


def positions(roles: Roles, role: str, length: int) -> Int[np.ndarray, "row n"]:
    """Positions of a role in every row; besides the roles at hand, the names that this module's docstring lists.

    Raises RolesError naming the nearest role for one that there is not.

    >>> roles = Roles({"key": np.array([[0]]), "anchor": np.array([[1, 2]])})
    >>> [positions(roles, role, 4).tolist() for role in ("anchor", "last_anchor", "anchor_1", "last")]
    [[[1, 2]], [[2]], [[1]], [[3]]]
    """
    n_rows, anchors = len(roles), roles.positions.get("anchor")
    known = {"last": np.full((n_rows, 1), length - 1), "all": np.tile(np.arange(length), (n_rows, 1))}
    if anchors is not None and anchors.shape[1]:
        single = {f"anchor_{i + 1}": anchors[:, i, None] for i in range(anchors.shape[1])}
        known |= {"first_anchor": anchors[:, :1], "last_anchor": anchors[:, -1:], **single}
    known |= roles.positions
    if role in known:
        return known[role]
    raise RolesError(
        f"this intervention needs the role '{role}'; {roles.task} has no such role: {nearest(role, known)}"
    )


def site_positions(site: Site, rows: Inputs) -> Int[Tensor, "row n"]:
    """Positions of a site's role in some rows; every position where it has none. RolesError for other rows' roles."""
    n_rows, length = rows.tokens.shape
    if site.role in (None, "all"):
        return torch.arange(length).expand(n_rows, length)
    if site.role == "last":
        return torch.full((n_rows, 1), length - 1)
    at = positions(rows.roles, site.role, length)
    if len(at) != n_rows or (at.size and not 0 <= at.min() <= at.max() < length):
        raise RolesError(
            f"role '{site.role}' has {len(at)} rows, at positions {at.min(initial=0)} to {at.max(initial=0)}; there "
            f"are {n_rows} rows with positions 0 to {length - 1}. Pass roles of the same rows."
        )
    return torch.from_numpy(np.ascontiguousarray(at))


def aligned(site: Site, rows: Inputs, source: Inputs) -> tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Positions of a site's role in the rows and in their source; ModelError where one cannot stand for the other."""
    if rows.tokens.shape != source.tokens.shape:
        raise ModelError(
            f"the source has tokens of shape {list(source.tokens.shape)} and the rows that run of "
            f"{list(rows.tokens.shape)}; patching needs pairs: one row for each row, of the same length."
        )
    at, source_at = site_positions(site, rows), site_positions(site, source)
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


@intervention
def read_at(model: HookedModel, tokens: Tokens, site: Site | str, roles: Roles) -> Tensor:
    """What a model computes at a site, ``[row, n, ...]`` with n the positions of the role, on CPU.

    One position's activation is ``[d_model]`` for the residual stream, embeddings and sublayer outputs, ``[head,
    d_head]`` for q, k, v and z, ``[head, key]`` for pattern, ``[d_mlp]`` for mlp_post; one head's or neuron's is
    without that axis.
    """
    return values_at(model, Inputs(as_rows(tokens).numpy(), None, roles), [Site.parse(site)])[0]


def values_at(model: HookedModel, rows: Inputs, sites: Sequence[Site]) -> list[Tensor]:
    """What a model computes at several sites, each ``[row, n, ...]`` as `read_at` gives it, from one run."""
    for site in sites:
        site.check(model)
    values = capture(model, rows.tokens, sorted({site.hook for site in sites})) if sites else {}
    return [gather(site.in_hook(model), values[site.hook], site_positions(site, rows)) for site in sites]


def gather(site: Site, activation: Tensor, at: Int[Tensor, "*n"], rows: Int[Tensor, "*n"] | None = None) -> Tensor:
    """An activation at positions ``[row, n]``, or at single ones of given rows, in a head or neuron of its hook."""
    moved = activation.movedim(site.position_axis, 1)
    found = moved[_rows_of(at, moved) if rows is None else rows, at.to(moved.device)]
    return found if site.unit is None else found.select(at.ndim, site.unit)


def scatter(
    site: Site, activation: Tensor, at: Int[Tensor, "*n"], values: Tensor, rows: Int[Tensor, "*n"] | None = None
) -> Tensor:
    """A copy of an activation with values at positions ``[row, n]``, or at single ones of given rows, as `gather`."""
    changed = activation.clone()
    moved = changed.movedim(site.position_axis, 1)
    if site.unit is not None:
        moved = moved.select(2, site.unit)
    moved[_rows_of(at, moved) if rows is None else rows, at.to(moved.device)] = values.to(moved)
    return changed


def _rows_of(at: Tensor, activation: Tensor) -> Tensor:
    return torch.arange(len(at), device=activation.device)[:, None]
