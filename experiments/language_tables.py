"""Small tables of runs of the language study with facts: members at the end, and verdicts.

    python experiments/language_tables.py language_facts_16 RUN ...
    python experiments/language_tables.py language_facts RUN ...

Writes ``results/NAME.csv``, a line a member: losses of rules, whole chains by steps, steps at which
.3, .5 and .7 of facts and rules are learned, with the ratio's two ends, and gaps where rows were
repeated; ``results/NAME_readings.parquet``, what claims from G4 on read of it; and
``results/NAME_verdicts.csv``, these claims, judged on all seeds at once. Members of other seeds stay in
the tables, so runs can be added as they end. Whether the sign is one at all numbers of facts (G4n) is
read from NAME and each NAME_N, runs of another number of facts, which come first.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from join_runs import joined, judged

import rb_interp as rb
from rb_interp.statistics.decisive import same_sign

RESULTS = Path(__file__).parents[1] / "results"
MEMBER = ["gamma", "seed"]
SKILLS = ["chain_1", "chain_2", "chain_3", "chain_more", "knows_fact", "follows_prompt"]
PROBES = ["reasoning", "decisive"]


def member_table(runs: Sequence[rb.Run], readings: pd.DataFrame) -> pd.DataFrame:
    curves = joined(runs, "curves").query("sweep == ''")
    end = curves[
        (curves["step"] == curves["step"].max()) & curves["set"].isin(["repeated", "rule"])
    ]
    losses = end.pivot_table("loss", MEMBER, "set").add_prefix("loss_")
    final = readings.query("stage == 'final' and sweep == ''")
    values = final.pivot_table("value", MEMBER, "quantity", dropna=False)
    times = [name for name in values if name.startswith("t_")]
    rest = [name for name in values if name.startswith(("gap_", "ratio_"))]
    table = losses.join(values[[*SKILLS, *times, *rest]]).round(3)
    return table.round(dict.fromkeys(times, 0)).astype(dict.fromkeys(times, int)).reset_index()


def with_earlier(earlier: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The table with the members of other seeds that stand in the earlier one."""
    others = earlier[~earlier["seed"].isin(table["seed"])]
    return pd.concat([others, table], ignore_index=True).sort_values(MEMBER, kind="stable")


def with_signs(readings: pd.DataFrame, counts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The readings with a row for each seed of whether the sign is one, with those of runs of other
    numbers of facts."""
    readings = readings[readings["quantity"] != "same_sign"]
    if not counts:
        return readings
    signs = same_sign([table.query("probe == 'decisive'") for table in (readings, *counts)])
    labels = {"sweep": "", "stage": "final", "set": "", "probe": "decisive"}
    labels |= {"quantity": "same_sign", "n": 1 + len(counts), "reached": True}
    rows = [{**labels, "seed": seed, "value": value} for seed, value in signs.items()]
    return pd.concat([readings, pd.DataFrame(rows)], ignore_index=True)


def main(name: str, *folders: str) -> None:
    runs = [rb.Run.open(folder) for folder in folders]
    readings = joined(runs, "readings").query("probe in @PROBES")
    members = member_table(runs, readings)
    of_members, of_readings = RESULTS / f"{name}.csv", RESULTS / f"{name}_readings.parquet"
    if of_members.is_file():
        members = with_earlier(pd.read_csv(of_members), members)
        readings = with_earlier(pd.read_parquet(of_readings), readings)
    counts = sorted(RESULTS.glob(f"{name}_[0-9]*_readings.parquet"))
    readings = with_signs(readings, [pd.read_parquet(path) for path in counts])
    members.to_csv(of_members, index=False)
    readings.to_parquet(of_readings, index=False, compression="zstd")
    verdicts = judged(runs[0], readings)
    later = verdicts["id"].str[1].astype(int) > 3
    verdicts[later].to_csv(RESULTS / f"{name}_verdicts.csv", index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
