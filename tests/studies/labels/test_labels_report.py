"""The report of the label study: its section, its answer, and what it says of a run that was not measured."""

import re

import pytest
from report.pages import visible
from studies.labels.synthetic_labels import make_labels

from rb_interp.report.content import report_content
from rb_interp.report.section import Table
from rb_interp.report.write import render_html
from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.report import narrative


@pytest.fixture(scope="module")
def labels():
    return make_labels(5)


def test_the_page_has_claims_words_and_the_section(labels):
    content = report_content(LABELS, labels)
    page = visible(render_html(content, {figure["id"]: b"" for figure in content["figures"]}))
    assert "Areas and label ranges" in page
    assert "Label distributions" in page
    assert not re.search(r"\b(nan|None|inf)\b", page)
    assert "calibrated" not in page
    for term in LABELS.load("glossary"):
        assert term in page


def test_rows_of_the_section_are_the_readings(labels):
    (section,) = narrative(labels).sections
    speed, final, inside = (block for block in section.blocks if isinstance(block, Table))
    rows = labels.readings
    speeds = rows[rows["probe"] == "label_speed"]
    wanted = [speeds[speeds["quantity"] == name] for name in ("area_mem1", "area_mem2", "bias", "bias_per_entropy")]
    wanted += [rows[(rows["quantity"] == "acc_mem") & (rows["sweep"] == name)] for name in ("keys", "near_sum")]
    wanted += [rows[(rows["quantity"] == f"inside_{group}")] for group in (1, 2, 3, 4)]
    shown = [*speed.rows, *final.rows[:2], *inside.rows[:4]]
    for row, table in zip(shown, wanted, strict=True):
        label, mean, *seeds = (cell.text.replace("−", "-") for cell in row.cells)
        digits = 3 if label.startswith("the index, each") else 2
        values = table.sort_values("seed")["value"]
        assert seeds == [f"{value:.{digits}f}" for value in values]
        assert mean.startswith(f"{values.mean():.{digits}f} [")
    assert [row.cells[0].text for row in inside.rows[4:]] == [
        *("the lowest of the groups", "pooled labels alone, in group 1, the least", "accuracy on memory")
    ]
