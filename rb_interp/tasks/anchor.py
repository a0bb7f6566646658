"""The anchor task: composite anchor functions of paper 1, section "Data", Eq. (1).

A sequence holds noise keys, one key z immediately followed by q anchors a_1..a_q, and noise keys
again. Its label, read at the last position, depends on (z, a) alone:

- reasoning anchors:  z + a_1 + ... + a_q;
- memory anchors:     one fixed label for each (z, a), drawn from one of three distributions (Fig. 8):

    ``keys``      uniform on the key set (the paper's F_mem, and F_mem,1 of Fig. 8 left)
    ``near_sum``  uniform on {z - (a_1 + ... + a_q), ..., z + (a_1 + ... + a_q)} (F_mem,2 of
                  Fig. 8 left)
    ``ranges``    uniform on the given range of the combination's group (Fig. 8 right)

Reasoning combinations listed in ``masked`` never occur in training. There are no mixed
combinations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from rb_interp.arguments import checked
from rb_interp.errors import ConfigError, TaskError
from rb_interp.tasks.anchor_settings import GROUPS, SETS, AnchorSettings, label_bounds
from rb_interp.tasks.counterfactual import changed_rows
from rb_interp.tasks.dataset import HALF, Dataset, Stage
from rb_interp.tasks.inputs import Inputs, RowNumbers, other_positions, selected

PLATEAU = 0.99
"""A member leaves its first plateau when the share of ln d_vocab that is left is below this."""
MEMORY_ACCURACY = 0.20
"""Memory counts as not learned up to this accuracy."""
MEMORY = SETS.index("mem")
REASONING = SETS.index("rsn_train")


@checked
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnchorDataset(Dataset):
    """The rows that one seed draws of an anchor task, with roles ``key``, ``anchor`` and ``noise``.

    Attributes:
        task: that the rows are of.
        label_table: ``[memory combination, key]``, as in ``task.combinations("mem")`` and
            ``task.tokens("key")``.
    """

    task: AnchorTask
    label_table: Int[np.ndarray, "combination key"]

    @property
    def key_position(self) -> Int[np.ndarray, " row"]:
        """Position of each row's key."""
        return self.positions["key"][:, 0]

    @property
    def anchor_positions(self) -> Int[np.ndarray, "row q"]:
        """Positions of each row's anchors, in order."""
        return self.positions["anchor"]

    def fresh_keys(
        self, rows: Int[np.ndarray, " row"], rng: np.random.Generator
    ) -> Int[np.ndarray, " row"]:
        """A key for each of the given rows, drawn evenly from all keys."""
        return rng.choice(self.task.tokens("key"), len(rows))


