"""The claims of paper 2 (arXiv 2405.05409), as data; those on the flow of information stand in ``flow_claims``.

    C   how the unseen pair is answered (Fig. 2)
    D   which vectors are parallel before the answer is read (Fig. 4 and Sec. 5.2)
    K   how complex the weights of a member are, and whether that tells its phase (Figs. 5, 12 and 13)

Criteria were written down before the runs, and gammas are those that the paper names. Layers are counted from 0 here
and from 1 in the paper: its first layer is L0.
"""

from __future__ import annotations

import math

from rb_interp.claims import Calibration, Claim, Condition, Standing, Term
from rb_interp.studies.composite.complexity import LOWER, TWO_LAYERS
from rb_interp.studies.composite.config import BOTH_UNSEEN, MIDDLE, SMALL, VERY_LARGE, CompositeConfig
from rb_interp.studies.composite.flow_claims import FLOW_CLAIMS, share


def phase(quantity: str, gamma: float, label: str = "", sweep: str = "") -> Term:
    """A value of the reading ``phase`` at the last step."""
    return Term("phase", quantity, gamma, "final", label=label or quantity, sweep=sweep)


def accuracy(set: str, gamma: float) -> Term:
    """Accuracy on a set at the last step."""
    return phase(f"acc_{set}", gamma, f"accuracy on {set}")


def _others(gamma: float) -> tuple[Term, ...]:
    """What stands beside a claim about answers to unseen: the other answers, and both with early keys alone."""
    return (
        *(phase(name, gamma) for name in "ISO"),
        phase("I_early", gamma, "I, keys at positions 0 to length - 5"),
        phase("S_early", gamma, "S, keys at positions 0 to length - 5"),
        accuracy("seen_test", gamma),
    )


def _memorising(quantity: str, label: str) -> Term:
    return Term("memorising", quantity, VERY_LARGE, "final", "train", label=label)


PHASE_CLAIMS = (
    Claim(
        "C1",
        "With small initialisation the unseen pair is answered inferentially.",
        "Fig. 2b",
        (Condition(phase("I", SMALL), ">=", 0.90),),
        context=_others(SMALL),
    ),
    Claim(
        "C2",
        "With larger initialisation the unseen pair is answered symmetrically.",
        "Fig. 2a",
        (Condition(phase("S", MIDDLE), ">=", 0.90),),
        context=_others(MIDDLE),
    ),
    Claim(
        "C3",
        "With very large initialisation not even seen pairs are answered, and the unseen pair in neither way.",
        "Fig. 2, shaded",
        (
            Condition(accuracy("seen_test", VERY_LARGE), "<", 0.90),
            Condition(phase("I", VERY_LARGE), "<", 0.50),
            Condition(phase("S", VERY_LARGE), "<", 0.50),
        ),
        context=(accuracy("train", VERY_LARGE), accuracy("seen_train", VERY_LARGE)),
    ),
    Claim(
        "C3m",
        "With very large initialisation each data point is learned by itself.",
        "Sec. 5, “each individual data point”",
        (Condition(_memorising("gap", "accuracy on train - on seen_train, of unfit members"), ">=", 0.20),),
        gate=Condition(_memorising("train", "accuracy on train"), ">=", 0.90),
        context=(_memorising("train", "accuracy on train, of unfit members"), _memorising("loss", "loss")),
    ),
    Claim(
        "C4",
        "Seen pairs generalise to keys that were not trained at their position.",
        "generalisation on data",
        tuple(
            condition
            for gamma in (MIDDLE, SMALL)
            for condition in (
                Condition(accuracy("seen_test", gamma), ">=", 0.95),
                Condition(phase("gap", gamma, "accuracy on seen_train - accuracy on seen_test"), "<=", 0.03),
            )
        ),
    ),
    Claim(
        "C5",
        "The initialisation turns symmetric answers into inferential ones.",
        "Fig. 2, contrast",
        (
            Condition(phase("I", SMALL), ">=", 0.50, phase("I", MIDDLE)),
            Condition(phase("S", MIDDLE), ">=", 0.50, phase("S", SMALL)),
        ),
    ),
    Claim(
        "C6",
        "Members that fit seen pairs are in one of two phases.",
        "Sec. 4, “two phases”",
        (
            Condition(
                Term("two_phases", "decided", None, "final",
                     label="share of a seed's fitted members at gammas from .5 on that are inferential or symmetric"),
                ">=",
                0.80,
            ),
        ),
    ),
    Claim(
        "C13",
        "Without the exception hardly anything is answered as the exception would have it.",
        "control",
        tuple(
            Condition(phase("S", gamma, "share answered as the exception is trained", BOTH_UNSEEN), "<=", 0.10)
            for gamma in (MIDDLE, SMALL)
        ),
        context=tuple(
            phase(quantity, gamma, label, BOTH_UNSEEN)
            for gamma in (MIDDLE, SMALL)
            for quantity, label in (("I", "I"), ("O", "O"), ("acc_seen_test", "accuracy on seen_test"))
        ),
    ),
)  # fmt: skip


