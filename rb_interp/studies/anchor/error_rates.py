"""How often each mechanism probe misleads on known models, and what a verdict may then say.

Two tables of rates come with the package: on perturbed copies of hand-written models, where the
truth is known by construction, and on each *source* of trained models. They are never mixed.
``experiments/calibration`` makes both again from seeds, and has the answers that they follow from.

A family of models is its norm, number of layers and kind of position embedding. Where the family
has rates, of hand-written models or of any source of trained ones, and a probe misses them, its
claim is NOT JUDGED; where the family has none, verdicts stand and are marked as not calibrated.
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from rb_interp.claims.claim import Calibration, CalibrationStatus
from rb_interp.models.config import ModelConfig
from rb_interp.studies.anchor.config import AnchorConfig

MECHANISM_CLAIMS = (
    *("M1", "M3", "M4", "M5", "M6", "M7", "M7b", "M8", "M9"),
    *("M3b", "M4b", "M7r", "M8r", "M9b"),
)
"""Claims that rest on a mechanism probe at a single checkpoint: those whose error rates matter."""
MIN_TRUE_POSITIVE = 0.95
"""A detector is calibrated with at least this true-positive rate (point estimate)."""
MAX_FALSE_POSITIVE = 0.05
"""A detector is calibrated with at most this false-positive rate (point estimate)."""
FOLDER = Path(__file__).parent / "tables"
RATES = "calibration_rates.csv"
TRAINED_RATES = "trained_rates.csv"
TEXT = ("family", "source", "name", "detector", "truth", "worst_positive", "worst_negative")
TEXT += ("exchange", "pair", "probe", "quantity", "of")
FLAGS = ("present", "calibrated", "counts", "met")


def family(config: ModelConfig) -> str:
    """The family of a model, in words, as the tables have it.

    >>> from rb_interp.models import ModelConfig
    >>> family(ModelConfig.preset("quick"))
    'norm none, 2 layers, learned positions'
    """
    # probes read one head, and so do the tables
    heads = "" if config.n_heads == 1 else f", {config.n_heads} heads"
    return f"norm {config.norm}, {config.n_layers} layers{heads}, learned positions"


def calibration(config: AnchorConfig) -> Calibration:
    """The shipped error rates of the probes on models of this configuration's family."""
    name = family(config.model)
    standings = {claim: standing(claim, name) for claim in MECHANISM_CLAIMS}
    rates = _family_rows(shipped_rates(), name)
    trained = _family_rows(shipped_trained_rates(), name)
    return Calibration(name, standings, rates, trained)


def _family_rows(table: pd.DataFrame, name: str) -> list[dict[Hashable, Any]]:
    """The rows of a table of rates that are of a family."""
    return table.loc[table["family"] == name].to_dict("records")


@lru_cache(maxsize=1)
def shipped_rates() -> pd.DataFrame:
    """The rates of every detector in every calibrated family, as shipped."""
    return read_table(FOLDER / RATES)


@lru_cache(maxsize=1)
def shipped_trained_rates() -> pd.DataFrame:
    """The rates of every detector on each source of trained models, as shipped."""
    return read_table(FOLDER / TRAINED_RATES)


def read_table(path: Path) -> pd.DataFrame:
    """A table of rates or of answers, the same with all versions of pandas."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column in table:
        if column not in TEXT:
            table[column] = [_value(str(column), text) for text in table[column]]
    return table


def _value(column: str, text: str) -> bool | int | float:
    """A value of a column, exactly as it was written."""
    if column in FLAGS:
        return text == "True"
    if column in ("seed", "number") or column.startswith("n_"):
        return int(text)
    return float(text)


def standing(claim: str, family_name: str) -> CalibrationStatus:
    """Whether a claim is calibrated in a family, and why its verdict is withheld if it is.

    >>> standing("A1", "norm none, 2 layers, learned positions")  # a loss
    CalibrationStatus(calibrated=None, reason='')
    >>> standing("M1", "norm post, 3 layers, learned positions")
    CalibrationStatus(calibrated=False, reason='')
    """
    if claim not in MECHANISM_CLAIMS:
        return CalibrationStatus(None)
    rates = [("hand-written models", row) for row in _family_rows(shipped_rates(), family_name)]
    for row in _family_rows(shipped_trained_rates(), family_name):
        rates.append((f"trained models ({row['source']})", row))
    rates = [(models, row) for models, row in rates if row["detector"] == claim]
    missed = [_misleads(models, row) for models, row in rates if not row["calibrated"]]
    if missed:
        return CalibrationStatus(False, "; ".join(missed))
    return CalibrationStatus(any(row["n_positive"] and row["n_negative"] for _, row in rates))


def _misleads(models: str, row: Mapping[Hashable, Any]) -> str:
    """The sentence that a withheld verdict gives; a rate of which there is no model is left out."""
    rates = []
    bounds = []
    worst = []
    for truth, bound in (("positive", MIN_TRUE_POSITIVE), ("negative", MAX_FALSE_POSITIVE)):
        if not row[f"n_{truth}"]:
            continue
        kind = "true" if truth == "positive" else "false"
        rate = row[f"{kind}_positive_rate"]
        rates.append(f"{kind}-positive rate {rate:.2f}")
        bounds.append(f"{'>=' if kind == 'true' else '<='} {bound:.2f}")
        met = rate >= bound if kind == "true" else rate <= bound
        if row[f"worst_{truth}"] and not met:
            worst.append(f"{row[f'worst_{truth}']}, {row[f'worst_{truth}_rate']:.2f}")
    worst_case = f" (worst: {'; '.join(worst)})" if worst else ""
    return (
        f"the probe misleads on {models}: {', '.join(rates)}{worst_case}; needs "
        f"{' and '.join(bounds)}"
    )
