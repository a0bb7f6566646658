"""Measure a trained run, once: probes, interventions, dynamics, and every statistic over seeds that anything shows.

docs/tables.md has the tables with their columns. In all of them n counts the seeds with a finite value, low and high
are the ends of a 95 % Student t interval and NaN below two seeds. Arrays are
``{gamma}/{seed}/{stage}/{set}/{probe}/{array}``; those whose means over seeds are drawn also stand under the seeds
``mean``, ``low`` and ``high``:

    uniformity/tv_per_row, geometry/cos_reasoning_matrix
    value_alignment/relative_singular_values    s_k / s_1
    value_alignment/abs_leading_cosines         |cos(u1, token)|, in the order of value_alignment/tokens

Equivalence: are two circuits two mechanisms? What do members of each answer to the same rows, some unlike any they
learned?

At gamma .8, final, on rows of `tasks.batteries`. With d_ab the share of rows that members a and b answer differently
(argmax), a seed's reading ``equivalence/<battery>`` is its mean over partners of other circuits less its mean over
partners of its own; NaN where it has no partner of one kind. The permutation test over members and the means over pairs
are those of `statistics.nulls`. Members named ``none`` take no part, since they learned nothing. ``mixed``
counts as a circuit like the others.

How equivalence can mislead. Untrained models read about 0 too, at or near the bound of Q1, since their later circuit
says nothing of their answers: read the accuracy beside it. A circuit whose members all fail on a battery, each in its
own way, has a disagreement within itself that is as large as that with others. Its seeds then read about 0, although
the other circuit answers rightly: look at the means of each circuit. ``mixed`` means that no rule fits; two such
members need share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.interventions.circuits import CAUSES
from rb_interp.interventions.sites import most_likely
from rb_interp.runs.measured import Measured, ablation_means, arrays_over_seeds, curves_summary, frame, readings_table
from rb_interp.runs.members import MemberModels, each_member
from rb_interp.runs.run import Run
from rb_interp.settings import SMALL
from rb_interp.statistics.intervals import interval_or_nan, over_seeds, proportion_interval
from rb_interp.statistics.learning_order import label_entropy, learning_order_table
from rb_interp.statistics.nulls import between_less_within, disagreement, excess_disagreement, pair_means
from rb_interp.studies.anchor.causes import measure_causes
from rb_interp.studies.anchor.circuits import CIRCUITS, circuit_of_seed, circuit_table
from rb_interp.studies.anchor.config import FIXED
from rb_interp.studies.anchor.dynamics import OFFSET, dynamics, order_table, own_signs
from rb_interp.studies.anchor.readings import read_members
from rb_interp.tasks import SETS, Battery, batteries
from rb_interp.training.member_group import Member


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


Answers = Mapping[int, Int[np.ndarray, " row"]]
"""Seed -> answer of its member to each row of one battery."""

COLUMNS = {
    "disagreement": "battery:str gamma seed_a:int seed_b:int circuit_a:str circuit_b:str disagreement n",
    "disagreement_means": "battery:str gamma circuit_a:str circuit_b:str mean smallest largest n",
    "equivalence": (
        "battery:str gamma groups:str within between difference p_value n_relabelings:int exact:bool n_members:int"
    ),
    "battery_accuracy": "battery:str gamma seed circuit:str accuracy second_accuracy n",
}
"""Table -> its columns."""


@dataclass(frozen=True, eq=False)
class Equivalence:
    """What members answer to the battery; the columns stand in COLUMNS and docs/tables.md.

    Attributes:
        readings: rows of readings, one a member and battery.
        tables: ``disagreement``, ``disagreement_means``, ``equivalence`` and ``battery_accuracy``.
    """

    readings: list[dict[str, Any]]
    tables: dict[str, pd.DataFrame]


def measure_equivalence(run: Run, circuits: pd.DataFrame, progress: bool = True) -> Equivalence:
    """Let every member at gamma .8 answer the battery, trained and untrained; empty where the run has none.

    Args:
        run: a finished run. circuits: the table of that name.

    Raises RunError where a checkpoint is missing or broken.
    """
    config: Any = run.config
    sweep, names, step = run.sweep(), circuit_of_seed(circuits), 0
    members = [member for member in sweep.sound_members if member.gamma == SMALL]
    battery = batteries(config.task) if members else {}
    answers, before = ({name: {} for name in battery} for _ in range(2))

    def answer(models: MemberModels, member: Member) -> tuple[int, dict[str, list[np.ndarray]]]:
        last = models.load(member, "final").step
        both = models.model, models.untrained
        given = {name: [most_likely(model, rows.inputs.tokens) for model in both] for name, rows in battery.items()}
        return last, given

    found = each_member(sweep, members, answer, progress=progress, desc="battery")
    for member, (last, given) in zip(members, found, strict=True):
        step = last
        for name in battery:
            answers[name][member.seed], before[name][member.seed] = given[name]
    return compare(battery, answers, before, names, step)


def compare(
    battery: Mapping[str, Battery],
    answers: Mapping[str, Answers],
    untrained: Mapping[str, Answers],
    names: Mapping[int, str],
    step: int,
) -> Equivalence:
    """Readings and tables of answers that were given.

    Args:
        battery: rows by name. answers, untrained: by the same names, of the members at the end and at step 0.
        names: seed -> circuit. step: the last one.
    """
    found: dict[str, list] = {name: [] for name in ("disagreement", "disagreement_means", "equivalence")}
    found |= {"battery_accuracy": [], "readings": []}
    for name, rows in battery.items():
        place = {"battery": name, "gamma": SMALL}
        named = [seed for seed in answers[name] if names[seed] != "none"]
        groups = [names[seed] for seed in named]
        d, d_before = (
            disagreement(np.array([given[name][seed] for seed in named])) if named else np.zeros((0, 0))
            for given in (answers, untrained)
        )
        found["disagreement"] += [
            {**place, "seed_a": named[a], "seed_b": named[b], "circuit_a": groups[a], "circuit_b": groups[b],
             "disagreement": d[a, b], "n": len(rows.inputs)}
            for a, b in combinations(range(len(named)), 2)
        ]  # fmt: skip
        found["disagreement_means"] += [
            {**place, "circuit_a": a, "circuit_b": b, "mean": values.mean(), "smallest": values.min(),
             "largest": values.max(), "n": len(values)}
            for (a, b), values in pair_means(d, groups).items()
        ]  # fmt: skip
        counts = ", ".join(f"{circuit} {groups.count(circuit)}" for circuit in sorted({*groups}))
        tested = between_less_within(d, groups)._asdict()
        found["equivalence"].append({**place, "groups": counts, **tested, "n_members": len(groups)})
        found["battery_accuracy"] += [
            {**place, "seed": seed, "circuit": names[seed], **_accuracy(rows, given), "n": len(rows.inputs)}
            for seed, given in answers[name].items()
        ]
        value, at_start = (dict(zip(named, excess_disagreement(m, groups), strict=True)) for m in (d, d_before))
        about = {"gamma": SMALL, "stage": "final", "step": step, "set": "", "probe": "equivalence", "quantity": name}
        about |= {"layer": np.nan, "head": np.nan, "null": None, "null_mean": np.nan, "null_sd": np.nan}
        about |= {"p_value": np.nan, "n": len(rows.inputs)}
        found["readings"] += [
            {**about, "seed": s, "value": value.get(s, np.nan), "untrained": at_start.get(s, np.nan)}
            for s in answers[name]
        ]
    readings = found.pop("readings")
    return Equivalence(readings, {name: frame(rows, COLUMNS[name]) for name, rows in found.items()})


def _accuracy(rows: Battery, answers: np.ndarray) -> dict[str, float]:
    right = {"accuracy": rows.inputs.labels, "second_accuracy": rows.second}
    return {name: np.nan if labels is None else float((answers == labels).mean()) for name, labels in right.items()}