_VECTORS = {"answer_cosines": "v", "step_cosines": "u"}
_WORDS = {
    "equal": "equal targets",
    "different": "different targets",
    "different_drawn": "different targets in the cells of Fig. 4",
    "centred_equal": "equal targets, centred",
    "centred_difference": "equal less different targets, centred",
}


def _cosine(probe: str, quantity: str, gamma: float) -> Term:
    label = f"mean cos of {_VECTORS[probe]}, {_WORDS.get(quantity, '')}"
    if quantity == "difference":
        label = f"mean cos of {_VECTORS[probe]}, equal less different targets"
    return Term(probe, quantity, gamma, "final", "grid", 1, label)


def _context(probe: str, *gammas: float) -> tuple[Term, ...]:
    """Both means, raw and centred."""
    shown = [*_WORDS] if probe == "answer_cosines" else [name for name in _WORDS if name != "different_drawn"]
    return tuple(_cosine(probe, name, gamma) for gamma in gammas for name in shown)


def _answer(gamma: float) -> Term:
    return share("answer", gamma, 1, "share of v's variance that the answer explains")


def _answer_context(gamma: float) -> tuple[Term, ...]:
    return (
        share("key", gamma, 1, "share that the key explains"),
        share("pair", gamma, 1, "share that the pair explains"),
        share("answer", gamma, 1, "share that the answer explains where all rows have the same noise", "grid"),
        share("key", gamma, 1, "share that the key explains where all rows have the same noise", "grid"),
    )


REPRESENTATION_CLAIMS = (
    Claim(
        "D1",
        "In an inferential solution the last position is parallel after L1 for pairs and keys with the same answer.",
        "Fig. 4a",
        (
            Condition(_cosine("answer_cosines", "equal", SMALL), ">=", 0.90),
            Condition(_cosine("answer_cosines", "difference", SMALL), ">=", 0.30),
        ),
        context=_context("answer_cosines", SMALL),
    ),
    Claim(
        "D2",
        "In a symmetric solution it is not.",
        "Fig. 4b",
        (Condition(_cosine("answer_cosines", "equal", MIDDLE), "<=", 0.60),),
        context=_context("answer_cosines", MIDDLE),
    ),
    Claim(
        "D3",
        "Equal answers set vectors apart from different ones more in inferential solutions.",
        "Fig. 4, contrast",
        (
            Condition(
                _cosine("answer_cosines", "difference", SMALL),
                ">=",
                0.20,
                _cosine("answer_cosines", "difference", MIDDLE),
            ),
        ),
        context=_context("answer_cosines", SMALL, MIDDLE),
    ),
    Claim(
        "D4",
        "In an inferential solution L1's value rows of first anchors are parallel where the first step gives the same.",
        "Fig. 4c",
        (
            Condition(_cosine("step_cosines", "equal", SMALL), ">=", 0.80),
            Condition(_cosine("step_cosines", "difference", SMALL), ">=", 0.30),
        ),
        context=(*_context("step_cosines", SMALL), _cosine("step_cosines", "difference", MIDDLE)),
    ),
    Claim(
        "D5",
        "In an inferential solution the answer fixes the last position after L1's attention.",
        "Sec. 5.2",
        (
            Condition(_answer(SMALL), ">=", 0.80),
            Condition(_answer(SMALL), ">=", 0.20, _answer(MIDDLE)),
        ),
        context=(*_answer_context(SMALL), *_answer_context(MIDDLE)),
    ),
)


def _condensed(quantity: str, gamma: float, words: str) -> Term:
    label = f"share of pairs of neurons of L0's W_Q with {words} > 0.7"
    return Term("condensation", f"{quantity}_W_Q", gamma, "final", layer=0, label=label)


def _items(quantity: str, gamma: float, label: str) -> Term:
    return Term("lattice", quantity, gamma, "final", label=label)


