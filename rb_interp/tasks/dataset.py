"""What a task must have to be trained on and probed, and the dataset that fits any task.

A task is a few settings and a way to draw rows; it inherits from no class. Its rows are a
`Dataset`.

A counterfactual differs from a given row in one thing: key, anchors, one anchor, both, or noise.
Position, set and everything that is not named stay as they were. Patching asks what carries the
difference between a row and its counterfactual. A counterfactual in noise alone has the same
answer; it shows what a patch does that carries nothing.

The rows are of an AnchorDataset, or of another dataset with a key and anchors in each row: it has
``anchor_positions`` and ``fresh_keys(rows, rng)``, and its task has ``q``, ``tokens("key")``,
``combinations(set)`` and ``answers(data, rows, tokens)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from rb_interp.arguments import checked
from rb_interp.errors import TaskError, nearest
from rb_interp.settings import Settings, class_name, fingerprint
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.inputs import Inputs, Roles, RowNumbers, as_positions, selected

Evaluation = Float[np.ndarray, "member set 2"]
"""One evaluation: loss (nats) and accuracy of every member on every set, in the task's order."""
HALF = 0.5
"""The stage ``half`` is reached when the loss on rsn_train is at most this share of ln d_vocab."""


@checked
@dataclass(frozen=True)
class Stage:
    """A point of a member's learning curve at which its weights are stored.

    Attributes:
        reached: takes an evaluation and that of step 0. Returns True for each member that has
            reached the stage.
        occurrence: ``first`` or ``last`` stores the first or last such evaluation, or the last step
            if none comes.
        delay: steps after the first such evaluation; the next evaluation is stored.
        with_siblings: store all members of the same seed too, in the same file.

    >>> learned = Stage(lambda now, start: now[:, 0, 1] >= 0.9)
    >>> learned.reached(np.array([[[0.1, 0.95]], [[2.0, 0.3]]]), np.zeros((2, 1, 2))).tolist()
    [True, False]
    """

    reached: Callable[[Evaluation, Evaluation], Bool[np.ndarray, " member"]]
    occurrence: Literal["first", "last"] = "first"
    delay: int = 0
    with_siblings: bool = False


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Dataset(TableRepr):
    """The rows that one seed draws.

    Attributes:
        seed: that drew them; fixes samples and batch order too.
        labels: ``[row]``, the answer at the last position; or ``[row, pos]``, the token that
            follows each position (-1: nothing to predict there), for a task that predicts every
            next token.
        set: ``[row]``, index into ``sets``.
        sets: names of the sets.
        train_sets: names of the sets that are trained on.
        positions: role -> positions ``[row, n]``; see ``Roles``.
        groups: group -> token ids; see ``Roles``.
        batch_sets: a training batch takes the same number of rows from each; ``("train",)`` is one
            pool of all.

    Raises TaskError if lengths or names disagree.

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
        positions = {}
        lengths = {"tokens": len(self.tokens), "labels": len(self.labels), "set": len(self.set)}
        for role, values in self.positions.items():
            positions[role] = as_positions(role, values)
            lengths[f"positions['{role}']"] = len(positions[role])
        object.__setattr__(self, "positions", positions)
        if len(set(lengths.values())) > 1:
            raise TaskError(
                f"{self.name}: numbers of rows differ ({lengths}); give each one entry a row."
            )
        if len(self.set) and not 0 <= self.set.min() <= self.set.max() < len(self.sets):
            raise TaskError(
                f"{self.name}: set holds {self.set.min()} to {self.set.max()}; expected indices "
                f"into sets={self.sets}."
            )
        for name in (*self.train_sets, *self.batch_sets):
            self._number(name)

    def __len__(self) -> int:
        return len(self.tokens)

    def _number(self, set: str) -> int:
        """Index of a name among the sets and ``train``."""
        known = (*self.sets, "train")
        if set not in known:
            raise TaskError(f"there is no set '{set}'; {nearest(set, known)}")
        return known.index(set)

    @checked
    def rows(self, set: str) -> Int[np.ndarray, " n"]:
        """Row numbers of a set, or of ``train``: all sets that are trained on."""
        numbers = [self._number(set)]
        if set == "train":
            numbers = [self.sets.index(name) for name in self.train_sets]
        return np.flatnonzero(np.isin(self.set, numbers))

    @checked
    def sample(self, set: str, n: int) -> Int[np.ndarray, " n"]:
        """Up to n fixed rows of a set, the same at every call; all rows of a smaller set."""
        rng = np.random.default_rng([self.seed, self._number(set), n, 3])
        return np.sort(rng.permutation(self.rows(set))[:n])

    @checked
    def roles(self, rows: RowNumbers | None = None) -> Roles:
        """Roles of the given rows, by default of all; RolesError if there are no such rows."""
        numbers = slice(None) if rows is None else selected(rows, len(self))
        positions = {role: positions[numbers] for role, positions in self.positions.items()}
        return Roles(positions, self.groups, np.array(self.sets)[self.set[numbers]], self.name)

    @checked
    def inputs(self, rows: RowNumbers) -> Inputs:
        """Tokens, right answers at the last position, and roles of the given rows.

        Raises RolesError if there are no such rows.
        """
        numbers = selected(rows, len(self))
        labels = self.labels[numbers]
        answers = labels if labels.ndim == 1 else labels[:, -1]
        return Inputs(self.tokens[numbers], answers, self.roles(numbers))


class TaskSettings(Settings):
    """Settings that are a task; a subclass of a task has another fingerprint."""

    def fingerprint(self) -> str:
        """Twelve hex digits of class and settings."""
        return fingerprint(self)


@runtime_checkable
class Task(Protocol):
    """What is learned.

    ``counterfactual(data, rows, change, seed=0) -> Inputs`` is optional: the same rows with one
    thing changed, and their right answers. ``spectra`` is optional too, name -> token ids of
    ``training.tracking``.
    """

    @property
    def d_vocab(self) -> int: ...

    @property
    def length(self) -> int:
        """Positions that a model sees."""
        ...

    @property
    def sets(self) -> tuple[str, ...]: ...

    @property
    def train_sets(self) -> tuple[str, ...]:
        """Sets that are trained on; ``rb-interp patch`` takes rows of the last by default."""
        ...

    @property
    def predicts(self) -> str:
        """``last``: the answer at the last position. ``next``: every next token."""
        ...

    @property
    def stages(self) -> Mapping[str, Stage]:
        """Points of a member's learning curves that training can keep, by name."""
        ...

    def dataset(self, seed: int) -> Dataset:
        """The rows of a seed; the same seed gives the same rows."""
        ...

    def fingerprint(self) -> str:
        """Identity of the task; ``tasks.fingerprint`` makes it for any dataclass."""
        ...


