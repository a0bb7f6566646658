"""What the probes of one head's attention pattern share: checks, the untrained model beside it, and the null."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ModelError, RolesError
from rb_interp.probes.capturing import head_pattern
from rb_interp.probes.check import NOT_FINITE, check_layer_head, check_rows, finite_weights, undefined
from rb_interp.probes.source import Source
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles

Found = tuple[Mapping[str, float], Mapping[str, np.ndarray]]
"""Values and arrays of a reading."""
ROUNDING = 1e-12
"""What a draw is raised by, so that ties count against the value."""
FIXED = (
    "the roles stand at the same positions in every row, so their null says nothing (p = 1); attention(query=, to=) "
    "has a null by position, that of its excess."
)
"""The note of a value whose null cannot differ from it."""


def pattern_reading(
    probe: str,
    source: Source,
    inputs: Inputs,
    *,
    layer: int,
    head: int,
    untrained: Source | None,
    measure: Callable[[np.ndarray], Found],
    nulls: Callable[[np.ndarray], Mapping[str, Null]],
    fixed: Callable[[], Iterable[str]] = tuple,
    queries: slice | int = slice(None),
    why: str = NOT_FINITE,
) -> Reading:
    """Reading of one head's pattern, ``[row, query, key]``, or of one query of it, ``[row, key]``.

    ``fixed`` names the values whose roles stand at the same positions in every row, ``why`` is the note of values that
    are not finite.
    """
    check_layer_head(source, layer, head, probe, untrained, caches=True)
    rows = check_rows(inputs, probe)
    pattern = head_pattern(source, rows, layer=layer, head=head, queries=queries)
    _check_defined(source, pattern, probe)
    values, arrays = measure(pattern)
    before: Mapping[str, float] = {}
    if untrained is not None:
        first = head_pattern(untrained, rows, layer=layer, head=head, queries=queries)
        _check_defined(untrained, first, probe, "an untrained model")
        before, _ = measure(first)
    drawn = nulls(pattern)
    notes = {name: FIXED for name in fixed() if name in drawn}
    notes |= undefined(values, None if np.isfinite(pattern).all() else source, why, before, untrained)
    return Reading(probe, values, layer, head, before, drawn, arrays, len(rows), notes=notes)


def roles_permuted(draws: Float[np.ndarray, " draw"]) -> Null:
    """The null of a value with the roles of other rows; ties count against the value."""
    return Null("roles permuted over rows", draws + ROUNDING)


def stand_still(*places: np.ndarray) -> bool:
    """Whether positions, or masks of them, are the same in every row.

    >>> stand_still(np.array([[2], [2]])), stand_still(np.array([[2], [2]]), np.array([[0], [1]]))
    (True, False)
    """
    return all(bool((at == at[:1]).all()) for at in places)


def role_of_the_anchor_task(roles: Roles, name: str, probe: str) -> Int[np.ndarray, "row n"]:
    """Positions of ``key`` or ``anchor``; RolesError where they are missing says what reads roles of other names."""
    try:
        return roles.position(name, probe)
    except RolesError as error:
        raise RolesError(f"{error} Roles of other names are read by attention(query=, to=).") from None


def _check_defined(source: Source, pattern: np.ndarray, probe: str, what: str = "a model") -> None:
    """Raise ModelError where attention is undefined: TransformerLens writes 0 for it, which looks like a number."""
    if not pattern.any(-1).all() and not finite_weights(source):
        raise ModelError(f"{probe} got {what} whose weights are not all finite: its training has diverged.")
