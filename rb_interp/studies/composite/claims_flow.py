"""Claims F: by which positions key and pair reach the last one (Fig. 3 and Sec. 5.1)."""

from dataclasses import replace

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.composite.config import (
    ANCHOR_MIN,
    ANCHORS_MIN,
    EDGES,
    FIRST_HOP_MIN,
    MIDDLE,
    SMALL,
)


def share(grouping: str, gamma: float, layer: int, label: str, set: str = "seen_test") -> Term:
    """Share of variance at the last position after a layer's attention that a grouping explains, at
    the last step."""
    return Term("variance_shares", grouping, gamma, "final", set, layer, label)


def _attention(layer: int, query: str, key: str, gamma: float, set: str = "seen_test") -> Term:
    label = f"L{layer}'s attention from {query} to {'a1 + a2' if key == 'anchors' else key}"
    label += ", on (4,3)" if set == "unseen" else ""
    return Term("attention_between_roles", f"{query}_to_{key}", gamma, "final", set, layer, label)


def _moved(roles: str, answer: str, gamma: float) -> Term:
    label = f"share of pairs that give {answer}, {roles} taken from the source after L0"
    if answer == "placebo":
        label = f"share of answers that change, {roles} taken from a row with other noise after L0"
    return Term("interchange_roles", f"{roles}:{answer}", gamma, "final", "seen_test", label=label)


def _knocked(edge: str, gamma: float, placebo: bool = False) -> Term:
    words = {
        "anchors_from_key": "from the anchors to the key",
        "last_from_anchors": "from last to the anchors",
    }
    label = f"accuracy on seen_test lost without L0's attention {words[edge]}"
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
        Condition(_attention(layer, "last", "anchors", gamma), ">=", ANCHORS_MIN),
        Condition(_attention(layer, "last", "a1", gamma), ">=", ANCHOR_MIN),
        Condition(_attention(layer, "last", "a2", gamma), ">=", ANCHOR_MIN),
    )


def _placebos(gamma: float, *roles: str) -> tuple[Condition, ...]:
    return tuple(Condition(_moved(each, "placebo", gamma), "<=", 0.10) for each in roles)


def _explained(grouping: str, gamma: float) -> Term:
    words = {
        "unordered_pair": "the unordered pair explains",
        "order": "its order adds",
        "key": "the key explains",
    }
    label = f"share of the last position's variance after L0's attention that {words[grouping]}"
    return share(grouping, gamma, 0, label)


_FLOWS = {"last": "kb_ps", "key": "ks_pb", "a1": "source", "a2": "source", "a1+a2": "source"}


def _flow(gamma: float) -> tuple[Term, ...]:
    """What a flow has its name from."""
    return tuple(_moved(roles, answer, gamma) for roles, answer in _FLOWS.items())


def _match(quantity: str, label: str) -> Term:
    return Term("flow_match", quantity, None, "final", label=label)


def _unseen(*conditions: Condition) -> tuple[Term, ...]:
    """The same attention on rows of the pair that was never trained."""
    return tuple(
        replace(one.of, set="unseen", label=f"{one.of.label}, on (4,3)") for one in conditions
    )


_BY_LAST = (
    *_gathers(0, MIDDLE),
    Condition(_attention(1, "last", "key", MIDDLE), ">=", ANCHORS_MIN),
)
_BY_ANCHORS = (
    Condition(_attention(0, "a1", "key", SMALL), ">=", FIRST_HOP_MIN),
    Condition(_attention(0, "a2", "key", SMALL), ">=", FIRST_HOP_MIN),
    *_gathers(1, SMALL),
)

