r"""Interchange-intervention training: members whose route is known because training put it there
(Geiger et al. 2022).

A pair is a base row and a source row of reasoning inputs with the key at the same position.
Activations of some positions are taken from the source, and the answer is trained to be the
counterfactual one:

    loss = task + mean over exchanges of the cross entropy of  key_(base or source) + sum_(base or
    source)  + attention

A route is a list of exchanges: those that carry the key or the sum, and one of everything else,
which must change nothing (the *absence* of other routes). ``attention`` is there for decorative
attention, which is to look like another circuit's: it is what a pattern lacks of ASKED, in nats.
What is asked for grows over most of the steps, so that the route can follow. ASKED lies a little
beyond the thresholds by which attention is judged, and a member counts where it lies within
ATTENTION_WITHIN: then it is beyond them.

How it can mislead. The route is known as far as the exchanges go: on reasoning rows, between rows
that share the key's position, and to the share that ``shares`` measures on rows left out of
training. Nothing is known of memory rows, nor of how a position holds what it carries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from tqdm import tqdm

from experiments.calibration.exchange import Exchange, run_with_exchanges
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.tasks import AnchorDataset
from rb_interp.training.config import TrainConfig, learning_rate
from rb_interp.training.member_group import cross_entropy
from rb_interp.training.updates import clip_per_member, make_optimiser

SMALLEST_SHARE = 0.95
"""A member counts where every exchange, and the reasoning rows as they are, reach this share of
rows."""
LEFT_OUT = 0.1
"""Share of the reasoning rows that no pair is drawn from in training."""
TRAIN = TrainConfig(batch_size=16, lr_final=5e-5)
"""Of each such training; ``batch_size`` counts pairs. Steps, learning rate and warm-up are the
recipe's."""
GENTLE: Mapping[str, Any] = {"lr": 5e-4, "warmup": 30}
"""For averaging members: at 2e-3 and without warm-up those of gamma .8 forget the task."""
ASKED = {"average-then-key": (0.17, 0.93), "key-to-anchors": (0.55, 0.55)}
"""Attention asked for: L0's distance from 1/i and the key's share, or the key's share in L0 and the
anchors' in L1."""
TIGHTENED = 0.6
"""Share of the steps over which attention is asked for more and more; then for all of it."""
DISTANCE_COST = 4.0
"""Nats for each unit of distance from 1/i."""
ATTENTION_WITHIN = 0.02
"""A member counts where its attention lies at most this far from what was asked."""


class Swap(NamedTuple):
    """One exchange of a route, and what the answer must then be.

    Attributes:
        site: whose activations are taken from the source. where: at which positions, one of PLACES.
        key, sum: of which row the answer's key and sum are, ``base`` or ``source``.
        hold: a site that keeps its base values at all positions meanwhile.
        any_position: the source has its key at any position (for sites at the last position).
    """

    site: str
    where: str
    key: str = "base"
    sum: str = "base"
    hold: str = ""
    any_position: bool = False


ROUTES: Mapping[str, tuple[Swap, ...]] = {
    "average-then-key": (
        Swap("attn_out.0", "last", sum="source", any_position=True),
        Swap("resid_pre.1", "key", key="source"),
        Swap("resid_pre.1", "neither key nor last"),
    ),
    "key-to-anchors": (
        Swap("attn_out.0", "anchors", key="source"),
        Swap("resid_pre.0", "anchors", sum="source", hold="attn_out.0"),
        Swap("resid_pre.1", "not anchors"),
    ),
    "gather-at-last-anchor": (
        Swap("resid_pre.1", "last anchor", key="source", sum="source"),
        Swap("resid_pre.1", "not last anchor"),
    ),
}
"""Circuit -> the exchanges that training asks for. The latter two want rows that end in noise."""


@dataclass(frozen=True)
class Recipe:
    """One kind of trained member.

    Attributes:
        circuit: its route, one of ROUTES.
        starts: members of the quick preset, gamma and seed, that it begins from; with LayerNorm as
            many, chosen by their shares (`starts.members_of`).
        begins: the recipe that they have been through before; none where it is empty.
        attends_like: the circuit that its attention is trained to look like. uniform_layers: whose
            attention is fixed at exactly 1/i, as in ModelConfig. lr: learning rate after warm-up.
        warmup: steps of it. steps: of the whole training.
        weight: of what attention lacks, in nats, beside the cross entropies.
    """

    circuit: str
    starts: tuple[tuple[float, int], ...]
    attends_like: str = ""
    begins: str = ""
    uniform_layers: tuple[int, ...] = ()
    lr: float = 2e-3
    warmup: int = 0
    steps: int = 300
    weight: float = 1.0


