"""Label distributions, and the drift of W_E and W_V that they cause (paper 1, Eqs. 4 to 11).

P^s says what the label of a row is once we know that it holds token s (Eqs. 6 to 8). For an
occurrence of s in a random row, with Z uniform on the keys and A_j uniform on the reasoning
anchors:

    memory anchor     P^s_i = 1 / N_Z on the keys                  (Eq. 7; other memory_labels: a mixture of ranges)
    reasoning anchor  P^s_i = P(Z + A_1 + ... + A_{q-1} = i - s)   (Eq. 8)
    key               the row's own key:  share_mem of the memory labels of s + share_rsn of s + A_1 + ... + A_q
                      a noise key:        the label of any row     (1 of the L - q keys of a row is its own)

The paper gives no formula for keys; theirs follows from the same definitions. Rates r_s count
occurrences a row, as Definition 1 does: a repeated anchor counts twice. ``count="sequences"``
counts it once, as the paper's n_s does.

How P^s can mislead. A population has every combination, also the masked ones, unless
``masked=True``; at 5 anchors a masked pair takes one partner in five away from its anchors. And a
finite task has one label for each memory pair: its empirical P^s - u differ between memory anchors
more than between reasoning anchors, where Eq. (7) makes them equal. The cosine of raw P^s - u is
large between all reasoning anchors (.88 at least at the paper's sizes).

Drift under gradient flow (Eq. 4, Propositions 1 to 3), with u = 1 / d_vocab, r_s the occurrences of
token s a row, and the pull  R[s] = r_s (P^s - u):

    Emb-MLP     dW_E / dt = R W_out^T W_in^T                                                       (Eq. 5)
    one layer   dW_E / dt = (R / L) (W_f^T + I) (W_VO^T + I),   W_f = W_in W_out,  W_VO = W_V W_O  (Eqs. 10, 11)

Plain gradient descent moves W_E by the learning rate times this, each step; the loss is the mean
over rows. The limit taken is: sigma'(.) = 1, output = softmax = u, and in the one layer attention =
1 / L.

Positions. In one layer a token reaches the output from every position through W_VO, and from the
last position alone through the residual stream:

    dW_E / dt = (R / L) (W_f^T + I) W_VO^T + R_last (W_f^T + I),   R_last: pull of the occurrences at the last position

Eqs. (10), (11) as printed are this with R_last = R / L. The actual share of a token's occurrences
that stand last is 1 / (q (L - q)) for anchors (the key stands before its q anchors, the block
anywhere), 1/2 at q = 2, L = 3, where no key stands last at all.

W_V (Fig. 6, appendix B.8). The paper's own theorem was not available; from Eq. (9) by the same
approximations

    dW_V / dt = (1 / L) W_E^T R (W_f + I)^T W_O^T

Its left singular vector (``leading_direction`` of ``value_flow``) is sum_s c_s w_s, c_s the
component of R[s] along the leading label direction, signs included. It is the r-weighted sum of
embeddings exactly where every token has the same P^s, and nearly where labels have more in common
than not.

How a drift can mislead. The relative error at the first step falls with the scale of the weights:
as its cube in the Emb-MLP with an odd activation (from softmax), as its square where sigma''(0) is
not 0, and in proportion in one layer, whose output holds the embedding itself. Later the limit is
left as soon as any row's output is no longer uniform. A drift that is mostly common to all tokens
agrees with anything that is common too: read agreement centred. Of W_V the *change* is predicted:
at larger scales the initial W_V outweighs it. The r-weighted sum counts frequent tokens most: where
keys are frequent as noise, it points to their mean.

Agreement of a predicted drift with the measured one, as vectors over tokens and coordinates:

    cos = <m, p> / (|m| |p|)           R^2 = 1 - |m - p|^2 / |m|^2

for m and p flattened over [token, d_model], both centred over the tokens first: what all tokens do
alike is left out. R^2 is 1 only where size and direction are both right, 0 for a prediction of no
motion, 1 - (1 - c)^2 for c times the truth.

Null. Predictions permuted within a kind of token keep everything but which token of its kind they
belong to. The mean of R^2 over all such permutations has a closed form, since only the inner
product changes:

    mean <m, p_pi> = sum over kinds of  n_kind <mean of m, mean of p>      (means over the kind)

Where kinds differ much and tokens of one kind little, R^2 is high with any order of tokens, and the
excess over the null says more. Memory anchors share one population P^s, so a prediction from
populations has no excess within them.
"""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import TaskError
from rb_interp.tasks.anchor import AnchorDataset, AnchorTask, label_bounds

Count = Literal["occurrences", "sequences"]
"""How a token counts that stands twice in a row: twice, or once."""


