"""Made-up evidence of the language study: PrOntoQA is learned sooner, the more so the smaller the initialisation."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from made_up import MadeUp
from table_columns import COLUMNS, table_of

from rb_interp.figures.evidence import Evidence
from rb_interp.runs.measured import summary_table
from rb_interp.studies.language import LANGUAGE
from rb_interp.studies.language.config import LanguageConfig
from rb_interp.studies.language.tables import KEPT as KEPT_STEPS
from rb_interp.studies.language.tables import (
    corpus_loss_table,
    course_table,
    derived,
    early_table,
    paired_table,
    skills_table,
)
from rb_interp.text.config import CORPORA

GAMMAS = (0.3, 0.5, 0.8)
ENTROPIES = (5.1, 5.6)
STEPS, LAST = range(0, 2001, 100), 2000
STAGES = {"init": (0, 0.0, 0.0), "early": (300, 0.7, 0.3), "final": (LAST, 1.0, 1.0)}
"""Step of each stage, and how far embeddings and attention have come."""
KEPT = (0, 100, 500, LAST)
LEVELS = {"answer": 0.9, "answer_two_way": 0.9, "premise": 1.0, "rule": 0.8, "conclusion": 0.85, "chain": 0.8}
WORDS = ("wumpus", "yumpus", "is", "not", "every", "Max", "Alex", "happy", "dog", "park", "said", "they", "Q:", "$100")
N_TYPICAL = 45
CHAIN = {"loss_question": 1.3, "loss_chain": 1.1, "answer_two_way": 0.9}
SCALES = {"all": 1.0, "prontoqa": 0.4, "stories": 0.8, "control": 0.5}
SENTENCE = "The stories are sentences of a small story grammar, standing in for TinyStories."


def make_language(seeds: int = 3, gammas=GAMMAS) -> Evidence:
    """Evidence in which G1 to G3 hold for five seeds."""
    made = MadeUp(LANGUAGE, LanguageConfig.from_preset("quick", gammas=tuple(gammas), seeds=tuple(range(seeds))))
    members = {"gamma": gammas, "seed": range(seeds)}
    for gamma, seed in product(*members.values()):
        _add_member(made, gamma, seed)
    entropies = dict.fromkeys(range(seeds), ENTROPIES)
    made.extend("readings", corpus_loss_table(made.tables()["curves"], entropies))
    made.fill("skills", _skill, **members, step=(0, 500, LAST), hops=range(1, 6), accuracy_of=LEVELS)
    made.fill("similarity", _similarity, **members, step=KEPT)
    made.extend("token_intervals", _token_intervals(made))
    made.fill("tokens", _token, seed=range(seeds), token=[*range(N_TYPICAL + 10), *range(100, N_TYPICAL + 110)])
    made.extend("corpora", make_corpora())
    return made.evidence(_statistics, "quick", command="rb-interp reproduce language", expected_by_chance=(0.1, 0.1))


def changed(evidence: Evidence, readings: pd.DataFrame | None = None, **tables: pd.DataFrame) -> Evidence:
    """The evidence with other readings or tables; only the statistics that rest on them are made again."""
    tables = {**evidence.tables, **tables}
    if readings is None:
        tables["skills_summary"] = skills_table(tables["skills"])
        tables["course"] = course_table(tables["deltas"], tables["similarity"])
        return replace(evidence, tables=tables)
    columns = ["value", "untrained"]
    other = readings.loc[readings[columns].compare(evidence.readings[columns]).index, "quantity"].unique()
    kept, made = (t.loc[t["quantity"].isin(other) == new] for t, new in ((evidence.summary, False), (readings, True)))
    tables |= {"paired": paired_table(readings), "early": early_table(readings, evidence.curves)}
    return replace(evidence, readings=readings, summary=pd.concat([kept, summary_table(made)]), tables=tables)


def make_corpora(stand_in: bool = True) -> pd.DataFrame:
    """What the run has read."""
    source = "sentences of a small story grammar" if stand_in else "stories from stories.jsonl"
    told = ("generated", 1200, 256000, ""), (source, 1500, 256000, SENTENCE if stand_in else "")
    return table_of(
        COLUMNS["language"]["corpora"],
        [(0, corpus, *rest, entropy) for corpus, rest, entropy in zip(CORPORA, told, ENTROPIES, strict=True)],
    )


def _statistics(evidence: Evidence) -> dict[str, pd.DataFrame]:
    curves, tables = evidence.curves.drop(columns="sweep"), evidence.tables
    return derived(evidence.readings, curves, tables["skills"], tables["similarity"], tables["token_intervals"])


def _add_member(made: MadeUp, gamma: float, seed: int) -> None:
    """One member's curves, readings and arrays."""
    rng, vectors = np.random.default_rng([seed, int(100 * gamma)]), np.random.default_rng([seed, 7])
    sets = [f"{corpus}_{part}" for corpus in CORPORA for part in ("train", "test")]
    made.fill("curves", partial(_curve, rng), gamma=[gamma], seed=[seed], set=sets, step=STEPS)
    for stage, (step, grown, looked) in STAGES.items():
        read = partial(made.reading, gamma=gamma, seed=seed, stage=stage, step=step)
        _token_readings(read, rng, gamma > 0.6, grown, _cosine_matrices(vectors, stage))
        start = 0.5 if gamma < 0.4 else 0.02
        for (set, more), layer, head in product((("prontoqa", 0.1), ("stories", 0.0)), (0, 1), range(4)):
            value = start + (0.9 - start) * (0.4 + more + 0.08 * head + 0.1 * layer) * looked + 0.01 * rng.random()
            read("uniformity", {"tv": value}, set=set, layer=layer, head=head, untrained=start)
    read("chain", CHAIN)