AVERAGING = ((0.8, 1), (0.8, 4), (0.5, 1))
CARRYING = ((0.8, 0), (0.8, 2), (0.8, 3), (0.5, 3))
GATHERING = ((0.5, 0),)
"""Members of the quick preset with seeds 0 to 4 that are near a circuit already, so that little
training is needed."""

BLENDED = (((0.8, 1), (0.8, 0)), ((0.8, 4), (0.8, 3)), ((0.5, 1), (0.5, 3)))
"""Pairs of an averaging and a carrying member that ``blends`` puts side by side."""

RECIPES: Mapping[str, Recipe] = {
    "averages": Recipe("average-then-key", AVERAGING, steps=600, **GENTLE),
    "carries": Recipe("key-to-anchors", CARRYING),
    "gathers": Recipe("gather-at-last-anchor", GATHERING),
    "averages at exactly 1/i": Recipe(
        "average-then-key", AVERAGING, uniform_layers=(0,), lr=1e-3, warmup=30, steps=600
    ),
    "averages, attends like carrying": Recipe(
        "average-then-key",
        AVERAGING,
        "key-to-anchors",
        "averages",
        lr=7e-4,
        warmup=100,
        steps=3000,
        weight=2.0,
    ),
    "carries, attends nearly like averaging": Recipe(
        "key-to-anchors", CARRYING, "average-then-key", "carries", warmup=50, steps=2500, weight=3.0
    ),
    "carries, attends like averaging": Recipe(
        "key-to-anchors",
        CARRYING,
        "average-then-key",
        "carries, attends nearly like averaging",
        lr=1e-3,
        warmup=50,
        steps=1200,
        weight=10.0,
    ),
}
"""What members are trained to be, by name."""


class Rows(NamedTuple):
    """Rows of every member, members first."""

    tokens: Int[Tensor, "member row pos"]
    labels: Int[Tensor, "member row"]
    at: Int[Tensor, "member row"]

    def take(self, index: Int[Tensor, "member n"]) -> Rows:
        """Some rows of each member."""
        n_pos = self.tokens.shape[2]
        tokens = self.tokens.gather(1, index[..., None].expand(-1, -1, n_pos))
        return Rows(tokens, self.labels.gather(1, index), self.at.gather(1, index))

    @property
    def key(self) -> Int[Tensor, "member row"]:
        """The key of each row; the answer less the key is the sum."""
        return self.tokens.gather(2, self.at[..., None])[..., 0]


def masks(
    at: Int[Tensor, "member row"], length: int, q: int
) -> dict[str, Bool[Tensor, "member row pos"]]:
    """Which positions each place has, from the position of the key: PLACES of a swap."""
    pos, at = torch.arange(length), at[..., None]
    key, last, last_anchor = pos == at, (pos == length - 1).expand(*at.shape[:2], -1), pos == at + q
    anchors = (pos > at) & (pos <= at + q)
    return {
        "key": key,
        "last": last,
        "anchors": anchors,
        "last anchor": last_anchor,
        "not anchors": ~anchors,
        "not last anchor": ~last_anchor,
        "neither key nor last": ~(key | last),
    }


def train_routes(
    weights: Mapping[str, Tensor],
    datasets: Sequence[AnchorDataset],
    model: ModelConfig,
    recipe: Recipe,
    progress: bool = True,
) -> dict[str, Tensor]:
    """Train members, members first, until they have a route; all from the weights given, which stay
    as they are. Steps, learning rate and warm-up are the recipe's, all else TRAIN's.

    Args:
        weights: TransformerLens name -> ``[member, ...]``, of trained members or of fresh ones.
        datasets: each member's rows. model: what they are. recipe: what they become.
        progress: show a progress bar.
    """
    task = datasets[0].task
    chosen = {p.name for p in parameters(model, task.d_vocab, task.length) if p.trained}
    own = {
        name: weight.detach().clone().requires_grad_(name in chosen)
        for name, weight in weights.items()
    }
    trained = [weight for weight in own.values() if weight.requires_grad]
    schedule = replace(TRAIN, steps=recipe.steps, lr=recipe.lr, warmup=recipe.warmup)
    optimiser = make_optimiser(trained, schedule)
    batches = pairs(datasets, recipe.circuit, TRAIN.batch_size, left_out=False)
    for step in tqdm(
        range(schedule.steps), disable=not progress, unit="step", desc=f"training {recipe.circuit}"
    ):
        slack = max(0.0, 1 - step / (TIGHTENED * schedule.steps))
        loss = losses(own, next(batches), model, task.q, recipe, slack).sum()
        gradients = torch.autograd.grad(loss, trained, materialize_grads=True)
        clip_per_member(gradients, TRAIN.clip)
        for weight, gradient in zip(trained, gradients, strict=True):
            weight.grad = gradient.contiguous()
        optimiser.param_groups[0]["lr"] = learning_rate(step, schedule)
        optimiser.step()
    return {name: weight.detach() for name, weight in own.items()}