class AnchorTask(AnchorSettings):
    """Settings of an anchor task; ranges are inclusive, token ids are the integers themselves.

    A subclass with other labels overrides ``answers``; dataset and counterfactuals follow it. While
    the dataset is made, ``answers`` sees the plain labels in ``data.labels``.

    Raises TaskError if settings contradict each other.

    >>> task = AnchorTask()
    >>> data = task.dataset(seed=0)
    >>> row = data.rows("rsn_test")[0]
    >>> key, anchors = data.tokens[row, data.key_position[row]], data.tokens[row, data.anchor_positions[row]]
    >>> bool(data.labels[row] == key + anchors.sum()), sorted(anchors.tolist())
    (True, [11, 13])
    """

    @property
    def stages(self) -> Mapping[str, Stage]:
        """Stages of a member, by f = loss on rsn_train / ln d_vocab and by the accuracy on mem.

        ``half``: f <= 1/2, with the same-seed siblings. ``leaving``: f < .99, the member leaves the
        plateau that it starts on. ``before_memory``: the last evaluation with an accuracy of at
        most .20.
        """
        top = math.log(self.d_vocab)
        half = Stage(lambda now, start: now[:, REASONING, 0] / top <= HALF, with_siblings=True)
        leaving = Stage(lambda now, start: now[:, REASONING, 0] / top < PLATEAU)
        before_memory = Stage(lambda now, start: now[:, MEMORY, 1] <= MEMORY_ACCURACY, keep="last")
        return {"half": half, "leaving": leaving, "before_memory": before_memory}

    @checked
    def dataset(self, seed: int) -> AnchorDataset:
        """Draw label table and rows; the same seed gives the same rows on every machine."""
        per_set = []
        for set in SETS:
            n_rows = self.rows_per_combination(set)
            per_set.append(np.repeat(self.combinations(set), n_rows, axis=0))
        anchors = np.concatenate(per_set)
        n, q = anchors.shape
        keys = self.tokens("key")
        rng = np.random.default_rng([seed, 2])
        tokens = rng.integers(keys[0], keys[-1] + 1, (n, self.length))
        key_position = rng.integers(0, self.length - q, n)[:, None]
        if self.balanced_keys:
            # rows of one combination stand together, in multiples of the number of keys
            np.put_along_axis(tokens, key_position, np.resize(keys, n)[:, None], 1)
        anchor_positions = key_position + 1 + np.arange(q)
        np.put_along_axis(tokens, anchor_positions, anchors, 1)
        positions = {"key": key_position, "anchor": anchor_positions}
        positions["noise"] = other_positions(positions, self.length)
        unlabelled = AnchorDataset(
            seed=seed,
            tokens=tokens,
            labels=np.zeros(n, dtype=tokens.dtype),
            set=np.repeat(np.arange(len(SETS)), [len(rows) for rows in per_set]),
            sets=SETS,
            train_sets=self.train_sets,
            positions=positions,
            groups={name: self.tokens(name) for name in GROUPS.values()},
            name="the anchor task",
            task=self,
            label_table=self._label_table(seed),
        )
        rows = np.arange(n)
        plain = replace(unlabelled, labels=AnchorTask.answers(self, unlabelled, rows, tokens))
        return replace(plain, labels=self.answers(plain, rows, tokens))

    def _label_table(self, seed: int) -> Int[np.ndarray, "combination key"]:
        low, high = label_bounds(self)
        table = np.random.default_rng([seed, 1]).integers(low, high + 1)
        if not self.unordered:
            return table
        # each combination has the label of the first one that holds the same anchors
        anchors = np.sort(self.combinations("mem"), 1)
        _, first, group = np.unique(anchors, axis=0, return_index=True, return_inverse=True)
        return table[first[group.reshape(-1)]]

    @checked
    def answers(
        self, data: AnchorDataset, rows: Int[np.ndarray, " row"], tokens: Int[np.ndarray, "row pos"]
    ) -> Int[np.ndarray, " row"]:
        """Right answers of tokens that have key and anchors where the given rows of a dataset do.

        Raises TaskError for tokens of another length, and if a memory row holds no key and memory
        anchors.
        """
        rows = selected(rows, len(data))
        if tokens.shape[1:] != data.tokens.shape[1:] or (tokens.size and tokens.min() < 0):
            raise TaskError(
                f"got tokens of shape {list(tokens.shape)}; expected [row, "
                f"{data.tokens.shape[1]}], 0 or more."
            )
        key = np.take_along_axis(tokens, data.positions["key"][rows], 1)[:, 0]
        anchors = np.take_along_axis(tokens, data.anchor_positions[rows], 1)
        memory = data.set[rows] == MEMORY
        labels = key + anchors.sum(1)
        are_keys = np.isin(key[memory], self.tokens("key"))
        are_anchors = np.isin(anchors[memory], self.tokens("memory_anchor"))
        if not (are_keys.all() and are_anchors.all()):
            raise TaskError(
                "a memory row holds other tokens where its key and its memory anchors stand; give "
                "those."
            )
        combination = combination_numbers(anchors[memory], self.combinations("mem"))
        labels[memory] = data.label_table[combination, key[memory] - self.keys[0]]
        return labels

    @checked
    def counterfactual(
        self, data: AnchorDataset, rows: RowNumbers, change: str, seed: int = 0
    ) -> Inputs:
        """The same rows with one thing changed, and their right answers.

        ``change`` is ``key``, ``anchors``, ``both`` or ``noise``. A changed key or combination is
        drawn evenly from the others of its set, again and again until it has another right answer.
        ``anchor_1`` .. ``anchor_q`` change one anchor alone, to a combination of the same set. Noise
        is drawn anew from all keys. The same seed gives the same rows.

        Raises TaskError for an unknown change, if a row has no counterfactual with another answer,
        and if the rows' labels are not those of ``answers``.

        >>> task = AnchorTask()
        >>> data = task.dataset(seed=0)
        >>> rows = data.sample("rsn_train", 50)
        >>> bool((task.counterfactual(data, rows, "noise").labels == data.labels[rows]).all())
        True
        """
        return changed_rows(data, selected(rows, len(data)), change, seed)


def range_entropy(data: AnchorDataset) -> float:
    """Mean entropy (nats) of a memory label that is known to lie in its range.

    The loss of a model that knows the range of each row's label (`label_bounds`) and nothing else.
    The mean is over the memory rows; returns NaN if there are none.

    >>> bool(np.isclose(range_entropy(AnchorTask().dataset(seed=0)), np.log(40)))         # 40 keys
    True
    """
    task = data.task
    rows = data.rows("mem")
    if not len(rows):
        return math.nan
    low, high = label_bounds(task)
    anchors = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1)
    combination = combination_numbers(anchors, task.combinations("mem"))
    key = data.tokens[rows, data.key_position[rows]] - task.keys[0]
    return float(np.log((high - low + 1)[combination, key]).mean())


def combination_numbers(
    anchors: Int[np.ndarray, "row q"], combinations: Int[np.ndarray, "combination q"]
) -> Int[np.ndarray, " row"]:
    """Number of each row's combination among different combinations that hold it.

    >>> combination_numbers(np.array([[2, 1], [1, 1]]), np.array([[1, 1], [1, 2], [2, 1]])).tolist()
    [2, 0]
    """
    numbers = {}
    for number, combination in enumerate(combinations.tolist()):
        numbers[tuple(combination)] = number
    return np.array([numbers[tuple(row)] for row in anchors.tolist()], dtype=np.int64)


RATES: dict[str, tuple[tuple[float, float], ...]] = {
    "quick": ((0.3, 8e-3), (0.5, 4e-3), (0.8, 8e-3))
}
"""Preset -> learning rate by gamma on the anchor task, if gammas differ.

Of a fixed grid, those with the lowest training loss (``experiments/learning_rates.py``,
``results/learning_rates.csv``)."""


def check_both_kinds(task: AnchorTask) -> None:
    """Raise ConfigError for a task of memory alone or of reasoning alone; a study compares them."""
    if not 0 < task.memory_share < 1:
        raise ConfigError(
            f"memory_share={task.memory_share}; a study compares memory with reasoning, so give a "
            f"share between 0 and "
            f"1. train_members trains on one kind alone too."
        )
