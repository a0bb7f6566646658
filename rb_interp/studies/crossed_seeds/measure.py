"""Measure crossed seeds: the routes and the circuit of every member, and whose seed decides them.

y_ds    ``key:from_key`` of ``routes``: share of the key's effect from the key's own position, of the member with data
        seed d and own seed s
shares  of the variance of y: data, initialisation and the rest, see ``statistics.variance_components``
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.interventions.circuit_names import circuit_by_cause
from rb_interp.interventions.route_shares import anchor_routes
from rb_interp.runs.measured import Measured, readings_table
from rb_interp.runs.members import MemberModels
from rb_interp.runs.run import Run
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.statistics.variance_components import variance_components
from rb_interp.studies.crossed_seeds.config import CrossedSeedsConfig
from rb_interp.studies.crossed_seeds.schema import TABLES

SET = "rsn_train"
OUTCOME = "key_from_key"
SHARES = {OUTCOME: "key:from_key", "key_from_anchors": "key:from_anchors"}
"""Shares in the table ``crossing`` -> the quantities of ``routes`` that they are."""


def measure(run: Run, progress: bool = True) -> Measured:
    """Read learning curves and routes; readings ``learning_order`` and ``routes`` of every sweep.

    Tables: ``crossing``, one row a member, and ``components``, the shares of variance. A member that diverged has no
    row, and then no share is known.

    Raises RunError where a checkpoint is missing or broken.
    """
    config, found = cast(CrossedSeedsConfig, run.config), []
    for name, sweep in run.sweeps.items():
        data = {seed: sweep.dataset(seed) for seed in sweep.seeds}
        order = learning_order_of(sweep.curves(), sweep.config.task.d_vocab, data)
        found += [order.assign(sweep=name), _routes(sweep, config.probe_rows, progress)]
    readings = readings_table(*found)
    crossing = crossing_table(readings, {name: sweep.data_seed for name, sweep in config.sweeps.items()})
    components = components_table(crossing, config.gamma, config.data_seeds, run.config.seeds)
    return Measured(readings, {"crossing": crossing, "components": components})


def _routes(sweep: Sweep, probe_rows: int, progress: bool) -> pd.DataFrame:
    models, found = MemberModels(sweep), []
    for member in tqdm(sweep.sound_members, disable=not progress, unit="member", desc=f"routes of {sweep.name}"):
        step = models.load(member, "final").step
        reading = anchor_routes(models.model, sweep.dataset(member.seed), set=SET, n=probe_rows)
        place = {"gamma": member.gamma, "seed": member.seed, "stage": "final", "step": step, "set": SET}
        found += [{**place, **row} for row in reading.rows()]
    return readings_table(found, sweep=sweep.name)


def crossing_table(readings: pd.DataFrame, data_seeds: dict[str, int | None]) -> pd.DataFrame:
    """One row a member: the key's shares, rows they rest on, the circuit by cause, and final accuracy on rsn_train.

    Args:
        data_seeds: sweep -> its seed of the data.
    """
    rows = []
    accuracies = readings.loc[(readings["probe"] == "learning_order") & (readings["quantity"] == f"acc_{SET}")]
    accuracy = accuracies.set_index(["sweep", "gamma", "seed"])["value"]
    routes = readings.loc[readings["probe"] == "routes"]
    for (sweep, gamma, seed), here in routes.groupby(["sweep", "gamma", "seed"], sort=False):
        found = dict(zip(here["quantity"], here["value"], strict=True))
        learned = float(accuracy[sweep, gamma, seed])
        place = {"gamma": gamma, "data_seed": data_seeds[sweep], "seed": seed, "n": int(found["key:rows"])}
        shares = {column: found[quantity] for column, quantity in SHARES.items()}
        rows.append({**place, **shares, "circuit": circuit_by_cause(found, learned), "accuracy": learned})
    return TABLES["crossing"].frame(rows)


def components_table(
    crossing: pd.DataFrame, gamma: float, data_seeds: tuple[int, ...], seeds: tuple[int, ...]
) -> pd.DataFrame:
    """Variance and its share, with the 95 % interval, of data, initialisation and rest; ``difference``: data less init.

    All are NaN where a member has no share.
    """
    table = crossing.pivot(index="data_seed", columns="seed", values=OUTCOME).reindex(data_seeds, columns=seeds)
    found = variance_components(table.to_numpy(dtype=float))
    parts = {"data": found.rows, "initialisation": found.columns, "rest": found.rest, "difference": found.difference}
    rows = [
        {"gamma": gamma, "component": name, "variance": variance, "share": part[0], "low": part[1], "high": part[2]}
        for (name, part), variance in zip(parts.items(), (*found.variances, np.nan), strict=True)
    ]
    return pd.DataFrame(rows).assign(n=int(table.notna().to_numpy().sum()))
