"""What the anchor study says beside the cosine matrices of Fig. 5A: claims E1 and E2."""

from __future__ import annotations

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import over_seeds
from rb_interp.figures.spec import Caption


def caption_cosines(evidence: Evidence) -> Caption:
    """Caption of the cosine matrices, with the numbers that E1 and E2 judge."""
    memory = over_seeds(evidence, "geometry", "cos_memory", SMALL, stage="half")
    order = over_seeds(evidence, "geometry", "order_rho", SMALL)
    return Caption(
        "Cosines between the embeddings of memory anchors (top) and of reasoning anchors (bottom) at γ = "
        f"{SMALL:g}, seed {min(evidence.seeds, default=0)} (the lowest): untrained, at half, and at the end. Over all "
        f"seeds the mean cosine of memory anchors is {memory} at half, and the rank correlation of "
        f"distance and cosine among reasoning anchors is {order} at the end. "
        "Crossed cells are undefined.",
        f"memory anchors that share no direction at half (mean cosine below {two_digits(evidence.threshold('E2'))}, "
        "E2); reasoning cosines that do not fall with distance from the diagonal at the end (Spearman above "
        f"{two_digits(evidence.threshold('E1'))}, E1); the same pattern in the untrained model.",
    )
