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
from itertools import product
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.effect import Effect, Matrix
from rb_interp.interventions.metrics import AnswerAt, MetricLike, answer_logits
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.sites import Edit, Site
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import visible
from rb_interp.tasks.inputs import Inputs

__all__ = ["path_matrix", "path_patch"]

STEP = {
    "resid_pre": 0,
    "q": 1,
    "k": 1,
    "v": 1,
    "pattern": 2,
    "z": 3,
    "attn_out": 4,
    "resid_mid": 5,
    "mlp_post": 6,
}
STEP |= {"mlp_out": 7, "resid_post": 8, "embed": -1, "pos_embed": -1}
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
    """Direct effect of a sender on a receiver: what the base rows recover with that one path from
    the source rows.

    The share of the way to the source in the mean of the metric, whose whole difference is taken as
    known: 1 all, 0 none.

    Args:
        model: any model with TransformerLens's hooks.
        answer_at: where the answer is read, by default at the last position.
        control: rows that differ in noise alone from those that run, or None for no control.
        base, source: pairs of rows, for instance ``inputs`` and ``counterfactual``; roles may stand
            elsewhere.
        sender, receiver: sites, such as ``attn_out.0@anchor`` and ``v.1@anchor``. ``resid_post`` of
            the last layer at ``last`` is what the logits are read from.
        metric: a name or a function, see ``interventions.metrics``; clean rows are the source,
            corrupted ones the base.
        mlps: ``frozen`` holds every sublayer between the two, ``recomputed`` the attention alone.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> values = path_patch(model, *pair, "resid_pre.0@key", "v.0@key").values
    >>> bool(0 < values.mean() < 1)  # the rest goes around attention
    True
    """
    sent_by, received_by = sites.parse_sites([sender, receiver])
    pair = PairedRun(model, metric, answer_at, source, base, control=control)
    runs = []
    for some in pair.sources:
        (logits,) = path_logits(model, base, some, sent_by, [received_by], mlps, answer_at)
        if logits is None:
            raise ModelError(
                f"the sender '{sent_by}' does not act on the receiver '{received_by}': a sender "
                f"comes before its "
                f"receiver in the order of a pass. Exchange them."
            )
        runs.append(logits)
    pair.note_control([sent_by])
    pair.notes |= {"path": why} if (why := _broken(pair, sent_by, received_by)) else {}
    return pair.effect("path patch", f"{sent_by} -> {received_by}", runs, quantity="recovered")


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
    """The direct effect of each sender on each receiver: the numbers of ``path_patch``, one run
    fewer a path.

    A path that there is not, since the sender does not come before the receiver, no position of the
    receiver sees one of the sender, or the answer sees none of the receiver, is nan and has a note.

    Args:
        model: any model with TransformerLens's hooks.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        control: rows that differ in noise alone from those that run, or None for no control.
        senders, receivers: sites. All others are those of ``path_patch``.
    """
    sent_by, received_by = sites.parse_sites(senders), sites.parse_sites(receivers)
    pair = PairedRun(model, metric, answer_at, source, base, control=control)
    patched = np.full((len(pair.sources), len(sent_by), len(received_by), len(base)), np.nan)
    notes, own = {}, {}
    for (number, rows), (row, sender) in product(enumerate(pair.sources), enumerate(sent_by)):
        found = path_logits(model, base, rows, sender, received_by, mlps, answer_at, own)
        for column, (receiver, logits) in enumerate(zip(received_by, found, strict=True)):
            if logits is None:
                notes[f"{sender} -> {receiver}"] = (
                    "no path: the sender does not come before the receiver."
                )
            elif why := _broken(pair, sender, receiver):
                notes[f"{sender} -> {receiver}"] = why
            else:
                patched[number, row, column] = pair.of(logits)
    senders, receivers = (
        [sites.told([one], model) for one in some] for some in (sent_by, received_by)
    )
    return pair.matrix({"sender": senders, "receiver": receivers}, patched, notes, "path patching")


