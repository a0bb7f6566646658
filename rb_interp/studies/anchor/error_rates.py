"""How often each mechanism probe misleads on models whose mechanism is known, and what that allows a verdict to say.

Two tables come with the package. ``copies`` has each detector's answer about each model: perturbed copies of
hand-written models, where the truth is known by construction, and two kinds of models where it is not (untrained ones,
and ones trained on permuted labels). ``rates`` follows from it alone: `rates(copies())`. The module ``calibrate`` makes
both again from seeds.

A family of models is its norm, number of layers and kind of position embedding. Where the family has rates and a probe
misses them, its claim is UNDECIDED; where the family has none, verdicts stand and are marked as not calibrated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from rb_interp.claims.calibration import Calibration, Standing
from rb_interp.models.config import ModelConfig
from rb_interp.statistics.calibration import area_under_curve, best_threshold
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.studies.anchor.detectors import MECHANISM_CLAIMS

if TYPE_CHECKING:
    from rb_interp.studies.anchor.config import AnchorConfig

LEAST_TRUE_POSITIVE, MOST_FALSE_POSITIVE = 0.95, 0.05
"""A detector is calibrated with at least this true-positive and at most this false-positive rate (point estimates)."""
DEVELOPMENT = 20
"""Copies with a seed below this choose the ROC's own threshold; all rates rest on the others."""
FOLDER = Path(__file__).parent / "tables"
COPIES, RATES = "calibration_copies.csv", "calibration_rates.csv"
CONTROLS = ("untrained", "label_shuffled")
TEXT = ("family", "source", "name", "detector", "truth", "worst_positive", "worst_negative")
FLAGS = ("present", "calibrated")


def family(config: ModelConfig) -> str:
    """The family of a model, in words, as the tables have it.

    >>> from rb_interp.models import ModelConfig
    >>> family(ModelConfig.preset("quick"))
    'norm none, 2 layers, learned positions'
    """
    heads = "" if config.n_heads == 1 else f", {config.n_heads} heads"  # probes read one head, and so do the tables
    return f"norm {config.norm}, {config.n_layers} layers{heads}, learned positions"


def calibration(config: AnchorConfig) -> Calibration:
    """The shipped error rates of the probes on models of this configuration's family."""
    of, table = family(config.model), shipped_rates()
    rows: Any = table.loc[table["family"] == of].to_dict("records")
    return Calibration(of, {claim: standing(claim, of) for claim in MECHANISM_CLAIMS}, rows)


def copies() -> pd.DataFrame:
    """Each detector's answer about each model of the calibration, as shipped.

    Columns: family; source (``reference``, ``untrained``, ``label_shuffled``); name (of the hand-written model, or
    gamma); seed; detector; truth (``yes``, ``no``, empty where unknown); margin (see ``detectors``); present.
    """
    return read_table(FOLDER / COPIES)


@lru_cache(maxsize=1)
def shipped_rates() -> pd.DataFrame:
    """The rates of every detector in every calibrated family, as shipped; see `rates`."""
    return read_table(FOLDER / RATES)


