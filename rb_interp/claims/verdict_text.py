"""What a report and the terminal say of verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rb_interp.claims.verdict import Verdicts
from rb_interp.statistics.formatting import interval_text


def effect_text(judged: Any) -> str:
    """Median and range of what was judged."""
    mean, low, high = (
        np.nan if end is None else end for end in (judged.effect, judged.low, judged.high)
    )
    return interval_text(mean, low, high)


def notes(verdicts: Verdicts) -> Iterator[str]:
    """What a reader must not overlook: verdicts by probes that mislead, of what was not learned, or
    met untrained."""
    found = {
        "Not calibrated, so nobody knows how often the probe misleads": [
            v.id for v in verdicts if v.calibrated is False and not v.withheld
        ],
        "Withheld, because the probe misleads too often on models whose mechanism is known": [
            v.id for v in verdicts if v.withheld and "the probe misleads" in v.reason
        ],
        "Not judged, because fewer than half of the seeds have learned the mapping": [
            v.id for v in verdicts if v.learned is False and v.outcome == "NOT JUDGED"
        ],
        "Already met by untrained models": [
            v.id for v in verdicts if v.met_at_initialisation and v.outcome == "HOLDS"
        ],
    }
    for v in verdicts:
        if v.first_seed and (v.n_decisive < v.n_seeds or not v.n_seeds):
            words = (
                f"Decided by seeds from {v.first_seed} on alone, since earlier seeds had been read"
            )
            found.setdefault(words, []).append(v.id)
    yield from (f"{words}: {', '.join(ids)}." for words, ids in found.items() if ids)
