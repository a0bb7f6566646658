"""What the Emb-MLP study measures: learning order, geometry, predicted and measured motion, scaling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

import pandas as pd

from rb_interp.probes import Reading, geometry
from rb_interp.runs import Measured, MemberModels, Run, readings_table
from rb_interp.runs.measured import arrays_over_seeds
from rb_interp.runs.members import measure_members
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.studies.emb_mlp.config import EARLY, LATE, EmbMLPConfig
from rb_interp.studies.emb_mlp.drift import agreement_table, compare
from rb_interp.studies.emb_mlp.scaling import label_tables, scaling_tables
from rb_interp.tasks.anchor import GROUPS
from rb_interp.training.config import step_at
from rb_interp.training.member_group import Member

GEOMETRY = {"groups": GROUPS, "alike": ("memory", "reasoning"), "ordered": ("key", "reasoning")}


def measure(run: Run, progress: bool = True) -> Measured:
    """Readings, tables and arrays of a trained run.

    Raises RunError where a checkpoint is missing or broken.
    """
    adamw, config = run.sweeps["adamw"], cast(EmbMLPConfig, run.config)
    found = measure_members(run, partial(_geometry, n_null=config.n_null), ["adamw"], progress)
    drifts, flows, leaving = zip(*(compare(sweep, progress) for sweep in run.sweeps.values()), strict=True)
    drift, flow = (pd.concat([t for t in tables if len(t)], ignore_index=True) for tables in (drifts, flows))
    drawn = {key: a for key, a in found.arrays.items() if "/final//" in key and key.endswith("cos_reasoning_matrix")}
    tables = {
        "drift": drift,
        "agreement": agreement_table(drift),
        "value_flow": flow,
        **label_tables(adamw.dataset(config.seeds[0])),
        **scaling_tables(config.one_layer.task, config.scaling, config.seeds),
    }
    data = {seed: adamw.dataset(seed) for seed in adamw.seeds}
    order = learning_order_of(adamw.curves(), adamw.config.task.d_vocab, data).assign(sweep="adamw")
    arrays = {**found.arrays, **arrays_over_seeds(drawn)}
    return Measured(readings_table(order, found.readings, *leaving), tables, arrays)


def _geometry(models: MemberModels, member: Member, n_null: int) -> Iterator[tuple[str, str, Reading]]:
    """The member's embedding, at the stages of Fig. 4A and others."""
    data, train = models.sweep.dataset(member.seed), models.sweep.config.train
    inputs = data.inputs(data.sample("rsn_train", 1))
    early, late = (step_at(share, train) for share in (EARLY, LATE))
    for stage, place in {"init": "init", "half": "half", "early": early, "late": late, "final": "final"}.items():
        models.load(member, place)
        yield stage, "", geometry(models.model, inputs, untrained=models.untrained, n_null=n_null, **GEOMETRY)
