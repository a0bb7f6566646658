"""Label distributions: which labels stand with a token (paper 1, Eqs. 6 to 8).

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
more than between reasoning anchors, where Eq. (7) makes them equal. The cosine of raw distributions
is large between all reasoning anchors (.88 at least at the paper's sizes).
"""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import TaskError
from rb_interp.tasks.anchor import AnchorDataset, AnchorTask
from rb_interp.tasks.anchor_settings import label_bounds

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
