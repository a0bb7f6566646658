"""Rows with labels, sets and roles: a dataset for any task, and that of the anchor task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TaskError, nearest
from rb_interp.record import Record
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.labels import bounds_of, first_of_its_anchors
from rb_interp.tasks.roles import Roles, selected
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.tasks.anchor import AnchorTask

SETS = ("mem", "rsn_train", "rsn_test")
"""Memory (all of it trained on), reasoning trained on, reasoning held out."""
TRAIN_SETS = SETS[:2]


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Record):
    """The rows that one seed draws.

    Attributes:
        seed: that drew them; fixes samples and batch order too.
        tokens: ``[row, pos]``.
        labels: ``[row]``, the answer at the last position; or ``[row, pos]``, the token that follows each position
            (-1: nothing to predict there), for a task that predicts every next token.
        set: ``[row]``, index into ``sets``.
        sets: names of the sets. train_sets: those that are trained on.
        positions: role -> positions ``[row, n]``. groups: group -> token ids. See ``Roles``.
        name: of the task, for messages.
        batch_sets: a training batch takes the same number of rows from each; ``("train",)`` is one pool of all.

    Raises TaskError where lengths or names disagree.

    >>> tokens, copied = np.array([[1, 2], [3, 4], [5, 6]]), np.array([1, 3, 5])
    >>> data = Dataset(0, tokens, copied, np.array([0, 0, 1]), ("seen", "new"), ("seen",), {"first": np.zeros((3, 1))})
    >>> data.rows("train").tolist(), data.rows("new").tolist(), data.roles(data.rows("new")).set.tolist()
    ([0, 1], [2], ['new'])
    """

    seed: int
    tokens: Int[np.ndarray, "row pos"]
    labels: Int[np.ndarray, "row ..."]
    set: Int[np.ndarray, " row"]
    sets: tuple[str, ...]
    train_sets: tuple[str, ...]
    positions: Mapping[str, np.ndarray] = field(default_factory=dict)
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    name: str = "this task"
    batch_sets: tuple[str, ...] = ("train",)

    def __post_init__(self) -> None:
        lengths = {"tokens": len(self.tokens), "labels": len(self.labels), "set": len(self.set)}
        lengths |= {f"positions['{role}']": len(at) for role, at in self.positions.items()}
        if len(set(lengths.values())) > 1:
            raise TaskError(f"{self.name}: numbers of rows differ ({lengths}); give each one entry a row.")
        if len(self.set) and not 0 <= self.set.min() <= self.set.max() < len(self.sets):
            raise TaskError(
                f"{self.name}: set holds {self.set.min()} to {self.set.max()}; expected indices into sets={self.sets}."
            )
        for name in (*self.train_sets, *self.batch_sets):
            self._number(name)

    def __len__(self) -> int:
        return len(self.tokens)

    def _number(self, set: str) -> int:
        """Place of a name among the sets and ``train``."""
        known = (*self.sets, "train")
        if set not in known:
            raise TaskError(f"there is no set '{set}'; {nearest(set, known)}")
        return known.index(set)

    @typed
    def rows(self, set: str) -> Int[np.ndarray, " n"]:
        """Row numbers of a set, or of ``train``: all sets that are trained on."""
        number = self._number(set)
        chosen = [self.sets.index(name) for name in self.train_sets] if set == "train" else [number]
        return np.flatnonzero(np.isin(self.set, chosen))

    @typed
    def sample(self, set: str, n: int) -> Int[np.ndarray, " n"]:
        """Up to n fixed rows of a set, the same at every call; all of them where the set is smaller."""
        rng = np.random.default_rng([self.seed, self._number(set), n, 3])
        return np.sort(rng.permutation(self.rows(set))[:n])

    @typed
    def roles(self, rows: Int[np.ndarray, " n"] | None = None) -> Roles:
        """Roles of the given rows, by default of all; RolesError for rows that are not there."""
        at = slice(None) if rows is None else selected(rows, len(self))
        positions = {role: positions[at] for role, positions in self.positions.items()}
        return Roles(positions, self.groups, np.array(self.sets)[self.set[at]], self.name)

    @typed
    def inputs(self, rows: Int[np.ndarray, " n"]) -> Inputs:
        """Tokens, right answers at the last position, and roles of the given rows; RolesError for other rows."""
        rows = selected(rows, len(self))
        labels = self.labels[rows]
        return Inputs(self.tokens[rows], labels if labels.ndim == 1 else labels[:, -1], self.roles(rows))


@typed
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnchorDataset(Dataset):
    """The rows that one seed draws of an anchor task, with roles ``key``, ``anchor`` and ``noise``.

    Attributes:
        task: whose rows these are.
        label_table: ``[memory combination, key]``, as in ``task.combinations("mem")`` and ``task.tokens("key")``.
    """

    task: AnchorTask
    label_table: Int[np.ndarray, "combination key"]

    @property
    def key_position(self) -> Int[np.ndarray, " row"]:
        """Where each row's key stands."""
        return self.positions["key"][:, 0]

    @property
    def anchor_positions(self) -> Int[np.ndarray, "row q"]:
        """Where each row's anchors stand, in order."""
        return self.positions["anchor"]

    def fresh_keys(self, rows: Int[np.ndarray, " row"], rng: np.random.Generator) -> Int[np.ndarray, " row"]:
        """A key for each of the given rows, drawn evenly from all keys."""
        return rng.choice(self.task.tokens("key"), len(rows))


def draw_dataset(task: AnchorTask, seed: int) -> AnchorDataset:
    """Draw the label table (stream 1 of the seed) and the rows (stream 2); the labels are left at 0."""
    keys, memory = task.tokens("key"), task.combinations("mem")
    low, high = bounds_of(task)
    table = np.random.default_rng([seed, 1]).integers(low, high + 1)
    if task.unordered:
        table = table[first_of_its_anchors(memory)]
    per_set = [np.repeat(task.combinations(set), task.rows_per_combination(set), axis=0) for set in SETS]
    anchors = np.concatenate(per_set)
    n, q = anchors.shape
    rng = np.random.default_rng([seed, 2])
    tokens = rng.integers(keys[0], keys[-1] + 1, (n, task.length))
    key_position = rng.integers(0, task.length - q, n)[:, None]
    if task.balanced_keys:  # rows of one combination stand together, in multiples of the number of keys
        np.put_along_axis(tokens, key_position, np.resize(keys, n)[:, None], 1)
    anchor_positions = key_position + 1 + np.arange(q)
    np.put_along_axis(tokens, anchor_positions, anchors, 1)
    noise = np.ones((n, task.length), dtype=bool)
    np.put_along_axis(noise, key_position + np.arange(q + 1), False, 1)
    positions = {
        "key": key_position,
        "anchor": anchor_positions,
        "noise": np.nonzero(noise)[1].reshape(n, task.length - q - 1),
    }
    groups = {name: task.tokens(name) for name in ("key", "memory_anchor", "reasoning_anchor")}
    return AnchorDataset(
        seed=seed,
        tokens=tokens,
        labels=np.zeros(n, dtype=tokens.dtype),
        set=np.repeat(np.arange(len(SETS)), [len(rows) for rows in per_set]),
        sets=SETS,
        train_sets=TRAIN_SETS,
        positions=positions,
        groups=groups,
        name="the anchor task",
        task=task,
        label_table=table,
    )
