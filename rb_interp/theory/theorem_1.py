"""Theorem 1 and Lemma 1 of paper 1: embeddings and attention at small initialisation.

Eq. (14), without its noise, for token s and coordinates i = 0 .. d_m - 1:

    reasoning anchor   w_i = exp(-(i - s)^2 / 12) - 1 / d_m
    key                w_i = exp(-(i - s)^2 / 12)

Eq. (12), the general form for a reasoning anchor, noise of the size of the initial embedding:

    w_i = C_1 (C_2 exp(-(i - s)^2 / (2 sigma_P)) - 1 / d_m) + eps,        eps ~ N(0, d_m^{-2 gamma})

A coordinate stands for a label, so use d_vocab of them; the paper validates Eq. (14) at d_m =
d_vocab = 200. The paper says of the constants only that they depend on r_s, eta, L and q. Here
sigma_P is the variance of P^s (Eq. 8), and C_2 = (2 pi sigma_P)^{-1/2} its mass of 1. For Eq. (13)
C_1 is L / (q (L - q)) by default (r_s eta times the share of an anchor's occurrences that stand
last), and r_s eta / L by the letter of Eq. 11 with ``C_1=1.0``.

How it can mislead. Eq. (12) is centred at s, while P^s is centred at s + E Z + (q - 1) E A. Inner
products between anchors do not see this common shift, but for the edge: a profile with a standard
deviation of 11 that is centred at 11 loses a sixth of its mass below 0, which P^s does not.
``centre="label"`` puts it where P^s is. At q = 2 P^s is a trapezoid, whose flat top a normal curve
does not have. The width of Eq. (14), variance 6, is that of no key set: the paper chose it for
drawing, and it describes trained embeddings, not the first steps.

Eq. (13) of Theorem 1 (paper 1): how far inner products of the closed form are from those of
embeddings.

    sup over i, j of |<w~^{s_i}, w~^{s_j}> - <w^{s_i}, w^{s_j}>|  <=  O(d_m^{1-gamma} q^{-1/2} +
    d_m^{-gamma})

w is the embedding of the one-layer model (Definition 2, d_m = d_vocab) after one full-batch step of
plain gradient descent of size eta = L / r_s; w~ is Eq. (12) with noise of its own; the supremum is
over pairs of reasoning anchors, i = j included. The gradient is exact: real softmax, attention and
activation (tanh).

Readings. The theorem takes d_m to infinity and names no other width. Here d_head and d_mlp are held
fixed, and the norm of W_f = W_in W_out grows as d_m^{1-gamma}, the factor of the bound; with d_mlp
in proportion to d_m it grows as d_m^{1-2 gamma}, and shrinks from gamma = .5 on. The theorem has n
-> infinity and no masked combinations: the task is taken without its mask, on all of its reasoning
rows (memory rows do not touch reasoning anchors).

How Eq. (13) can mislead. The bound is an upper one with unnamed constants: an exponent below 1 -
gamma is within it, and does not say that it is tight. The error has parts that do not grow at all
(a trapezoid is not a normal curve: .001 to .01), noise against noise (d_m^{1/2-2 gamma}) and noise
against profile (d_m^{-gamma}); which leads depends on gamma and on the widths tried. The slope of a
sum of powers is none of their exponents. Compare ``error`` with ``size``.

Lemma 1 (claim I1): at small initialisation attention is uniform over what it sees. For every eps
there is a C such that gamma > C gives abs(A_ij - 1/i) <= eps for all j <= i with probability at
least 1 - eps. Measured as the share of fresh initialisations with max abs(A_ij - 1/i) <= eps, over
rows of the task, heads, queries and keys of L0's attention:

    A = softmax(mask(X W_Q W_K^T X^T / sqrt(d_head))),   X = W_E[tokens] + W_pos, after LayerNorm in a pre-norm model.

How Lemma 1 can mislead. It is about scale at step 0 and not about learning: no trained model
enters. Scores are of order rms(X)^2 d_model^(1 - 2 gamma), so without LayerNorm even moderate
gammas read share 1. A maximum over more rows, longer rows or more heads is larger.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import TaskError
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import intended_std, parameters, standard_draw
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import AnchorTask

WIDTH = 12.0
"""Denominator of the exponent in Eq. (14)."""


@checked
def reasoning_moments(task: AnchorTask) -> tuple[float, float]:
    """Mean of (label - s) and variance of the label under Eq. (8), in tokens and tokens squared.

    E Z + (q - 1) E A  and  (N_Z^2 - 1) / 12 + (q - 1) (N_A^2 - 1) / 12.

    >>> reasoning_moments(AnchorTask.preset("paper"))
    (86.0, 841.5)
    """
    spans = [task.keys] + [task.reasoning_anchors] * (task.q - 1)
    mean = sum((low + high) / 2 for low, high in spans)
    variance = sum(((high - low + 1) ** 2 - 1) / 12 for low, high in spans)
    return mean, variance


@checked
def theorem_1_embeddings(
    values: Int[np.ndarray, " token"], n_coordinates: int, kind: Literal["reasoning", "key"]
) -> Float[np.ndarray, "token coordinate"]:
    """Embeddings that Eq. (14) gives tokens of these values, in [-1/n_coordinates, 1].

    Memory anchors have no formula.

    >>> from rb_interp.probes.embeddings import cosines
    >>> w = theorem_1_embeddings(np.arange(15, 21), 200, "reasoning")
    >>> cosines(w)[0, 1:].round(3).tolist()
    [0.959, 0.844, 0.683, 0.507, 0.344]
    """
    distance = np.arange(n_coordinates)[None, :] - np.asarray(values)[:, None]
    bump = np.exp(-(distance**2) / WIDTH)
    return bump - 1 / n_coordinates if kind == "reasoning" else bump


@checked
def gaussian_profile(
    task: AnchorTask,
    values: Int[np.ndarray, " token"],
    d_model: int,
    C_1: float = 1.0,
    *,
    centre: Literal["token", "label"] = "token",
    gamma: float | None = None,
    rng: np.random.Generator | None = None,
) -> Float[np.ndarray, "token d_model"]:
    """Eq. (12) for reasoning anchors of these values; without ``gamma``, which sets its size, there
    is no noise.

    In the units of an embedding; without noise each row sums to 0 but for what falls beyond the
    edges. A profile peaks at its token, as Eq. (12) is printed, or at its mean label.

    >>> w = gaussian_profile(AnchorTask.preset("paper"), np.array([15]), 200, centre="label")[0]
    >>> int(w.argmax()), round(float(w.max()) + 1 / 200, 5)                # 86 + 15, (2 pi 841.5)^-1/2
    (101, 0.01375)
    """
    shift, variance = reasoning_moments(task)
    peak = np.asarray(values)[:, None] + (shift if centre == "label" else 0.0)
    height = math.sqrt(2 * math.pi * variance)
    bump = np.exp(-((np.arange(d_model) - peak) ** 2) / (2 * variance)) / height
    profile = C_1 * (bump - 1 / d_model)
    if gamma is None:
        return profile
    noise = np.random.default_rng(rng).standard_normal(profile.shape)
    return profile + noise * d_model**-gamma


class InnerProducts(NamedTuple):
    """How far inner products of reasoning anchors are from those of the closed form."""

    error: float
    """Largest absolute error."""
    size: float
    """Mean absolute inner product <w^{s_i}, w^{s_j}>."""


@checked
def inner_product_error(
    task: AnchorTask,
    gamma: float,
    d_model: int,
    seed: int = 0,
    *,
    d_head: int = 32,
    d_mlp: int = 128,
    C_1: float | None = None,
) -> InnerProducts:
    """Left side of Eq. (13), at d_vocab = d_model, and the size of what it compares; both at least
    0.

    Raises TaskError where the task's labels do not fit d_model, or it has no reasoning rows.

    >>> task = AnchorTask(length=3, unordered=True, balanced_keys=True, n_sequences=2000)
    >>> products = inner_product_error(task, 0.8, 100)
    >>> products.error < 0.05, 0.02 < products.size < 0.1
    (True, True)
    """
    task = replace(task, d_vocab=d_model, masked=())
    anchors = task.tokens("reasoning_anchor")
    W_E = stepped_embeddings(task, gamma, seed, d_head, d_mlp)
    real = W_E[anchors].double().numpy()
    if C_1 is None:
        C_1 = task.length / (task.q * (task.length - task.q))
    rng = np.random.default_rng([seed, d_model, 13])
    ideal = gaussian_profile(task, anchors, d_model, C_1, centre="label", gamma=gamma, rng=rng)
    products = real @ real.T
    errors = np.abs(ideal @ ideal.T - products)
    return InnerProducts(float(errors.max()), float(np.abs(products).mean()))


def stepped_embeddings(
    task: AnchorTask, gamma: float, seed: int, d_head: int = 32, d_mlp: int = 128
) -> Float[Tensor, "d_vocab d_model"]:
    """W_E of the one-layer model after one step of size L / r_s on the reasoning rows that are
    trained on.

    Rows of reasoning anchors are what Eq. (13) compares; other tokens are moved by these rows
    alone.
    """
    data = task.dataset(seed)
    rows = data.rows("rsn_train")
    if not len(rows):
        raise TaskError(
            f"memory_share={task.memory_share} leaves no reasoning row to learn from; lower "
            f"memory_share."
        )
    d_model = task.d_vocab
    generator = torch.Generator().manual_seed(seed)

    def draw_weight(d_in: int, d_out: int) -> Tensor:
        return torch.randn((d_in, d_out), generator=generator) * d_in**-gamma

    W_E = draw_weight(d_model, d_model).requires_grad_()
    W_Q = draw_weight(d_model, d_head)
    W_K = draw_weight(d_model, d_head)
    W_V = draw_weight(d_model, d_head)
    W_O = draw_weight(d_head, d_model)
    W_in = draw_weight(d_model, d_mlp)
    W_out = draw_weight(d_mlp, d_model)
    tokens = torch.as_tensor(data.tokens[rows])
    labels = torch.as_tensor(data.labels[rows])
    logits = one_layer_logits(W_E[tokens], W_Q, W_K, W_V, W_O, W_in, W_out)
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, W_E)
    occurrences = task.q * len(rows) / len(task.tokens("reasoning_anchor"))
    return W_E.detach() - task.length / occurrences * gradient


def one_layer_logits(
    x: Float[Tensor, "row pos d_model"],
    W_Q: Float[Tensor, "d_model d_head"],
    W_K: Float[Tensor, "d_model d_head"],
    W_V: Float[Tensor, "d_model d_head"],
    W_O: Float[Tensor, "d_head d_model"],
    W_in: Float[Tensor, "d_model d_mlp"],
    W_out: Float[Tensor, "d_mlp d_model"],
) -> Float[Tensor, "row d_model"]:
    """Output of Definition 2 at the last position (Eq. 9), with tanh."""
    last = x[:, -1]
    scores = torch.einsum("nd,npd->np", last @ W_Q @ W_K.T, x) / math.sqrt(W_Q.shape[1])
    mean = torch.einsum("np,npd->nd", scores.softmax(-1), x)
    resid_mid = last + mean @ W_V @ W_O
    return resid_mid + (resid_mid @ W_in).tanh() @ W_out


@checked
def exponent(
    d_models: Sequence[int], errors: Float[np.ndarray, "*draw width"]
) -> Float[np.ndarray, "*draw"]:
    """Slope of log error on log d_model by least squares, for each row of errors (Eq. 13 bounds it
    by 1 - gamma).

    >>> float(exponent((10, 100, 1000), np.array([4.0, 2.0, 1.0])).round(3))
    -0.301
    """
    x = np.log(np.asarray(d_models, dtype=np.float64))
    x = x - x.mean()
    return np.asarray(np.log(errors) @ x / (x @ x))


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
    columns = {"gamma": gamma, "stage": "init", "step": 0, "set": ""}
    rows = []
    for quantity, values in quantities.items():
        for number, value in enumerate(values):
            reading = Reading("lemma_1", {quantity: float(value)}, layer=0, n=n_rows)
            rows += reading.rows(**columns, seed=number)
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
