"""Activation patching by role: which component, of which layer, at which role carries what the answer depends on.

    denoise    recovered = (mean m(patched) - mean m(corrupted)) / (mean m(clean) - mean m(corrupted))
    noise      lost = (mean m(clean) - mean m(patched)) / (mean m(clean) - mean m(corrupted))

with m a metric of the logits where the answer is read: by default the logit of the clean answer less that of the
corrupted one at the last position. Denoising runs the corrupted rows with one cell, a component of one layer at the
positions of one role, from the clean rows: 1 where the cell carries all that differs, 0 where it carries nothing,
anything where others undo a part. It finds what suffices. Noising runs the clean rows with one cell from the corrupted
ones: 1 where all is lost. It finds what is needed. The control fills the same cell from rows that differ in noise alone
from those that run, and so have their answer.

Source: causal tracing (Meng et al., 2022, arXiv:2202.05262), as in TransformerLens's ``generic_activation_patch``,
whose numbers these are; pitfalls in Heimersheim and Nanda (2024, arXiv:2404.15255).

``patch`` is the context of such a pass, at one site or at several together, and ``patching_effect`` what they do to the
answer. Several sites taken together can carry what none of them carries alone: where two components each carry all of
it, each alone recovers everything when denoising and loses nothing when noising.

How it can mislead. Two cells may recover the same half or one half each, and the matrix looks alike. Roles overlap: the
last position holds a noise token or an anchor, so it also counts in the cells of that role.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Compared, answer_logits, answer_positions
from rb_interp.interventions.batched_patching import CellRuns
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import (
    Sites,
    aligned,
    interchange_edits,
    parse_sites,
    together,
    values_at,
    with_edits,
    write_at,
)
from rb_interp.interventions.matrix import SHARES, Direction, PatchingMatrix, check_control
from rb_interp.interventions.metrics import Measured
from rb_interp.interventions.sites import (
    EMBEDDINGS,
    HOOKS,
    PER_HEAD,
    Site,
    missing_components,
    site_positions,
)
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.capturing import Tokens, as_rows, has_attention
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["patch", "patched_logits", "patching_effect", "patching_matrix"]

COMPONENTS = tuple(name for name in HOOKS if name not in (*EMBEDDINGS, "mlp_post"))
"""Components that have cells by default."""
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
"""Roles that have cells by default, after those of the caller's own."""


@typed
@few_threads
def patching_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    roles: Sequence[str] | None = None,
    head: int | None = None,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> PatchingMatrix:
    """Share of the clean answer that each cell (component, layer, role) restores in the corrupted rows.

    With ``direction="noise"`` the share that is lost in the clean rows when the cell is that of the corrupted ones.

    Args:
        clean, corrupted: pairs of rows with different answers, for instance ``inputs`` and ``counterfactual``. A role
            may stand elsewhere in one of a pair than in the other.
        components: by default those of ``COMPONENTS`` that the model has; with a head, those that have heads. Where a
            role stands elsewhere in one of a pair, there are no cells of ``pattern``. ``mlp_post``, ``embed`` and
            ``pos_embed`` are there when they are asked for.
        layers: by default all. roles: by default all that both kinds of rows have, and the last position.
        head: one head, or all of them at once. Cells of k and v are those that it shares with other heads, where
            queries are grouped.
        metric: a name, such as ``logit_diff`` (nats) or ``probability`` of the clean answer, or a function; see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position. direction: ``denoise`` or ``noise``.
        control: rows that differ in noise alone from those that run (denoise: ``corrupted``, noise: ``clean``), such
            as ``corrupted.with_tokens_of(other, "noise")``.

    Raises:
        ModelError: where rows are no pairs, a name is unknown, or the model does not tell clean from corrupted.
        RolesError: for a role that the rows do not have.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = patching_matrix(model, clean, corrupted, roles=("key", "noise"))
    >>> matrix.to_frame().query("component == 'resid_pre' and layer == 0").recovered.round(3).tolist()
    [1.0, 0.0]
    """
    hooked(model, "patching_matrix")
    pair = Compared(model, clean, corrupted, metric, "patching_matrix", answer_at)
    source, base, start = clean, corrupted, pair.corrupted
    if direction == "noise":
        source, base, start = corrupted, clean, pair.clean
    check_control(control, source, base, "patching_matrix")
    cells = cells_of(model, clean, corrupted, control, components, layers, roles, head)
    at = answer_positions(answer_at, base.roles, len(base), base.tokens.shape[1], "patching_matrix")
    runs = CellRuns(model, base, cells.groups, cells.roles, at, pair.answers[direction == "denoise"].logits)

    def patched(rows: Inputs) -> Float[np.ndarray, "component layer role row"]:
        values = np.tile(start, (len(cells.groups), len(cells.roles), 1))
        for groups, role, logits in runs.run(rows):
            values[groups, role] = pair.of(logits)
        return cells.placed(values)

    harmless = None if control is None else patched(control)
    return PatchingMatrix(
        *cells[:3], pair.metric.name, head, pair.clean, pair.corrupted, patched(source), harmless, cells.notes,
        direction=direction,
    )  # fmt: skip


