"""The content of a report as data, for any study. report.json holds it, and the template shows it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rb_interp.claims.rule import FEWEST
from rb_interp.claims.verdict import OUTCOMES
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.report.glossary import shared
from rb_interp.report.section import Narrative, placed_figures
from rb_interp.report.sections import within_section

if TYPE_CHECKING:
    from rb_interp.claims import Verdict, Verdicts
    from rb_interp.runs.protocol import Study

EVERY_REPORT = ("scale", "γ, initialisation rate", "seed, member")
OF_VERDICTS = ("untrained model", "interval", "HOLDS, FAILS, OPEN, NOT JUDGED", "median [range]")


def report_content(study: Study, evidence: Evidence) -> dict[str, Any]:
    """Everything that the report shows, JSON-safe: numbers that are not finite become None."""
    meta, narrate = evidence.meta, study.load("narrative")
    narrative = Narrative() if narrate is None else narrate(evidence)
    counts = Counter(verdict.outcome for verdict in evidence.verdicts)
    named = {outcome: [v.id for v in evidence.verdicts if v.outcome == outcome] for outcome in OUTCOMES}
    sections = (*within_section(evidence.within, evidence.verdicts), *narrative.sections)
    figures = study.load("figures")
    placed = placed_figures(sections, [spec.id for spec in figures])
    content = {
        "title": study.title,
        "question": study.question,
        "answer": {
            "scale": evidence.scale,
            "gammas": evidence.gammas,
            "n_seeds": len(evidence.seeds),
            "counts": {outcome: counts.get(outcome, 0) for outcome in OUTCOMES},
            "named": named,
            "expected_by_chance": meta.get("expected_by_chance"),
            "sentences": [*_chance(evidence), *narrative.answer],
            "warnings": [*_runs(evidence), *narrative.warnings, *_probes(evidence.verdicts)],
        },
        "claims": [
            {**asdict(v), "family": family_of(study, v.id), "calibration_mark": calibration_mark(v)}
            for v in evidence.verdicts
        ],
        "sections": [{**plain(section), "short": section.short or section.title} for section in sections],
        "figures": [{**_figure(spec, evidence), "section": placed.get(spec.id, "")} for spec in figures],
        "glossary": {**shared(*EVERY_REPORT, *(OF_VERDICTS if evidence.verdicts else ())), **study.load("glossary")},
        "repeat": {"command": meta.get("command", ""), "toml": meta.get("toml", "")},
        "run": {
            "host": ", ".join(f"{name} {value}" for name, value in (meta.get("host") or {}).items()),
            "versions": meta.get("versions"),
        },
    }
    return json_safe(content)


def family_of(study: Study, claim: str) -> str:
    """Heading above a claim: the study's heading for the longest beginning of the claim's id."""
    prefixes = sorted((prefix for prefix in study.families if claim.startswith(prefix)), key=len)
    return study.families[prefixes[-1]] if prefixes else "Claims"


def calibration_mark(verdict: Verdict) -> str:
    """``yes``, ``no``, ``held`` where the outcome is withheld, and nothing for claims that need no calibration."""
    if verdict.calibrated is None:
        return ""
    return "held" if verdict.withheld else "yes" if verdict.calibrated else "no"


def plain(value: Any) -> Any:
    """Dataclasses as dicts with their kind, at any depth."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind_of_block": type(value).__name__, **found}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _chance(evidence: Evidence) -> Iterator[str]:
    chance = evidence.meta.get("expected_by_chance")
    if chance is not None:
        holds, fails = (f"{float(number):.2g}" for number in chance)
        yield f"If half of all seeds met each claim, chance alone would give {holds} HOLDS and {fails} FAILS."


def _runs(evidence: Evidence) -> Iterator[str]:
    if evidence.scale == "smoke":
        asked = "claims" if evidence.verdicts else "question"
        yield f"This is a smoke run. It shows that every part works and says nothing about the {asked}."
    if evidence.verdicts and len(evidence.seeds) < FEWEST:
        yield (
            f"This run has {seeds_text(len(evidence.seeds))}. No claim about members can hold or fail with fewer than "
            f"{FEWEST}."
        )


def _probes(verdicts: Verdicts) -> Iterator[str]:
    unknown = [verdict.id for verdict in verdicts if calibration_mark(verdict) == "no"]
    if unknown:
        yield (
            f"Not calibrated: {', '.join(unknown)}. The probes' error rates have not been measured for this family of "
            "models, so these verdicts say that the readings meet the criterion or not, not how often such readings "
            "mislead."
        )
    held = [_alone(verdict) for verdict in verdicts if calibration_mark(verdict) == "held"]
    if held:
        yield f"Withheld, because the probe misleads too often on models whose mechanism is known: {', '.join(held)}."
    if unlearned := [_alone(verdict) for verdict in not_learned(verdicts)]:
        yield (
            "Not learned: fewer than half of the seeds have learned the mapping that these claims speak of, so that "
            f"they are not judged: {', '.join(unlearned)}."
        )
    for first_seed, named in read_before(verdicts).items():
        yield (
            f"Written after earlier seeds had been read, so that seeds from {first_seed} on alone decide: "
            f"{', '.join(named)}. Their numbers are those of all seeds."
        )
    met = [verdict.id for verdict in verdicts if verdict.met_at_initialisation and verdict.outcome == "HOLDS"]
    if met:
        yield f"Already met by untrained models, so that training has shown nothing by it: {', '.join(met)}."


def not_learned(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Those that are not judged and ask for a mapping that fewer than half of the seeds have learned."""
    return [verdict for verdict in verdicts if verdict.learned is False and verdict.outcome == "NOT JUDGED"]


def read_before(verdicts: Iterable[Verdict]) -> dict[int, list[str]]:
    """Claims whose criterion is younger than the reading of some of the seeds, by the first seed that decides."""
    found: dict[int, list[str]] = {}
    for verdict in verdicts:
        if verdict.first_seed and (verdict.n_decisive < verdict.n_seeds or not verdict.n_seeds):
            found.setdefault(verdict.first_seed, []).append(verdict.id)
    return found


def _alone(verdict: Verdict) -> str:
    """A verdict's claim, and what the numbers alone give where it is withheld."""
    return f"{verdict.id} (the numbers alone: {verdict.uncalibrated_outcome})" if verdict.withheld else verdict.id


def _figure(spec: FigureSpec, evidence: Evidence) -> dict[str, Any]:
    try:
        caption = spec.caption(evidence)
    except MissingEvidenceError as missing:
        caption = Caption(str(missing), "what this figure would show.")
    return {
        "id": spec.id,
        "title": spec.title,
        "claims": list(spec.claims),
        "seen": caption.seen,
        "would_refute": caption.would_refute,
        "svg": f"figures/{spec.id}.svg",
        "png": f"figures/{spec.id}.png",
    }


def json_safe(value: Any) -> Any:
    """The same data in what JSON can hold: numpy numbers as numbers, tuples as lists, NaN and infinity as None.

    >>> json_safe({"low": float("-inf"), "seeds": (0, 1)})
    {'low': None, 'seeds': [0, 1]}
    """
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return json_safe(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_safe(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)
