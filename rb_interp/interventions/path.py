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
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Compared, answer_logits, answers_of
from rb_interp.interventions.effect import Effect, effect_point, looks_of
from rb_interp.interventions.hooking import aligned, check_pairs, last_logits, parse_sites, values_at, write_at
from rb_interp.interventions.matrix import Shares, check_control, check_distinct
from rb_interp.interventions.metrics import Answers, Measured, Metric, measure, metric_of
from rb_interp.interventions.sites import Edit, Site, components_of, gather_at, site_positions
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.plots import points, share_cells
from rb_interp.probes.capturing import as_rows
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
        pair = Answers(self.source, _tensor(self.source_labels)), Answers(self.base, _tensor(self.base_labels))
        runs = (self.source, self.base, self.patched, self.control_patched)
        source, base, *patched = (
            measure(self.metric, logits, *pair, "path_patch").numpy() for logits in runs if logits is not None
        )
        check_distinct(source, base, self.metric.name, "source base")
        return self._effect("recovered", [(values - base) / (source.mean() - base.mean()) for values in patched])

    def moved(self) -> Effect:
        """Share of inputs whose most likely answer is the source's right answer, in [0, 1]."""
        if self.source_labels is None:
            raise ModelError("which answers moved needs right answers; pass Inputs(tokens, labels, roles) as source.")
        runs = [logits for logits in (self.patched, self.control_patched) if logits is not None]
        values = [(logits.argmax(1).numpy() == self.source_labels) * 1.0 for logits in runs]
        return self._effect("moved_as_predicted", values)

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

    Raises ModelError where the sender does not act on the receiver, and where rows are no pairs.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> everything = path_patch(model, *pair, "resid_pre.0@key", "resid_post.0")
    >>> bool(torch.allclose(everything.patched, everything.source, atol=1e-5))  # attention is held
    False
    """
    hooked(model, "path_patch")
    known, (sent_by, received_by), own = metric_of(metric), parse_sites([sender, receiver]), {}
    patched, harmless = (
        None if rows is None else _runs(model, base, rows, sent_by, [received_by], mlps, answer_at, own)[0]
        for rows in (source, control)
    )
    if patched is None:
        raise ModelError(
            f"the sender '{sent_by}' does not act on the receiver '{received_by}': a sender comes before its "
            f"receiver, in an earlier layer, or in the same one in the order resid_pre, then q, k and v, pattern (of q "
            f"and k), z, attn_out, resid_mid, mlp_post, mlp_out, resid_post, after the embeddings; without resid_mid, "
            f"only resid_pre acts on the MLP. Exchange them, or choose another."
        )
    check_control(control, source, base, "path_patch")
    logits = [answer_logits(model, rows, (), answer_at, "path_patch") for rows in (base, source)]
    answers = [
        answers_of(rows, found, known, "path_patch", known.needs > number)
        for number, (rows, found) in enumerate(zip((source, base), logits[::-1], strict=True))
    ]
    labels = [None if some.labels is None else some.labels.numpy() for some in answers]
    return PathPatch(sent_by, received_by, logits[0], logits[1], patched, harmless, labels[1], labels[0], known)


def _tensor(labels: Int[np.ndarray, " row"] | None) -> Tensor | None:
    return None if labels is None else torch.as_tensor(labels).long()


@dataclass(frozen=True, eq=False, repr=False)
class PathMatrix(Shares):
    """What each path recovers, and shares of it.

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

    def to_frame(self) -> pd.DataFrame:
        """One row a path: sender, receiver, recovered, low, high (95 %, over inputs), control, n."""
        return self.cells("recovered", sender=self.senders, receiver=self.receivers)

    def _runs(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        return self.base, self.source

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

    Raises ModelError where rows are no pairs, and where base and source do not differ in the metric.
    """
    hooked(model, "path_matrix")
    sent_by, received_by = parse_sites(senders), parse_sites(receivers)
    if not sent_by or not received_by:
        raise ModelError(f"path_matrix got {len(sent_by)} senders and {len(received_by)} receivers; give one of each.")
    pair = Compared(model, source, base, metric, "path_matrix", answer_at, ("source", "base"))
    patched, harmless = (np.full((len(sent_by), len(received_by), len(base)), np.nan) for _ in range(2))
    notes, own = {}, {}
    for row, sender in enumerate(sent_by):
        for others, cells in ((source, patched), (control, harmless)):
            found = [] if others is None else _runs(model, base, others, sender, received_by, mlps, answer_at, own)
            for column, logits in enumerate(found):
                if logits is None:
                    path = f"{sender} -> {received_by[column]}"
                    notes[path] = "no path: the sender does not come before the receiver."
                else:
                    cells[row, column] = pair.of(logits)
    names = [tuple(site.named(model) for site in sites) for sites in (sent_by, received_by)]
    aside = None if control is None else harmless
    return PathMatrix(names[0], names[1], pair.metric.name, pair.clean, pair.corrupted, patched, aside, notes)


def _runs(
    model: HookedModel,
    base: Inputs,
    others: Inputs,
    sender: Site,
    receivers: Sequence[Site],
    mlps: Mlps,
    answer_at: AnswerAt,
    own: dict[Site, Tensor],
) -> list[Float[Tensor, "row d_vocab"] | None]:
    """Logits of the base rows with the sender's change from other rows at each receiver; None where it does not act.

    One run, with every sublayer after the sender's own held, shows what it changes at all receivers: a receiver is read
    before its own hook is held. ``own`` keeps what is held from one sender to the next.
    """
    there, tokens, source = components_of(model), as_rows(base.tokens), as_rows(others.tokens)
    for site in (sender, *receivers):
        site.check(model)
    check_pairs("the source", source, "the base rows", tokens)
    reached = [site for site in receivers if _acts_on(sender, site, "resid_mid" not in there)]
    if not reached:
        return [None] * len(receivers)
    length = tokens.shape[1]
    aligned(sender, base.roles, others.roles, length, len(tokens))
    frozen = [name for name in ("attn_out", "mlp_out")[: 1 + (mlps == "frozen")] if name in there]
    numbers = range(_after(sender), max(map(_before, reached)))
    held = [Site(name, n // 2) for n in numbers if (name := ("attn_out", "mlp_out")[n % 2]) in frozen]
    arrived: dict[Site, list[Tensor]] = {site: [] for site in reached}

    def reading(site: Site) -> Edit:
        at = site_positions(site, base.roles, length, len(tokens))

        def look(activation: Tensor, rows: Tensor) -> Tensor:
            arrived[site].append(gather_at(site.in_hook(model), activation, at[rows]).cpu())
            return activation

        return Edit(site.hook, look)

    edits = [reading(site) for site in arrived]
    missing = [site for site in held if site not in own]
    own.update(zip(missing, values_at(model, tokens, None, missing), strict=True))
    for site in held:
        edits += write_at(site, own[site], None, length, model)
    sent = values_at(model, source, others.roles, [sender])[0]
    last_logits(model, tokens, edits + write_at(sender, sent, base.roles, length, model))
    found = {
        site: answer_logits(
            model, base, write_at(site, torch.cat(values), base.roles, length, model), answer_at, "path_patch"
        )
        for site, values in arrived.items()
    }
    return [found.get(site) for site in receivers]


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