class Cells(NamedTuple):
    """The cells of a matrix: each of ``groups``, a component in its layer, at each role; why some are not there."""

    components: tuple[str, ...]
    layers: tuple[int, ...]
    roles: tuple[str, ...]
    groups: list[Site]
    notes: dict[str, str]

    def placed(self, values: Float[np.ndarray, "group role row"]) -> Float[np.ndarray, "component layer role row"]:
        """Values of the groups in their places, nan where there is no cell."""
        placed = np.full((len(self.components), len(self.layers), *values.shape[1:]), np.nan)
        for site, found in zip(self.groups, values, strict=True):
            placed[self.components.index(site.component), self.layers.index(site.layer)] = found
        return placed


def cells_of(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    control: Inputs | None,
    components: Sequence[str] | None,
    layers: Sequence[int] | None,
    roles: Sequence[str] | None,
    head: int | None,
) -> Cells:
    """The cells asked for, or those of the default; arguments as for `patching_matrix`."""
    if not has_attention(model):
        Site(next(iter(components or ("resid_pre",))), 0).check(model)
    names = default_roles(clean, corrupted, control) if roles is None else tuple(roles)
    if not names:
        raise ModelError("a matrix needs at least one role; name some, such as 'last', or leave roles= away.")
    numbers = tuple(range(model.cfg.n_layers) if layers is None else layers)
    chosen, notes = tuple(components or ()), {}
    if not chosen:
        there = COMPONENTS if head is None else PER_HEAD
        notes = {name: f"no cells: {why}" for name, why in missing_components(model).items() if name in there}
        if moved := _moved(names, corrupted, clean, control):
            notes["pattern"] = f"no cells: a pattern is over positions, and '{moved}' is elsewhere in the other rows."
        chosen = tuple(name for name in there if name not in notes)
    groups = [
        Site(component, layer, head=head)
        for component, layer in product(chosen, numbers)
        if component not in EMBEDDINGS or layer == 0
    ]
    if not groups:
        raise ModelError("embed and pos_embed stand before the first layer; let layers= have 0, or leave it away.")
    early = (name for name in chosen if name in EMBEDDINGS and numbers != (0,))
    notes |= dict.fromkeys(early, "stands before the first layer, and has cells in layer 0 alone.")
    notes |= {site.component: shared for site in groups if (shared := site.shared(model))}
    return Cells(chosen, numbers, names, groups, notes)


def default_roles(rows: Inputs, *others: Inputs | None) -> tuple[str, ...]:
    """The caller's own roles in their order, then those of ``ROLES``, as far as all rows have them.

    >>> from rb_interp.tasks.roles import Roles
    >>> default_roles(Inputs([[3, 1, 4, 1, 5]], None, Roles({"subject": [[0]], "verb": [[2]]})))
    ('subject', 'verb', 'last')
    """
    there = set.intersection(*({*some.roles.positions} for some in (rows, *others) if some is not None))
    known = {"last", *there, *(("first_anchor", "last_anchor") if "anchor" in there else ())}
    own = (role for role in rows.roles.positions if role in there and role not in ROLES)
    return (*own, *(role for role in ROLES if role in known))


def _moved(roles: Sequence[str], rows: Inputs, *others: Inputs | None) -> str | None:
    """The first role that does not stand at the same positions in other rows as in some rows, or None."""
    for role, other in product(roles, (other for other in others if other is not None)):
        at, there = (site_positions(Site("q", 0, role), some.roles, *some.tokens.shape[::-1]) for some in (rows, other))
        if not torch.equal(at, there):
            return role
    return None


