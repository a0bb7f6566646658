"""The claims of paper 1 about the distribution of memory labels (Fig. 8), as data.

R1 compares two members of the same seed that differ in their memory labels alone, so its reading belongs to no sweep.
R2 reads the sweep ``ranges``, where each group of memory anchors has a label range of its own. Criteria were written
down before the runs.
"""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.settings import SMALL
from rb_interp.studies.labels.config import BEFORE_MEMORY


def _speed(quantity: str, label: str) -> Term:
    return Term("label_speed", quantity, SMALL, "final", label=label)


def _range(quantity: str, label: str) -> Term:
    return Term(
        "label_range", quantity, SMALL, BEFORE_MEMORY, "mem", label=label, sweep="ranges",
        sweep_label="a label range for each group", stage_label="before memory is learned",
    )  # fmt: skip


_LOWEST = _range("lowest_inside", "mean probability inside the group's own label range, the lowest of the groups")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "R1",
        "The loss on memory falls sooner where its labels lie near the key than where they are uniform on all keys.",
        "Fig. 8 left",
        (Condition(_speed("bias", "(A_mem1 - A_mem2) / (A_mem1 + A_mem2)"), ">=", 0.05),),
        context=(
            _speed("bias_per_entropy", "the same with each loss divided by the entropy of its label's range"),
            _speed("area_mem1", "A_mem1, labels uniform on the keys"),
            _speed("area_mem2", "A_mem2, labels near the key"),
        ),
    ),
    Claim(
        "R2",
        "Before memory is learned, the output already lies within the label range of the anchors' group.",
        "Fig. 8 right",
        (Condition(_LOWEST, ">=", 0.90),),
        context=(
            _range("pooled", "the same of a model that knows the pooled labels alone"),
            *(_range(f"inside_{group}", f"group {group}") for group in (1, 2, 3, 4)),
            _range("accuracy", "accuracy on mem"),
        ),
    ),
)
