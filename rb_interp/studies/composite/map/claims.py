"""The claims of the phase map, C7 to C12 (paper 2, Figs. 2 and 14), as data."""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.composite.claims import phase
from rb_interp.studies.composite.config import MIDDLE, SMALL
from rb_interp.studies.composite.map.config import NORMS

ORDER = "Spearman(gamma, I - S), gammas .5 to 1.0"


def of_map(quantity: str, label: str, sweep: str = "") -> Term:
    """A number of a seed over all gammas, or over several sweeps."""
    return Term("map", quantity, None, "final", label=label, sweep=sweep)


def _context(sweep: str) -> tuple[Term, ...]:
    """I and S, also with early keys alone, at the small and the middle initialisation."""
    labels = {"I": "I", "S": "S", "I_early": "I, keys at positions 0 to length - 5",
              "S_early": "S, keys at positions 0 to length - 5", "acc_seen_test": "accuracy on seen_test"}  # fmt: skip
    return tuple(phase(name, gamma, label, sweep) for gamma in (MIDDLE, SMALL) for name, label in labels.items())


def _setting(id: str, axis: str, words: str, symbol: str) -> Claim:
    statement = f"A higher {words} makes a pair inferred whose mirror is not trained either."
    rank = of_map(f"{axis}_order", f"Spearman(log {symbol}, I)")
    gain = of_map(f"{axis}_gain", f"I at the highest {symbol} that is fitted - I at the lowest")
    return Claim(id, statement, "Fig. 14", (Condition(rank, ">=", 0.60), Condition(gain, ">=", 0.20)))


CLAIMS: tuple[Claim, ...] = (
    Claim("C7", "The smaller the initialisation, the more the unseen pair is inferred, and the less mirrored.",
        "Sec. 4, order", (Condition(of_map("order", ORDER, "depth_2"), ">=", 0.60),),
        context=_context("depth_2")),
    Claim("C8", "Deeper models need a smaller initialisation to fit seen pairs.", "Fig. 2, depth",
        (Condition(of_map("fit_rise", "smallest fitted gamma at depth 6 - at depth 2"), ">=", 0.1),),
        context=tuple(of_map("gamma_fit", "smallest fitted gamma", f"depth_{depth}") for depth in (2, 4, 6))),
    Claim("C9", "At every depth there is a boundary between symmetric and inferential answers.", "Fig. 2, depth",
        tuple(
            Condition(of_map("crosses", "I - S crosses 0 inside the grid (1: yes)", f"depth_{depth}"), ">=", 1.0)
            for depth in (2, 3, 4)),
        context=(
            *(of_map("gamma_star", "boundary gamma*", f"depth_{depth}") for depth in (2, 3, 4)),
            *(of_map("unfit", "members of the seed that are unfit", f"depth_{depth}") for depth in (2, 3, 4)),
            of_map("distance", "|gamma*(4) - gamma*(2)|"))),
    _setting("C10", "rate", "learning rate", "lr"),
    _setting("C11", "decay", "weight decay", "wd"),
    Claim("C12", "GPT-2's blocks show the same contrast and the same order, with the norm before and after.", "Fig. 2c",
        tuple(
            condition
            for sweep in (f"gpt2_{norm}" for norm in NORMS)
            for condition in (
                Condition(phase("I", SMALL, "", sweep), ">=", 0.50, phase("I", MIDDLE, "", sweep)),
                Condition(phase("S", MIDDLE, "", sweep), ">=", 0.50, phase("S", SMALL, "", sweep)),
                Condition(of_map("order", ORDER, sweep), ">=", 0.60),
            )), context=tuple(term for norm in NORMS for term in _context(f"gpt2_{norm}"))),
)  # fmt: skip