def _order(gamma: float) -> Term:
    return _items("pc_order", gamma, "best |Spearman| of one of the items' first three PCs with their value")


def _spread(gamma: float) -> Term:
    return _items("log_participation", gamma, "ln PR of the items")


def _over_members(probe: str, quantity: str, label: str) -> Term:
    return Term(probe, quantity, None, "final", label=label)


COMPLEXITY_CLAIMS = (
    Claim(
        "K1",
        "With small initialisation the neurons of L0's W_Q point in few directions, with larger initialisation not.",
        "Fig. 5a,b",
        (Condition(_condensed("share_abs", SMALL, "|cos|"), ">=", 0.20, _condensed("share_abs", MIDDLE, "|cos|")),),
        context=tuple(_condensed("share", gamma, "cos") for gamma in (SMALL, MIDDLE)),
    ),
    Claim(
        "K2",
        "Small initialisation leaves matrices of few directions.",
        "Fig. 13",
        (
            Condition(
                _over_members(
                    "complexity_contrast", "matrices_lower",
                    f"number of {TWO_LAYERS} matrices whose PR at gamma {SMALL:g} is at most {LOWER:g} times that "
                    f"at gamma {MIDDLE:g}",
                ),
                ">=",
                10,
            ),
        ),
    ),
    Claim(
        "K3",
        "With small initialisation the items' embeddings lie in few directions.",
        "Fig. 12",
        (
            Condition(_items("participation_ratio", SMALL, "PR of the items / that of the untrained model"), "<=", 0.5),
            Condition(_spread(SMALL), "<=", math.log(LOWER), _spread(MIDDLE)),
        ),
        context=tuple(_items("participation", gamma, "PR of the items") for gamma in (SMALL, MIDDLE)),
    ),
    Claim(
        "K4",
        "The largest eigenvalue of the items' covariance grows first, the others later.",
        "Fig. 12, growth",
        (
            Condition(
                Term(
                    "eigenvalue_growth", "order", SMALL, "final",
                    label="Spearman(rank, step of half the final value) over the five largest eigenvalues",
                ),
                ">=",
                0.70,
            ),
        ),
    ),
    Claim(
        "K5",
        "With small initialisation the items are ordered by value.",
        "Fig. 5c",
        (Condition(_order(SMALL), ">=", 0.90),),
    ),
    Claim(
        "K6",
        "With larger initialisation the items are not ordered by value.",
        "Fig. 5d",
        (Condition(_order(MIDDLE), "<=", 0.60),),
    ),
    Claim(
        "K7",
        "With small initialisation items that differ by 3 or 4 are alike.",
        "Fig. 5c, steps",
        (
            Condition(_items("contrast", SMALL, "mean of C(3), C(4) - mean of C(2), C(5)"), ">", 0.0),
            Condition(_items("nearest", SMALL, "share of items whose nearest one is 3 or 4 away"), ">=", 0.50),
        ),
    ),
    Claim(
        "K8",
        "Among members of one gamma, inferential ones have an L0 W_Q of fewer directions than symmetric ones.",
        "Sec. 5.3, the hypothesis",
        (
            Condition(
                _over_members(
                    "phase_by_complexity", "auc",
                    "AUC: chance that an inferential member has a lower PR of L0's W_Q than a symmetric one of the "
                    "same gamma",
                ),
                ">=",
                0.80,
            ),
        ),
        unit="interval",
    ),
)  # fmt: skip


CLAIMS: tuple[Claim, ...] = (*PHASE_CLAIMS, *FLOW_CLAIMS, *REPRESENTATION_CLAIMS, *COMPLEXITY_CLAIMS)


BY_READING = ("F1", "F2", "F3", "F9", "D1", "D2", "D3", "D4", "D5")
"""Claims that read a mechanism off attention or vectors. F4 to F6 rest on interventions and C on answers.

A probe is calibrated on hand-written models whose mechanism is known, and on perturbed copies of them. None has been
calibrated on post-norm models of two layers, so these verdicts are shown as not calibrated, and are not withheld.
"""


def calibration(config: CompositeConfig) -> Calibration:
    """What is known of the probes' error rates on models of this configuration: nothing.

    >>> calibration(CompositeConfig.from_preset("quick")).standings["F1"].calibrated
    False
    """
    model = config.model
    family = f"norm={model.norm}, {model.n_layers} layers"
    return Calibration(family, dict.fromkeys(BY_READING, Standing(False)))
