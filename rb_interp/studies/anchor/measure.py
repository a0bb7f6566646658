"""Measure a trained run, once: probes, then interventions and answers by circuit, then dynamics.

docs/tables.md has the tables with their columns. Arrays are
``{gamma}/{seed}/{stage}/{set}/{probe}/{array}``, of the first head of the layer that the paper
speaks of.
"""

from typing import Any

import pandas as pd

from rb_interp.interventions.circuits import CAUSES
from rb_interp.runs.results import StudyResult, frame, readings_table
from rb_interp.runs.run import Run
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.studies.anchor.causes import measure_causes
from rb_interp.studies.anchor.circuits import CIRCUITS, circuit_table
from rb_interp.studies.anchor.dynamics import dynamics, order_table
from rb_interp.studies.anchor.equivalence import measure_equivalence
from rb_interp.studies.anchor.readings import read_members
from rb_interp.theory.theorem_1 import lemma_1

NAMED_BY = {"cause": ("cause", CAUSES), "attention": ("circuit", CIRCUITS)}
"""How a circuit is named -> the column of ``circuits`` with that name, and the known names."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Probe all members of a finished run, intervene on them, and date what happened when.

    Raises RunError if a checkpoint that a stage needs is missing or broken.
    """
    config: Any = run.config
    main = run.sweep()
    data = {seed: main.dataset(seed) for seed in main.seeds}
    orders = []  # members whose L0 attends 1/i throughout are read by their learning curves alone
    for name in run.sweeps:
        order = learning_order_of(run.sweep(name).curves(), config.task.d_vocab, data)
        orders.append(readings_table(order, sweep=name))
    lemma = []
    for gamma in config.gammas:
        lemma.append(lemma_1(config.model, config.task, gamma, n_init=config.n_init))
    probed = read_members(run, progress)
    circuits = circuit_table(readings_table(probed.readings, orders[0]))
    causes = measure_causes(run, circuits, progress)
    equivalence = measure_equivalence(run, circuits, progress)
    changes = dynamics(run, progress)
    readings = readings_table(
        probed.readings, *lemma, orders[0], causes.readings, equivalence.readings, *orders[1:]
    )
    tables = {"circuits": circuits, **causes.tables, **equivalence.tables, **changes.tables}
    tables["circuit_counts"] = circuit_counts(circuits)
    by_cause = circuits[["gamma", "seed"]].assign(circuit=circuits["cause"])
    tables["event_order"] = order_table(changes.tables["events"], by_cause)
    return StudyResult(readings, tables, probed.arrays)


def circuit_counts(circuits: pd.DataFrame) -> pd.DataFrame:
    """How many seeds learned each circuit at each gamma, by cause and by attention.

    The intervals are Clopper-Pearson's.
    """
    rows = []
    for gamma, members in circuits.groupby("gamma", sort=True):
        for named_by, (column, known) in NAMED_BY.items():
            others = sorted(set(circuits[column]) - set(known))
            total = len(members)
            for name in (*known, *others):
                n = members[column].to_list().count(name)
                rows.append((gamma, named_by, name, n, total, *proportion_interval(n, total)))
    return frame(rows, "gamma named_by:str circuit:str n total:int share low high")
