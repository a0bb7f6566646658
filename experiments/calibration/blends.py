r"""Graded blends of two circuits: at which share does each probe change its mind?

Two members, one of each circuit, stand side by side in one model of two heads and twice the width:
neither reads what the other writes, and their logits add up. All that one of them writes is s times
as large and all that it reads is divided by s, except the unembedding, so that

    logits = (1 - share) logits_of_average-then-key / m_1 + share logits_of_key-to-anchors / m_2

with m the member's mean margin of the right answer over the mean logit, on reasoning rows. So
``share`` is that of the right answer's margin that comes by key-to-anchors; it is known without any
probe.

How it can mislead. In a blend the circuits do not meet; in a trained model they share directions.
Attention has no scale here: it is the same at every share. The shares 0 and 1 stand for LEAST and 1
- LEAST, where one half is all but silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from experiments.calibration.detectors import NAMES, Place
from experiments.calibration.known_models import PAIRS, ROWS, Subject, readings_of
from experiments.copies import READ, WRITE, kind
from rb_interp.figures.kit import BLUE, DASHED, GREY, MARKERS, RED, new_figure, styled
from rb_interp.interventions.circuits import SHARE_MIN
from rb_interp.interventions.edits import last_logits
from rb_interp.interventions.swaps import key_and_sum
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.tasks import AnchorDataset

LEAST = 1e-3
"""The smaller half's share at the ends."""
ROUTES = ("key:from_key", "anchors:L0_at_last", "key:from_anchors", "anchors:from_anchors")
"""The last of QUANTITIES: M7r, M8r, and the name key-to-anchors by cause."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TOKENS = ("embed.W_E", "pos_embed.W_pos")

Weights = Mapping[str, Tensor]


class Quantity(NamedTuple):
    """A number that a probe says by, and its threshold."""

    probe: str
    words: str
    threshold: float
    of: str


def _judged(claim: str, words: str, number: int = 0) -> Quantity:
    """What one condition of a claim about average-then-key reads."""
    (found,) = (each for each in CLAIMS if each.id == claim)
    return Quantity(claim, words, found.conditions[number].threshold, NAMES[0])


_M9 = (
    _judged("M9", "answers that follow L1's attention output (key)", 0),
    _judged("M9", "answers that follow L0's attention output (sum)", 1),
)
QUANTITIES = (
    _judged("M7", "L1's attention to the key, the head with most"),
    _judged("M8", "variance of L1's attention output explained by the key", 0),
    _judged("M8", "variance of L0's attention output explained by the sum", 1),
    *_M9,
    Quantity(
        "carried",
        "answers that follow L0's attention output at the anchors (key)",
        _M9[0].threshold,
        NAMES[1],
    ),
    Quantity(
        "carried", "answers that follow the anchors' embeddings (sum)", _M9[1].threshold, NAMES[1]
    ),
    _judged("M7r", "the key's effect that comes from its own position"),
    _judged("M8r", "the anchors' effect that comes by L0 at the last position"),
    Quantity(
        "by cause", "the key's effect that comes from the anchors' positions", SHARE_MIN, NAMES[1]
    ),
    Quantity(
        "by cause", "the anchors' effect that comes from their positions", SHARE_MIN, NAMES[1]
    ),
)
"""What is read of a blend; the last column says whose circuit it speaks for."""


def blend(first: Weights, second: Weights, scales: tuple[float, float]) -> dict[str, Tensor]:
    """Two models side by side, each with its logits times a scale; for models without LayerNorm.

    Heads, MLP units and the residual stream's dimensions of the second come after those of the
    first.
    """
    parts = [
        _scaled(weights, scale) for weights, scale in zip((first, second), scales, strict=True)
    ]
    return {name: _joined(name, parts[0][name], parts[1][name]) for name in first}


def _scaled(weights: Weights, scale: float) -> dict[str, Tensor]:
    """The same model with a residual stream ``scale`` times as long, which the unembedding reads as
    it is."""
    found = {}
    for name, weight in weights.items():
        of = kind(name)
        factor = (
            scale
            if of in WRITE or of == "b_U"
            else 1 / scale
            if of in READ and of != "W_U"
            else 1.0
        )
        found[name] = weight.double() * factor
    return found


def _joined(name: str, one: Tensor, other: Tensor) -> Tensor:
    of = kind(name)
    if of == "b_U":
        return one + other
    if name in TOKENS or of in ("b_O", "b_in", "b_out"):
        return torch.cat([one, other], -1)
    if of in ("b_Q", "b_K", "b_V") or of == "W_U":
        return torch.cat([one, other], 0)
    if of in ("W_in", "W_out"):
        return torch.block_diag(one, other)
    if of in ("W_Q", "W_K", "W_V"):  # [head, d_model, d_head]
        return torch.cat(
            [F.pad(one, (0, 0, 0, other.shape[1])), F.pad(other, (0, 0, one.shape[1], 0))], 0
        )
    return torch.cat([F.pad(one, (0, other.shape[2])), F.pad(other, (one.shape[2], 0))], 0)  # W_O


def margin(weights: Weights, config: ModelConfig, data: AnchorDataset) -> float:
    """Mean of the right answer's logit less the mean logit, on reasoning rows."""
    rows = data.sample("rsn_train", 300)
    logits = last_logits(
        lens_model(config, data.task.d_vocab, data.task.length, weights), data.tokens[rows]
    )
    right = logits.gather(1, torch.from_numpy(data.labels[rows])[:, None])[:, 0]
    return float((right - logits.mean(1)).mean())


