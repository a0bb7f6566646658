"""Read every member of a language run: embeddings, their rank, attention, next-token geometry, answers and chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.probes.chain import chain_accuracy
from rb_interp.probes.corpus_loss import corpus_loss_table
from rb_interp.probes.embedding_rank import embedding_rank, weight_rank
from rb_interp.probes.next_token import next_token
from rb_interp.probes.reading import Reading
from rb_interp.probes.token_similarity import token_similarity
from rb_interp.probes.token_typing import token_table
from rb_interp.probes.uniformity import uniformity_of_heads
from rb_interp.study.language_run import LanguageRun
from rb_interp.study.measure import joined, typed
from rb_interp.study.models import MemberModels
from rb_interp.text.config import CORPORA
from rb_interp.text.data import TextData
from rb_interp.training.member_group import Member

LAYERS = 2
"""Early layers whose attention is read, as far as a model has them."""
STAGES = ("early", "final")
SIMILARITY = (
    *("cos_prontoqa", "cos_stories", "cos_control"),
    *("difference", "difference_control", "difference_centred", "difference_control_centred"),
)
"""What is read along training."""


@dataclass(frozen=True)
class LanguageMeasured:
    """What probing a language run gives; the column formats are in docs/tables.md.

    Attributes:
        readings: one row per member, stage, probe and quantity.
        skills: answers and sentences of chains by number of hops, at every kept step.
        tokens: the typical tokens of each corpus, by seed.
        similarity: mean cosines of token embeddings at every kept step.
        arrays: ``{gamma}/{seed}/{stage}/{rows}/{probe}/{array}`` -> array.
    """

    readings: pd.DataFrame
    skills: pd.DataFrame
    tokens: pd.DataFrame
    similarity: pd.DataFrame
    arrays: dict[str, np.ndarray]


def measure_language(run: LanguageRun, progress: bool = True) -> LanguageMeasured:
    """Probe all members of a finished run at init, early and final, and their skills at every kept step.

    Raises RunError where a checkpoint is missing or broken, or the text has changed.
    """
    config = run.config
    rows, skills, courses, arrays = [], [], [], {}
    models = MemberModels(run)
    for member in tqdm(run.members, disable=not progress, unit="member", desc="probing"):
        text = run.text(member.seed)
        for stage, step, where, reading in _readings(models, member, text, config.probe_rows, config.n_null):
            place = {"gamma": member.gamma, "seed": member.seed, "stage": stage, "step": step, "rows": where}
            rows += [{**place, **row} for row in reading.table()]
            head = "" if reading.layer is None else f".{reading.layer}.{reading.head}"
            prefix = f"{member.gamma}/{member.seed}/{stage}/{where}/{reading.probe}{head}"
            arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
        place = {"gamma": member.gamma, "seed": member.seed}
        for step, similar, reading, table in _along(models, member, text, config.n_null):
            courses.append({**place, "step": step, **{name: similar[name] for name in SIMILARITY}})
            skills += [{**place, "step": step, **row} for row in table]
            stage = {0: "init", config.train.steps: "final"}.get(step)
            if stage:
                rows += [{**place, "stage": stage, "step": step, "rows": "", **row} for row in reading.table()]
    entropies = {seed: run.text(seed).entropies for seed in config.seeds}
    readings = joined(typed(pd.DataFrame(rows)), typed(corpus_loss_table(run.curves(), entropies)))
    return LanguageMeasured(readings, pd.DataFrame(skills), _tokens(run), pd.DataFrame(courses), arrays)


def _readings(
    models: MemberModels, member: Member, text: TextData, n_rows: int, n_null: int
) -> Iterator[tuple[str, int, str, Reading]]:
    """Stage, step, rows and reading of every probe; each reading carries the untrained twin's values."""
    models.load(member, "init")
    untrained = list(_read(models.twin, text, n_rows, n_null))
    for rows, reading in untrained:
        yield "init", 0, rows, reading
    for stage in STAGES:
        step = models.load(member, stage).step
        now = _read(models.model, text, n_rows, n_null, twin=models.twin)
        for (rows, reading), (_, before) in zip(now, untrained, strict=True):
            yield stage, step, rows, reading if reading.twin else replace(reading, twin=before.values)


def _read(model: Any, text: TextData, n_rows: int, n_null: int, twin: Any = None) -> Iterator[tuple[str, Reading]]:
    """Every reading of a model, and the rows that it saw ("" for weights alone)."""
    yield "", token_similarity(model, text.counts, n_null=n_null)
    yield "", embedding_rank(model, text.counts, twin=twin, n_null=n_null)  # its ratios need the twin itself
    yield "", next_token(model, text.counts, text.train, n_null=n_null)
    for layer in sorted({0, model.cfg.n_layers - 1}):
        yield "", weight_rank(model, layer=layer)
    for corpus in CORPORA:
        tokens, _, targets = (held_out := text.rows(f"{corpus}_test")).batch(np.arange(min(n_rows, len(held_out))))
        for reading in uniformity_of_heads(model, tokens, range(min(LAYERS, model.cfg.n_layers)), targets):
            yield corpus, reading


def _along(
    models: MemberModels, member: Member, text: TextData, n_null: int
) -> Iterator[tuple[int, Mapping[str, float], Reading, list[dict]]]:
    """At every kept step: mean cosines of token embeddings, and reading and table of answers and chains."""
    untrained: dict[str, float] = {}
    for step in models.run.kept_steps:
        models.load(member, step)
        reading, table = chain_accuracy(models.model, text.tokenizer, text.examples, n_null=n_null)
        untrained = untrained or dict(reading.values)
        similar = token_similarity(models.model, text.counts, n_null=0).values
        yield step, similar, replace(reading, twin=untrained), table


def _tokens(run: LanguageRun) -> pd.DataFrame:
    """Typical tokens of each seed's text."""
    rows = []
    for seed, text in run.texts.items():
        shown = [text.tokenizer.token_text(token) for token in range(text.tokenizer.d_vocab)]
        rows += [{"seed": seed, **row} for row in token_table(text.counts, shown)]
    return pd.DataFrame(rows)
