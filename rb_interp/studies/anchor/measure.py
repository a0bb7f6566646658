"""Measure a trained run, once: probes, then interventions and answers by circuit, then what
happened when.

docs/tables.md has the tables with their columns. Arrays are
``{gamma}/{seed}/{stage}/{set}/{probe}/{array}``, of the first head of the layer that the paper
speaks of.

Equivalence: are two circuits two mechanisms? What do members of each answer to the same rows, some
unlike any they learned?

At gamma .8, final, on rows of `tasks.batteries`. With d_ab the share of rows that members a and b
answer differently (argmax), a seed's reading ``equivalence/<battery>`` is its mean over partners of
other circuits less its mean over partners of its own; NaN where it has no partner of one kind. The
permutation test over members and the means over pairs are those of `statistics.nulls`. Members
named ``none`` take no part, since they learned nothing. ``mixed`` counts as a circuit like the
others.

How equivalence can mislead. Untrained models read about 0 too, at or near the bound of Q1, since
their later circuit says nothing of their answers: read the accuracy beside it. A circuit whose
members all fail on a battery, each in its own way, has a disagreement within itself that is as
large as that with others. Its seeds then read about 0, although the other circuit answers rightly:
look at the means of each circuit. ``mixed`` means that no rule fits; two such members need share
nothing.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.interventions.circuits import CAUSES
from rb_interp.interventions.edits import most_likely
from rb_interp.runs.member_models import MemberModels, each_member
from rb_interp.runs.results import StudyResult, frame, readings_table
from rb_interp.runs.run import Run
from rb_interp.settings import SMALL
from rb_interp.statistics.disagreement import (
    between_less_within,
    disagreement,
    excess_disagreement,
    pair_means,
)
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.studies.anchor.causes import measure_causes
from rb_interp.studies.anchor.circuits import CIRCUITS, circuit_of_seed, circuit_table
from rb_interp.studies.anchor.dynamics import dynamics, order_table
from rb_interp.studies.anchor.readings import read_members
from rb_interp.tasks import Battery, batteries
from rb_interp.theory._lemma_1 import lemma_1
from rb_interp.training.member_group import Member


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Probe all members of a finished run, intervene on them, and date what happened when.

    Raises RunError where a checkpoint that a stage needs is missing or broken.
    """
    config: Any = run.config
    data = {seed: run.sweep().dataset(seed) for seed in run.sweep().seeds}
    (
        order,
        *fixed,
        # members whose L0 attends 1/i throughout training are read by their learning curves alone
    ) = (
        readings_table(
            learning_order_of(run.sweep(name).curves(), config.task.d_vocab, data), sweep=name
        )
        for name in run.sweeps
    )
    found = read_members(run, progress)
    lemma = [
        lemma_1(config.model, config.task, gamma, n_init=config.n_init) for gamma in config.gammas
    ]
    circuits = circuit_table(readings_table(found.readings, order))
    causes, equal = (
        measure_causes(run, circuits, progress),
        measure_equivalence(run, circuits, progress),
    )
    moved = dynamics(run, progress)
    tables = {"circuits": circuits, **causes.tables, **equal.tables, **moved.tables}
    tables |= summaries(circuits, tables["events"])
    readings = readings_table(
        found.readings, *lemma, order, causes.readings, equal.readings, *fixed
    )
    return StudyResult(readings, tables, found.arrays)


