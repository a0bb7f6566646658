"""The label study as a configuration, three sweeps of unlike memory labels, and its claims.

keys       labels uniform on the keys                               F_mem,1 of Fig. 8 left
near_sum   labels within the sum of anchors around the key          F_mem,2 of Fig. 8 left
ranges     groups of memory anchors, each with a label range        Fig. 8 right

R1 compares two members of the same seed that differ in their memory labels alone, so its reading
belongs to no sweep. R2 reads the sweep ``ranges``, where each group of memory anchors has a label
range of its own. Criteria were written down before the runs.
"""

from dataclasses import field, replace
from typing import Any, ClassVar

from rb_interp.claims import Claim, Term
from rb_interp.claims.claim import at_least, make_claim
from rb_interp.errors import ConfigError
from rb_interp.runs.config import StudyConfig, SweepConfig, sizes
from rb_interp.settings import SMALL, Gammas, ReadRows, differences, overlay
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.anchor import check_both_kinds

BEFORE_MEMORY = "before_memory"
STAGES = ("half", BEFORE_MEMORY)
STEPS = {"smoke": 300, "quick": 4000, "paper": 500_000}
RANGES = {"smoke": (22, 10), "quick": (30, 20), "paper": (30, 20)}
"""First label of every range, and the width of the first: {30, ..., 29 + 20 i} in the paper."""


class LabelsSweep(SweepConfig):
    """One of the three sweeps: an anchor task, learned by a Transformer."""

    gammas: Gammas = (SMALL,)
    task: AnchorTask = field(default_factory=AnchorTask)


def _changes(preset: str) -> dict[str, dict[str, Any]]:
    """The settings of each sweep that a preset changes."""
    low, width = RANGES[preset]
    ranges = tuple((low, low - 1 + width * number) for number in (1, 2, 3, 4))
    labels = {
        "keys": {},
        "near_sum": {"memory_labels": "near_sum"},
        "ranges": {"memory_anchors": (1, 8), "memory_labels": "ranges", "label_ranges": ranges},
    }
    shared = sizes(AnchorTask, preset)
    train = {**shared["train"], "stages": STAGES, "steps": STEPS[preset]}
    changes = {}
    for name, task in labels.items():
        changes[name] = {**shared, "task": {**shared["task"], **task}, "train": train}
    return changes


_QUICK = {}
for _name, _settings in _changes("quick").items():
    _QUICK[_name] = overlay(LabelsSweep(), _settings, "quick")


class LabelsConfig(StudyConfig):
    """The three sweeps, with the same seeds.

    ``keys`` and ``near_sum`` differ in ``task.memory_labels`` alone. Raises ConfigError if a sweep
    lacks the settings by which its name and its claims define it.

    >>> LabelsConfig.from_preset("smoke", seeds=(0,)).near_sum.task.memory_labels
    'near_sum'
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {**_changes("smoke"), "seeds": (0, 1)},
        "quick": {},
        "paper": _changes("paper"),
    }

    keys: LabelsSweep = _QUICK["keys"]
    """Memory labels uniform on the keys."""
    near_sum: LabelsSweep = _QUICK["near_sum"]
    """Memory labels uniform on the integers within the sum of the anchors around the key."""
    ranges: LabelsSweep = _QUICK["ranges"]
    """Memory labels uniform on a range of the anchors' group."""
    probe_rows: ReadRows = 1000
    """Memory rows that the probe sees, at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, sweep in self.sweeps.items():
            check_both_kinds(sweep.task)
            _check_defined(name, "task.memory_labels", sweep.task.memory_labels, name)
            architecture = sweep.model.architecture
            _check_defined(name, "model.architecture", architecture, "transformer")
            for stage in set(STAGES) - {*sweep.train.stages}:
                raise ConfigError(
                    f"{name}.train.stages={sweep.train.stages} lacks '{stage}', which study "
                    f"'labels' measures; add it."
                )
        relabelled = replace(self.near_sum.task, memory_labels="keys")
        difference = differences(self.keys, replace(self.near_sum, task=relabelled))
        if difference:
            raise ConfigError(
                f"sweeps 'keys' (there) and 'near_sum' (here) of study 'labels' differ in "
                f"{difference}; they are compared, so change both alike."
            )


def _check_defined(sweep: str, key: str, value: str, defined: str) -> None:
    if value != defined:
        raise ConfigError(
            f"{sweep}.{key}={value!r}; sweep '{sweep}' of study 'labels' has {defined!r} by "
            f"definition."
        )


def _speed(quantity: str, label: str) -> Term:
    return Term("label_speed", quantity, SMALL, "final", label=label)


def _range(quantity: str, label: str) -> Term:
    return Term(
        "label_range",
        quantity,
        SMALL,
        BEFORE_MEMORY,
        "mem",
        label=label,
        sweep="ranges",
        sweep_label="a label range for each group",
        stage_label="before memory is learned",
    )


_LOWEST = _range(
    "lowest_inside", "mean probability inside the group's own label range, the lowest of the groups"
)

CLAIMS: tuple[Claim, ...] = (
    make_claim(
        "R1",
        "The loss on memory falls sooner where its labels lie near the key than where they are "
        "uniform on all keys.",
        "Fig. 8 left",
        at_least(_speed("bias", "(A_mem1 - A_mem2) / (A_mem1 + A_mem2)"), 0.05),
        context=(
            _speed(
                "bias_per_entropy",
                "the same with each loss divided by the entropy of its label's range",
            ),
            _speed("area_mem1", "A_mem1, labels uniform on the keys"),
            _speed("area_mem2", "A_mem2, labels near the key"),
        ),
    ),
    make_claim(
        "R2",
        "Before memory is learned, the output already lies within the label range of the anchors' "
        "group.",
        "Fig. 8 right",
        at_least(_LOWEST, 0.90),
        context=(
            _range("pooled", "the same of a model that knows the pooled labels alone"),
            *(_range(f"inside_{group}", f"group {group}") for group in (1, 2, 3, 4)),
            _range("accuracy", "accuracy on mem"),
        ),
    ),
)
