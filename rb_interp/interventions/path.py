"""One path between two sites (``path_patch``), and a table of many (``path_matrix``).

A path patch shows the direct effect of a sender on a receiver, in two runs of the base rows:

1. The sender is taken from the source, and every attn_out and mlp_out between sender and receiver is held at its base
   value, so that the sender reaches the receiver through the residual stream alone. The receiver is read.
2. The receiver is set to what was read, and everything downstream of it follows.

Held are whole sublayers at every position: those after the sender's own (its attention or MLP carries its change out)
and before the receiver's own (into which the change goes). Paths of more than one step, as through an MLP between the
two, therefore do not count: in a model that composes through it, a direct effect of 0 does not say that the sender has
none. With ``mlps="recomputed"`` only the attention between the two is held, and paths through MLPs count, as in Wang
et al. With LayerNorm the residual stream is rescaled by what the sender changed, which is part of the path.

Source: Wang et al. (2022, arXiv:2211.00593, section 3.1; MLPs recomputed), Goldowsky-Dill et al. (2023,
arXiv:2304.05969; all other paths held).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Compared, answer_logits, answer_positions
from rb_interp.interventions.effect import Effect, effect_point, looks_of
from rb_interp.interventions.hooking import last_logits, logits_at, write_at
from rb_interp.interventions.matrix import check_control, check_distinct, check_pairs, ratio_interval
from rb_interp.interventions.metrics import Answers, Measured, Metric, measure, metric_of
from rb_interp.interventions.site_patching import read
from rb_interp.interventions.sites import Edit, Site, components_of, gather_at, site_positions
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.plots import points, share_cells
from rb_interp.probes.capturing import as_rows, capture
from rb_interp.probes.check import check_labels
from rb_interp.record import Record
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PathMatrix", "PathPatch", "path_matrix", "path_patch"]

STEP = {"resid_pre": 0, "q": 1, "k": 1, "v": 1, "pattern": 2, "z": 3, "attn_out": 4, "resid_mid": 5, "mlp_post": 6}
STEP |= {"mlp_out": 7, "resid_post": 8, "embed": -1, "pos_embed": -1}
"""Where in its layer each component comes; equal ones do not act on each other, nor does v on the pattern."""
Mlps = Literal["frozen", "recomputed"]


@dataclass(frozen=True, eq=False, repr=False)
class PathPatch(Record):
    """The outcome of a path patch; a notebook and ``print`` show it as its table. Logits are at the answer's position.

    Attributes:
        sender, receiver: the sites. base, source: logits of the rows as they are. patched: of the base rows with the
            path from the source. control_patched: with the path from the control, or None.
        base_labels, source_labels: right answers of the rows, or None where they have none and no metric asks.
        metric: what ``recovered`` measures; the source's rows are the clean ones, the base's the corrupted ones.
    """

    sender: Site
    receiver: Site
    base: Float[Tensor, "row d_vocab"]
    source: Float[Tensor, "row d_vocab"]
    patched: Float[Tensor, "row d_vocab"]
    control_patched: Float[Tensor, "row d_vocab"] | None
    base_labels: Int[np.ndarray, " row"] | None
    source_labels: Int[np.ndarray, " row"] | None
    metric: Metric

    def recovered(self) -> Effect:
        """Share of the way from the base to the source, in the mean of the metric: 1 all, 0 none.

        The scale is the mean over all inputs, taken as known; raises ModelError where it is 0.
        """
        base, source = self._measured(self.base), self._measured(self.source)
        check_distinct(source, base, self.metric.name, "source base")
        shares = [(self._measured(logits) - base) / (source.mean() - base.mean()) for logits in self._runs()]
        return self._effect("recovered", shares)

    def moved(self) -> Effect:
        """Share of inputs whose most likely answer is the source's right answer, in [0, 1]."""
        if self.source_labels is None:
            raise ModelError("which answers moved needs right answers; pass Inputs(tokens, labels, roles) as source.")
        return self._effect(
            "moved_as_predicted", [(logits.argmax(1).numpy() == self.source_labels) * 1.0 for logits in self._runs()]
        )

    def to_frame(self) -> pd.DataFrame:
        """Two rows: ``recovered`` and ``moved_as_predicted``, each with its interval and its control."""
        effects = [self.recovered(), *([] if self.source_labels is None else [self.moved()])]
        return pd.concat([effect.to_frame() for effect in effects], ignore_index=True)

    @typed
    def plot(self, ax: Axes | None = None) -> Axes:
        """Both shares with their 95 % intervals over rows, beside the control's; on ``ax`` or a new figure."""
        rows = [effect_point(row, row["quantity"]) for row in self.to_frame().to_dict("records")]
        title = f"path patch {self.sender} -> {self.receiver}, n = {len(self.base)}"
        return points(ax, rows, "share of the way, and of rows", title, **looks_of(self.recovered().control_name))

    def shown(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Both shares."""
        columns = ["quantity", "effect", "low", "high", "control", "difference", "n"]
        return f"path patch {self.sender} -> {self.receiver}", pd.DataFrame(self.to_frame()[columns]), []

    def _runs(self) -> list[Float[Tensor, "row d_vocab"]]:
        return [self.patched, *([] if self.control_patched is None else [self.control_patched])]

    def _measured(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        pair = [(self.source, self.source_labels), (self.base, self.base_labels)]
        clean, corrupted = (
            Answers(some, None if labels is None else torch.as_tensor(labels).long()) for some, labels in pair
        )
        return measure(self.metric, logits, clean, corrupted, "path_patch").numpy()

    def _effect(self, quantity: str, values: Sequence[np.ndarray]) -> Effect:
        control = np.reshape(values[1:], (len(values) - 1, len(self.base)))
        path = f"{self.sender} -> {self.receiver}"
        return Effect("path patch", path, quantity, values[0], control, "noise redrawn")


@typed
@few_threads
def path_patch(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sender: Site | str,
    receiver: Site | str,
    *,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    mlps: Mlps = "frozen",
    control: Inputs | None = None,
) -> PathPatch:
    """Direct effect of a sender on a receiver: the base rows with that one path from the source rows.

    Args:
        base, source: pairs of rows, for instance ``inputs`` and ``counterfactual``; roles may stand elsewhere.
        sender, receiver: sites, such as ``attn_out.0@anchor`` and ``v.1@anchor``. ``resid_post`` of the last layer at
            ``last`` is what the logits are read from.
        metric: a name or a function, see ``interventions.metrics``; clean rows are the source, corrupted ones the base.
        answer_at: where the answer is read, by default at the last position.
        mlps: ``frozen`` holds every sublayer between the two, ``recomputed`` the attention alone.
        control: rows that differ from ``base`` in noise alone.

    Raises:
        ModelError: where the sender does not act on the receiver, and where rows are no pairs.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> everything = path_patch(model, *pair, "resid_pre.0@key", "resid_post.0")
    >>> bool(torch.allclose(everything.patched, everything.source, atol=1e-5))  # attention is held
    False
    """
    hooked(model, "path_patch")
    known, sent_by, received_by = metric_of(metric), Site.parse(sender), Site.parse(receiver)
    labels = [
        None if rows.labels is None and number >= known.needs else check_labels(rows, "path_patch")
        for number, rows in enumerate((source, base))
    ]
    paths = _Paths(model, base, [sent_by], [received_by], mlps, answer_at)
    _check_order(sent_by, received_by, paths.side_by_side)
    patched = paths.run(source, sent_by, [received_by])[0]
    check_control(control, source, base, "path_patch")
    harmless = None if control is None else paths.run(control, sent_by, [received_by])[0]
    logits = [answer_logits(model, rows, (), answer_at, "path_patch") for rows in (base, source)]
    return PathPatch(sent_by, received_by, logits[0], logits[1], patched, harmless, labels[1], labels[0], known)


@dataclass(frozen=True, eq=False, repr=False)
class PathMatrix(Record):
    """Share that each path recovers; a notebook and ``print`` show it as its table.

    Attributes:
        senders, receivers: the sites, in the order of the cells. metric: its name.
        source, base: the metric of each row as it is. patched: of the base rows with each path from the source, nan
            where the sender does not come before the receiver. control_patched: with the path from the control, or
            None.
        notes: ``sender -> receiver`` -> why there is no such path.
    """

    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    metric: str
    source: Float[np.ndarray, " row"]
    base: Float[np.ndarray, " row"]
    patched: Float[np.ndarray, "sender receiver row"]
    control_patched: Float[np.ndarray, "sender receiver row"] | None
    notes: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.base)

    @property
    def values(self) -> Float[np.ndarray, "sender receiver"]:
        """Share of the way from base to source: 1 all, 0 none, nan where there is no path."""
        return self._share(self.patched)

    @property
    def control(self) -> Float[np.ndarray, "sender receiver"]:
        """The same share of the control; nan without one."""
        return np.full_like(self.values, np.nan) if self.control_patched is None else self._share(self.control_patched)

    def to_frame(self) -> pd.DataFrame:
        """One row a path: sender, receiver, recovered, low, high (95 %, over inputs), control, n."""
        low, high = ratio_interval(self.patched - self.base, self.source - self.base)
        missing = np.isnan(self.values)
        ends = {name: np.where(missing, np.nan, end).ravel() for name, end in (("low", low), ("high", high))}
        paths = pd.DataFrame(product(self.senders, self.receivers), columns=pd.Index(["sender", "receiver"]))
        return paths.assign(recovered=self.values.ravel(), **ends, control=self.control.ravel(), n=len(self))

    def _share(self, patched: Float[np.ndarray, "sender receiver row"]) -> Float[np.ndarray, "sender receiver"]:
        return (patched.mean(-1) - self.base.mean()) / (self.source.mean() - self.base.mean())

    @typed
    def plot(self, ax: Axes | None = None) -> Axes:
        """Share recovered along each path, sender by receiver; what is drawn is as in ``PatchingMatrix.plot``."""
        control = None if self.control_patched is None else self.control
        unit, title = f"share of the {self.metric} recovered", f"path patching, n = {len(self)}"
        ax = share_cells(ax, self.values, control, self.senders, self.receivers, unit, title)
        ax.set(xlabel="receiver", ylabel="sender")
        return ax

    def shown(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Senders by receivers, and what is to be said of some paths."""
        shares = pd.DataFrame(self.values, pd.Index(self.senders, name="sender"), pd.Index(self.receivers))
        notes = [f"{path}: {why}" for path, why in self.notes.items()]
        caption = f"share of the {self.metric} recovered along each path, n = {len(self)}"
        return caption, shares.reset_index(), notes


@typed
@few_threads
def path_matrix(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    senders: Sequence[Site | str],
    receivers: Sequence[Site | str],
    *,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    mlps: Mlps = "frozen",
    control: Inputs | None = None,
) -> PathMatrix:
    """The direct effect of each sender on each receiver: the numbers of ``path_patch``, one run fewer a path.

    A path that there is not, since the sender does not come before the receiver, is nan and has a note.

    Args:
        senders, receivers: sites. All others are those of ``path_patch``.

    Raises:
        ModelError: where rows are no pairs, and where base and source do not differ in the metric.
    """
    hooked(model, "path_matrix")
    sent_by, received_by = ([Site.parse(site) for site in sites] for sites in (senders, receivers))
    if not sent_by or not received_by:
        raise ModelError(f"path_matrix got {len(sent_by)} senders and {len(received_by)} receivers; give one of each.")
    pair = Compared(model, source, base, metric, "path_matrix", answer_at, ("source", "base"))
    paths, notes = _Paths(model, base, sent_by, received_by, mlps, answer_at), {}
    shape = (len(sent_by), len(received_by), len(base))
    patched, harmless = np.full(shape, np.nan), np.full(shape, np.nan)
    for row, sender in enumerate(sent_by):
        after = [column for column, receiver in enumerate(received_by) if paths.there_is(sender, receiver)]
        for column in {*range(shape[1])}.difference(after):
            notes[f"{sender} -> {received_by[column]}"] = "no path: the sender does not come before the receiver."
        for rows, cells in ((source, patched), (control, harmless)):
            if rows is not None and after:
                runs = paths.run(rows, sender, [received_by[column] for column in after])
                for column, logits in zip(after, runs, strict=True):
                    cells[row, column] = pair.of(logits)
    names = [tuple(site.named(model) for site in sites) for sites in (sent_by, received_by)]
    aside = None if control is None else harmless
    return PathMatrix(names[0], names[1], pair.metric.name, pair.clean, pair.corrupted, patched, aside, notes)


class _Paths:
    """Runs of some base rows along single paths; what does not depend on the path is read once.

    One run of a sender, with every sublayer after its own held, shows what it changes at all receivers: a receiver is
    read before its own hook is held.
    """

    def __init__(
        self,
        model: HookedModel,
        base: Inputs,
        senders: Sequence[Site],
        receivers: Sequence[Site],
        mlps: Mlps,
        answer_at: AnswerAt,
    ) -> None:
        for site in (*senders, *receivers):
            site.check(model)
        self.model, self.base, self.tokens = model, base, as_rows(base.tokens)
        self.side_by_side = "resid_mid" not in components_of(model)
        self.length = self.tokens.shape[1]
        self.answer_at = answer_positions(answer_at, base.roles, len(base), self.length, "path_patch")
        frozen = ("attn_out", "mlp_out") if mlps == "frozen" else ("attn_out",)
        first, beyond = min(map(_after, senders)), max(map(_before, receivers))
        between = [(number, Site(("attn_out", "mlp_out")[number % 2], number // 2)) for number in range(first, beyond)]
        there = components_of(model)
        self.held = [(n, site) for n, site in between if site.component in frozen and site.component in there]
        hooks = [site.hook for _, site in self.held]
        self.found = capture(model, self.tokens, hooks) if hooks else {}

    def there_is(self, sender: Site, receiver: Site) -> bool:
        """Whether a sender acts on a receiver."""
        return _acts_on(sender, receiver, self.side_by_side)

    def run(self, others: Inputs, sender: Site, receivers: Sequence[Site]) -> list[Float[Tensor, "row d_vocab"]]:
        """Logits of the base rows with the sender's change from other rows at each receiver, one after the other."""
        check_pairs("the source", as_rows(others.tokens), "the base rows", self.tokens)
        sent = read(self.model, [sender], as_rows(others.tokens), self.base.roles, others.roles)[0]
        arrived: list[list[Tensor]] = [[] for _ in receivers]
        reads = [self._read(site, values) for site, values in zip(receivers, arrived, strict=True)]
        held = [
            edit
            for number, site in self.held
            if number >= _after(sender)
            for edit in write_at(site, self.found[site.hook], None, self.length, self.model)
        ]
        last_logits(self.model, self.tokens, [*reads, *held, *self._write(sender, sent)])
        return [
            logits_at(self.model, self.tokens, self.answer_at, self._write(site, torch.cat(values)))
            for site, values in zip(receivers, arrived, strict=True)
        ]

    def _read(self, site: Site, values: list[Tensor]) -> Edit:
        at = site_positions(site, self.base.roles, self.length, len(self.tokens))

        def look(activation: Tensor, rows: Tensor) -> Tensor:
            values.append(gather_at(site.in_hook(self.model), activation, at[rows]).cpu())
            return activation

        return Edit(site.hook, look)

    def _write(self, site: Site, values: Tensor) -> list[Edit]:
        return write_at(site, values, self.base.roles, self.length, self.model)


def _after(sender: Site) -> int:
    """The first sublayer after the sender's own; they are counted attn, mlp, attn, ..."""
    return 2 * sender.layer + sum(STEP[sender.component] >= STEP[own] for own in ("q", "mlp_post"))


def _before(receiver: Site) -> int:
    """The first sublayer that is not before the receiver's own."""
    return 2 * receiver.layer + sum(STEP[receiver.component] >= STEP[own] for own in ("resid_mid", "resid_post"))


def _acts_on(sender: Site, receiver: Site, side_by_side: bool) -> bool:
    """Whether a sender comes before its receiver; the MLP may stand beside attention."""
    comes_first = (sender.layer, STEP[sender.component]) < (receiver.layer, STEP[receiver.component])
    pair, mlp = (sender.component, receiver.component), ("mlp_post", "mlp_out")
    aside = pair == ("v", "pattern") or (side_by_side and pair[1] in mlp and 0 < STEP[pair[0]] < STEP["mlp_post"])
    return comes_first and not (aside and sender.layer == receiver.layer)


def _check_order(sender: Site, receiver: Site, side_by_side: bool) -> None:
    """ModelError where a sender does not come before its receiver."""
    if not _acts_on(sender, receiver, side_by_side):
        raise ModelError(
            f"the sender '{sender}' does not act on the receiver '{receiver}': a sender comes before its receiver, in "
            f"an earlier layer, or in the same one in the order resid_pre, then q, k and v, pattern (of q and k), z, "
            f"attn_out, resid_mid, mlp_post, mlp_out, resid_post, after the embeddings; without resid_mid, only "
            f"resid_pre acts on the MLP. Exchange them, or choose another."
        )