def vocabulary(task: Task, data: Dataset) -> int:
    """Tokens that a model must know: ``d_vocab`` of a dataset of text, else that of the task."""
    return getattr(data, "d_vocab", task.d_vocab)


CHANGES = {
    "key": ("key",),
    "anchors": ("anchors",),
    "both": ("key", "anchors"),
    "noise": ("noise",),
}
"""What ``counterfactual`` can change, besides one anchor alone: ``anchor_1`` .. ``anchor_q``."""
TRIES = 1000
"""Draws of a row before giving up on finding another answer."""


def changed_rows(data: Any, rows: Int[np.ndarray, " row"], change: str, seed: int) -> Inputs:
    """The rows with a change, and their answers by ``data.task.answers``.

    See ``AnchorTask.counterfactual``.
    """
    changes = CHANGES | {name: (name,) for name in single_anchors(data.task.q)}
    if change not in changes:
        raise TaskError(f"a counterfactual cannot change '{change}'; {nearest(change, changes)}")
    answers = data.task.answers(data, rows, data.tokens[rows])
    n_wrong = int((answers != data.labels[rows]).sum())
    if n_wrong:
        raise TaskError(
            f"{n_wrong} of {len(rows)} labels are not what {class_name(data.task)}.answers gives, "
            f"so the answers of changed rows are not known; override answers(data, rows, tokens) "
            f"as well as the labels."
        )
    tokens = data.tokens[rows].copy()
    labels = data.labels[rows].copy()
    rng = np.random.default_rng([data.seed, seed, 5])
    left = np.arange(len(rows))
    for _ in range(TRIES):
        redrawn = _redrawn(data, rows[left], changes[change], rng)
        answers = data.task.answers(data, rows[left], redrawn)
        differs = answers != data.labels[rows[left]]
        fits = ~differs if change == "noise" else differs
        tokens[left[fits]] = redrawn[fits]
        labels[left[fits]] = answers[fits]
        left = left[~fits]
        if not len(left):
            return Inputs(tokens, labels, data.roles(rows))
    failure = "change their answer with" if change == "noise" else "keep their answer whatever"
    raise TaskError(
        f"{len(left)} of {len(rows)} rows {failure} the {' and '.join(changes[change])}; use a task "
        f"with more than one key and more than one combination in each set, or another change."
    )


