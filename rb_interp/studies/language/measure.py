"""Measurements of the language study: token embeddings, attention, next tokens, answers, chains."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pandas as pd

from rb_interp import probes
from rb_interp.models.protocol import HookedModel
from rb_interp.runs import Run, StudyResult, Sweep, readings_table
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import frame
from rb_interp.statistics.learning_order import by_set, corpus_loss, delta_loss, readings_of_curves
from rb_interp.statistics.reading import Reading
from rb_interp.studies.language.config import LanguageConfig
from rb_interp.studies.language.reasoning import (
    CHAINS,
    best_of_gammas,
    decisive_readings,
    reasoning_of,
)
from rb_interp.tasks import Inputs
from rb_interp.text.settings import CORPORA
from rb_interp.text.task import TextData
from rb_interp.training.member_group import Member

PATTERN_ROWS = 16
"""Rows of one pass that captures the patterns of all heads."""
LAYERS = 2
"""Number of early layers whose attention is read, at most."""
STAGES = ("early", "final")
SIMILARITY = (
    *("cos_prontoqa", "cos_stories", "cos_control", "cos_in_range", "cos_counterpart"),
    *("difference", "difference_control", "difference_counterpart"),
    *("difference_centred", "difference_control_centred", "difference_counterpart_centred"),
)
"""Quantities of the table ``similarity``."""
STORED = "kept"
"""The stage, in the table ``token_intervals``, of what is read at every stored step."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Probe all members of a finished run at init, early and final, and along training.

    The tables are ``skills`` (answers and sentences of chains by number of hops, at every stored
    step), ``similarity`` (mean cosines of token embeddings at every stored step),
    ``token_intervals`` (their intervals over tokens), ``tokens`` (typical tokens) and ``corpora``
    (the text) and ``chains`` (what a member writes, where rules and facts have curves);
    docs/tables.md has their columns.

    Raises RunError if a checkpoint is missing or broken, or if the text has changed.
    """
    sweep = run.sweep()
    config = cast(LanguageConfig, run.config)
    texts = {seed: text_of(sweep, seed) for seed in sweep.seeds}
    read = partial(_readings, config=config)
    members = measure_members(run, read, [""], progress=progress)
    entropies = {seed: text.entropies for seed, text in texts.items()}
    losses = corpus_loss_table(sweep.curves(), entropies)
    tables = {**members.tables, "chains": frame(members.tables.get("chains", []), CHAINS)}
    typical = []
    for seed, text in texts.items():
        names = [text.tokenizer.token_text(token) for token in range(text.tokenizer.d_vocab)]
        typical += [{"seed": seed, **row} for row in probes.token_table(text.counts, names)]
    tables |= {"tokens": pd.DataFrame(typical), "corpora": corpora(texts)}
    readings = readings_table(members.readings, losses)
    if config.reads_facts:
        best = best_of_gammas(members.readings)
        readings = readings_table(readings, best, decisive_readings(run, texts))
    return StudyResult(readings, tables, members.arrays)


def text_of(sweep: Sweep, seed: int) -> TextData:
    """The text of a seed's members; RunError if it has changed since the run began."""
    return sweep.dataset(seed).text


