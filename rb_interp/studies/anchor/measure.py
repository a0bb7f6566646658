"""Measure a trained run, once: probes, interventions, dynamics, and every statistic over seeds that anything shows.

docs/tables.md has the tables with their columns. In all of them n counts the seeds with a finite value, low and high
are the ends of a 95 % Student t interval and NaN below two seeds. Arrays are
``{gamma}/{seed}/{stage}/{set}/{probe}/{array}``; those whose means over seeds are drawn also stand under the seeds
``mean``, ``low`` and ``high``:

    uniformity/tv_per_row, geometry/cos_reasoning_matrix
    value_alignment/relative_singular_values    s_k / s_1
    value_alignment/abs_leading_cosines         |cos(u1, token)|, in the order of value_alignment/tokens
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from rb_interp.interventions.route_shares import CAUSES
from rb_interp.runs.intervene import ablation_means
from rb_interp.runs.measured import Measured, arrays_over_seeds, curves_summary, over_seeds, readings_table
from rb_interp.runs.run import Run
from rb_interp.statistics.intervals import interval_or_nan, proportion_interval
from rb_interp.statistics.learning_order import label_entropy, learning_order_table
from rb_interp.studies.anchor.causes import measure_causes
from rb_interp.studies.anchor.circuits import CIRCUITS, circuit_table
from rb_interp.studies.anchor.config import FIXED
from rb_interp.studies.anchor.dynamics import dynamics
from rb_interp.studies.anchor.equivalence import measure_equivalence
from rb_interp.studies.anchor.events import OFFSET, order_table, own_signs
from rb_interp.studies.anchor.readings import read_members
from rb_interp.tasks import SETS


def measure(run: Run, progress: bool = True) -> Measured:
    """Probe all members of a finished run, intervene on them, date what happened when, and summarise over seeds.

    Raises RunError where a checkpoint that a stage needs is missing or broken.
    """
    sweep = run.sweep()
    data = {seed: sweep.dataset(seed) for seed in sweep.seeds}
    rows, arrays = read_members(run, progress)
    entropies = {(seed, name): label_entropy(d.labels[d.rows(name)]) for seed, d in data.items() for name in SETS}
    order = learning_order_table(sweep.curves(), sweep.config.task.d_vocab, entropies)
    fixed = []  # what members learn whose L0 attends 1/i throughout training
    if FIXED in run.sweeps:
        fixed_order = learning_order_table(run.sweep(FIXED).curves(), sweep.config.task.d_vocab, entropies)
        fixed = [readings_table(fixed_order, sweep=FIXED)]
    circuits = circuit_table(readings_table(rows, order))
    causes, moved = measure_causes(run, circuits, progress), dynamics(run, progress)
    equivalence = measure_equivalence(run, circuits, progress)
    readings = readings_table(rows, order, causes.readings(), equivalence.readings, *fixed)
    tables = {
        "circuits": circuits,
        **equivalence.tables,
        "effects": causes.effects,
        "ablations": causes.ablations,
        "patching": causes.patching,
        "dynamics": moved.values,
        "events": moved.events,
    }
    return Measured(readings, tables | summaries(tables, run.curves), arrays | array_means(arrays))


NAMED_BY = {"cause": ("cause", CAUSES), "attention": ("circuit", CIRCUITS)}
"""How a circuit is named -> the column of ``circuits`` with that name, and the names that there are."""
AVERAGED: dict[tuple[str, str], tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    ("uniformity", "tv_per_row"): ("tv_per_row", np.asarray),
    ("geometry", "cos_reasoning_matrix"): ("cos_reasoning_matrix", np.asarray),
    ("value_alignment", "singular_values"): ("relative_singular_values", lambda values: values / values[0]),
    ("value_alignment", "cosines"): ("abs_leading_cosines", lambda cosines: np.abs(cosines[0])),
}
"""Probe and array -> name and values of what is averaged over seeds."""


def summaries(tables: Mapping[str, pd.DataFrame], curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table of statistics over seeds, from the tables of members and the learning curves."""
    named, events = tables["circuits"], tables["events"]
    circuits = named[["gamma", "seed"]].assign(circuit=named["cause"])
    patched, order = patching_summary(tables["patching"], circuits), order_table(events, circuits)
    return {
        "circuit_counts": circuit_counts(named),
        "circuit_disagreement": circuit_disagreement(named),
        "effects_summary": over_seeds(
            tables["effects"], ["gamma", "stage", "set", "intervention"], ["effect", "control", "difference"]
        ),
        "ablations_summary": ablation_means(tables["ablations"]),
        "patching_summary": patched,
        "patching_circuits": patching_circuits(patched),
        "patching_controls": patching_controls(tables["patching"]),
        "events_summary": events_summary(events),
        "event_order": order,
        "own_signs": own_signs(order),
        "checkpoints": checkpoints(tables["dynamics"]),
        "curves_summary": curves_summary(curves),
    }


