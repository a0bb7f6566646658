"""Measure crossed seeds: the routes and the circuit of every member, and whose seed decides them.

y_ds    ``key:from_key`` of ``routes``: share of the key's effect from the key's own position, of the member with data
        seed d and own seed s
shares  of the variance of y: data, initialisation and the rest, see ``components``
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from tqdm import tqdm

from crossed_seeds.components import variance_components
from crossed_seeds.config import CrossedSeedsConfig
from rb_interp.interventions import circuit_by_cause
from rb_interp.interventions.circuits import anchor_routes
from rb_interp.runs import MemberModels, Run, StudyResult, Sweep, readings_table
from rb_interp.statistics.learning_order import learning_order_of

SET = "rsn_train"
SHARES = {"key_from_key": "key:from_key", "key_from_anchors": "key:from_anchors"}
"""Columns of `crossing_table` -> the quantities of ``routes`` that they are; the first is y."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Readings ``learning_order`` and ``routes`` of every member of every sweep; one that diverged
    has no routes."""
    found = []
    for name, sweep in run.sweeps.items():
        data = {seed: sweep.dataset(seed) for seed in sweep.seeds}
        order = learning_order_of(sweep.curves(), sweep.config.task.d_vocab, data)
        found += [order.assign(sweep=name), _routes(sweep, run.config.probe_rows, progress)]
    return StudyResult(readings_table(*found))


def _routes(sweep: Sweep, probe_rows: int, progress: bool) -> pd.DataFrame:
    models, found = MemberModels(sweep), []
    for member in tqdm(
        sweep.sound_members, disable=not progress, unit="member", desc=f"routes of {sweep.name}"
    ):
        step = models.load(member, "final").step
        reading = anchor_routes(models.model, sweep.dataset(member.seed), set=SET, n=probe_rows)
        place = {
            "gamma": member.gamma,
            "seed": member.seed,
            "stage": "final",
            "step": step,
            "set": SET,
        }
        found += [{**place, **row} for row in reading.rows()]
    return readings_table(found, sweep=sweep.name)


def crossing_table(readings: pd.DataFrame) -> pd.DataFrame:
    """One row a member: the key's shares, rows they rest on, the circuit by cause, and final
    accuracy on rsn_train."""
    rows, member = [], ["sweep", "gamma", "seed"]
    accuracy = readings.query(f"probe == 'learning_order' and quantity == 'acc_{SET}'").set_index(
        member
    )["value"]
    for place, here in readings.query("probe == 'routes'").groupby(member, sort=False):
        sweep, gamma, seed = place
        found = dict(zip(here["quantity"], here["value"], strict=True))
        learned = float(accuracy[place])
        row = {"gamma": gamma, "data_seed": int(sweep.removeprefix("data_")), "seed": seed}
        row |= {column: found[quantity] for column, quantity in SHARES.items()}
        rows.append(
            {
                **row,
                "n": found["key:rows"],
                "circuit": circuit_by_cause(found, learned),
                "accuracy": learned,
            }
        )
    return pd.DataFrame(
        rows, columns=["gamma", "data_seed", "seed", *SHARES, "n", "circuit", "accuracy"]
    )


def components_table(crossing: pd.DataFrame, config: CrossedSeedsConfig) -> pd.DataFrame:
    """Variance and its share, with the 95 % interval, of data, initialisation and rest;
    ``difference``: data less init.

    All are NaN where a member has no share.
    """
    table = crossing.pivot(index="data_seed", columns="seed", values=next(iter(SHARES)))
    table = table.reindex(config.data_seeds, columns=config.seeds)
    found = variance_components(table.to_numpy(dtype=float))
    parts = {
        "data": found.rows,
        "initialisation": found.columns,
        "rest": found.rest,
        "difference": found.difference,
    }
    rows = [
        {
            "gamma": config.gamma,
            "component": name,
            "variance": variance,
            "share": part[0],
            "low": part[1],
            "high": part[2],
        }
        for (name, part), variance in zip(parts.items(), (*found.variances, np.nan), strict=True)
    ]
    return pd.DataFrame(rows).assign(n=int(table.notna().to_numpy().sum()))
