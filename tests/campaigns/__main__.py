"""Run campaigns: ``cd tests && python -m campaigns [NAME ...] [--cases N] [--first N] [--only N] [--out FILE]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from campaigns import NAMES
from campaigns.harness import GOOD, Outcome, preload, table


def run(name: str, numbers: range, progress: bool = True) -> list[Outcome]:
    """Carry out cases of a campaign, each in an empty folder."""
    campaign = import_module(f"campaigns.{name}")
    preload()
    found = []
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as place:
        prepared = campaign.prepare(Path(place))
        for number in tqdm(numbers, desc=name, disable=not progress, mininterval=5.0):
            with tempfile.TemporaryDirectory(prefix=f"{name}-{number}-", ignore_cleanup_errors=True) as folder:
                outcome = campaign.case(number, prepared, Path(folder))
            found.append(outcome)
            if outcome.end not in GOOD and progress:
                tqdm.write(f"{name} {number}: {outcome.group}: {outcome.end}: {outcome.detail}")
    return found


def main() -> int:
    """Run them; returns 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m campaigns", description="Many seeded tries to break something.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all by default")
    parser.add_argument("--cases", type=int, help="cases of each; by default as many as the campaign says")
    parser.add_argument("--first", type=int, default=0, help="number of the first case; each number is a seed")
    parser.add_argument("--short", action="store_true", help="as few cases of each as run with the tests")
    parser.add_argument("--only", type=int, help="number of a single case")
    parser.add_argument("--out", type=Path, help="CSV file for the counts; rows of the campaigns run are replaced")
    given = parser.parse_args()
    tables, failed = [], False
    for name in given.names or NAMES:
        campaign = import_module(f"campaigns.{name}")
        cases = given.cases or (campaign.SHORT if given.short else campaign.LONG)
        numbers = range(given.first, given.first + cases)
        if given.only is not None:
            numbers = range(given.only, given.only + 1)
        found = run(name, numbers)
        tables.append(table(name, found))
        failed = failed or any(outcome.end not in GOOD for outcome in found)
        print(tables[-1].to_string(index=False), flush=True)
        if given.out is not None:
            before = pd.read_csv(given.out, keep_default_na=False) if given.out.exists() else tables[-1][:0]
            kept = before[before["campaign"] != name]
            pd.concat([kept, tables[-1]]).to_csv(given.out, index=False)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