def circuit_counts(circuits: pd.DataFrame) -> pd.DataFrame:
    """How many seeds learned each circuit at each gamma, by cause and by attention, with Clopper-Pearson intervals."""
    rows = []
    for gamma, members in circuits.groupby("gamma", sort=True):
        for named_by, (column, known) in NAMED_BY.items():
            for name in (*known, *sorted({*circuits[column]} - {*known})):
                n, total = int(np.sum(members[column] == name)), len(members)
                rows.append((gamma, named_by, name, n, total, *proportion_interval(n, total)))
    return pd.DataFrame(rows, columns=["gamma", "named_by", "circuit", "n", "total", "share", "low", "high"])


def circuit_disagreement(circuits: pd.DataFrame) -> pd.DataFrame:
    """In how many seeds of each gamma the name by attention is not the name by cause, with its interval.

    ``gather-at-last-anchor`` is a name by cause alone, so that its members count.
    """
    rows = []
    for gamma, members in circuits.groupby("gamma", sort=True):
        n, total = int(np.sum(members["circuit"] != members["cause"])), len(members)
        rows.append((gamma, n, total, *proportion_interval(n, total)))
    return pd.DataFrame(rows, columns=["gamma", "n", "total", "share", "low", "high"])


def patching_summary(patching: pd.DataFrame, circuits: pd.DataFrame) -> pd.DataFrame:
    """Mean over all seeds (circuit "") of each cell, and over the seeds of each circuit."""
    named = patching.merge(circuits[["gamma", "seed", "circuit"]], on=["gamma", "seed"], how="left")
    every = pd.concat([named.assign(circuit=""), named.fillna({"circuit": "not named"})], ignore_index=True)
    by = ["gamma", "stage", "circuit", "counterfactual", "component", "layer", "role"]
    return over_seeds(every, by, ["recovered", "control"])


def patching_circuits(summary: pd.DataFrame) -> pd.DataFrame:
    """Seeds that were patched, by circuit (circuit "": all of them): the most that any cell has a value of."""
    recovered = summary.loc[summary["quantity"] == "recovered"]
    return pd.DataFrame(recovered.groupby(["gamma", "stage", "circuit"], as_index=False)["n"].max())


def patching_controls(patching: pd.DataFrame) -> pd.DataFrame:
    """Largest absolute value of the control in any cell of any member, by gamma and stage."""
    sizes = patching.assign(largest=patching["control"].abs())
    return pd.DataFrame(sizes.groupby(["gamma", "stage"], as_index=False)["largest"].max())


def checkpoints(dynamics: pd.DataFrame) -> pd.DataFrame:
    """Steps at which members of a gamma were kept, and whether every seed was."""
    at_step, at_all = (dynamics.groupby(by)["seed"].transform("nunique") for by in (["gamma", "step"], ["gamma"]))
    steps = dynamics.assign(every_seed=at_step == at_all)[["gamma", "step", "every_seed"]]
    return pd.DataFrame(steps).drop_duplicates().sort_values(["gamma", "step"], ignore_index=True)


def events_summary(events: pd.DataFrame) -> pd.DataFrame:
    """When each event happened, over the seeds of a gamma: how often, and the mean on the scale of log(step + 25)."""
    rows = []
    for _, members in events.groupby(["gamma", "event", "event_of"], sort=False):
        place = members.iloc[0][["gamma", "event", "event_of"]].to_dict()
        steps = members["step"].to_numpy(dtype=float)
        reached = steps[np.isfinite(steps)]
        during = reached[reached > 0]
        counts = {"n_start": int((steps == 0).sum()), "n_never": int(np.isnan(steps).sum()), "n_during": len(during)}
        mean, low, high = _mean_step(during)
        means = {"mean": mean, "low": low, "high": high, "mean_reached": _mean_step(reached)[0]}
        rows.append({**place, "n": len(steps), **counts, **means})
    return pd.DataFrame(rows)


def _mean_step(steps: np.ndarray) -> np.ndarray:
    """Mean, low and high on the scale of log(step + 25), as steps; the ends are NaN below two."""
    return np.exp(np.array(interval_or_nan(np.log(steps + OFFSET)))) - OFFSET


def array_means(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean and 95 % interval over seeds of the arrays that figures draw: the seeds ``mean``, ``low``, ``high``."""
    drawn = {}
    for key, array in arrays.items():
        place, probe, name = key.rsplit("/", 2)
        if (probe, name) in AVERAGED:
            new, derive = AVERAGED[probe, name]
            drawn[f"{place}/{probe}/{new}"] = derive(array)
    return drawn | arrays_over_seeds(drawn)
