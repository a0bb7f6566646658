"""What figures and report of the language study say alike: names of the corpora, what stands in for what, numbers."""

from __future__ import annotations

import math
from typing import Any

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import interval_of
from rb_interp.studies.language.claims import PAPER_COSINES
from rb_interp.text.config import EARLY as FALLEN

EARLY = (
    "early: the first evaluation at which the training loss, mean of both corpora, is at most "
    f"{100 * FALLEN:g} % of its start (the last one where that never happens)"
)
STAGES = {"init": "untrained", "early": "early", "final": "final"}
MATCHED = ("difference_control", "difference_counterpart")
"""Differences among tokens alike in frequency: the stories' matched to PrOntoQA's, and PrOntoQA's to the stories'."""
KINDS = {
    "answer_two_way": "answer, True against False alone",
    "answer": "answer, whole vocabulary",
    "chain": "chain, all steps right",
    "premise": "step: premise",
    "rule": "step: rule from the context",
    "conclusion": "step: conclusion",
}


def corpora(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """What the first seed read, by corpus (a row of the table ``corpora``); empty where the run does not tell."""
    found: dict[str, dict[str, Any]] = {}
    for row in evidence.records("corpora"):
        found.setdefault(row["corpus"], row)
    return found


def names(evidence: Evidence) -> dict[str, str]:
    """What each corpus is called in this run: stories that stand in for TinyStories are called that."""
    stand_in = corpora(evidence).get("stories", {}).get("stand_in")
    return {"prontoqa": "PrOntoQA", "stories": "story grammar (stand-in)" if stand_in else "TinyStories"}


def group_names(evidence: Evidence) -> dict[str, str]:
    """What each list of tokens is called."""
    called = names(evidence)
    return {**called, "control": f"{called['stories']}, matched in frequency"}


def token_interval(
    evidence: Evidence, quantity: str, gamma: float = SMALL, stage: str = "early"
) -> tuple[float, float]:
    """Both ends of a reading's interval over tokens, mean over seeds; NaN where the run has none."""
    for row in evidence.records("token_intervals_summary", quantity=quantity, gamma=gamma, stage=stage):
        return float(row["low"]), float(row["high"])
    return math.nan, math.nan


def tokens_text(evidence: Evidence, quantity: str, gamma: float = SMALL, stage: str = "early") -> str:
    """The same in words: ``over tokens [−0.01, 0.05]``; empty where there is none."""
    low, high = token_interval(evidence, quantity, gamma, stage)
    return f"over tokens [{three_digits(low)}, {three_digits(high)}]" if math.isfinite(low) else ""


def with_tokens(evidence: Evidence, quantity: str, gamma: float = SMALL) -> str:
    """A reading of ``token_similarity`` at ``early``, over seeds and over tokens: ``0.05 [..] (over tokens [..])``."""
    tokens = tokens_text(evidence, quantity, gamma)
    return cosine_text(evidence, quantity, gamma) + (f" ({tokens})" if tokens else "")


def entropies(evidence: Evidence) -> dict[str, float]:
    """Unigram entropy of each corpus's training text in nats; empty where the run does not tell."""
    return {corpus: float(row["entropy"]) for corpus, row in corpora(evidence).items()}


def paper_cosines() -> dict[str, str]:
    """The paper's mean cosine of each corpus, as written.

    >>> paper_cosines()
    {'prontoqa': '.123', 'stories': '.531'}
    """
    return {group: f"{value:.3f}".lstrip("0") for group, value in PAPER_COSINES.items()}


def stand_ins(evidence: Evidence) -> str:
    """The sentence on a text that is not the paper's; empty where all of it is."""
    return " ".join(row["stand_in"] for row in corpora(evidence).values() if row["stand_in"])


def notes(evidence: Evidence, gamma: float | None = None) -> str:
    """What ends a caption: where ``early`` came too late at a rate that the caption is about, and the stand-ins."""
    late = never_early(evidence, gamma) if gamma is not None else ""
    text = stand_ins(evidence)
    return (f" {late}" if late else "") + (f" Not the paper's text: {text}" if text else "")


def early_steps(evidence: Evidence, gamma: float) -> list[int]:
    """Steps of the stage ``early``, one a seed; empty where the run does not tell."""
    steps = (evidence.value("corpus_loss", "early_step", gamma, seed, stage="final") for seed in evidence.seeds)
    return [int(step) for step in steps if math.isfinite(step)]


def never_early(evidence: Evidence, gamma: float) -> str:
    """A sentence where the pooled loss of some seed never fell to 80 % before the last evaluation, else nothing."""
    late = [row for row in evidence.records("early", gamma=gamma) if row["at_last"]]
    if not late:
        return ""
    return f"At γ = {gamma:g} “early” is the last evaluation in {late[0]['at_last']:g} of {seeds_text(late[0]['n'])}."


def shown_gamma(evidence: Evidence) -> float:
    """The rate that figures of one rate show: the claims' small initialisation, else the largest rate of the run.

    No claim is judged at another rate than the paper's. Raises MissingEvidenceError where the run has no member.
    """
    return SMALL if SMALL in evidence.shown_gammas else evidence.shown_gammas[-1]


def mean_text(mean: float, low: float, high: float) -> str:
    """``mean [low, high]`` with two decimals up to 100, three below .1 in size; ``n/a`` where there is nothing.

    >>> mean_text(0.6, -0.671, 1.871), mean_text(0.0712, math.nan, math.nan), mean_text(math.nan, 0.0, 0.0)
    ('0.60 [−0.67, 1.87]', '0.071', 'n/a')
    """
    if not math.isfinite(mean):
        return "n/a"
    digits = 3 if abs(mean) < 0.1 else 2 if abs(mean) < 100 else 0
    ends = f" [{low:,.{digits}f}, {high:,.{digits}f}]" if math.isfinite(low) and math.isfinite(high) else ""
    text = f"{mean:,.{digits}f}{ends}".replace(f"-{0:.{digits}f}", f"{0:.{digits}f}")
    return text.replace("-", "−")


def first_row_text(rows: list[dict[str, Any]]) -> str:
    """The interval in the first of some rows of a table over seeds; ``n/a`` where there is none."""
    return mean_text(*interval_of(rows[0])) if rows else "n/a"


def three_digits(value: float) -> str:
    """A difference of cosines with three decimals and a true minus sign.

    >>> three_digits(-0.0712), three_digits(-0.0001)
    ('−0.071', '0.000')
    """
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def reading_text(evidence: Evidence, probe: str, quantity: str, gamma: float = SMALL, *, stage: str = "final") -> str:
    """``mean [low, high]`` of a reading over seeds; ``n/a`` where the run lacks it."""
    return mean_text(*evidence.interval(probe, quantity, gamma, stage=stage))


def cosine_text(evidence: Evidence, quantity: str, gamma: float = SMALL) -> str:
    """The same for a reading of ``token_similarity`` at the stage ``early``."""
    return reading_text(evidence, "token_similarity", quantity, gamma, stage="early")


def by_rate(evidence: Evidence, probe: str, quantity: str, *, stage: str = "final") -> str:
    """A reading at every rate of the run that has it: ``0.10 [..] at γ = 0.3, 0.20 [..] at γ = 0.8``."""
    texts = {gamma: reading_text(evidence, probe, quantity, gamma, stage=stage) for gamma in evidence.gammas}
    return ", ".join(f"{text} at γ = {gamma:g}" for gamma, text in texts.items() if text != "n/a") or "not read"


def untrained_text(evidence: Evidence, quantity: str = "difference_centred", gamma: float = SMALL) -> str:
    """What an untrained model reads early: ``(untrained: −0.013)``; empty where none was read."""
    untrained = evidence.untrained("token_similarity", quantity, gamma, stage="early")
    return f"(untrained: {three_digits(untrained)})" if math.isfinite(untrained) else ""


def course_text(evidence: Evidence) -> str:
    """G3's difference at every kept step: ``at step 0: 0.000, 2 of 5 below 0; ...``; empty where it was not read.

    Behind each stand the differences among tokens that are matched in frequency, in either direction.
    """
    rows = {(row["quantity"], row["step"]): row for row in evidence.records("course", gamma=SMALL) if row["n"]}
    found = []
    for step in sorted(step for quantity, step in rows if quantity == "difference"):
        row = rows["difference", step]
        both = [rows[name, step]["mean"] for name in MATCHED if (name, step) in rows]
        control = f" (matched: {' and '.join(map(three_digits, both))})" if both else ""
        below = f"{row['below']:g} of {row['n']:g} below 0"
        found.append(f"at step {step:,}: {three_digits(row['mean'])}, {below}{control}")
    return "; ".join(found)


def skill(evidence: Evidence, gamma: float, accuracy_of: str) -> list[dict[str, Any]]:
    """Rows of ``skills_summary`` by hops, ascending (0: all hops together); empty where the run has none."""
    return sorted(evidence.records("skills_summary", gamma=gamma, accuracy_of=accuracy_of), key=lambda row: row["hops"])


def pooled_text(evidence: Evidence, gamma: float, accuracy_of: str) -> str:
    """Accuracy over all hops, ``mean [low, high]`` over seeds; ``n/a`` where there is none."""
    return first_row_text(skill(evidence, gamma, accuracy_of))


def by_hops(evidence: Evidence, accuracy_of: str) -> str:
    """Mean by hops at the small rate: ``0.95 at 1 hop, 0.90 at 2 hops``; ``not read`` where there is none."""
    rows = skill(evidence, SMALL, accuracy_of)[1:]
    return ", ".join(f"{row['mean']:.2f} at {hops_text(row['hops'])}" for row in rows) or "not read"


def hops_text(hops: int) -> str:
    """``1 hop`` or ``n hops``."""
    return "1 hop" if hops == 1 else f"{hops} hops"


def left_out(evidence: Evidence) -> str:
    """A sentence on the examples that were too long for the model, where there are any: those of many hops."""
    mean = evidence.interval("chain", "left_out", shown_gamma(evidence)).estimate
    known = math.isfinite(mean) and mean
    return f" Left out as too long for the context, and of many hops: {mean:.0f} examples a seed." if known else ""