@checked
def population(
    task: AnchorTask, group: str, masked: bool = False
) -> Float[np.ndarray, "token d_vocab"]:
    """P^s of every token of a group (ascending) with infinitely many rows: each row of the result
    sums to 1.

    ``masked=True`` leaves the masked combinations out, as training does. Raises TaskError for an
    unknown group, and for one that never occurs.

    >>> P = population(AnchorTask.preset("paper"), "reasoning_anchor")
    >>> P.shape, bool(np.isclose(P[0] @ np.arange(200), 86 + 11))
    ((10, 200), True)
    """
    occurrences = _expected_occurrences(task, masked)[task.tokens(group)]
    if not occurrences.any():
        raise TaskError(
            f"'{group}' never occurs in the rows of a task with memory_share={task.memory_share}, "
            f"so it has no label distribution; change memory_share or masked, or choose another "
            f"group."
        )
    rates = occurrences.sum(1, keepdims=True)
    return occurrences / np.where(rates > 0, rates, 1)


@checked
def population_pull(task: AnchorTask, masked: bool = False) -> Float[np.ndarray, "d_vocab d_vocab"]:
    """R[s] = r_s (P^s - u) of Eqs. (5), (10), (11) from the populations; the row of a token that
    never occurs is 0.

    >>> R = population_pull(AnchorTask.preset("paper"))
    >>> bool(np.isclose(R[3, 50], 0.1 * (1 / 100 - 1 / 200))), bool(R[0].any())
    (True, False)
    """
    occurrences = _expected_occurrences(task, masked)
    return occurrences - occurrences.mean(1, keepdims=True)


@checked
def empirical(
    data: AnchorDataset,
    tokens: Int[np.ndarray, " token"],
    count: Count = "occurrences",
    rows: str = "train",
) -> tuple[Float[np.ndarray, " token"], Float[np.ndarray, "token d_vocab"]]:
    """Rates r_s and label distributions P^s in the rows of a set; P^s of a token that is not there
    is nan.

    Raises TaskError for an unknown set.

    >>> data = AnchorTask().dataset(seed=0)
    >>> rate, P = empirical(data, np.array([11, 0]))
    >>> float(P[0].sum()), float(rate[1]), bool(np.isnan(P[1]).all())
    (1.0, 0.0, True)
    """
    numbers = data.rows(rows)
    row_tokens = torch.from_numpy(data.tokens[numbers])
    labels = torch.from_numpy(data.labels[numbers])
    counts = label_counts(row_tokens, labels, data.task.d_vocab, count).numpy()[tokens]
    totals = counts.sum(1, keepdims=True)
    rates = totals[:, 0] / max(len(numbers), 1)
    return rates, counts / np.where(totals > 0, totals, np.nan)


def label_counts(
    tokens: Int[Tensor, "*member row pos"],
    labels: Int[Tensor, "*member row"],
    d_vocab: int,
    count: Count = "occurrences",
) -> Float[Tensor, "*member d_vocab d_vocab"]:
    """How often each token (row) stands in a row with each label (column), in double precision.

    ``count="sequences"`` counts a row once however often the token stands in it.

    >>> label_counts(torch.tensor([[1, 1], [1, 0]]), torch.tensor([0, 1]), 2)
    tensor([[0., 1.],
            [2., 1.]], dtype=torch.float64)
    """
    tokens = tokens.long()
    weights = torch.ones(tokens.shape, dtype=torch.float64, device=tokens.device)
    if count == "sequences":
        tokens = tokens.sort(-1).values
        weights[..., 1:] = (tokens[..., 1:] != tokens[..., :-1]).double()
    cells = (tokens * d_vocab + labels.long()[..., None]).flatten(-2)
    counts = torch.zeros(*cells.shape[:-1], d_vocab**2, dtype=torch.float64, device=tokens.device)
    counts.scatter_add_(-1, cells, weights.flatten(-2))
    return counts.unflatten(-1, (d_vocab, d_vocab))


def _expected_occurrences(task: AnchorTask, masked: bool) -> Float[np.ndarray, "d_vocab d_vocab"]:
    """Expected occurrences a row of every token with every label, over all combinations and
    keys."""
    keys = task.tokens("key")
    vocabulary = np.arange(task.d_vocab)
    occurrences = np.zeros((task.d_vocab, task.d_vocab))
    n_rows = 0
    for name in ("mem", "rsn_train") if masked else ("mem", "rsn_train", "rsn_test"):
        combinations = task.combinations(name)
        n = task.rows_per_combination(name)
        low = high = keys[None, :] + combinations.sum(1)[:, None]
        if name == "mem":
            low, high = label_bounds(task)
        anchors = task.tokens("memory_anchor" if name == "mem" else "reasoning_anchor")
        repeats = (combinations == anchors[:, None, None]).sum(-1)
        for number, key in enumerate(keys):
            first = low[:, number, None]
            last = high[:, number, None]
            in_range = (vocabulary >= first) & (vocabulary <= last)
            labels = in_range / (last - first + 1) * n / len(keys)
            occurrences[key] += labels.sum(0)
            occurrences[anchors] += repeats @ labels
        n_rows += n * len(combinations)
    occurrences /= max(n_rows, 1)
    n_noise = task.length - task.q - 1
    occurrences[keys] += n_noise / len(keys) * occurrences[keys].sum(0)
    return occurrences


