"""Paths between sites: the effect of some on others and no further (``path_patch``), and a table of
many (``path_matrix``).

A path patch shows the direct effect of senders on receivers, in runs of the base rows:

1. The senders are taken from the source, and every attn_out and mlp_out between senders and
   receivers is held at its base value, so that the senders reach the receivers through the residual
   stream alone. The receivers are read.
2. The receivers are set to what was read, all at once, and everything downstream of them follows.
3. Where ``logits`` are a receiver, their direct part is added: the senders are taken from the source
   again, and what was held in 1 is now held at its values in 2. Alone, ``logits`` are read in 1.

Held are whole sublayers at every position: those after a sender's own (its attention or MLP carries
its change out) and before a receiver's own (into which the change goes). Where another sender comes
before, a sender's own sublayer carries its change alone: q, k and v of that attention are held, or
the neurons of that MLP. Paths of more than one step, as from one receiver to the next or through an
MLP between the two, therefore do not count, save those through MLPs with ``mlps="recomputed"``, as
in Wang et al. The note ``held`` says which. With LayerNorm the residual stream is rescaled by what
the senders changed, which is part of the path.

How it can mislead. A path that carries all of the answer reads 1, and one that carries nothing 0;
paths side by side add up if the model is linear behind them, and else need not. In an untrained
model the metric hardly differs between the rows: shares are of any size, with infinite intervals and
a caution. A sender that reads 0 may act through other heads: add these to the receivers.

Source: Wang et al. (2022, arXiv:2211.00593, section 3.1; MLPs recomputed), Goldowsky-Dill et al.
(2023, arXiv:2304.05969; all other paths held, as in TransformerLens's ``get_act_patch_direct_path``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions import sites
from rb_interp.interventions.attribution import read_hooks, streams_of
from rb_interp.interventions.edits import gather
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.matrix import Matrix
from rb_interp.interventions.metrics import AnswerAt, MetricLike, answer_positions
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.patching import PROGRESS_AFTER_SECONDS, CellRuns
from rb_interp.interventions.sites import Site, Sites
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import evaluation, visible
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
SUBLAYERS = (
    ("attn_out", sites.PER_HEAD, ("q", "k", "v")),
    ("mlp_out", ("mlp_post",), ("mlp_post",)),
)
"""Output of attention and of an MLP, what stands inside, and what all of it follows from."""
STREAM = ("resid_pre", "resid_mid", "resid_post")
NOT_BEFORE = "no path: the sender does not come before the receiver."
Groups = Sites | Sequence[Sites]
Mlps = Literal["frozen", "recomputed"]


@checked
@single_threaded
def path_patch(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sender: Sites,
    receiver: Sites,
    *,
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    mlps: Mlps = "frozen",
    control: Inputs | None = None,
) -> Effect:
    """Direct effect of senders on receivers: what the base rows recover by these paths alone.

    It is the share of the way to the source in the mean of the metric, whose whole difference is
    taken as known: 1 all, 0 none.

    Args:
        model: any model with TransformerLens's hooks.
        base: the rows that run, for instance ``counterfactual``.
        source: as many rows with different answers, from which the senders are taken; roles may
            stand at other positions.
        sender: a site, such as ``attn_out.0@anchor``, or several at once.
        receiver: a later site, such as ``v.1@anchor``, or several at once, such as q, k and v of a
            head. ``logits`` is what the unembedding reads at the answer.
        metric: a name or a function, see ``interventions.metrics``; clean rows are the source,
            corrupted ones the base.
        answer_at: where the answer is read, by default at the last position.
        mlps: ``frozen`` holds every sublayer between the two, ``recomputed`` the attention alone.
        control: rows that differ in noise alone from the base, or None for no control.

    Raises:
        ModelError: the model has no such site, no sender comes before a receiver, one of several
            receivers overwrites another, the rows are no pairs, the metric does not differ between
            them, or the control is like the base or the source.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> values = path_patch(model, *pair, "resid_pre.0@key", ["q.0", "k.0", "v.0"]).values
    >>> bool(0 < values.mean() < 1)  # the rest goes around attention
    True
    """
    paths = Paths(model, [sender], [receiver], mlps, metric, answer_at, source, base, control)
    pair, (senders,), (receivers,) = paths.pair, paths.senders, paths.receivers
    site = f"{paths.name(senders)} -> {paths.name(receivers)}"
    reason = paths.no_path_reason(senders, receivers)
    if reason == NOT_BEFORE:
        raise ModelError(
            f"the sender does not act on the receiver in '{site}': a sender comes before its receiver "
            f"in the order of a pass. Exchange them."
        )
    if reason:
        pair.notes["path"] = reason
    runs = []
    for number in range(len(pair.sources)):
        runs += paths.logits(number, senders, [receivers])
    pair.note_control(senders)
    return pair.effect("path patch", site, runs, quantity="recovered")


@checked
@single_threaded
def path_matrix(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    senders: Sites | Sequence[Sites],
    receivers: Sites | Sequence[Sites],
    *,
    together: bool = False,
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
        senders: sites, such as ``attn_out.0@anchor``. An entry of several sites is one sender:
            ``["z.0.1", ["z.0.2", "z.0.3"]]``.
        receivers: sites, such as ``v.1@anchor``, or ``logits``. An entry of several sites is one
            receiver: ``[["q.1.0", "k.1.0", "v.1.0"], "logits"]``.
        together: whether all senders at once go to all receivers at once, in a matrix of one cell.
        metric: a name or a function, see ``interventions.metrics``; clean rows are the source,
            corrupted ones the base.
        answer_at: where the answer is read, by default at the last position.
        mlps: ``frozen`` holds every sublayer between the two, ``recomputed`` the attention alone.
        control: rows that differ in noise alone from the base, or None for no control.

    Raises:
        ModelError: the model has no such site, one of several receivers at once overwrites another,
            the rows are no pairs, the metric does not differ between them, or the control is like
            the base or the source.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = path_matrix(model, *pair, ["embed@key", "attn_out.0@last"], ["z.0@last"])
    >>> matrix.notes["attn_out.0@last -> z.0@last"]
    'no path: the sender does not come before the receiver.'
    """
    if together:
        senders, receivers = [_flat(senders)], [_flat(receivers)]
    paths = Paths(model, senders, receivers, mlps, metric, answer_at, source, base, control)
    pair = paths.pair
    axes = {
        "sender": [*map(paths.name, paths.senders)],
        "receiver": [*map(paths.name, paths.receivers)],
    }
    shape = (len(pair.sources), len(paths.senders), len(paths.receivers), len(base))
    patched = np.full(shape, np.nan)
    notes = {}
    bar = tqdm(paths.senders, "paths", delay=PROGRESS_AFTER_SECONDS, leave=False, unit="sender")
    for row, group in enumerate(bar):
        columns = []
        for column, receiving in enumerate(paths.receivers):
            reason = paths.no_path_reason(group, receiving)
            if reason:
                notes[f"{axes['sender'][row]} -> {axes['receiver'][column]}"] = reason
            else:
                columns.append(column)
        reached = [paths.receivers[column] for column in columns]
        for number in range(len(pair.sources)):
            runs = paths.logits(number, group, reached)
            for column, logits in zip(columns, runs, strict=True):
                patched[number, row, column] = pair.of(logits)
    return pair.matrix(axes, patched, notes, "path patching")


