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
    "one_direction_passed_on": "one direction dominates L0's W_V W_O: its singular value is 3 or more times the next",
    "needs_reasoning_values": "right answers need directions of reasoning anchors in L0's W_V more than as many keys'",
    "key_from_its_position": "what the last position has of the key, L1's attention brings from the key's position",
    "anchors_by_L0_at_last": "what the last position has of the anchors, L0's attention brings there",
    "key_plus_sum": "at the last position, L1's attention writes the key alone and L0's the anchor sum alone",
}
"""What may be true of a reference, by construction; ``Reference.mechanisms`` holds the names of what is."""
