"""Small tables of runs of the language study with facts: members at the end, and verdicts.

    python experiments/language_tables.py language_facts RUN ...

Writes ``results/NAME.csv``, a line a member: losses of rules, whole chains by steps, steps at which
.3, .5 and .7 of facts and rules are learned, with the ratio's two ends, and gaps where rows were
repeated; and ``results/NAME_verdicts.csv``, the claims from G4 on, judged on all runs at once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from join_runs import joined, judged

import rb_interp as rb

RESULTS = Path(__file__).parents[1] / "results"
MEMBER = ["gamma", "seed"]
SKILLS = ["chain_1", "chain_2", "chain_3", "chain_more", "knows_fact", "follows_prompt"]


def member_table(runs: Sequence[rb.Run]) -> pd.DataFrame:
    curves = joined(runs, "curves")
    end = curves[
        (curves["step"] == curves["step"].max()) & curves["set"].isin(["repeated", "rule"])
    ]
    losses = end.pivot_table("loss", MEMBER, "set").add_prefix("loss_")
    final = joined(runs, "readings")
    final = final.query("stage == 'final' and probe in ('reasoning', 'decisive')")
    values = final.pivot_table("value", MEMBER, "quantity", dropna=False)
    times = [name for name in values if name.startswith("t_")]
    rest = [name for name in values if name.startswith(("gap_", "ratio_"))]
    table = losses.join(values[[*SKILLS, *times, *rest]]).round(3)
    return table.round(dict.fromkeys(times, 0)).astype(dict.fromkeys(times, int)).reset_index()


def main(name: str, *folders: str) -> None:
    runs = [rb.Run.open(folder) for folder in folders]
    member_table(runs).to_csv(RESULTS / f"{name}.csv", index=False)
    verdicts = judged(runs[0], joined(runs, "readings"))
    later = verdicts["id"].str[1].astype(int) > 3
    verdicts[later].to_csv(RESULTS / f"{name}_verdicts.csv", index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
