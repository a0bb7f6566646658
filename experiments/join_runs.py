"""Tables of runs that differ in seed, gamma or the held-out pair, as of one run.

    python experiments/join_runs.py results/anchor_paper_lr1e-4 RUN RUN ...

Writes curves, readings and circuits of all runs, and the claims judged on all seeds at once, as the
first run's preset adapts them. Claims without a reading are left out. Other members that the folder
has already stay in it, so runs can be added as they end. Of what is read of all gammas of a seed at
once (``lowest_acc_mem``) the lowest stays.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

import pandas as pd

import rb_interp as rb
from rb_interp.claims import judge

TABLES = ("curves", "readings", "circuits")
KEYS = ["sweep", "gamma", "seed", "stage", "step", "set", "probe", "layer", "head", "quantity"]
VERDICT = ["id", "criterion", "outcome", "n_meeting", "n_seeds", "share_low", "share_high"]
VERDICT += ["decided_after", "statistic", "effect", "low", "high", "untrained"]
VERDICT += ["met_at_initialisation", "calibrated", "learned", "reason"]


def joined(runs: Sequence[rb.Run], name: str) -> pd.DataFrame:
    return pd.concat([run.table(name) for run in runs], ignore_index=True)


def judged(first: rb.Run, readings: pd.DataFrame) -> pd.DataFrame:
    standings = {} if first.calibration is None else first.calibration.standings
    claims = map(first.config.adapt_claim, first.study.load("claims"))
    verdicts = judge(readings, claims, standings=standings)
    return pd.DataFrame([asdict(verdict) for verdict in verdicts])[VERDICT].round(4)


def main(folder: str, *runs: str) -> None:
    opened = [rb.Run.open(run) for run in runs]
    members = [one for run in opened for one in product(run.config.seeds, run.config.gammas)]
    tables = {}
    for name in TABLES:
        path, table = Path(folder) / f"{name}.parquet", joined(opened, name)
        if path.is_file():
            earlier = pd.read_parquet(path)
            again = pd.MultiIndex.from_frame(earlier[["seed", "gamma"]]).isin(members)
            table = pd.concat([earlier[~again], table], ignore_index=True)
        all_gammas = table["gamma"].isna()
        if all_gammas.any():
            lowest = table[all_gammas].sort_values("value")
            table = pd.concat([table[~all_gammas], lowest], ignore_index=True)
        # draws of the initialisation are read in each run
        tables[name] = table.drop_duplicates([one for one in KEYS if one in table])
        tables[name].to_parquet(path, index=False, compression_level=19, compression="zstd")
    verdicts = judged(opened[0], tables["readings"])
    verdicts[verdicts["n_seeds"] > 0].to_csv(Path(folder) / "verdicts.csv", index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
