"""A table is what its study declares, and docs/tables.md names every column."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from own_studies import ONE, One

from rb_interp.errors import StudyError
from rb_interp.runs import Run
from rb_interp.runs.measured import readings_table
from rb_interp.runs.registry import names
from rb_interp.runs.registry import study as find_study
from rb_interp.runs.schema import EVERY_STUDY, OVER_SEEDS, READINGS, TableSchema, check_tables, over_seeds

COUNTS = TableSchema(keys="gamma circuit:str", values="n share found:bool")
DOCS = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()


def counts(**changed):
    rows = [{"gamma": 0.8, "circuit": "a", "n": 3, "share": 0.6, "found": True}] * 2
    return COUNTS.frame(rows).assign(**{"circuit": ["a", "b"], **changed})


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (counts(), ""),
        (counts(share=np.nan), ""),
        (counts()[["found", "share", "n", "circuit", "gamma"]], ""),
        (counts().drop(columns=["n", "share"]), "lacks the columns n, share"),
        (counts(more=1), "has, undeclared, the column more"),
        (counts(n=0.5), "has float64 in the column n, which is declared as int"),
        (counts(share="much"), "which is declared as float"),
        (counts(found=1), "has int64 in the column found, which is declared as bool"),
        (counts(circuit=1), "has int64 in the column circuit, which is declared as str"),
        (counts(circuit="a"), "has two rows with gamma = 0.8, circuit = a"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, fault):
    assert COUNTS.fault(table) == fault if not fault else fault in COUNTS.fault(table)


@pytest.mark.parametrize(("column", "fault"), [("gamma", "has infinity"), ("n_after", "has infinity"), ("low", "")])
def test_neither_a_place_nor_a_count_is_infinite_and_the_end_of_an_interval_may_be(column, fault):
    schema = TableSchema(keys="gamma", values="n_after:float low")
    table = pd.DataFrame({"gamma": [0.5, 0.8], "n_after": [np.nan, 2.0], "low": [-1.0, np.nan]})
    assert schema.fault(table) == ""
    assert schema.fault(table.assign(**{column: [1.0, np.inf]})) == (fault and f"{fault} in the column {column}")


def test_an_empty_table_has_columns_and_types():
    table = readings_table()
    assert not READINGS.fault(table)
    assert list(table.columns) == list(READINGS.columns)
    assert READINGS.fault(pd.DataFrame()).startswith("lacks the columns gamma, head,")


def test_tables_are_the_declared_ones():
    check_tables("x", {"counts": COUNTS}, {"counts": counts()})
    with pytest.raises(StudyError, match=r"declares the tables \['counts'\] and did not measure them"):
        check_tables("x", {"counts": COUNTS}, {})
    with pytest.raises(StudyError, match=r"measured the tables \['counts'\] and does not declare them"):
        check_tables("x", {}, {"counts": counts()})
    with pytest.raises(StudyError, match=r"study 'x': its table 'counts' lacks the column share; make"):
        check_tables("x", {"counts": COUNTS}, {"counts": counts().drop(columns="share")})


def test_a_run_with_another_table_than_declared_writes_nothing(tmp_path):
    study = replace(ONE, tables={"doubled": over_seeds("gamma")})
    run = Run.start(tmp_path / "run", study, One(seeds=(0,)))
    run.train(progress=False)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StudyError, match="its table 'doubled' lacks the columns"):
        run.probe(progress=False)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("study", [None, *names()])
def test_docs_name_every_table_and_column(study):
    """In the section of the study: each table as a heading or in code, each of its columns in code.

    The columns that all tables over seeds share stand in the introduction.
    """
    shared = set(OVER_SEEDS.split())
    assert shared <= set(re.findall(r"`([^`]+)`", DOCS.partition("\n## Tables of every study")[0]))
    title = "Tables of every study" if study is None else f"Tables of {study}"
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCS, re.M | re.S)
    assert section, title
    named = set(re.findall(r"`([^`]+)`", section[1]))
    tables = EVERY_STUDY if study is None else find_study(study).load("tables")
    given = {name: named | (shared if shared <= set(table.columns) else set()) for name, table in tables.items()}
    missing = {name: sorted(set(table.columns) - given[name]) for name, table in tables.items()}
    assert not {name: columns for name, columns in missing.items() if columns}
    assert set(tables) <= named
