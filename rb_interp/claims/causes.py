"""For each mechanism the intervention that would refute it, as data, with criteria fixed before any was read.

The claims M1 to M8 rest on attention, spectra, cosines and explained variance: correlations. Beside each stands here
what ought to happen to the model if the mechanism did the work, as a claim of the same form, judged by the same rule
and with the same seeds. Thresholds follow those of M9 and M10: .10 nats is "costs nothing", .20 nats more than the
placebo is "costs something", .90 of the pairs is "moves the answer". They are ours, not the paper's, and a mechanism's
own claim keeps its own verdict.

M7 has a second check, in accuracy (.50 beyond the placebo), added after the first had been read: at the end of training
without LayerNorm logits have no bound, single seeds lose a thousand nats, and their mean says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from rb_interp.claims.criterion import Claim, Part, Term
from rb_interp.claims.registry import CAUSAL, LARGE, MECHANISM, SMALL

SAME_NORM = "of the same dimension, the change of W_V of the same norm"
NEW_NOISE = "from the same input with other noise"
WORDS: dict[str, tuple[str, str]] = {
    "forced_average": ("layer 1's attention set to exactly 1/i", "to random fixed patterns of matched entropy"),
    "leading_direction_only": (
        "layer 1's W_V reduced to its leading direction",
        "to a random direction, what is left of the same norm",
    ),
    "without_reasoning": (
        "the span of the reasoning anchors projected out of layer 1's W_V",
        f"a random subspace {SAME_NORM}",
    ),
    "without_memory": (
        "the span of the memory anchors projected out of layer 1's W_V",
        f"a random subspace {SAME_NORM}",
    ),
    "key_blocked": (
        "layer 2's attention from the last position to the key set to 0",
        "to a random noise position",
    ),
    "key_blocked_answers": (
        "layer 2's attention from the last position to the key set to 0",
        "to a random noise position",
    ),
    "swap_key": ("layer 2's attention output at the last position taken from another input", NEW_NOISE),
    "swap_sum": ("layer 1's attention output at the last position taken from another input", NEW_NOISE),
    "swap_key_in_place": (
        "the same, from an input whose key stands at the same position (layer 2's output)",
        NEW_NOISE,
    ),
    "swap_sum_in_place": (
        "the same, from an input whose key stands at the same position (layer 1's output)",
        NEW_NOISE,
    ),
    "swap_key_carried": ("layer 1's attention output at the anchors taken from another input", NEW_NOISE),
    "swap_sum_carried": (
        "the anchors' embeddings taken from another input, layer 1's attention output held everywhere",
        NEW_NOISE,
    ),
    "number_line": (
        "the reasoning anchors' coordinates along the leading direction of layer 1's W_V reversed",
        "along a random direction, the change of the same norm",
    ),
    "number_line_component": (
        "the reasoning anchors' coordinates along their own first principal component reversed",
        "along a random direction, the change of the same norm",
    ),
}
"""Interventions by name: what is done, and what the placebo does instead."""


@dataclass(frozen=True)
class Cause:
    """What would refute one mechanism claim.

    Attributes:
        of: id of the mechanism's claim.
        intervention: key of WORDS, the one that is shown with the claim.
        refuted_if: what would speak against the mechanism, in words.
        check: the criterion, as a claim.
    """

    of: str
    intervention: str
    refuted_if: str
    check: Claim


def _term(intervention: str, quantity: str, label: str, gamma: float = SMALL, stage: str = "half") -> Term:
    return Term(intervention, quantity, gamma, stage, "rsn_train", label=label)


def _cause(of: str, intervention: str, refuted_if: str, *parts: Part, gate: Part | None = None) -> Cause:
    check = Claim(of, _named(of).statement, WORDS[intervention][0], parts, gate)
    return Cause(of, intervention, refuted_if, check)


def _named(claim_id: str) -> Claim:
    return next(claim for claim in (*MECHANISM, *CAUSAL) if claim.id == claim_id)


_AVERAGE = _term("forced_average", "effect", "nats lost")
_ACC_MEM = Term("learning_order", "acc_mem", SMALL, "final", label="accuracy on mem")

CAUSES: tuple[Cause, ...] = (
    _cause(
        "M1", "forced_average", "forcing the average costs as much as forcing a random pattern", *_named("M10").parts
    ),
    _cause(
        "M2",
        "forced_average",
        "forcing the average costs no more at large initialisation than at small",
        Part(_term("forced_average", "effect", "nats lost", LARGE, "matched"), ">=", 0.10, _AVERAGE),
    ),
    _cause(
        "M3",
        "leading_direction_only",
        "the other directions of W_V are needed too",
        Part(_term("leading_direction_only", "effect", "nats lost"), "<=", 0.10),
        Part(
            _term("leading_direction_only", "placebo", "nats lost with a random direction"),
            ">=",
            0.20,
            _term("leading_direction_only", "effect", "nats lost"),
        ),
    ),
    _cause(
        "M4",
        "without_reasoning",
        "W_V does without the reasoning anchors' directions as well as without random ones",
        Part(_term("without_reasoning", "difference", "nats lost beyond the placebo's"), ">=", 0.20),
    ),
    _cause(
        "M5",
        "without_memory",
        "reasoning needs the memory anchors' directions in W_V",
        Part(_term("without_memory", "difference", "nats lost beyond the placebo's"), "<=", 0.10),
    ),
    _cause(
        "M6",
        "without_reasoning",
        "the memory anchors' directions matter as much as the reasoning anchors'",
        Part(
            _term("without_reasoning", "effect", "nats lost without reasoning anchors"),
            ">=",
            0.20,
            _term("without_memory", "effect", "nats lost without memory anchors"),
        ),
    ),
    _cause(
        "M7",
        "key_blocked",
        "layer 2 does without the key as well as without a noise token",
        Part(_term("key_blocked", "difference", "nats lost beyond the placebo's", stage="final"), ">=", 0.20),
    ),
    _cause(
        "M7",
        "key_blocked_answers",
        "layer 2 answers without the key as well as without a noise token",
        Part(
            _term("key_blocked_answers", "difference", "accuracy lost beyond the placebo's", stage="final"), ">=", 0.50
        ),
    ),
    _cause(
        "M7b",
        "key_blocked",
        "layer 2 does without the key on memory inputs as well as without a noise token",
        Part(
            Term("key_blocked", "difference", SMALL, "final", "mem", label="nats lost beyond the placebo's"), ">=", 0.20
        ),
        gate=Part(_ACC_MEM, ">=", 0.50),
    ),
    _cause(
        "M8", "swap_sum", "swapping the two outputs does not move the answer by key and by sum", *_named("M9").parts
    ),
)
