"""Detectors: what a claim's criterion, or a circuit's name, says about one model.

A detector says "present" where the model's readings meet every part of the claim, with the registry's thresholds; a
circuit's detector where the model gets that name. A hand-written model is a single checkpoint, so stages and gammas of
the terms are left out, and so is the gate of M7b: it is about what was learned, and nothing was.

The margin is the least signed distance from a threshold over all parts, in the units of the part, positive where the
threshold is met; a number that is nan, or was not read, meets nothing and lies at -inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rb_interp.claims.criterion import Part, Term
from rb_interp.claims.registry import CLAIMS
from rb_interp.probes import circuit

MECHANISM_CLAIMS = ("M1", "M3", "M4", "M5", "M6", "M7", "M7b", "M8", "M9")
"""Claims that rest on a mechanism probe at a single checkpoint: those whose error rates matter."""
NAMES = ("average-then-key", "key-to-anchors")
"""Circuit names that say what a model does (the others say that it does neither)."""

HAS = {
    "M1": {"averages"},
    "M3": {"one_value_direction"},
    "M4": {"values_along_reasoning"},
    "M6": {"values_along_reasoning"},
    "M7": {"fetches_key"},
    "M7b": {"fetches_key_memory"},
    "M8": {"key_plus_sum"},
    "M9": {"key_plus_sum"},
}
"""Mechanisms that a model must have for the claim to be true of it."""
LACKS = {"M5": {"values_along_memory"}, "M6": {"values_along_memory"}}
"""Mechanisms that it must not have."""

Place = tuple[str, str, str, int | None]
"""Probe, quantity, rows and layer of a reading."""


class Detection(NamedTuple):
    """What one detector says about one model; ``margin`` is positive where the thresholds are met."""

    present: bool
    margin: float


def place(term: Term) -> Place:
    """Where a claim's term is read on a single model."""
    return term.probe, term.quantity, term.rows, term.layer


def detect(readings: Mapping[Place, float]) -> dict[str, Detection]:
    """Every detector on the readings of one model with one head.

    Claims that the registry does not have, or whose readings are all missing, are left out.

    >>> found = detect({("routing", "key", "rsn_train", 1): 0.4})
    >>> found["M7"]
    Detection(present=False, margin=-0.5)
    """
    found = {}
    for claim in CLAIMS:
        values = [readings.get(place(part.of), math.nan) for part in claim.parts]
        if claim.id in MECHANISM_CLAIMS and any(place(part.of) in readings for part in claim.parts):
            met = all(part.met(value) for part, value in zip(claim.parts, values, strict=True))
            found[claim.id] = Detection(met, _least(map(margin, claim.parts, values)))
    return {**found, **_named(readings)}


def margin(part: Part, value: float) -> float:
    """Signed distance of a value from a part's threshold, positive on the claimed side; -inf for nan."""
    distance = value - part.threshold if part.operator in (">=", ">") else part.threshold - value
    return -math.inf if math.isnan(distance) else distance


def truth(detector: str, name: str, mechanisms: Iterable[str]) -> bool:
    """What a detector ought to say of a model whose circuit has this name and whose mechanisms are these.

    >>> truth("M6", "mixed", {"values_along_reasoning", "values_along_memory"})
    False
    """
    if detector in NAMES:
        return name == detector
    mechanisms = set(mechanisms)
    return HAS.get(detector, set()) <= mechanisms and not LACKS.get(detector, set()) & mechanisms


def _named(readings: Mapping[Place, float]) -> dict[str, Detection]:
    numbers = {column: _number(readings, source) for column, source in circuit.SOURCES.items()}
    if all(map(math.isnan, numbers.values())):
        return {}
    given = circuit.name_circuit(**numbers)
    learned = numbers["accuracy"] - circuit.ACCURACY_MIN
    average_then_key = _least([circuit.TV_MAX - numbers["tv_half"], numbers["key_attention"] - circuit.KEY_MIN])
    key_to_anchors = _least([numbers["carry"] - circuit.CARRY_MIN, numbers["anchor_attention"] - circuit.ANCHORS_MIN])
    margins = (
        _least([learned, average_then_key, -key_to_anchors]),
        _least([learned, key_to_anchors, -average_then_key]),
    )
    return {name: Detection(given == name, least) for name, least in zip(NAMES, margins, strict=True)}


def _number(readings: Mapping[Place, float], source: circuit.Source) -> float:
    """One number of the name, from the lowest or the highest layer that was read."""
    wanted = (source.probe, source.quantity, source.rows)
    layers = {at[3]: value for at, value in readings.items() if at[:3] == wanted}
    if not layers:
        return math.nan
    pick = min if source.layer == "min" else max
    return layers[pick(layers, key=lambda layer: -1 if layer is None else layer)]


def _least(distances: Iterable[float]) -> float:
    return min(-math.inf if math.isnan(distance) else distance for distance in distances)
