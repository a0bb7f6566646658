"""Which readings of the anchor study depend on the basis in which the weights are written, and not on the function.

A gauge copy has other weights and the same logits (``models.gauge``). What differs between a model and its copies says
nothing of what the model computes. CHANGED_BY names, for every reading, the gauges that change it, in one family of
models at least; every other gauge leaves it as it is, and a test compares both with exact copies. Readings of one head
go with their head when heads change places. The control of an intervention is a reading too: where its draws are random
in the coordinates of the residual stream, another basis gives other draws of the same distribution, and counts as a
change.

How it can mislead. A reading that no gauge changes can still be about weights that do nothing. One that a gauge changes
can still be reproducible: training begins in a basis that the initialisation does not single out, so that members of
one scheme are comparable with each other, but not with a model that was trained or stored in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

Changes = Mapping[str, tuple[str, ...]]
"""Quantity, with ``*`` for any text -> the gauges that change it; the first that fits counts."""

RANDOM = ("rotation", "coordinates")
"""Gauges that change draws in the coordinates of the residual stream."""
_NEVER: Changes = {"*": ()}
_EMBEDDING = ("embedding_shift",)

CHANGED_BY: Mapping[str, Changes] = {
    "uniformity": _NEVER,
    "attention_by_role": _NEVER,
    "attention_to_key": _NEVER,
    "value_alignment": {
        "ov_*_raw": ("embedding_shift", "mean_shift"),
        "ov_*": ("mean_shift",),
        "*_raw": ("value_basis", "embedding_shift"),
        "*": ("value_basis",),
    },
    "variance_explained": {"resid_pre.0:*": (), "*": ("mean_shift",)},
    "geometry": {
        "abs_cos_random": (),
        "cos_*": _EMBEDDING,
        "abs_cos*": _EMBEDDING,
        "order_rho": _EMBEDDING,
        "theory": _EMBEDDING,
        "*": (),
    },
    "forced_average": _NEVER,
    "forced_average_matched": _NEVER,
    "leading_direction_only": {"effect": ("value_basis",), "control": ("value_basis", *RANDOM)},
    "leading_direction_only_matched": {"*": ("value_basis",)},
    "without_reasoning": {"effect": (), "control": ("value_basis", *RANDOM)},
    "without_memory": {"effect": (), "control": ("value_basis", *RANDOM)},
    "without_reasoning_matched": {"effect": (), "control": ("value_basis",)},
    "without_memory_matched": {"effect": (), "control": ("value_basis",)},
    "key_blocked": _NEVER,
    "key_blocked_answers": _NEVER,
    **{f"swap_{what}{at}": _NEVER for what in ("key", "sum") for at in ("", "_in_place", "_carried")},
    "number_line": {"effect": ("value_basis",), "control": ("value_basis", *RANDOM)},
    "number_line_component": {"effect": (), "control": RANDOM},
    "ablations": _NEVER,
    "patching": _NEVER,
    "learning_order": _NEVER,
}
"""Probe, intervention or table -> what changes its readings."""


def changed_by(reading: str, quantity: str) -> tuple[str, ...]:
    """The gauges that change a reading; every other one that is exact for the model leaves it as it is.

    >>> changed_by("value_alignment", "spectrum_ratio"), changed_by("value_alignment", "ov_cos_memory")
    (('value_basis',), ('mean_shift',))
    """
    changes = CHANGED_BY[reading]
    return next(changes[pattern] for pattern in changes if fnmatchcase(quantity, pattern))


def markdown() -> str:
    """The table of docs/probes.md: readings with the same changes share a row."""
    shared: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for reading, changes in CHANGED_BY.items():
        shared.setdefault(tuple(changes.items()), []).append(f"`{reading}`")
    lines = ["| reading | quantity | changed by |", "|---|---|---|"]
    for changes, readings in shared.items():
        for number, (pattern, gauges) in enumerate(changes):
            quantity = f"`{pattern}`" if pattern != "*" else "all" if number == 0 else "the rest"
            lines.append(f"| {', '.join(readings)} | {quantity} | {', '.join(gauges) or 'none'} |")
    return "\n".join(lines) + "\n"
