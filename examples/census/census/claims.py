"""The claims N1 to N9; docs/claims.md has them in words."""

from typing import Any

from rb_interp.claims import Claim, Condition, Term

FIRST_SEED = 30
NORMS = ("none", "post", "pre")
EPS_NORMS = NORMS[:2]


def number(quantity: str, label: str) -> Term:
    """A number of one seed, of all its members together."""
    return Term("census", quantity, None, "final", label=label)


def claim(id: str, statement: str, *conditions: Condition, **options: Any) -> Claim:
    first = 0 if "unit" in options else FIRST_SEED  # cells are numbered from 0
    return Claim(id, statement, "census", conditions, first_seed=first, **options)


def generalises_more(norm: str) -> Claim:
    """A6 under one norm."""
    gap = number(f"gap_{norm}", "gap in loss at .3 less at .8 (nats)")
    conditions = [Condition(gap, ">=", 0.30)]
    for level in ("3", "2.65"):
        label = f"gap in accuracy at {level} nats, at .3 less at .8"
        conditions.append(Condition(number(f"acc_gap_{level}_{norm}", label), ">", 0.0))
    words = "without LayerNorm" if norm == "none" else f"with {norm}-norm"
    statement = f"At equal training loss small initialisation generalises more, {words}."
    return claim(f"N5{norm}", statement, *conditions)


CLAIMS = (
    claim(
        "N1",
        "Small initialisation makes the paper's circuit.",
        Condition(number("rho_gamma", "Spearman of gamma and average-then-key"), ">=", 0.20),
        context=(number("rho_gamma_within", "the same within a norm and rate"),),
    ),
    claim(
        "N2",
        "A low learning rate makes the paper's circuit.",
        Condition(number("rho_rate", "Spearman of rate and average-then-key"), "<=", -0.20),
        context=(number("rho_rate_within", "the same within a norm and gamma"),),
    ),
    claim(
        "N3",
        "Settings do not decide the circuit.",
        Condition(number("two_circuits", "cells with two circuits, two members each"), ">=", 0.50),
        unit="share",
    ),
    claim(
        "N4",
        "The circuit decides how well a member generalises.",
        Condition(number("gap_by_circuit", "gap at 2.65 nats by circuit"), ">=", 0.10),
        context=(
            number("gap_by_circuit_signed", "key-to-anchors less average-then-key"),
            number("gap_by_circuit_near", "of pairs one step of gamma apart"),
        ),
    ),
    *map(generalises_more, NORMS),
    claim(
        "N6",
        "The optimiser's epsilon does not make the bias.",
        *(
            Condition(number(f"bias_by_eps_{norm}", f"B by eps, less by chaos, {norm}"), "<=", 0.02)
            for norm in EPS_NORMS
        ),
        context=tuple(
            number(f"bias_by_eps_{norm}_{part}", f"change of B, {words}, {norm}")
            for norm in EPS_NORMS
            for part, words in (("alone", "eps 1e-12"), ("control", "eps 1.01e-8"))
        ),
    ),
    claim(
        "N7",
        "A circuit's fate is open at the start and sealed at a loss.",
        Condition(number("same_from_0", "forks from step 0 that have one circuit"), "<=", 0.75),
        Condition(number("same_late", "forks from the loss on that have one circuit"), ">=", 0.95),
        context=(
            number("sealed_loss", "the loss, from the other seeds (nats)"),
            number("late_forks", "the seed's forks from it on"),
        ),
    ),
    claim(
        "N8",
        "Averaging in L0 decides how well a member generalises.",
        Condition(number("gap_by_average", "gap at 3 nats by L0's pattern"), ">=", 0.10),
        context=(number("gap_by_average_signed", "L0 fixed less free"),),
    ),
    claim(
        "N9",
        "The seed decides the circuit, whatever the learning rate.",
        Condition(number("agreement", "pairs of rates that agree, less by chance"), ">", 0.0),
    ),
)