def path_logits(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sender: Site,
    receivers: Sequence[Site],
    mlps: Mlps = "frozen",
    answer_at: AnswerAt = None,
    own: dict[Site, Tensor] | None = None,
) -> list[Float[Tensor, "row d_vocab"] | None]:
    """Logits of the base rows with the sender's change from the source at each receiver; None where
    it does not act.

    One run shows what it changes at all receivers: a receiver is read before its own hook is held.
    ``own`` keeps what is held from one sender to the next.
    """
    own = {} if own is None else own
    for site in (sender, *receivers):
        site.check(model)
    aside = "resid_mid" not in sites.components_of(model, sender.layer)
    reached = [site for site in receivers if _acts_on(sender, site, aside)]
    if not reached:
        return [None] * len(receivers)
    sites.aligned(sender, base, source)
    frozen = ("attn_out", "mlp_out")[: 1 + (mlps == "frozen")]
    # sublayers are counted attn, mlp, attn, ..: from the first after the sender's own to the last
    # before a receiver's
    first = 2 * sender.layer + sum(STEP[sender.component] >= STEP[one] for one in ("q", "mlp_post"))
    end = max(
        2 * site.layer
        + sum(STEP[site.component] >= STEP[one] for one in ("resid_mid", "resid_post"))
        for site in reached
    )
    held = [
        Site(name, n // 2)
        for n in range(first, end)
        if (name := ("attn_out", "mlp_out")[n % 2]) in frozen
    ]
    held = [site for site in held if site.component in sites.components_of(model, site.layer)]
    arrived: dict[Site, list[Tensor]] = {site: [] for site in reached}

    def look(activation: Tensor, rows: Tensor, site: Site) -> Tensor:
        at = sites.site_positions(site, base)[rows]
        arrived[site].append(sites.gather(site.in_hook(model), activation, at).cpu())
        return activation

    edits = [Edit(site.hook, partial(look, site=site)) for site in arrived]
    own |= sites.values_at(model, base, [site for site in held if site not in own])
    edits += sites.edits_of(
        model, base, {site: own[site] for site in held} | sites.values_at(model, source, sender)
    )
    sites.last_logits(model, base.tokens, edits)
    after = {
        site: sites.edits_of(model, base, {site: torch.cat(values)})
        for site, values in arrived.items()
    }
    found = {site: answer_logits(model, base, edits, answer_at) for site, edits in after.items()}
    return [found.get(site) for site in receivers]


def _broken(pair: PairedRun, sender: Site, receiver: Site) -> str:
    """Why a sender's positions do not reach the receiver's, or these the answer, in any row; empty
    where they do.

    A position reaches itself, and what sees it: by the attention of a sender's keys and values,
    then by the receiver's own (of a pattern, of z, of attn_out); all others between the two are
    held.
    """
    here, there = (sites.site_positions(site, pair.base).numpy() for site in (sender, receiver))
    inside = sender.layer == receiver.layer and STEP[sender.component] >= STEP["q"]
    reads = receiver.component in ("pattern", "z", "attn_out") and not inside
    layers = [sender.layer] * (sender.component in ("k", "v")) + [receiver.layer] * reads
    sees = np.eye(length := pair.base.tokens.shape[1], dtype=bool)
    for layer in layers:
        sees = visible(pair.model, layer, length) @ sees
    if not sees[there[:, :, None], here[:, None]].any():
        return "no path: no position of the receiver sees one of the sender."
    return "" if pair.reads(receiver) else "no path: the answer sees no position of the receiver."


def _acts_on(sender: Site, receiver: Site, side_by_side: bool) -> bool:
    """Whether a sender comes before its receiver; the MLP may stand beside attention."""
    comes_first = (sender.layer, STEP[sender.component]) < (
        receiver.layer,
        STEP[receiver.component],
    )
    pair, mlp = (sender.component, receiver.component), ("mlp_post", "mlp_out")
    aside = pair == ("v", "pattern") or (
        side_by_side and pair[1] in mlp and 0 < STEP[pair[0]] < STEP["mlp_post"]
    )
    return comes_first and not (aside and sender.layer == receiver.layer)