class Paths:
    """Paths from groups of senders to groups of receivers, and the untouched runs beside them.

    Attributes:
        senders: the sites of each group.
        receivers: the same; the logits are the stream after the last layer.
        pair: the untouched runs.
    """

    def __init__(
        self,
        model: HookedModel,
        senders: Groups,
        receivers: Groups,
        mlps: Mlps,
        metric: MetricLike,
        answer_at: AnswerAt,
        source: Inputs,
        base: Inputs,
        control: Inputs | None,
    ) -> None:
        self.model = model
        self.mlps = mlps
        self.final = Site("resid_post", model.cfg.n_layers - 1)
        self.senders = self._parsed(senders)
        self.receivers = self._parsed(receivers)
        for group in self.receivers:
            for first, second in product(group, group):
                overwrites = second.component in STREAM and second != self.final
                if overwrites and self.acts_on(first, second):
                    raise ModelError(
                        f"the receiver '{second}' is the whole stream, and overwrites what '{first}' "
                        f"changes before it; take 'logits' for what goes straight there, or ask for "
                        f"each by itself."
                    )
        receiving = [site for group in self.receivers for site in group]
        read = list(receiving)
        for group in self.senders:
            read += [*group, *self._held(group, receiving)]
        streams = streams_of(model)
        hooks = read_hooks(read, streams)
        self.pair = PairedRun(model, metric, answer_at, source, base, control=control, hooks=hooks)
        self.pair.notes["held"] = f"attention between sender and receiver; MLPs there are {mlps}."
        first = min(site.layer for site in read)
        self.runs = CellRuns(self.pair, [Site("resid_pre", first)], streams)

    def _parsed(self, groups: Groups) -> list[list[Site]]:
        """The sites of each group.

        Raises:
            ModelError: there is none, or the model has it not.
        """
        parsed = []
        for group in _listed(groups):
            members = [self.final if site == "logits" else site for site in _listed(group)]
            parsed.append(sites.parse_sites(members))
            for site in parsed[-1]:
                site.check(self.model)
        return parsed or [sites.parse_sites([])]

    def name(self, group: Sequence[Site]) -> str:
        """The sites of a group as text."""
        names = []
        for site in group:
            names.append("logits" if site == self.final else sites.site_names([site], self.model))
        return " + ".join(names)

    def logits(
        self, number: int, senders: Sequence[Site], groups: Sequence[Sequence[Site]]
    ) -> list[Float[Tensor, "row d_vocab"]]:
        """Logits of the base rows with the senders' change from a source at each group of receivers.

        One run shows what the senders change at all receivers.
        """
        if not groups:
            return []
        base, source = self.pair.base, self.pair.sources[number]
        receivers = [site for group in groups for site in group]
        sent = {}
        for site in senders:
            _, positions = sites.aligned(site, base, source)
            activation = self.pair.activations[number + 1][site.hook]
            sent[site] = gather(site.in_hook(self.model), activation, positions)
        held = [site for site in self._held(senders, receivers) if site not in sent]
        end = None
        if self.final not in receivers:
            end = 1 + max(site.layer for site in receivers)
        values = {site: self.runs.untouched[site.hook] for site in held} | sent
        runs = []
        with torch.no_grad(), evaluation(self.model):
            direct, arrived = self.runs.edited(values, [site.hook for site in receivers], end)
            for group in groups:
                logits = direct
                values = {}
                for site in group:
                    if site != self.final:
                        positions = sites.site_positions(site, base)
                        values[site] = gather(
                            site.in_hook(self.model), arrived[site.hook], positions
                        )
                if values:
                    hooks = [site.hook for site in held] if self.final in group else []
                    logits, after = self.runs.edited(values, hooks)
                    if self.final in group:
                        values = {site: after[site.hook] for site in held} | values | sent
                        logits, _ = self.runs.edited(values)
                runs.append(logits)
        return runs

    def no_path_reason(self, senders: Sequence[Site], receivers: Sequence[Site]) -> str:
        """Why no sender reaches a receiver, or this the answer, in any row; empty if one does."""
        reason = NOT_BEFORE
        for sender, receiver in product(senders, receivers):
            if self.acts_on(sender, receiver):
                reason = self._no_positions_reason(sender, receiver)
                if not reason:
                    break
        return reason

    def _no_positions_reason(self, sender: Site, receiver: Site) -> str:
        """The same by the positions of one path.

        A position reaches itself, and what sees it: by the attention of a sender's keys and values,
        then by the receiver's own (of a pattern, of z, of attn_out); all others between the two are
        held.
        """
        pair = self.pair
        senders = sites.site_positions(sender, pair.base).numpy()
        if receiver == self.final:
            receivers = answer_positions(pair.answer_at, pair.base)[:, None].numpy()
        else:
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

    def acts_on(self, sender: Site, receiver: Site) -> bool:
        """Whether a sender comes before its receiver; the MLP may stand beside attention."""
        if sender.layer != receiver.layer:
            return sender.layer < receiver.layer
        step = STEP[sender.component]
        pair = (sender.component, receiver.component)
        if step >= STEP[receiver.component] or pair == ("v", "pattern"):
            return False
        if receiver.component not in ("mlp_post", "mlp_out") or not 0 < step < STEP["mlp_post"]:
            return True
        return "resid_mid" in sites.components_of(self.model, sender.layer)

    def _held(self, senders: Sequence[Site], receivers: Sequence[Site]) -> list[Site]:
        """Outputs from the first sublayer after a sender's own to the last before a receiver's.

        Sublayers are counted attn, mlp, attn, mlp, and so on through the layers. Where a sender stands
        inside one, what all of it follows from is held.
        """
        first = min(_sublayer(site, "q", "mlp_post") for site in senders)
        end = max(_sublayer(site, "resid_mid", "resid_post") for site in receivers)
        held = []
        for number in range(first, end):
            layer, is_mlp = divmod(number, 2)
            if is_mlp and self.mlps == "recomputed":
                continue
            name, inside, origins = SUBLAYERS[is_mlp]
            names = [name]
            if any(site.layer == layer and site.component in inside for site in senders):
                names = origins
                for site in receivers:
                    follows = STEP[origins[0]] < STEP[site.component] <= STEP[name]
                    if site.layer == layer and follows:
                        raise ModelError(
                            f"the receiver '{site}' follows from one sender inside its own sublayer "
                            f"and from another before; ask for each by itself."
                        )
            present = sites.components_of(self.model, layer)
            held += [Site(name, layer) for name in names if name in present]
        return held


def _sublayer(site: Site, attention: str, mlp: str) -> int:
    """A sublayer's number: how many of its layer's two begin at these components or before."""
    step = STEP[site.component]
    return 2 * site.layer + (step >= STEP[attention]) + (step >= STEP[mlp])


def _listed(groups: Groups) -> list:
    """A site, or several, as a list."""
    return [groups] if isinstance(groups, Site | str) else [*groups]


def _flat(groups: Groups) -> list[Site | str]:
    return [site for group in _listed(groups) for site in _listed(group)]
