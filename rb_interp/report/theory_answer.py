"""The short answer of the theory's study: what f is, both parts of T1 and T4 with their reasons, where theory ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_interp.figures.evidence import SMALL, Evidence
from rb_interp.figures.numbers import near_text
from rb_interp.figures.parts import PARTS, rates
from rb_interp.report.theory import r2_text, theory_sentences
from rb_interp.tasks import AnchorTask

F = (
    "f is the share of a uniform guess's loss, ln d_vocab, that is left on rsn_train: 1 before anything is learned. "
    "Learning begins (stage “leaving”) at the first evaluation with f < .99."
)


def theory_answer(evidence: Evidence) -> list[str]:
    """What a newcomer needs of T1, T4 and where the theory stops; a sentence whose numbers are missing is left out."""
    claims = {str(claim["id"]): claim for claim in evidence.claims}
    found = [_rates(evidence), _permuted(claims, "T1"), _permuted(claims, "T4") + _last_position(evidence, claims)]
    return [text for text in [F, *found, *theory_sentences(evidence)[:1]] if text]


def _rates(evidence: Evidence) -> str:
    few = {name: part.gammas for name, part in evidence.parts.items() if len(part.gammas) < len(rates(evidence))}
    told = "; ".join(f"{PARTS.get(name, name)}: {', '.join(f'{g:g}' for g in gammas)}" for name, gammas in few.items())
    return f"Not every part has every γ. {told}." if told else ""


def _permuted(claims: Mapping[str, Mapping[str, Any]], claim: str) -> str:
    """Both parts of T1 or T4, with their verdicts and how much the second could have been at most."""
    judged = claims.get(claim, {})
    parts = [part for part in judged.get("parts", []) if part.get("effect") is not None]
    if len(parts) != 2:
        return ""
    r2, excess = parts
    text = f"{claim} ({judged['verdict']}): R² is {_told(r2, 0.9)} (≥ .90: {r2['verdict']}), higher by "
    text += f"{_told(excess, 0.1)} than that of predictions permuted within kind (≥ .10: {excess['verdict']})."
    reached = r2["effect"] - excess["effect"]
    if excess["verdict"] == "HOLDS":
        return text
    text += f" Permuted predictions already reach {reached:.3f}, so at most {1 - reached:.3f} can be gained"
    if 1 - reached < 0.13:
        return text + (
            ": the second part asks for nearly all there is." if reached <= 0.9 else ": less than it asks for."
        )
    return f"{text}."


def _told(part: Mapping[str, Any], threshold: float) -> str:
    low, high = (float("nan") if part.get(end) is None else float(part[end]) for end in ("low", "high"))
    return near_text(float(part["effect"]), low, high, threshold)


def last_position(task: AnchorTask) -> tuple[float, float]:
    """Share of an anchor's occurrences at the last position, 1 / (q (L - q)), and what R² can be for a share of 1/L.

    An anchor is last where the key stands as late as it can (1 in L - q) and the anchor is the last of the q after it.

    >>> share, limit = last_position(AnchorTask(length=3))
    >>> round(share, 3), round(limit, 3)
    (0.5, 0.889)
    """
    share = 1 / (task.q * (task.length - task.q))
    return share, 1 - (1 - (1 / task.length) / share) ** 2


def _last_position(evidence: Evidence, claims: Mapping[str, Mapping[str, Any]]) -> str:
    """Why T4 does not hold: Eqs. 10 and 11 take another share of occurrences at the last position than there is."""
    known = r2_text(evidence, "one_layer", SMALL, "positions")
    if not known or claims.get("T4", {}).get("verdict") in (None, "HOLDS"):
        return ""
    task = evidence.parts["one_layer"].task
    share, limit = last_position(task)
    missing = abs(1 - 1 / (task.length * share))
    text = (
        f" Eqs. 10 and 11 take the share 1/L = {1 / task.length:.3f} of a token's occurrences to stand at the last "
        f"position, where the residual connection carries it to the output; for an anchor it is 1/(q(L − q)) = "
        f"{share:.3f} at q = {task.q}, L = {task.length}. Where that connection outweighs attention, the printed form "
        f"can reach 1 − {missing:.3f}² = {limit:.3f}; with the actual share R² is {known}."
    )
    return text.replace(" = ", "\u00a0=\u00a0")
