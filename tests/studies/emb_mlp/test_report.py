"""The report of the Emb-MLP study: its sections, its numbers, and sentences that say where the theory ends."""

import re

import pytest
from report.pages import visible

from rb_interp.report.content import report_content
from rb_interp.report.section import Table
from rb_interp.report.write import render_html
from rb_interp.studies.emb_mlp import EMB_MLP
from rb_interp.studies.emb_mlp.report import COLUMNS, last_position, theory_section
from rb_interp.tasks import AnchorTask

pytestmark = [pytest.mark.trains, pytest.mark.wide]


@pytest.fixture(scope="module")
def content(evidence):
    return report_content(EMB_MLP, evidence)


def test_the_page_has_claims_figures_sections_and_words(content):
    page = visible(render_html(content, {figure["id"]: b"" for figure in content["figures"]}))
    assert [section["id"] for section in content["sections"]] == ["theory", "learning-order"]
    assert list(dict.fromkeys(claim["family"] for claim in content["claims"])) == list(EMB_MLP.families.values())
    assert not re.search(r"\b(nan|None|inf)\b", page)
    for figure in content["figures"]:
        assert figure["title"] in page
    for term in EMB_MLP.load("glossary"):
        assert term in page
    assert "calibrated" not in page


def test_the_table_is_that_of_drifts_and_falls(evidence):
    table = next(block for block in theory_section(evidence, []).blocks if isinstance(block, Table))
    rows = {(row.group, row.cells[0].text): row for row in table.rows}
    row = rows["One-layer model, plain gradient descent", "0.8"]
    drift = evidence.table("drift", sweep="one_layer", gamma=0.8, group="anchor").query("leaving")
    by = drift.groupby("prediction").mean(numeric_only=True)
    expected = {
        **{f"r2_{name}".replace("_each_step", ""): by.r2[name] for name in by.index},
        "r2_permuted": by.r2_permuted["each_step"],
        "cos": by.cos["each_step"],
    }
    for cell, quantity in zip(row.cells[1:], COLUMNS, strict=False):
        assert float(cell.text.replace("−", "-")) == pytest.approx(expected[quantity], abs=6e-4), quantity
    fall = evidence.table("agreement", sweep="descent", gamma=0.3, group="anchor", prediction="each_step", metric="r2")
    cell = rows["Emb-MLP, plain gradient descent", "0.3"].cells[-2]
    assert cell.text.endswith(f" {fall.step.median():.0f}")
    notes = {row.group: row.group_note for row in table.rows}
    assert notes["One-layer model, plain gradient descent"] == "trained at 2 of the study's 3 rates"
    assert "only the cosine means something" in notes["Emb-MLP, AdamW"]


def test_exponents_stand_beside_the_bound(evidence, content):
    means = evidence.table("exponents").groupby("gamma")["exponent"].mean()
    *_, table, _ = theory_section(evidence, []).blocks
    measured, bound = table.rows
    assert [cell.text.replace("−", "-") for cell in measured.cells[1:]] == [f"{mean:.2f}" for mean in means]
    assert [cell.text for cell in bound.cells[1:]] == ["0.70", "0.20"]


def test_the_share_at_the_last_position_is_that_of_the_rows():
    task = AnchorTask(length=5, n_sequences=20000)
    tokens = task.dataset(0).tokens
    anchors = (tokens >= 1) & (tokens <= 15) & ~((tokens > 5) & (tokens < 11))
    assert anchors[:, -1].sum() / anchors.sum() == pytest.approx(last_position(task)[0], abs=0.01)