ROUNDING = 1e-6
"""Part of a drift's size below which what centring leaves is single precision's rounding."""


@checked
def pull(
    tokens: Int[Tensor, "*member row pos"],
    labels: Int[Tensor, "*member row"],
    d_vocab: int,
    count: Count = "occurrences",
    last: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*member d_vocab d_vocab"]:
    """R[s] = r_s (P^s - u) of the given rows (Eq. 4): row s sums to 0, and is 0 where token s does
    not occur.

    ``count="sequences"`` counts a row once however often the token stands in it; ``last`` counts
    the last position alone. Raises TaskError for tokens or labels outside the vocabulary.

    >>> pull(torch.tensor([[3, 1, 1], [3, 2, 1]]), torch.tensor([0, 1]), 4)[1]      # twice with 0, once with 1
    tensor([ 0.6250,  0.1250, -0.3750, -0.3750])
    """
    for name, ids in (("token", tokens), ("label", labels)):
        if ids.numel() and not 0 <= ids.min() <= ids.max() < d_vocab:
            raise TaskError(
                f"{name}s run from {ids.min()} to {ids.max()}; d_vocab={d_vocab} has 0 to "
                f"{d_vocab - 1}. Raise d_vocab."
            )
    counted = tokens[..., -1:] if last else tokens
    rates = label_counts(counted, labels, d_vocab, count) / max(tokens.shape[-2], 1)
    return (rates - rates.sum(-1, keepdim=True) / d_vocab).to(dtype)


@checked
def emb_mlp_map(
    W_in: Float[Tensor, "*member d_model d_mlp"], W_out: Float[Tensor, "*member d_mlp d_vocab"]
) -> Float[Tensor, "*member d_vocab d_model"]:
    """W_out^T W_in^T of Proposition 1: ``pull @ emb_mlp_map`` is the drift of W_E per unit of
    learning rate.

    >>> emb_mlp_map(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 0.0, -3.0]]))
    tensor([[ 3.,  6.],
            [ 0.,  0.],
            [-3., -6.]])
    """
    return (W_in @ W_out).mT


@checked
def one_layer_maps(
    W_V: Float[Tensor, "*member d_model d_head"],
    W_O: Float[Tensor, "*member d_head d_model"],
    W_in: Float[Tensor, "*member d_model d_mlp"],
    W_out: Float[Tensor, "*member d_mlp d_model"],
) -> tuple[Float[Tensor, "*member d_model d_model"], Float[Tensor, "*member d_model d_model"]]:
    """``attention`` = (W_f^T + I) W_VO^T and ``direct`` = W_f^T + I, whose sum is W of Propositions
    2 and 3.

    The first axis is the label's (d_vocab = d_model), the second the embedding's.

    >>> attention, direct = one_layer_maps(*(torch.full((1, 1), x) for x in (2.0, 5.0, 3.0, 1.0)))
    >>> attention.item(), direct.item()          # (3 + 1) 10, 3 + 1
    (40.0, 4.0)
    """
    identity = torch.eye(W_in.shape[-2], dtype=W_in.dtype, device=W_in.device)
    direct = (W_in @ W_out).mT + identity
    attention = direct @ (W_V @ W_O).mT
    return attention, direct


@checked
def one_layer_drift(
    pull: Float[Tensor, "*#member d_vocab d_vocab"],
    attention: Float[Tensor, "*#member d_vocab d_vocab"],
    direct: Float[Tensor, "*#member d_vocab d_vocab"],
    length: int,
    pull_last: Float[Tensor, "*#member d_vocab d_vocab"] | None = None,
) -> Float[Tensor, "*member d_vocab d_vocab"]:
    """Drift of the one-layer model's W_E per unit of learning rate: Eqs. 10, 11, or by position
    with ``pull_last``.

    >>> R, I = torch.ones(1, 1), torch.ones(1, 1)
    >>> one_layer_drift(R, 4 * I, 2 * I, 2).item(), one_layer_drift(R, 4 * I, 2 * I, 2, pull_last=0 * R).item()
    (3.0, 2.0)
    """
    if pull_last is None:
        return pull / length @ (attention + direct)
    return pull / length @ attention + pull_last @ direct


@checked
def value_flow(
    W_E: Float[Tensor, "*member d_vocab d_model"],
    pull: Float[Tensor, "*#member d_vocab d_vocab"],
    W_O: Float[Tensor, "*member d_head d_model"],
    W_in: Float[Tensor, "*member d_model d_mlp"],
    W_out: Float[Tensor, "*member d_mlp d_model"],
    length: int,
) -> Float[Tensor, "*member d_model d_head"]:
    """Predicted change of W_V per unit of learning rate (d_vocab = d_model): (1 / L) W_E^T R (W_f +
    I)^T W_O^T.

    >>> one = torch.ones(1, 1)
    >>> value_flow(2 * one, 3 * one, 5 * one, one, one, 3).item()         # 2 x 3 x (1 + 1) x 5 / 3
    20.0
    """
    carried = W_E.mT @ pull / length
    return (carried + carried @ (W_in @ W_out).mT) @ W_O.mT


@checked
def leading_direction(
    change: Float[Tensor, "*member d_model d_head"],
) -> tuple[Float[Tensor, "*member d_model"], Float[Tensor, "*member"]]:
    """Leading left singular vector (of arbitrary sign) and its share s_1^2 / sum s^2, in [1 / rank,
    1].

    The share is nan where nothing changed; everything is nan where the change is not finite.

    >>> vector, share = leading_direction(torch.diag(torch.tensor([1.0, 2.0])))
    >>> vector.abs(), round(share.item(), 6)
    (tensor([0., 1.]), 0.8)
    """
    if change.element_size() < 4:
        change = change.float()  # torch has no SVD in half precision
    broken = ~change.isfinite().all(-1).all(-1)
    left, singular, _ = torch.linalg.svd(change.nan_to_num(0, 0, 0), full_matrices=False)
    direction = left[..., 0].masked_fill(broken[..., None], torch.nan)
    share = singular[..., 0] ** 2 / (singular**2).sum(-1)
    return direction, share.masked_fill(broken, torch.nan)


@checked
def agreement(
    predicted: Float[Tensor, "*member token d_model"],
    measured: Float[Tensor, "*member token d_model"],
    centred: bool = True,
) -> tuple[Float[Tensor, "*member"], Float[Tensor, "*member"]]:
    """Cosine in [-1, 1] and R^2 in (-inf, 1] over all tokens together.

    The cosine is nan where prediction or measurement holds nothing but rounding (1e-6 of its size
    before centring), as predictions from one label distribution for all tokens do; R^2 is nan where
    nothing but that was measured.

    >>> m = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> [round(x.item(), 4) for x in agreement(m / 2, m)]
    [1.0, 0.75]
    """
    p, p_size = _with_size(predicted, centred)
    m, m_size = _with_size(measured, centred)
    cosine = (p * m).sum((-2, -1)) / (p_size * m_size)
    r2 = 1 - ((m - p) ** 2).sum((-2, -1)) / m_size**2
    return cosine, r2


@checked
def permuted_r2(
    predicted: Float[Tensor, "*member token d_model"],
    measured: Float[Tensor, "*member token d_model"],
    kinds: Shaped[np.ndarray, " token"],
) -> Float[Tensor, "*member"]:
    """Mean R^2 of predictions permuted within each kind of token, over all permutations.

    ``kinds`` names the kind of each token, by number or word. It is nan where a prediction or a
    measurement is, and where nothing but rounding was measured, see `agreement`.

    >>> m = torch.tensor([[1.0], [-1.0]])
    >>> permuted_r2(m, m, np.array(["anchor", "anchor"])).round().item()          # one order gives 1, the other -3
    -1.0
    """
    p, _ = _with_size(predicted, True)
    m, m_size = _with_size(measured, True)
    _, kind, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    same = kind[:, None] == kind[None, :]
    products = m @ p.mT
    # how often each token gets each token's prediction
    chance = torch.as_tensor(same / sizes[kind][:, None]).to(products)
    mean_product = (products * chance).sum((-2, -1))
    mm = m_size**2
    pp = (p * p).sum((-2, -1))
    return 1 - (mm - 2 * mean_product + pp) / mm


def _with_size(
    drift: Float[Tensor, "*member token d_model"], centred: bool
) -> tuple[Float[Tensor, "*member token d_model"], Float[Tensor, "*member"]]:
    """A drift in double precision, centred over the tokens if wanted, and its norm; nan where only
    rounding is left."""
    raw = drift.double()
    centred_drift = raw - raw.mean(-2, keepdim=True) if centred else raw
    size = centred_drift.norm(dim=(-2, -1))
    is_rounding = size <= ROUNDING * raw.norm(dim=(-2, -1))
    return centred_drift, size.masked_fill(is_rounding, torch.nan)
