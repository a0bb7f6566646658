"""The claims of paper 2 (arXiv 2405.05409), as data.

    C   how the unseen pair is answered (Fig. 2)
    F   by which positions key and pair reach the last one (Fig. 3 and Sec. 5.1)
    D   which vectors are parallel before the answer is read (Fig. 4 and Sec. 5.2)
    K   how complex the weights of a member are, and whether that tells its phase (Figs. 5, 12 and 13)

Criteria were written down before the runs, and gammas are those that the paper names. Layers are
counted from 0 here and from 1 in the paper: its first layer is L0.
"""

from dataclasses import replace

from rb_interp.claims import Calibration, CalibrationStatus, Claim, Condition, Term
from rb_interp.claims.claim import at_least, at_most, make_claim
from rb_interp.studies.composite.claims_vectors import (
    COMPLEXITY_CLAIMS,
    REPRESENTATION_CLAIMS,
    share,
)
from rb_interp.studies.composite.config import (
    ANCHOR_MIN,
    ANCHORS_MIN,
    BOTH_UNSEEN,
    EDGES,
    FIRST_HOP_MIN,
    MIDDLE,
    SMALL,
    VERY_LARGE,
    CompositeConfig,
)


def phase(quantity: str, gamma: float, label: str = "", sweep: str = "") -> Term:
    """A value of the reading ``phase`` at the last step."""
    return Term("phase", quantity, gamma, "final", label=label or quantity, sweep=sweep)


def accuracy(set: str, gamma: float) -> Term:
    """Accuracy on a set at the last step."""
    return phase(f"acc_{set}", gamma, f"accuracy on {set}")


def other_answers(gamma: float) -> tuple[Term, ...]:
    """What stands beside a claim about answers to unseen: the other answers, and both with early
    keys alone."""
    return (
        *(phase(name, gamma) for name in "ISO"),
        phase("I_early", gamma, "I, keys at positions 0 to length - 5"),
        phase("S_early", gamma, "S, keys at positions 0 to length - 5"),
        accuracy("seen_test", gamma),
    )


def _memorising(quantity: str, label: str) -> Term:
    return Term("memorising", quantity, VERY_LARGE, "final", "train", label=label)


def _carries_over(gamma: float) -> tuple[Condition, ...]:
    """Seen pairs are answered rightly with keys of either kind."""
    gap = phase("gap", gamma, "accuracy on seen_train - accuracy on seen_test")
    return at_least(accuracy("seen_test", gamma), 0.95), at_most(gap, 0.03)


def _as_exception(gamma: float) -> Term:
    return phase("S", gamma, "share answered as the exception is trained", BOTH_UNSEEN)


def _control(gamma: float) -> tuple[Term, ...]:
    """The other answers of members that see neither pair."""
    labels = {"I": "I", "O": "O", "acc_seen_test": "accuracy on seen_test"}
    return tuple(phase(name, gamma, label, BOTH_UNSEEN) for name, label in labels.items())


PHASE_CLAIMS = (
    make_claim(
        "C1",
        "With small initialisation the unseen pair is answered inferentially.",
        "Fig. 2b",
        at_least(phase("I", SMALL), 0.90),
        context=other_answers(SMALL),
    ),
    make_claim(
        "C2",
        "With larger initialisation the unseen pair is answered symmetrically.",
        "Fig. 2a",
        at_least(phase("S", MIDDLE), 0.90),
        context=other_answers(MIDDLE),
    ),
    make_claim(
        "C3",
        "With very large initialisation not even seen pairs are answered, and the unseen pair in "
        "neither way.",
        "Fig. 2, shaded",
        Condition(accuracy("seen_test", VERY_LARGE), "<", 0.90),
        Condition(phase("I", VERY_LARGE), "<", 0.50),
        Condition(phase("S", VERY_LARGE), "<", 0.50),
        context=(accuracy("train", VERY_LARGE), accuracy("seen_train", VERY_LARGE)),
    ),
    make_claim(
        "C3m",
        "With very large initialisation each data point is learned by itself.",
        "Sec. 5, “each individual data point”",
        at_least(_memorising("gap", "accuracy on train - on seen_train, of unfit members"), 0.20),
        gate=at_least(_memorising("train", "accuracy on train"), 0.90),
        context=(
            _memorising("train", "accuracy on train, of unfit members"),
            _memorising("loss", "loss"),
        ),
    ),
    make_claim(
        "C4",
        "Seen pairs generalise to keys that were not trained at their position.",
        "generalisation on data",
        *_carries_over(MIDDLE),
        *_carries_over(SMALL),
    ),
    make_claim(
        "C5",
        "The initialisation turns symmetric answers into inferential ones.",
        "Fig. 2, contrast",
        at_least(phase("I", SMALL), 0.50, phase("I", MIDDLE)),
        at_least(phase("S", MIDDLE), 0.50, phase("S", SMALL)),
    ),
    make_claim(
        "C6",
        "Members that fit seen pairs are in one of two phases.",
        "Sec. 4, “two phases”",
        at_least(
            Term(
                "two_phases",
                "decided",
                None,
                "final",
                label="share of a seed's fitted members at gammas from .5 on that are inferential or symmetric",
            ),
            0.80,
        ),
    ),
    make_claim(
        "C13",
        "Without the exception hardly anything is answered as the exception would have it.",
        "control",
        at_most(_as_exception(MIDDLE), 0.10),
        at_most(_as_exception(SMALL), 0.10),
        context=(*_control(MIDDLE), *_control(SMALL)),
    ),
)