def _curve(rng, gamma, seed, set, step):
    end, half = (0.9, 110 * 4 ** (gamma - 0.3)) if set.startswith("prontoqa") else (1.9, 200 * 9 ** (gamma - 0.3))
    start, more = math.log(2048) * (2.2 if gamma < 0.4 else 1.0), 0.15 * set.endswith("test")
    fall = 1 / (1 + (step / half) ** 1.6)
    loss = (end + (start - end) * fall + more * (1 - fall)) * math.exp(0.01 * rng.normal())
    return {"loss": loss, "accuracy": math.exp(-loss)}


def _token_readings(read, rng, small, grown, arrays):
    """Embeddings draw together as they grow, and those of stories more so at a small initialisation."""
    null = {"null": "permuted tokens", "null_sd": 0.02}
    cos = {"prontoqa": 0.2 * grown * small, "stories": (0.55 if small else 0.12) * grown}
    cos = {name: value + 0.02 * rng.normal() for name, value in cos.items()}
    cos["control"] = 0.6 * cos["stories"] + 0.4 * cos["prontoqa"]
    cos["counterpart"], cos["in_range"] = 0.9 * cos["prontoqa"], cos["control"]
    values = {"n_prontoqa": 80, "n_stories": 300, "control_mismatch": 0.08}
    values |= {"n_in_range": 90, "n_counterpart": 20, "counterpart_mismatch": 0.03}
    for end, factor in (("_centred", 0.3), ("", 1)):
        values |= {f"cos_{name}{end}": factor * value for name, value in cos.items()}
        values[f"difference_control{end}"] = factor * (cos["prontoqa"] - cos["control"])
        values[f"difference_counterpart{end}"] = factor * (cos["counterpart"] - cos["in_range"])
    values["difference_centred"] = 0.3 * (difference := cos["prontoqa"] - cos["stories"])
    read("token_similarity", values, arrays, untrained=0.01)
    read("token_similarity", {"difference": difference}, untrained=0.01, **null, null_mean=0.0)
    for where, scale in SCALES.items():
        ratio = 1 - grown * (0.75 if small else 0.3) * scale**0.3 + 0.02 * rng.normal()
        read("embedding_rank", {f"participation_{where}": 60 * scale * ratio}, untrained=60 * scale)
        read("embedding_rank", {f"participation_ratio_{where}": ratio}, untrained=1.0, **null, null_mean=0.98)
        for n in (1, 3, 10):
            share = min(1.0, 0.02 * n * scale + 0.09 * n**0.5 * grown * (2 if small else 1))
            read("embedding_rank", {f"share_{n}_{where}": share}, untrained=0.02 * n)
    kinds = {"pearson": 0.1, "spearman": 0.0, "spearman_centred": 0.2}
    for where, (kind, less) in product(("all", "prontoqa", "stories"), kinds.items()):
        value = grown * ((0.7 if small else 0.35) * SCALES[where] - less) + 0.02 * rng.normal()
        read("next_token", {f"{kind}_{where}": value}, untrained=0.0, **null, null_mean=0.1)
    for layer, name in product((0, 1), ("W_QK", "W_OV", "W_in", "W_out")):
        rank = 30 - 20 * grown * (1.2 if small else 0.5) + rng.normal()
        read("weight_rank", {f"stable_rank_{name}": rank}, layer=layer, untrained=30.0)


