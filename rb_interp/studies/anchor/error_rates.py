"""How often each mechanism probe misleads on models whose mechanism is known, and what that allows a verdict to say.

Two tables come with the package. ``copies`` has each detector's answer about each model: perturbed copies of
hand-written models, where the truth is known by construction, and two kinds of models where it is not (untrained ones,
and ones trained on permuted labels). ``rates`` follows from it alone: `rates(copies())`. The module ``calibrate`` makes
both again from seeds.

Three more come from trained models (``trained_models``), and are never mixed with these: ``trained_copies``, the rates
of each *source* of such models, and the table of the models themselves, with the shares that say that training reached
its aim.

A family of models is its norm, number of layers and kind of position embedding. Where the family has rates, of
hand-written models or of any source of trained ones, and a probe misses them, its claim is NOT JUDGED; where the family
has none, verdicts stand and are marked as not calibrated.
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
TRAINED_COPIES, TRAINED_RATES, TRAINED_MODELS = "trained_copies.csv", "trained_rates.csv", "trained_models.csv"
BLENDS = "blends.csv"
CONTROLS = ("untrained", "label_shuffled")
TEXT = ("family", "source", "name", "detector", "truth", "worst_positive", "worst_negative")
TEXT += ("exchange", "pair", "probe", "quantity", "of")
FLAGS = ("present", "calibrated", "counts", "met")


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
    of = family(config.model)
    rows, trained = (
        table.loc[table["family"] == of].to_dict("records") for table in (shipped_rates(), shipped_trained_rates())
    )
    return Calibration(of, {claim: standing(claim, of) for claim in MECHANISM_CLAIMS}, rows, trained)


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


@lru_cache(maxsize=1)
def shipped_trained_rates() -> pd.DataFrame:
    """The rates of every detector on each source of trained models, as shipped; see `trained_rates`."""
    return read_table(FOLDER / TRAINED_RATES)


def trained_copies() -> pd.DataFrame:
    """Each detector's answer about each trained model whose truth is known, as shipped; columns as in `copies`."""
    return read_table(FOLDER / TRAINED_COPIES)


def trained_models() -> pd.DataFrame:
    """What was trained: name, gamma, seed, ``exchange``, share of rows answered as it asks, and whether it counts."""
    return read_table(FOLDER / TRAINED_MODELS)


def blends() -> pd.DataFrame:
    """What probes read of blends of two circuits, as shipped; see ``blends.blend_table``."""
    return read_table(FOLDER / BLENDS)


def read_table(path: Path) -> pd.DataFrame:
    """One of the two tables, with every number exactly as it was written, whatever the version of pandas."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.assign(**{name: list(map(_reader(name), table[name])) for name in table if name not in TEXT})


def _reader(column: str) -> Callable[[str], Any]:
    if column in FLAGS:
        return "True".__eq__
    return int if column in ("seed", "number") or column.startswith("n_") else float


def standing(claim: str, of_family: str) -> Standing:
    """Whether a claim is calibrated in a family, and why its verdict is withheld if it is.

    >>> standing("A1", "norm none, 2 layers, learned positions")  # a loss
    Standing(calibrated=None, reason='')
    >>> standing("M1", "norm post, 3 layers, learned positions")
    Standing(calibrated=False, reason='')
    """
    if claim not in MECHANISM_CLAIMS:
        return Standing(None)
    hand_written, trained = (
        table.loc[(table["family"] == of_family) & (table["detector"] == claim)].to_dict("records")
        for table in (shipped_rates(), shipped_trained_rates())
    )
    parts = [("hand-written models", row) for row in hand_written]
    parts += [(f"trained models ({row['source']})", row) for row in trained]
    missed = [_misleads(on, row) for on, row in parts if not row["calibrated"]]
    if missed:
        return Standing(False, "; ".join(missed))
    whole = any(row["n_positive"] and row["n_negative"] for _, row in parts)
    return Standing(whole)


def _misleads(on: str, row: Mapping[Hashable, Any]) -> str:
    """The sentence that a withheld verdict gives; a rate of which there is no model is left out."""
    bounds = {
        "positive": (LEAST_TRUE_POSITIVE, "true-positive", ">="),
        "negative": (MOST_FALSE_POSITIVE, "false-positive", "<="),
    }
    rates, needs, worst = [], [], []
    for truth, (bound, words, sign) in bounds.items():
        rate = row[f"{words.replace('-', '_')}_rate"]
        if not row[f"n_{truth}"]:
            continue
        rates.append(f"{words} rate {rate:.2f}")
        needs.append(f"{sign} {bound:.2f}")
        if row[f"worst_{truth}"] and not (rate >= bound if truth == "positive" else rate <= bound):
            worst.append(f"{row[f'worst_{truth}']}, {row[f'worst_{truth}_rate']:.2f}")
    named = f" (worst: {'; '.join(worst)})" if worst else ""
    return f"the probe misleads on {on}: {', '.join(rates)}{named}; needs {' and '.join(needs)}"


def trained_rates(copies: pd.DataFrame) -> pd.DataFrame:
    """Error rates of every detector on each source of trained models, one row each.

    Models of which the truth is not known are left out. Rates are shares in [0, 1] with 95 % Clopper-Pearson intervals,
    rounded to six digits; a rate without models is nan and is not asked for. The worst are the names with the lowest
    true-positive and the highest false-positive rate.
    """
    known = copies.loc[copies["truth"] != ""]
    found = pd.DataFrame([named | _trained(rows) for named, rows in _groups(known, "family", "source", "detector")])
    numbers = found.select_dtypes("float").columns
    return found.assign(**{name: found[name].round(6) for name in numbers})


def _trained(rows: pd.DataFrame) -> dict:
    """The row of one detector on one source."""
    positive, negative = (rows.loc[rows["truth"] == truth] for truth in ("yes", "no"))
    found = {"n_positive": len(positive), **_share("true_positive_", positive)}
    found |= {"n_negative": len(negative), **_share("false_positive_", negative)}
    found |= _worst("worst_positive", positive, lowest=True) | _worst("worst_negative", negative, lowest=False)
    seen = not len(positive) or found["true_positive_rate"] >= LEAST_TRUE_POSITIVE
    quiet = not len(negative) or found["false_positive_rate"] <= MOST_FALSE_POSITIVE
    return {**found, "calibrated": bool(seen and quiet)}


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