def read_table(path: Path) -> pd.DataFrame:
    """One of the two tables, with every number exactly as it was written, whatever the version of pandas."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.assign(**{name: list(map(_reader(name), table[name])) for name in table if name not in TEXT})


def _reader(column: str) -> Callable[[str], Any]:
    if column in FLAGS:
        return "True".__eq__
    return int if column == "seed" or column.startswith("n_") else float


def standing(claim: str, of_family: str) -> Standing:
    """Whether a claim is calibrated in a family, and why its verdict is withheld if it is.

    >>> standing("A1", "norm none, 2 layers, learned positions")  # a loss
    Standing(calibrated=None, reason='')
    >>> standing("M1", "norm post, 2 layers, learned positions")
    Standing(calibrated=False, reason='')
    """
    if claim not in MECHANISM_CLAIMS:
        return Standing(None)
    table = shipped_rates()
    rows = table.loc[(table["family"] == of_family) & (table["detector"] == claim)].to_dict("records")
    if not rows:
        return Standing(False)
    return Standing(True) if rows[0]["calibrated"] else Standing(False, _misleads(rows[0]))


def _misleads(row: Mapping[Hashable, Any]) -> str:
    """The sentence that a withheld verdict gives."""
    seen = row["true_positive_rate"] >= LEAST_TRUE_POSITIVE
    quiet = row["false_positive_rate"] <= MOST_FALSE_POSITIVE
    missed = [name for name, met in (("worst_positive", seen), ("worst_negative", quiet)) if not met and row[name]]
    worst = [f"{row[name]}, {row[f'{name}_rate']:.2f}" for name in missed]
    named = f" (worst: {'; '.join(worst)})" if worst else ""
    return (
        f"the probe misleads on hand-written models: true-positive rate {row['true_positive_rate']:.2f}, "
        f"false-positive rate {row['false_positive_rate']:.2f}{named}; needs >= {LEAST_TRUE_POSITIVE:.2f} and "
        f"<= {MOST_FALSE_POSITIVE:.2f}"
    )


def rates(copies: pd.DataFrame) -> pd.DataFrame:
    """Error rates of every detector in every family, one row each, from its answer about each model.

    Rates are shares in [0, 1] with 95 % Clopper-Pearson intervals, rounded to six digits, over copies with a seed of at
    least DEVELOPMENT; ``auc`` is of the margins of the same copies. ``youden_threshold`` is the shift of the margin
    that would have separated the copies with lower seeds best, ``youden_tpr`` and ``youden_fpr`` what it gives on the
    others: how much room a better threshold would leave. The worst positive and negative are the hand-written models
    with the lowest true-positive and the highest false-positive rate. Of untrained and label-shuffled models the truth
    is unknown: their rate is the share of which the detector says "present". A rate without models is nan.
    """
    found = pd.DataFrame([named | _rates(group) for named, group in _groups(copies, "family", "detector")])
    numbers = found.select_dtypes("float").columns
    return found.assign(**{name: found[name].round(6) for name in numbers})


def rates_by_model(copies: pd.DataFrame) -> pd.DataFrame:
    """Share of each model's copies that a detector calls present; references count from the seed DEVELOPMENT on.

    Columns: family, detector, source, name, truth, n, rate, low, high.
    """
    chosen = copies.loc[(copies["source"] != "reference") | (copies["seed"] >= DEVELOPMENT)]
    groups = _groups(chosen, "family", "detector", "source", "name", "truth")
    return pd.DataFrame([{**named, "n": len(rows), **_share("", rows)} for named, rows in groups])


def _groups(table: pd.DataFrame, *columns: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What each group shares, by column, and its rows, in order of appearance."""
    for _, group in table.groupby(list(columns), sort=False):
        yield {column: group[column].iloc[0] for column in columns}, group


def _rates(rows: pd.DataFrame) -> dict:
    """The row of one detector in one family."""
    known = rows.loc[rows["source"] == "reference"]
    held_out = known.loc[known["seed"] >= DEVELOPMENT]
    positive, negative = (held_out.loc[held_out["truth"] == truth] for truth in ("yes", "no"))
    found = {"n_positive": len(positive), **_share("true_positive_", positive)}
    found |= {"n_negative": len(negative), **_share("false_positive_", negative)}
    found["auc"] = area_under_curve(_column(positive, "margin"), _column(negative, "margin"))
    found |= _youden(known.loc[known["seed"] < DEVELOPMENT], positive, negative)
    found |= _worst("worst_positive", positive, lowest=True) | _worst("worst_negative", negative, lowest=False)
    for control in CONTROLS:
        models = rows.loc[rows["source"] == control]
        found |= {f"n_{control}": len(models), **_share(f"{control}_", models)}
    good = found["true_positive_rate"] >= LEAST_TRUE_POSITIVE and found["false_positive_rate"] <= MOST_FALSE_POSITIVE
    return {**found, "calibrated": bool(good)}


def _share(prefix: str, rows: pd.DataFrame) -> dict[str, float]:
    """Share of rows that say "present": rate, low and high, with a prefix to their names."""
    interval = proportion_interval(int(_column(rows, "present").sum()), len(rows))
    return {f"{prefix}{name}": float(x) for name, x in zip(("rate", "low", "high"), interval, strict=True)}


def _youden(development: pd.DataFrame, positive: pd.DataFrame, negative: pd.DataFrame) -> dict[str, float]:
    yes, no = (_column(development.loc[development["truth"] == truth], "margin") for truth in ("yes", "no"))
    threshold = best_threshold(yes, no)
    above = [_column(rows, "margin") >= threshold for rows in (positive, negative)]
    tpr, fpr = (float(passing.mean()) if len(passing) else float("nan") for passing in above)
    return {"youden_threshold": threshold, "youden_tpr": tpr, "youden_fpr": fpr}


def _worst(column: str, rows: pd.DataFrame, lowest: bool) -> dict:
    if rows.empty:
        return {column: "", f"{column}_rate": float("nan")}
    shares = {str(name): float(_column(copies, "present").mean()) for name, copies in rows.groupby("name", sort=True)}
    name = (min if lowest else max)(shares, key=lambda model: shares[model])
    return {column: name, f"{column}_rate": shares[name]}


def _column(rows: pd.DataFrame, name: str) -> Float[np.ndarray, " row"]:
    return rows[name].to_numpy(dtype=np.float64)
