"""Sites from other rows: ``patch`` and ``patched_logits``, and what it does to the answer, ``patching_effect``.

A patch replaces the activation at one site or at several together, role to role, and everything downstream follows.
Several sites taken together can carry what none of them carries alone: where two components each carry all of it, each
alone recovers everything when denoising and loses nothing when noising.

Source: causal tracing (Meng et al., 2022, arXiv:2202.05262); denoising and noising in Heimersheim and Nanda (2024,
arXiv:2404.15255).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Compared, answer_logits
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
from rb_interp.interventions.matrix import SHARES, Direction, check_control
from rb_interp.interventions.metrics import Measured
from rb_interp.interventions.sites import Edit, Site
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.capturing import Tokens, as_rows
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["patch", "patched_logits", "patching_effect"]


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
    edits = (_for_any_length(site, found, roles, model) for site, found in zip(parsed, values, strict=True))
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
    rows, others = (Inputs(some, None, of) for some, of in ((tokens, roles), (source, source_roles)))
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

    Raises:
        ModelError: where rows are no pairs, a name is unknown, or the model does not tell clean from corrupted.

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


def _for_any_length(site: Site, values: Tensor, roles: Roles | None, model: HookedModel) -> list[Edit]:
    """``write_at``'s edits, made when the length of the rows is known: at the pass that they meet."""
    made: dict[int, list[Edit]] = {}

    def change(activation: Tensor, rows: Tensor, number: int) -> Tensor:
        if len(rows) != len(values):
            raise ModelError(
                f"the patch at '{site}' holds {len(values)} rows and this pass has {len(rows)}; run the rows that it "
                f"was made for, all in one pass."
            )
        length = activation.shape[site.position_axis]
        if length not in made:
            made[length] = write_at(site, values, roles, length, model)
        return made[length][number].change(activation, rows)

    hooks = [edit.hook for edit in write_at(site.at(None), values, None, values.shape[1], model)]
    return [Edit(hook, partial(change, number=number)) for number, hook in enumerate(hooks)]
