"""Small tables of runs of the language study with facts: members at the end, and verdicts.

    python experiments/language_tables.py language_facts_16 RUN ...
    python experiments/language_tables.py language_facts RUN ...

Writes ``results/NAME.csv``, a line a member: losses of rules, whole chains by steps, steps at which
.3, .5 and .7 of facts and rules are learned, with the ratio's two ends, and gaps where rows were
repeated; ``results/NAME_readings.parquet``, what claims read of it; and
``results/NAME_verdicts.csv``, the claims, judged on all seeds at once. Members of other seeds stay in
the tables, so runs can be added as they end. Whether the sign is one at all numbers of facts (G4n) is
read from NAME and each NAME_N, runs of another number of facts, which come first.

Of runs beside stories it writes ``results/NAME.csv`` alone: losses and whole chains at the end, Delta L,
and the step at which half of the rules are learned.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from join_runs import joined, judged

import rb_interp as rb
from rb_interp.statistics.decisive import same_sign, time_to

RESULTS = Path(__file__).parents[1] / "results"
MEMBER = ["gamma", "seed"]
SKILLS = ["chain_1", "chain_2", "chain_3", "chain_more", "knows_fact", "follows_prompt"]
PROBES = ["reasoning", "decisive", "corpus_loss", "token_similarity"]
OF_CORPORA = ["delta_loss", "delta_loss_per_entropy", "delta_final"]
RULES = 6
"""Different rules of a prompt; a copier guesses among them."""


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


def beside_stories(runs: Sequence[rb.Run]) -> pd.DataFrame:
    curves, skills = (
        joined(runs, name).sort_values([*MEMBER, "step"]) for name in ("curves", "skills")
    )
    end = curves.query("step == step.max() and set in ('rule', 'stop', 'stories_test')")
    chains = skills.query("step == step.max() and accuracy_of == 'chain'")
    corpora = joined(runs, "readings").query("stage == 'final' and quantity in @OF_CORPORA")
    table = end.pivot_table("loss", MEMBER, "set").add_prefix("loss_")
    table = table.join(corpora.pivot_table("value", MEMBER, "quantity"))
    table = table.join(chains.pivot_table("accuracy", MEMBER, "hops").add_prefix("chain_"))
    times = {
        member: time_to(rule["loss"], rule["step"].to_numpy(), math.log(RULES), 0.5)[0]
        for member, rule in curves.query("set == 'rule'").groupby(MEMBER)
    }
    return table.round(3).assign(t_rule_50=pd.Series(times).round().astype(int)).reset_index()


def with_earlier(earlier: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The table with the members of other seeds that stand in the earlier one."""
    others = earlier[~earlier["seed"].isin(table["seed"])]
    return pd.concat([others, table], ignore_index=True).sort_values(MEMBER, kind="stable")


def with_signs(readings: pd.DataFrame, counts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The readings with a row for each seed of whether the sign is one, with those of runs of other
    numbers of facts."""
    if not counts:
        return readings
    readings = readings[readings["quantity"] != "same_sign"]
    main = "probe == 'decisive' and sweep == ''"
    signs = same_sign([table.query(main) for table in (readings, *counts)])
    labels = {"sweep": "", "stage": "final", "set": "", "probe": "decisive"}
    labels |= {"quantity": "same_sign", "n": 1 + len(counts), "reached": True}
    rows = [{**labels, "seed": seed, "value": value} for seed, value in signs.items()]
    return pd.concat([readings, pd.DataFrame(rows)], ignore_index=True)


def main(name: str, *folders: str) -> None:
    runs = [rb.Run.open(folder) for folder in folders]
    if not runs[0].config.reads_facts:
        beside_stories(runs).to_csv(RESULTS / f"{name}.csv", index=False)
        return
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
    of_facts = verdicts["id"].str[1].astype(int) > 3
    verdicts[of_facts | (verdicts["n_seeds"] > 0)].to_csv(
        RESULTS / f"{name}_verdicts.csv", index=False
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
