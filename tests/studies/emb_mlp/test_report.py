"""The report of the Emb-MLP study: its sections, its numbers, and sentences that say where the theory ends."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from rb_interp.claims import Verdicts
from rb_interp.report.content import report_content
from rb_interp.report.section import Table
from rb_interp.report.write import render_html
from rb_interp.studies.emb_mlp import EMB_MLP
from rb_interp.studies.emb_mlp.figures.common import at_leaving
from rb_interp.studies.emb_mlp.report import COLUMNS, last_position, narrative, theory_section, theory_sentences
from rb_interp.tasks import AnchorTask

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def content(evidence):
    return report_content(EMB_MLP, evidence)


def visible(content) -> str:
    """The text of the page as a reader sees it."""
    page = render_html(content, {figure["id"]: b"" for figure in content["figures"]})
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


@pytest.mark.wide
def test_the_page_has_claims_figures_sections_and_words(content):
    page = visible(content)
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


def test_sentences_say_where_the_theory_ends(evidence):
    first, adaptive, last = theory_sentences(evidence)
    assert re.match(
        r"Emb-MLP, plain gradient descent: as learning begins, the theory's R² for the drift of the anchors is "
        r"[.\d]+ \[.*\] at γ = 0\.8 given the run's own weights of each step, and [.\d]+ \[.*\] with the initial "
        r"weights throughout \(each step: −.* at γ = 0\.3\)\. Given the weights of each step, R² ",
        first,
    )
    assert "only the cosine means something" in adaptive
    assert first in narrative(evidence).answer
    table = evidence.tables["agreement_summary"]
    table = table.assign(never=table["n"], at_first=0, step=np.nan, fraction=np.nan)
    never = theory_sentences(replace(evidence, tables={**evidence.tables, "agreement_summary": table}))
    told = "Given the weights of each step, R² is never below .90. With the initial weights R² is never below .90."
    known = re.search(r" With each token's position known too, R² as learning begins is [^]]*\]\.", last)[0]
    assert never[2] == f"{last.split(' Given the weights')[0]} {told}{known} It is never below .90."


def test_the_short_answer_says_what_the_second_condition_could_reach(evidence):
    t1, t4 = (evidence.verdicts[claim] for claim in ("T1", "T4"))

    def told(t1, t4) -> str:
        others = [verdict for verdict in evidence.verdicts if verdict.id not in ("T1", "T4")]
        return " ".join(narrative(replace(evidence, verdicts=Verdicts([*others, t1, t4]))).answer).replace("\xa0", " ")

    r2, excess = t1.conditions
    unsure = replace(excess, outcome="OPEN", effect=r2.effect - 0.89, low=0.01, high=0.15)
    low = replace(r2, effect=0.89854, low=0.89756, high=0.89953)
    text = told(replace(t1, conditions=(r2, unsure)), replace(t4, outcome="FAILS", conditions=(low, excess)))
    assert "Permuted predictions already reach 0.890, so at most 0.110 can be gained: the second condition" in text
    assert "T4 (FAILS): R² is 0.899 [0.898, 0.8995] (≥ .90: " in text
    assert "it is 1/(q(L − q)) = 0.500 at q = 2, L = 3." in text
    actual = at_leaving(evidence, "one_layer", "r2_positions")
    assert float(actual[:4]) > 0.99
    assert f"can reach 1 − 0.333² = 0.889; with the actual share R² is {actual}." in text
    assert "0.889" not in told(t1, replace(t4, outcome="HOLDS"))


def test_the_share_at_the_last_position_is_that_of_the_rows():
    task = AnchorTask(length=5, n_sequences=20000)
    tokens = task.dataset(0).tokens
    anchors = (tokens >= 1) & (tokens <= 15) & ~((tokens > 5) & (tokens < 11))
    assert anchors[:, -1].sum() / anchors.sum() == pytest.approx(last_position(task)[0], abs=0.01)
