"""Runs whose seeds have settings of their own, such as a held-out pair for each seed, joined into
one: tables without checkpoints, with verdicts over all seeds.

Rows of members stand as they were measured. Summaries and verdicts are made again. What a run has
over its own seeds is left out: tables without a seed among their keys, means of arrays, and the
readings of claims about all members. Rows that every run has alike, such as those of Lemma 1, are
the first run's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from rb_interp.runs.config import fingerprint
from rb_interp.runs.measurement import write_tables
from rb_interp.runs.results import StudyResult, curves_summary
from rb_interp.runs.run import Run
from rb_interp.settings import plain
from rb_interp.store import RUN, START, TRAIN, run_record


def join_runs(folder: Path, runs: Sequence[Run], tables: Mapping[str, pd.DataFrame]) -> None:
    """Write the run of all seeds into a folder; its settings are those of the first run.

    ``tables`` are the rows of all runs, with further columns that tell the runs apart; `info` and
    report name these in a sentence.
    """
    first = runs[0]
    study = first.study
    config = replace(first.config, seeds=tuple(seed for run in runs for seed in run.config.seeds))
    command = f"rb-interp sweep gather {folder.parent}"
    record = run_record(study.name, fingerprint(study.name, config), plain(config), command)
    labels = tables["curves"].columns.difference(first.curves.columns, sort=False)
    record["note"] = (
        f"Joined of runs with other settings: see the columns {', '.join(labels)} of its tables."
    )
    joined = Run(folder, study, config, record)
    readings = tables["readings"]
    all_readings = [run.readings for run in runs]
    claims = [claim for claim in study.load("claims") if claim.unit != "seed"]
    for probe in {term.probe for claim in claims for term in claim.terms}:
        parts = [of[of["probe"] == probe].reset_index(drop=True) for of in all_readings]
        if not all(map(parts[0].equals, parts)):
            readings = readings.query("probe != @probe")
    tables = {**tables, "readings": readings}
    of_seeds = {"curves_summary": curves_summary(tables["curves"])}
    for name, keys in joined.table_keys.items():
        if "seed" in keys.split():
            of_seeds[name] = tables[name].drop_duplicates(keys.split())
    arrays = [run.evidence.arrays for run in runs]
    means = set.intersection(*map(set, arrays))
    means |= {key for part in arrays for key in part if {"mean", "low", "high"} & {*key.split("/")}}
    of_members = {key: part[key] for part in arrays for key in part.keys() - means}
    store = joined.store
    with store.writing():
        store.begin(START)
        store.write_json(RUN, record)
        store.finish(START, [RUN])
        store.finish(TRAIN, [])
        write_tables(joined, StudyResult(of_seeds.pop("readings"), of_seeds, of_members), runs)
