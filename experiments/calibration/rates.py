r"""Error rates of every detector, from its answer about each model; the tables of answers lie
beside this file.

    calibration_copies.csv  perturbed copies of hand-written models, and two kinds of models without
    a known truth trained_copies.csv      trained models whose route is known, and copies that compute the same
    trained_models.csv      what was trained, and whether it counts
    blends.csv              what probes read of blends of two circuits

A detector says "present" at a margin of at least 0. With P margins where yes is right and N where
no is right,

    J(t) = share of P with margin >= t  -  share of N with margin >= t      (Youden, 1950)

Margins may be infinite and must not be nan.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.statistics.intervals import proportion_interval, stratified_auc
from rb_interp.store import write_file
from rb_interp.studies.anchor.checks import (
    MAX_FALSE_POSITIVE,
    MIN_TRUE_POSITIVE,
    read_table,
)

DEVELOPMENT = 20
"""Copies with a seed below this choose the threshold with the largest J; all rates rest on the
others."""
TABLES = Path(__file__).parent / "tables"
COPIES, TRAINED_COPIES, TRAINED_MODELS = (
    "calibration_copies.csv",
    "trained_copies.csv",
    "trained_models.csv",
)
BLENDS = "blends.csv"
CONTROLS = ("untrained", "label_shuffled")


def answers(name: str = COPIES) -> pd.DataFrame:
    """One of the tables that lie beside this file.

    Columns of COPIES and TRAINED_COPIES: family; source (``reference``, ``untrained``,
    ``label_shuffled``, or a kind of trained models); name (of the model, or gamma); seed; detector;
    truth (``yes``, ``no``, empty where unknown); margin (see ``detectors``); present.
    """
    return read_table(TABLES / name)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a CSV file, whole or not at all."""
    write_file(path, lambda to: table.to_csv(to, index=False, na_rep="nan"))


def rates(copies: pd.DataFrame) -> pd.DataFrame:
    """Error rates of every detector in every family, one row each, from its answer about each
    model.

    Rates are shares in [0, 1] with 95 % Clopper-Pearson intervals, rounded to six digits, over
    copies with a seed of at least DEVELOPMENT; ``auc`` is of the margins of the same copies.
    ``youden_threshold`` is the shift of the margin that would have separated the copies with lower
    seeds best, ``youden_tpr`` and ``youden_fpr`` what it gives on the others. The worst positive
    and negative are the hand-written models with the lowest true-positive and the highest
    false-positive rate. Of untrained and label-shuffled models the truth is unknown: their rate is
    the share of which the detector says "present". A rate without models is nan.
    """
    return _rounded([named | _rates(rows) for named, rows in _groups(copies, "family", "detector")])


def trained_rates(copies: pd.DataFrame) -> pd.DataFrame:
    """Error rates of every detector on each source of trained models, one row each, as in `rates`.

    Models of which the truth is not known are left out; a rate without models is nan and is not
    asked for.
    """
    known = copies.loc[copies["truth"] != ""]
    return _rounded(
        [named | _trained(rows) for named, rows in _groups(known, "family", "source", "detector")]
    )


def rates_by_model(copies: pd.DataFrame) -> pd.DataFrame:
    """Share of each model's copies that a detector calls present; references count from the seed
    DEVELOPMENT on.

    Columns: family, detector, source, name, truth, n, rate, low, high.
    """
    chosen = copies.loc[(copies["source"] != "reference") | (copies["seed"] >= DEVELOPMENT)]
    groups = _groups(chosen, "family", "detector", "source", "name", "truth")
    return pd.DataFrame([{**named, "n": len(rows), **_share("", rows)} for named, rows in groups])


