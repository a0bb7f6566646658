"""What each intervention on a member is, in words, and the causal checks that are judged on them,
as data.

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
"""

from __future__ import annotations

from dataclasses import replace

from rb_interp.claims.claim import CausalCheck, Claim, Condition, Term
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.intervals import two_digits
from rb_interp.studies.anchor.claims import BY_ID

SUBSPACE = "a random subspace of the same dimension, the change of W_V of the same norm"
KEYS = "the span of as many random keys, the change of W_V of the same norm"
ALIKE = "to what other members whose circuit has the same name attend to on the same inputs"
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
    "forced_average_matched": (AVERAGE, ALIKE),
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
        Condition(_LARGE, ">=", 0.10, _nats("forced_average")),
    ),
    _check(
        "M3",
        "leading_direction_only",
        "the other directions of W_V are needed too, or a random direction does nearly as well",
        Condition(_DIRECTION, "<=", 0.10),
        Condition(_RANDOM, ">=", 0.20, _DIRECTION),
    ),
    _check(
        "M4",
        "without_reasoning",
        "W_V does without the reasoning anchors' directions as well as without random ones",
        Condition(_beyond("without_reasoning", "half"), ">=", 0.20),
    ),
    _check(
        "M5",
        "without_memory",
        "reasoning needs the memory anchors' directions in W_V",
        Condition(_beyond("without_memory", "half"), "<=", 0.10),
    ),
    _check(
        "M6",
        "without_reasoning",
        "the memory anchors' directions matter as much as the reasoning anchors'",
        Condition(_REASONING, ">=", 0.20, _MEMORY),
    ),
    _check(
        "M7",
        "key_blocked",
        "L1 does without the key as well as without a noise token",
        Condition(_beyond("key_blocked", "final"), ">=", 0.20),
    ),
    _check(
        "M7",
        "key_blocked_answers",
        "L1 answers without the key as well as without a noise token",
        Condition(_ANSWERS, ">=", 0.50),
    ),
    _check(
        "M7b",
        "key_blocked",
        "L1 does without the key on memory inputs as well as without a noise token",
        Condition(_beyond("key_blocked", "final", "mem"), ">=", 0.20),
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
