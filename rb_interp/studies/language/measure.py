"""Read every member of a language run: embeddings, their rank, attention, next-token geometry, answers and chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.averaging import uniformity_of_heads
from rb_interp.probes.chain import chain_accuracy, chain_inputs
from rb_interp.probes.language import embedding_rank, next_token
from rb_interp.probes.similarity import token_similarity
from rb_interp.probes.tokens import token_table
from rb_interp.probes.weights import weight_rank
from rb_interp.runs.measured import Measured, readings_table
from rb_interp.runs.members import MemberModels
from rb_interp.statistics.reading import Reading
from rb_interp.studies.language.tables import KEPT, SIMILARITY, corpus_loss_table, derived
from rb_interp.tasks import Inputs
from rb_interp.text.config import CORPORA
from rb_interp.text.data import TextData
from rb_interp.training.member_group import Member

if TYPE_CHECKING:
    from rb_interp.runs.run import Run
    from rb_interp.runs.sweep import Sweep
    from rb_interp.studies.language.config import LanguageConfig

LAYERS = 2
"""Early layers whose attention is read, as far as a model has them."""
STAGES = ("early", "final")


def measure(run: Run, progress: bool = True) -> Measured:
    """Probe all members of a finished run at init, early and final, and their skills at every kept step.

    The tables are those of ``tables.derived`` and ``skills`` (answers and sentences of chains by number of hops, at
    every kept step), ``similarity`` (mean cosines of token embeddings at every kept step), ``token_intervals`` (their
    intervals over tokens), ``tokens`` (typical tokens) and ``corpora`` (what was read); docs/tables.md has their
    columns.

    Raises RunError where a checkpoint is missing or broken, or the text has changed.
    """
    sweep, config = run.sweep(), cast("LanguageConfig", run.config)
    models, texts = MemberModels(sweep), {seed: text_of(sweep, seed) for seed in sweep.seeds}
    rows, skills, courses, intervals, arrays = [], [], [], [], {}
    for member in tqdm(sweep.sound_members, disable=not progress, unit="member", desc="probing"):
        text, place = texts[member.seed], {"gamma": member.gamma, "seed": member.seed}
        for stage, step, where, reading in _readings(models, member, text, config):
            rows += [{**place, "stage": stage, "step": step, "set": where, **row} for row in reading.rows()]
            intervals += _intervals(reading, {**place, "stage": stage, "step": step})
            head = "" if reading.layer is None else f".{reading.layer}.{reading.head}"
            prefix = f"{member.gamma}/{member.seed}/{stage}/{where}/{reading.probe}{head}"
            arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
        for step, similar, reading, table in _along(models, member, text, config.n_null):
            courses.append({**place, "step": step, **{name: similar.values[name] for name in SIMILARITY}})
            intervals += _intervals(similar, {**place, "stage": KEPT, "step": step})
            skills += [{**place, "step": step, **row} for row in table]
            stage = {0: "init", sweep.config.train.steps: "final"}.get(step)
            if stage:
                rows += [{**place, "stage": stage, "step": step, "set": "", **row} for row in reading.rows()]
    curves = sweep.curves()
    losses = corpus_loss_table(curves, {seed: text.entropies for seed, text in texts.items()})
    readings = readings_table(rows, losses)
    own = {"skills": pd.DataFrame(skills), "similarity": pd.DataFrame(courses), "tokens": _tokens(texts)}
    own |= {"corpora": corpora(texts), "token_intervals": pd.DataFrame(intervals)}
    statistics = derived(readings, curves, own["skills"], own["similarity"], own["token_intervals"])
    return Measured(readings, {**own, **statistics}, arrays)


def text_of(sweep: Sweep, seed: int) -> TextData:
    """What the members of a seed read; RunError where it is no longer what the run was begun with."""
    sweep.dataset(seed)
    return sweep.config.task.text(seed)


def corpora(texts: Mapping[int, TextData]) -> pd.DataFrame:
    """What was read: seed, corpus, source, stand_in (whether it stands in for the paper's, and in which words),
    documents, tokens, entropy (unigram, in nats)."""
    rows = []
    for seed, text in texts.items():
        words = " ".join(text.provenance["stand_in"])
        for corpus, entropy in zip(CORPORA, text.entropies, strict=True):
            provenance = text.provenance[corpus]
            read = {name: provenance[name] for name in ("source", "documents", "tokens")}
            read["stand_in"] = words if provenance["stand_in"] else ""
            rows.append({"seed": seed, "corpus": corpus, **read, "entropy": entropy})
    return pd.DataFrame(rows)


def _readings(
    models: MemberModels, member: Member, text: TextData, config: LanguageConfig
) -> Iterator[tuple[str, int, str, Reading]]:
    """Stage, step, set and reading of every probe; each reading carries the untrained model's values."""
    models.load(member, "init")
    start = list(_read(models.untrained, text, config))
    for where, reading in start:
        yield "init", 0, where, reading
    for stage in STAGES:
        step = models.load(member, stage).step
        now = _read(models.model, text, config, untrained=models.untrained)
        for (where, reading), (_, before) in zip(now, start, strict=True):
            yield stage, step, where, reading if reading.untrained else replace(reading, untrained=before.values)


def _read(
    model: HookedModel, text: TextData, config: LanguageConfig, untrained: HookedModel | None = None
) -> Iterator[tuple[str, Reading]]:
    """Every reading of a model, and the set that it saw ("" for weights alone)."""
    yield "", token_similarity(model, counts=text.counts, n_null=config.n_null)
    # its ratios need the untrained model itself
    yield "", embedding_rank(model, counts=text.counts, untrained=untrained, n_null=config.n_null)
    read, lengths = Inputs(text.train.tokens), text.train.lengths
    yield "", next_token(model, read, counts=text.counts, lengths=lengths, n_null=config.n_null)
    for layer in sorted({0, model.cfg.n_layers - 1}):
        yield "", weight_rank(model, layer=layer)
    for corpus in CORPORA:
        held_out = text.rows(f"{corpus}_test")
        tokens, _, targets = held_out.batch(np.arange(min(config.probe_rows, len(held_out))))
        layers = range(min(LAYERS, model.cfg.n_layers))
        for reading in uniformity_of_heads(model, Inputs(tokens), layers=layers, counted=targets):
            yield corpus, reading


def _along(
    models: MemberModels, member: Member, text: TextData, n_null: int
) -> Iterator[tuple[int, Reading, Reading, list[dict]]]:
    """At every kept step: mean cosines of token embeddings, and reading and table of answers and chains."""
    start: dict[str, float] = {}
    examples = chain_inputs(text.examples, text.tokenizer)
    for step in models.sweep.checkpoint_steps:
        models.load(member, step)
        reading = chain_accuracy(models.model, examples, n_null=n_null)
        start = start or dict(reading.values)
        similar = token_similarity(models.model, counts=text.counts, n_null=0)
        yield step, similar, replace(reading, untrained=start), reading.tables["skills"].to_dict("records")


def _intervals(reading: Reading, place: Mapping) -> list[dict]:
    """Rows of the table ``token_intervals``; none for a reading of anything but similarity."""
    table = reading.tables.get("token_intervals")
    return [] if table is None else [{**place, **row} for row in table.to_dict("records")]


def _tokens(texts: Mapping[int, TextData]) -> pd.DataFrame:
    """Typical tokens of each seed's text."""
    rows = []
    for seed, text in texts.items():
        shown = [text.tokenizer.token_text(token) for token in range(text.tokenizer.d_vocab)]
        rows += [{"seed": seed, **row} for row in token_table(text.counts, shown)]
    return pd.DataFrame(rows)
