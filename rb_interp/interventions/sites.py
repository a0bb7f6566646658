"""Sites: positions in a model by component, layer, head and role.

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
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import (
    adds_positions,
    check_not_compiled,
    has_attention,
    has_mlp,
    hook_points,
    key_value_head,
)
from rb_interp.tasks.inputs import Inputs, role_positions

__all__ = ["Site", "components_of", "positions"]

STREAM = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
PER_HEAD = ("q", "k", "v", "z", "pattern")
"""Components that have a head axis: axis 2 of q, k, v and z, axis 1 of pattern."""
EMBEDDINGS = ("embed", "pos_embed")
"""Components that stand before the first layer."""
HOOKS = {
    **{name: f"blocks.{{}}.hook_{name}" for name in STREAM},
    **{name: f"blocks.{{}}.attn.hook_{name}" for name in PER_HEAD},
    "mlp_post": "blocks.{}.mlp.hook_post",
    **{name: f"hook_{name}" for name in EMBEDDINGS},
}
"""Component -> hook name, with the layer left open."""
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
        match = FORM.fullmatch(str(text))
        if not match or (match[2] is None) != (match[1] in EMBEDDINGS):
            raise ModelError(
                f"cannot read the site '{text}'; write component.layer@role, such as "
                f"attn_out.1@last, with a head component.layer.head@role, such as z.0.2@key, and "
                f"an embedding without numbers: embed@last. The hook blocks.1.attn.hook_z is z.1."
            )
        component, layer, unit, role = match.groups()
        return Site(component, int(layer or 0), role, None if unit is None else int(unit))

    def __str__(self) -> str:
        text = self.component
        if self.component not in EMBEDDINGS:
            text += f".{self.layer}"
        if self.unit is not None:
            text += f".{self.unit}"
        return text if self.role is None else f"{text}@{self.role}"

    @property
    def hook(self) -> str:
        """Full hook name."""
        return HOOKS[self.component].format(self.layer)

    @property
    def position_axis(self) -> int:
        """Axis of the positions in the activation (of the queries, for ``pattern``)."""
        return 2 if self.component == "pattern" else 1

    def in_hook(self, model: HookedModel) -> Site:
        """The same site with the head's number in its hook, which has fewer keys and values than a
        model has heads."""
        if self.unit is None or self.component not in ("k", "v"):
            return self
        return replace(self, unit=key_value_head(model, self.unit))

    def sharing_note(self, model: HookedModel) -> str:
        """Which other heads have the same keys or values; empty if each head has its own."""
        if self.unit is None or self.component not in ("k", "v"):
            return ""
        groups = [key_value_head(model, head) for head in range(model.cfg.n_heads)]
        sharing = [str(head) for head, group in enumerate(groups) if group == groups[self.unit]]
        sharing.remove(str(self.unit))
        if not sharing:
            return ""
        noun = "head" if len(sharing) == 1 else "heads"
        return f"shared with {noun} {', '.join(sharing)}"

    def check(self, model: HookedModel) -> None:
        """Raise ModelError if the model has no such component, layer, head or neuron."""
        n_layers = model.cfg.n_layers
        in_range = 0 <= self.layer < n_layers
        components = components_of(model, self.layer if in_range else None)
        if self.component not in components:
            check_not_compiled(model)
            names = ", ".join(components) or "no transformer layer: edit its hooks by name"
            raise ModelError(
                f"site '{self}' is not in this model, a {type(model).__name__}, which has there "
                f"{names}."
            )
        if not in_range:
            self._raise_out_of_range("layer", self.layer, n_layers)
        if self.unit is None:
            return
        if self.component == "mlp_post":
            noun, n_units = "neuron", model.cfg.d_mlp
        else:
            noun, n_units = "head", model.cfg.n_heads
        if not 0 <= self.unit < n_units:
            self._raise_out_of_range(noun, self.unit, n_units)

    def _raise_out_of_range(self, noun: str, number: int, count: int) -> None:
        raise ModelError(
            f"site '{self}' is in {noun} {number}; this model has {noun}s 0 to {count - 1}."
        )


Sites = Site | str | Sequence[Site | str]


def parse_sites(sites: Sites) -> list[Site]:
    """One site or several, each as a Site or as text; ModelError for none."""
    if isinstance(sites, Site | str):
        return [Site.parse(sites)]
    if not sites:
        raise ModelError("this call needs at least one site, such as 'attn_out.0'; got none.")
    return [Site.parse(site) for site in sites]


def site_names(sites: Sequence[Site], model: HookedModel) -> str:
    """Several sites as text, each with the other heads that share what it has."""
    names = []
    for site in sites:
        note = site.sharing_note(model)
        names.append(f"{site} ({note})" if note else str(site))
    return " + ".join(names)


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
    return role_positions(rows.roles, role, rows.tokens.shape, "this intervention")


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
            f"the source, or the control, has tokens {other} and the rows that run {shape}; give as "
            f"many rows of one length."
        )
    base_positions, source_positions = site_positions(site, rows), site_positions(site, source)
    if base_positions.shape != source_positions.shape:
        raise ModelError(
            f"site '{site}' has {base_positions.shape[1]} positions in each of the rows and "
            f"{source_positions.shape[1]} in the source; patch a role that has as many in both."
        )
    if site.component == "pattern" and not torch.equal(base_positions, source_positions):
        raise ModelError(
            f"site '{site}' stands elsewhere in the source; a pattern is over positions: patch q "
            f"or k."
        )
    return base_positions, source_positions
