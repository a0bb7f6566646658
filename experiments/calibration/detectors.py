"""Detectors: what a claim's criterion, or a circuit's name, says about one model.

A claim's detector says "present" where the model's readings meet every condition of the claim, with
the claim's own thresholds; a circuit's detector says it where the model gets that name. A
hand-written model is a single checkpoint, so stages and gammas of the terms are left out, and so is
the gate of M7b: it is about what was learned, and nothing was.

The margin is the least signed distance from a threshold over all conditions, in the units of the
condition, positive where the threshold is met. A number that is nan, or was not read, meets
nothing: its margin is -inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rb_interp.claims.claim import Condition, Term
from rb_interp.interventions.circuits import (
    ACCURACY_MIN,
    CIRCUIT_RULES,
    SHARE_MIN,
    SHARES,
    circuit_by_cause,
)
from rb_interp.studies.anchor import circuits as circuit
from rb_interp.studies.anchor.checks import MECHANISM_CLAIMS
from rb_interp.studies.anchor.claims import CLAIMS

NAMES = ("average-then-key", "key-to-anchors")
"""Circuit names by attention that say what a model does (the others say that it does neither)."""
CAUSES = {f"{name} by cause": name for name in CIRCUIT_RULES}
"""Detectors of the names by cause -> the name."""
DETECTORS = (*MECHANISM_CLAIMS, *NAMES, *CAUSES)

HAS = {
    "M1": {"averages"},
    "M3": {"one_value_direction"},
    "M4": {"values_along_reasoning"},
    "M6": {"values_along_reasoning"},
    "M7": {"fetches_key"},
    "M7b": {"fetches_key_memory"},
    "M8": {"key_plus_sum"},
    "M9": {"key_plus_sum"},
    "M3b": {"one_direction_passed_on"},
    "M4b": {"needs_reasoning_values"},
    "M7r": {"key_from_its_position"},
    "M8r": {"anchors_by_L0_at_last"},
    "M9b": {"key_plus_sum"},
}
"""Mechanisms that a model must have for the claim to be true of it."""
LACKS = {"M5": {"values_along_memory"}, "M6": {"values_along_memory"}}
"""Mechanisms that it must not have."""

Place = tuple[str, str, str, int | None]
"""Probe, quantity, set and layer of a reading."""


class Detection(NamedTuple):
    """What one detector says about one model; ``margin`` is positive where the thresholds are
    met."""

    present: bool
    margin: float


def place(term: Term) -> Place:
    """Where a claim's term is read on a single model."""
    return term.probe, term.quantity, term.set, term.layer


def detect(readings: Mapping[Place, float]) -> dict[str, Detection]:
    """Every detector on the readings of one model, each a single number.

    Claims whose readings are all missing are left out.

    >>> found = detect({("attention_by_role", "key", "rsn_train", 1): 0.4})
    >>> found["M7"]
    Detection(present=False, margin=-0.5)
    """
    found = {}
    for claim in CLAIMS:
        values = [readings.get(place(condition.of), math.nan) for condition in claim.conditions]
        if claim.id in MECHANISM_CLAIMS and any(
            place(condition.of) in readings for condition in claim.conditions
        ):
            met = all(
                condition.met(value)
                for condition, value in zip(claim.conditions, values, strict=True)
            )
            found[claim.id] = Detection(met, _least(map(margin, claim.conditions, values)))
    return {**found, **_named(readings), **_named_by_cause(readings)}


def margin(condition: Condition, value: float) -> float:
    """Signed distance of a value from a condition's threshold, positive on the claimed side; -inf
    for nan."""
    distance = (
        value - condition.threshold
        if condition.operator in (">=", ">")
        else condition.threshold - value
    )
    return -math.inf if math.isnan(distance) else distance


def truth(detector: str, name: str, mechanisms: Iterable[str], cause: str) -> bool:
    """What a detector ought to say of a model with these mechanisms and these names, by attention
    and by cause.

    >>> truth("M6", "mixed", {"values_along_reasoning", "values_along_memory"}, "mixed")
    False
    """
    if detector in NAMES:
        return name == detector
    if detector in CAUSES:
        return cause == CAUSES[detector]
    mechanisms = set(mechanisms)
    return HAS.get(detector, set()) <= mechanisms and not LACKS.get(detector, set()) & mechanisms


def _named(readings: Mapping[Place, float]) -> dict[str, Detection]:
    numbers = {column: _number(readings, source) for column, source in circuit.SOURCES.items()}
    if all(map(math.isnan, numbers.values())):
        return {}
    given = circuit.name_circuit(**numbers)
    learned = numbers["accuracy"] - circuit.ACCURACY_MIN
    average_then_key = _least(
        [circuit.TV_MAX - numbers["tv_half"], numbers["key_attention"] - circuit.KEY_MIN]
    )
    key_to_anchors = _least(
        [numbers["carry"] - circuit.CARRY_MIN, numbers["anchor_attention"] - circuit.ANCHORS_MIN]
    )
    margins = (
        _least([learned, average_then_key, -key_to_anchors]),
        _least([learned, key_to_anchors, -average_then_key]),
    )
    return {
        name: Detection(given == name, least) for name, least in zip(NAMES, margins, strict=True)
    }


def _named_by_cause(readings: Mapping[Place, float]) -> dict[str, Detection]:
    """Names by cause; a name is missed by what it lacks, or by how well a name before it fits."""
    shares = {
        SHARES[column]: _number(readings, source) for column, source in circuit.ROUTES.items()
    }
    if not any(place[0] == "routes" for place in readings):
        return {}
    accuracy = _number(readings, circuit.SOURCES["accuracy"])
    given, found, before = circuit_by_cause(shares, accuracy), {}, math.inf
    for detector, name in CAUSES.items():
        fits = _least(shares[SHARES[share]] - SHARE_MIN for share in CIRCUIT_RULES[name].shares)
        found[detector] = Detection(given == name, _least([accuracy - ACCURACY_MIN, fits, before]))
        before = min(before, -fits)
    return found


def _number(readings: Mapping[Place, float], term: Term) -> float:
    """One number of the name; NaN if it was not read."""
    return readings.get(place(term), math.nan)


def _least(distances: Iterable[float]) -> float:
    return min(-math.inf if math.isnan(distance) else distance for distance in distances)
