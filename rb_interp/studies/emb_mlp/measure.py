"""What the Emb-MLP study measures: learning order, geometry, predicted and measured motion, scaling."""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.probes import geometry
from rb_interp.runs import Measured, MemberModels, Run, Sweep, over_seeds, readings_table
from rb_interp.runs.measured import arrays_over_seeds, curves_summary
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.studies.emb_mlp.config import EARLY, LATE, EmbMLPConfig
from rb_interp.studies.emb_mlp.drift import (
    agreement_curves,
    agreement_summary,
    agreement_table,
    compare,
    curves_over_seeds,
)
from rb_interp.studies.emb_mlp.scaling import label_tables, scaling_tables
from rb_interp.tasks.anchor import GROUPS
from rb_interp.training.config import step_at

FLOW = ["cos", "cos_direction", "share_leading"]
GEOMETRY = {"groups": GROUPS, "alike": ("memory", "reasoning"), "ordered": ("key", "reasoning")}


def measure(run: Run, progress: bool = True) -> Measured:
    """Readings, tables and arrays of a trained run.

    Raises RunError where a checkpoint is missing or broken.
    """
    adamw, config = run.sweeps["adamw"], cast(EmbMLPConfig, run.config)
    rows, arrays = _geometry(adamw, config.n_null, progress)
    drifts, flows, leaving = zip(*(compare(sweep, progress) for sweep in run.sweeps.values()), strict=True)
    drift, flow = (pd.concat([t for t in tables if len(t)], ignore_index=True) for tables in (drifts, flows))
    agreement = agreement_table(drift)
    drawn = {key: array for key, array in arrays.items() if "/final//" in key and key.endswith("cos_reasoning_matrix")}
    tables = {
        "curves_summary": curves_summary(adamw.curves().assign(sweep="adamw")),
        "drift": drift,
        "drift_curves": agreement_curves(drift),
        "agreement": agreement,
        "agreement_summary": agreement_summary(agreement),
        "value_flow": flow,
        "value_flow_curves": curves_over_seeds(flow, ["sweep", "gamma"], FLOW),
        "value_flow_leaving": over_seeds(flow.loc[flow["leaving"]], ["sweep", "gamma"], FLOW),
        **label_tables(adamw.dataset(config.seeds[0])),
        **scaling_tables(config.one_layer.task, config.scaling, config.seeds),
    }
    data = {seed: adamw.dataset(seed) for seed in adamw.seeds}
    order = learning_order_of(adamw.curves(), adamw.config.task.d_vocab, data).assign(sweep="adamw")
    return Measured(readings_table(order, rows, *leaving), tables, arrays | arrays_over_seeds(drawn))


def _geometry(sweep: Sweep, n_null: int, progress: bool) -> tuple[list[dict], dict[str, np.ndarray]]:
    """Readings and arrays of every member's embedding, at the stages of Fig. 4A and others."""
    train, models, rows, arrays = sweep.config.train, MemberModels(sweep), [], {}
    early, late = (step_at(share, train) for share in (EARLY, LATE))
    stages = {"init": "init", "half": "half", "early": early, "late": late, "final": "final"}
    for member in tqdm(sweep.sound_members, disable=not progress, unit="member", desc="probing embeddings"):
        data = sweep.dataset(member.seed)
        inputs = data.inputs(data.sample("rsn_train", 1))
        for stage, place in stages.items():
            step = models.load(member, place).step
            reading = geometry(models.model, inputs, untrained=models.untrained, n_null=n_null, **GEOMETRY)
            at = {"sweep": sweep.name, "gamma": member.gamma, "seed": member.seed, "stage": stage, "step": step}
            rows += [{**at, "set": "", **row} for row in reading.rows()]
            prefix = f"{sweep.name}/{member.gamma}/{member.seed}/{stage}//geometry"
            arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
    return rows, arrays
