"""Does the flow of a model decide whether it can infer a pair that was never trained?

    python experiments/composite_control.py

The composite study's `quick` at gamma .5, seeds 8 to 15, with its control that trains neither (3,4) nor (4,3). Of each
member and of its control: the flow, by interchange, and the shares of answers to (4,3). The prediction stands in
docs/results_composite.md and was written before any of these members was read. Rows go to
``results/composite_control.csv``; the run is ``runs/composite_control`` and continues where it was stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import rb_interp as rb
from rb_interp.runs.members import MemberModels
from rb_interp.studies.composite.flow import flow_of, read_interchange
from rb_interp.studies.composite.phase import phase_of, read_control, read_phase

TABLE = Path(__file__).parents[1] / "results/composite_control.csv"
FOLDER = Path("runs/composite_control")
SHARES = {"key:ks_pb": "key_gives_ks_pb", "last:kb_ps": "last_gives_kb_ps", "a1+a2:source": "anchors_give_source"}
"""What the names of flows rest on: shares of interchange, and their columns."""


def flow(models: MemberModels, data: Any) -> dict[str, Any]:
    """The flow of the member that is loaded, and the shares behind its name."""
    values = read_interchange(models.model, data).values
    return {"flow": flow_of(values)} | {column: values[share] for share, column in SHARES.items()}


def read(run: rb.Run) -> pd.DataFrame:
    """One row for each member with the exception, and one for its control."""
    main, control, rows = run.sweep(), run.sweep("both_unseen"), []
    models, controls = MemberModels(main), MemberModels(control)
    for member in control.sound_members:
        models.load(member, "final")
        controls.load(member, "final")
        data, control_data = main.dataset(member.seed), control.dataset(member.seed)
        values = read_phase(models.model, data, untrained=models.untrained).values
        phase = phase_of(values["acc_seen_test"], values["I"], values["S"])
        place = {"gamma": member.gamma, "seed": member.seed}
        rows.append(place | {"sweep": "main", "phase": phase, "I": values["I"], "S": values["S"]} | flow(models, data))
        values = read_control(controls.model, control_data, data).values
        rows.append(place | {"sweep": "both_unseen", "I": values["I"], "S": values["S"]} | flow(controls, control_data))
    return pd.DataFrame(rows)


if __name__ == "__main__":
    study = rb.study("composite")
    run = rb.Run.start(FOLDER, study, study.preset("quick", gammas=(0.5,), seeds=tuple(range(8, 16))))
    run.train()
    found = read(run)
    found.to_csv(TABLE, index=False, float_format="%.4g")
    print(found.to_string(index=False))