FLOW_CLAIMS = (
    Claim(
        "F1",
        "In a symmetric solution L0 looks from the last position to both anchors, and L1 to the "
        "key.",
        "Fig. 3a",
        _BY_LAST,
        context=(*_unseen(*_BY_LAST), *_flow(MIDDLE)),
    ),
    Claim(
        "F2",
        "In an inferential solution L0 looks from both anchors to the key, and L1 from the last "
        "position to both.",
        "Fig. 3c",
        _BY_ANCHORS,
        context=(*_unseen(*_BY_ANCHORS), *_flow(SMALL)),
    ),
    Claim(
        "F3",
        "L1 looks from the last position to the key in symmetric solutions, and not in inferential "
        "ones.",
        "Fig. 3, contrast",
        (
            Condition(
                _attention(1, "last", "key", MIDDLE),
                ">=",
                0.50,
                _attention(1, "last", "key", SMALL),
            ),
        ),
        context=(
            *(_attention(1, "last", "key", gamma, "unseen") for gamma in (MIDDLE, SMALL)),
            *_flow(MIDDLE),
            *_flow(SMALL),
        ),
    ),
    Claim(
        "F4",
        "In a symmetric solution the last position holds the pair after L0, and the key's position "
        "the key.",
        "Sec. 5.1, causal",
        (
            Condition(_moved("key", "ks_pb", MIDDLE), ">=", 0.90),
            Condition(_moved("last", "kb_ps", MIDDLE), ">=", 0.90),
            *_placebos(MIDDLE, "key", "last"),
        ),
        context=_flow(MIDDLE),
    ),
    Claim(
        "F5",
        "In an inferential solution both anchors hold key and pair after L0, and neither last nor "
        "key holds any of it.",
        "Sec. 5.1, causal",
        (
            Condition(_moved("a1+a2", "source", SMALL), ">=", 0.90),
            Condition(_moved("last", "base", SMALL), ">=", 0.90),
            Condition(_moved("key", "base", SMALL), ">=", 0.90),
            *_placebos(SMALL, "a1+a2", "last", "key"),
        ),
        context=_flow(SMALL),
    ),
    Claim(
        "F6",
        "Inferential solutions need L0's attention from anchors to key, symmetric ones that from "
        "last to anchors.",
        "Sec. 5.1, causal",
        (
            Condition(_knocked("anchors_from_key", SMALL), ">=", 0.50),
            Condition(_knocked("anchors_from_key", MIDDLE), "<=", 0.10),
            Condition(_knocked("last_from_anchors", MIDDLE), ">=", 0.50),
            Condition(_knocked("last_from_anchors", SMALL), "<=", 0.10),
        ),
        context=(
            *(_knocked(edge, gamma, placebo=True) for edge in EDGES for gamma in (SMALL, MIDDLE)),
            *_flow(SMALL),
            *_flow(MIDDLE),
        ),
    ),
    Claim(
        "F7",
        "The flow tells the phase: via anchors is inferential, via last is symmetric.",
        "Sec. 5.1, match",
        (
            Condition(
                _match(
                    "balanced_accuracy", "balanced accuracy with which the flow tells the phase"
                ),
                ">=",
                0.90,
            ),
            Condition(
                _match(
                    "other_flow", "share of inferential and symmetric members with another flow"
                ),
                "<=",
                0.10,
            ),
        ),
        unit="interval",
        context=(
            _match("inferential", "share of inferential members via anchors, not via last"),
            _match("symmetric", "share of symmetric members via last, not via anchors"),
            *_flow(MIDDLE),
            *_flow(SMALL),
        ),
    ),
    Claim(
        "F8",
        "In a symmetric solution the last position holds the pair after L0 without its order.",
        "Fig. 3b",
        (
            Condition(_explained("unordered_pair", MIDDLE), ">=", 0.50),
            Condition(_explained("order", MIDDLE), "<=", 0.05),
        ),
        context=(
            *(_explained(name, SMALL) for name in ("unordered_pair", "order")),
            *(_explained("key", gamma) for gamma in (MIDDLE, SMALL)),
            *_flow(MIDDLE),
            *_flow(SMALL),
        ),
    ),
    Claim(
        "F9",
        "The flow on the unseen pair is that on trained pairs.",
        "Sec. 5.1, unseen pair",
        (
            Condition(
                Term(
                    "unseen_attention",
                    "kept",
                    None,
                    "final",
                    "unseen",
                    label="share of members whose attention meets F1's or F2's criterion on (4,3) as on trained pairs",
                ),
                ">=",
                0.90,
            ),
        ),
        unit="share",
        context=(*_flow(MIDDLE), *_flow(SMALL)),
    ),
)
