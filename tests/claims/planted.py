"""Readings with planted values, and the verdict of a claim of the anchor study on them."""

from __future__ import annotations

import pandas as pd

from rb_interp.claims import Term, Verdict, judge
from rb_interp.studies.anchor.claims import CLAIMS

NAN = float("nan")
BY_ID = {claim.id: claim for claim in CLAIMS}


def planted(term: Term, values, untrained=None, seeds=None, **changed) -> pd.DataFrame:
    """Readings of one term, one row a seed."""
    seeds = range(len(values)) if seeds is None else seeds
    row = {
        "gamma": term.gamma,
        "stage": term.stage,
        "set": term.set,
        "probe": term.probe,
        "layer": term.layer,
    }
    row |= {"quantity": term.quantity, "head": None, **changed}
    untrained = [NAN] * len(values) if untrained is None else untrained
    return pd.DataFrame(
        [
            {**row, "seed": s, "value": v, "untrained": t}
            for s, v, t in zip(seeds, values, untrained, strict=True)
        ]
    )


def judged(id: str, *tables: pd.DataFrame) -> Verdict:
    (claim,) = judge(readings_of(*tables), [BY_ID[id]])
    return claim


def readings_of(*tables: pd.DataFrame) -> pd.DataFrame:
    readings = pd.concat([table.dropna(axis=1, how="all") for table in tables], ignore_index=True)
    for column in ("layer", "untrained"):
        if column not in readings:
            readings[column] = NAN
    return readings


def shares(n: int = 200, **ones: int) -> list[pd.DataFrame]:
    """Readings of claim I1: ``ones`` of ``n`` initialisations at each rate."""
    gammas = {"large": 0.3, "middle": 0.5, "small": 0.8}
    term = BY_ID["I1"].conditions[0].of
    return [
        planted(term, [1.0] * k + [0.0] * (n - k), gamma=gammas[name]) for name, k in ones.items()
    ]