def summaries(circuits: pd.DataFrame, events: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """How often each circuit was learned, and the order of events by circuit."""
    by_cause = circuits[["gamma", "seed"]].assign(circuit=circuits["cause"])
    return {
        "circuit_counts": circuit_counts(circuits),
        "event_order": order_table(events, by_cause),
    }


NAMED_BY = {"cause": ("cause", CAUSES), "attention": ("circuit", CIRCUITS)}
"""How a circuit is named -> the column of ``circuits`` with that name, and the names that there
are."""


def circuit_counts(circuits: pd.DataFrame) -> pd.DataFrame:
    """How many seeds learned each circuit at each gamma, by cause and by attention, with
    Clopper-Pearson intervals."""
    rows = []
    for gamma, members in circuits.groupby("gamma", sort=True):
        for named_by, (column, known) in NAMED_BY.items():
            for name in (*known, *sorted({*circuits[column]} - {*known})):
                n, total = int(np.sum(members[column] == name)), len(members)
                rows.append((gamma, named_by, name, n, total, *proportion_interval(n, total)))
    return pd.DataFrame(
        rows, columns=["gamma", "named_by", "circuit", "n", "total", "share", "low", "high"]
    )


Answers = Mapping[int, Int[np.ndarray, " row"]]
"""Seed -> answer of its member to each row of one battery."""

COLUMNS = {
    "disagreement": "battery:str gamma seed_a:int seed_b:int circuit_a:str circuit_b:str disagreement n",
    "disagreement_means": "battery:str gamma circuit_a:str circuit_b:str mean smallest largest n",
    "equivalence": (
        "battery:str gamma groups:str within between difference p_value n_relabelings:int "
        "exact:bool n_members:int"
    ),
    "battery_accuracy": "battery:str gamma seed circuit:str accuracy second_accuracy n",
}
"""Table -> its columns."""


def measure_equivalence(run: Run, circuits: pd.DataFrame, progress: bool = True) -> StudyResult:
    """Let every member at gamma .8 answer the battery, trained and untrained; empty where the run
    has none."""
    sweep, names, step = run.sweep(), circuit_of_seed(circuits), 0
    members = [member for member in sweep.sound_members if member.gamma == SMALL]
    battery = batteries(sweep.config.task) if members else {}
    answers, before = ({name: {} for name in battery} for _ in range(2))

    def answer(models: MemberModels, member: Member) -> tuple[int, dict[str, list[np.ndarray]]]:
        last = models.load(member, "final").step
        both = models.model, models.untrained
        given = {
            name: [most_likely(model, rows.inputs.tokens) for model in both]
            for name, rows in battery.items()
        }
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
) -> StudyResult:
    """Readings and tables of answers that were given.

    Args:
        battery: rows by name. answers, untrained: by the same names, of the members at the end and
            at step 0.
        names: seed -> circuit. step: the last one.
    """
    found: dict[str, list] = {
        name: [] for name in ("disagreement", "disagreement_means", "equivalence")
    }
    found |= {"battery_accuracy": [], "readings": []}
    for name, rows in battery.items():
        place = {"battery": name, "gamma": SMALL}
        named = [seed for seed in answers[name] if names[seed] != "none"]
        groups = [names[seed] for seed in named]
        d, d_before = (
            disagreement(np.array([given[name][seed] for seed in named]))
            if named
            else np.zeros((0, 0))
            for given in (answers, untrained)
        )
        found["disagreement"] += [
            {
                **place,
                "seed_a": named[a],
                "seed_b": named[b],
                "circuit_a": groups[a],
                "circuit_b": groups[b],
                "disagreement": d[a, b],
                "n": len(rows.inputs),
            }
            for a, b in combinations(range(len(named)), 2)
        ]
        found["disagreement_means"] += [
            {
                **place,
                "circuit_a": a,
                "circuit_b": b,
                "mean": values.mean(),
                "smallest": values.min(),
                "largest": values.max(),
                "n": len(values),
            }
            for (a, b), values in pair_means(d, groups).items()
        ]
        counts = ", ".join(f"{circuit} {groups.count(circuit)}" for circuit in sorted({*groups}))
        tested = between_less_within(d, groups)._asdict()
        found["equivalence"].append({**place, "groups": counts, **tested, "n_members": len(groups)})
        found["battery_accuracy"] += [
            {
                **place,
                "seed": seed,
                "circuit": names[seed],
                "accuracy": (given == rows.inputs.labels).mean(),
                "second_accuracy": np.nan if rows.second is None else (given == rows.second).mean(),
                "n": len(rows.inputs),
            }
            for seed, given in answers[name].items()
        ]
        value, at_start = (
            dict(zip(named, excess_disagreement(m, groups), strict=True)) for m in (d, d_before)
        )
        about = {
            "gamma": SMALL,
            "stage": "final",
            "step": step,
            "set": "",
            "probe": "equivalence",
            "quantity": name,
        }
        about |= {
            "layer": np.nan,
            "head": np.nan,
            "null": None,
            "null_mean": np.nan,
            "null_sd": np.nan,
        }
        about |= {"p_value": np.nan, "n": len(rows.inputs)}
        found["readings"] += [
            {
                **about,
                "seed": s,
                "value": value.get(s, np.nan),
                "untrained": at_start.get(s, np.nan),
            }
            for s in answers[name]
        ]
    readings = found.pop("readings")
    return StudyResult(
        readings_table(readings), {name: frame(rows, COLUMNS[name]) for name, rows in found.items()}
    )