def _rounded(rows: list[dict]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    return table.assign(**{name: table[name].round(6) for name in table.select_dtypes("float")})


def _groups(table: pd.DataFrame, *columns: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What each group shares, by column, and its rows, in order of appearance."""
    for _, group in table.groupby(list(columns), sort=False):
        yield {column: group[column].iloc[0] for column in columns}, group


def _rates(rows: pd.DataFrame) -> dict:
    """The row of one detector in one family."""
    known = rows.loc[rows["source"] == "reference"]
    held_out, development = (
        known.loc[known["seed"] >= DEVELOPMENT],
        known.loc[known["seed"] < DEVELOPMENT],
    )
    found, margins = _both(held_out), _margins(held_out)
    found["auc"] = stratified_auc([tuple(margins[::-1])]).value
    found["youden_threshold"] = best_threshold(*_margins(development))
    for name, margin in zip(("youden_tpr", "youden_fpr"), margins, strict=True):
        found[name] = (
            float((margin >= found["youden_threshold"]).mean()) if len(margin) else float("nan")
        )
    found |= _worst(held_out)
    for control in CONTROLS:
        models = rows.loc[rows["source"] == control]
        found |= {f"n_{control}": len(models), **_share(f"{control}_", models)}
    good = (
        found["true_positive_rate"] >= MIN_TRUE_POSITIVE
        and found["false_positive_rate"] <= MAX_FALSE_POSITIVE
    )
    return {**found, "calibrated": bool(good)}


def _trained(rows: pd.DataFrame) -> dict:
    """The row of one detector on one source."""
    found = _both(rows) | _worst(rows)
    seen = not found["n_positive"] or found["true_positive_rate"] >= MIN_TRUE_POSITIVE
    quiet = not found["n_negative"] or found["false_positive_rate"] <= MAX_FALSE_POSITIVE
    return {**found, "calibrated": bool(seen and quiet)}


def _both(rows: pd.DataFrame) -> dict:
    positive, negative = (rows.loc[rows["truth"] == truth] for truth in ("yes", "no"))
    found = {"n_positive": len(positive), **_share("true_positive_", positive)}
    return found | {"n_negative": len(negative), **_share("false_positive_", negative)}


def _share(prefix: str, rows: pd.DataFrame) -> dict[str, float]:
    """Share of rows that say "present": rate, low and high, with a prefix to their names."""
    interval = proportion_interval(int(rows["present"].sum()), len(rows))
    return {
        f"{prefix}{name}": float(x)
        for name, x in zip(("rate", "low", "high"), interval, strict=True)
    }


def _margins(rows: pd.DataFrame) -> list[np.ndarray]:
    return [
        rows.loc[rows["truth"] == truth, "margin"].to_numpy(dtype=np.float64)
        for truth in ("yes", "no")
    ]


def _worst(rows: pd.DataFrame) -> dict:
    found: dict = {}
    for column, truth, pick in (("worst_positive", "yes", min), ("worst_negative", "no", max)):
        here = rows.loc[rows["truth"] == truth]
        shares = {
            str(name): float(copies["present"].mean())
            for name, copies in here.groupby("name", sort=True)
        }
        name = pick(shares, key=lambda model, of=shares: of[model]) if shares else ""
        found |= {column: name, f"{column}_rate": shares.get(name, float("nan"))}
    return found


def best_threshold(positive: np.ndarray, negative: np.ndarray) -> float:
    """The threshold with the largest J, halfway between the lowest score that passes and the next
    one below.

    Of several with the same J it is the strictest. Where a neighbour is infinite the threshold is
    the other one; nan where a group is empty.

    >>> best_threshold(np.array([3.0, 2.0]), np.array([0.0, 1.0]))
    1.5
    >>> best_threshold(np.array([0.4, 0.5]), np.array([-np.inf])), best_threshold(np.array([np.inf]), np.array([0.3]))
    (0.4, 0.3)
    """
    if not len(positive) or not len(negative):
        return float("nan")
    scores = np.unique(np.concatenate([positive, negative]))[::-1]
    above = [
        1 - np.searchsorted(np.sort(group), scores, side="left") / len(group)
        for group in (positive, negative)
    ]
    J = np.concatenate([[0.0], above[0] - above[1]])
    scores = np.concatenate([[np.inf], scores])
    best = int(np.argmax(J))
    ends = [float(end) for end in scores[best : best + 2] if np.isfinite(end)]
    return sum(ends) / len(ends) if ends else float(scores[best])
