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
    assert "(untrained: −0.09)" in text  # equal losses, each per entropy: 5.1 / 5.6 - 1
    assert "From γ = 0.3 to γ = 0.8 ΔL changes by 0.75 [0.75, 0.75], paired by seed: it rises, as the paper" in text
    falls = planted(changed, "delta_loss", {0.3: [1.5] * 5})
    assert "by −0.25 [−0.25, −0.25], paired by seed: it falls, against the paper." in told(falls)
    mixed = planted(changed, "delta_loss", {0.3: [0.2, 2.2, 0.2, 2.2, 1.1]})
    assert "paired by seed, up in 3 of 5." in told(mixed)


def both_matched(evidence, control, counterpart) -> str:
    """What is told where the two matched differences are these, by seed."""
    evidence = planted(evidence, "difference_control", {0.8: control}, "early")
    return told(planted(evidence, "difference_counterpart", {0.8: counterpart}, "early"))


def test_cosines_stand_beside_the_papers_and_the_control_is_judged(evidence):
    changed = planted(evidence, "cos_prontoqa", {0.8: [0.2] * 5}, "early")
    changed = planted(changed, "cos_stories", {0.8: [0.4] * 5}, "early")
    changed = planted(changed, "difference", {0.8: [-0.2] * 5}, "early")
    text = told(changed)
    assert "is 0.20 [0.20, 0.20] between PrOntoQA tokens (paper: .123) and 0.40 [0.40, 0.40] between tokens" in text
    tokens = r"\(over tokens \[−?[\d.]+, −?[\d.]+\]\)"
    assert re.search(
        rf"\.531\), a difference of −0\.20 \[−0\.20, −0\.20\] {tokens} \(G3\); in 5 of 5 seeds it lies", text
    )
    below, both, above = [-0.1, -0.12, -0.1, -0.11, -0.1], [-0.1, 0.12, -0.1, 0.11, 0.0], [0.1, 0.12, 0.1, 0.11, 0.1]
    for control, counterpart, said in (
        (below, below, "below 0 too, so frequency alone does not account for G3's difference."),
        (below, both, "not below 0 throughout, so frequency may account for G3's difference."),
        (above, above, "the reverse of G3's. That shows that other tokens make G3's difference, not why they do."),
        (below, above, "not below 0 throughout, so frequency may account for G3's difference."),
    ):
        assert f": {said}" in both_matched(changed, control, counterpart).replace("above 0, the", "the")
    text = both_matched(changed, below, below)
    assert "with the stories' tokens matched to PrOntoQA's (mean |ln ratio| of counts 0.080 [" in text
    assert "with PrOntoQA's matched to the stories' (mean |ln ratio| of counts 0.030 [" in text
    assert "Only 90.00 [90.00, 90.00] of the 300 [300, 300] typical tokens of the stories are as frequent" in text
    none = both_matched(changed, [np.nan] * 5, [np.nan] * 5)
    assert "No tokens of equal frequency could be compared, so nothing tells frequency and corpus apart." in none


@pytest.mark.parametrize("raw", [[0.02] * 5, [-0.1, 0.12, -0.1, 0.11, 0.0]], ids=("above 0", "undecided"))
def test_a_difference_that_is_not_below_0_is_not_laid_to_frequency(evidence, raw):
    changed = planted(evidence, "difference", {0.8: raw}, "early")
    for matched in ([0.1, 0.12, 0.1, 0.11, 0.1], [-0.1, 0.12, -0.1, 0.11, 0.0]):
        text = both_matched(changed, matched, matched)
        assert ": G3's difference is not shown to be below 0, matched or not." in text
        assert "account" not in text
    text = both_matched(changed, [-0.1] * 5, [-0.1] * 5)
    assert ": below 0 with the matched tokens alone; G3's own difference is not below 0." in text
    assert "No tokens of equal frequency could be compared." in both_matched(changed, [np.nan] * 5, [np.nan] * 5)


def test_the_course_of_the_difference_is_told_with_the_stage_that_is_judged(evidence):
    text = told(planted(evidence, "early_step", {0.3: [300] * 5, 0.8: [100] * 5}))
    assert (
        "are permuted. Its sign depends on the step. Along training at γ = 0.8 that difference is, at step 0: 0.002, "
        "0 of 5 below 0 (matched: 0.002 and 0.001); at step 100: 0.026, 0 of 5 below 0 (matched: 0.062 and 0.013); at "
        "step 500: −0.078, 5 of 5 below 0 (matched: 0.082 and −0.039); at step 2,000: 0.122, 0 of 5 below 0 (matched: "
        "0.182 and 0.061); the verdict on G3 is that of the stage early (step 100)."
    ) in text
    risen = evidence.tables["similarity"].assign(difference=0.1)
    assert "Its sign" not in told(synthetic.changed(evidence, similarity=risen))
    assert "Along training" not in told(replace(evidence, tables={}))


