"""One path between two sites (``path_patch``), and a table of many (``path_matrix``).

A path patch shows the direct effect of a sender on a receiver, in two runs of the base rows:

1. The sender is taken from the source, and every attn_out and mlp_out between sender and receiver
   is held at its base value, so that the sender reaches the receiver through the residual stream
   alone. The receiver is read.
2. The receiver is set to what was read, and everything downstream of it follows.

Held are whole sublayers at every position: those after the sender's own (its attention or MLP
carries its change out) and before the receiver's own (into which the change goes). Paths of more
than one step, as through an MLP between the two, therefore do not count, save those through MLPs
with ``mlps="recomputed"``, as in Wang et al. With LayerNorm the residual stream is rescaled by what
the sender changed, which is part of the path.

Source: Wang et al. (2022, arXiv:2211.00593, section 3.1; MLPs recomputed), Goldowsky-Dill et al.
(2023, arXiv:2304.05969; all other paths held).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.edits import Edit, edits_of, gather, last_logits, values_at
from rb_interp.interventions.effect import Effect, Matrix
from rb_interp.interventions.metrics import AnswerAt, MetricLike, answer_logits
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import visible
from rb_interp.tasks.inputs import Inputs

__all__ = ["path_matrix", "path_patch"]

STEP = {
    "embed": -1,
    "pos_embed": -1,
    "resid_pre": 0,
    "q": 1,
    "k": 1,
    "v": 1,
    "pattern": 2,
    "z": 3,
    "attn_out": 4,
    "resid_mid": 5,
    "mlp_post": 6,
    "mlp_out": 7,
    "resid_post": 8,
}
"""Where in its layer each component comes; equal ones do not act on each other, nor does v on the
pattern."""
Mlps = Literal["frozen", "recomputed"]


@checked
@single_threaded
def path_patch(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sender: Site | str,
    receiver: Site | str,
    *,
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    mlps: Mlps = "frozen",
    control: Inputs | None = None,
) -> Effect:
    """Direct effect of a sender on a receiver: what the base rows recover by that one path.

    It is the share of the way to the source in the mean of the metric, whose whole difference is
    taken as known: 1 all, 0 none.

    Args:
        model: any model with TransformerLens's hooks.
        base: the rows that run, for instance ``counterfactual``.
        source: as many rows with different answers, from which the sender is taken; roles may stand
            at other positions.
        sender: a site, such as ``attn_out.0@anchor``.
        receiver: a later site, such as ``v.1@anchor``. ``resid_post`` of the last layer at ``last``
            is what the logits are read from.
        metric: a name or a function, see ``interventions.metrics``; clean rows are the source,
            corrupted ones the base.
        answer_at: where the answer is read, by default at the last position.
        mlps: ``frozen`` holds every sublayer between the two, ``recomputed`` the attention alone.
        control: rows that differ in noise alone from the base, or None for no control.

    Raises:
        ModelError: the model has no such site, the sender does not come before the receiver, the
            rows are no pairs, the metric does not differ between them, or the control is like the
            base or the source.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> values = path_patch(model, *pair, "resid_pre.0@key", "v.0@key").values
    >>> bool(0 < values.mean() < 1)  # the rest goes around attention
    True
    """
    sender, receiver = sites.parse_sites([sender, receiver])
    pair = PairedRun(model, metric, answer_at, source, base, control=control)
    runs = []
    for rows in pair.sources:
        (logits,) = path_logits(model, base, rows, sender, [receiver], mlps, answer_at)
        if logits is None:
            raise ModelError(
                f"the sender '{sender}' does not act on the receiver '{receiver}': a sender comes "
                f"before its receiver in the order of a pass. Exchange them."
            )
        runs.append(logits)
    pair.note_control([sender])
    reason = _no_path_reason(pair, sender, receiver)
    if reason:
        pair.notes["path"] = reason
    return pair.effect("path patch", f"{sender} -> {receiver}", runs, quantity="recovered")


@checked
@single_threaded
def path_matrix(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    senders: Sequence[Site | str],
    receivers: Sequence[Site | str],
    *,
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    mlps: Mlps = "frozen",
    control: Inputs | None = None,
) -> Matrix:
    """The direct effect of each sender on each receiver: the numbers of `path_patch`.

    A cell is NaN and has a note if there is no such path: the sender does not come before the
    receiver, no position of the receiver sees one of the sender, or the answer sees none of the
    receiver.

    Args:
        model: any model with TransformerLens's hooks.
        base: the rows that run, for instance ``counterfactual``.
        source: as many rows with different answers, from which the senders are taken.
        senders: sites, such as ``attn_out.0@anchor``.
        receivers: sites, such as ``v.1@anchor``.
        metric: a name or a function, see ``interventions.metrics``; clean rows are the source,
            corrupted ones the base.
        answer_at: where the answer is read, by default at the last position.
        mlps: ``frozen`` holds every sublayer between the two, ``recomputed`` the attention alone.
        control: rows that differ in noise alone from the base, or None for no control.

    Raises:
        ModelError: the model has no such site, the rows are no pairs, the metric does not differ
            between them, or the control is like the base or the source.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> path_matrix(model, *pair, ["embed@key", "attn_out.0@last"], ["z.0@last"]).notes
    {'attn_out.0@last -> z.0@last': 'no path: the sender does not come before the receiver.'}
    """
    senders = sites.parse_sites(senders)
    receivers = sites.parse_sites(receivers)
    pair = PairedRun(model, metric, answer_at, source, base, control=control)
    patched = np.full((len(pair.sources), len(senders), len(receivers), len(base)), np.nan)
    notes: dict[str, str] = {}
    base_values: dict[Site, Tensor] = {}
    for number, rows in enumerate(pair.sources):
        for row, sender in enumerate(senders):
            runs = path_logits(model, base, rows, sender, receivers, mlps, answer_at, base_values)
            for column, (receiver, logits) in enumerate(zip(receivers, runs, strict=True)):
                reason = "no path: the sender does not come before the receiver."
                if logits is not None:
                    reason = _no_path_reason(pair, sender, receiver)
                    if not reason:
                        patched[number, row, column] = pair.of(logits)
                if reason:
                    notes[f"{sender} -> {receiver}"] = reason
    axes = {
        "sender": [sites.site_names([site], model) for site in senders],
        "receiver": [sites.site_names([site], model) for site in receivers],
    }
    return pair.matrix(axes, patched, notes, "path patching")


def path_logits(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sender: Site,
    receivers: Sequence[Site],
    mlps: Mlps = "frozen",
    answer_at: AnswerAt = None,
    base_values: dict[Site, Tensor] | None = None,
) -> list[Float[Tensor, "row d_vocab"] | None]:
    """Logits of the base rows with the sender's change from the source at each receiver.

    None stands for a receiver on which the sender does not act. One run shows what it changes at
    all receivers: a receiver is read before its own hook is held. ``base_values`` keeps what is
    held from one sender to the next.
    """
    if base_values is None:
        base_values = {}
    for site in (sender, *receivers):
        site.check(model)
    side_by_side = "resid_mid" not in sites.components_of(model, sender.layer)
    reached = [site for site in receivers if _acts_on(sender, site, side_by_side)]
    if not reached:
        return [None] * len(receivers)
    sites.aligned(sender, base, source)
    arrived: dict[Site, list[Tensor]] = {site: [] for site in reached}

    def read(activation: Tensor, rows: Tensor, site: Site) -> Tensor:
        positions = sites.site_positions(site, base)[rows]
        arrived[site].append(gather(site.in_hook(model), activation, positions).cpu())
        return activation

    reads = [Edit(site.hook, partial(read, site=site)) for site in arrived]
    frozen_sites = _frozen_sublayers(model, sender, reached, mlps)
    missing = [site for site in frozen_sites if site not in base_values]
    base_values |= values_at(model, base, missing)
    values = {site: base_values[site] for site in frozen_sites}
    values |= values_at(model, source, sender)
    last_logits(model, base.tokens, [*reads, *edits_of(model, base, values)])
    logits: dict[Site, Tensor] = {}
    for site, parts in arrived.items():
        edits = edits_of(model, base, {site: torch.cat(parts)})
        logits[site] = answer_logits(model, base, edits, answer_at)
    return [logits.get(site) for site in receivers]


def _frozen_sublayers(
    model: HookedModel, sender: Site, receivers: Sequence[Site], mlps: Mlps
) -> list[Site]:
    """Outputs from the first sublayer after the sender's own to the last before a receiver's.

    Sublayers are counted attn, mlp, attn, mlp, and so on through the layers.
    """
    step = STEP[sender.component]
    first = 2 * sender.layer + (step >= STEP["q"]) + (step >= STEP["mlp_post"])
    end = first
    for site in receivers:
        step = STEP[site.component]
        before = 2 * site.layer + (step >= STEP["resid_mid"]) + (step >= STEP["resid_post"])
        end = max(end, before)
    frozen = []
    for number in range(first, end):
        layer, is_mlp = divmod(number, 2)
        name = "mlp_out" if is_mlp else "attn_out"
        is_frozen = mlps == "frozen" or not is_mlp
        if is_frozen and name in sites.components_of(model, layer):
            frozen.append(Site(name, layer))
    return frozen


def _no_path_reason(pair: PairedRun, sender: Site, receiver: Site) -> str:
    """Why a sender does not reach its receiver, or this the answer, in any row; empty if they do.

    A position reaches itself, and what sees it: by the attention of a sender's keys and values,
    then by the receiver's own (of a pattern, of z, of attn_out); all others between the two are
    held.
    """
    senders = sites.site_positions(sender, pair.base).numpy()
    receivers = sites.site_positions(receiver, pair.base).numpy()
    layers = []
    if sender.component in ("k", "v"):
        layers.append(sender.layer)
    is_inside = sender.layer == receiver.layer and STEP[sender.component] >= STEP["q"]
    if receiver.component in ("pattern", "z", "attn_out") and not is_inside:
        layers.append(receiver.layer)
    length = pair.base.tokens.shape[1]
    sees = np.eye(length, dtype=bool)
    for layer in layers:
        sees = visible(pair.model, layer, length) @ sees
    if not sees[receivers[:, :, None], senders[:, None]].any():
        return "no path: no position of the receiver sees one of the sender."
    if not pair.reads(receiver, receivers):
        return "no path: the answer sees no position of the receiver."
    return ""


def _acts_on(sender: Site, receiver: Site, side_by_side: bool) -> bool:
    """Whether a sender comes before its receiver; the MLP may stand beside attention."""
    if sender.layer != receiver.layer:
        return sender.layer < receiver.layer
    step = STEP[sender.component]
    if step >= STEP[receiver.component] or (sender.component, receiver.component) == (
        "v",
        "pattern",
    ):
        return False
    is_beside = side_by_side and receiver.component in ("mlp_post", "mlp_out")
    return not (is_beside and 0 < step < STEP["mlp_post"])