@typed
@contextmanager
def patch(
    model: HookedModel,
    sites: Sites,
    source: Tokens | Inputs,
    *,
    roles: Roles | None = None,
    source_roles: Roles | None = None,
) -> Iterator[HookedModel]:
    """A context in which every pass of the given rows has one site or several from other rows, role to role.

    The rows are those that ``roles`` tells of, all of them and in order; ``source`` has one row for each. Hooks are
    gone when the context is left; the caller's own stay.

    Args:
        source: tokens ``[row, pos]`` of the other rows, Inputs, or for one site activations ``[row, n, ...]`` as
            ``sites.read_at`` gives.
        source_roles: roles of the source's tokens, where they differ from ``roles``.

    Raises ModelError where source and rows do not fit, in number of rows or positions.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, other = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> with patch(model, "resid_pre.0@key", other.tokens, roles=clean.roles):
    ...     patched = model(torch.from_numpy(clean.tokens).long())
    >>> torch.allclose(patched, model(torch.from_numpy(other.tokens).long()), atol=1e-5)
    True
    """
    if isinstance(source, Inputs):
        source, source_roles = source.tokens, source_roles or source.roles
    parsed, values = parse_sites(sites), [torch.as_tensor(source)]
    if not values[0].is_floating_point():
        n_rows, length = as_rows(source).shape
        for site in parsed:
            aligned(site, roles, source_roles or roles, length, n_rows)
        values = values_at(model, source, source_roles or roles, parsed)
    elif len(parsed) != 1:
        raise ModelError(f"patch got activations for {len(parsed)} sites; give tokens, or activations of one site.")
    edits = (write_at(site, found, roles, None, model) for site, found in zip(parsed, values, strict=True))
    with with_edits(model, [edit for some in edits for edit in some]):
        yield model


@typed
@few_threads
def patched_logits(
    model: HookedModel,
    tokens: Tokens,
    roles: Roles | None,
    source: Tokens,
    source_roles: Roles | None,
    sites: Sites,
    answer_at: AnswerAt = None,
) -> Float[Tensor, "row d_vocab"]:
    """Logits at the answer's position, on CPU, with one site or several at once taken from other rows, role to role.

    Args:
        tokens, roles: the rows that run. source, source_roles: tokens ``[row, pos]`` and roles of the others.
        answer_at: where the answer is read, by default at the last position.

    Raises ModelError where source and rows do not fit, in number of rows or positions.
    """
    rows, others = (
        Inputs(as_rows(some).numpy(), None, of or Roles()) for some, of in ((tokens, roles), (source, source_roles))
    )
    edits = interchange_edits(model, rows, others, sites)
    return answer_logits(model, rows, edits, answer_at, "patched_logits")


@typed
@few_threads
def patching_effect(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    sites: Sites,
    *,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> Effect:
    """What one site, or several together, recover in the corrupted rows, or lose in the clean ones.

    The same share as a cell of ``patching_matrix`` has, as an Effect on each input: its values are divided by the mean
    over all inputs of the whole difference, taken as known.

    Args:
        clean, corrupted: pairs of rows with different answers. sites: any, with or without a role.
        metric: a name or a function, see ``interventions.metrics``. answer_at: where the answer is read.
        direction: ``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones into clean rows.
        control: rows that differ in noise alone from those that run, as for ``patching_matrix``.

    Raises ModelError where rows are no pairs, a name is unknown, or the model does not tell clean from corrupted.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "both")
    >>> both = patching_effect(model, *pair, ["resid_pre.0@key", "resid_pre.0@anchor"])
    >>> float(both.values.mean().round(3))
    1.0
    """
    hooked(model, "patching_effect")
    parsed = parse_sites(sites, "patching_effect")
    pair = Compared(model, clean, corrupted, metric, "patching_effect", answer_at)
    source, base, end, start = clean, corrupted, pair.clean, pair.corrupted
    if direction == "noise":
        source, base, end, start = base, source, start, end
    check_control(control, source, base, "patching_effect")

    def share(rows: Inputs) -> Float[np.ndarray, " row"]:
        logits = answer_logits(model, base, interchange_edits(model, base, rows, parsed), answer_at, "patching_effect")
        return (pair.of(logits) - start) / (end.mean() - start.mean())

    values = share(source)
    other = np.empty((0, len(values))) if control is None else share(control)[None]
    return Effect(f"patching ({direction})", together(parsed, model), SHARES[direction], values, other, "noise redrawn")
