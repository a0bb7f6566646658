"""Lemma 1 of paper 1: at small initialisation attention is uniform over what it sees.

Lemma 1 (claim I1): for every eps there is a C such that gamma > C gives abs(A_ij - 1/i) <= eps for
all j <= i with probability at least 1 - eps. Measured as the share of fresh initialisations with
max abs(A_ij - 1/i) <= eps, over rows of the task, heads, queries and keys of L0's attention:

    A = softmax(mask(X W_Q W_K^T X^T / sqrt(d_head))),   X = W_E[tokens] + W_pos, after LayerNorm in a pre-norm model.

How Lemma 1 can mislead. It is about scale at step 0 and not about learning: no trained model
enters. Scores are of order rms(X)^2 d_model^(1 - 2 gamma), so without LayerNorm even moderate
gammas read share 1. A maximum over more rows, longer rows or more heads is larger.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import intended_std, parameters, standard_draw
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import AnchorTask

FIRST_SEED = 1_000_000
"""Initialisation i of ``seed`` s is drawn from seed FIRST_SEED * (s + 1) + i, away from the seeds
that are trained."""
PARAMETERS = ("embed.W_E", "pos_embed.W_pos", "blocks.0.attn.W_Q", "blocks.0.attn.W_K")
"""Weights that L0's attention depends on."""


def fresh_weights(
    config: ModelConfig, task: AnchorTask, gammas: Sequence[float | None], seed: int
) -> Iterator[dict[str, Tensor]]:
    """For each gamma the tensors that L0's attention needs, by TransformerLens name, as ``draw``
    has them."""
    draws = {}
    for parameter in parameters(config, task.d_vocab, task.length):
        if parameter.name in PARAMETERS:
            draw = standard_draw(parameter, config.scheme, seed)
            draws[parameter] = torch.from_numpy(draw)
    for gamma in gammas:
        yield {p.name: intended_std(p, config, gamma) * draw for p, draw in draws.items()}


def first_attention(
    weights: dict[str, Tensor], tokens: Int[Tensor, "row pos"], config: ModelConfig
) -> Float[Tensor, "row head query key"]:
    """L0's attention at initialisation, where all biases are 0 and LayerNorm has weight 1."""
    x = weights["embed.W_E"][tokens] + weights["pos_embed.W_pos"][: tokens.shape[1]]
    if config.norm == "pre":
        x = torch.nn.functional.layer_norm(x, (config.d_model,), eps=config.layer_norm_eps)
    q = x[:, None] @ weights["blocks.0.attn.W_Q"]
    k = x[:, None] @ weights["blocks.0.attn.W_K"]
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
) -> pd.DataFrame:
    """Readings of fresh initialisations on random training inputs; ``seed`` in the table is an
    initialisation's number.

    Quantities: ``max_deviation``, the largest abs(A_ij - 1/i), in [0, 1], and ``within_0.05``,
    whether it is within the tolerance. Every initialisation has its own weights and rows; normal
    draws and rows are the same at every gamma.

    >>> table = lemma_1(ModelConfig(), AnchorTask.preset("smoke"), gamma=0.8, n_init=3)
    >>> float(table.groupby("quantity")["value"].mean()["within_0.05"])
    1.0
    """
    (deviations,) = max_deviations(config, task, [gamma], n_init, n_rows, seed)
    quantities = {
        f"within_{tolerance:g}": deviations <= tolerance,
        "max_deviation": deviations,
    }
    place = {"gamma": gamma, "stage": "init", "step": 0, "set": ""}
    rows = []
    for quantity, values in quantities.items():
        for number, value in enumerate(values):
            reading = Reading("lemma_1", {quantity: float(value)}, layer=0, n=n_rows)
            rows.append({**place, "seed": number, **reading.rows()[0]})
    return pd.DataFrame(rows)


def max_deviations(
    config: ModelConfig,
    task: AnchorTask,
    gammas: Sequence[float | None],
    n_init: int,
    n_rows: int = 64,
    seed: int = 0,
) -> Float[np.ndarray, "gamma n_init"]:
    """Largest abs(A_ij - 1/i) of each initialisation at each gamma, in [0, 1]; gammas share their
    standard draws."""
    first = FIRST_SEED * (seed + 1)
    data = task.dataset(first)
    rows = np.random.default_rng([first, 5]).choice(data.rows("train"), (n_init, n_rows))
    uniform = torch.ones(task.length, task.length, dtype=torch.float64).tril()
    uniform /= uniform.sum(1, keepdim=True)
    deviations = np.empty((len(gammas), n_init))
    for draw in range(n_init):
        tokens = torch.from_numpy(data.tokens[rows[draw]])
        for number, weights in enumerate(fresh_weights(config, task, gammas, first + draw)):
            pattern = first_attention(weights, tokens, config)
            deviations[number, draw] = float((pattern - uniform).abs().max())
    return deviations