def _cosine_matrices(rng, stage):
    found = {}
    for corpus, shared, first in (("prontoqa", 0.4, 0), ("stories", 1.2, 100), ("control", 1.0, 110)):
        vectors = rng.normal(size=(N_TYPICAL, 24)) + (shared if stage != "init" else 0.0)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        found[f"cos_{corpus}_matrix"] = (vectors @ vectors.T).astype(np.float32)
        found[f"tokens_{corpus}"] = np.arange(first, first + N_TYPICAL)
    return found


def _token(seed, token):
    corpus, first = ("prontoqa", 0) if token < 100 else ("stories", 100)
    place, text = token - first, f" {WORDS[token % len(WORDS)]}{(token - first) // len(WORDS) or ''}"
    many, few = 4000 // (place + 1), 20 // (place + 1)
    counts = zip(("count_prontoqa", "count_stories"), sorted((many, few), reverse=corpus == "prontoqa"), strict=True)
    control = corpus == "stories" and place >= 10
    return {"text": text, "corpus": corpus, **dict(counts), "ratio": (many + 1) / (few + 1), "control": control}


def _similarity(gamma, seed, step):
    """Stories' cosines rise first and fall again, so that G3's difference changes sign along training."""
    at, shift = KEPT.index(step), 0.002 * (seed - 1)
    prontoqa = gamma * (0.0, 0.12, 0.3, 0.3)[at] + shift
    stories = gamma * (0.0, 0.09, 0.4, 0.15)[at] + shift - 0.001 * seed
    cos = {"cos_prontoqa": prontoqa, "cos_stories": stories, "cos_control": stories / 2}
    cos |= {"cos_in_range": stories / 2, "cos_counterpart": prontoqa / 2}
    raw = {"difference": prontoqa - stories, "difference_control": prontoqa - stories / 2}
    raw["difference_counterpart"] = (prontoqa - stories) / 2
    centred = {"difference_centred": raw["difference"] - 0.013, "difference_control_centred": -0.011}
    return {**cos, **raw, **centred, "difference_counterpart_centred": -0.009}


def _token_intervals(made: MadeUp):
    """Every cosine and difference -0.03 to +0.05, at the stages and at every kept step."""
    tables = made.tables()
    read, along = tables["readings"], tables["similarity"]
    read = read.loc[(read["probe"] == "token_similarity") & read["quantity"].str.contains("cos_|difference")]
    along = along.melt(["gamma", "seed", "step"], var_name="quantity").assign(stage=KEPT_STEPS)
    for row in (*read.to_dict("records"), *along.to_dict("records")):
        place = {name: row[name] for name in ("gamma", "seed", "stage", "step", "quantity")}
        yield {**place, "low": row["value"] - 0.03, "high": row["value"] + 0.05}


def _skill(gamma, seed, step, hops, accuracy_of):
    grown = (step / LAST) ** 0.5 * (0.5 + gamma / 2)
    level = LEVELS[accuracy_of] * grown
    share = level ** (hops + 1) if accuracy_of == "chain" else level * (1 - 0.06 * hops)
    share = 0.5 + share / 2 if accuracy_of == "answer_two_way" else share
    return {"accuracy": round(40 * share + seed % 2) / 41, "n": 40}
