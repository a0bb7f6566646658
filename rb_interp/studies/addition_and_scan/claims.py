"""The claims of paper 2 about realistic tasks (arXiv 2405.05409, Figs. 6 and 17a), as data.

The paper changes initialisation and weight decay together, and so do the criteria, which were written down before the
runs. Beside each stands what either of the two does alone. P3 is about text and not here, P4 is in experiments/cogs.
"""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.addition_and_scan.config import DECAYS, HIGH, LARGE, LOW, SIZES, SMALL
from rb_interp.studies.addition_and_scan.contrasts import HELD_OUT

LEARNED = 0.99
_LABELS = {"addition": "addition", **{f"scan_{size}": f"{size} set of commands" for size in SIZES}}
ALONE = {
    "gamma_low_decay": f"gamma {SMALL:g} - gamma {LARGE:g} alone, weight decay {LOW:g}",
    "gamma_high_decay": f"gamma {SMALL:g} - gamma {LARGE:g} alone, weight decay {HIGH:g}",
    "decay_large_init": f"weight decay {HIGH:g} - {LOW:g} alone, gamma {LARGE:g}",
    "decay_small_init": f"weight decay {HIGH:g} - {LOW:g} alone, gamma {SMALL:g}",
}


def _share(task: str, decay: str, gamma: float, set: str) -> Term:
    what = "accuracy" if task == "addition" else "exact match"
    where = f"{_LABELS[task]}, weight decay {DECAYS[decay]:g}"
    return Term("answers", "right", gamma, "final", set, label=f"{what} on {set}", sweep=f"{task}_{decay}",
                sweep_label=where)  # fmt: skip


def _conditions(task: str, least: float) -> tuple[Condition, ...]:
    """The contrast on the held-out set, and the share on the rows that both members have learned."""
    cells = (("high", SMALL), ("low", LARGE))
    better, worse = (_share(task, *cell, HELD_OUT[task]) for cell in cells)
    both = (Condition(_share(task, *cell, "train"), ">=", LEARNED) for cell in cells)
    return (Condition(better, ">=", least, worse), *both)


def _context(task: str) -> tuple[Term, ...]:
    """What gamma and weight decay do alone, and both members on seen_test."""
    alone = (
        Term("contrast", f"{task}:{name}", None, "final", HELD_OUT[task], label=f"{_LABELS[task]}: {words}")
        for name, words in ALONE.items()
    )
    return (*alone, *(_share(task, *cell, "seen_test") for cell in (("high", SMALL), ("low", LARGE))))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "P1",
        "With small initialisation and large weight decay, addition carries over to a block of operands that was held "
        "out, better than with large initialisation and small weight decay.",
        "Fig. 17a",
        _conditions("addition", 0.20),
        context=_context("addition"),
    ),
    Claim(
        "P2",
        "With small initialisation and large weight decay, a verb that was only trained alone is used in commands, "
        "better than with large initialisation and small weight decay, at each of three numbers of rows.",
        "Fig. 6a",
        tuple(condition for size in SIZES for condition in _conditions(f"scan_{size}", 0.10)),
        context=tuple(term for size in SIZES for term in _context(f"scan_{size}")),
    ),
)
