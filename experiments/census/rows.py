"""The census: a row for each trained member of a folder of jobs.

    python experiments/census/rows.py runs/map results/census/map.parquet

Reads the runs of finished jobs that the table lacks, and writes the table after each, so it may be
stopped, and called again while jobs run. Then a run's checkpoints may go.

A member is read at the stage ``settled``: 1,000 steps after .999 of its reasoning rows are right,
or at the last step; those of a sweep without ``stop_at`` are named at both. TV of L0 and what W_V
is aligned with are read at ``half``, TV of members that came to it alone. A member whose weights do
not stay finite has no circuit. ``bias`` is over all steps; where a whole stack had stopped, over
curves that stay as they were then. Accuracies and losses are means of the last ten evaluations
until a member is read; ``loss_1000`` is the training loss at step 1,000, which every member has. In
the factorial ``gamma`` means nothing, and ``gammas.*`` decide. ``half_step`` is missing where a
member never came to ``half``. Sweeps without ``stop_at`` have ``loss_at_end`` too, the training
loss of the last ten evaluations.
``command`` trains the members of a row's job again, to the same bits on the same kind of processor;
the table is called as the sweep's file.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rb_interp import interventions as iv
from rb_interp import probes
from rb_interp.interventions.circuits import anchor_routes, circuit_by_cause
from rb_interp.runs import Run
from rb_interp.runs.jobs import JobFolder
from rb_interp.runs.measurement import MemberModels, map_members
from rb_interp.runs.sweep import Sweep
from rb_interp.settings import flat, plain
from rb_interp.statistics.equal_loss import equal_loss_table
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.store import write_file
from rb_interp.studies.anchor.circuits import ROUTES, name_circuit
from rb_interp.tasks.anchor import AnchorDataset
from rb_interp.training.member_group import Member

SET = "rsn_train"
N = 500
"""Rows that a member is read on, at most."""
LAST = 10
"""Evaluations before a member is read."""
SETTINGS = [
    "model.norm",
    "train.lr",
    "train.optimiser",
    "train.weight_decay",
    "train.eps",
    "train.batch_size",
    *(f"model.gammas.{group}" for group in ("embedding", "qk", "vo", "mlp", "unembedding")),
]
OF_CURVES = ["bias", "bias_test", "half_step", "gap_3", "gap_2.65", "acc_gap_3", "acc_gap_2.65"]
OF_VALUES = ["spectrum_ratio", "cos_reasoning_anchor", "cos_memory_anchor", "cos_key"]
NUMBERS = ("tv_half", "key_attention", "anchor_attention", "carry")
"""What the name by attention reads, beside the accuracy."""
SITES = ["attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1"]


def read_member(models: MemberModels, member: Member) -> dict[str, Any]:
    """What is read of a member's weights, and its circuit's two names less its accuracy."""
    data = models.sweep.dataset(member.seed)
    inputs = data.inputs(data.sample(SET, N))
    models.load(member, "half")
    row: dict[str, Any] = {"tv_half": float("nan")}
    if models.sweep.reached("half")[member]:
        row["tv_half"] = probes.uniformity(models.model, inputs, layer=0, n_null=0).values["tv"]
    values = probes.value_alignment(models.model, inputs, layer=0, n_null=0).values
    row |= {name: values[name] for name in OF_VALUES}
    models.load(member, "settled")
    attention = probes.attention_by_role(models.model, inputs, layer=1, n_null=0).values
    to_key = probes.attention_to_key(models.model, inputs, layer=0, n_null=0).values
    row["key_attention"] = attention["key"]
    row["anchor_attention"] = attention["anchors"]
    row["carry"] = to_key["key_from_last_anchor"]
    row |= routes(models, data)
    losses = iv.ablations(models.model, inputs, SITES, methods=["mean"])
    largest = losses.loc[losses["accuracy_drop"].idxmax()]
    row["largest_ablation"] = largest["component"]
    row["accuracy_lost"] = largest["accuracy_drop"]
    if not models.sweep.config.train.stop_at:
        models.load(member, "final")
        row |= {f"{column}_at_end": share for column, share in routes(models, data).items()}
    return row


def routes(models: MemberModels, data: AnchorDataset) -> dict[str, float]:
    """The shares that name a circuit by cause, of the member that is loaded."""
    shares = anchor_routes(models.model, data, set=SET, n=N).values
    return {column: shares.get(term.quantity, float("nan")) for column, term in ROUTES.items()}


def read_curves(sweep: Sweep) -> pd.DataFrame:
    """Gamma, seed, and what the learning curves of a member say."""
    curves = sweep.curves()
    data = {seed: sweep.dataset(seed) for seed in sweep.seeds}
    tables = [learning_order_of(curves, sweep.config.task.d_vocab, data), equal_loss_table(curves)]
    readings = pd.concat(tables)
    table = readings.pivot_table("value", ["gamma", "seed"], "quantity", dropna=False)
    table = table[OF_CURVES]
    trained = curves[(curves["step"] == 1000) & curves["set"].isin(["mem", SET])]
    table["loss_1000"] = trained.groupby(["gamma", "seed"])["loss"].mean()
    settled = sweep.stage_steps("settled")
    stop = [settled[Member(*key)] for key in zip(curves["gamma"], curves["seed"], strict=True)]
    end = curves[curves["step"] <= stop].groupby(["gamma", "seed", "set"]).tail(LAST)
    means = end.pivot_table(["accuracy", "loss"], ["gamma", "seed"], "set")
    for quantity, set in means:
        table[f"{quantity}_{set}"] = means[quantity, set]
    if not sweep.config.train.stop_at:
        last = curves.groupby(["gamma", "seed", "set"]).tail(LAST)
        means = last.pivot_table(["accuracy", "loss"], ["gamma", "seed"], "set")
        table["loss_at_end"] = (means["loss", "mem"] + means["loss", SET]) / 2
        table[f"accuracy_{SET}_at_end"] = means["accuracy", SET]
    came = sweep.reached("half")
    table["half_step"] = table["half_step"].where([came[Member(*key)] for key in table.index])
    lost = [Member(*key) not in sweep.sound_members for key in table.index]
    of_gaps = [name for name in table if "gap_" in name] + ["loss_1000"]
    table.loc[lost, of_gaps] = np.nan
    return table.reset_index()


def read_run(run: Run, name: str, command: str) -> pd.DataFrame:
    """Rows of all members of a run, those with L0 fixed with their curves alone."""
    tables = []
    for kind, sweep in run.sweeps.items():
        table = read_curves(sweep)
        table.insert(0, "L0", "fixed" if kind else "free")
        stopped = sweep.stage_steps("settled")
        reached = sweep.reached("settled")
        members = [Member(*key) for key in table[["gamma", "seed"]].itertuples(index=False)]
        table["step_settled"] = [stopped[member] for member in members]
        table["settled"] = [reached[member] for member in members]
        if not kind:
            sound = [member for member in members if member in sweep.sound_members]
            weights = map_members(sweep, sound, read_member, desc=name)
            of_member = dict(zip(sound, weights, strict=True))
            rows = pd.DataFrame([of_member.get(member, {}) for member in members])
            table = pd.concat([table, rows], axis=1)
            records = table.to_dict("records")
            table[["circuit", "by_attention"]] = [names(row) for row in records]
            if not sweep.config.train.stop_at:
                table["circuit_at_end"] = [names(row, "_at_end")[0] for row in records]
        tables.append(table)
    settings = flat(plain(run.config))
    for column, setting in enumerate(SETTINGS):
        value = settings.get(setting)
        for table in tables:
            table.insert(column, setting.partition(".")[2], value)
    return pd.concat(tables).assign(run=name, command=command)


def names(row: dict[str, Any], when: str = "") -> tuple[str, str]:
    """The circuit of a member, by cause and by attention; ``when`` ends the names of the shares."""
    read = pd.notna(row.get("largest_ablation"))
    accuracy = row[f"accuracy_{SET}{when}"] if read else float("nan")
    shares = {}
    for column, term in ROUTES.items():
        shares[term.quantity] = row.get(f"{column}{when}", float("nan"))
    numbers = {name: row.get(name, float("nan")) for name in NUMBERS}
    return circuit_by_cause(shares, accuracy), name_circuit(**numbers, accuracy=accuracy)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", type=Path)
    parser.add_argument("table", type=Path)
    options = parser.parse_args()
    folder, sweep = JobFolder(options.jobs), options.table.stem
    table = pd.read_parquet(options.table) if options.table.is_file() else pd.DataFrame()
    for job in folder.jobs:
        if folder.state(job) != "done":
            continue
        make = (
            f"rb-interp sweep experiments/census/{sweep}.toml --print-commands --out runs/{sweep}"
        )
        command = f"{make} && rb-interp sweep job runs/{sweep} {shlex.quote(job.name)}"
        for part in job.parts:
            name = Path(part).name
            if len(table) and name in set(table["run"]):
                continue
            run = Run.open(folder.folder / part)
            table = pd.concat([table, read_run(run, name, command)], ignore_index=True)
            write_file(options.table, table.to_parquet)
    print(f"{options.table}: {len(table)} members")


if __name__ == "__main__":
    main()