def corpora(texts: Mapping[int, TextData]) -> pd.DataFrame:
    """The corpora of each seed.

    Columns: seed, corpus, source, documents, tokens, stand_in (a sentence if it stands in for the
    paper's, else empty), entropy (unigram, in nats).
    """
    rows = []
    for seed, text in texts.items():
        note = " ".join(text.provenance["stand_in"])
        for corpus, entropy in zip(CORPORA, text.entropies, strict=True):
            provenance = text.provenance[corpus]
            row = {
                "seed": seed,
                "corpus": corpus,
                "source": provenance["source"],
                "documents": provenance["documents"],
                "tokens": provenance["tokens"],
                "stand_in": note if provenance["stand_in"] else "",
                "entropy": entropy,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def _readings(
    models: MemberModels, member: Member, config: LanguageConfig
) -> Iterator[tuple[str, str, Reading]]:
    """Stage, set and reading of every probe; each reading carries the untrained model's values."""
    text = text_of(models.sweep, member.seed)
    models.load(member, "init")
    start = list(_read(models.untrained, text, config))
    for set, reading in start:
        yield "init", set, reading
    for stage in STAGES:
        models.load(member, stage)
        readings = _read(models.model, text, config, untrained=models.untrained)
        for (set, reading), (_, before) in zip(readings, start, strict=True):
            if not reading.untrained:
                reading = replace(reading, untrained=before.values)
            yield stage, set, reading
    yield from _along_training(models, member, text, config.n_null)
    if config.reads_facts:
        yield from reasoning_of(models, member, text)


def _along_training(
    models: MemberModels, member: Member, text: TextData, n_null: int
) -> Iterator[tuple[str, str, Reading]]:
    """Answers, chains and mean cosines of token embeddings at every stored step, as tables."""
    examples = probes.chain_inputs(text.examples, text.tokenizer)
    stages = {0: "init", models.sweep.config.train.steps: "final"}
    untrained = {}
    for step in models.sweep.checkpoint_steps:
        models.load(member, step)
        chain = probes.chain_accuracy(models.model, examples, n_null=n_null)
        untrained = untrained or dict(chain.values)
        stage = stages.get(step, STORED)
        values = {} if stage == STORED else chain.values
        yield stage, "", replace(chain, values=values, untrained=untrained)
        similarity = probes.token_similarity(models.model, counts=text.counts, n_null=0)
        means = pd.DataFrame([{name: similarity.values[name] for name in SIMILARITY}])
        tables = {**similarity.tables, "similarity": means}
        yield STORED, "", replace(similarity, values={}, arrays={}, tables=tables)


def _read(
    model: HookedModel, text: TextData, config: LanguageConfig, untrained: HookedModel | None = None
) -> Iterator[tuple[str, Reading]]:
    """Every reading of a model, and the set of its rows ("" for weights alone)."""
    counts = text.counts
    n_null = config.n_null
    yield "", probes.token_similarity(model, counts=counts, n_null=n_null)
    # its ratios need the untrained model itself
    yield "", probes.embedding_rank(model, counts=counts, untrained=untrained, n_null=n_null)
    inputs = Inputs(text.train.tokens)
    lengths = text.train.lengths
    yield "", probes.next_token(model, inputs, counts=counts, lengths=lengths, n_null=n_null)
    for layer in sorted({0, model.cfg.n_layers - 1}):
        yield "", replace(probes.weight_rank(model, layer=layer), arrays={})
    layers = range(min(LAYERS, model.cfg.n_layers))
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    for corpus in CORPORA:
        held_out = text.rows(f"{corpus}_test")
        tokens = held_out.tokens[: config.probe_rows, :-1]
        targets = held_out.targets[: config.probe_rows]
        inputs = Inputs(tokens)
        patterns = probes.captured(model, tokens, hooks, batch=PATTERN_ROWS)
        for layer, head in product(layers, range(model.cfg.n_heads)):
            reading = probes.uniformity(
                patterns, inputs, layer=layer, head=head, n_null=0, queries=targets
            )
            yield corpus, replace(reading, arrays={})


def delta_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Delta L at every evaluation, on text trained on: gamma, seed, step, delta_loss."""
    wide = curves.pivot(index=["gamma", "seed", "step"], columns="set", values="loss")
    delta = delta_loss(wide["stories_train"].to_numpy(), wide["prontoqa_train"].to_numpy())
    return pd.DataFrame({"delta_loss": delta}, index=wide.index).reset_index()


def corpus_loss_table(
    curves: pd.DataFrame, entropies: Mapping[int, tuple[float, float]]
) -> pd.DataFrame:
    """Readings of every member in a curves table (`readings_of_curves`); entropies are by seed."""

    def read(member: pd.DataFrame, seed: int) -> Reading:
        losses = {set: rows["loss"].to_numpy(np.float64) for set, rows in by_set(member).items()}
        steps = np.unique(member["step"].to_numpy())
        return corpus_loss(losses, steps, entropies[seed])

    return readings_of_curves(curves, read)
