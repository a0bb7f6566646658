"""Measure crossed seeds: the route of the key in every member, and whose seed decides it.

y_ds    share of the key's effect from the key's own position, of the member with data seed d and own seed s
shares  of the variance of y: data, initialisation and the rest, see ``statistics.variance_components``
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.machine.measured import Measured, readings_table
from rb_interp.machine.members import MemberModels
from rb_interp.machine.run import Run
from rb_interp.machine.sweep import Sweep
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.statistics.variance_components import variance_components
from rb_interp.studies.crossed_seeds.config import CrossedSeedsConfig
from rb_interp.studies.crossed_seeds.key_route import key_routes, route_name
from rb_interp.studies.crossed_seeds.schema import TABLES

SET = "rsn_train"
OUTCOME = "own_position"


def measure(run: Run, progress: bool = True) -> Measured:
    """Read learning curves and the routes of the key; readings ``learning_order`` and ``key_routes`` of every sweep.

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
        data = sweep.dataset(member.seed)
        step = models.load(member, "final").step
        reading = key_routes(models.model, data, data.sample(SET, probe_rows))
        place = {"gamma": member.gamma, "seed": member.seed, "stage": "final", "step": step, "set": SET}
        found += [{**place, **row} for row in reading.rows()]
    return readings_table(found, sweep=sweep.name)


def crossing_table(readings: pd.DataFrame, data_seeds: dict[str, int | None]) -> pd.DataFrame:
    """One row a member: shares by route, rows they rest on, the route's name, and final accuracy on rsn_train.

    Args:
        data_seeds: sweep -> its seed of the data.
    """
    rows = []
    accuracies = readings.loc[(readings["probe"] == "learning_order") & (readings["quantity"] == f"acc_{SET}")]
    accuracy = accuracies.set_index(["sweep", "gamma", "seed"])["value"]
    routes = readings.loc[readings["probe"] == "key_routes"]
    for (sweep, gamma, seed), here in routes.groupby(["sweep", "gamma", "seed"], sort=False):
        shares = dict(zip(here["quantity"], here["value"], strict=True))
        learned = float(accuracy[sweep, gamma, seed])
        place = {"gamma": gamma, "data_seed": data_seeds[sweep], "seed": seed, "n": int(here["n"].iloc[0])}
        rows.append({**place, **shares, "route": route_name(shares, learned), "accuracy": learned})
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
