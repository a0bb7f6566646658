"""The claims at equal training loss: they stand beside those that count steps.

They were written after seeds 10 to 17 had been read, so seeds from 18 on decide.
"""

from dataclasses import replace

from rb_interp.claims import Claim, Condition, Term
from rb_interp.claims.claim import at_least, at_most, make_claim
from rb_interp.settings import LARGE, MIDDLE, SMALL
from rb_interp.statistics.equal_loss import ACCURACIES, LEVELS

FIRST_SEED = 18
PROBE = "equal_loss"


def _at_equal_loss(quantity: str, gamma: float, label: str) -> Term:
    return Term(PROBE, quantity, gamma, "final", label=label, stage_label="at equal training loss")


def _generalises_more(id: str, gamma: float, name: str, beside: str) -> Claim:
    """Gamma .8 generalises more than a larger initialisation, at both losses."""
    gap = "gap in loss (nats)"
    conditions = [
        at_least(_at_equal_loss("gap", gamma, gap), 0.30, _at_equal_loss("gap", SMALL, gap))
    ]
    for level in LEVELS:
        label = f"gap in accuracy at {level:g} nats"
        larger, small = (_at_equal_loss(f"acc_gap_{level:g}", g, label) for g in (gamma, SMALL))
        conditions.append(Condition(larger, ">", 0.0, small))
    context = []
    for accuracy in ACCURACIES:
        label = f"gap in accuracy at trained accuracy {accuracy:g}"
        context += [_at_equal_loss(f"acc_gap_at_{accuracy:g}", g, label) for g in (gamma, SMALL)]
    statement = f"At equal training loss small initialisation generalises more than {name}."
    return make_claim(id, statement, beside, *conditions, context=tuple(context))


LOWEST_MEMORY = "lowest_acc_mem"
"""Accuracy on memory at the end, of the member that has learned least of it; one a seed."""
_TABLE_LEARNED = at_least(
    Term("learning_order", LOWEST_MEMORY, None, "final", label="accuracy on mem at every gamma"),
    0.50,
)


def uniformity(gamma: float, stage: str) -> Term:
    """L0's distance from an average on reasoning inputs."""
    return Term("uniformity", "tv", gamma, stage, "rsn_train", 0, "L0's TV from 1/i")


def _answers_lost(quantity: str, label: str) -> Term:
    return Term("forced_average_answers", quantity, SMALL, "half", "rsn_train", label=label)


_AVERAGED = _answers_lost("effect", "accuracy lost with L0's pattern at 1/i")


def claims_at_equal_loss(beside: dict[str, Claim]) -> tuple[Claim, ...]:
    """These claims. A1 and A4, found in ``beside`` by id, are asked again where the table is
    learned."""
    again = [
        replace(
            beside[id],
            id=f"{id}b",
            statement=f"Where the table is learned: {beside[id].statement}",
            gate=_TABLE_LEARNED,
            learned=None,
        )
        for id in ("A1", "A4")
    ]
    claims = [
        _generalises_more("A6", LARGE, "large initialisation", "beside A1"),
        _generalises_more("A6m", MIDDLE, "a middle one", "beside A6"),
        *again,
        make_claim(
            "U2b",
            "Where more than frequencies is known, uniform attention belongs to small "
            "initialisation.",
            "plateau (arXiv 2506.13688), beside U2",
            at_least(uniformity(LARGE, "informed"), 0.10, uniformity(SMALL, "informed")),
        ),
        make_claim(
            "M10c",
            "While the circuit forms, no answer is lost by L0's average.",
            "average, causal, beside M10",
            at_most(_AVERAGED, 0.05),
            at_least(
                _answers_lost("control", "accuracy lost with random patterns"), 0.20, _AVERAGED
            ),
        ),
    ]
    return tuple(replace(claim, first_seed=FIRST_SEED) for claim in claims)
