"""By which routes do key and anchors travel while the rule is learned?

    python experiments/routes_over_training.py RUN ...

Reads runs of the anchor study and adds a line for each member and kept step, from the stage ``half``
on, to ``results/routes_over_training.csv``: accuracies there, the name by cause (``none`` where too few
rows are answered), the routes of ``interventions.circuits.anchor_routes`` on trained rows with the rows
that counted for the key, and L0's distance from uniform attention (TV). Lines of members that a run
has are written anew.
"""

import sys
from pathlib import Path

import pandas as pd

import rb_interp as rb
from rb_interp import probes
from rb_interp.interventions.circuits import SHARES, anchor_routes, circuit_by_cause
from rb_interp.runs.measurement import MemberModels

TABLE = Path(__file__).parents[1] / "results/routes_over_training.csv"
SET = "rsn_train"


def read(run: rb.Run) -> pd.DataFrame:
    sweep, rows = run.sweep(), []
    curves = sweep.curves().pivot_table(
        index=["gamma", "seed", "step"], columns="set", values="accuracy"
    )
    half, reached = sweep.stage_steps("half"), sweep.reached("half")
    models = MemberModels(sweep)
    for member in sweep.sound_members:
        data = sweep.dataset(member.seed)
        inputs = data.inputs(data.sample(SET, run.config.probe_rows))
        later = [step for step in sweep.checkpoint_steps if step > half[member]]
        for stage in ("half", *later):
            models.load(member, stage)
            right = curves.loc[(member.gamma, member.seed, models.step)]
            routes = anchor_routes(models.model, data, set=SET, n=run.config.probe_rows).values
            row = {"gamma": member.gamma, "seed": member.seed, "step": models.step}
            row["stage"] = "half" if stage == "half" and reached[member] else "later"
            row |= right[["rsn_train", "rsn_test", "mem"]].to_dict()
            row["rows"] = int(routes["key:rows"])
            row["cause"] = circuit_by_cause(routes, right[SET])
            row |= {column: routes[quantity] for column, quantity in SHARES.items()}
            row["tv"] = probes.uniformity(models.model, inputs, layer=0).values["tv"]
            rows.append(row)
        print(f"gamma {member.gamma:g}, seed {member.seed}", flush=True)
    return pd.DataFrame(rows)


def main(*folders: str) -> None:
    for folder in folders:
        table = read(rb.Run.open(folder))
        if TABLE.is_file():
            known = pd.read_csv(TABLE)
            members = pd.MultiIndex.from_frame(table[["gamma", "seed"]])
            again = pd.MultiIndex.from_frame(known[["gamma", "seed"]]).isin(members)
            table = pd.concat([known[~again], table])
        table = table.sort_values(["gamma", "seed", "step"])
        table.round(4).to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
