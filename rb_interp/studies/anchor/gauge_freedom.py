"""Which readings of the anchor study depend on the basis in which the weights are written, and not on the function.

To the table of the probes (``probes.gauge_freedom``, which says what it means and how it can mislead) this one adds
the study's interventions and tables. The control of an intervention is a reading too: where its draws are random in the
coordinates of the residual stream, another basis gives other draws of the same distribution, and counts as a change.
"""

from __future__ import annotations

from collections.abc import Mapping

from rb_interp.probes import gauge_freedom
from rb_interp.probes.gauge_freedom import NEVER, Changes

RANDOM = ("rotation", "coordinates")
"""Gauges that change draws in the coordinates of the residual stream."""

CHANGED_BY: Mapping[str, Changes] = {
    **gauge_freedom.CHANGED_BY,
    "forced_average": NEVER,
    "forced_average_matched": NEVER,
    "leading_direction_only": {"effect": ("value_basis",), "control": ("value_basis", *RANDOM)},
    "leading_direction_only_matched": {"*": ("value_basis",)},
    "without_reasoning": {"effect": (), "control": ("value_basis", *RANDOM)},
    "without_memory": {"effect": (), "control": ("value_basis", *RANDOM)},
    "without_reasoning_matched": {"effect": (), "control": ("value_basis",)},
    "without_memory_matched": {"effect": (), "control": ("value_basis",)},
    "key_blocked": NEVER,
    "key_blocked_answers": NEVER,
    **{f"swap_{what}{at}": NEVER for what in ("key", "sum") for at in ("", "_in_place", "_carried")},
    "number_line": {"effect": ("value_basis",), "control": ("value_basis", *RANDOM)},
    "number_line_component": {"effect": (), "control": RANDOM},
    "routes": NEVER,
    "equivalence": NEVER,
    "ablations": NEVER,
    "patching": NEVER,
    "learning_order": NEVER,
}
"""Probe, intervention or table -> what changes its readings."""


def changed_by(reading: str, quantity: str) -> tuple[str, ...]:
    """The gauges that change a reading; every other one that is exact for the model leaves it as it is.

    >>> changed_by("value_alignment", "spectrum_ratio"), changed_by("value_alignment", "ov_cos_memory")
    (('value_basis',), ('mean_shift',))
    >>> changed_by("routes", "key:from_key")
    ()
    """
    return gauge_freedom.changed_by(reading, quantity, CHANGED_BY)
