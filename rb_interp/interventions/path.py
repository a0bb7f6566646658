"""One site from other rows (``patch``), and one path between two sites (``path_patch``).

A patch replaces the activation at one site, role to role, and everything downstream follows. A path patch shows the
direct effect of a sender on a receiver, in two runs of the base rows:

1. The sender is taken from the source, and every attn_out and mlp_out between sender and receiver is held at its base
   value, so that the sender reaches the receiver through the residual stream alone. The receiver is read.
2. The receiver is set to what was read, and everything downstream of it follows.

Held are whole sublayers at every position: those after the sender's own (its attention or MLP carries its change out)
and before the receiver's own (into which the change goes). Paths of more than one step, as through an MLP between the
two, therefore do not count: in a model that composes through it, a direct effect of 0 does not say that the sender has
none. With LayerNorm the residual stream is rescaled by what the sender changed, which is part of the path.

Source: Wang et al. (2022, arXiv:2211.00593, section 3.1), Goldowsky-Dill et al. (2023, arXiv:2304.05969).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy import special
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import ModelError
from rb_interp.interventions.effect import Effect, Quantity
from rb_interp.interventions.hooking import last_logits, with_edits, write_at
from rb_interp.interventions.sites import Edit, Site, components_of, gather_at, site_positions
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capture import Tokens, as_rows, capture
from rb_interp.probes.check import check_labels, check_model
from rb_interp.statistics.reading import html_table
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads

STEP = {"resid_pre": 0, "q": 1, "k": 1, "v": 1, "pattern": 2, "z": 3, "attn_out": 4, "resid_mid": 5, "mlp_out": 6}
STEP |= {"resid_post": 7}
"""Where in its layer each component comes; equal ones do not act on each other, nor does v on the pattern."""


@checked(empty=True)
@contextmanager
def patch(
    model: HookedModel,
    site: Site | str,
    source: Tokens,
    *,
    roles: Roles | None = None,
    source_roles: Roles | None = None,
) -> Iterator[HookedModel]:
    """A context in which every pass of the given rows has a site's activation from other rows, role to role.

    The rows are those that ``roles`` tells of, all of them and in order; ``source`` has one row for each. Hooks are
    gone when the context is left; the caller's own stay.

    Args:
        source: tokens ``[row, pos]`` of the other rows, or activations ``[row, n, ...]`` as ``sites.read_at`` gives.
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
    site, given = Site.parse(site), torch.as_tensor(source)
    site.check(model)
    values = (
        given if given.is_floating_point() else _read(model, [site], as_rows(given), roles, source_roles or roles)[0]
    )
    with with_edits(model, _for_any_length(site, values, roles, model)):
        yield model


@checked(empty=True)
@few_threads
def patched_logits(
    model: HookedModel,
    tokens: Tokens,
    roles: Roles | None,
    source: Tokens,
    source_roles: Roles | None,
    sites: Site | str | Sequence[Site | str],
    batch: int | None = None,
) -> Float[Tensor, "row d_vocab"]:
    """Logits at the last position, on CPU, with one site or several at once taken from other rows, role to role.

    Args:
        tokens, roles: the rows that run. source, source_roles: tokens ``[row, pos]`` and roles of the others.
        batch: rows of one pass.

    Raises ModelError where source and rows do not fit, in number of rows or positions.
    """
    rows, others = as_rows(tokens), as_rows(source)
    check_pairs("the source", others, "the rows", rows)
    parsed = [Site.parse(site) for site in ([sites] if isinstance(sites, str | Site) else sites)]
    values = _read(model, parsed, others, roles, source_roles)
    edits = [
        edit
        for site, found in zip(parsed, values, strict=True)
        for edit in write_at(site, found, roles, rows.shape[1], model)
    ]
    return last_logits(model, rows, edits, batch=batch)


def _read(
    model: HookedModel, sites: Sequence[Site], source: Tensor, roles: Roles | None, source_roles: Roles | None
) -> list[Tensor]:
    """The source's activations at sites, after a check that they fit the rows that they are for."""
    for site in sites:
        site.check(model)
    n_rows, length = source.shape
    at = [aligned(site, roles, source_roles, length, n_rows)[1] for site in sites]
    found = capture(model, source, list(dict.fromkeys(site.hook for site in sites)))
    return [gather_at(site.in_hook(model), found[site.hook], here) for site, here in zip(sites, at, strict=True)]


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


