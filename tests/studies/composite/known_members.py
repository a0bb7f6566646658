"""Members whose phase and flow are known."""

import pandas as pd
from planted import INFERENTIAL, SYMMETRIC, planted
from reference_models import reference_model

from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.runs.results import readings_table
from rb_interp.studies.composite.flow import with_flows
from rb_interp.studies.composite.measure import read_model
from rb_interp.studies.composite.phase import final_rows, phase_table
from rb_interp.studies.composite.representation import read_grid, read_shares
from rb_interp.studies.composite.task import CompositeTask

TASK = CompositeTask(n_sequences=1600, evaluation_rows=100)
DATA = TASK.dataset(seed=0)
SIZES = ModelConfig(d_model=16, d_head=8, d_mlp=16, norm="post")


def read_known() -> dict[float, list]:
    """What `read_model` finds of models that are known: gamma .1 untrained, .5 symmetric, .8
    inferential.

    Hand-written flows hold their numbers beside large constants, so vectors are read off planted
    codes.
    """
    untrained = build_model(TASK, gamma=0.8, config=SIZES)
    known = {
        0.1: untrained,
        0.5: reference_model(DATA, "via_last", "symmetric"),
        0.8: reference_model(DATA, "via_anchors", "inferential"),
    }
    codes, found = {0.5: SYMMETRIC, 0.8: INFERENTIAL}, {}
    for gamma, model in known.items():
        found[gamma] = list(read_model(model, DATA, untrained))
        if gamma in codes:
            with planted(TASK, codes[gamma]) as model:
                vectors = [("seen_test", one) for one in read_shares(model, DATA)]
                vectors += [("grid", one) for one in read_grid(model, DATA)]
            probes = {reading.probe for _, reading in vectors}
            found[gamma] = [one for one in found[gamma] if one[1].probe not in probes] + vectors
    return found


def of_seeds(read, as_gamma=None, n=8) -> pd.DataFrame:
    """Readings of seeds that are alike at each gamma; ``as_gamma`` puts a model at another
    gamma."""
    of = {gamma: gamma for gamma in read} | (as_gamma or {})
    return readings_table(
        final_rows([(g, seed, *one) for g in read for seed in range(n) for one in read[of[g]]], 9)
    )


def phases_of(readings: pd.DataFrame) -> pd.DataFrame:
    return with_flows(phase_table(readings), readings)
