"""The language study's report: its sentences follow the readings, and stand-ins and templates are warned of."""

import re
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from synthetic import GAMMAS, LAST, make_corpora, make_language

from rb_interp.report.content import report_content
from rb_interp.report.section import Heading, Table
from rb_interp.studies.language import LANGUAGE
from rb_interp.studies.language.answer import answer, warnings
from rb_interp.studies.language.report import narrative

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def evidence():
    return make_language(5)


def told(evidence) -> str:
    return " ".join(answer(evidence))


def planted(evidence, quantity: str, values: dict[float, list[float]], stage: str = "final"):
    """The evidence with a quantity's values by rate and seed."""
    readings = evidence.readings.copy()
    here = (readings["quantity"] == quantity) & (readings["stage"] == stage)
    for gamma, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            readings.loc[here & (readings["gamma"] == gamma) & (readings["seed"] == seed), "value"] = value
    return synthetic.changed(evidence, readings)


def both_matched(evidence, control, counterpart) -> str:
    """What is told where the two matched differences are these, by seed."""
    evidence = planted(evidence, "difference_control", {0.8: control}, "early")
    return told(planted(evidence, "difference_counterpart", {0.8: counterpart}, "early"))


def test_cosines_stand_beside_the_papers_and_the_control_beside_them(evidence):
    changed = planted(evidence, "cos_prontoqa", {0.8: [0.2] * 5}, "early")
    changed = planted(changed, "cos_stories", {0.8: [0.4] * 5}, "early")
    changed = planted(changed, "difference", {0.8: [-0.2] * 5}, "early")
    text = told(changed)
    assert "is 0.20 [0.20, 0.20] between PrOntoQA tokens (paper: .123) and 0.40 [0.40, 0.40] between tokens" in text
    tokens = r"\(over tokens \[−?[\d.]+, −?[\d.]+\]\)"
    assert re.search(
        rf"\.531\), a difference of −0\.20 \[−0\.20, −0\.20\] {tokens} \(G3\); in 5 of 5 seeds it lies", text
    )
    below = [-0.1, -0.12, -0.1, -0.11, -0.1]
    text = both_matched(changed, below, below)
    assert "with the stories' tokens matched to PrOntoQA's (mean |ln ratio| of counts 0.080 [" in text
    assert "with PrOntoQA's matched to the stories' (mean |ln ratio| of counts 0.030 [" in text
    assert "Only 90.00 [90.00, 90.00] of the 300 [300, 300] typical tokens of the stories are as frequent" in text
    none = both_matched(changed, [np.nan] * 5, [np.nan] * 5)
    assert "No tokens of equal frequency could be compared." in none


def tables_of(evidence) -> dict[str, dict[str, list]]:
    """Title -> label -> cells by rate of the report's tables; the first one, about the corpora, is called ''."""
    title, found = "", {}
    for block in narrative(evidence).sections[0].blocks:
        if isinstance(block, Heading):
            title = block.text
        elif isinstance(block, Table):
            found[title] = {row.cells[0].text: row.cells[1:] for row in block.rows}
    return found


def test_templates_are_always_warned_of_and_stand_ins_where_they_are(evidence):
    evidence = planted(evidence, "early_step", {gamma: [300] * 5 for gamma in GAMMAS})
    templates, stand_in = warnings(evidence)
    assert "G1 alone therefore says little" in templates
    assert stand_in.startswith("Not the paper's text: The stories are sentences of a small story grammar, standing in")
    assert "a small story grammar stands in for them" in told(evidence)
    real = replace(evidence, tables={**evidence.tables, "corpora": make_corpora(stand_in=False)})
    assert len(warnings(real)) == 1
    assert "The stories are those of stories.jsonl." in told(real)
    assert tables_of(real)[""]["TinyStories"][0].text == "stories from stories.jsonl"
    assert "grammar" not in str(report_content(LANGUAGE, real))
    unknown = replace(evidence, tables={name: t for name, t in evidence.tables.items() if name != "corpora"})
    assert warnings(unknown)[1] == "This run does not say which text it has read."
    late = planted(evidence, "early_step", {0.3: [LAST] * 5})
    assert warnings(late)[2] == "At γ = 0.3 “early” is the last evaluation in 5 of 5 seeds."
    content = report_content(LANGUAGE, late)
    assert set(warnings(late)) <= set(content["answer"]["warnings"])
    assert told(late) in " ".join(content["answer"]["sentences"])


def test_tables_are_the_readings_and_the_papers_numbers(evidence):
    about, losses, cosines, _, skills = (found := tables_of(evidence)).values()
    assert list(found)[4] == "Held-out PrOntoQA at the last step, share right"
    for cells, probe, quantity, stage in (
        (losses["ΔL, mean over training"], "corpus_loss", "delta_loss", "final"),
        (losses["final loss on story grammar (stand-in), held out (nats per token)"],
         "corpus_loss", "loss_stories_test", "final"),
        (cosines["mean |ln ratio| of counts, the stories' matched"], "token_similarity", "control_mismatch", "early"),
    ):  # fmt: skip
        for cell, gamma in zip(cells, GAMMAS, strict=False):
            mean = evidence.values(probe, quantity, gamma, stage=stage).mean()
            assert float(cell.text.split(" ")[0].replace("−", "-")) == pytest.approx(mean, abs=0.0051)
    paper = {label: cells[-1].text for label, cells in cosines.items() if cells[-1].text}
    assert paper == {"mean cos between PrOntoQA tokens": "0.123", "mean cos between tokens of the stories": "0.531"}
    assert {"chain, all steps right, 1 hop", "answer, True against False alone, 5 hops"} <= set(skills)
    assert [cell.text for cell in about["PrOntoQA"][1:]] == ["1,200", "256,000", "5.10"]
    assert about["story grammar (stand-in)"][-1].text == "5.60"