def aligned(
    site: Site, roles: Roles | None, source_roles: Roles | None, length: int, n_rows: int
) -> tuple[Int[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Positions of a site's role in the rows and in their source; ModelError where one cannot stand for the other."""
    at, source_at = site_positions(site, roles, length, n_rows), site_positions(site, source_roles, length, n_rows)
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


def check_distinct(
    first: Float[np.ndarray, " row"], second: Float[np.ndarray, " row"], metric: str, names: str = "clean corrupted"
) -> None:
    """Raise ModelError where the mean metric of two runs is the same, so that there is nothing to recover."""
    gap, scale = first.mean() - second.mean(), np.abs(first).mean() + np.abs(second).mean()
    if not np.isfinite(scale):
        raise ModelError(f"the mean {metric} is not finite, so the model has diverged; use one that has not.")
    if not abs(gap) > 1e-6 * scale:
        one, other = names.split()
        raise ModelError(
            f"the mean {metric} is {first.mean():.3g} on the {one} rows and {second.mean():.3g} on the {other} ones, "
            f"so there is nothing to recover; let them differ in what the answer depends on, with another right answer."
        )


def check_pairs(first: str, tokens: Tensor, second: str, others: Tensor) -> None:
    """Raise ModelError where two sets of tokens differ in number of rows or in length."""
    if tokens.shape != others.shape:
        raise ModelError(
            f"{first} has tokens of shape {list(tokens.shape)} and {second} of {list(others.shape)}; patching needs "
            f"pairs: one row for each row, of the same length."
        )


def ratio_interval(
    part: Float[np.ndarray, "*cell row"], whole: Float[np.ndarray, " row"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
    """Ends of the interval of mean(part) / mean(whole) over paired inputs (Fieller, 1954).

    It holds every ratio r for which the mean of ``part - r whole`` is within t standard errors of 0, and so covers as
    promised however small the mean of ``whole``. Where that itself is within t standard errors of 0, any ratio may be
    true: the interval is the whole line.

    >>> low, high = ratio_interval(np.array([[0.0, 1.0, 2.0, 1.0]]), np.array([2.0, 2.0, 2.0, 2.0]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-0.15], [1.15])
    """
    n, a, b = len(whole), np.asarray(part.mean(-1)), whole.mean()
    line = np.full(a.shape, -np.inf), np.full(a.shape, np.inf)
    if n < 2:
        return line
    scale = special.stdtrit(n - 1, (1 + confidence) / 2) ** 2 / (n * (n - 1))
    part, whole = part - a[..., None], whole - b
    square = b * b - scale * (whole * whole).sum()
    if square <= 0:
        return line
    middle = a * b - scale * (part * whole).sum(-1)
    half = np.sqrt(np.maximum(middle**2 - square * (a * a - scale * (part * part).sum(-1)), 0))
    ratio = a / b  # lies between the two, save for rounding
    ends = np.minimum(ratio, (middle - half) / square), np.maximum(ratio, (middle + half) / square)
    return np.asarray(ends[0]), np.asarray(ends[1])


@dataclass(frozen=True)
class PathPatch:
    """The outcome of a path patch; a notebook shows it as its table; rows of logits are at the last position.

    Attributes:
        sender, receiver: the sites. base, source: logits of the rows as they are. patched: of the base rows with the
            path from the source. control_patched: with the path from the control, or None.
        base_labels, source_labels: right answers of the rows.
    """

    sender: Site
    receiver: Site
    base: Float[Tensor, "row d_vocab"]
    source: Float[Tensor, "row d_vocab"]
    patched: Float[Tensor, "row d_vocab"]
    control_patched: Float[Tensor, "row d_vocab"] | None
    base_labels: Int[np.ndarray, " row"]
    source_labels: Int[np.ndarray, " row"]

    def recovered(self) -> Effect:
        """Share of the way from the base's answer to the source's, in mean logit difference: 1 all, 0 none.

        The scale is the mean over all inputs, taken as known; raises ModelError where it is 0.
        """
        base, source = self._difference(self.base), self._difference(self.source)
        check_distinct(source, base, "logit_diff", "source base")
        return self._effect(
            "recovered", lambda logits: (self._difference(logits) - base) / (source.mean() - base.mean())
        )

    def moved(self) -> Effect:
        """Share of inputs whose most likely answer is the source's right answer, in [0, 1]."""
        return self._effect("moved_as_predicted", lambda logits: (logits.argmax(1).numpy() == self.source_labels) * 1.0)

    def table(self) -> pd.DataFrame:
        """Two rows: ``recovered`` and ``moved_as_predicted``, each with its interval and its control."""
        return pd.concat([self.recovered().table(), self.moved().table()], ignore_index=True)

    def _repr_html_(self) -> str:
        columns = ["quantity", "effect", "low", "high", "control", "difference", "n"]
        return html_table(self.table()[columns], f"path patch {self.sender} -> {self.receiver}")

    def _difference(self, logits: Float[Tensor, "row d_vocab"]) -> Float[np.ndarray, " row"]:
        """Logit of the source's answer less that of the base's."""
        rows, found = np.arange(len(logits)), logits.double().numpy()
        return found[rows, self.source_labels] - found[rows, self.base_labels]

    def _effect(self, quantity: Quantity, measure: Callable[[Tensor], np.ndarray]) -> Effect:
        none = np.empty((0, len(self.base)))
        control = none if self.control_patched is None else measure(self.control_patched)[None]
        path = f"{self.sender} -> {self.receiver}"
        return Effect("path patch", path, quantity, measure(self.patched), control, "source with noise redrawn")


@checked
@few_threads
def path_patch(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sender: Site | str,
    receiver: Site | str,
    *,
    control: Inputs | None = None,
) -> PathPatch:
    """Direct effect of a sender on a receiver: the base rows with that one path from the source rows.

    Args:
        base, source: pairs of rows, for instance ``inputs`` and ``counterfactual``; roles may stand elsewhere.
        sender, receiver: sites, such as ``attn_out.0@anchor`` and ``v.1@anchor``. ``resid_post`` of the last layer at
            ``last`` is what the logits are read from.
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
    check_model(model, "path_patch")
    sender, receiver = Site.parse(sender), Site.parse(receiver)
    for site in (sender, receiver):
        site.check(model)
    _check_order(sender, receiver, "resid_mid" not in components_of(model))
    tokens = as_rows(base.tokens)
    at, held = (
        site_positions(receiver, base.roles, tokens.shape[1], len(tokens)),
        _hold_between(model, tokens, sender, receiver),
    )

    def through(others: Inputs) -> Float[Tensor, "row d_vocab"]:
        check_pairs("the source", as_rows(others.tokens), "the base rows", tokens)
        sent = _read(model, [sender], as_rows(others.tokens), base.roles, others.roles)[0]
        arrived: list[Tensor] = []

        def read(activation: Tensor, rows: Tensor) -> Tensor:
            arrived.append(gather_at(receiver.in_hook(model), activation, at[rows]).cpu())
            return activation

        send = write_at(sender, sent, base.roles, tokens.shape[1], model)
        last_logits(model, tokens, [*held, *send, Edit(receiver.hook, read)])
        return last_logits(model, tokens, write_at(receiver, torch.cat(arrived), base.roles, tokens.shape[1], model))

    labels = [check_labels(rows, "path_patch") for rows in (base, source)]
    return PathPatch(
        sender, receiver, last_logits(model, tokens), last_logits(model, source.tokens), through(source),
        None if control is None else through(control), *labels,
    )  # fmt: skip


def _check_order(sender: Site, receiver: Site, side_by_side: bool) -> None:
    """ModelError where a sender does not come before its receiver; the MLP may stand beside attention."""
    comes_first = (sender.layer, STEP[sender.component]) < (receiver.layer, STEP[receiver.component])
    pair = sender.component, receiver.component
    aside = pair == ("v", "pattern") or (side_by_side and pair[1] == "mlp_out" and pair[0] != "resid_pre")
    if not comes_first or (aside and sender.layer == receiver.layer):
        raise ModelError(
            f"the sender '{sender}' does not act on the receiver '{receiver}': a sender comes before its receiver, in "
            f"an earlier layer, or in the same one in the order resid_pre, then q, k and v, pattern (of q and k), z, "
            f"attn_out, resid_mid, mlp_out, resid_post; without resid_mid, only resid_pre acts on mlp_out. "
            f"Exchange them, or choose another."
        )


def _hold_between(model: HookedModel, tokens: Tensor, sender: Site, receiver: Site) -> list[Edit]:
    """Edits that hold each sublayer between the two at its base value; sublayers are counted attn, mlp, attn, ..."""
    first = 2 * sender.layer + sum(STEP[sender.component] >= STEP[own] for own in ("q", "mlp_out"))
    beyond = 2 * receiver.layer + sum(STEP[receiver.component] >= STEP[own] for own in ("resid_mid", "resid_post"))
    between = [Site(("attn_out", "mlp_out")[number % 2], number // 2) for number in range(first, beyond)]
    between = [site for site in between if site.component in components_of(model)]
    found = capture(model, tokens, [site.hook for site in between]) if between else {}
    return [edit for site in between for edit in write_at(site, found[site.hook], None, tokens.shape[1], model)]
