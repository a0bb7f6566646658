"""The claims of paper 2 (arXiv 2405.05409), as data.

    C   how the unseen pair is answered (Fig. 2)
    F   by which positions key and pair reach the last one (Fig. 3 and Sec. 5.1)
    D   which vectors are parallel before the answer is read (Fig. 4 and Sec. 5.2)
    K   how complex the weights of a member are, and whether that tells its phase (Figs. 5, 12 and 13)

Criteria were written down before the runs, and gammas are those that the paper names. Layers are
counted from 0 here and from 1 in the paper: its first layer is L0.
"""

from rb_interp.claims import Calibration, CalibrationStatus, Claim, Condition, Term
from rb_interp.studies.composite.claims_flow import FLOW_CLAIMS
from rb_interp.studies.composite.claims_vectors import COMPLEXITY_CLAIMS, REPRESENTATION_CLAIMS
from rb_interp.studies.composite.config import (
    BOTH_UNSEEN,
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


def _others(gamma: float) -> tuple[Term, ...]:
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
        "With very large initialisation not even seen pairs are answered, and the unseen pair in "
        "neither way.",
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
        (
            Condition(
                _memorising("gap", "accuracy on train - on seen_train, of unfit members"),
                ">=",
                0.20,
            ),
        ),
        gate=Condition(_memorising("train", "accuracy on train"), ">=", 0.90),
        context=(
            _memorising("train", "accuracy on train, of unfit members"),
            _memorising("loss", "loss"),
        ),
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
                Condition(
                    phase("gap", gamma, "accuracy on seen_train - accuracy on seen_test"),
                    "<=",
                    0.03,
                ),
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
                Term(
                    "two_phases",
                    "decided",
                    None,
                    "final",
                    label="share of a seed's fitted members at gammas from .5 on that are inferential or symmetric",
                ),
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
            Condition(
                phase("S", gamma, "share answered as the exception is trained", BOTH_UNSEEN),
                "<=",
                0.10,
            )
            for gamma in (MIDDLE, SMALL)
        ),
        context=tuple(
            phase(quantity, gamma, label, BOTH_UNSEEN)
            for gamma in (MIDDLE, SMALL)
            for quantity, label in (
                ("I", "I"),
                ("O", "O"),
                ("acc_seen_test", "accuracy on seen_test"),
            )
        ),
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
