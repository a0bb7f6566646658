"""The report of the label study: its section, its answer, and what it says of a run that was not measured."""

import re
from html import unescape

import pytest
from studies.labels.synthetic_labels import bare, make_labels, with_readings

from rb_interp.report.content import report_content
from rb_interp.report.section import Table
from rb_interp.report.write import render_html
from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.answer import answer
from rb_interp.studies.labels.report import narrative


@pytest.fixture(scope="module")
def labels():
    return make_labels(5)


def visible(evidence) -> str:
    content = report_content(LABELS, evidence)
    page = render_html(content, {figure["id"]: b"" for figure in content["figures"]})
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


def test_the_page_has_claims_words_and_the_section(labels):
    page = visible(labels)
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


def test_the_answer_says_what_else_differs(labels):
    def told(accuracy: dict[str, list[float]]) -> str:
        readings = labels.readings.copy()
        for sweep, by_seed in accuracy.items():
            for seed, value in enumerate(by_seed):
                for quantity, shown in (("acc_mem", 0.1), ("acc_rsn_train", value)):
                    here = (readings["sweep"] == sweep) & (readings["quantity"] == quantity)
                    readings.loc[here & (readings["seed"] == seed), "value"] = shown
        return " ".join(answer(with_readings(labels, readings)))

    slowed = told({"keys": [0.9, 0.9, 0.8, 0.9, 0.8], "near_sum": [0.6, 0.5, 0.5, 0.6, 0.4]})
    assert "memory is 0.10 [0.10, 0.10] for mem1 and 0.10 [0.10, 0.10] for mem2: memory is learned in neither" in slowed
    assert "0.86 [0.79, 0.93] beside mem1 and 0.52 [0.42, 0.62] beside mem2, a difference of 0.34 [" in slowed
    assert "memory labels near the key slow the rule in these runs" in slowed
    assert "with each loss divided by the entropy of its labels the index is 0.002 [" in slowed
    assert "So the smaller number of labels can explain what R1 found" in slowed
    assert "0.52 in group 1, 0.79 in group 2, 0.94 in group 3, 1.00 in group 4" in slowed
    alike = told({"keys": [0.9, 0.9, 0.8, 0.9, 0.8], "near_sum": [0.9, 0.9, 0.8, 0.8, 0.8]})
    assert "slow the rule" not in alike
    assert "it is lower beside mem2 in 1 of 5 seeds" in alike


def test_a_study_that_was_not_measured_says_what_measures_it(labels):
    page = visible(bare(labels))
    assert "“rb-interp probe RUN” makes" in page
    assert not re.search(r"\b(nan|None|inf)\b", page)
