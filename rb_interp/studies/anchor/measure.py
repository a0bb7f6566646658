"""Measure a trained run, once: probes, interventions, dynamics, and every statistic over seeds that anything shows.

Readings are one row per member, stage, set, probe and quantity (docs/tables.md). Means over seeds of readings stand in
the table ``summary``, which every study has. The other tables, with their columns:

    circuits            gamma, seed, circuit (by attention), cause (by cause), the numbers of the first name (tv_half,
                        key_attention, anchor_attention, carry, accuracy) and the shares of the second
    circuit_counts      gamma, named_by (cause, attention), circuit, n, total, share, low, high: the named circuits in a
                        fixed order, zeros included, then any other; share of seeds with its Clopper-Pearson interval
    circuit_disagreement    gamma, n (seeds with two different names), total, share, low, high
    effects             one row per member, stage and intervention: gamma, seed, stage, step, set, intervention,
                        quantity (its unit), effect, low, high, control, control_low, control_high, difference, n
    effects_summary     gamma, stage, set, intervention, quantity (effect, control, difference), mean, low, high, n
    ablations           gamma, seed, stage, set, component, method, accuracy, accuracy_drop, loss_increase,
                        control_accuracy_drop, control_loss_increase, n
    ablations_summary   gamma, stage, set, component, method, quantity (accuracy, accuracy_drop, control_accuracy_drop,
                        before: accuracy of the whole model), mean, low, high, n
    patching            gamma, seed, stage, counterfactual, component, layer, role, recovered, low, high, control, n
    patching_summary    gamma, stage, circuit, counterfactual, component, layer, role, quantity (recovered, control),
                        mean, low, high, n; circuit "" is of all members, further rows are of the members of one circuit
                        by cause
    patching_circuits   gamma, stage, circuit, n (seeds)
    patching_controls   gamma, stage, largest: largest |control| of any cell of any member
    dynamics            gamma, seed, step, quantity, value: each mechanism's sign at each checkpoint
    checkpoints         gamma, step, every_seed: whether every seed of the gamma was kept there
    events              gamma, seed, event, event_of (loss, mechanism), step (nan: never), censored
    events_summary      gamma, event, event_of, n (members), n_start (met at step 0 already), n_never, n_during (the
                        rest), mean, low, high (steps, of the rest: mean and interval of log(step + 25)), mean_reached
                        (with those from the start)
    event_order         `dynamics.order_table` by circuit, named by cause: gamma, circuit, mechanism, loss, n, n_both,
                        n_first, n_after,
                        log2_ratio, low, high, n_never, n_loss_never
    own_signs           gamma, n (members whose circuit has a sign of its own), n_first (that sign came before the
                        loss on rsn_train was halved)
    disagreement, disagreement_means, equivalence, battery_accuracy      see ``equivalence`` and docs/tables.md
    curves_summary      sweep, gamma, step, set, quantity (loss, accuracy), mean, low, high, n

In all of them n counts the seeds with a finite value, low and high are the ends of a 95 % Student t interval and NaN
below two seeds. Arrays are ``{gamma}/{seed}/{stage}/{set}/{probe}/{array}``; those whose means over seeds are drawn
also stand under the seeds ``mean``, ``low`` and ``high``:

    uniformity/tv_per_row, geometry/cos_reasoning_matrix
    value_alignment/relative_singular_values    s_k / s_1
    value_alignment/abs_leading_cosines         |cos(u1, token)|, in the order of value_alignment/tokens
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from rb_interp.runs.measured import Measured, readings_table
from rb_interp.runs.run import Run
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.learning_order import label_entropy, learning_order_table
from rb_interp.studies.anchor.causes import measure_causes
from rb_interp.studies.anchor.circuits import circuit_table
from rb_interp.studies.anchor.config import FIXED
from rb_interp.studies.anchor.dynamics import dynamics
from rb_interp.studies.anchor.equivalence import measure_equivalence
from rb_interp.studies.anchor.readings import read_members
from rb_interp.studies.anchor.summaries import array_means, summaries
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
    fixed = [_fixed_average(run.sweep(FIXED), entropies)] if FIXED in run.sweeps else []
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


def _fixed_average(sweep: Sweep, entropies: Mapping[tuple[int, str], float]) -> pd.DataFrame:
    """What the members learn whose L0 attends 1/i throughout training: readings of their learning curves."""
    order = learning_order_table(sweep.curves(), sweep.config.task.d_vocab, entropies)
    return readings_table(order, sweep=FIXED)
