"""The table of campaigns in the documents is that of the counts that are kept."""

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
BAD = ["silent", "lost", "traceback", "hang"]


def test_the_documents_quote_the_counts_that_are_kept():
    counts = pd.read_csv(ROOT / "results" / "campaigns.csv").groupby("campaign").sum(numeric_only=True)
    text = (ROOT / "docs" / "reliability.md").read_text()
    quoted = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    told = {name: [int(number.replace(",", "")) for number in numbers] for name, *numbers in quoted}
    assert told == {name: [row["n"], row["equal"], row["sentence"], row[BAD].sum()] for name, row in counts.iterrows()}
