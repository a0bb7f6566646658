"""Read every member of a language run: embeddings, their rank, attention, next-token geometry, answers and chains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from rb_interp.probes.uniformity import uniformity
from rb_interp.study.language_run import LanguageRun
from rb_interp.study.measure import joined, typed
from rb_interp.study.models import MemberModels
from rb_interp.tasks.roles import Roles
from rb_interp.text.config import CORPORA
from rb_interp.text.data import TextData
from rb_interp.training.member_group import Member

LAYERS = 2
"""Early layers whose attention is read, as far as a model has them."""
ATTENTION_ARRAYS = ("tv_per_row",)
"""What is kept of patterns: a whole one is n_ctx^2 numbers for every head."""
STAGES = ("early", "final")


@dataclass(frozen=True)
class LanguageMeasured:
    """What probing a language run gives; the column formats are in docs/tables.md.

    Attributes:
        readings: one row per member, stage, probe and quantity.
        skills: answers and sentences of chains by number of hops, at every kept step.
        tokens: the typical tokens of each corpus, by seed.
        arrays: ``{gamma}/{seed}/{stage}/{rows}/{probe}/{array}`` -> array.
    """

    readings: pd.DataFrame
    skills: pd.DataFrame
    tokens: pd.DataFrame
    arrays: dict[str, np.ndarray]


def measure_language(run: LanguageRun, progress: bool = True) -> LanguageMeasured:
    """Probe all members of a finished run at init, early and final, and their skills at every kept step.

    Raises RunError where a checkpoint is missing or broken, or the text has changed.
    """
    config = run.config
    rows, skills, arrays = [], [], {}
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
        for step, reading, table in _skills(models, member, text, config.n_null):
            skills += [{**place, "step": step, **row} for row in table]
            stage = {0: "init", config.train.steps: "final"}.get(step)
            if stage:
                rows += [{**place, "stage": stage, "step": step, "rows": "", **row} for row in reading.table()]
    entropies = {seed: run.text(seed).entropies for seed in config.seeds}
    readings = joined(typed(pd.DataFrame(rows)), typed(corpus_loss_table(run.curves(), entropies)))
    return LanguageMeasured(readings, pd.DataFrame(skills), _tokens(run), arrays)


def _readings(
    models: MemberModels, member: Member, text: TextData, n_rows: int, n_null: int
) -> Iterator[tuple[str, int, str, Reading]]:
    """Stage, step, rows and reading of every probe; each reading carries the untrained twin's values."""
    plan = _plan(models.run.config.model, text, n_rows, n_null)
    models.load(member, "init")
    untrained = [probe(models.twin) for _, probe in plan]
    for (rows, _), reading in zip(plan, untrained, strict=True):
        yield "init", 0, rows, reading
    for stage in STAGES:
        step = models.load(member, stage).step
        for (rows, probe), before in zip(plan, untrained, strict=True):
            if before.probe == "embedding_rank" and before.layer is None:  # its ratios need the twin itself
                yield stage, step, rows, embedding_rank(models.model, text.counts, twin=models.twin, n_null=n_null)
            else:
                yield stage, step, rows, replace(probe(models.model), twin=before.values)


def _plan(config: Any, text: TextData, n_rows: int, n_null: int) -> list[tuple[str, Callable[[Any], Reading]]]:
    """The rows that each probe sees ("" for weights alone), and the probe as a function of a model."""
    plan: list[tuple[str, Callable[[Any], Reading]]] = [
        ("", lambda model: token_similarity(model, text.counts, n_null=n_null)),
        ("", lambda model: embedding_rank(model, text.counts, n_null=n_null)),
        ("", lambda model: next_token(model, text.counts, text.train, n_null=n_null)),
    ]
    for layer in sorted({0, config.n_layers - 1}):
        plan.append(("", lambda model, at=layer: weight_rank(model, layer=at)))
    for corpus in CORPORA:
        tokens = text.rows(f"{corpus}_test").tokens[:n_rows, :-1].astype(np.int64)
        for layer in range(min(LAYERS, config.n_layers)):
            for head in range(config.n_heads):
                plan.append((corpus, lambda model, t=tokens, at=(layer, head): _attention(model, t, *at)))
    return plan


def _attention(model: Any, tokens: np.ndarray, layer: int, head: int) -> Reading:
    found = uniformity(model, tokens, Roles(), layer=layer, head=head, n_null=0)
    return replace(found, arrays={name: found.arrays[name] for name in ATTENTION_ARRAYS})


def _skills(
    models: MemberModels, member: Member, text: TextData, n_null: int
) -> Iterator[tuple[int, Reading, list[dict]]]:
    """Step, reading and table of answers and chains at every kept step."""
    untrained: dict[str, float] = {}
    for step in models.run.kept_steps:
        models.load(member, step)
        reading, table = chain_accuracy(models.model, text.tokenizer, text.examples, n_null=n_null)
        untrained = untrained or dict(reading.values)
        yield step, replace(reading, twin=untrained), table


def _tokens(run: LanguageRun) -> pd.DataFrame:
    """Typical tokens of each seed's text."""
    rows = []
    for seed, text in run.texts.items():
        shown = [text.tokenizer.token_text(token) for token in range(text.tokenizer.d_vocab)]
        rows += [{"seed": seed, **row} for row in token_table(text.counts, shown)]
    return pd.DataFrame(rows)
