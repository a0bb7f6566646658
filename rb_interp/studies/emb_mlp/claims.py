"""Claims of the Emb-MLP study: learning order (B), and theory against measurement (T).

T1, T2 and T4 are read at the stage ``leaving``, where a member leaves the plateau that it starts on. Criteria were
written down before the runs.
"""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.claims.criterion import alike_anchors, learning_order_claims, ordered_anchors
from rb_interp.settings import LARGE, SMALL

R2 = "R^2 of the anchors' predicted drift"
EXCESS = "R^2 - that of predictions permuted within kind"
LABELS = {
    "adamw": "Emb-MLP",
    "descent": "Emb-MLP under gradient descent",
    "one_layer": "one-layer model under gradient descent",
}
"""What the sweeps are called in criteria."""


def _drift(quantity: str, label: str, sweep: str = "descent", gamma: float = SMALL) -> Term:
    return Term("drift", quantity, gamma, "leaving", "anchor", None, label, sweep, LABELS[sweep], "leaving the plateau")


def _predicted(sweep: str) -> tuple[Condition, ...]:
    """The drift is as predicted, and not by what all tokens of a kind share."""
    return Condition(_drift("r2", R2, sweep), ">=", 0.90), Condition(_drift("r2_excess", EXCESS, sweep), ">=", 0.10)


def _alike(stage: str) -> tuple[Condition, ...]:
    """E1 and E2 of the anchor study at one stage of Emb-MLP."""
    where = {"sweep": "adamw", "sweep_label": LABELS["adamw"]}
    return ordered_anchors(stage, **where), alike_anchors(stage, **where)


ORDER = learning_order_claims(
    "B",
    (
        "With small initialisation Emb-MLP learns the reasoning mapping before the memory mapping.",
        "With large initialisation Emb-MLP learns both mappings at about the same pace.",
        "With large initialisation Emb-MLP memorises the reasoning mapping: it does not carry over to masked pairs.",
        "The smaller the initialisation, the stronger Emb-MLP's preference for reasoning.",
        "With small initialisation Emb-MLP's reasoning mapping carries over to masked pairs.",
    ),
    ("Fig. 3B",) * 5,
    sweep="adamw",
    sweep_label=LABELS["adamw"],
)

THEORY = (
    Claim(
        "T1",
        "With small initialisation the labels that each token sees predict how its embedding in Emb-MLP first moves.",
        "Prop. 1",
        _predicted("descent"),
        context=(
            _drift("r2_sequences", "R^2 where a repeated anchor counts once, as Eq. 4 is printed"),
            _drift("cos", "cos of predicted and measured drift, centred over anchors"),
        ),
    ),
    Claim(
        "T2",
        "With large initialisation that prediction is worse.",
        "Prop. 1",
        (Condition(_drift("r2", R2), ">=", 0.20, _drift("r2", R2, gamma=LARGE)),),
    ),
    Claim(
        "T3",
        "In Emb-MLP memory anchors are alike, and reasoning anchors the more alike the closer their values, "
        "early and late in training.",
        "Fig. 4A",
        (*_alike("early"), *_alike("late")),
    ),
    Claim(
        "T4",
        "With small initialisation the labels that each token sees predict how its embedding in the one-layer model "
        "first moves.",
        "Props. 2-3",
        _predicted("one_layer"),
        context=(_drift("r2_positions", "R^2 of the prediction that also knows each token's position", "one_layer"),),
    ),
)

CLAIMS = ORDER + THEORY
BY_ID = {claim.id: claim for claim in CLAIMS}
