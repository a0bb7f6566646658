"""What the label study found, in sentences."""

from __future__ import annotations

import math

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import near_text, seeds_text, share_text
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.labels.config import BEFORE_MEMORY, SMALL

LEARNED = 0.20
"""Accuracy up to which memory counts as not learned: that of the stage ``before_memory``."""
BESIDE = {"keys": "mem1", "near_sum": "mem2"}


def answer(evidence: Evidence) -> tuple[str, ...]:
    """The two results, with what a reader must know of them: memory is not learned, and what else differs."""
    found = (_learned(evidence), _speed(evidence), _slowed(evidence), never_learned(evidence), _inside(evidence))
    return tuple(text for text in found if text)


def reading(evidence: Evidence, probe: str, quantity: str) -> Interval:
    """Mean and interval over seeds of what the study reads of ``label_speed``, ``label_range`` or a sweep's end."""
    if probe == "label_speed":
        return evidence.interval(probe, quantity, SMALL)
    if probe in BESIDE:
        return evidence.sweep(probe).interval("learning_order", quantity, SMALL)
    return evidence.sweep("ranges").interval(probe, quantity, SMALL, stage=BEFORE_MEMORY, set="mem")


def told(evidence: Evidence, probe: str, quantity: str) -> str:
    """``mean [low, high]`` of `reading`; an index that lies near R1's threshold with more digits."""
    found = reading(evidence, probe, quantity)
    near = quantity == "bias_per_entropy"
    return near_text(*found, evidence.threshold("R1")) if near else share_text(*found)


def pooled_by_group(evidence: Evidence) -> dict[int, float]:
    """Share inside each group's range of a model that knows only the pooled labels, by group (0 to 1).

    Raises MissingEvidenceError where it was not measured.
    """
    rows = evidence.table("label_facts", gamma=SMALL, quantity="pooled")
    return {int(group): float(share) for group, share in zip(rows["group"], rows["mean"], strict=True)}


def times_never_learned(evidence: Evidence) -> tuple[int, int]:
    """Seeds read at their last evaluation, because memory was never learned, and seeds of which the step is known."""
    found = _fact(evidence, "never_learned")
    return (0, 0) if found is None else (int(found["mean"]), int(found["n"]))


def never_learned(evidence: Evidence) -> str:
    """A sentence where the stage ``before_memory`` is the last step of some seeds, else nothing.

    There its name would mislead: what is read is the end of a training that learned no memory.
    """
    never, known = times_never_learned(evidence)
    if not never:
        return ""
    these = "these runs" if never == known else "some of these runs"
    return f"Memory was not learned in {these}: R2 is read at the last step in {never} of {seeds_text(known)}."


def _fact(evidence: Evidence, quantity: str) -> dict | None:
    try:
        return evidence.table("label_facts", gamma=SMALL, quantity=quantity).iloc[0].to_dict()
    except MissingEvidenceError:
        return None


def _learned(evidence: Evidence) -> str:
    highest, (first, second) = _fact(evidence, "highest_acc_mem"), (told(evidence, s, "acc_mem") for s in BESIDE)
    if highest is None:
        return ""
    text = f"Final accuracy on memory is {first} for mem1 and {second} for mem2"
    return text + (": memory is learned in neither, only its loss falls." if highest["mean"] <= LEARNED else ".")


def _speed(evidence: Evidence) -> str:
    index, fair = (reading(evidence, "label_speed", name) for name in ("bias", "bias_per_entropy"))
    if math.isnan(index.estimate):
        return ""
    text = "R1: the index of the two memory mappings (positive: the loss on labels near the key falls sooner) is "
    text += f"{told(evidence, 'label_speed', 'bias')}. Labels near the key are also fewer: with each loss divided by "
    text += f"the entropy of its labels the index is {told(evidence, 'label_speed', 'bias_per_entropy')}"
    small = fair.high < evidence.threshold("R1")
    return text + (": that there are fewer can account for what R1 found." if small else ".")


def _slowed(evidence: Evidence) -> str:
    """What the memory labels do to the rule in the same sweep: paired by seed."""
    difference, lower = _fact(evidence, "rsn_train_difference"), _fact(evidence, "rsn_train_lower")
    if difference is None or lower is None:
        return ""
    mean, low, high = (difference[name] for name in ("mean", "low", "high"))
    first, second = (told(evidence, sweep, "acc_rsn_train") for sweep in BESIDE)
    text = f"Final accuracy on reasoning (rsn_train) is {first} beside mem1 and {second} beside mem2, "
    text += f"a difference of {share_text(mean, low, high)}"
    if mean > 0 and low > 0:
        return text + ": memory labels near the key slow the rule in these runs."
    return text + f"; it is lower beside mem2 in {int(lower['mean'])} of {seeds_text(int(lower['n']))}."


def _inside(evidence: Evidence) -> str:
    if math.isnan(reading(evidence, "label_range", "lowest_inside").estimate):
        return ""
    lowest, accuracy = (told(evidence, "label_range", name) for name in ("lowest_inside", "accuracy"))
    return (
        f"R2: at a memory accuracy of {accuracy}, outputs keep {lowest} of their probability inside their group's "
        f"label range, in the group where it is least{_pooled(evidence)}."
    )


def _pooled(evidence: Evidence) -> str:
    try:
        pooled = pooled_by_group(evidence)
    except MissingEvidenceError:
        return ""
    told = ", ".join(f"{share:.2f} in group {group}" for group, share in pooled.items())
    return f"; pooled labels alone would give {told}"
