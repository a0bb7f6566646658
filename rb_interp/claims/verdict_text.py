"""What a report and the terminal say of verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rb_interp.claims.verdict import ConditionResult, Verdict
from rb_interp.statistics.intervals import interval_text

CAUTIONS = {
    "not calibrated": "Not calibrated, so nobody knows how often the probe misleads",
    "the probe misleads": "Withheld, because the probe misleads too often on models whose mechanism "
    "is known",
    "not learned": "Not judged, because fewer than half of the seeds have learned the mapping",
    "met untrained": "Already met by untrained models",
}
"""Caution beside a verdict -> the sentence that explains it."""


def effect_text(result: ConditionResult | Verdict) -> str:
    """Median and range of what was judged."""
    numbers = (result.effect, result.low, result.high)
    return interval_text(*(np.nan if number is None else number for number in numbers))


def cautions(verdict: Verdict) -> dict[str, str]:
    """What a reader of a verdict must not overlook: in a few words -> in a sentence."""
    applies = {
        "not calibrated": verdict.calibrated is False and not verdict.withheld,
        "the probe misleads": verdict.withheld and "the probe misleads" in verdict.reason,
        "not learned": verdict.learned is False and verdict.outcome == "NOT JUDGED",
        "met untrained": verdict.met_at_initialisation and verdict.outcome == "HOLDS",
    }
    texts = {words: CAUTIONS[words] for words, is_true in applies.items() if is_true}
    seed = verdict.first_seed
    if seed and (verdict.n_decisive < verdict.n_seeds or not verdict.n_seeds):
        sentence = f"Decided by seeds from {seed} on alone, since earlier seeds had been read"
        texts[f"seeds from {seed} on"] = sentence
    return texts


def notes(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """The cautions of all verdicts, each with the claims that it concerns."""
    claims: dict[str, list[str]] = {sentence: [] for sentence in CAUTIONS.values()}
    for verdict in verdicts:
        for sentence in cautions(verdict).values():
            claims.setdefault(sentence, []).append(verdict.id)
    for sentence, ids in claims.items():
        if ids:
            yield f"{sentence}: {', '.join(ids)}."