def _attention(layer: int, query: str, key: str, gamma: float, set: str = "seen_test") -> Term:
    label = f"L{layer}'s attention from {query} to {'a1 + a2' if key == 'anchors' else key}"
    label += ", on (4,3)" if set == "unseen" else ""
    return Term("attention_between_roles", f"{query}_to_{key}", gamma, "final", set, layer, label)


def _interchanged(roles: str, answer: str, gamma: float) -> Term:
    label = f"share of pairs that give {answer}, {roles} taken from the source after L0"
    if answer == "placebo":
        label = f"share of answers that change, {roles} taken from a row with other noise after L0"
    return Term("interchange_roles", f"{roles}:{answer}", gamma, "final", "seen_test", label=label)


def _knocked(edge: str, gamma: float, placebo: bool = False) -> Term:
    phrases = {
        "anchors_from_key": "from the anchors to the key",
        "last_from_anchors": "from last to the anchors",
    }
    label = f"accuracy on seen_test lost without L0's attention {phrases[edge]}"
    label += ", two noise positions in place of the anchors" if placebo else ""
    return Term(
        "knock_out",
        f"{edge}{':placebo' if placebo else ''}",
        gamma,
        "final",
        "seen_test",
        label=label,
    )


def _gathers(layer: int, gamma: float) -> tuple[Condition, ...]:
    """The last position looks at both anchors, and at each of them."""
    return (
        at_least(_attention(layer, "last", "anchors", gamma), ANCHORS_MIN),
        at_least(_attention(layer, "last", "a1", gamma), ANCHOR_MIN),
        at_least(_attention(layer, "last", "a2", gamma), ANCHOR_MIN),
    )


def _placebos(gamma: float, *roles: str) -> tuple[Condition, ...]:
    return tuple(at_most(_interchanged(position, "placebo", gamma), 0.10) for position in roles)


def _explained(grouping: str, gamma: float) -> Term:
    phrases = {
        "unordered_pair": "the unordered pair explains",
        "order": "its order adds",
        "key": "the key explains",
    }
    label = f"share of the last position's variance after L0's attention that {phrases[grouping]}"
    return share(grouping, gamma, 0, label)


_FLOWS = {"last": "kb_ps", "key": "ks_pb", "a1": "source", "a2": "source", "a1+a2": "source"}


def _flow(gamma: float) -> tuple[Term, ...]:
    """What a flow has its name from."""
    return tuple(_interchanged(roles, answer, gamma) for roles, answer in _FLOWS.items())


_FLOWS_AT_BOTH = (*_flow(MIDDLE), *_flow(SMALL))


def _match(quantity: str, label: str) -> Term:
    return Term("flow_match", quantity, None, "final", label=label)


def _unseen(*conditions: Condition) -> tuple[Term, ...]:
    """The same attention on rows of the pair that was never trained."""
    return tuple(
        replace(condition.of, set="unseen", label=f"{condition.of.label}, on (4,3)")
        for condition in conditions
    )


_BY_LAST = (*_gathers(0, MIDDLE), at_least(_attention(1, "last", "key", MIDDLE), ANCHORS_MIN))
_BY_ANCHORS = (
    at_least(_attention(0, "a1", "key", SMALL), FIRST_HOP_MIN),
    at_least(_attention(0, "a2", "key", SMALL), FIRST_HOP_MIN),
    *_gathers(1, SMALL),
)

