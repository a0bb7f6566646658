"""How often each mechanism probe misleads on models whose mechanism is known, and what that allows
a verdict to say.

Two tables of rates come with the package: on perturbed copies of hand-written models, where the
truth is known by construction, and on each *source* of trained models. They are never mixed.
``experiments/calibration`` makes both again from seeds, and has the answers that they follow from.

A family of models is its norm, number of layers and kind of position embedding. Where the family
has rates, of hand-written models or of any source of trained ones, and a probe misses them, its
claim is NOT JUDGED; where the family has none, verdicts stand and are marked as not calibrated.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from rb_interp.claims.rule import Calibration, Standing
from rb_interp.models.config import ModelConfig
from rb_interp.studies.anchor.config import AnchorConfig

MECHANISM_CLAIMS = (
    *("M1", "M3", "M4", "M5", "M6", "M7", "M7b", "M8", "M9"),
    *("M3b", "M4b", "M7r", "M8r", "M9b"),
)
"""Claims that rest on a mechanism probe at a single checkpoint: those whose error rates matter."""
LEAST_TRUE_POSITIVE, MOST_FALSE_POSITIVE = 0.95, 0.05
"""A detector is calibrated with at least this true-positive and at most this false-positive rate
(point estimates)."""
FOLDER = Path(__file__).parent / "tables"
RATES, TRAINED_RATES = "calibration_rates.csv", "trained_rates.csv"
TEXT = ("family", "source", "name", "detector", "truth", "worst_positive", "worst_negative")
TEXT += ("exchange", "pair", "probe", "quantity", "of")
FLAGS = ("present", "calibrated", "counts", "met")


def family(config: ModelConfig) -> str:
    """The family of a model, in words, as the tables have it.

    >>> from rb_interp.models import ModelConfig
    >>> family(ModelConfig.preset("quick"))
    'norm none, 2 layers, learned positions'
    """
    heads = (
        "" if config.n_heads == 1 else f", {config.n_heads} heads"
    )  # probes read one head, and so do the tables
    return f"norm {config.norm}, {config.n_layers} layers{heads}, learned positions"


def calibration(config: AnchorConfig) -> Calibration:
    """The shipped error rates of the probes on models of this configuration's family."""
    of = family(config.model)
    rows, trained = (
        table.loc[table["family"] == of].to_dict("records")
        for table in (shipped_rates(), shipped_trained_rates())
    )
    return Calibration(
        of, {claim: standing(claim, of) for claim in MECHANISM_CLAIMS}, rows, trained
    )


@lru_cache(maxsize=1)
def shipped_rates() -> pd.DataFrame:
    """The rates of every detector in every calibrated family, as shipped; see
    ``experiments/calibration``."""
    return read_table(FOLDER / RATES)


@lru_cache(maxsize=1)
def shipped_trained_rates() -> pd.DataFrame:
    """The rates of every detector on each source of trained models, as shipped."""
    return read_table(FOLDER / TRAINED_RATES)


def read_table(path: Path) -> pd.DataFrame:
    """A table of rates or of answers, with every number exactly as it was written, whatever the
    version of pandas."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.assign(
        **{name: list(map(_reader(name), table[name])) for name in table if name not in TEXT}
    )


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
