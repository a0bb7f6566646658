"""All references by name."""

from __future__ import annotations

from collections.abc import Callable

from rb_interp.errors import ModelError, TaskError, nearest
from rb_interp.models.reference.averager import averager, peaked_averager
from rb_interp.models.reference.carrier import carrier
from rb_interp.models.reference.halves import anchors_only, condensed, key_only
from rb_interp.models.reference.memoriser import memoriser
from rb_interp.models.reference.record import Reference
from rb_interp.tasks.anchor import AnchorTask
from rb_interp.typed import typed

_BUILD: dict[str, Callable[[AnchorTask, int, int], Reference]] = {
    "averager": averager,
    "peaked_averager": peaked_averager,
    "carrier": carrier,
    "memoriser": memoriser,
    "key_only": key_only,
    "anchors_only": anchors_only,
    "condensed": condensed,
}

REFERENCES = tuple(_BUILD)
"""Names of the references: three that solve the rule, one that solves the table, three that solve nothing."""


@typed
def reference(name: str, task: AnchorTask | None = None, seed: int = 0, label_seed: int | None = None) -> Reference:
    """A hand-written transformer for an anchor task (the default one if none is given).

    ``seed`` draws what plays no part, such as the random vectors by which tokens differ. ``label_seed`` says whose
    memory labels the memoriser knows: those of ``task.dataset(label_seed)``; by default those of ``seed``.

    Raises ModelError for an unknown name or a task that this reference cannot do, TaskError where labels of the
    reasoning half lie outside the vocabulary.

    >>> found = reference("averager")
    >>> found.circuit, found.solves, "averages" in found.mechanisms
    ('average-then-key', ('rsn_train', 'rsn_test'), True)
    """
    if name not in _BUILD:
        raise ModelError(f"there is no reference model '{name}'; {nearest(name, REFERENCES)}")
    task = AnchorTask() if task is None else task
    anchors = max(task.reasoning_anchors[1], task.memory_anchors[1])
    highest = task.keys[1] + task.q * anchors
    if highest >= task.d_vocab:
        raise TaskError(
            f"reference models add keys and anchors, here up to {highest}, outside d_vocab={task.d_vocab}; "
            f"raise d_vocab above {highest}."
        )
    return _BUILD[name](task, seed, seed if label_seed is None else label_seed)
