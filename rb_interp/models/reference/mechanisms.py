"""What may be true of a reference model by construction, in words."""

from __future__ import annotations

from collections.abc import Mapping

MECHANISMS: Mapping[str, str] = {
    "averages": "L0's attention is exactly 1/i",
    "one_value_direction": "one direction dominates L0's W_V: its singular value is 2 or more times the next",
    "values_along_reasoning": "that direction is the one along which reasoning anchors differ from other tokens",
    "values_along_memory": "that direction is the one along which memory anchors differ from other tokens",
    "fetches_key": "in L1 the last position looks at the key, on reasoning inputs",
    "fetches_key_memory": "in L1 the last position looks at the key, on memory inputs",
    "key_plus_sum": "at the last position, L1's attention writes the key alone and L0's the anchor sum alone",
}
"""What may be true of a reference, by construction; ``Reference.mechanisms`` holds the names of what is."""
