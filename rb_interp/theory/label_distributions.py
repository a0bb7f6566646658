"""Label distributions P^s (paper 1, Eqs. 6-8): what the label of a row says once we know that it holds token s.

For an occurrence of s in a random row, with Z uniform on the keys and A_j uniform on the reasoning anchors:

    memory anchor     P^s_i = 1 / N_Z on the keys                  (Eq. 7; other memory_labels: a mixture of ranges)
    reasoning anchor  P^s_i = P(Z + A_1 + ... + A_{q-1} = i - s)   (Eq. 8)
    key               the row's own key:  share_mem of the memory labels of s + share_rsn of s + A_1 + ... + A_q
                      a noise key:        the label of any row     (1 of the L - q keys of a row is its own)

The paper gives no formula for keys; theirs follows from the same definitions. Rates r_s count occurrences a row, as
Definition 1 does, which sums over positions: a repeated anchor counts twice. ``count="sequences"`` counts it once, as
the paper's n_s does by the letter.

How it can mislead. A population has every combination, also the masked ones, unless ``masked=True``; at 5 anchors a
masked pair takes one partner in five away from its anchors. And a finite task has one label for each memory pair: its
empirical P^s - u differ between memory anchors more than between reasoning anchors, where Eq. (7) makes them equal. The
cosine of raw distributions is large between all reasoning anchors (.88 at least at the paper's sizes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ConfigError, TaskError, nearest
from rb_interp.tasks.labels import label_bounds

if TYPE_CHECKING:
    from rb_interp.tasks import AnchorDataset, AnchorTask

GROUPS = ("key", "memory_anchor", "reasoning_anchor")
"""Token groups that have label distributions."""
COUNTS = ("occurrences", "sequences")
"""Ways to count a token that stands twice in a row: twice, or once."""


def population(task: AnchorTask, group: str, masked: bool = False) -> Float[np.ndarray, "token d_vocab"]:
    """P^s of every token of a group (ascending) with infinitely many rows: each row of the result sums to 1.

    Memory anchors: 1 / N_Z on the keys (Eq. 7). Reasoning anchors: P(Z + sum of q - 1 anchors = i - s) (Eq. 8).

    ``masked=True`` leaves the masked combinations out, as training does. Raises TaskError for an unknown group, and for
    one that never occurs.

    >>> from rb_interp.tasks import AnchorTask
    >>> P = population(AnchorTask.preset("paper"), "reasoning_anchor")
    >>> P.shape, bool(np.isclose(P[0] @ np.arange(200), 86 + 11))
    ((10, 200), True)
    """
    memory_rows, reasoning_rows = _row_counts(task, masked)
    tokens = task.tokens(group)
    _check_occurs(task, group, memory_rows, reasoning_rows)
    if group == "memory_anchor":
        return _enumerated(task, "mem", masked)[1]
    if group == "reasoning_anchor":
        return _enumerated(task, "rsn", masked)[1] if masked else _shifted(task, tokens, task.q - 1)
    own = np.zeros((len(tokens), task.d_vocab))
    share = memory_rows / (memory_rows + reasoning_rows)
    if memory_rows:
        own += share * _enumerated(task, "mem", masked)[0]
    if reasoning_rows:
        reasoning = _enumerated(task, "rsn", masked)[0] if masked else _shifted(task, tokens, task.q)
        own += (1 - share) * reasoning
    return own / (task.length - task.q) + own.mean(0) * (1 - 1 / (task.length - task.q))


def rates(task: AnchorTask, group: str, masked: bool = False) -> Float[np.ndarray, " token"]:
    """Expected occurrences a training row of every token of a group (ascending): r_s of Eq. (5), from 0 to length.

    >>> from rb_interp.tasks import AnchorTask
    >>> rates(AnchorTask.preset("paper"), "memory_anchor")[:2]           # half of the rows, 2 anchors, 10 tokens
    array([0.1, 0.1])
    """
    tokens = task.tokens(group)
    if group == "key":
        return np.full(len(tokens), (task.length - task.q) / len(tokens))
    memory_rows, reasoning_rows = _row_counts(task, masked)
    rows, kind = (memory_rows, "mem") if group == "memory_anchor" else (reasoning_rows, "rsn")
    if not rows:
        return np.zeros(len(tokens))
    return rows / (memory_rows + reasoning_rows) * _occurrences(_combinations(task, kind, masked), tokens).mean(1)


def population_pull(task: AnchorTask, masked: bool = False) -> Float[np.ndarray, "d_vocab d_vocab"]:
    """R[s] = r_s (P^s - u) of Eqs. (5), (10), (11) from the populations; the row of a token that never occurs is 0.

    >>> from rb_interp.tasks import AnchorTask
    >>> R = population_pull(AnchorTask.preset("paper"))
    >>> bool(np.isclose(R[3, 50], 0.1 * (1 / 100 - 1 / 200))), bool(R[0].any())
    (True, False)
    """
    found = np.zeros((task.d_vocab, task.d_vocab))
    for group in GROUPS:
        rate = rates(task, group, masked)
        if rate.any():
            found[task.tokens(group)] = rate[:, None] * excess(population(task, group, masked))
    return found


def empirical(
    data: AnchorDataset, tokens: Int[np.ndarray, " token"], count: str = "occurrences", rows: str = "train"
) -> tuple[Float[np.ndarray, " token"], Float[np.ndarray, "token d_vocab"]]:
    """Rates r_s and label distributions P^s in the rows of a set; P^s of a token that is not there is nan.

    Raises ConfigError for an unknown ``count``, TaskError for an unknown set.

    >>> from rb_interp.tasks import AnchorTask
    >>> data = AnchorTask().dataset(seed=0)
    >>> rate, P = empirical(data, np.array([11, 0]))
    >>> float(P[0].sum()), float(rate[1]), bool(np.isnan(P[1]).all())
    (1.0, 0.0, True)
    """
    check_count(count)
    at, d = data.rows(rows), data.task.d_vocab
    seen = np.sort(data.tokens[at], 1)
    counted = np.ones(seen.shape, dtype=bool)
    if count == "sequences":
        counted[:, 1:] = seen[:, 1:] != seen[:, :-1]
    flat = (seen * d + data.labels[at][:, None])[counted]
    table = np.bincount(flat, minlength=d * d).reshape(d, d)[tokens].astype(np.float64)
    total = table.sum(1, keepdims=True)
    return total[:, 0] / max(len(at), 1), table / np.where(total > 0, total, np.nan)


def excess(P: Float[np.ndarray, "token d_vocab"]) -> Float[np.ndarray, "token d_vocab"]:
    """P^s - u with u = 1 / d_vocab: what pulls at the token's embedding (Eq. 5); each row sums to 0."""
    return P - 1 / P.shape[1]