def pairs(
    datasets: Sequence[AnchorDataset], circuit: str, n: int, *, left_out: bool
) -> Iterator[tuple[Rows, Rows, Rows]]:
    """Endless batches of n base rows, n source rows with the key at the same position, and n rows
    of any kind.

    Of the latter the first half are memory rows, the others reasoning rows that may end in an
    anchor.
    """
    ends_in_noise = circuit != "average-then-key"
    rngs = [np.random.default_rng([data.seed, 11, int(left_out)]) for data in datasets]
    chosen_from = [_pools(data, left_out, ends_in_noise) for data in datasets]
    every = [
        [torch.from_numpy(part) for part in (d.tokens, d.labels, d.key_position)] for d in datasets
    ]
    rows = Rows(*(torch.stack(part) for part in zip(*every, strict=True)))
    while True:
        chosen = [_draw(rng, *pools, n) for rng, pools in zip(rngs, chosen_from, strict=True)]
        base, source, other = (
            torch.from_numpy(np.stack(part)) for part in zip(*chosen, strict=True)
        )
        yield rows.take(base), rows.take(source), rows.take(other)


def _pools(
    data: AnchorDataset, left_out: bool, ends_in_noise: bool
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Reasoning rows by the position of their key, all of them, and memory rows."""
    rows = np.random.default_rng([data.seed, 10]).permutation(data.rows("rsn_train"))
    first = int(LEFT_OUT * len(rows))
    rows = rows[:first] if left_out else rows[first:]
    highest = data.task.length - data.task.q - (2 if ends_in_noise else 1)
    return (
        [rows[data.key_position[rows] == at] for at in range(highest + 1)],
        rows,
        data.rows("mem"),
    )


def _draw(
    rng: np.random.Generator,
    pools: Sequence[np.ndarray],
    reasoning: np.ndarray,
    memory: np.ndarray,
    n: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    both = np.stack([rng.choice(pools[at], 2) for at in rng.integers(len(pools), size=n)])
    any_kind = np.concatenate([rng.choice(memory, n // 2), rng.choice(reasoning, n - n // 2)])
    return both[:, 0], both[:, 1], any_kind


def losses(
    weights: Mapping[str, Tensor],
    batch: tuple[Rows, Rows, Rows],
    model: ModelConfig,
    q: int,
    recipe: Recipe,
    slack: float = 0.0,
) -> Float[Tensor, " member"]:
    """The loss of each member, nats: task, exchanges, and what reasoning rows' attention lacks."""
    plain = run_with_exchanges(weights, torch.cat([rows.tokens for rows in batch], 1), model)
    task = cross_entropy(plain["logits"], torch.cat([rows.labels for rows in batch], 1)).mean(1)
    logits, predicted = exchanged(weights, batch, plain, model, q, ROUTES[recipe.circuit])
    total = task + cross_entropy(logits, predicted).mean(1)
    if recipe.attends_like:
        total = total + recipe.weight * _attention(plain, batch, q, recipe, slack)[1]
    return total


def _attention(
    plain: Mapping[str, Tensor],
    batch: tuple[Rows, Rows, Rows],
    q: int,
    recipe: Recipe,
    slack: float = 0.0,
) -> tuple[Float[Tensor, " member"], Float[Tensor, " member"]]:
    """`attention_shortfall` on the reasoning rows of a batch."""
    n = batch[0].tokens.shape[1]
    reasoning = torch.cat([torch.arange(2 * n), torch.arange(2 * n + n // 2, 3 * n)])
    at = torch.cat([rows.at for rows in batch], 1)[:, reasoning]
    first, last = (plain[f"log_pattern.{layer}"][:, reasoning, 0] for layer in (0, 1))
    return attention_shortfall(first, last, at, q, recipe.attends_like, slack)


def exchanged(
    weights: Mapping[str, Tensor],
    batch: tuple[Rows, Rows, Rows],
    plain: Mapping[str, Tensor],
    model: ModelConfig,
    q: int,
    swaps: Sequence[Swap],
) -> tuple[Float[Tensor, "member row d_vocab"], Int[Tensor, "member row"]]:
    """Logits of the base rows under each swap in turn, and the answers that they should have."""
    base, source, _ = batch
    n, length = base.tokens.shape[1:]
    places, parts, predicted = masks(base.at, length, q), {}, []
    for site, number in itertools.product(
        ("resid_pre.0", "attn_out.0", "resid_pre.1"), range(len(swaps))
    ):
        swap, own, other = swaps[number], plain[site][:, :n], plain[site][:, n : 2 * n]
        held = swap.hold == site
        other = own if held else other.roll(1, 1) if swap.any_position else other
        mask = places[swap.where] if swap.site == site else torch.full_like(places["key"], held)
        parts.setdefault(site, []).append((mask, other))
    for swap in swaps:
        key, total = source.key, source.labels - source.key
        if swap.any_position:
            key, total = key.roll(1, 1), total.roll(1, 1)
        predicted.append(
            (key if swap.key == "source" else base.key)
            + (total if swap.sum == "source" else base.labels - base.key)
        )
    exchanges = {
        site: Exchange(*(torch.cat(part, 1) for part in zip(*each, strict=True)))
        for site, each in parts.items()
    }
    rows = base.tokens.repeat(1, len(swaps), 1)
    return run_with_exchanges(weights, rows, model, exchanges)["logits"], torch.cat(predicted, 1)


def attention_shortfall(
    log_first: Float[Tensor, "member row query key"],
    log_last: Float[Tensor, "member row key"],
    at: Int[Tensor, "member row"],
    q: int,
    like: str,
    slack: float = 0.0,
) -> tuple[Float[Tensor, " member"], Float[Tensor, " member"]]:
    """What attention lacks to look like a circuit's, in units of attention, and its cost in nats;
    both 0 where it does.

    ``average-then-key``: at most this total variation distance of L0's queries from 1/i, the first
    left out, and this share of the last position's attention on the key. ``key-to-anchors``: this
    share of the last anchor's attention in L0 on the key, and of the last position's on the
    anchors. The values are those of ASKED; ``slack`` loosens them, 1 asks for nothing. A share p
    costs log(asked / p), since attention near 0 has no gradient otherwise. Distance costs in
    proportion, so that a few positions can stay far from 1/i where most are near.
    """
    length, (in_first, in_last) = log_first.shape[-1], ASKED[like]
    in_last *= 1 - slack
    places = masks(at, length, q)

    def less(log_p: Tensor, place: str, wanted: float) -> tuple[Tensor, Tensor]:
        log_share = log_p.masked_fill(~places[place], -math.inf).logsumexp(-1)
        missing = (wanted - log_share.exp()).relu()
        return missing.mean(1), ((math.log(max(wanted, 1e-9)) - log_share) * (missing > 0)).mean(1)

    if like == "average-then-key":
        uniform = torch.tril(torch.ones(length, length)) / torch.arange(1, length + 1)[:, None]
        distance = (log_first.exp() - uniform).abs().sum(-1)[..., 1:].mean((1, 2)) / 2
        missing = (distance - in_first - slack * (1 - in_first)).relu()
        parts = (missing, DISTANCE_COST * missing), less(log_last, "key", in_last)
    else:
        asked = log_first.gather(2, (at + q)[..., None, None].expand(-1, -1, 1, length))[:, :, 0]
        parts = less(asked, "key", in_first * (1 - slack)), less(log_last, "anchors", in_last)
    return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]


@torch.no_grad()
def shares(
    weights: Mapping[str, Tensor],
    datasets: Sequence[AnchorDataset],
    model: ModelConfig,
    circuit: str,
    n: int = 300,
) -> Float[np.ndarray, "member exchange"]:
    """Share of rows, left out of training, that each member answers as a circuit's exchanges ask.

    One column for the plain reasoning rows, then one for each swap of ROUTES[circuit]; in [0, 1].
    """
    q, swaps = datasets[0].task.q, ROUTES[circuit]
    batch = next(pairs(datasets, circuit, n, left_out=True))
    plain = run_with_exchanges(weights, torch.cat([rows.tokens for rows in batch], 1), model)
    right = [(plain["logits"][:, :n].argmax(-1) == batch[0].labels).double().mean(1)]
    logits, predicted = exchanged(weights, batch, plain, model, q, swaps)
    as_asked = (logits.argmax(-1) == predicted).double().unflatten(1, (len(swaps), n)).mean(-1)
    return torch.cat([torch.stack(right, 1), as_asked], 1).numpy()


@torch.no_grad()
def attention_reached(
    weights: Mapping[str, Tensor],
    datasets: Sequence[AnchorDataset],
    model: ModelConfig,
    recipe: Recipe,
    n: int = 300,
) -> Float[np.ndarray, " member"]:
    """How nearly each member attends as its recipe wants: 1 less what is missing, on rows left out
    of training."""
    batch = next(pairs(datasets, recipe.circuit, n, left_out=True))
    found = run_with_exchanges(weights, torch.cat([rows.tokens for rows in batch], 1), model)
    return 1 - _attention(found, batch, datasets[0].task.q, recipe)[0].double().numpy()
