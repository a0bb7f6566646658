"""Reports of the studies of several parts: their sections, their numbers, and nothing of another study."""

import base64
import json
import re
from dataclasses import replace
from html import unescape
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from synthetic_evidence import make_evidence
from synthetic_language import make_language
from synthetic_theory import make_emb_mlp, make_labels

from rb_interp.claims.studies import claims_of
from rb_interp.errors import ConfigError
from rb_interp.figures.parts import leaving_steps, part_of, rows_of
from rb_interp.figures.registry import figures_of
from rb_interp.report import print_verdicts, report_content, write_report
from rb_interp.report.glossary import GLOSSARY, glossary_of
from rb_interp.report.label_ranges import label_sentences
from rb_interp.report.studies import title_of
from rb_interp.report.theory_answer import last_position, theory_answer
from rb_interp.report.write import render_html
from rb_interp.tasks import AnchorTask

SECTIONS = {
    "anchor": ["answer", "claims", "circuits", "causes", "learning-order", "figures", "terms", "repeat"],
    "emb-mlp": ["answer", "claims", "theory", "learning-order", "figures", "terms", "repeat"],
    "labels": ["answer", "claims", "label-ranges", "figures", "terms", "repeat"],
    "language": ["answer", "claims", "language", "figures", "terms", "repeat"],
}
MAKERS = {"anchor": make_evidence, "emb-mlp": make_emb_mlp, "labels": make_labels, "language": make_language}


@pytest.fixture(scope="module")
def studies():
    return {study: make(seeds=5) for study, make in MAKERS.items()}


@pytest.fixture(scope="module")
def contents(studies):
    return {study: report_content(evidence) for study, evidence in studies.items()}


def page_of(content) -> str:
    return render_html(content, {figure["id"]: b"" for figure in content["figures"]})