def single_anchors(q: int) -> tuple[str, ...]:
    """Names of the changes of one anchor alone, in the order of the anchors."""
    return tuple(f"anchor_{number + 1}" for number in range(q))


def _redrawn(
    data: Any, rows: Int[np.ndarray, " row"], parts: tuple[str, ...], rng: np.random.Generator
) -> Int[np.ndarray, "row pos"]:
    """The rows with a fresh key, fresh anchors of their set (all, or one), or fresh noise."""
    tokens = data.tokens[rows].copy()
    if "noise" in parts:
        keys = data.task.tokens("key")
        noise = data.positions["noise"][rows]
        np.put_along_axis(tokens, noise, rng.integers(keys[0], keys[-1] + 1, noise.shape), 1)
    if "key" in parts:
        fresh = data.fresh_keys(rows, rng)
        np.put_along_axis(tokens, data.positions["key"][rows], fresh[:, None], 1)
    single = [number for number, name in enumerate(single_anchors(data.task.q)) if name in parts]
    if "anchors" not in parts and not single:
        return tokens
    for number, name in enumerate(data.sets):
        members = np.flatnonzero(data.set[rows] == number)
        if not len(members):
            continue
        combinations = data.task.combinations(name)
        cells = members[:, None], data.anchor_positions[rows[members]]
        if single:
            # any combination that agrees in all other anchors, the row's included
            fits = _agree_elsewhere(combinations, tokens[cells], single[0])
            draws = (rng.random(fits.shape) * fits).argmax(1)
        else:
            draws = rng.integers(0, len(combinations), len(members))
        tokens[cells] = combinations[draws]
    return tokens


def _agree_elsewhere(
    combinations: Int[np.ndarray, "combination q"], anchors: Int[np.ndarray, "row q"], number: int
) -> Bool[np.ndarray, "row combination"]:
    """Whether each combination agrees with each row's anchors in all anchors but one."""
    elsewhere = np.arange(anchors.shape[1]) != number
    return (anchors[:, None, elsewhere] == combinations[None, :, elsewhere]).all(2)


def can_change_anchor(
    data: Any, rows: Int[np.ndarray, " row"], number: int
) -> Bool[np.ndarray, " row"]:
    """Whether the set of each row has another combination that differs in one anchor alone.

    >>> from rb_interp.tasks import AnchorTask
    >>> data = AnchorTask().dataset(seed=0)
    >>> [bool(can_change_anchor(data, data.rows(set), 0).all()) for set in ("rsn_train", "rsn_test")]
    [True, False]
    """
    changeable = np.zeros(len(rows), dtype=bool)
    for index, name in enumerate(data.sets):
        members = np.flatnonzero(data.set[rows] == index)
        if len(members):
            member_rows = rows[members]
            anchors = data.tokens[member_rows[:, None], data.anchor_positions[member_rows]]
            agree = _agree_elsewhere(data.task.combinations(name), anchors, number)
            changeable[members] = agree.sum(1) > 1
    return changeable


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


def label_entropy(labels: Int[np.ndarray, " row"]) -> float:
    """Entropy in nats of the labels' frequencies, in [0, ln n], the loss of knowing nothing else;
    nan without labels.

    >>> round(label_entropy(np.array([3, 3, 7, 7])) - math.log(2), 9)
    0.0
    """
    return entropy(np.unique(labels, return_counts=True)[1]) if len(labels) else math.nan


def entropy(counts: Int[np.ndarray, " label"]) -> float:
    """Entropy in nats of the frequencies that counts give; 0 if one label has them all."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0