def blend_table(
    pairs: Sequence[tuple[Subject, Subject]],
    progress: bool = False,
) -> pd.DataFrame:
    """What each probe reads along the share of key-to-anchors, one row for each pair, share and
    quantity.

    Args:
        pairs: a member of average-then-key and one of key-to-anchors, whose reasoning rows are
            alike.
        progress: show a progress bar.

    Returns:
        Columns pair, share, probe, quantity, of (the circuit that it speaks for), value, threshold,
        met.
    """
    rows = []
    for number, (first, second) in enumerate(pairs):
        margins = [margin(each.weights, each.config, each.data) for each in (first, second)]
        config = replace(
            first.config, n_heads=2, d_model=2 * first.config.d_model, d_mlp=2 * first.config.d_mlp
        )
        size = sum(margins) / 2
        named = "; ".join(f"{each.name}, seed {each.seed}" for each in (first, second))
        for share in tqdm(SHARES, disable=not progress, unit="blend"):
            at = min(max(share, LEAST), 1 - LEAST)
            scales = ((1 - at) * size / margins[0], at * size / margins[1])
            found = values_of(blend(first.weights, second.weights, scales), config, first.data)
            for quantity, value in zip(QUANTITIES, found, strict=True):
                rows.append(
                    {
                        "pair": named,
                        "number": number,
                        "share": share,
                        "probe": quantity.probe,
                        "quantity": quantity.words,
                        "of": quantity.of,
                        "value": round(value, 6),
                        "threshold": quantity.threshold,
                        "met": value >= quantity.threshold,
                    }
                )
    return pd.DataFrame(rows)


def values_of(weights: Weights, config: ModelConfig, data: AnchorDataset) -> list[float]:
    """QUANTITIES of one blend."""
    model = lens_model(config, data.task.d_vocab, data.task.length, weights)
    read = readings_of(model, data, fewer=ROWS)

    def most(place: Place) -> float:
        return max(read[place])

    set = "rsn_train"
    carried = key_and_sum(model, data, circuit=NAMES[1], n=PAIRS, set=set)
    return [
        most(("attention_by_role", "key", set, 1)),
        most(("variance_explained", "attn_out.1:key", set, None)),
        most(("variance_explained", "attn_out.0:anchor_sum", set, None)),
        most(("swap_key", "effect", set, None)),
        most(("swap_sum", "effect", set, None)),
        float(carried.key.values.mean()),
        float(carried.sum.values.mean()),
        *(most(("routes", route, set, None)) for route in ROUTES),
    ]


def blend_means(table: pd.DataFrame) -> pd.DataFrame:
    """Mean over pairs of each quantity at each share, and the share of pairs in which its probe
    says yes.

    A probe says yes where all its quantities meet their thresholds. Columns probe, quantity, of,
    threshold, share, mean, met, n (pairs).
    """
    met = table.groupby(["probe", "number", "share"], as_index=False)["met"].all()
    met = met.groupby(["probe", "share"], as_index=False).agg(met=("met", "mean"))
    columns = ["probe", "quantity", "of", "threshold", "share"]
    means = table.groupby(columns, sort=False, as_index=False).agg(
        mean=("value", "mean"), n=("value", "size")
    )
    return means.merge(met, on=["probe", "share"], how="left")


@styled
def draw_blends(means: pd.DataFrame) -> Figure:
    """Left: mean over pairs of what each probe reads. Right: a disc as dark as the share of pairs
    with a yes."""
    colours = dict(zip(NAMES, (BLUE, RED), strict=True))
    figure = new_figure(3.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    for quantity, marker in zip(dict.fromkeys(means["quantity"]), cycle(MARKERS), strict=False):
        rows = means.loc[means["quantity"] == quantity]
        first = rows.iloc[0]
        label = f"{first['probe']}: {first['quantity']}"
        left.plot(
            rows["share"],
            rows["mean"],
            marker=marker,
            ms=3.5,
            lw=1,
            color=colours[first["of"]],
            label=label,
        )
    for threshold in sorted(means["threshold"].unique()):
        left.axhline(threshold, color=GREY, lw=0.7, ls=DASHED)
        left.annotate(
            f"{threshold:.2f}", (1.03, threshold), color=GREY, va="center", annotation_clip=False
        )
    left.set(xlim=(-0.02, 1.02), ylim=(-0.03, 1.05), ylabel="what the probe reads")
    left.set(xlabel="share of key-to-anchors in the right answer's margin")
    left.set_title(f"Readings (mean of {means['n'].max()} pairs; dashed: thresholds)")
    probes = list(dict.fromkeys(means["probe"]))
    for at, probe in enumerate(probes):
        rows = means.loc[means["probe"] == probe].drop_duplicates("share")
        colour, height = colours[rows["of"].iloc[0]], np.full(len(rows), at)
        right.axhline(at, color=GREY, lw=0.4, zorder=1)
        right.scatter(
            rows["share"], height, s=34, facecolor="white", edgecolor=colour, lw=0.8, zorder=2
        )
        right.scatter(
            rows["share"], height, s=34, color=colour, alpha=rows["met"].to_numpy(), lw=0, zorder=3
        )
    right.set(xlim=(-0.05, 1.05), ylim=(len(probes) - 0.5, -0.5), xlabel="share of key-to-anchors")
    right.set_yticks(range(len(probes)), probes)
    right.set_title("Says yes (filled: of every pair)")
    figure.legend(
        handles=left.get_legend_handles_labels()[0], loc="outside upper center", ncols=2, fontsize=6
    )
    return figure