def visible(page: str) -> str:
    """The text of a page as a reader sees it."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


@pytest.mark.parametrize("study", SECTIONS)
def test_the_navigation_lists_the_sections_that_are_there(study, contents):
    page = page_of(contents[study])
    assert re.findall(r'<section id="([\w-]+)">', page) == SECTIONS[study]
    navigation = re.search(r"<nav>.*?</nav>", page, flags=re.DOTALL)[0]
    assert re.findall(r'href="#([\w-]+)"', navigation) == SECTIONS[study]
    targets = set(re.findall(r'href="#((?!claim-)[^"]+)"', page))  # made-up claims of the anchor study are but a few
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


@pytest.mark.parametrize("study", ["emb-mlp", "labels", "language"])
def test_a_study_shows_its_own_claims_figures_and_words(study, studies, tmp_path):
    page = write_report(studies[study], tmp_path).read_text()
    assert re.findall(r'<tr id="claim-(\w+)">', page) == [claim.id for claim in claims_of(study)]
    assert f"<title>{title_of(study)}</title>" in page
    images = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', page)
    for spec, image in zip(figures_of(study), images, strict=True):
        assert base64.b64decode(image) == (tmp_path / "figures" / f"{spec.id}.svg").read_bytes()
    assert not re.search(r"\b(nan|None|inf)\b", visible(page))
    assert "calibrated" not in visible(page)
    for term, meaning in glossary_of(study).items():
        assert f"{term} {meaning}".replace("-", "−") in visible(page).replace("-", "−")
    twin = json.loads((tmp_path / "report.json").read_text())
    assert twin == report_content(studies[study])
    assert not {"circuits", "causes", "ablations", "calibration"} & set(twin)


def test_families_are_named(contents):
    told = {study: list(dict.fromkeys(c["family"] for c in content["claims"])) for study, content in contents.items()}
    assert told["emb-mlp"] == ["Learning order, Emb-MLP", "Theory against measurement"]
    assert told["labels"] == ["Label distributions"]
    assert told["language"] == ["Language"]
    assert told["anchor"] == ["Learning order", "Mechanism"]


def test_the_anchor_report_keeps_its_content_and_words(contents):
    assert list(contents["anchor"]) == [
        *("title", "question", "answer", "claims", "circuits", "causes", "ablations", "calibration"),
        *("learning_order", "figures", "glossary", "repeat", "run"),
    ]
    assert contents["anchor"]["glossary"] == GLOSSARY == glossary_of("anchor")
    assert "Verdicts on mechanisms say whether their probe is calibrated. What the words mean" in visible(
        page_of(contents["anchor"])
    )
    for ask in (glossary_of, title_of):
        with pytest.raises(ConfigError, match=r"a study 'embmlp'; did you mean 'emb-mlp'\?"):
            ask("embmlp")


def test_the_theory_table_is_that_of_the_drifts(studies, contents):
    evidence, rows = studies["emb-mlp"], contents["emb-mlp"]["theory"]["rows"]
    assert [(r["part"], r["gamma"]) for r in rows if r["part"] != "descent"] == [
        (part, gamma) for part in ("sweep", "one_layer") for gamma in (0.3, 0.5, 0.8, 1.0)
    ]
    row = next(r for r in rows if r["part"] == "one_layer" and r["gamma"] == 0.8)
    steps = leaving_steps(evidence, "one_layer", 0.8)
    table = rows_of(evidence, "drift", part="one_layer", gamma=0.8, group="anchor")
    table = table.set_index(["prediction", "seed", "step"])
    for name, (prediction, column) in {
        **{name: (name, "r2") for name in ("each_step", "step_0", "population", "positions")},
        "permuted": ("each_step", "r2_permuted"),
        "cos": ("each_step", "cos"),
    }.items():
        expected = np.mean([table.loc[(prediction, *place), column] for place in steps.items()])
        assert row["cells"][name]["mean"] == pytest.approx(expected), name
        assert row["cells"][name]["n"] == 5
    ends = rows_of(evidence, "agreement", part="one_layer", gamma=0.8, group="anchor", metric="r2")
    ends = ends[ends["prediction"] == "each_step"]
    assert row["falls"]["r2"].startswith(f"step {ends['step'].median():.0f} (f = {ends['fraction'].median():.3f}")
    page = visible(page_of(contents["emb-mlp"]))
    assert row["cells"]["step_0"]["text"] in page
    assert row["falls"]["r2"] in page


def test_exponents_stand_beside_the_bound(studies, contents):
    found = contents["emb-mlp"]["theory"]["exponents"]
    for row in found:
        values = rows_of(studies["emb-mlp"], "exponents", gamma=row["gamma"])["exponent"]
        assert row["mean"] == pytest.approx(values.mean())
        assert row["predicted"] == pytest.approx(1 - row["gamma"])
    section = visible(re.search(r'<section id="theory">.*?</section>', page_of(contents["emb-mlp"]), re.DOTALL)[0])
    assert "at most, by Eq. 13 (1 − γ) 0.70 0.60 0.50 0.40 0.30 0.20 0.10 0.00" in section


def test_sentences_say_where_the_theory_ends(studies, contents):
    first, adaptive, last = contents["emb-mlp"]["theory"]["sentences"]
    assert re.fullmatch(
        r"Emb-MLP, plain gradient descent: as learning begins, the theory's R² for the drift of the anchors is "
        r"0\.976 \[.*\] at γ = 0\.8 given the run's own weights of each step, and 0\.\d\d\d \[.*\] with the initial "
        r"weights throughout \(each step: −1\.2.* at γ = 0\.3\)\. Given the weights of each step, R² first falls below "
        r"\.90 at step 330 \(f = .*\), in the median of the seeds\. With the initial weights R² first .*",
        first,
    )
    assert "R² (0.668" in adaptive
    assert "only the cosine means something" in adaptive
    assert first in contents["emb-mlp"]["answer"]["sentences"]
    table = studies["emb-mlp"].tables["agreement"].assign(step=np.nan, fraction=np.nan)
    never = replace(studies["emb-mlp"], tables={**studies["emb-mlp"].tables, "agreement": table})
    content = report_content(never)["theory"]
    begun = last.split(" Given the weights")[0]
    known = re.search(r" With each token's position known too, R² as learning begins is [^]]*\]\.", last)[0]
    told = "Given the weights of each step, R² is never below .90. With the initial weights R² is never below .90."
    assert content["sentences"][2] == f"{begun} {told}{known} It is never below .90."
    assert {row["falls"]["cos"] for row in content["rows"]} == {"never (5 seeds)"}


def test_the_short_answer_names_claims_and_says_why(studies, contents):
    evidence = studies["emb-mlp"]
    answer = contents["emb-mlp"]["answer"]
    assert {c["id"]: c["verdict"] for c in evidence.claims} == {
        name: verdict for verdict, names in answer["named"].items() for name in names
    }
    assert "named" not in contents["anchor"]["answer"]
    page = visible(page_of(contents["emb-mlp"]))
    for verdict, names in answer["named"].items():
        assert not names or f"{verdict} {', '.join(names)}" in page
    t1 = next(claim for claim in evidence.claims if claim["id"] == "T1")
    r2, excess = t1["parts"]
    unsure = {**excess, "verdict": "UNDECIDED", "effect": r2["effect"] - 0.89, "low": 0.01, "high": 0.15}
    failed = {
        "id": "T4",
        "verdict": "FAILS",
        "parts": [{**r2, "effect": 0.89854, "low": 0.89756, "high": 0.89953}, excess],
    }
    changed = [{**t1, "verdict": "UNDECIDED", "parts": [r2, unsure]}, failed]
    told = " ".join(theory_answer(replace(evidence, claims=changed)))
    assert "Permuted predictions already reach 0.890, so at most 0.110 can be gained: the second part asks" in told
    assert "T4 (FAILS): R² is 0.899 [0.898, 0.8995] (≥ .90: " in told
    assert "it is 1/(q(L − q)) = 0.500 at q = 2, L = 3." in told.replace("\xa0", " ")
    assert "can reach 1 − 0.333² = 0.889; with the actual share R² is 0.99" in told.replace("\xa0", " ")
    holds = [{**claim, "verdict": "HOLDS"} for claim in changed]
    assert "0.889" not in " ".join(theory_answer(replace(evidence, claims=holds)))


def test_the_share_at_the_last_position_is_that_of_the_rows():
    task = AnchorTask(length=5, n_sequences=20000)
    tokens = task.dataset(0).tokens
    anchors = (tokens >= 1) & (tokens <= 15) & ~((tokens > 5) & (tokens < 11))
    assert anchors[:, -1].sum() / anchors.sum() == pytest.approx(last_position(task)[0], abs=0.01)


def test_tables_say_which_rates_a_part_lacks(studies, contents):
    notes = {row["part"]: row["note"] for row in contents["emb-mlp"]["theory"]["rows"]}
    assert notes["descent"] == ""
    assert notes["one_layer"] == "trained at 4 of the study's 8 rates"
    assert "only the cosine means something" in notes["sweep"]
    assert f"({notes['sweep']})" in visible(page_of(contents["emb-mlp"]))


def test_the_labels_answer_says_what_else_differs(studies):
    evidence = studies["labels"]

    def told(accuracy: dict[str, list[float]]) -> str:
        readings = evidence.readings.copy()
        for part, by_seed in accuracy.items():
            for seed, value in enumerate(by_seed):
                for quantity, shown in (("acc_mem", 0.1), ("acc_rsn_train", value)):
                    here = (readings["part"] == part) & (readings["quantity"] == quantity) & (readings["seed"] == seed)
                    readings.loc[here, "value"] = shown
        return " ".join(label_sentences(replace(evidence, readings=readings)))

    slowed = told({"keys": [0.9, 0.9, 0.8, 0.9, 0.8], "near_sum": [0.6, 0.5, 0.5, 0.6, 0.4]})
    assert "memory is 0.10 [0.10, 0.10] for mem1 and 0.10 [0.10, 0.10] for mem2: memory is learned in neither" in slowed
    assert "0.86 [0.79, 0.93] beside mem1 and 0.52 [0.42, 0.62] beside mem2, a difference of 0.34 [" in slowed
    assert "memory labels near the key slow the rule in these runs" in slowed
    assert "with each loss divided by the entropy of its labels the index is " in slowed
    assert "0.52 in group 1, 0.79 in group 2, 0.94 in group 3, 1.00 in group 4" in slowed
    alike = told({"keys": [0.9, 0.9, 0.8, 0.9, 0.8], "near_sum": [0.9, 0.9, 0.8, 0.8, 0.8]})
    assert "slow the rule" not in alike
    assert "it is lower beside mem2 in 1 of 5 seeds" in alike


def test_areas_and_shares_are_the_readings(studies, contents):
    speed, final, inside = contents["labels"]["label_ranges"]
    readings = studies["labels"].readings
    for block, probe in ((speed, "label_speed"), (inside, "label_range")):
        for row in block["rows"]:
            here = readings[(readings["probe"] == probe) & (readings["quantity"] == row["quantity"])].set_index("seed")
            assert list(row["by_seed"].values()) == pytest.approx(here["value"].sort_index().tolist())
            assert row["mean"] == pytest.approx(here["value"].mean())
    parts = [part_of(studies["labels"], name) for name in ("keys", "near_sum")]
    for row, part in zip(final["rows"], parts * 2, strict=True):
        values = part.values("learning_order", row["quantity"], 0.8)
        assert list(row["by_seed"].values()) == pytest.approx(values.tolist())
    assert [row["quantity"] for row in inside["rows"][:4]] == [f"inside_{group}" for group in (1, 2, 3, 4)]


@pytest.mark.parametrize("study", ["emb-mlp", "labels", "language"])
def test_a_study_that_was_not_read_says_what_reads_it(study, studies):
    empty = {"tables": {}, "claims": [], "readings": studies[study].readings.iloc[:0], "parts": {}}
    page = visible(page_of(report_content(replace(studies[study], **empty))))
    assert "“rb-interp probe RUN” makes" in page
    assert not re.search(r"\b(nan|None|inf)\b", page)


def test_the_terminal_shows_the_new_claims(studies):
    stream = StringIO()
    print_verdicts(studies["emb-mlp"].claims, Console(file=stream, width=140))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    named = [line.split()[0] for line in lines if re.match(r"[BT]\d ", line)]
    assert named == [claim.id for claim in claims_of("emb-mlp")]
    assert "cal." not in stream.getvalue()
