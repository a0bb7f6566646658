"""docs/tables.md names every table and every column."""

import re
from pathlib import Path

import pytest
from table_columns import COLUMNS, OVER_SEEDS, columns_of, table_of

from rb_interp.runs.protocol import study as find_study

DOCS = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()


@pytest.mark.parametrize("study", [None, *COLUMNS])
def test_docs_name_every_table_and_column(study):
    """In the section of the study; columns that all tables over seeds share stand in the introduction."""
    shared = set(OVER_SEEDS.split())
    assert shared <= set(re.findall(r"`([^`]+)`", DOCS.partition("\n## Tables of every study")[0]))
    title = "Tables of every study" if study is None else f"Tables of {study}"
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCS, re.M | re.S)
    assert section, title
    named, own = set(re.findall(r"`([^`]+)`", section[1])), {} if study is None else find_study(study).tables
    for name, columns in (columns_of(None) if study is None else COLUMNS[study]).items():
        found = set(table_of(columns))
        assert found - (shared if shared <= found else set()) <= named, name
        assert name in named
        assert study is None or name in own
