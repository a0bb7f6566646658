"""What the figures of the language study share: names of the corpora, what stands in for what, curves of Delta L.

``meta["text"]`` says which text was read: for ``prontoqa`` and ``stories`` its source in words, whether it stands in
for the paper's (``stand_in``), documents and tokens; ``tokenizer``; ``stand_in``, sentences that every output shows;
and, where known, ``entropies``, the two corpora's unigram entropies in nats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import seed_interval

CORPORA = {"prontoqa": "PrOntoQA", "stories": "TinyStories"}
STAND_IN = "story grammar (stand-in)"
EARLY = (
    "early: the first evaluation at which the training loss, mean of both corpora, is at most 80 % of its start (the "
    "last one where that never happens)"
)
STAGES = {"init": "untrained", "early": "early", "final": "final"}


def about(evidence: Evidence) -> Mapping[str, Any]:
    """What this run says of its text; empty where it says nothing."""
    found = evidence.meta.get("text")
    return found if isinstance(found, Mapping) else {}


def names(evidence: Evidence) -> dict[str, str]:
    """What each corpus is called in this run: stories that stand in for TinyStories are called that."""
    stories = about(evidence).get("stories")
    stand_in = isinstance(stories, Mapping) and bool(stories.get("stand_in"))
    return {**CORPORA, "stories": STAND_IN if stand_in else CORPORA["stories"]}


def stand_ins(evidence: Evidence) -> list[str]:
    """Sentences that say where a text is not the paper's, as the run has them, each with its full stop."""
    found = about(evidence).get("stand_in") or ()
    found = [found] if isinstance(found, str) else [str(text) for text in found]
    return [f"{text[:1].upper()}{text[1:]}".rstrip(".") + "." for text in found]


def stand_in_note(evidence: Evidence) -> str:
    """The sentences on stand-ins, to be appended to a caption; empty where the text is the paper's."""
    told = " ".join(stand_ins(evidence))
    return f" Not the paper's text: {told}" if told else ""


def entropies(evidence: Evidence) -> dict[str, float]:
    """Unigram entropy of each corpus's training text in nats, by corpus; empty where the run does not tell."""
    found = about(evidence).get("entropies")
    if isinstance(found, Mapping):
        found = [found.get(name, math.nan) for name in CORPORA]
    values = np.asarray(() if found is None else found, dtype=float)
    known = values.shape == (len(CORPORA),) and np.isfinite(values).all()
    return dict(zip(CORPORA, values.tolist(), strict=True)) if known else {}


def loss_table(evidence: Evidence, rows: str, gamma: float) -> pd.DataFrame:
    """Loss of a set in nats per token: steps (index, ascending) by seeds. MissingEvidenceError where there is none."""
    table = evidence.curves
    here = table.loc[np.isclose(table["gamma"].astype(float), gamma) & (table["set"] == rows)]
    if here.empty:
        raise MissingEvidenceError(f"This run has no losses on {rows} at γ = {gamma:g}.")
    return here.pivot_table(index="step", columns="seed", values="loss")


def delta_table(evidence: Evidence, gamma: float, held_out: bool = False) -> pd.DataFrame:
    """Delta L = (L_stories - L_prontoqa) / L_prontoqa at every evaluation: steps (index) by seeds.

    At least -1; 0 where both losses are equal, without an upper end where PrOntoQA's loss nears 0.
    """
    end = "test" if held_out else "train"
    stories, prontoqa = (loss_table(evidence, f"{corpus}_{end}", gamma) for corpus in ("stories", "prontoqa"))
    return (stories - prontoqa) / prontoqa


def early_steps(evidence: Evidence, gamma: float) -> dict[int, int]:
    """Seed -> step of the stage ``early``; empty where the run does not tell."""
    try:
        found = evidence.values("corpus_loss", "early_step", gamma)
    except MissingEvidenceError:
        return {}
    return {int(seed): int(step) for seed, step in found.items()}  # pyright: ignore[reportArgumentType]


def never_early(evidence: Evidence, gamma: float) -> str:
    """A sentence where the pooled loss of some seed never fell to 80 % before the last evaluation, else nothing."""
    steps = early_steps(evidence, gamma)
    last = max(evidence.curves["step"].astype(int), default=0)
    late = sum(step >= last for step in steps.values())
    if not late:
        return ""
    return f"At γ = {gamma:g} “early” is the last evaluation in {late} of {seeds_text(len(steps))}."


def claims_gamma(evidence: Evidence, gamma: float) -> float:
    """The rate that figures of one rate show: ``gamma`` where the run has it, else the largest that it has.

    A run at other rates than the paper's shows what it has; no claim is judged there. MissingEvidenceError where the
    run has no member.
    """
    if not evidence.gammas:
        raise MissingEvidenceError("This run has no member.")
    return gamma if gamma in evidence.gammas else evidence.gammas[-1]


def reading_text(values: Sequence[float] | np.ndarray | pd.Series) -> str:
    """``mean [low, high]`` with two decimals up to 100, three below .1 in size; ``n/a`` where there is nothing.

    >>> reading_text([0.5, 0.7]), reading_text([])
    ('0.60 [−0.67, 1.87]', 'n/a')
    """
    mean, low, high = seed_interval(values) if len(values) else (math.nan,) * 3
    if not math.isfinite(mean):
        return "n/a"
    digits = 3 if abs(mean) < 0.1 else 2 if abs(mean) < 100 else 0
    ends = f" [{low:,.{digits}f}, {high:,.{digits}f}]" if math.isfinite(low) and math.isfinite(high) else ""
    text = f"{mean:,.{digits}f}{ends}".replace(f"-{0:.{digits}f}", f"{0:.{digits}f}")
    return text.replace("-", "−")


def told(evidence: Evidence, probe: str, quantity: str, gamma: float, *, stage: str = "final", rows: str = "") -> str:
    """``mean [low, high]`` of a reading over seeds; ``n/a`` where the run lacks it."""
    try:
        return reading_text(evidence.values(probe, quantity, gamma, stage=stage, rows=rows))
    except MissingEvidenceError:
        return "n/a"


def by_rate(evidence: Evidence, probe: str, quantity: str, *, stage: str = "final") -> str:
    """A reading at every rate of the run that has it: ``0.10 [..] at γ = 0.3, 0.20 [..] at γ = 0.8``."""
    found = [(gamma, told(evidence, probe, quantity, gamma, stage=stage)) for gamma in evidence.gammas]
    return ", ".join(f"{text} at γ = {gamma:g}" for gamma, text in found if text != "n/a") or "not read"


def zero_line(axes: Axes) -> None:
    """A thin line at 0."""
    axes.axhline(0, color="#8a8a8a", lw=0.8, zorder=0)
