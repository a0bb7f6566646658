"""Error rates of a study's probes: what verdicts and reports need of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rb_interp.typed import typed


class Standing(NamedTuple):
    """What is known about a claim's probe in a family of models.

    Attributes:
        calibrated: None where the claim needs no calibration, else whether its rates are known and good enough.
        reason: why the verdict is withheld; empty where it is not.
    """

    calibrated: bool | None
    reason: str = ""


@typed
@dataclass(frozen=True)
class Calibration:
    """The error rates of a study's probes on one family of models.

    Attributes:
        family: of the models, in words.
        standings: claim id -> what is known of its probe; claims without an entry need no calibration.
        rates: rows of the table of error rates, as a report shows them; empty where the family has none.
        trained: rows of the table of error rates on trained models, each with its ``source``.
    """

    family: str
    standings: Mapping[str, Standing] = field(default_factory=dict)
    rates: Sequence[Mapping[str, Any]] = ()
    trained: Sequence[Mapping[str, Any]] = ()
