"""The flow of a member as its circuit, for members that are shared; see ``flow`` for what each name means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rb_interp.runs.circuit import Circuit
from rb_interp.runs.measured import Measured
from rb_interp.studies.composite.flow import ALONE, CARRIES, VIA_A2, VIA_ANCHORS, VIA_LAST, flow_of

RULES = {
    VIA_LAST: (
        ("last:kb_ps", "key:ks_pb"),
        f"taken from another row, the last position brings that row's pair, and the key's position its key, in at "
        f"least {CARRIES:.2f} of the pairs of rows",
    ),
    VIA_ANCHORS: (
        ("a1+a2:source",),
        f"taken from another row, both anchors together bring its answer in at least {CARRIES:.2f} of the pairs of "
        f"rows, and neither does alone in {ALONE:.2f}",
    ),
    VIA_A2: (
        ("a2:source",),
        f"taken from another row, the second anchor brings its answer in at least {CARRIES:.2f} of the pairs of rows",
    ),
}
"""Flow -> the shares that it needs, and the same in words."""


def circuits(measured: Measured) -> dict[tuple[float, int], Circuit]:
    """Gamma and seed of each member -> its flow, with the shares that the name rests on."""
    table, found = measured.readings, {}
    shares = table[(table["probe"] == "interchange_roles") & (table["stage"] == "final")]
    for place, own in shares.groupby(["gamma", "seed"]):
        gamma, seed = cast(tuple, place)
        found[float(gamma), int(seed)] = circuit_of(dict(zip(own["quantity"], own["value"], strict=True)))
    return found


def circuit_of(shares: Mapping[str, float]) -> Circuit:
    """The flow by the shares of ``read_interchange``, as a circuit.

    >>> circuit_of({"last:kb_ps": 0.1, "key:ks_pb": 0.0, "a1+a2:source": 0.9, "a1:source": 0.2, "a2:source": 0.3})
    Circuit: via anchors, by interchange (a1+a2:source 0.90)
    """
    name = flow_of(shares)
    decide, rule = RULES.get(name, (tuple(dict.fromkeys(s for of, _ in RULES.values() for s in of)), ""))
    return Circuit(name, "interchange", rule, {share: float(shares[share]) for share in decide})
