"""The figures of the Emb-MLP study, in the order in which they are shown."""

from __future__ import annotations

from functools import partial
from typing import Any

from rb_interp.claims.criterion import Condition
from rb_interp.claims.learning_order import SMALL, as_in_theory, ordered_component
from rb_interp.figures.embedding import caption_pca, caption_theory, draw_cosines, draw_pca, draw_theory
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.learning import caption_bias, caption_learning, draw_bias, draw_learning
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import over_seeds
from rb_interp.figures.spec import Caption, FigureSpec, on_sweep
from rb_interp.studies.emb_mlp.config import EARLY, LATE
from rb_interp.studies.emb_mlp.figures import along_training, scaling
from rb_interp.studies.emb_mlp.figures.along_training import caption_agreement_end, draw_agreement_end
from rb_interp.studies.emb_mlp.figures.distributions import caption_distributions, draw_distributions
from rb_interp.studies.emb_mlp.figures.drift import caption_drift, draw_drift

STAGES = ("init", "early", "late")
REFUTED = (
    " A mean on the wrong side does not yet refute: a claim FAILS where the whole 95 % interval over seeds lies there, "
    "and is OPEN where the interval holds the threshold."
)

_adamw = partial(on_sweep, "adamw")


def _caption_learning(evidence: Evidence) -> Caption:
    caption = caption_learning(evidence.sweep("adamw"), family="B", note=REFUTED)
    model = "Emb-MLP with AdamW; its memory labels do not depend on the order of the anchors, which it cannot see. "
    return Caption(model + caption.seen, caption.would_refute)


def _caption_cosines(evidence: Evidence) -> Caption:
    """Caption of Emb-MLP's cosine matrices, with the numbers that T3 judges."""
    own = evidence.sweep("adamw")
    alike, order = (
        "{} early and {} late".format(*(over_seeds(own, "geometry", name, SMALL, stage=s) for s in STAGES[1:]))
        for name in ("cos_memory", "order_rho")
    )
    most, least = (two_digits(evidence.threshold("T3", number)) for number in (0, 1))
    return Caption(
        "Cosines between the embeddings of memory anchors (top) and of reasoning anchors (bottom) of Emb-MLP at γ = "
        f"{SMALL:g}, seed {min(own.seeds, default=0)} (the lowest): untrained, after {100 * EARLY:g} % and after "
        f"{100 * LATE:g} % of the steps "
        f"(the paper shows epochs 50 and 900 of 1000). Over all seeds the mean cosine of memory anchors is {alike}; "
        f"the rank correlation of distance and cosine among reasoning anchors is {order}. Crossed cells are undefined.",
        f"early or late, memory anchors with a mean cosine below {least}, or reasoning cosines that do not fall with "
        f"distance from the diagonal (Spearman above {most}): T3. The same pattern in the untrained model would show "
        "that training has nothing to do with it.",
    )


def _unjudged(claim: str, condition: Condition) -> dict[str, Any]:
    """What a caption says of a claim of the anchor study, which is about the transformer alone."""
    return {"judged": f"{claim} of the anchor study, not judged here", "least": condition.threshold}


FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec(
        "learning",
        "What Emb-MLP learns first (after Fig. 3B)",
        _adamw(draw_learning),
        _caption_learning,
        ("B1", "B2", "B3", "B5"),
    ),
    FigureSpec(
        "bias",
        "Emb-MLP's bias index against initialisation rate",
        _adamw(draw_bias, family="B"),
        _adamw(caption_bias, family="B"),
        ("B1", "B2", "B4"),
    ),
    FigureSpec(
        "cosines",
        "Cosines of anchor embeddings, early and late (after Fig. 4A)",
        _adamw(draw_cosines, stages=STAGES),
        _caption_cosines,
        ("T3",),
    ),
    FigureSpec(
        "label_distributions",
        "Which labels a token sees (after Figs. 4B and 4C)",
        draw_distributions,
        caption_distributions,
    ),
    FigureSpec(
        "agreement",
        "Predicted and measured drift along training",
        along_training.draw_agreement,
        along_training.caption_agreement,
        ("T1", "T2", "T4"),
    ),
    FigureSpec("agreement_end", "Where theory and measurement part", draw_agreement_end, caption_agreement_end),
    FigureSpec(
        "drift_r2", "Predicted and measured drift as learning begins", draw_drift, caption_drift, ("T1", "T2", "T4")
    ),
    FigureSpec(
        "value_flow",
        "Predicted and measured change of W_V",
        along_training.draw_value_flow,
        along_training.caption_value_flow,
    ),
    FigureSpec(
        "pca",
        "Principal components of Emb-MLP's embedding",
        _adamw(draw_pca),
        _adamw(caption_pca, **_unjudged("E3", ordered_component("key", "keys"))),
    ),
    FigureSpec(
        "theory",
        "Emb-MLP's embeddings beside Theorem 1 (after Figs. 5C and 5D)",
        _adamw(draw_theory),
        _adamw(caption_theory, **_unjudged("E6", as_in_theory())),
    ),
    FigureSpec(
        "inner_products",
        "How the error of Theorem 1 grows with width (Eq. 13)",
        scaling.draw_inner_products,
        scaling.caption_inner_products,
    ),
    FigureSpec(
        "lemma_1", "Uniform attention at initialisation (Lemma 1)", scaling.draw_lemma_1, scaling.caption_lemma_1
    ),
)
