"""Read every member of a language run: embeddings, their rank, attention, next-token geometry,
answers and chains."""

import math
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
from rb_interp.runs.member_models import MemberModels, measure_members
from rb_interp.statistics.corpus_loss import corpus_loss, delta_loss
from rb_interp.statistics.learning_order import by_set, readings_of_curves
from rb_interp.statistics.reading import Reading
from rb_interp.studies.language.config import LanguageConfig
from rb_interp.tasks import Inputs
from rb_interp.text.data import TextData
from rb_interp.text.settings import CORPORA
from rb_interp.training.member_group import Member

TOGETHER = 16
"""Rows of one pass where the patterns of all heads are kept."""
LAYERS = 2
"""Early layers whose attention is read, as far as a model has them."""
STAGES = ("early", "final")
SIMILARITY = (
    *("cos_prontoqa", "cos_stories", "cos_control", "cos_in_range", "cos_counterpart"),
    *("difference", "difference_control", "difference_counterpart"),
    *("difference_centred", "difference_control_centred", "difference_counterpart_centred"),
)
"""What is read along training."""
KEPT = "kept"
"""In the column ``stage`` of the table ``token_intervals``: read along training, at a kept step."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Probe all members of a finished run at init, early and final, and their skills at every kept
    step.

    The tables are ``skills`` (answers and sentences of chains by number of hops, at every kept
    step), ``similarity`` (mean cosines of token embeddings at every kept step), ``token_intervals``
    (their intervals over tokens), ``tokens`` (typical tokens) and ``corpora`` (what was read);
    docs/tables.md has their columns.

    Raises RunError where a checkpoint is missing or broken, or the text has changed.
    """
    sweep, config = run.sweep(), cast(LanguageConfig, run.config)
    texts = {seed: text_of(sweep, seed) for seed in sweep.seeds}
    found = measure_members(run, partial(_readings, config=config), progress=progress)
    losses = corpus_loss_table(
        sweep.curves(), {seed: text.entropies for seed, text in texts.items()}
    )
    tables = {**found.tables, "tokens": _tokens(texts), "corpora": corpora(texts)}
    return StudyResult(readings_table(found.readings, losses), tables, found.arrays)


def text_of(sweep: Sweep, seed: int) -> TextData:
    """What the members of a seed read; RunError where it is no longer what the run was begun
    with."""
    sweep.dataset(seed)
    return sweep.config.task.text(seed)


def corpora(texts: Mapping[int, TextData]) -> pd.DataFrame:
    """What was read: seed, corpus, source, stand_in (whether it stands in for the paper's, and in
    which words), documents, tokens, entropy (unigram, in nats)."""
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
    models: MemberModels, member: Member, config: LanguageConfig
) -> Iterator[tuple[str, str, Reading]]:
    """Stage, set and reading of every probe; each reading carries the untrained model's values.

    At every kept step, further, the tables of answers and chains and of mean cosines of token
    embeddings.
    """
    text, train = text_of(models.sweep, member.seed), models.sweep.config.train
    models.load(member, "init")
    start = list(_read(models.untrained, text, config))
    for where, reading in start:
        yield "init", where, reading
    for stage in STAGES:
        models.load(member, stage)
        now = _read(models.model, text, config, untrained=models.untrained)
        for (where, reading), (_, before) in zip(now, start, strict=True):
            yield (
                stage,
                where,
                reading if reading.untrained else replace(reading, untrained=before.values),
            )
    examples, first = probes.chain_inputs(text.examples, text.tokenizer), {}
    for step in models.sweep.checkpoint_steps:
        models.load(member, step)
        chain = probes.chain_accuracy(models.model, examples, n_null=config.n_null)
        first, stage = first or dict(chain.values), {0: "init", train.steps: "final"}.get(step)
        yield (
            stage or KEPT,
            "",
            replace(chain, values=chain.values if stage else {}, untrained=first),
        )
        similar = probes.token_similarity(models.model, counts=text.counts, n_null=0)
        means = pd.DataFrame([{name: similar.values[name] for name in SIMILARITY}])
        yield (
            KEPT,
            "",
            replace(similar, values={}, arrays={}, tables={**similar.tables, "similarity": means}),
        )


def _read(
    model: HookedModel, text: TextData, config: LanguageConfig, untrained: HookedModel | None = None
) -> Iterator[tuple[str, Reading]]:
    """Every reading of a model, and the set that it saw ("" for weights alone)."""
    yield "", probes.token_similarity(model, counts=text.counts, n_null=config.n_null)
    # its ratios need the untrained model itself
    yield (
        "",
        probes.embedding_rank(model, counts=text.counts, untrained=untrained, n_null=config.n_null),
    )
    read, lengths = Inputs(text.train.tokens), text.train.lengths
    yield (
        "",
        probes.next_token(model, read, counts=text.counts, lengths=lengths, n_null=config.n_null),
    )
    for layer in sorted({0, model.cfg.n_layers - 1}):
        yield "", replace(probes.weight_rank(model, layer=layer), arrays={})
    for corpus in CORPORA:
        held_out = text.rows(f"{corpus}_test")
        tokens, targets = (
            held_out.tokens[: config.probe_rows, :-1],
            held_out.targets[: config.probe_rows],
        )
        layers, inputs = range(min(LAYERS, model.cfg.n_layers)), Inputs(tokens)
        patterns = probes.captured(
            model, tokens, [f"blocks.{at}.attn.hook_pattern" for at in layers], batch=TOGETHER
        )
        for layer, head in product(layers, range(model.cfg.n_heads)):
            reading = probes.uniformity(
                patterns, inputs, layer=layer, head=head, n_null=0, counted=targets
            )
            yield corpus, replace(reading, arrays={})


def _tokens(texts: Mapping[int, TextData]) -> pd.DataFrame:
    """Typical tokens of each seed's text."""
    rows = []
    for seed, text in texts.items():
        shown = [text.tokenizer.token_text(token) for token in range(text.tokenizer.d_vocab)]
        rows += [{"seed": seed, **row} for row in probes.token_table(text.counts, shown)]
    return pd.DataFrame(rows)


def delta_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Delta L at every evaluation, on text trained on: gamma, seed, step, delta_loss."""
    wide = curves.pivot(index=["gamma", "seed", "step"], columns="set", values="loss")
    found = delta_loss(wide["stories_train"].to_numpy(), wide["prontoqa_train"].to_numpy())
    return pd.DataFrame({"delta_loss": found}, index=wide.index).reset_index()


def corpus_loss_table(
    curves: pd.DataFrame, entropies: Mapping[int, tuple[float, float]]
) -> pd.DataFrame:
    """Readings table of every member in a curves table, see `readings_of_curves`; entropies by
    seed."""

    def read(member: pd.DataFrame, name: str, seed: int) -> Reading:
        losses = {
            key: rows["loss"].to_numpy(dtype=np.float64) for key, rows in by_set(member).items()
        }
        return corpus_loss(
            losses, np.unique(member["step"].to_numpy()), entropies.get(seed, (math.nan, math.nan))
        )

    return readings_of_curves(curves, read)