def reasoning_moments(task: AnchorTask) -> tuple[float, float]:
    """Mean of (label - s) and variance of the label under Eq. (8), in tokens and tokens squared.

    E Z + (q - 1) E A  and  (N_Z^2 - 1) / 12 + (q - 1) (N_A^2 - 1) / 12.

    >>> from rb_interp.tasks import AnchorTask
    >>> reasoning_moments(AnchorTask.preset("paper"))
    (86.0, 841.5)
    """
    spans = [task.keys] + [task.reasoning_anchors] * (task.q - 1)
    mean = sum((low + high) / 2 for low, high in spans)
    return mean, sum(((high - low + 1) ** 2 - 1) / 12 for low, high in spans)


def check_count(count: str) -> None:
    """Raise ConfigError, with the nearest name, where a way of counting does not exist."""
    if count not in COUNTS:
        raise ConfigError(f"count='{count}' is no way to count a token; {nearest(count, COUNTS)}")


def _check_occurs(task: AnchorTask, group: str, memory_rows: int, reasoning_rows: int) -> None:
    rows = {"key": 1, "memory_anchor": memory_rows, "reasoning_anchor": reasoning_rows}[group]
    if not rows:
        raise TaskError(
            f"'{group}' never occurs in the rows of a task with memory_share={task.memory_share}, so it has no label "
            f"distribution; change memory_share or masked, or choose another group."
        )


def _row_counts(task: AnchorTask, masked: bool) -> tuple[int, int]:
    """Memory and reasoning rows; with ``masked`` those that are trained on."""
    memory, reasoning = (
        task.rows_per_combination(name) * len(_combinations(task, kind, masked))
        for name, kind in (("mem", "mem"), ("rsn_train", "rsn"))
    )
    return memory, reasoning


def _combinations(task: AnchorTask, kind: str, masked: bool) -> Int[np.ndarray, "combination q"]:
    if kind == "mem":
        return task.combinations("mem")
    sets = ("rsn_train",) if masked else ("rsn_train", "rsn_test")
    return np.concatenate([task.combinations(name) for name in sets])


def _occurrences(
    combinations: Int[np.ndarray, "combination q"], tokens: Int[np.ndarray, " token"]
) -> Int[np.ndarray, "token combination"]:
    return np.stack([(combinations == token).sum(1) for token in tokens.tolist()])


def _enumerated(
    task: AnchorTask, kind: str, masked: bool
) -> tuple[Float[np.ndarray, "key d_vocab"], Float[np.ndarray, "token d_vocab"]]:
    """P of each own key and of each anchor of a kind, as a mean over all combinations and keys."""
    combinations, keys = _combinations(task, kind, masked), task.tokens("key")
    if kind == "mem":
        groups = np.repeat(np.arange(len(task.memory_groups())), len(combinations) // len(task.memory_groups()))
        low, high = label_bounds(task.memory_labels, combinations, keys, groups, task.label_ranges)
    else:
        low = high = keys[None, :] + combinations.sum(1)[:, None]
    tokens = task.tokens("memory_anchor" if kind == "mem" else "reasoning_anchor")
    weights = _occurrences(combinations, tokens).astype(np.float64)
    weights /= np.maximum(weights.sum(1, keepdims=True), 1)
    of_keys, of_anchors = np.zeros((len(keys), task.d_vocab)), np.zeros((len(tokens), task.d_vocab))
    for k in range(len(keys)):
        uniform = _uniform_on(low[:, k], high[:, k], task.d_vocab)
        of_keys[k] = uniform.mean(0)
        of_anchors += weights @ uniform / len(keys)
    return of_keys, of_anchors


def _uniform_on(
    low: Int[np.ndarray, " n"], high: Int[np.ndarray, " n"], d_vocab: int
) -> Float[np.ndarray, "n d_vocab"]:
    labels = np.arange(d_vocab)
    inside = (labels >= low[:, None]) & (labels <= high[:, None])
    return inside / (high - low + 1)[:, None]


def _shifted(task: AnchorTask, tokens: Int[np.ndarray, " token"], n_anchors: int) -> Float[np.ndarray, "token d_vocab"]:
    """Distribution of token + (a key, for an anchor) + n_anchors reasoning anchors, all independent, by convolution."""
    anchors = [task.reasoning_anchors] * n_anchors
    spans = anchors if n_anchors == task.q else [task.keys, *anchors]
    total = np.ones(1)
    for low, high in spans:
        total = np.convolve(total, np.r_[np.zeros(low), np.full(high - low + 1, 1 / (high - low + 1))])
    found = np.zeros((len(tokens), task.d_vocab))
    for row, token in zip(found, tokens.tolist(), strict=True):
        row[token : token + len(total)] = total
    return found
