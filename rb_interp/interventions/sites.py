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

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError, nearest
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import Tokens, as_rows, capture, has_attention
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["HOOKS", "PER_HEAD", "Edit", "Site", "components_of", "positions", "read_at"]

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


class Edit(NamedTuple):
    """A change at one hook: ``change(activation, rows)`` gives the new activation of the rows in this pass.

    ``rows`` ``[batch]`` says which rows of the whole input they are. ``change`` must not write into the activation it
    is given: other readers may hold it. ``tokens`` ``[row, pos]`` are the rows that the edit has data of; None where it
    has none, or nobody knows them. ``alike`` ``[row]`` are rows that their tokens do not tell from another row, for
    which the edit does something else.
    """

    hook: str
    change: Callable[[Tensor, Int[Tensor, " batch"]], Tensor]
    tokens: Int[Tensor, "row pos"] | None = None
    alike: Bool[Tensor, " row"] | None = None


@typed
@dataclass(frozen=True)
class Site:
    """A component of one layer, at the positions of one role (None: everywhere), in one head or neuron (None: all).

    >>> Site.parse("z.0.2@key")
    Site(component='z', layer=0, role='key', head=2, neuron=None)
    >>> str(Site("attn_out", 1, "last")), Site("attn_out", 1, "last").hook
    ('attn_out.1@last', 'blocks.1.hook_attn_out')
    """

    component: str
    layer: int
    role: str | None = None
    head: int | None = None
    neuron: int | None = None

    def __post_init__(self) -> None:
        if self.component not in HOOKS:
            raise ModelError(f"there is no component '{self.component}'; {nearest(self.component, HOOKS)}")
        if self.head is not None and self.component not in PER_HEAD:
            raise ModelError(
                f"site '{self}' names a head, and {self.component} has none; the components of one head are "
                f"{', '.join(PER_HEAD)}."
            )
        if self.neuron is not None and self.component != "mlp_post":
            raise ModelError(f"site '{self}' names a neuron; only mlp_post has neurons, such as mlp_post.0.5@last.")
        if self.component in EMBEDDINGS and self.layer != 0:
            raise ModelError(f"{self.component} stands before the first layer, and got layer={self.layer}; use 0.")

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
        if component in EMBEDDINGS and numbers:
            raise ModelError(
                f"cannot read the site '{text}'; {component} stands before the first layer and has no numbers: write "
                f"{component}@last."
            )
        if component in EMBEDDINGS and (role or not at):
            return Site(component, 0, role or None)
        if not 1 <= len(numbers) <= 2 or not all(map(NUMBER.fullmatch, numbers)) or (at and not role):
            raise ModelError(
                f"cannot read the site '{text}'; write component.layer@role, such as attn_out.1@last, or with a head "
                f"component.layer.head@role, such as z.0.2@key."
            )
        unit = {"neuron" if component == "mlp_post" else "head": int(numbers[1])} if numbers[1:] else {}
        return Site(component, int(numbers[0]), role or None, **unit)

    def __str__(self) -> str:
        numbers = () if self.component in EMBEDDINGS else (self.layer, self.unit)
        place = ".".join([self.component, *(str(number) for number in numbers if number is not None)])
        return place + (f"@{self.role}" if self.role else "")

    @property
    def unit(self) -> int | None:
        """The head or neuron, where the site is a single one."""
        return self.head if self.neuron is None else self.neuron

    @property
    def hook(self) -> str:
        """Full hook name."""
        return HOOKS[self.component].format(self.layer)

    @property
    def position_axis(self) -> int:
        """Axis of the positions in the activation (of the queries, for ``pattern``)."""
        return 2 if self.component == "pattern" else 1

    @typed
    def at(self, role: str | None) -> Site:
        """The same component at another role."""
        return replace(self, role=role)

    @typed
    def in_hook(self, model: HookedModel) -> Site:
        """The same place with the head's number in its hook, which has fewer keys and values than a model has heads."""
        shared = getattr(model.cfg, "n_key_value_heads", None) if self.component in ("k", "v") else None
        if self.head is None or not shared or getattr(model.cfg, "ungroup_grouped_query_attention", False):
            return self
        return replace(self, head=self.head * shared // model.cfg.n_heads)

    @typed
    def shared(self, model: HookedModel) -> str:
        """Which other heads have the same keys or values, in words; empty where each head has its own."""
        heads = range(model.cfg.n_heads if self.head is not None else 0)
        same = [head for head in heads if replace(self, head=head).in_hook(model) == self.in_hook(model)]
        others = ", ".join(str(head) for head in same if head != self.head)
        return others and f"shared with head{'s' * (len(same) > 2)} {others}"

    @typed
    def named(self, model: HookedModel) -> str:
        """The site as text, and which other heads share what it has."""
        shared = self.shared(model)
        return f"{self} ({shared})" if shared else str(self)

    @typed
    def check(self, model: HookedModel) -> None:
        """Raise ModelError where a model has no such component, layer, head or hook."""
        if not has_attention(model):
            raise ModelError(
                f"site '{self}' is in a transformer layer, and a {type(model).__name__} has none; edit its hooks by "
                f"name, such as hook_sum."
            )
        missing = missing_components(model)
        if self.component in missing:
            raise ModelError(
                f"site '{self}' is not in this model: {missing[self.component]} It has "
                f"{', '.join(components_of(model))}."
            )
        counted = ("layer", self.layer, model.cfg.n_layers), ("head", self.head, model.cfg.n_heads)
        for what, given, count in (*counted, ("neuron", self.neuron, getattr(model.cfg, "d_mlp", None) or 0)):
            if given is not None and not 0 <= given < count:
                raise ModelError(
                    f"site '{self}' is in {what} {given}; this model has {count} {what}s, counted from 0. "
                    f"Use {what} 0 to {count - 1}."
                )
        if self.hook not in model.hook_dict:
            raise ModelError(f"this model has no hook '{self.hook}'; {nearest(self.hook, model.hook_dict)}")


def components_of(model: HookedModel) -> tuple[str, ...]:
    """The components that a model has, in the order of HOOKS.

    A model of attention alone has no ``resid_mid`` and ``mlp_out``, and one whose attention and MLP both read
    ``resid_pre`` (Pythia, GPT-NeoX) has no ``resid_mid``.
    """
    return tuple(name for name in HOOKS if name not in missing_components(model))


def missing_components(model: HookedModel) -> dict[str, str]:
    """Why a model does not have a component, as a sentence, for each that it does not have."""
    why = {name: f"its layers have no hook for {name}." for name in HOOKS}
    why |= {"resid_mid": "its attention and MLP both read resid_pre, side by side."}
    why |= {"pos_embed": "it adds no embedding of positions to the stream."}
    missing = {name for name in HOOKS if HOOKS[name].format(0) not in model.hook_dict}
    if getattr(model.cfg, "attn_only", False):
        alone = ("resid_mid", "mlp_post", "mlp_out")
        missing, why = missing.union(alone), why | dict.fromkeys(alone, "its layers have attention alone.")
    if getattr(model.cfg, "positional_embedding_type", "standard") != "standard":  # a bridge names it still
        missing.add("pos_embed")
    return {name: why[name] for name in HOOKS if name in missing}


def positions(roles: Roles, role: str, length: int, asker: str = "this intervention") -> Int[np.ndarray, "row n"]:
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
        known = {"first_anchor": anchors[:, :1], "last_anchor": anchors[:, -1:], **single, **known}
    known = {**known, **roles.positions}
    if role in known:
        return known[role]
    raise RolesError(f"{asker} needs the role '{role}'; {roles.task} has no such role: {nearest(role, known)}")


@typed
@few_threads
def read_at(model: HookedModel, tokens: Tokens, site: Site | str, roles: Roles) -> Tensor:
    """What a model computes at a site, ``[row, n, ...]`` with n the positions of the role, on CPU.

    One position's activation is ``[d_model]`` for the residual stream, embeddings and sublayer outputs, ``[head,
    d_head]`` for q, k, v and z, ``[head, key]`` for pattern, ``[d_mlp]`` for mlp_post; one head's or neuron's is
    without that axis.
    """
    site = Site.parse(site)
    site.check(model)
    rows = as_rows(tokens)
    activation = capture(model, rows, [site.hook])[site.hook]
    return gather_at(site.in_hook(model), activation, site_positions(site, roles, rows.shape[1], len(rows)))


def site_positions(site: Site, roles: Roles | None, length: int, n_rows: int) -> Int[Tensor, "row n"]:
    """Positions of a site's role as a tensor; every position where it has none, for which no roles are needed."""
    if site.role in (None, "all"):
        return torch.arange(length).expand(n_rows, length)
    if site.role == "last":
        return torch.full((n_rows, 1), length - 1)
    if roles is None:
        raise RolesError(f"site '{site}' names a role, and no roles were given; pass roles=, or leave '@' away.")
    if len(roles) != n_rows:
        raise RolesError(
            f"site '{site}' got {n_rows} rows of tokens and roles of {len(roles)} rows; pass roles of the same rows."
        )
    found = positions(roles, site.role, length, f"site '{site}'")
    if found.size and not 0 <= found.min() <= found.max() < length:
        raise RolesError(
            f"role '{site.role}' is at positions {found.min()} to {found.max()}; these rows have positions 0 to "
            f"{length - 1}. Pass roles of the same rows."
        )
    return torch.from_numpy(np.ascontiguousarray(found))


def gather_at(site: Site, activation: Tensor, at: Int[Tensor, "row n"]) -> Tensor:
    """An activation at given positions, positions on axis 1, in the site's head or neuron (see ``in_hook``)."""
    moved = activation.movedim(site.position_axis, 1)
    found = moved[torch.arange(len(at), device=moved.device)[:, None], at.to(moved.device)]
    return found if site.unit is None else found[:, :, site.unit]


def scatter_at(site: Site, activation: Tensor, at: Int[Tensor, "row n"], values: Tensor) -> Tensor:
    """A copy of an activation with ``values`` ``[row, n, ...]`` at given positions, in that head or neuron."""
    changed = activation.clone()
    moved = changed.movedim(site.position_axis, 1)
    if site.unit is not None:
        moved = moved[:, :, site.unit]
    moved[torch.arange(len(at), device=moved.device)[:, None], at.to(moved.device)] = values.to(moved)
    return changed
