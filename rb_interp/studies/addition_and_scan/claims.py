"""The claims of paper 2 about realistic tasks (arXiv 2405.05409, Figs. 6a and 17a), as data.

The paper changes initialisation and weight decay together, and so do the criteria, which were written down before the
runs. Beside each stands what either of the two does alone. P3 is about text and P4 about a grammar like COGS: neither
is here.
"""

from __future__ import annotations

from rb_interp.claims import Claim, Condition, Term
from rb_interp.studies.addition_and_scan.config import DECAYS, LARGE, SIZES, SMALL
from rb_interp.studies.addition_and_scan.contrasts import held_out

LEARNED = 0.99
_LABELS = {"addition": "addition", **{f"scan_{size}": f"{size} set of commands" for size in SIZES}}
_ALONE = {
    "gamma_low_decay": "gamma 0.8 - gamma 0.3 alone, weight decay 0.01",
    "gamma_high_decay": "gamma 0.8 - gamma 0.3 alone, weight decay 0.1",
    "decay_large_init": "weight decay 0.1 - 0.01 alone, gamma 0.3",
    "decay_small_init": "weight decay 0.1 - 0.01 alone, gamma 0.8",
}


def _share(task: str, decay: str, gamma: float, set: str) -> Term:
    what = "accuracy" if task == "addition" else "exact match"
    where = f"{_LABELS[task]}, weight decay {DECAYS[decay]:g}"
    return Term("answers", "right", gamma, "final", set, label=f"{what} on {set}", sweep=f"{task}_{decay}",
                sweep_label=where)  # fmt: skip


def _conditions(task: str, least: float) -> tuple[Condition, ...]:
    """The contrast on the held-out set, and both members have learned what they were trained on."""
    cells = (("high", SMALL), ("low", LARGE))
    better, worse = (_share(task, *cell, held_out(task)) for cell in cells)
    learned = (Condition(_share(task, *cell, "train"), ">=", LEARNED) for cell in cells)
    return (Condition(better, ">=", least, worse), *learned)


def _context(task: str) -> tuple[Term, ...]:
    """What gamma and weight decay do alone, and both members on rows like those that were trained on."""
    alone = (
        Term("contrast", f"{task}:{name}", None, "final", held_out(task), label=f"{_LABELS[task]}: {words}")
        for name, words in _ALONE.items()
    )
    return (*alone, _share(task, "high", SMALL, "seen_test"), _share(task, "low", LARGE, "seen_test"))


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
