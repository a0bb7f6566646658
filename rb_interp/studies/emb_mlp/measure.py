"""Measurements of the Emb-MLP study: learning order, geometry, drift, and fresh models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

import pandas as pd

from rb_interp.probes import geometry
from rb_interp.runs import MemberModels, Run, StudyResult, readings_table
from rb_interp.runs.member_models import measure_members
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.statistics.reading import Reading
from rb_interp.studies.emb_mlp.config import EARLY, LATE, EmbMLPConfig
from rb_interp.studies.emb_mlp.drift import agreement_table, compare
from rb_interp.studies.emb_mlp.untrained import label_tables, scaling_tables
from rb_interp.tasks.anchor_settings import GROUPS
from rb_interp.training.config import step_at
from rb_interp.training.member_group import Member

GEOMETRY = {"groups": GROUPS, "alike": ("memory", "reasoning"), "ordered": ("key", "reasoning")}


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Readings, tables and arrays of a trained run.

    Raises RunError if a checkpoint is missing or broken.
    """
    adamw = run.sweeps["adamw"]
    config = cast(EmbMLPConfig, run.config)
    members = measure_members(run, partial(_geometry, n_null=config.n_null), ["adamw"], progress)
    comparisons = [compare(sweep, progress) for sweep in run.sweeps.values()]
    drift = _joined([comparison.drift for comparison in comparisons])
    tables = {
        "drift": drift,
        "agreement": agreement_table(drift),
        "value_flow": _joined([comparison.value_flow for comparison in comparisons]),
        **label_tables(adamw.dataset(config.seeds[0])),
        **scaling_tables(config.one_layer.task, config.scaling, config.seeds),
    }
    data = {seed: adamw.dataset(seed) for seed in adamw.seeds}
    order = learning_order_of(adamw.curves(), adamw.config.task.d_vocab, data).assign(sweep="adamw")
    leaving = [comparison.leaving for comparison in comparisons]
    readings = readings_table(order, members.readings, *leaving)
    return StudyResult(readings, tables, members.arrays)


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def _geometry(
    models: MemberModels, member: Member, n_null: int
) -> Iterator[tuple[str, str, Reading]]:
    """The geometry of a member's embedding, at the stages of Fig. 4A and others."""
    data = models.sweep.dataset(member.seed)
    train = models.sweep.config.train
    inputs = data.inputs(data.sample("rsn_train", 1))
    stages = {
        "init": "init",
        "half": "half",
        "early": step_at(EARLY, train),
        "late": step_at(LATE, train),
        "final": "final",
    }
    for stage, step in stages.items():
        models.load(member, step)
        model = models.model
        reading = geometry(model, inputs, untrained=models.untrained, n_null=n_null, **GEOMETRY)
        yield stage, "", reading
