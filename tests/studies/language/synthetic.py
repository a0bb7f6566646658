"""Made-up evidence of the language study: PrOntoQA is learned sooner, the more so the smaller the initialisation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from rb_interp.claims import judge
from rb_interp.figures.evidence import Evidence
from rb_interp.machine.measured import readings_table, summary_table
from rb_interp.machine.schema import READINGS
from rb_interp.studies.language.claims import CLAIMS
from rb_interp.studies.language.config import LanguageConfig
from rb_interp.studies.language.tables import course_table, derived, early_table, paired_table, skills_table

GAMMAS = (0.3, 0.5, 0.8)
ENTROPIES = (5.1, 5.6)
STEPS, LAST = tuple(range(0, 2001, 100)), 2000
KEPT = (0, 100, 500, LAST)
KINDS = ("answer", "answer_two_way", "premise", "rule", "conclusion", "chain")
WORDS = ("wumpus", "yumpus", "is", "not", "every", "Max", "Alex", "happy", "dog", "park", "said", "they", "Q:", "$100")
N_TYPICAL = 45
PARTS = {"loss_question": 1.3, "loss_chain": 1.1}
SENTENCE = "The stories are sentences of a small story grammar, standing in for TinyStories."


def make_language(seeds: int = 3, gammas=GAMMAS, stand_in: bool = True) -> Evidence:
    """Evidence in which G1 to G3 hold for five seeds."""
    curves, readings, arrays = [], [], {}
    for gamma in gammas:
        for seed in range(seeds):
            rng = np.random.default_rng([seed, int(100 * gamma)])
            member = _curves(gamma, seed, rng)
            curves += member
            readings += _losses(gamma, seed, member) + _token_readings(gamma, seed, rng) + _attention(gamma, seed, rng)
            readings += [row(gamma, seed, "final", "chain", name, value) for name, value in PARTS.items()]
            readings.append(row(gamma, seed, "final", "chain", "answer_two_way", 0.9))
            arrays |= _arrays(gamma, seed)
    curves = pd.DataFrame(curves)
    tables = {"skills": _skills(gammas, seeds), "similarity": _similarity(gammas, seeds), "tokens": _tokens(seeds)}
    evidence = Evidence(
        config=LanguageConfig.from_preset("quick", gammas=tuple(gammas), seeds=tuple(range(seeds))),
        scale="quick",
        curves=curves.assign(sweep=""),
        readings=readings_table(readings),
        summary=pd.DataFrame(),
        arrays=arrays,
        verdicts=judge(readings_table(readings), CLAIMS),
        claims=CLAIMS,
        tables={**tables, "corpora": make_corpora(stand_in)},
        meta={"command": "rb-interp reproduce language", "expected_holds_by_chance": 0.1},
    )
    return measured(evidence)


def measured(evidence: Evidence) -> Evidence:
    """The evidence with what a run makes of its readings and tables: summary, statistics, verdicts."""
    curves, skills, similarity = (
        evidence.curves.drop(columns="sweep"),
        *map(evidence.tables.get, ("skills", "similarity")),
    )
    tables = {**evidence.tables, **derived(evidence.readings, curves, skills, similarity)}
    verdicts = judge(evidence.readings, CLAIMS)
    return replace(evidence, summary=summary_table(evidence.readings), tables=tables, verdicts=verdicts)


def changed(evidence: Evidence, readings: pd.DataFrame | None = None, **tables: pd.DataFrame) -> Evidence:
    """The evidence with other readings or tables; only the statistics that rest on them are made again."""
    tables = {**evidence.tables, **tables}
    if readings is None:
        tables["skills_summary"] = skills_table(tables["skills"])
        tables["course"] = course_table(tables["deltas"], tables["similarity"])
        return replace(evidence, tables=tables)
    columns = ["value", "untrained"]
    other = (readings[columns] != evidence.readings[columns]) & ~(
        readings[columns].isna() & evidence.readings[columns].isna()
    )
    names = set(readings.loc[other.any(axis=1), "quantity"])
    kept = evidence.summary.loc[~evidence.summary["quantity"].isin(names)]
    summary = pd.concat([kept, summary_table(readings.loc[readings["quantity"].isin(names)])], ignore_index=True)
    tables |= {"paired": paired_table(readings), "early": early_table(readings, evidence.curves)}
    return replace(evidence, readings=readings, summary=summary, tables=tables)


def make_corpora(stand_in: bool = True) -> pd.DataFrame:
    """What the run has read."""
    source = "sentences of a small story grammar" if stand_in else "stories from stories.jsonl"
    rows = [("prontoqa", "generated", 1200, ""), ("stories", source, 1500, SENTENCE if stand_in else "")]
    return pd.DataFrame(
        {"seed": 0, "corpus": corpus, "source": words, "documents": n, "tokens": 256000, "stand_in": told, "entropy": h}
        for (corpus, words, n, told), h in zip(rows, ENTROPIES, strict=True)
    )


def _curves(gamma: float, seed: int, rng: np.random.Generator) -> list[dict]:
    rows = []
    ends = {"prontoqa": (0.9, 110 * 4 ** (gamma - 0.3)), "stories": (1.9, 200 * 9 ** (gamma - 0.3))}
    start = math.log(2048) * (2.2 if gamma < 0.4 else 1.0)
    for corpus, (end, half) in ends.items():
        for part, more in (("train", 0.0), ("test", 0.15)):
            for step in STEPS:
                fall = 1 / (1 + (step / half) ** 1.6)
                loss = (end + (start - end) * fall + more * (1 - fall)) * math.exp(0.01 * rng.normal())
                row = {"gamma": gamma, "seed": seed, "step": step, "set": f"{corpus}_{part}"}
                rows.append({**row, "loss": loss, "accuracy": math.exp(-loss)})
    return rows


def row(gamma, seed, stage, probe, quantity, value, set="", untrained=math.nan, null=math.nan, **place) -> dict:
    """One reading."""
    found = {"gamma": gamma, "seed": seed, "stage": stage, "step": {"init": 0, "early": 300}.get(stage, LAST)}
    found |= {"set": set, "probe": probe, "layer": math.nan, "head": math.nan, "quantity": quantity, "value": value}
    null_of = None if math.isnan(null) else "permuted tokens"
    found |= {
        "untrained": untrained,
        "n": 500,
        "null": null_of,
        "null_mean": null,
        "null_sd": 0.02,
        "p_value": math.nan,
    }
    return {**dict.fromkeys(READINGS.columns, ""), **found, **place}


def _losses(gamma: float, seed: int, member: list[dict]) -> list[dict]:
    table = pd.DataFrame(member).pivot(index="step", columns="set", values="loss")
    h_prontoqa, h_stories = ENTROPIES
    values = {}
    for end, name in (("train", ""), ("test", "_test")):
        stories, prontoqa = table[f"stories_{end}"], table[f"prontoqa_{end}"]
        values[f"delta_loss{name}"] = ((stories - prontoqa) / prontoqa).mean()
        fair = (stories / h_stories - prontoqa / h_prontoqa) / (prontoqa / h_prontoqa)
        values[f"delta_loss_per_entropy{name}"] = fair.mean()
        values |= {f"loss_{corpus}_{end}": table[f"{corpus}_{end}"].iloc[-1] for corpus in ("prontoqa", "stories")}
    stories, prontoqa = table["stories_train"].iloc[-1], table["prontoqa_train"].iloc[-1]
    values["delta_final"] = (stories - prontoqa) / prontoqa
    pooled = (table["stories_train"] + table["prontoqa_train"]) / 2
    values["early_step"] = int(pooled.index[pooled <= 0.8 * pooled.iloc[0]][0])
    return [row(gamma, seed, "final", "corpus_loss", name, float(v), untrained=0.0) for name, v in values.items()]


def _token_readings(gamma: float, seed: int, rng: np.random.Generator) -> list[dict]:
    found, small = [], gamma > 0.6
    for stage, grown in (("init", 0.0), ("early", 0.7), ("final", 1.0)):
        cos = {"prontoqa": 0.2 * grown * small, "stories": (0.55 if small else 0.12) * grown}
        cos = {name: value + 0.02 * rng.normal() for name, value in cos.items()}
        cos["control"] = 0.6 * cos["stories"] + 0.4 * cos["prontoqa"]
        values = {f"cos_{name}": value for name, value in cos.items()}
        values |= {f"cos_{name}_centred": 0.3 * value for name, value in cos.items()}
        for end in ("", "_centred"):
            values[f"difference{end}"] = values[f"cos_prontoqa{end}"] - values[f"cos_stories{end}"]
            values[f"difference_control{end}"] = values[f"cos_prontoqa{end}"] - values[f"cos_control{end}"]
        values |= {"n_prontoqa": 80, "n_stories": 300, "control_mismatch": 0.08}
        for name, value in values.items():
            null = 0.0 if name == "difference" else math.nan
            found.append(row(gamma, seed, stage, "token_similarity", name, value, untrained=0.01, null=null))
        for where, scale in (("all", 1.0), ("prontoqa", 0.4), ("stories", 0.8), ("control", 0.5)):
            ratio = 1 - grown * (0.75 if small else 0.3) * scale**0.3 + 0.02 * rng.normal()
            found.append(row(gamma, seed, stage, "embedding_rank", f"participation_{where}", 60 * scale * ratio,
                             untrained=60 * scale))  # fmt: skip
            found.append(row(gamma, seed, stage, "embedding_rank", f"participation_ratio_{where}", ratio, untrained=1.0,
                             null=0.98))  # fmt: skip
            for n in (1, 3, 10):
                value = min(1.0, 0.02 * n * scale + 0.09 * n**0.5 * grown * (2 if small else 1))
                found.append(row(gamma, seed, stage, "embedding_rank", f"share_{n}_{where}", value, untrained=0.02 * n))
        for where, scale in (("all", 1.0), ("prontoqa", 0.4), ("stories", 0.8)):
            for kind, less in (("pearson", 0.1), ("spearman", 0.0), ("spearman_centred", 0.2)):
                value = grown * ((0.7 if small else 0.35) * scale - less) + 0.02 * rng.normal()
                found.append(row(gamma, seed, stage, "next_token", f"{kind}_{where}", value, untrained=0.0, null=0.1))
        for layer in (0, 1):
            for name in ("W_QK", "W_OV", "W_in", "W_out"):
                value = 30 - 20 * grown * (1.2 if small else 0.5) + rng.normal()
                place = {"untrained": 30.0, "layer": layer}
                found.append(row(gamma, seed, stage, "embedding_rank", f"stable_rank_{name}", value, **place))
    return found


def _attention(gamma: float, seed: int, rng: np.random.Generator) -> list[dict]:
    found = []
    for stage, grown in (("init", 0.0), ("early", 0.3), ("final", 1.0)):
        for corpus, more in (("prontoqa", 0.1), ("stories", 0.0)):
            for layer in (0, 1):
                for head in range(4):
                    start = 0.5 if gamma < 0.4 else 0.02
                    value = start + (0.9 - start) * (0.4 + more + 0.08 * head + 0.1 * layer) * grown
                    place = {"layer": layer, "head": head}
                    found.append(row(gamma, seed, stage, "uniformity", "tv", value + 0.01 * rng.random(), corpus,
                                     untrained=start, **place))  # fmt: skip
    return found


def _arrays(gamma: float, seed: int) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng([seed, 7]), {}
    for stage in ("init", "early", "final"):
        for corpus, shared, first in (("prontoqa", 0.4, 0), ("stories", 1.2, 100), ("control", 1.0, 110)):
            vectors = rng.normal(size=(N_TYPICAL, 24)) + (shared if stage != "init" else 0.0)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            place = f"{gamma}/{seed}/{stage}//token_similarity"
            found[f"{place}/cos_{corpus}_matrix"] = (vectors @ vectors.T).astype(np.float32)
            found[f"{place}/tokens_{corpus}"] = np.arange(first, first + N_TYPICAL)
    return found


def _tokens(seeds: int) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        for corpus, first in (("prontoqa", 0), ("stories", 100)):
            for place in range(N_TYPICAL + 10):
                text = f" {WORDS[(place + first) % len(WORDS)]}{place // len(WORDS) or ''}"
                many, few = 4000 // (place + 1), 20 // (place + 1)
                counts = (many, few) if corpus == "prontoqa" else (few, many)
                named = {"seed": seed, "token": first + place, "text": text, "corpus": corpus}
                ratio = (many + 1) / (few + 1)
                control = corpus == "stories" and place >= 10
                counted = {"count_prontoqa": counts[0], "count_stories": counts[1], "ratio": ratio}
                rows.append({**named, **counted, "control": control})
    return pd.DataFrame(rows)


def _similarity(gammas, seeds: int) -> pd.DataFrame:
    """Stories' cosines rise first and fall again, so that G3's difference changes sign along training."""
    rows, courses = [], {"prontoqa": (0.0, 0.12, 0.3, 0.3), "stories": (0.0, 0.09, 0.4, 0.15)}
    for gamma in gammas:
        for seed in range(seeds):
            for at, step in enumerate(KEPT):
                cos = {name: gamma * course[at] + 0.002 * (seed - 1) for name, course in courses.items()}
                cos["stories"] -= 0.001 * seed
                cos["control"] = cos["stories"] / 2
                found = {f"cos_{name}": value for name, value in cos.items()}
                found["difference"] = cos["prontoqa"] - cos["stories"]
                found["difference_control"] = cos["prontoqa"] - cos["control"]
                found |= {"difference_centred": found["difference"] - 0.013, "difference_control_centred": -0.011}
                rows.append({"gamma": gamma, "seed": seed, "step": step, **found})
    return pd.DataFrame(rows)


def _skills(gammas, seeds: int) -> pd.DataFrame:
    rows = []
    for gamma in gammas:
        for seed in range(seeds):
            for step in (0, 500, LAST):
                for hops in range(1, 6):
                    grown = (step / LAST) ** 0.5 * (0.5 + gamma / 2)
                    level = {"answer": 0.9, "answer_two_way": 0.9, "premise": 1.0, "rule": 0.8, "conclusion": 0.85}
                    for kind in KINDS:
                        if kind == "chain":
                            share = (0.8 * grown) ** (hops + 1)
                        else:
                            share = level[kind] * grown * (1 - 0.06 * hops)
                        if kind == "answer_two_way":
                            share = 0.5 + share / 2
                        place = {"gamma": gamma, "seed": seed, "step": step, "hops": hops, "kind": kind}
                        rows.append({**place, "accuracy": round(40 * share + seed % 2) / 41, "n": 40})
    return pd.DataFrame(rows)
