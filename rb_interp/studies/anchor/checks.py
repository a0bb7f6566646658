"""What stands behind a verdict on a mechanism: causal checks, and the error rates of its probe.

CHECKS has for each mechanism the intervention that would refute it, with criteria fixed before any
was read. The claims M1 to M8 rest on attention, spectra, cosines and explained variance:
correlations. A check says what ought to happen to the model if the mechanism did the work, as a
claim that is judged by the same rule and with the same seeds. Thresholds follow those of M9 and
M10: .10 nats is "costs nothing", .20 nats more than the control is "costs something", .90 of the
pairs is "moves the answer". They are ours, not the paper's, and a mechanism's own claim keeps its
own verdict.

M7 has a second check, in accuracy (.50 beyond the control), added after the first had been read: at
the end of training without LayerNorm logits have no bound, single seeds lose a thousand nats, and
their mean says nothing.

Two tables of error rates come with the package: on perturbed copies of hand-written models, where
the truth is known by construction, and on each *source* of trained models. They are never mixed.
``experiments/calibration`` makes both again from seeds, and has the answers that they follow from.

A family of models is its norm, number of layers and kind of position embedding. Where the family
has rates, of hand-written models or of any source of trained ones, and a probe misses them, its
claim is NOT JUDGED; where the family has none, verdicts stand and are marked as not calibrated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from rb_interp.claims.claim import (
    COPIES,
    Calibration,
    CalibrationStatus,
    CausalCheck,
    Claim,
    Condition,
    Term,
    at_least,
    at_most,
)
from rb_interp.models.config import ModelConfig
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.intervals import two_digits
from rb_interp.studies.anchor.claims import BY_ID
from rb_interp.studies.anchor.config import AnchorConfig

SUBSPACE = "a random subspace of the same dimension, the change of W_V of the same norm"
KEYS = "the span of as many random keys, the change of W_V of the same norm"
PATTERNS_OF_CIRCUIT = (
    "to what other members whose circuit has the same name attend to on the same inputs"
)
BLOCKED = (
    "L1's attention from the last position to the key set to 0",
    "to a random noise position",
)
NOISE = "from the same input with other noise"
DIRECTION = "along a random direction, the change of the same norm"
AVERAGE, LEADING = "L0's attention set to exactly 1/i", "L0's W_V reduced to its leading direction"
OUT = "the span of the {} anchors projected out of L0's W_V"
INTERVENTIONS: dict[str, tuple[str, str]] = {
    "forced_average": (AVERAGE, "to random fixed patterns of matched entropy"),
    "leading_direction_only": (LEADING, "to a random direction, what is left of the same norm"),
    "without_reasoning": (OUT.format("reasoning"), SUBSPACE),
    "without_memory": (OUT.format("memory"), SUBSPACE),
    "forced_average_matched": (AVERAGE, PATTERNS_OF_CIRCUIT),
    "leading_direction_only_matched": (
        LEADING,
        "to a random direction within the embeddings in use, what is left of the same norm",
    ),
    "without_reasoning_matched": (OUT.format("reasoning"), KEYS),
    "without_memory_matched": (OUT.format("memory"), KEYS),
    "key_blocked": BLOCKED,
    "key_blocked_answers": BLOCKED,
    "swap_key": ("L1's attention output at the last position taken from another input", NOISE),
    "swap_sum": ("L0's attention output at the last position taken from another input", NOISE),
    "swap_key_in_place": (
        "the same, from an input whose key stands at the same position (L1's output)",
        NOISE,
    ),
    "swap_sum_in_place": (
        "the same, from an input whose key stands at the same position (L0's output)",
        NOISE,
    ),
    "swap_key_carried": ("L0's attention output at the anchors taken from another input", NOISE),
    "swap_sum_carried": (
        "the anchors' embeddings taken from another input, L0's attention output held everywhere",
        NOISE,
    ),
    "number_line": (
        "the reasoning anchors' coordinates along the leading direction of L0's W_V reversed",
        DIRECTION,
    ),
    "number_line_component": (
        "the reasoning anchors' coordinates along their own first principal component reversed",
        DIRECTION,
    ),
}
"""Interventions by name: what is done, and what the control does instead; ``_matched``: with a
control that matches."""
AT_HALF = tuple(
    f"{name}{end}"
    for name in ("forced_average", "leading_direction_only", "without_reasoning", "without_memory")
    for end in ("", "_matched")
)
"""Interventions on L0, made where its claims are read; the others are made at the end."""


def _check(
    of: str,
    intervention: str,
    refuted_if: str,
    *conditions: Condition,
    gate: Condition | None = None,
) -> CausalCheck:
    done, control_done = INTERVENTIONS[intervention]
    check = Claim(of, BY_ID[of].statement, done, conditions, gate)
    return CausalCheck(of, intervention, done, control_done, refuted_if, check)


def _nats(
    intervention: str, label: str = "nats lost", gamma: float = SMALL, stage: str = "half"
) -> Term:
    return Term(intervention, "effect", gamma, stage, "rsn_train", label=label)


def _beyond(
    intervention: str, stage: str, set: str = "rsn_train", label: str = "nats lost"
) -> Term:
    return Term(
        intervention, "difference", SMALL, stage, set, label=f"{label} beyond the control's"
    )


_DIRECTION = _nats("leading_direction_only")
_RANDOM = replace(_DIRECTION, quantity="control", label="nats lost with a random direction")
_LARGE = _nats("forced_average", gamma=LARGE, stage="matched")
_REASONING = _nats("without_reasoning", "nats lost without reasoning anchors")
_MEMORY = _nats("without_memory", "nats lost without memory anchors")
_ANSWERS = _beyond("key_blocked_answers", "final", label="accuracy lost")

_M9 = [two_digits(condition.threshold) for condition in BY_ID["M9"].conditions]
_M10 = [two_digits(condition.threshold) for condition in BY_ID["M10"].conditions]

CHECKS: tuple[CausalCheck, ...] = (
    _check(
        "M1",
        "forced_average",
        f"forcing the average costs more than {_M10[0]} nats, or a random pattern costs less than "
        f"{_M10[1]} nats more "
        "than that",
        *BY_ID["M10"].conditions,
    ),
    _check(
        "M2",
        "forced_average",
        "forcing the average costs less than .10 nats more at large initialisation than at small",
        at_least(_LARGE, 0.10, _nats("forced_average")),
    ),
    _check(
        "M3",
        "leading_direction_only",
        "the other directions of W_V are needed too, or a random direction does nearly as well",
        at_most(_DIRECTION, 0.10),
        at_least(_RANDOM, 0.20, _DIRECTION),
    ),
    _check(
        "M4",
        "without_reasoning",
        "W_V does without the reasoning anchors' directions as well as without random ones",
        at_least(_beyond("without_reasoning", "half"), 0.20),
    ),
    _check(
        "M5",
        "without_memory",
        "reasoning needs the memory anchors' directions in W_V",
        at_most(_beyond("without_memory", "half"), 0.10),
    ),
    _check(
        "M6",
        "without_reasoning",
        "the memory anchors' directions matter as much as the reasoning anchors'",
        at_least(_REASONING, 0.20, _MEMORY),
    ),
    _check(
        "M7",
        "key_blocked",
        "L1 does without the key as well as without a noise token",
        at_least(_beyond("key_blocked", "final"), 0.20),
    ),
    _check(
        "M7",
        "key_blocked_answers",
        "L1 answers without the key as well as without a noise token",
        at_least(_ANSWERS, 0.50),
    ),
    _check(
        "M7b",
        "key_blocked",
        "L1 does without the key on memory inputs as well as without a noise token",
        at_least(_beyond("key_blocked", "final", "mem"), 0.20),
        gate=BY_ID["M7b"].gate,
    ),
    _check(
        "M8",
        "swap_sum",
        f"key or sum moves fewer than {_M9[0]} of the answers, or new noise alone changes more "
        f"than {_M9[2]} of them",
        *BY_ID["M9"].conditions,
    ),
)


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
    standings = {claim: calibration_status(claim, name) for claim in MECHANISM_CLAIMS}
    rates = _family_rows(shipped_rates(), name)
    trained = _family_rows(shipped_trained_rates(), name)
    return Calibration(name, standings, rates, trained)


def _family_rows(table: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    """The rows of a table of rates that are of a family."""
    rows = table.query("family == @name").to_dict("records")
    return [{str(column): value for column, value in row.items()} for row in rows]


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


def calibration_status(claim: str, family_name: str) -> CalibrationStatus:
    """Whether a claim is calibrated in a family, and why its verdict is withheld if it is.

    >>> calibration_status("A1", "norm none, 2 layers, learned positions")  # a loss
    CalibrationStatus(calibrated=None, reason='')
    >>> calibration_status("M1", "norm post, 3 layers, learned positions")
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
    known = [row for _, row in rates if row.get("source") not in COPIES]
    return CalibrationStatus(any(row["n_positive"] and row["n_negative"] for row in known))


def _misleads(models: str, row: Mapping[str, Any]) -> str:
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
