"""For each mechanism the intervention that would refute it, as data, with criteria fixed before any was read.

The claims M1 to M8 rest on attention, spectra, cosines and explained variance: correlations. For each, this file has
what ought to happen to the model if the mechanism did the work, as a claim of the same form, judged by the same rule
and with the same seeds. Thresholds follow those of M9 and M10: .10 nats is "costs nothing", .20 nats more than the
control is "costs something", .90 of the pairs is "moves the answer". They are ours, not the paper's, and a mechanism's
own claim keeps its own verdict.

M7 has a second check, in accuracy (.50 beyond the control), added after the first had been read: at the end of training
without LayerNorm logits have no bound, single seeds lose a thousand nats, and their mean says nothing.
"""

from __future__ import annotations

from rb_interp.claims.causal_checks import CausalCheck
from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.claims.learning_order import LARGE, SMALL, curve
from rb_interp.studies.anchor.claims import CLAIMS

SAME_NORM = "of the same dimension, the change of W_V of the same norm"
NEW_NOISE = "from the same input with other noise"
INTERVENTIONS: dict[str, tuple[str, str]] = {
    "forced_average": ("L0's attention set to exactly 1/i", "to random fixed patterns of matched entropy"),
    "leading_direction_only": (
        "L0's W_V reduced to its leading direction",
        "to a random direction, what is left of the same norm",
    ),
    "without_reasoning": (
        "the span of the reasoning anchors projected out of L0's W_V",
        f"a random subspace {SAME_NORM}",
    ),
    "without_memory": (
        "the span of the memory anchors projected out of L0's W_V",
        f"a random subspace {SAME_NORM}",
    ),
    "key_blocked": (
        "L1's attention from the last position to the key set to 0",
        "to a random noise position",
    ),
    "key_blocked_answers": (
        "L1's attention from the last position to the key set to 0",
        "to a random noise position",
    ),
    "swap_key": ("L1's attention output at the last position taken from another input", NEW_NOISE),
    "swap_sum": ("L0's attention output at the last position taken from another input", NEW_NOISE),
    "swap_key_in_place": (
        "the same, from an input whose key stands at the same position (L1's output)",
        NEW_NOISE,
    ),
    "swap_sum_in_place": (
        "the same, from an input whose key stands at the same position (L0's output)",
        NEW_NOISE,
    ),
    "swap_key_carried": ("L0's attention output at the anchors taken from another input", NEW_NOISE),
    "swap_sum_carried": (
        "the anchors' embeddings taken from another input, L0's attention output held everywhere",
        NEW_NOISE,
    ),
    "number_line": (
        "the reasoning anchors' coordinates along the leading direction of L0's W_V reversed",
        "along a random direction, the change of the same norm",
    ),
    "number_line_component": (
        "the reasoning anchors' coordinates along their own first principal component reversed",
        "along a random direction, the change of the same norm",
    ),
}
"""Interventions by name: what is done, and what the control does instead."""


def _term(intervention: str, quantity: str, label: str, gamma: float = SMALL, stage: str = "half") -> Term:
    return Term(intervention, quantity, gamma, stage, "rsn_train", label=label)


def _check(
    of: str, intervention: str, refuted_if: str, *conditions: Condition, gate: Condition | None = None
) -> CausalCheck:
    done, control_done = INTERVENTIONS[intervention]
    check = Claim(of, BY_ID[of].statement, done, conditions, gate)
    return CausalCheck(of, intervention, done, control_done, refuted_if, check)


BY_ID = {claim.id: claim for claim in CLAIMS}
_AVERAGE = _term("forced_average", "effect", "nats lost")
_LEARNED = Condition(curve("acc_mem", "accuracy on mem"), ">=", 0.50)

CHECKS: tuple[CausalCheck, ...] = (
    _check(
        "M1",
        "forced_average",
        "forcing the average costs as much as forcing a random pattern",
        *BY_ID["M10"].conditions,
    ),
    _check(
        "M2",
        "forced_average",
        "forcing the average costs no more at large initialisation than at small",
        Condition(_term("forced_average", "effect", "nats lost", LARGE, "matched"), ">=", 0.10, _AVERAGE),
    ),
    _check(
        "M3",
        "leading_direction_only",
        "the other directions of W_V are needed too",
        Condition(_term("leading_direction_only", "effect", "nats lost"), "<=", 0.10),
        Condition(
            _term("leading_direction_only", "control", "nats lost with a random direction"),
            ">=",
            0.20,
            _term("leading_direction_only", "effect", "nats lost"),
        ),
    ),
    _check(
        "M4",
        "without_reasoning",
        "W_V does without the reasoning anchors' directions as well as without random ones",
        Condition(_term("without_reasoning", "difference", "nats lost beyond the control's"), ">=", 0.20),
    ),
    _check(
        "M5",
        "without_memory",
        "reasoning needs the memory anchors' directions in W_V",
        Condition(_term("without_memory", "difference", "nats lost beyond the control's"), "<=", 0.10),
    ),
    _check(
        "M6",
        "without_reasoning",
        "the memory anchors' directions matter as much as the reasoning anchors'",
        Condition(
            _term("without_reasoning", "effect", "nats lost without reasoning anchors"),
            ">=",
            0.20,
            _term("without_memory", "effect", "nats lost without memory anchors"),
        ),
    ),
    _check(
        "M7",
        "key_blocked",
        "L1 does without the key as well as without a noise token",
        Condition(_term("key_blocked", "difference", "nats lost beyond the control's", stage="final"), ">=", 0.20),
    ),
    _check(
        "M7",
        "key_blocked_answers",
        "L1 answers without the key as well as without a noise token",
        Condition(
            _term("key_blocked_answers", "difference", "accuracy lost beyond the control's", stage="final"), ">=", 0.50
        ),
    ),
    _check(
        "M7b",
        "key_blocked",
        "L1 does without the key on memory inputs as well as without a noise token",
        Condition(
            Term("key_blocked", "difference", SMALL, "final", "mem", label="nats lost beyond the control's"), ">=", 0.20
        ),
        gate=_LEARNED,
    ),
    _check(
        "M8", "swap_sum", "swapping the two outputs does not move the answer by key and by sum", *BY_ID["M9"].conditions
    ),
)
