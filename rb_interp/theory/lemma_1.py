r"""Is attention uniform at initialisation?  (paper 1, Lemma 1; claim I1)

Lemma 1: for every eps there is a C such that gamma > C gives abs(A_ij - 1/i) <= eps for all j <= i with probability at
least 1 - eps. Measured as the share of fresh initialisations with max abs(A_ij - 1/i) <= eps, over rows of the task,
heads, queries and keys of L0's attention:

    A = softmax(mask(X W_Q W_K^T X^T / sqrt(d_head))),   X = W_E[tokens] + W_pos, after LayerNorm in a pre-norm model.

How it can mislead. It is about scale at step 0 and not about learning: no trained model enters. Scores are of order
rms(X)^2 d_model^(1 - 2 gamma), so without LayerNorm even moderate gammas read share 1. A maximum over more rows, longer
rows or more heads is larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import intended_std, parameters, standard_draw
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import AnchorTask

__all__ = ["lemma_1", "lemma_1_table"]

FIRST_SEED = 1_000_000
"""Initialisation i of ``seed`` s is drawn from seed FIRST_SEED * (s + 1) + i, away from the seeds that are trained."""

NEEDED = ("embed.W_E", "pos_embed.W_pos", "blocks.0.attn.W_Q", "blocks.0.attn.W_K")


@dataclass(frozen=True, eq=False)
class FreshAttention:
    """Attention of fresh initialisations at one gamma.

    Attributes:
        max_deviation: largest abs(A_ij - 1/i) of each initialisation, in [0, 1], shape ``[n_init]``.
        tolerance: the eps of Lemma 1. n_rows: inputs of each initialisation.
    """

    gamma: float | None
    tolerance: float
    n_rows: int
    max_deviation: Float[np.ndarray, " n_init"]

    @property
    def within(self) -> np.ndarray:
        """Which initialisations stay within the tolerance, shape ``[n_init]``."""
        return self.max_deviation <= self.tolerance

    @property
    def share(self) -> float:
        """Share of initialisations within the tolerance, in [0, 1]."""
        return float(self.within.mean())

    def to_frame(self) -> pd.DataFrame:
        """Rows of the readings table: two quantities for each initialisation, whose number is called ``seed``."""
        place = {"gamma": self.gamma, "stage": "init", "step": 0, "set": ""}
        quantities = {f"within_{self.tolerance:g}": self.within, "max_deviation": self.max_deviation}
        return pd.DataFrame(
            {**place, "seed": number, **row}
            for quantity, values in quantities.items()
            for number, value in enumerate(values)
            for row in Reading("lemma_1", {quantity: float(value)}, layer=0, n=self.n_rows).rows()
        )


def fresh_weights(
    config: ModelConfig, task: AnchorTask, gammas: Sequence[float | None], seed: int
) -> Iterator[dict[str, Tensor]]:
    """For each gamma the tensors that L0's attention needs, by TransformerLens name, as ``draw`` has them."""
    found = [p for p in parameters(config, task.d_vocab, task.length) if p.name in NEEDED]
    draws = {p: torch.from_numpy(standard_draw(p, config.scheme, seed)) for p in found}
    for gamma in gammas:
        yield {p.name: intended_std(p, config, gamma) * draw for p, draw in draws.items()}


def first_attention(
    weights: dict[str, Tensor], tokens: Int[Tensor, "row pos"], config: ModelConfig
) -> Float[Tensor, "row head query key"]:
    """L0's attention at initialisation, where all biases are 0 and LayerNorm has weight 1."""
    x = weights["embed.W_E"][tokens] + weights["pos_embed.W_pos"][: tokens.shape[1]]
    if config.norm == "pre":
        x = torch.nn.functional.layer_norm(x, (config.d_model,), eps=config.layer_norm_eps)
    q, k = (x[:, None] @ weights[f"blocks.0.attn.W_{name}"] for name in "QK")
    scores = q @ k.transpose(-1, -2) / math.sqrt(config.d_head)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -math.inf).softmax(-1)


def lemma_1(
    config: ModelConfig,
    task: AnchorTask,
    gamma: float | None,
    n_init: int = 200,
    n_rows: int = 64,
    tolerance: float = 0.05,
    seed: int = 0,
) -> FreshAttention:
    """Largest deviation of L0's attention from 1/i, for fresh initialisations on random training inputs (Lemma 1).

    Every initialisation has its own weights and rows; normal draws and rows are the same at every gamma.

    >>> from rb_interp.tasks import AnchorTask
    >>> lemma_1(ModelConfig(), AnchorTask.preset("smoke"), gamma=0.8, n_init=3).share
    1.0
    """
    (deviation,) = max_deviations(config, task, [gamma], n_init, n_rows, seed)
    return FreshAttention(gamma, tolerance, n_rows, deviation)


def max_deviations(
    config: ModelConfig, task: AnchorTask, gammas: Sequence[float | None], n_init: int, n_rows: int = 64, seed: int = 0
) -> Float[np.ndarray, "gamma n_init"]:
    """Largest abs(A_ij - 1/i) of each initialisation at each gamma, in [0, 1]; gammas share their standard draws."""
    first = FIRST_SEED * (seed + 1)
    data = task.dataset(first)
    picked = np.random.default_rng([first, 5]).choice(data.rows("train"), (n_init, n_rows))
    uniform = torch.ones(task.length, task.length, dtype=torch.float64).tril()
    uniform /= uniform.sum(1, keepdim=True)
    deviation = np.empty((len(gammas), n_init))
    for i in range(n_init):
        tokens = torch.from_numpy(data.tokens[picked[i]])
        for at, weights in enumerate(fresh_weights(config, task, gammas, first + i)):
            deviation[at, i] = float((first_attention(weights, tokens, config) - uniform).abs().max())
    return deviation


def lemma_1_table(
    config: ModelConfig,
    task: AnchorTask,
    gammas: Sequence[float],
    d_models: Sequence[int],
    n_init: int = 100,
    tolerance: float = 0.05,
) -> pd.DataFrame:
    """Share of initialisations within the tolerance (eps) at every gamma and width, with Clopper-Pearson intervals.

    Columns: gamma, d_model, n_init, n_within, share, low, high, tolerance.
    """
    rows = []
    for d_model in d_models:
        found = max_deviations(replace(config, d_model=d_model), task, gammas, n_init)
        for gamma, within in zip(gammas, (found <= tolerance).sum(1).tolist(), strict=True):
            share = proportion_interval(within, n_init)
            at = {"gamma": gamma, "d_model": d_model, "n_init": n_init, "n_within": within}
            rows.append({**at, "share": share.estimate, "low": share.low, "high": share.high, "tolerance": tolerance})
    return pd.DataFrame(rows)