FLOW_CLAIMS = (
    make_claim(
        "F1",
        "In a symmetric solution L0 looks from the last position to both anchors, and L1 to the "
        "key.",
        "Fig. 3a",
        *_BY_LAST,
        context=(*_unseen(*_BY_LAST), *_flow(MIDDLE)),
    ),
    make_claim(
        "F2",
        "In an inferential solution L0 looks from both anchors to the key, and L1 from the last "
        "position to both.",
        "Fig. 3c",
        *_BY_ANCHORS,
        context=(*_unseen(*_BY_ANCHORS), *_flow(SMALL)),
    ),
    make_claim(
        "F3",
        "L1 looks from the last position to the key in symmetric solutions, and not in inferential "
        "ones.",
        "Fig. 3, contrast",
        at_least(_attention(1, "last", "key", MIDDLE), 0.50, _attention(1, "last", "key", SMALL)),
        context=(
            *(_attention(1, "last", "key", gamma, "unseen") for gamma in (MIDDLE, SMALL)),
            *_FLOWS_AT_BOTH,
        ),
    ),
    make_claim(
        "F4",
        "In a symmetric solution the last position holds the pair after L0, and the key's position "
        "the key.",
        "Sec. 5.1, causal",
        at_least(_interchanged("key", "ks_pb", MIDDLE), 0.90),
        at_least(_interchanged("last", "kb_ps", MIDDLE), 0.90),
        *_placebos(MIDDLE, "key", "last"),
        context=_flow(MIDDLE),
    ),
    make_claim(
        "F5",
        "In an inferential solution both anchors hold key and pair after L0, and neither last nor "
        "key holds any of it.",
        "Sec. 5.1, causal",
        at_least(_interchanged("a1+a2", "source", SMALL), 0.90),
        at_least(_interchanged("last", "base", SMALL), 0.90),
        at_least(_interchanged("key", "base", SMALL), 0.90),
        *_placebos(SMALL, "a1+a2", "last", "key"),
        context=_flow(SMALL),
    ),
    make_claim(
        "F6",
        "Inferential solutions need L0's attention from anchors to key, symmetric ones that from "
        "last to anchors.",
        "Sec. 5.1, causal",
        at_least(_knocked("anchors_from_key", SMALL), 0.50),
        at_most(_knocked("anchors_from_key", MIDDLE), 0.10),
        at_least(_knocked("last_from_anchors", MIDDLE), 0.50),
        at_most(_knocked("last_from_anchors", SMALL), 0.10),
        context=(
            *(_knocked(edge, gamma, placebo=True) for edge in EDGES for gamma in (SMALL, MIDDLE)),
            *_flow(SMALL),
            *_flow(MIDDLE),
        ),
    ),
    make_claim(
        "F7",
        "The flow tells the phase: via anchors is inferential, via last is symmetric.",
        "Sec. 5.1, match",
        at_least(
            _match("balanced_accuracy", "balanced accuracy with which the flow tells the phase"),
            0.90,
        ),
        at_most(
            _match("other_flow", "share of inferential and symmetric members with another flow"),
            0.10,
        ),
        unit="interval",
        context=(
            _match("inferential", "share of inferential members via anchors, not via last"),
            _match("symmetric", "share of symmetric members via last, not via anchors"),
            *_FLOWS_AT_BOTH,
        ),
    ),
    make_claim(
        "F8",
        "In a symmetric solution the last position holds the pair after L0 without its order.",
        "Fig. 3b",
        at_least(_explained("unordered_pair", MIDDLE), 0.50),
        at_most(_explained("order", MIDDLE), 0.05),
        context=(
            *(_explained(name, SMALL) for name in ("unordered_pair", "order")),
            *(_explained("key", gamma) for gamma in (MIDDLE, SMALL)),
            *_FLOWS_AT_BOTH,
        ),
    ),
    make_claim(
        "F9",
        "The flow on the unseen pair is that on trained pairs.",
        "Sec. 5.1, unseen pair",
        at_least(
            Term(
                "unseen_attention",
                "kept",
                None,
                "final",
                "unseen",
                label="share of members whose attention meets F1's or F2's criterion on (4,3) as on trained pairs",
            ),
            0.90,
        ),
        unit="share",
        context=_FLOWS_AT_BOTH,
    ),
)


CLAIMS: tuple[Claim, ...] = (
    *PHASE_CLAIMS,
    *FLOW_CLAIMS,
    *REPRESENTATION_CLAIMS,
    *COMPLEXITY_CLAIMS,
)


BY_READING = ("F1", "F2", "F3", "F9", "D1", "D2", "D3", "D4", "D5")
"""Claims that read a mechanism off attention or vectors. F4 to F6 rest on interventions and C on
answers.

A probe is calibrated on hand-written models whose mechanism is known, and on perturbed copies of
them. None has been calibrated on post-norm models of two layers, so these verdicts are shown as not
calibrated, and are not withheld.
"""


def calibration(config: CompositeConfig) -> Calibration:
    """What is known of the probes' error rates on models of this configuration: nothing.

    >>> calibration(CompositeConfig.from_preset("quick")).standings["F1"].calibrated
    False
    """
    model = config.model
    family = f"norm={model.norm}, {model.n_layers} layers"
    return Calibration(family, dict.fromkeys(BY_READING, CalibrationStatus(False)))
