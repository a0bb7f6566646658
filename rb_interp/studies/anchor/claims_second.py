"""Second criteria, and a rival account of uniform attention, beside the paper's claims."""

from dataclasses import replace

from rb_interp.claims import Claim, Condition, Term
from rb_interp.claims.learning_order import (
    curve,
    geometry,
    reasoning_learned,
)
from rb_interp.settings import LARGE, SMALL
from rb_interp.studies.anchor.claims_paper import LEARNING_ORDER, route, swapped, uniformity, value
from rb_interp.studies.anchor.config import FIXED

NEW_SEEDS = 10
"""Second criteria were written after seeds 0 to 9 had been read: they are judged on the seeds from
this one on."""

LEARNED_ORDER = tuple(
    replace(claim, id=f"{claim.id}b", gate=reasoning_learned(), learned=None, first_seed=NEW_SEEDS)
    for claim in LEARNING_ORDER
    if claim.id in ("A2", "A3")
)
"""A2b and A3b: the same, among seeds that have learned the reasoning mapping."""


def _disagreement(battery: str, inputs: str) -> Term:
    label = f"disagreement on {inputs} with members of other circuits - with members of the same circuit"
    return Term("equivalence", battery, SMALL, "final", label=label)


_MORE = "nats lost without reasoning anchors beyond those without as many random keys"

_SECOND = (
    Claim(
        "M3b",
        "One direction dominates what L0's head passes on.",
        "beside M3",
        (Condition(value("ov_spectrum_ratio", "s1 / s2 of L0's W_V W_O"), ">=", 2.5),),
    ),
    Claim(
        "M4b",
        "L0's values need the reasoning anchors' directions more than those of as many keys.",
        "beside M4",
        (
            Condition(
                Term(
                    "without_reasoning_matched",
                    "difference",
                    SMALL,
                    "half",
                    "rsn_train",
                    label=_MORE,
                ),
                ">=",
                0.50,
            ),
        ),
    ),
    Claim(
        "M7r",
        "On reasoning inputs the key travels from its own position through L1's attention.",
        "second attention, causal",
        (
            Condition(
                route(
                    "key:from_key",
                    "share of the key's effect that travels from the key's own position through "
                    "L1's attention",
                ),
                ">=",
                0.80,
            ),
        ),
        context=(
            route(
                "key:from_key:needed", "share of the key's effect that is lost without that route"
            ),
            route(
                "key:from_anchors",
                "share of the key's effect that travels from the anchors' positions",
            ),
        ),
    ),
    Claim(
        "M8r",
        "On reasoning inputs the anchors travel through L0's attention at the last position.",
        "key + sum, causal",
        (
            Condition(
                route(
                    "anchors:L0_at_last",
                    "share of the anchors' effect that travels through L0's attention at the last "
                    "position",
                ),
                ">=",
                0.80,
            ),
        ),
        context=(
            route(
                "anchors:L0_at_last:needed",
                "share of the anchors' effect that is lost without that route",
            ),
            route(
                "anchors:from_anchors",
                "share of the anchors' effect that travels from the anchors' positions",
            ),
        ),
    ),
    Claim(
        "M9b",
        "Between inputs with the key at one position, the answer is the key of L1's attention plus "
        "the sum of L0's.",
        "beside M9",
        swapped("_in_place", ", same position"),
    ),
    Claim(
        "M10b",
        "A model whose L0 can do nothing but average learns the rule.",
        "average, causal",
        (
            Condition(
                curve(
                    "acc_rsn_test",
                    "accuracy on rsn_test",
                    sweep=FIXED,
                    sweep_label="L0 fixed at exactly 1/i",
                ),
                ">=",
                0.90,
            ),
        ),
    ),
    Claim(
        "Q1",
        "On held-out rows, members of two circuits answer alike as often as members of one.",
        "ours",
        (Condition(_disagreement("held_out", "held-out rows"), "<=", 0.02),),
    ),
    Claim(
        "Q2",
        "On rows of length 4, members of two circuits answer alike less often than members of one.",
        "ours",
        (Condition(_disagreement("length_4", "rows of length 4"), ">=", 0.20),),
    ),
)
SECOND = tuple(replace(claim, first_seed=NEW_SEEDS) for claim in _SECOND)
"""Second criteria, beside the claims whose number they carry (docs/claims.md); written before any
run was read."""


def _memory_cosine(gamma: float) -> Term:
    return geometry("cos_memory", "mean cos of memory anchors", gamma, "half")


def _of_optimiser(eps: str) -> Term:
    label = f"|TV of L0 with AdamW's eps {eps} - with 1e-8|"
    return Term("uniformity", f"tv_change_eps_{eps}", SMALL, "half", "rsn_train", 0, label)


RIVAL = (
    Claim(
        "U1",
        "At equal loss uniform attention belongs to small initialisation.",
        "plateau (arXiv 2506.13688)",
        (Condition(uniformity(LARGE, "half"), ">=", 0.10, uniformity(SMALL, "half")),),
    ),
    Claim(
        "U2",
        "At the end of each member's own plateau uniform attention belongs to small "
        "initialisation.",
        "plateau (arXiv 2506.13688)",
        (Condition(uniformity(LARGE, "leaving"), ">=", 0.10, uniformity(SMALL, "leaving")),),
    ),
    Claim(
        "U3",
        "At equal loss alike memory anchors belong to small initialisation.",
        "plateau (arXiv 2506.13688)",
        (Condition(_memory_cosine(SMALL), ">=", 0.20, _memory_cosine(LARGE)),),
    ),
    Claim(
        "U4",
        "Uniform attention is not the optimiser's doing.",
        "optimiser",
        (
            Condition(_of_optimiser("1e-12"), "<=", 0.05),
            Condition(_of_optimiser("1e-12"), "<=", 0.02, _of_optimiser("1.01e-8")),
        ),
    ),
)
"""A rival account: is uniform attention a mark of small initialisation, of any plateau, or of the
optimiser?"""
