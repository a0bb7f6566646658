"""One switch for what goes beyond torch's documented functions: ``RB_INTERP_PLAIN_TORCH``.

    matmul       no oneDNN operator (``training.matmul``)
    allocator    no settings of malloc (``training.allocator``)
    1            neither

Results agree to rounding with and without the operator. The settings change no number.
"""

from __future__ import annotations

import os

VARIABLE = "RB_INTERP_PLAIN_TORCH"


def plain(what: str) -> bool:
    """Whether the switch turns ``matmul`` or ``allocator`` off."""
    return os.environ.get(VARIABLE, "") in ("1", what)
