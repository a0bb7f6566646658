"""The claims of paper 1 about models that its theory treats, as data: Emb-MLP and the one-layer model.

B1 to B5 are A1 to A5 on Emb-MLP (Definition 1), with the same statistics and thresholds. T1 to T4 ask whether what the
theory predicts of token embeddings is what training does to them. Each term names the part of the study that it reads:
``sweep`` (Emb-MLP, AdamW), ``descent`` (Emb-MLP, full-batch plain gradient descent) and ``one_layer`` (Definition 2,
full-batch plain gradient descent). Criteria were written down before the runs.
"""

from __future__ import annotations

from rb_interp.claims.criterion import Claim, Part, Term
from rb_interp.claims.registry import LARGE, SMALL, learning_order_claims

R2 = "R^2 of the anchors' predicted drift"
EXCESS = "R^2 - that of predictions permuted within kind"


def _drift(quantity: str, label: str, part: str = "descent", gamma: float = SMALL) -> Term:
    return Term("drift", quantity, gamma, "leaving", "anchor", label=label, part=part)


def _predicted(part: str) -> tuple[Part, ...]:
    """The drift is as predicted, and not by what all tokens of a kind share."""
    return Part(_drift("r2", R2, part), ">=", 0.90), Part(_drift("r2_excess", EXCESS, part), ">=", 0.10)


def _alike(stage: str) -> tuple[Part, ...]:
    """E1 and E2 at one stage of Emb-MLP."""

    def read(quantity: str, label: str) -> Term:
        return Term("geometry", quantity, SMALL, stage, label=label, part="sweep")

    return (
        Part(read("order_rho", "Spearman(|s_i - s_j|, cos) over reasoning anchors"), "<=", -0.80),
        Part(read("cos_memory", "mean cos between memory anchors"), ">=", 0.50),
    )


EMB_MLP_ORDER = learning_order_claims(
    "B",
    (
        "With small initialisation Emb-MLP learns the reasoning mapping before the memory mapping.",
        "With large initialisation Emb-MLP learns both mappings at about the same pace.",
        "With large initialisation Emb-MLP memorises the reasoning mapping: it does not carry over to masked pairs.",
        "The smaller the initialisation, the stronger Emb-MLP's preference for reasoning.",
        "With small initialisation Emb-MLP's reasoning mapping carries over to masked pairs.",
    ),
    ("Fig. 3B",) * 5,
    part="sweep",
)

THEORY = (
    Claim(
        "T1",
        "With small initialisation the labels that each token sees predict how its embedding in Emb-MLP first moves.",
        "Prop. 1",
        _predicted("descent"),
        beside=(
            _drift("r2_sequences", "R^2 where a repeated anchor counts once, as Eq. 4 is printed"),
            _drift("cos", "cos of predicted and measured drift, centred over anchors"),
        ),
    ),
    Claim(
        "T2",
        "With large initialisation that prediction is worse.",
        "Prop. 1",
        (Part(_drift("r2", R2), ">=", 0.20, _drift("r2", R2, gamma=LARGE)),),
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
        beside=(_drift("r2_positions", "R^2 of the prediction that also knows each token's position", "one_layer"),),
    ),
)

EMB_MLP: tuple[Claim, ...] = EMB_MLP_ORDER + THEORY