def tables_of(evidence) -> dict[str, dict[str, list]]:
    """Title -> label -> cells by rate of the report's tables; the first one, about the corpora, is called ''."""
    title, found = "", {}
    for block in narrative(evidence).sections[0].blocks:
        if isinstance(block, Heading):
            title = block.text
        elif isinstance(block, Table):
            found[title] = {row.cells[0].text: row.cells[1:] for row in block.rows}
    return found


def test_centred_differences_stand_beside_their_untrained_model(evidence):
    readings = evidence.readings.copy()
    for name, untrained in (("difference_centred", -0.013), ("difference_control_centred", -0.011)):
        readings.loc[readings["quantity"] == name, "untrained"] = untrained
    cosines = tables_of(synthetic.changed(evidence, readings))["Cosines of token embeddings, early in training"]
    for label, untrained in (
        ("PrOntoQA − stories", "−0.013"),
        ("PrOntoQA − stories, the stories' matched", "−0.011"),
    ):
        assert [cell.notes[1:] for cell in cosines[f"{label}, embeddings centred"][:3]] == [
            (f"(untrained: {untrained})",)
        ] * 3
    row = cosines["PrOntoQA − stories"]
    for cell, gamma in zip(row, GAMMAS, strict=False):
        mean = evidence.values("token_similarity", "difference", gamma, stage="early").mean()
        ends = [f"{mean + end:.3f}".replace("-", "−") for end in (-0.03, 0.05)]
        assert cell.notes == (f"over tokens [{ends[0]}, {ends[1]}]",)


def test_models_that_learned_no_reasoning_are_warned_of(evidence):
    def warned(**accuracy: float) -> str:
        table = evidence.tables["skills"].copy()
        for kind, value in accuracy.items():
            table.loc[table["accuracy_of"] == kind, "accuracy"] = value
        return told(synthetic.changed(evidence, skills=table))

    assert (
        "No model here answers better than guessing or writes a chain of thought: at no γ does the 95 % interval of "
        "two-way answers lie above .53, which the query's “not” alone gives, and at every γ and number of hops fewer "
        "than 1 in 100 chains are right. A lower loss on PrOntoQA is that of its templates (nats per token at γ = 0.8, "
        "held out: 1.30 [1.30, 1.30] on questions, 1.10 [1.10, 1.10] on chains of thought) and says nothing of "
        "reasoning."
    ) in warned(answer_two_way=0.53, chain=0.009)
    for right, chain in ((0.54, 0.0), (0.5, 0.01)):
        assert "No model here" not in warned(answer_two_way=right, chain=chain)
    assert "No model here" not in told(replace(evidence, tables={}))


def test_an_early_stage_at_the_first_evaluation_is_warned_of(evidence):
    changed = planted(evidence, "early_step", {0.3: [100] * 5, 0.5: [100, 100, 100, 200, 200], 0.8: [200] * 5})
    assert warnings(changed)[-1] == (
        "“early” is the first evaluation (step 100) in 8 of 15 members; evaluations are too far apart to see it better."
    )
    half = planted(changed, "early_step", {0.3: [100, 100, 100, 100, 300]})
    assert "first evaluation" not in " ".join(warnings(half))


def test_skills_are_told_by_hops_and_over_all_rates(evidence):
    table = evidence.tables["skills"].copy()
    last = (table["step"] == LAST) & (table["gamma"] == 0.8)
    table.loc[last & (table["accuracy_of"] == "answer_two_way"), "accuracy"] = 0.75
    table.loc[last & (table["accuracy_of"] == "chain"), "accuracy"] = 0.5
    table.loc[last & (table["accuracy_of"] == "chain") & (table["hops"] == 1), "accuracy"] = 1.0
    text = told(synthetic.changed(evidence, skills=table))
    assert "(guessing: .50, by the “not” of the query: .53), with a share of 0.75 at 1 hop, 0.75 at 2 hops" in text
    assert "chain are right with a share of 1.00 at 1 hop, 0.50 at 2 hops" in text
    assert text.count("0.75 [0.75, 0.75] and 0.60 [0.60, 0.60] at γ = 0.8") == 1


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
