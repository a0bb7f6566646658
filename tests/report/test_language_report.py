"""The language study's report: its sentences follow the readings, and stand-ins and templates are warned of."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic_language import GAMMAS, LAST, make_about, make_language

from rb_interp.report import report_content
from rb_interp.report.language import language
from rb_interp.report.language_answer import language_answer, language_warnings


@pytest.fixture(scope="module")
def evidence():
    return make_language(5)


def told(evidence) -> str:
    return " ".join(language_answer(evidence))


def planted(evidence, quantity: str, values: dict[float, list[float]], stage: str = "final"):
    """The evidence with a quantity's values by rate and seed."""
    readings = evidence.readings.copy()
    here = (readings["quantity"] == quantity) & (readings["stage"] == stage)
    for gamma, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            readings.loc[here & (readings["gamma"] == gamma) & (readings["seed"] == seed), "value"] = value
    return replace(evidence, readings=readings)


def test_delta_is_told_by_rate_raw_held_out_and_per_entropy(evidence):
    changed = planted(evidence, "delta_loss", {0.3: [0.5] * 5, 0.5: [0.75] * 5, 0.8: [1.25] * 5})
    changed = planted(changed, "delta_loss_test", {gamma: [0.25] * 5 for gamma in GAMMAS})
    changed = planted(changed, "delta_loss_per_entropy", {gamma: [gamma - 0.9] * 5 for gamma in GAMMAS})
    text = told(changed)
    assert (
        "is 0.50 [0.50, 0.50] at γ = 0.3, 0.75 [0.75, 0.75] at γ = 0.5, 1.25 [1.25, 1.25] at γ = 0.8; on held-out "
        "text 0.25 [0.25, 0.25] at γ = 0.3"
    ) in text
    assert "unigram entropy it is −0.60 [−0.60, −0.60] at γ = 0.3, −0.40" in text
    assert "(untrained: 0.00)" in text
    assert "From γ = 0.3 to γ = 0.8 ΔL changes by 0.75 [0.75, 0.75], paired by seed: it rises, as the paper" in text
    falls = planted(changed, "delta_loss", {0.3: [1.5] * 5})
    assert "by −0.25 [−0.25, −0.25], paired by seed: it falls, against the paper." in told(falls)
    mixed = planted(changed, "delta_loss", {0.3: [0.2, 2.2, 0.2, 2.2, 1.1]})
    assert "paired by seed, up in 3 of 5." in told(mixed)


def test_cosines_stand_beside_the_papers_and_the_control_is_judged(evidence):
    changed = planted(evidence, "cos_prontoqa", {0.8: [0.2] * 5}, "early")
    changed = planted(changed, "cos_stories", {0.8: [0.4] * 5}, "early")
    changed = planted(changed, "difference", {0.8: [-0.2] * 5}, "early")
    text = told(changed)
    assert "is 0.20 [0.20, 0.20] between PrOntoQA tokens (paper: .123) and 0.40 [0.40, 0.40] between tokens" in text
    assert "(paper, TinyStories: .531), a difference of −0.20 [−0.20, −0.20] (G3)." in text
    for values, verdict in (
        ([-0.1, -0.12, -0.1, -0.11, -0.1], "frequency alone does not account for it."),
        ([-0.1, 0.12, -0.1, 0.11, 0.0], "frequency may account for what G3 reads."),
        ([0.1, 0.12, 0.1, 0.11, 0.1], "it turns round, so frequency accounts for what G3 reads."),
    ):
        assert verdict in told(planted(changed, "difference_control", {0.8: values}, "early"))
    none = planted(changed, "difference_control", {0.8: [np.nan] * 5}, "early")
    assert "No frequency-matched control could be made" in told(none)


def test_skills_are_told_by_hops_and_over_all_rates(evidence):
    table = evidence.tables["skills"].copy()
    last = (table["step"] == LAST) & (table["gamma"] == 0.8)
    table.loc[last & (table["kind"] == "answer_two_way"), "accuracy"] = 0.75
    table.loc[last & (table["kind"] == "chain"), "accuracy"] = 0.5
    table.loc[last & (table["kind"] == "chain") & (table["hops"] == 1), "accuracy"] = 1.0
    text = told(replace(evidence, tables={**evidence.tables, "skills": table}))
    assert "(guessing: .50, by the “not” of the query: .53), with a share of 0.75 at 1 hop, 0.75 at 2 hops" in text
    assert "chain are right with a share of 1.00 at 1 hop, 0.50 at 2 hops" in text
    assert text.count("0.75 [0.75, 0.75] and 0.60 [0.60, 0.60] at γ = 0.8") == 1


def test_templates_are_always_warned_of_and_stand_ins_where_they_are(evidence):
    templates, stand_in = language_warnings(evidence)
    assert "G1 alone therefore says little" in templates
    assert stand_in.startswith("Not the paper's text: Sentences of a small story grammar, standing in for TinyStories.")
    assert "a small story grammar stands in for them" in told(evidence)
    real = replace(evidence, meta={**evidence.meta, "text": make_about(stand_in=False)})
    assert len(language_warnings(real)) == 1
    assert "The stories are not a stand-in: stories in a file." in told(real)
    assert "grammar" not in str(report_content(replace(real, config={})))
    unknown = replace(evidence, meta={})
    assert language_warnings(unknown)[1] == "This run does not say which text it has read."
    late = planted(evidence, "early_step", {0.3: [LAST] * 5})
    assert language_warnings(late)[2] == "At γ = 0.3 “early” is the last evaluation in 5 of 5 seeds."
    assert set(language_warnings(late)) <= set(report_content(late)["answer"]["warnings"])
    assert told(evidence) in " ".join(report_content(evidence)["answer"]["sentences"])


def test_tables_are_the_readings_and_the_papers_numbers(evidence):
    found = language(evidence)
    rows = {row["quantity"]: row for block in found["blocks"][:3] for row in block["rows"]}
    for probe, quantity, stage in (
        ("corpus_loss", "delta_loss", "final"),
        ("corpus_loss", "loss_stories_test", "final"),
        ("token_similarity", "cos_control", "early"),
        ("token_similarity", "control_mismatch", "early"),
    ):
        for cell in rows[quantity]["cells"]:
            values = evidence.values(probe, quantity, cell["gamma"], stage=stage)
            assert (cell["mean"], cell["n"]) == (pytest.approx(values.mean()), 5)
    assert {name: row["paper"] for name, row in rows.items() if row["paper"]} == {
        "cos_prontoqa": 0.123,
        "cos_stories": 0.531,
    }
    assert [block["paper"] for block in found["blocks"]] == [False, True, False, False]
    labels = [row["label"] for row in found["blocks"][3]["rows"]]
    assert "chain, all steps right, 1 hop" in labels
    assert "answer, True against False alone, 5 hops" in labels
    first, second = found["corpora"]
    assert (first["name"], first["tokens"], first["entropy"]) == ("PrOntoQA", "256,000", "5.10")
    assert (second["name"], second["entropy"]) == ("story grammar (stand-in)", "5.60")
