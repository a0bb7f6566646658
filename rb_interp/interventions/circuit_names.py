"""Circuit by cause: the name of what a model learned, by the routes that key and anchors take to the answer.

    average-then-key        at least .80 of the key's effect comes from the key's own position, and at least .80 of the
                            anchors' (mean over anchors) by L0's attention to the last position: paper 1, Fig. 6
    gather-at-last-anchor   at least .80 of the key's and of the first anchors' effect comes from the last anchor
    key-to-anchors          at least .80 of the key's effect and of the anchors' (mean over anchors) comes from the
                            positions of the anchors taken together: paper 2, Fig. 3, "inferential"
    mixed                   none of them
    none                    accuracy on rsn_train < .50: nothing was learned that could be named

The first that fits is the name. Shares are those of ``routes``, of a route alone. The thresholds were fixed before any
model was read by them. Heads play no part, so a head that writes nothing changes no name.

How it can mislead. A model that carries the key twice may fit two names and gets the first; its shares by necessity are
low then. ``mixed`` is said of a model that uses two circuits side by side and of one that uses a way that has no name
here. A name says from where the last layer reads, and not what is added where.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rb_interp.typed import typed

SHARE_MIN = 0.80
"""A route carries a change: at least this share of its effect."""
ACCURACY_MIN = 0.50
"""Something was learned: at least this final accuracy on rsn_train."""

SHARES = {
    "key_from_key": "key:from_key",
    "anchors_L0_at_last": "anchors:L0_at_last",
    "key_from_last_anchor": "key:from_last_anchor",
    "first_anchors_from_last_anchor": "first_anchors:from_last_anchor",
    "key_from_anchors": "key:from_anchors",
    "anchors_from_anchors": "anchors:from_anchors",
}
"""The shares that decide -> the quantities of ``routes`` that they are."""


class Rule(NamedTuple):
    """A name's rule: the two shares that must reach SHARE_MIN, and the same in words."""

    shares: tuple[str, str]
    words: str


NAMED = {
    "average-then-key": Rule(
        ("key_from_key", "anchors_L0_at_last"),
        f"at least {SHARE_MIN:.2f} of the key's effect comes from the key's own position, and at least "
        f"{SHARE_MIN:.2f} of the anchors' by L0's attention to the last position",
    ),
    "gather-at-last-anchor": Rule(
        ("key_from_last_anchor", "first_anchors_from_last_anchor"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the first anchors' comes from the last anchor's position",
    ),
    "key-to-anchors": Rule(
        ("key_from_anchors", "anchors_from_anchors"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the anchors' comes from the positions of the anchors "
        "taken together, without being the circuit before",
    ),
}
"""Circuits that have a route, in the order in which they are asked."""
CAUSE_RULES = {
    **{name: rule.words for name, rule in NAMED.items()},
    "mixed": "none of them",
    "none": f"final accuracy on rsn_train < {ACCURACY_MIN:.2f}",
}
"""The names and their rules in words."""
CAUSES = tuple(CAUSE_RULES)


@typed
def circuit_by_cause(shares: Mapping[str, float], accuracy: float) -> str:
    """Name the circuit of one model from its shares and its accuracy on rsn_train, all in [0, 1].

    Args:
        shares: quantities of ``routes`` (``routes(...).values``); those of SHARES are used. A share that is missing or
            nan meets no threshold.
        accuracy: share of the rows of rsn_train that are answered rightly; nan counts as nothing learned.

    >>> circuit_by_cause({"key:from_key": 0.97, "anchors:L0_at_last": 0.8}, accuracy=1.0)
    'average-then-key'
    >>> circuit_by_cause({"key:from_anchors": 0.9, "anchors:from_anchors": 0.79}, accuracy=1.0)
    'mixed'
    """
    if not accuracy >= ACCURACY_MIN:
        return "none"
    for name, rule in NAMED.items():
        if all(shares.get(SHARES[share], np.nan) >= SHARE_MIN for share in rule.shares):
            return name
    return "mixed"
