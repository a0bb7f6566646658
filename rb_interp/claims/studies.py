"""Which claims each study is judged on."""

from __future__ import annotations

from rb_interp.claims.criterion import Claim
from rb_interp.claims.emb_mlp import EMB_MLP
from rb_interp.claims.label_ranges import LABEL_RANGES
from rb_interp.claims.language import LANGUAGE
from rb_interp.claims.registry import CLAIMS
from rb_interp.errors import ConfigError, nearest

STUDIES: dict[str, tuple[Claim, ...]] = {
    "anchor": CLAIMS,
    "emb-mlp": EMB_MLP,
    "labels": LABEL_RANGES,
    "language": LANGUAGE,
}


def claims_of(study: str) -> tuple[Claim, ...]:
    """The claims of a study, in the order in which they are shown.

    Raises ConfigError for an unknown study.

    >>> [claim.id for claim in claims_of("labels")]
    ['R1', 'R2']
    """
    if study not in STUDIES:
        raise ConfigError(f"there are no claims of a study '{study}'; {nearest(study, STUDIES)}")
    return STUDIES[study]
